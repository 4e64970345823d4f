//! Reads again what would be kept in a register for too long.
//!
//! The builder makes every load once, also where taps of a window that meet the same element lie far apart. If more
//! vectors are alive than the machine has registers, the allocator spills, and what it spills may as well be an
//! accumulator: a store and a load in every turn of the innermost loop. Another load costs just that. So a walk through
//! each block keeps count, and when registers run out it lets go of the loaded value that is needed last (Belady, "A
//! study of replacement algorithms", 1966), which is read again where it is needed.
//!
//! Loops and branches inside a block are opaque to it: they have walks of their own.

use super::{Block, Elem, Function, Inst, Op, Type, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The vector registers of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// How many there are.
    pub vectors: usize,
    /// Whether masks of several lanes live in them, too.
    pub hold_masks: bool,
}

/// Rewrites all blocks. Every vector must fit into one register.
pub fn run(function: &mut Function, registers: Registers) {
    let mut constants = BTreeSet::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op: Op::Const(_) } = inst {
            constants.insert(*result);
        }
    });
    let mut pass = Pass { types: std::mem::take(&mut function.types), registers, constants };
    pass.block(&mut function.body, &[], false);
    function.types = pass.types;
}

struct Pass {
    types: Vec<Type>,
    registers: Registers,
    /// Emitters make them where they are used.
    constants: BTreeSet<Value>,
}

/// What a walk knows of a value that is in a register or was let go.
struct Held {
    /// Where the block uses it, last use first; only those to come.
    uses: Vec<usize>,
    /// How to read it again, and what had been written when it was read first.
    load: Option<(Op, usize)>,
}

/// A block under scrutiny: what each value is used for, by place.
struct Walk {
    /// By value: the places that use it, in order.
    uses: HashMap<Value, Vec<usize>>,
    /// By place: how many instructions that may write memory come before it.
    writes: Vec<usize>,
}

impl Pass {
    fn occupies(&self, value: Value) -> bool {
        let ty = self.types[value.0 as usize];
        let is_vector = match ty.elem {
            Elem::Mask => self.registers.hold_masks && ty.lanes > 1,
            Elem::F32 | Elem::F64 => true,
            _ => ty.lanes > 1,
        };
        is_vector && !self.constants.contains(&value)
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
        let mut held = self.at_entry(block, &walk, carried, is_loop);
        let mut gone: BTreeMap<Value, Held> = BTreeMap::new();
        let mut renamed: HashMap<Value, Value> = HashMap::new();
        let mut insts = Vec::with_capacity(block.insts.len());
        for (place, mut inst) in block.insts.drain(..).enumerate() {
            let mut wanted = Vec::new();
            inst.for_each_use(|value| wanted.push(value));
            for value in &wanted {
                if let Some(again) = gone.remove(value) {
                    let (op, _) = again.load.clone().expect("only what can be loaded is let go");
                    let copy = self.fresh(*value);
                    insts.push(Inst::Op { result: copy, op });
                    renamed.insert(*value, copy);
                    held.insert(*value, again);
                }
            }
            inst.map_uses(|value| renamed.get(&value).copied().unwrap_or(value));
            held.retain(|_, held| {
                while held.uses.last().is_some_and(|&at| at <= place) {
                    held.uses.pop();
                }
                !held.uses.is_empty()
            });
            inst.for_each_result(|value| {
                if self.occupies(value)
                    && let Some(uses) = walk.uses.get(&value)
                {
                    let load = match &inst {
                        Inst::Op { op: op @ (Op::Load { .. } | Op::LoadSplat { .. }), .. } => {
                            Some((op.clone(), walk.writes[place]))
                        }
                        _ => None,
                    };
                    held.insert(value, Held { uses: uses.iter().rev().copied().collect(), load });
                }
            });
            insts.push(inst);
            while held.len() > self.registers.vectors {
                let last = held.iter().filter(|(_, h)| walk.may_reload(h, place)).max_by_key(|(_, h)| h.uses.last());
                let Some((&last, _)) = last else { break };
                gone.extend(held.remove_entry(&last));
            }
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
            writes += usize::from(matches!(inst, Inst::Store { .. } | Inst::Scatter { .. } | Inst::Barrier));
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
        let value = Value(u32::try_from(self.types.len()).expect("fewer than 2³² values"));
        self.types.push(self.types[like.0 as usize]);
        value
    }
}

impl Walk {
    /// Whether a value that is not needed at the very next place can be read again at its next use, which must not be
    /// what the block hands on: nothing may have written memory between its first reading and its last use.
    fn may_reload(&self, held: &Held, place: usize) -> bool {
        let (Some((_, writes)), Some(&next)) = (&held.load, held.uses.last()) else { return false };
        let block_end = self.writes.len() - 1;
        next > place + 1 && next < block_end && held.uses.iter().all(|&at| self.writes[at] == *writes)
    }
}
