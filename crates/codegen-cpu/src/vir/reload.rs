//! Reads again what would be kept in a register for too long.
//!
//! The builder makes every load once, also where taps of a window that meet the same element lie far apart. If more
//! vectors are alive than the machine has registers, the allocator spills, and what it spills may as well be an
//! accumulator: a store and a load in every turn of the innermost loop. Another load costs just that. So a walk through
//! each block keeps count, and when registers run out it lets go of the loaded value that is needed last (Belady, "A
//! study of replacement algorithms", 1966), which is read again where it is needed.
//!
//! Loops and branches inside a block are opaque to it: they have walks of their own. What a loop reads in front of its
//! first turn, since it reads the same in each, may be more than there are registers as well. As much of it is read in
//! the loop instead as makes for the fewest loads in a turn ([`Pass::sunk`]).

use super::{Block, Elem, Function, Inst, Op, Type, Value, dce, fresh};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The vector registers of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// How many there are.
    pub vectors: usize,
    /// Whether masks of several lanes live in them, too.
    pub hold_masks: bool,
}

impl Registers {
    /// Whether values of a type live in vector registers.
    pub(super) const fn hold(self, ty: Type) -> bool {
        match ty.elem {
            Elem::Mask => self.hold_masks && ty.lanes > 1,
            Elem::F32 | Elem::F64 => true,
            _ => ty.lanes > 1,
        }
    }
}

/// Loads that a turn saves for each register that it does not lack: what is spilled is written, too.
const SPILL_LOADS: usize = 2;

/// Rewrites all blocks. Every vector must fit into one register.
pub fn run(function: &mut Function, registers: Registers) {
    let mut constants = BTreeSet::new();
    let mut invariant = HashMap::new();
    function.body.for_each_inst(&mut |inst| match inst {
        Inst::Op { result, op: Op::Const(_) } => _ = constants.insert(*result),
        Inst::Op { result, op } if matches!(op, Op::Lanes(_)) || op.is_invariant_load() => {
            invariant.insert(*result, op.clone());
        }
        _ => {}
    });
    let mut pass = Pass { types: std::mem::take(&mut function.types), registers, constants, invariant };
    pass.block(&mut function.body, &[], false);
    function.types = pass.types;
    dce::run(function);
}

struct Pass {
    types: Vec<Type>,
    registers: Registers,
    /// Emitters make them where they are used.
    constants: BTreeSet<Value>,
    /// Loads that may be made again anywhere behind their first place.
    invariant: HashMap<Value, Op>,
}

/// What a walk knows of a value that is in a register or was let go.
#[derive(Clone)]
struct Held {
    /// Where the block uses it, last use first; only those to come.
    uses: Vec<usize>,
    /// How to read it again.
    load: Option<Again>,
}

/// A load that may be repeated.
#[derive(Clone)]
struct Again {
    op: Op,
    /// What had been written when it was read first, if writing matters.
    writes: Option<usize>,
}

/// A block under scrutiny: what each value is used for, by place.
struct Walk {
    /// By value: the places that use it, in order.
    uses: HashMap<Value, Vec<usize>>,
    /// By place: how many instructions that may write memory come before it.
    writes: Vec<usize>,
}

/// What a walk through a block decided.
#[derive(Default)]
struct Plan {
    /// What is read again in front of which place, in order.
    again: Vec<(usize, Value, Op)>,
    /// By how many values at most the registers did not suffice all the same.
    lacking: usize,
}

impl Plan {
    fn cost(&self) -> usize {
        self.again.len() + SPILL_LOADS * self.lacking
    }
}

impl Pass {
    fn occupies(&self, value: Value) -> bool {
        self.registers.hold(self.types[value.0 as usize]) && !self.constants.contains(&value)
    }

