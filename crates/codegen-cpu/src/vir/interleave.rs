//! Long chains of dependent operations take turns.
//!
//! Unrolled, the vectors of an elementwise function stand one behind the other, each a chain in which every operation
//! waits for the last. A core looks ahead some hundred instructions, of which those of `exp` fill a quarter: it sees too
//! few chains at once to be busy. So a straight line of code with chains that long is put into another order by list
//! scheduling (Gibbons and Muchnick, "Efficient instruction scheduling for a pipelined architecture", 1986): what could
//! start first comes first, older chains before younger ones, and no more values are alive than there are registers.
//! Loads and addresses come right before what needs them.
//!
//! Operations never pass what they depend on; stores keep their order, and what reads memory that may be written keeps
//! its place between them.

use super::reload::Registers;
use super::{BinaryOp, Block, Elem, Function, Inst, Op, Type, UnaryOp, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Cycles of a chain from which on the core loses sight of the next ones.
const LONG_CHAIN: u64 = 28;

/// Vector registers that are left alone: for constants, and copies of operands that instructions overwrite.
const RESERVED: usize = 3;

/// Registers that are free when another chain begins: in its middle a chain needs more than at its start.
const HEADROOM: usize = 2;

/// Masks that have registers of their own, where they do not take those of vectors.
const MASKS: usize = 5;

/// Registers by kind: of vectors, and of masks.
type Count = [usize; 2];

/// Puts straight lines of code into order. `per_cycle` vector operations start in a cycle.
pub fn run(function: &mut Function, registers: Registers, per_cycle: u64) {
    let mut constants = HashSet::new();
    function.body.for_each_inst(&mut |inst| {
        if let Inst::Op { result, op: Op::Const(_) } = inst {
            constants.insert(*result);
        }
    });
    let limits = [registers.vectors - RESERVED, MASKS];
    let pass = Pass { types: &function.types, constants, limits, hold_masks: registers.hold_masks, per_cycle };
    pass.block(&mut function.body);
}

struct Pass<'a> {
    types: &'a [Type],
    constants: HashSet<Value>,
    limits: Count,
    hold_masks: bool,
    per_cycle: u64,
}

