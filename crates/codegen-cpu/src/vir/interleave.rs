//! Long chains of dependent operations take turns.
//!
//! Unrolled, the vectors of an elementwise function stand one behind the other, each a chain in which every operation
//! waits for the last. A core looks ahead some hundred instructions, of which those of `exp` fill a quarter: it sees too
//! few chains at once to be busy. So a straight line of code with chains that long is put into another order by list
//! scheduling (Gibbons and Muchnick, "Efficient instruction scheduling for a pipelined architecture", 1986): what could
//! start first comes first, older chains before younger ones, and no more values are alive than there are registers.
//! Loads and addresses come right before what needs them. Lines that hold too much of what they read are put into the
//! order of memory first ([`passing`]).

use super::line::{Count, Kinds, Line, Walk};
use super::reload::Registers;
use super::{Block, Function, Inst, Op, Value, hold, passing};
use std::collections::{HashMap, HashSet};

/// Cycles of a chain from which on the core loses sight of the next ones.
const LONG_CHAIN: u64 = 28;

/// Vector registers that are left alone: for constants, and copies of operands that instructions overwrite.
const RESERVED: usize = 3;

/// Registers that are free when another chain begins: in its middle a chain needs more than at its start.
const HEADROOM: usize = 2;

/// The part of the registers that constants may have ([`hold`]), by measurement: with more, too few chains take turns.
const CONSTANTS_SHARE: (usize, usize) = (3, 8);

/// Masks that have registers of their own, where they do not take those of vectors.
const MASKS: usize = 5;

/// Puts straight lines of code into order. `per_cycle` vector operations start in a cycle.
pub fn run(function: &mut Function, registers: Registers, per_cycle: u64) {
    let mut constants = HashSet::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op: Op::Const(_) } = inst {
            constants.insert(*result);
        }
    });
    let kinds = Kinds { types: &function.types, constants, hold_masks: registers.hold_masks };
    let pass = Pass { kinds, registers: registers.vectors, limits: [registers.vectors - RESERVED, MASKS], per_cycle };
    pass.block(&mut function.body);
}

struct Pass<'a> {
    kinds: Kinds<'a>,
    registers: usize,
    limits: Count,
    per_cycle: u64,
}

impl Pass<'_> {
    fn block(&self, block: &mut Block) {
        let mut used_later: HashMap<Value, usize> = HashMap::new();
        for (place, inst) in block.insts.iter().enumerate() {
            let mut note = |value: Value| _ = used_later.insert(value, place);
            inst.for_each_use(&mut note);
            for inside in inst.blocks() {
                inside.for_each_inst(&mut |inst| inst.for_each_use(&mut note));
            }
        }
        block.yields.iter().for_each(|&value| _ = used_later.insert(value, usize::MAX));
        let mut insts = Vec::with_capacity(block.insts.len());
        let mut line = Vec::new();
        let mut end = 0;
        for (place, mut inst) in block.insts.drain(..).enumerate() {
            match &mut inst {
                Inst::Op { .. } | Inst::Store { .. } | Inst::Prefetch { .. } => {
                    line.push(inst);
                    end = place;
                    continue;
                }
                Inst::Loop(l) => self.block(&mut l.body),
                Inst::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                Inst::Scatter { .. } | Inst::Tile(_) => {}
            }
            self.line(&mut line, end, &used_later);
            insts.append(&mut line);
            insts.push(inst);
        }
        self.line(&mut line, end, &used_later);
        insts.append(&mut line);
        block.insts = insts;
    }

    /// Reorders a line that ends at a place of its block.
    fn line(&self, insts: &mut Vec<Inst>, end: usize, used_later: &HashMap<Value, usize>) {
        if insts.len() < 2 {
            return;
        }
        let line = self.kinds.survey(insts, end, used_later);
        if let Some(order) = passing::order(insts, &line, self.registers) {
            put_in_order(insts, order);
            return;
        }
        let mut start = vec![0u64; insts.len()];
        for n in 0..insts.len() {
            start[n] = line.before[n].iter().map(|&b| start[b] + line.latency[b]).max().unwrap_or(0);
        }
        let longest = (0..insts.len()).map(|n| start[n] + line.latency[n]).max().unwrap_or(0);
        if longest < LONG_CHAIN {
            return;
        }
        put_in_order(insts, self.order(&line, self.for_constants(insts, &line)));
    }

    /// Registers that chains leave to the constants they read, unless what comes from outside takes most of them.
    fn for_constants(&self, insts: &[Inst], line: &Line) -> usize {
        if line.outside[0] > self.registers / 2 {
            return 0;
        }
        let mut constants = HashSet::new();
        for inst in insts {
            if let Inst::Op { op, .. } = inst
                && hold::reads_constants(op)
            {
                let held = |&value: &Value| {
                    self.kinds.constants.contains(&value) && self.kinds.types[value.0 as usize].lanes > 1
                };
                op.for_each_operand(|value| constants.extend(Some(value).filter(held)));
            }
        }
        constants.len().min(self.registers * CONSTANTS_SHARE.0 / CONSTANTS_SHARE.1)
    }

    /// Cycle by cycle, what can start, the oldest first, as long as its result has a register that is not for constants.
    fn order(&self, line: &Line, for_constants: usize) -> Vec<usize> {
        let limits = [self.limits[0] - for_constants, self.limits[1]];
        let mut walk = Walk::new(line);
        let (mut cycle, mut started) = (0u64, 0u64);
        while let Some(&oldest) = walk.ready.first() {
            let fits = |i: usize| {
                let (takes, frees) = (walk.takes(i), walk.frees(i));
                let headroom = if walk.begins(i) { HEADROOM } else { 0 };
                (0..2).all(|k| takes[k] == 0 || walk.live[k] + takes[k] + headroom <= limits[k] + frees[k])
            };
            let next = walk.ready.iter().copied().find(|&i| walk.ready_at[i] <= cycle && fits(i));
            let later = walk.ready.iter().copied().filter(|&i| walk.ready_at[i] > cycle && fits(i));
            let chosen = match (next, later.map(|i| walk.ready_at[i]).min()) {
                (Some(i), _) => i,
                (None, Some(at)) => {
                    (cycle, started) = (at, 0);
                    continue;
                }
                // Nothing fits: the oldest chain goes on, and something is spilled or read again.
                (None, None) => oldest,
            };
            walk.ready.remove(&chosen);
            walk.emit(chosen);
            walk.release(chosen, cycle.max(walk.ready_at[chosen]) + line.latency[chosen]);
            if line.makes[chosen].is_some() {
                started += 1;
                if started >= self.per_cycle {
                    (cycle, started) = (cycle + 1, 0);
                }
            }
        }
        walk.finish()
    }
}

fn put_in_order(insts: &mut Vec<Inst>, order: Vec<usize>) {
    let mut slots: Vec<Option<Inst>> = insts.drain(..).map(Some).collect();
    insts.extend(order.into_iter().filter_map(|n| slots[n].take()));
}
