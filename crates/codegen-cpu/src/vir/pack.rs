//! Scalars that are stored side by side are computed side by side.
//!
//! A tile whose lanes lie along a sum ends in scalars: each accumulator's lanes are folded, and what follows the sum
//! (a bias, an activation, the store) is done once per result. Four neighbours in memory that are computed alike can
//! share all of it: superword-level parallelism (Larsen and Amarasinghe, "Exploiting superword level parallelism with
//! multimedia instruction sets", 2000), from the stores upwards. Where they are folds of vectors, the four vectors are
//! transposed on the way, which takes four shuffles instead of eight.
//!
//! Four scalars are packed only if everything above them can be: to arithmetic of the same kind, folds, neighbours in
//! memory, or values from outside of the block or from constant memory, which are put together once for all stores.
//! Folds of more than four lanes come in another order by that; nothing else changes a bit.

use super::{BinaryOp, Block, Elem, Function, Inst, Op, Type, Value, dce, emit};
use std::collections::HashMap;

/// Values that become the lanes of one.
type Four = [Value; 4];

/// Levels of operations that are looked through.
const MOST_LEVELS: usize = 24;

/// Rewrites all blocks.
pub fn run(function: &mut Function) {
    let ops = dce::definitions(function);
    let mut depth = vec![0; function.types.len()];
    depths(&function.body, 0, &mut depth);
    let mut pass = Pass { ops, depth, types: std::mem::take(&mut function.types), outside: Vec::new() };
    pass.block(&mut function.body, false);
    function.types = pass.types;
    dce::run(function);
}

/// How many blocks are around the definition of each value.
fn depths(block: &Block, depth: usize, of: &mut [usize]) {
    for inst in &block.insts {
        inst.for_each_result(|value| of[value.0 as usize] = depth);
        if let Inst::Loop(l) = inst {
            of[l.iv.0 as usize] = depth + 1;
            l.carried.iter().for_each(|&(value, _)| of[value.0 as usize] = depth + 1);
        }
        inst.blocks().for_each(|inside| depths(inside, depth + 1, of));
    }
}

struct Pass {
    /// Of the values there were before the pass.
    ops: Vec<Option<Op>>,
    depth: Vec<usize>,
    types: Vec<Type>,
    /// Per open block, from the outermost inwards: what is put in front of the construct that is open in it, or of its
    /// own stores.
    outside: Vec<Outside>,
}

/// Values that were put together.
#[derive(Default)]
struct Outside {
    /// Whether the block is that of a loop that runs at least once, or the outermost, of chunks: what all chunks of a
    /// launch read is there, if the call's range has one or not.
    runs: bool,
    insts: Vec<Inst>,
    packed: HashMap<Four, Value>,
}

/// A scalar store that may be packed with others.
#[derive(Clone, Copy)]
struct Scalar {
    place: usize,
    base: Value,
    disp: i32,
    value: Value,
}