/// A straight line of code: what each instruction waits for, and what waits for it.
struct Line {
    /// Instructions that have to come first, per instruction.
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    latency: Vec<u64>,
    /// Loads and scalar operations: they have no time of their own.
    lazy: Vec<bool>,
    /// Values from outside that are in registers.
    outside: Count,
    /// The kind of register that the result takes.
    makes: Vec<Option<usize>>,
    /// The instructions of the line whose vectors are operands.
    uses: Vec<Vec<usize>>,
    /// How many instructions of the line read the result, and whether something behind the line does.
    readers: Vec<usize>,
    kept: Vec<bool>,
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
                Inst::Scatter { .. } | Inst::Barrier => {}
            }
            self.line(&mut line, end, &used_later);
            insts.append(&mut line);
            insts.push(inst);
        }
        self.line(&mut line, end, &used_later);
        insts.append(&mut line);
        block.insts = insts;
    }

    /// The kind of register that a value takes; `None` for scalars, which are plenty, and constants.
    fn kind(&self, value: Value) -> Option<usize> {
        let ty = self.types[value.0 as usize];
        let own = ty.elem == Elem::Mask && !self.hold_masks;
        (ty.lanes > 1 && !self.constants.contains(&value)).then_some(usize::from(own))
    }

    /// Reorders a line that ends at a place of its block.
    fn line(&self, insts: &mut Vec<Inst>, end: usize, used_later: &HashMap<Value, usize>) {
        if insts.len() < 2 {
            return;
        }
        let line = self.survey(insts, end, used_later);
        let mut start = vec![0u64; insts.len()];
        for n in 0..insts.len() {
            start[n] = line.before[n].iter().map(|&b| start[b] + line.latency[b]).max().unwrap_or(0);
        }
        let longest = (0..insts.len()).map(|n| start[n] + line.latency[n]).max().unwrap_or(0);
        if longest < LONG_CHAIN {
            return;
        }
        let order = self.order(&line);
        let mut slots: Vec<Option<Inst>> = insts.drain(..).map(Some).collect();
        insts.extend(order.into_iter().filter_map(|n| slots[n].take()));
    }

    fn survey(&self, insts: &[Inst], end: usize, used_later: &HashMap<Value, usize>) -> Line {
        let n = insts.len();
        let mut line = Line {
            before: vec![Vec::new(); n],
            after: vec![Vec::new(); n],
            latency: insts.iter().map(|inst| self.latency(inst)).collect(),
            lazy: insts.iter().map(|inst| self.is_lazy(inst)).collect(),
            outside: [0; 2],
            makes: vec![None; n],
            uses: vec![Vec::new(); n],
            readers: vec![0; n],
            kept: vec![false; n],
        };
        let mut made: HashMap<Value, usize> = HashMap::new();
        let mut outside = BTreeSet::new();
        let mut last_store = None;
        let mut reads_since: Vec<usize> = Vec::new();
        for (place, inst) in insts.iter().enumerate() {
            let mut before = BTreeSet::new();
            inst.for_each_use(|value| match made.get(&value) {
                Some(&maker) => _ = before.insert(maker),
                None if self.kind(value).is_some() => _ = outside.insert(value),
                None => {}
            });
            line.uses[place] = before.iter().copied().filter(|&maker| line.makes[maker].is_some()).collect();
            for &maker in &line.uses[place] {
                line.readers[maker] += 1;
            }
            match inst {
                Inst::Store { .. } => {
                    before.extend(last_store.replace(place));
                    before.extend(reads_since.drain(..));
                }
                Inst::Op { result, op } => {
                    if op.reads_memory() && !op.is_invariant_load() {
                        before.extend(last_store);
                        reads_since.push(place);
                    }
                    made.insert(*result, place);
                    line.makes[place] = self.kind(*result).filter(|_| used_later.contains_key(result));
                    line.kept[place] = used_later.get(result).is_some_and(|&at| at > end);
                }
                _ => {}
            }
            for &b in &before {
                line.after[b].push(place);
            }
            line.before[place] = before.into_iter().collect();
        }
        for kind in outside.into_iter().filter_map(|value| self.kind(value)) {
            line.outside[kind] += 1;
        }
        line
    }

    fn is_lazy(&self, inst: &Inst) -> bool {
        let Inst::Op { result, op } = inst else { return false };
        op.reads_memory() || self.types[result.0 as usize].lanes == 1 || matches!(op, Op::Const(_))
    }

    /// Cycles from the start of an instruction to its result, roughly, on processors of the last ten years. A load is part
    /// of what it is an operand of.
    fn latency(&self, inst: &Inst) -> u64 {
        let Inst::Op { result, op } = inst else { return 0 };
        let ty = self.types[result.0 as usize];
        match op {
            _ if op.reads_memory() => 0,
            Op::Const(_) | Op::Param(_) => 0,
            Op::Fma(..) | Op::Dot4(..) | Op::Dot2(..) => 4,
            Op::Binary(BinaryOp::Div, ..) | Op::Unary(UnaryOp::Sqrt, _) if ty.elem.is_float() => 13,
            Op::Binary(BinaryOp::Mul, ..) => 4,
            Op::Convert(..) | Op::Compare(..) | Op::Permute(..) | Op::Join(..) => 3,
            Op::Binary(..) | Op::Unary(..) if ty.elem.is_float() => 3,
            _ => 1,
        }
    }

    /// Cycle by cycle, what can start, the oldest first, as long as its result has a register.
    fn order(&self, line: &Line) -> Vec<usize> {
        let mut walk = Walk::new(line);
        let (mut cycle, mut started) = (0u64, 0u64);
        while let Some(&oldest) = walk.ready.first() {
            let fits = |i: usize| {
                let (takes, frees) = (walk.takes(i), walk.frees(i));
                let headroom = if walk.begins(i) { HEADROOM } else { 0 };
                (0..2).all(|k| takes[k] == 0 || walk.live[k] + takes[k] + headroom <= self.limits[k] + frees[k])
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
        // What nothing in the line needs.
        for i in 0..line.before.len() {
            walk.emit(i);
        }
        walk.order
    }
}

/// A line while it is put into order.
struct Walk<'l> {
    line: &'l Line,
    waits_for: Vec<usize>,
    /// When all operands are there.
    ready_at: Vec<u64>,
    /// What waits for nothing any more, and is not lazy.
    ready: BTreeSet<usize>,
    emitted: Vec<bool>,
    /// Readers to come.
    readers: Vec<usize>,
    /// Values in registers.
    live: Count,
    order: Vec<usize>,
}