    /// `carried` are the values that a loop hands to its body.
    fn block(&mut self, block: &mut Block, carried: &[Value], is_loop: bool) {
        for inst in &mut block.insts {
            match inst {
                Inst::Loop(l) => {
                    let carried: Vec<Value> = l.carried.iter().map(|&(inside, _)| inside).collect();
                    self.block(&mut l.body, &carried, true);
                }
                Inst::If { then, otherwise, .. } => {
                    self.block(then, &[], false);
                    self.block(otherwise, &[], false);
                }
                _ => {}
            }
        }
        let walk = self.survey(block);
        let held = self.at_entry(block, &walk, carried, is_loop);
        let plan = match is_loop {
            true => self.sunk(block, &walk, held),
            false => self.plan(block, &walk, held, BTreeMap::new()),
        };
        self.rewrite(block, plan);
    }

    /// The plan of a loop's body that reads least, by how much of what the loop reads in front is read in it.
    fn sunk(&self, block: &Block, walk: &Walk, mut held: BTreeMap<Value, Held>) -> Plan {
        let mut best = self.plan(block, walk, held.clone(), BTreeMap::new());
        let mut candidates: Vec<(usize, Value)> = held
            .keys()
            .filter(|value| self.invariant.contains_key(value))
            .filter_map(|&value| Some((*walk.uses.get(&value)?.first()?, value)))
            .filter(|&(first, _)| first < block.insts.len())
            .collect();
        // What is needed last is missed least.
        candidates.sort_unstable();
        let mut sunk = BTreeMap::new();
        while best.cost() > sunk.len()
            && let Some((_, value)) = candidates.pop()
        {
            let mut uses = held.remove(&value).expect("candidates are held").uses;
            uses.retain(|&at| at < block.insts.len() || block.yields.contains(&value));
            let load = Some(Again { op: self.invariant[&value].clone(), writes: None });
            sunk.insert(value, Held { uses, load });
            let plan = self.plan(block, walk, held.clone(), sunk.clone());
            if plan.cost() < best.cost() {
                best = plan;
            }
        }
        best
    }

    /// Walks through a block whose values in registers are `held`; what is `gone` is read where it is needed.
    fn plan(
        &self,
        block: &Block,
        walk: &Walk,
        mut held: BTreeMap<Value, Held>,
        mut gone: BTreeMap<Value, Held>,
    ) -> Plan {
        let mut plan = Plan::default();
        held.retain(|_, held| !held.uses.is_empty());
        // Of what is held, what can be loaded again: mostly little of it.
        let mut loads: BTreeSet<Value> =
            held.iter().filter(|(_, held)| held.load.is_some()).map(|(&value, _)| value).collect();
        for (place, inst) in block.insts.iter().enumerate() {
            let mut wanted = Vec::new();
            let mut note = |value: Value| wanted.push(value);
            inst.for_each_use(&mut note);
            for inside in inst.blocks() {
                inside.for_each_inst(&mut |inst| inst.for_each_use(&mut note));
            }
            for value in wanted {
                if let Some(again) = gone.remove(&value) {
                    let op = again.load.clone().expect("only what can be loaded is let go").op;
                    plan.again.push((place, value, op));
                    held.insert(value, again);
                    loads.insert(value);
                }
                // Only what is used here has a use less.
                let Some(used) = held.get_mut(&value) else { continue };
                while used.uses.last().is_some_and(|&at| at <= place) {
                    used.uses.pop();
                }
                if used.uses.is_empty() {
                    held.remove(&value);
                    loads.remove(&value);
                }
            }
            inst.for_each_result(|value| {
                if self.occupies(value)
                    && let Some(uses) = walk.uses.get(&value)
                {
                    let load = match inst {
                        Inst::Op {
                            op: op @ (Op::Load { invariant, .. } | Op::LoadSplat { invariant, .. }), ..
                        } => Some(Again { op: op.clone(), writes: (!invariant).then_some(walk.writes[place]) }),
                        _ => None,
                    };
                    if load.is_some() {
                        loads.insert(value);
                    }
                    held.insert(value, Held { uses: uses.iter().rev().copied().collect(), load });
                }
            });
            while held.len() > self.registers.vectors {
                let candidates = loads.iter().filter_map(|value| held.get_key_value(value));
                let last = candidates
                    .filter(|(_, h)| walk.may_reload(h, place))
                    .max_by_key(|(_, h)| h.uses.last())
                    .map(|c| *c.0);
                let Some(last) = last else { break };
                gone.extend(held.remove_entry(&last));
                loads.remove(&last);
            }
            plan.lacking = plan.lacking.max(held.len().saturating_sub(self.registers.vectors));
        }
        plan
    }

