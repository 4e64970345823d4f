//! Keeps constants in registers that nothing else needs.
//!
//! Emitters read a constant from memory where it is used, which costs no instruction but one of the two loads that a core
//! starts in a cycle: of the 18 loads that `exp` takes per vector, 15 are constants, and with 512-bit vectors they bound it.
//! So where registers are left over, constants stay in them: all the way around a loop, the ones that it uses most first,
//! or from one use to the next, the nearest pairs first. Comes last, when everything that has to be in a register is known.

use super::reload::Registers;
use super::{BinaryOp, Block, Elem, Function, Inst, Op, Type, Value, fresh};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Registers that stay free: for copies of operands that instructions overwrite, and what the allocator does not see.
const SPARE: usize = 2;

/// Rewrites all blocks. Every vector must fit into one register.
pub fn run(function: &mut Function, registers: Registers) {
    let mut constants = HashMap::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op: Op::Const(bits) } = inst {
            constants.insert(*result, *bits);
        }
    });
    let mut pass = Pass { types: std::mem::take(&mut function.types), registers, constants };
    let done = pass.block(&mut function.body, 0, &[], false);
    debug_assert!(done.in_front.is_empty(), "only loops have something in front of them");
    function.types = pass.types;
}

struct Pass {
    types: Vec<Type>,
    registers: Registers,
    /// Constants by their bits.
    constants: HashMap<Value, u64>,
}

/// What became of a block.
struct Done {
    /// The most vectors in registers at once.
    most: usize,
    /// What a loop holds throughout, to be made in front of it.
    in_front: Vec<Inst>,
}

/// A constant in a register, from the first of some places that use it to the last.
struct Stay {
    constant: Value,
    places: Vec<usize>,
}

impl Pass {
    fn occupies(&self, value: Value) -> bool {
        self.registers.hold(self.types[value.0 as usize]) && !self.constants.contains_key(&value)
    }

    /// `through` vectors from outside are in registers all the time; `carried` are the values that a loop hands to its
    /// body.
    fn block(&mut self, block: &mut Block, through: usize, carried: &[Value], is_loop: bool) -> Done {
        let (mut alive, mut around) = self.pressure(block, carried);
        let mut in_front: BTreeMap<usize, Vec<Inst>> = BTreeMap::new();
        for (place, inst) in block.insts.iter_mut().enumerate() {
            alive[place] += through;
            around[place] += through;
            match inst {
                Inst::Loop(l) => {
                    let carried: Vec<Value> = l.carried.iter().map(|&(inside, _)| inside).collect();
                    let done = self.block(&mut l.body, around[place], &carried, true);
                    alive[place] = alive[place].max(done.most);
                    in_front.insert(place, done.in_front);
                }
                Inst::If { then, otherwise, .. } => {
                    for branch in [then, otherwise] {
                        let done = self.block(branch, around[place], &[], false);
                        alive[place] = alive[place].max(done.most);
                    }
                }
                _ => {}
            }
        }
        let mut uses = self.uses(block);
        let mut held = Vec::new();
        if is_loop {
            let peak = alive.iter().copied().max().unwrap_or(0);
            for (constant, places) in self.throughout(&mut uses, peak) {
                let (value, inst) = self.make(constant);
                rename(block, &places, constant, value);
                held.push(inst);
            }
            alive.iter_mut().for_each(|alive| *alive += held.len());
        }
        for stay in self.stays(&uses, &mut alive) {
            let (value, inst) = self.make(stay.constant);
            rename(block, &stay.places, stay.constant, value);
            in_front.entry(stay.places[0]).or_default().push(inst);
        }
        let mut insts = Vec::with_capacity(block.insts.len());
        for (place, inst) in block.insts.drain(..).enumerate() {
            insts.extend(in_front.remove(&place).unwrap_or_default());
            insts.push(inst);
        }
        block.insts = insts;
        Done { most: alive.into_iter().max().unwrap_or(through), in_front: held }
    }