impl<'l> Walk<'l> {
    fn new(line: &'l Line) -> Self {
        let n = line.before.len();
        let waits_for: Vec<usize> = line.before.iter().map(Vec::len).collect();
        let first: Vec<usize> = (0..n).filter(|&i| waits_for[i] == 0).collect();
        let mut walk = Self {
            line,
            waits_for,
            ready_at: vec![0; n],
            ready: BTreeSet::new(),
            emitted: vec![false; n],
            readers: line.readers.clone(),
            live: line.outside,
            order: Vec::with_capacity(n),
        };
        for i in first {
            walk.available(i);
        }
        walk
    }

    /// Nothing has to come before an instruction any more.
    fn available(&mut self, i: usize) {
        if self.line.lazy[i] {
            self.release(i, self.ready_at[i] + self.line.latency[i]);
        } else {
            self.ready.insert(i);
        }
    }

    /// The result of an instruction is there from a cycle on, and those of lazy ones that wait for nothing else.
    fn release(&mut self, i: usize, at: u64) {
        let mut released = vec![(i, at)];
        while let Some((i, at)) = released.pop() {
            for &next in &self.line.after[i] {
                self.waits_for[next] -= 1;
                self.ready_at[next] = self.ready_at[next].max(at);
                match self.waits_for[next] {
                    0 if self.line.lazy[next] => released.push((next, self.ready_at[next] + self.line.latency[next])),
                    0 => _ = self.ready.insert(next),
                    _ => {}
                }
            }
        }
    }

    /// Whether an instruction is the first of a chain.
    fn begins(&self, i: usize) -> bool {
        !self.line.uses[i].iter().any(|&maker| self.emitted[maker])
    }

    /// Registers that an instruction takes, with loads that others will need as well.
    fn takes(&self, i: usize) -> Count {
        let stays = |maker: usize| !self.emitted[maker] && (self.readers[maker] > 1 || self.line.kept[maker]);
        self.count(self.line.uses[i].iter().copied().filter(|&maker| stays(maker)).chain([i]))
    }

    /// Registers that it leaves.
    fn frees(&self, i: usize) -> Count {
        let last = |maker: usize| self.emitted[maker] && self.readers[maker] == 1 && !self.line.kept[maker];
        self.count(self.line.uses[i].iter().copied().filter(|&maker| last(maker)))
    }

    fn count(&self, makers: impl Iterator<Item = usize>) -> Count {
        let mut count = [0; 2];
        for kind in makers.filter_map(|maker| self.line.makes[maker]) {
            count[kind] += 1;
        }
        count
    }

    /// Puts an instruction next, and in front of it what is lazy.
    fn emit(&mut self, i: usize) {
        let mut wanted = vec![i];
        while let Some(&i) = wanted.last() {
            if self.emitted[i] {
                wanted.pop();
                continue;
            }
            let before = wanted.len();
            wanted.extend(self.line.before[i].iter().rev().filter(|&&b| !self.emitted[b]));
            if wanted.len() == before {
                wanted.pop();
                self.put(i);
            }
        }
    }

    /// Puts an instruction next whose operands are there.
    fn put(&mut self, i: usize) {
        self.emitted[i] = true;
        self.order.push(i);
        for &maker in &self.line.uses[i] {
            self.readers[maker] -= 1;
            if let Some(kind) = self.line.makes[maker].filter(|_| self.readers[maker] == 0 && !self.line.kept[maker]) {
                self.live[kind] -= 1;
            }
        }
        if let Some(kind) = self.line.makes[i].filter(|_| self.readers[i] > 0 || self.line.kept[i]) {
            self.live[kind] += 1;
        }
    }
}