    /// Puts the loads of a plan into its block.
    fn rewrite(&mut self, block: &mut Block, plan: Plan) {
        let mut again = plan.again.into_iter().peekable();
        let mut renamed: HashMap<Value, Value> = HashMap::new();
        let mut insts = Vec::with_capacity(block.insts.len());
        for (place, mut inst) in block.insts.drain(..).enumerate() {
            while let Some((_, value, op)) = again.next_if(|&(at, ..)| at == place) {
                let copy = self.fresh(value);
                insts.push(Inst::Op { result: copy, op });
                renamed.insert(value, copy);
            }
            inst.map_all_uses(&mut |value| renamed.get(&value).copied().unwrap_or(value));
            insts.push(inst);
        }
        block.insts = insts;
        for value in &mut block.yields {
            *value = renamed.get(value).copied().unwrap_or(*value);
        }
    }

    /// Where the values of a block are used.
    fn survey(&self, block: &Block) -> Walk {
        let mut walk = Walk { uses: HashMap::new(), writes: Vec::with_capacity(block.insts.len() + 1) };
        let mut writes = 0;
        for (place, inst) in block.insts.iter().enumerate() {
            // A store uses its operands before it writes; what a loop or branch does inside has no place of its own.
            writes += usize::from(matches!(inst, Inst::Loop(_) | Inst::If { .. }));
            walk.writes.push(writes);
            writes += usize::from(inst.writes_memory());
            let mut note = |value: Value| {
                let uses = walk.uses.entry(value).or_default();
                if uses.last() != Some(&place) {
                    uses.push(place);
                }
            };
            inst.for_each_use(&mut note);
            for inside in inst.blocks() {
                inside.for_each_inst(&mut |inst| inst.for_each_use(&mut note));
            }
        }
        walk.writes.push(writes);
        for value in &block.yields {
            walk.uses.entry(*value).or_default().push(block.insts.len());
        }
        walk
    }

    /// What is in registers when the block begins: what it uses from outside, which a loop needs again in its next
    /// turn, and what a loop carries.
    fn at_entry(&self, block: &Block, walk: &Walk, carried: &[Value], is_loop: bool) -> BTreeMap<Value, Held> {
        let mut own = BTreeSet::new();
        block.for_each_inst(&mut |inst| {
            inst.for_each_result(|value| _ = own.insert(value));
            if let Inst::Loop(l) = inst {
                own.extend(l.carried.iter().map(|&(inside, _)| inside));
            }
        });
        let mut held = BTreeMap::new();
        for (&value, uses) in walk.uses.iter().filter(|(value, _)| !own.contains(value) && self.occupies(**value)) {
            let mut uses: Vec<usize> = uses.iter().rev().copied().collect();
            if is_loop && !carried.contains(&value) {
                uses.insert(0, block.insts.len());
            }
            held.insert(value, Held { uses, load: None });
        }
        held
    }

    fn fresh(&mut self, like: Value) -> Value {
        let ty = self.types[like.0 as usize];
        fresh(&mut self.types, ty)
    }
}

impl Walk {
    /// Whether a value that is not needed at the very next place can be read again at its next use, which must not be
    /// what the block hands on: nothing may have written the memory between its first reading and its last use.
    fn may_reload(&self, held: &Held, place: usize) -> bool {
        let (Some(again), Some(&next)) = (&held.load, held.uses.last()) else { return false };
        let block_end = self.writes.len() - 1;
        let unchanged = |at: &usize| again.writes.is_none_or(|writes| self.writes[*at] == writes);
        next > place + 1 && next < block_end && held.uses.iter().all(unchanged)
    }
}
