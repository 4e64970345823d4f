//! A straight line of code, and an order for it in the making.
//!
//! Operations never pass what they depend on; stores keep their order, and what reads memory that may be written keeps
//! its place between them. Loads and addresses come right before what needs them.

use super::{BinaryOp, Elem, Inst, Op, Type, UnaryOp, Value};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Registers by kind: of vectors, and of masks.
pub(super) type Count = [usize; 2];

/// What of a function's values takes registers.
pub(super) struct Kinds<'a> {
    pub(super) types: &'a [Type],
    pub(super) constants: HashSet<Value>,
    /// Whether masks of several lanes live in vector registers.
    pub(super) hold_masks: bool,
}

/// A straight line of code: what each instruction waits for, and what waits for it.
#[derive(Clone)]
pub(super) struct Line {
    /// Instructions that have to come first, per instruction.
    pub(super) before: Vec<Vec<usize>>,
    pub(super) after: Vec<Vec<usize>>,
    pub(super) latency: Vec<u64>,
    /// Loads and scalar operations: they have no time of their own.
    pub(super) lazy: Vec<bool>,
    /// Values from outside that are in registers.
    pub(super) outside: Count,
    /// The kind of register that the result takes.
    pub(super) makes: Vec<Option<usize>>,
    /// The instructions of the line whose vectors are operands.
    pub(super) uses: Vec<Vec<usize>>,
    /// How many instructions of the line read the result, and whether something behind the line does.
    pub(super) readers: Vec<usize>,
    pub(super) kept: Vec<bool>,
}

impl Kinds<'_> {
    /// The kind of register that a value takes; `None` for scalars, which are plenty, and constants.
    fn kind(&self, value: Value) -> Option<usize> {
        let ty = self.types[value.0 as usize];
        let own = ty.elem == Elem::Mask && !self.hold_masks;
        (ty.lanes > 1 && !self.constants.contains(&value)).then_some(usize::from(own))
    }

    /// What the instructions of a line wait for, which ends at a place of its block.
    pub(super) fn survey(&self, insts: &[Inst], end: usize, used_later: &HashMap<Value, usize>) -> Line {
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
            Op::Dot2Bf16(..) => 6,
            Op::Binary(BinaryOp::Div, ..) | Op::Unary(UnaryOp::Sqrt, _) if ty.elem.is_float() => 13,
            Op::Binary(BinaryOp::Mul | BinaryOp::Scale, ..) => 4,
            Op::Convert(..) | Op::Compare(..) | Op::Permute(..) | Op::Join(..) => 3,
            Op::Binary(..) | Op::Unary(..) if ty.elem.is_float() => 3,
            _ => 1,
        }
    }
}

/// A line while it is put into order.
pub(super) struct Walk<'l> {
    pub(super) line: &'l Line,
    pub(super) waits_for: Vec<usize>,
    /// When all operands are there.
    pub(super) ready_at: Vec<u64>,
    /// What waits for nothing any more, and is not lazy.
    pub(super) ready: BTreeSet<usize>,
    pub(super) emitted: Vec<bool>,
    /// Readers to come.
    pub(super) readers: Vec<usize>,
    /// Values in registers.
    pub(super) live: Count,
    /// The most values that were in registers at once.
    pub(super) most: Count,
    pub(super) order: Vec<usize>,
}

impl<'l> Walk<'l> {
    pub(super) fn new(line: &'l Line) -> Self {
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
            most: line.outside,
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
    pub(super) fn release(&mut self, i: usize, at: u64) {
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
    pub(super) fn begins(&self, i: usize) -> bool {
        !self.line.uses[i].iter().any(|&maker| self.emitted[maker])
    }

    /// Registers that an instruction takes, with loads that others will need as well.
    pub(super) fn takes(&self, i: usize) -> Count {
        let stays = |maker: usize| !self.emitted[maker] && (self.readers[maker] > 1 || self.line.kept[maker]);
        self.count(self.line.uses[i].iter().copied().filter(|&maker| stays(maker)).chain([i]))
    }

    /// Registers that it leaves.
    pub(super) fn frees(&self, i: usize) -> Count {
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
    pub(super) fn emit(&mut self, i: usize) {
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
            self.most[kind] = self.most[kind].max(self.live[kind]);
        }
    }

    /// What nothing in the line needs comes last.
    pub(super) fn finish(&mut self) -> Vec<usize> {
        for i in 0..self.line.before.len() {
            self.emit(i);
        }
        std::mem::take(&mut self.order)
    }
}