    /// By place: how many vectors of the block's own are in registers; and for what has blocks of its own, how many stay
    /// there around these.
    fn pressure(&self, block: &Block, carried: &[Value]) -> (Vec<usize>, Vec<usize>) {
        let mut own: BTreeSet<Value> = carried.iter().copied().collect();
        block.insts.iter().for_each(|inst| inst.for_each_result(|value| _ = own.insert(value)));
        own.retain(|&value| self.occupies(value));
        let mut live: BTreeSet<Value> = block.yields.iter().copied().filter(|value| own.contains(value)).collect();
        let (mut alive, mut around) = (vec![0; block.insts.len()], vec![0; block.insts.len()]);
        for (place, inst) in block.insts.iter().enumerate().rev() {
            let after = live.len();
            inst.for_each_result(|value| _ = live.remove(&value));
            for inside in inst.blocks() {
                let mut note = |value: Value| {
                    if own.contains(&value) {
                        live.insert(value);
                    }
                };
                inside.yields.iter().copied().for_each(&mut note);
                inside.for_each_inst(&mut |inst| inst.for_each_use(&mut note));
            }
            around[place] = live.len();
            inst.for_each_use(|value| {
                if own.contains(&value) {
                    live.insert(value);
                }
            });
            alive[place] = after.max(live.len());
        }
        (alive, around)
    }

    /// The places that would read each constant from memory.
    fn uses(&self, block: &Block) -> BTreeMap<Value, Vec<usize>> {
        let mut uses: BTreeMap<Value, Vec<usize>> = BTreeMap::new();
        for (place, inst) in block.insts.iter().enumerate() {
            let Inst::Op { op, .. } = inst else { continue };
            if !reads_constants(op) {
                continue;
            }
            op.for_each_operand(|value| {
                let ty = self.types[value.0 as usize];
                let is_read = self.constants.get(&value).is_some_and(|&bits| bits != 0);
                if is_read && ty.lanes > 1 && ty.elem != Elem::Mask {
                    let places = uses.entry(value).or_default();
                    if places.last() != Some(&place) {
                        places.push(place);
                    }
                }
            });
        }
        uses
    }

    /// Takes those constants that a loop has registers for all the time.
    fn throughout(&self, uses: &mut BTreeMap<Value, Vec<usize>>, peak: usize) -> Vec<(Value, Vec<usize>)> {
        let mut order: Vec<(usize, Value)> = uses.iter().map(|(&value, places)| (places.len(), value)).collect();
        order.sort_unstable_by_key(|&(count, value)| (std::cmp::Reverse(count), value));
        order.truncate(self.registers.vectors.saturating_sub(peak + SPARE));
        order.into_iter().filter_map(|(_, value)| uses.remove_entry(&value)).collect()
    }

    /// Which constants stay from one use to the next, and `alive` with them.
    fn stays(&self, uses: &BTreeMap<Value, Vec<usize>>, alive: &mut [usize]) -> Vec<Stay> {
        let limit = self.registers.vectors.saturating_sub(SPARE);
        let mut gaps: Vec<(usize, usize, Value)> = uses
            .iter()
            .flat_map(|(&value, places)| places.windows(2).map(move |pair| (pair[1] - pair[0], pair[0], value)))
            .collect();
        gaps.sort_unstable();
        let mut kept: BTreeSet<(Value, usize)> = BTreeSet::new();
        for (length, first, value) in gaps {
            let between = &mut alive[first..=first + length];
            if between.iter().all(|&alive| alive < limit) {
                between.iter_mut().for_each(|alive| *alive += 1);
                kept.insert((value, first));
            }
        }
        let mut stays = Vec::new();
        for (&constant, places) in uses {
            let mut run: Vec<usize> = Vec::new();
            for &place in places {
                run.push(place);
                if !kept.contains(&(constant, place)) {
                    let places = std::mem::take(&mut run);
                    if places.len() > 1 {
                        stays.push(Stay { constant, places });
                    }
                }
            }
        }
        stays
    }

    /// A constant in a register, and the instruction that puts it there.
    fn make(&mut self, constant: Value) -> (Value, Inst) {
        let ty = self.types[constant.0 as usize];
        let result = fresh(&mut self.types, ty);
        let lanes = vec![self.constants[&constant]; usize::from(ty.lanes)];
        (result, Inst::Op { result, op: Op::Lanes(lanes.into()) })
    }
}

/// Lets some places use another value.
fn rename(block: &mut Block, places: &[usize], from: Value, to: Value) {
    for &place in places {
        block.insts[place].map_uses(|value| if value == from { to } else { value });
    }
}

/// Whether an operation takes constants from registers or memory, rather than from its own encoding.
pub(super) const fn reads_constants(op: &Op) -> bool {
    match op {
        Op::Binary(kind, ..) => !matches!(kind, BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU),
        Op::Fma(..) | Op::Compare(..) | Op::Select(..) => true,
        _ => false,
    }
}