impl Pass {
    fn block(&mut self, block: &mut Block, runs: bool) {
        self.outside.push(Outside { runs, ..Outside::default() });
        let mut insts = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                Inst::Loop(l) => {
                    let is_of_chunks = self.outside.len() == 1;
                    self.block(&mut l.body, l.nonempty || is_of_chunks);
                }
                Inst::If { then, otherwise, .. } => {
                    self.block(then, false);
                    self.block(otherwise, false);
                }
                _ => {}
            }
            let here = self.outside.last_mut().expect("this block is open");
            insts.append(&mut here.insts);
            insts.push(inst);
        }
        block.insts = insts;
        self.stores(block);
        self.outside.pop();
    }

    /// Packs the stores of a block, not looking across what may read or write the same memory.
    fn stores(&mut self, block: &mut Block) {
        let mut groups: Vec<Vec<Scalar>> = vec![Vec::new()];
        for (place, inst) in block.insts.iter().enumerate() {
            let group = groups.last_mut().expect("there is one");
            match inst {
                Inst::Store { value, base, disp, mask: None } if self.types[value.0 as usize] == SCALAR => {
                    if group.first().is_some_and(|first| first.base != *base) {
                        groups.push(Vec::new());
                    }
                    let group = groups.last_mut().expect("there is one");
                    group.push(Scalar { place, base: *base, disp: *disp, value: *value });
                }
                Inst::Op { op, .. } if !op.reads_memory() || op.is_invariant_load() => {}
                _ if group.is_empty() => {}
                _ => groups.push(Vec::new()),
            }
        }
        // By place: what stands there instead.
        let mut instead: HashMap<usize, Vec<Inst>> = HashMap::new();
        for mut group in groups {
            group.sort_by_key(|scalar| scalar.disp);
            let distance = |pair: &[Scalar]| i64::from(pair[1].disp) - i64::from(pair[0].disp);
            if group.windows(2).any(|pair| distance(pair) < 4) {
                continue;
            }
            let mut rest = &group[..];
            while let Some((four, after)) = rest.split_first_chunk::<4>() {
                let adjacent = four.windows(2).all(|pair| distance(pair) == 4);
                let mut insts = Vec::new();
                let packed = if adjacent { self.pack(four.map(|s| s.value), &mut insts, MOST_LEVELS) } else { None };
                let Some(value) = packed else {
                    rest = &rest[1..];
                    continue;
                };
                let Scalar { base, disp, .. } = four[0];
                insts.push(Inst::Store { value, base, disp, mask: None });
                four.iter().for_each(|scalar| _ = instead.insert(scalar.place, Vec::new()));
                let last = four.iter().map(|scalar| scalar.place).max().unwrap_or(0);
                instead.insert(last, insts);
                rest = after;
            }
        }
        if let Some(&first) = instead.keys().min() {
            let here = self.outside.last_mut().expect("this block is open");
            instead.entry(first).or_default().splice(..0, here.insts.drain(..));
            let insts = block.insts.drain(..).enumerate();
            block.insts =
                insts.flat_map(|(place, inst)| instead.remove(&place).unwrap_or_else(|| vec![inst])).collect();
        }
    }

    // --------------------------------------------------------------------------------------------------- packing --

    fn op(&self, value: Value) -> Option<&Op> {
        self.ops.get(value.0 as usize)?.as_ref()
    }

    fn make(&mut self, ty: Type, op: Op, out: &mut Vec<Inst>) -> Value {
        emit(&mut self.types, out, ty, op)
    }

    /// One vector of four scalars, or `None` if that takes more than it saves.
    fn pack(&mut self, four: Four, out: &mut Vec<Inst>, levels: usize) -> Option<Value> {
        let levels = levels.checked_sub(1)?;
        if let Some(outside) = self.neighbours(four, out).or_else(|| self.put_together(four, out)) {
            return Some(outside);
        }
        if let Some(vectors) = self.folds(four) {
            return Some(self.transposed(vectors, out));
        }
        let ops = four.map(|value| self.op(value).cloned());
        let [Some(first), Some(second), Some(third), Some(fourth)] = ops else { return None };
        let all = [&first, &second, &third, &fourth];
        match first {
            Op::Unary(kind, _) => {
                let operands =
                    same(all, |op| if let Op::Unary(k, a) = op { (*k == kind).then_some([*a]) } else { None })?;
                let a = self.pack(operands.map(|[a]| a), out, levels)?;
                Some(self.make(VECTOR, Op::Unary(kind, a), out))
            }
            Op::Binary(kind, ..) => {
                let mut operands =
                    same(all, |op| if let Op::Binary(k, a, b) = op { (*k == kind).then_some([*a, *b]) } else { None })?;
                if matches!(kind, BinaryOp::Add | BinaryOp::Mul) {
                    self.align(&mut operands);
                }
                let a = self.pack(operands.map(|[a, _]| a), out, levels)?;
                let b = self.pack(operands.map(|[_, b]| b), out, levels)?;
                Some(self.make(VECTOR, Op::Binary(kind, a, b), out))
            }
            Op::Fma(..) => {
                let operands = same(all, |op| if let Op::Fma(a, b, c) = op { Some([*a, *b, *c]) } else { None })?;
                let a = self.pack(operands.map(|[a, ..]| a), out, levels)?;
                let b = self.pack(operands.map(|[_, b, _]| b), out, levels)?;
                let c = self.pack(operands.map(|[.., c]| c), out, levels)?;
                Some(self.make(VECTOR, Op::Fma(a, b, c), out))
            }
            Op::Select(..) => {
                let operands = same(all, |op| if let Op::Select(m, a, b) = op { Some([*m, *a, *b]) } else { None })?;
                let mask = self.pack_compare(operands.map(|[m, ..]| m), out, levels)?;
                let a = self.pack(operands.map(|[_, a, _]| a), out, levels)?;
                let b = self.pack(operands.map(|[.., b]| b), out, levels)?;
                Some(self.make(VECTOR, Op::Select(mask, a, b), out))
            }
            _ => None,
        }
    }

    /// Turns pairs of operands round whose first one is made like the second one of the first pair.
    fn align(&self, operands: &mut [[Value; 2]; 4]) {
        let shape = |value: Value| self.op(value).map(std::mem::discriminant);
        let [first, rest @ ..] = operands;
        for pair in rest {
            if shape(pair[0]) != shape(first[0]) && shape(pair[1]) == shape(first[0]) {
                pair.reverse();
            }
        }
    }

    /// Four neighbours in memory that nobody writes.
    fn neighbours(&mut self, four: Four, out: &mut Vec<Inst>) -> Option<Value> {
        let Some(&Op::Load { base, disp, invariant: true }) = self.op(four[0]) else { return None };
        let place = |n: i32| Some(Op::Load { base, disp: disp.checked_add(4 * n)?, invariant: true });
        let adjacent = four.iter().zip(0..).all(|(&value, n)| self.op(value) == place(n).as_ref());
        let is_scalar = self.types[four[0].0 as usize] == SCALAR;
        (adjacent && is_scalar).then(|| self.make(VECTOR, Op::Load { base, disp, invariant: true }, out))
    }

    fn pack_compare(&mut self, four: Four, out: &mut Vec<Inst>, levels: usize) -> Option<Value> {
        let ops = four.map(|value| self.op(value).cloned());
        let [Some(first), Some(second), Some(third), Some(fourth)] = ops else { return None };
        let Op::Compare(cond, x, _) = first else { return None };
        if self.types[x.0 as usize] != SCALAR {
            return None;
        }
        let of = |op: &Op| if let Op::Compare(c, a, b) = op { (*c == cond).then_some([*a, *b]) } else { None };
        let operands = same([&first, &second, &third, &fourth], of)?;
        let a = self.pack(operands.map(|[a, _]| a), out, levels)?;
        let b = self.pack(operands.map(|[_, b]| b), out, levels)?;
        Some(self.make(VECTOR.mask(), Op::Compare(cond, a, b), out))
    }

    /// The vector of one constant, or of four values from outside of the block, put together in front of it.
    fn put_together(&mut self, four: Four, out: &mut Vec<Inst>) -> Option<Value> {
        if four.iter().any(|value| self.types[value.0 as usize] != SCALAR) {
            return None;
        }
        let bits = four.map(|value| if let Some(Op::Const(bits)) = self.op(value) { Some(*bits) } else { None });
        if let Some(all) = bits[0]
            && bits.iter().all(|bits| *bits == Some(all))
        {
            return Some(self.make(VECTOR, Op::Const(all), out));
        }
        let home = four.iter().map(|&value| self.home(value)).collect::<Option<Vec<_>>>()?.into_iter().max()?;
        if let Some(&packed) = self.outside[home].packed.get(&four) {
            return Some(packed);
        }
        let mut insts = std::mem::take(&mut self.outside[home].insts);
        let splats = four.map(|value| match self.op(value) {
            Some(&Op::Load { base, disp, invariant: true }) => Op::LoadSplat { base, disp, period: 1, invariant: true },
            _ => Op::Splat(value),
        });
        let [a, b, c, d] = splats.map(|op| self.make(VECTOR, op, &mut insts));
        let packed = if four.iter().all(|value| *value == four[0]) {
            a
        } else {
            let low = self.make(VECTOR, Op::Shuffle(a, b, [0, 0, 0, 0]), &mut insts);
            let high = self.make(VECTOR, Op::Shuffle(c, d, [0, 0, 0, 0]), &mut insts);
            self.make(VECTOR, Op::Shuffle(low, high, [0, 2, 0, 2]), &mut insts)
        };
        self.outside[home].insts = insts;
        self.outside[home].packed.insert(four, packed);
        Some(packed)
    }

    /// Which open block a value can be put together with others in: in front of the construct that is open in it, or,
    /// if it can be read from an address that comes from further outside, in front of the loops that it does not change
    /// in. What a branch reads may not be there on the other one, nor what a loop without turns would have read.
    fn home(&self, value: Value) -> Option<usize> {
        let here = self.outside.len() - 1;
        let depth = |value: Value| self.depth.get(value.0 as usize).copied().unwrap_or(here);
        let at = depth(value);
        match self.op(value) {
            Some(&Op::Load { base, invariant: true, .. }) if depth(base) < at => {
                let loops = self.outside[depth(base) + 1..=at].iter().rev().take_while(|block| block.runs);
                Some(at - loops.count())
            }
            _ => (at < here).then_some(at),
        }
    }

    /// The vectors of one type whose lanes four scalars fold, halves first, by one and the same operation.
    fn folds(&self, four: Four) -> Option<(BinaryOp, Four)> {
        let halves = |value: Value| match self.op(value) {
            Some(&Op::Binary(kind, low, high)) => match (self.op(low), self.op(high)) {
                (Some(&Op::LowHalf(a)), Some(&Op::HighHalf(b))) if a == b => Some((kind, a)),
                _ => None,
            },
            _ => None,
        };
        let kind = halves(four[0])?.0;
        let whole = four.map(|mut value| {
            while let Some((_, whole)) = halves(value).filter(|&(k, _)| k == kind) {
                value = whole;
            }
            value
        });
        let ty = |value: Value| self.types[value.0 as usize];
        let alike = whole.iter().all(|&value| ty(value) == ty(whole[0]) && ty(value).lanes >= 4);
        alike.then_some((kind, whole))
    }

    /// The folds of four vectors as the lanes of one: in each group of four lanes, halves and then halves of those are
    /// combined, two vectors at a time; then the groups.
    fn transposed(&mut self, (kind, [a, b, c, d]): (BinaryOp, Four), out: &mut Vec<Inst>) -> Value {
        let mut ty = self.types[a.0 as usize];
        let mut halves = |a: Value, b: Value, low: [u8; 4], high: [u8; 4]| {
            let low = self.make(ty, Op::Shuffle(a, b, low), out);
            let high = self.make(ty, Op::Shuffle(a, b, high), out);
            self.make(ty, Op::Binary(kind, low, high), out)
        };
        let ab = halves(a, b, [0, 1, 0, 1], [2, 3, 2, 3]);
        let cd = halves(c, d, [0, 1, 0, 1], [2, 3, 2, 3]);
        let mut folds = halves(ab, cd, [0, 2, 0, 2], [1, 3, 1, 3]);
        while ty.lanes > VECTOR.lanes {
            ty.lanes /= 2;
            let low = self.make(ty, Op::LowHalf(folds), out);
            let high = self.make(ty, Op::HighHalf(folds), out);
            folds = self.make(ty, Op::Binary(kind, low, high), out);
        }
        folds
    }
}

const SCALAR: Type = Type::scalar(Elem::F32);
const VECTOR: Type = Type::vector(Elem::F32, 4);

/// The operands of four operations of one kind.
fn same<const N: usize>(ops: [&Op; 4], operands: impl Fn(&Op) -> Option<[Value; N]>) -> Option<[[Value; N]; 4]> {
    let [a, b, c, d] = ops.map(operands);
    Some([a?, b?, c?, d?])
}
