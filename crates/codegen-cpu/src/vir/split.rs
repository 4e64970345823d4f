//! Splits vectors that are wider than the target's registers into pieces that fit.
//!
//! Operations work lane by lane, so a value of `p` pieces comes from operands of `p` pieces. Values that are connected
//! by such operations form a *web*, found by union-find, and the web takes as many pieces as its widest member needs:
//! a mask that selects among `f64` is cut like the `f64` are, and so are the `f32` compared to make it. Half and
//! dot-product operations connect webs of different lane counts; constants belong to no web and are made anew for
//! every number of pieces.

use super::{BinaryOp, Block, Elem, Function, I64, Inst, Loop, Op, Type, Value, dce};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// Splits a function for registers of `register_bytes`. Functions that fit are left alone.
pub fn run(function: &mut Function, register_bytes: u32) {
    let fits = function.types.iter().all(|&ty| pieces_for(ty, register_bytes) == 1);
    if fits {
        return;
    }
    let ops = dce::definitions(function);
    let mut webs = Webs::new(function, &ops, register_bytes);
    webs.connect(function, &ops);
    let pieces: Vec<u16> = (0..function.types.len()).map(|n| webs.pieces_of(Value(n as u32))).collect();
    let mut splitter = Splitter {
        function,
        ops: &ops,
        pieces,
        register_bytes,
        types: Vec::new(),
        parts: HashMap::new(),
        constants: HashMap::new(),
        prelude: Vec::new(),
    };
    let mut body = splitter.block(&function.body);
    let Splitter { types, prelude, .. } = splitter;
    body.insts.splice(0..0, prelude);
    function.types = types;
    function.body = body;
    dce::run(function);
}

type Parts = SmallVec<[Value; 4]>;

/// How many registers hold a value of a type. Masks that are vectors have at least a byte per lane.
fn pieces_for(ty: Type, register_bytes: u32) -> u16 {
    let bytes = if ty.elem == Elem::Mask { u32::from(ty.lanes) } else { ty.size_bytes() };
    u16::try_from(bytes.div_ceil(register_bytes).max(1)).unwrap_or(u16::MAX)
}

/// Sets of values that are cut alike.
struct Webs {
    parent: Vec<u32>,
    /// Per root: number of pieces.
    pieces: Vec<u16>,
    lanes: Vec<u16>,
    register_bytes: u32,
}

impl Webs {
    fn new(function: &Function, ops: &[Option<Op>], register_bytes: u32) -> Self {
        let pieces = function.types.iter().zip(ops).map(|(&ty, op)| match op {
            Some(Op::Const(_)) => 1,
            _ => pieces_for(ty, register_bytes),
        });
        Self {
            parent: (0..function.types.len() as u32).collect(),
            pieces: pieces.collect(),
            lanes: function.types.iter().map(|ty| ty.lanes).collect(),
            register_bytes,
        }
    }

    fn root(&mut self, value: Value) -> usize {
        let mut n = value.0;
        while self.parent[n as usize] != n {
            let up = self.parent[n as usize];
            self.parent[n as usize] = self.parent[up as usize];
            n = up;
        }
        n as usize
    }

    fn union(&mut self, a: Value, b: Value) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a] = b as u32;
        self.pieces[b] = self.pieces[b].max(self.pieces[a]);
    }

    fn pieces_of(&mut self, value: Value) -> u16 {
        let root = self.root(value);
        self.pieces[root]
    }

    fn raise(&mut self, value: Value, pieces: u16) -> bool {
        let root = self.root(value);
        let higher = pieces > self.pieces[root];
        self.pieces[root] = self.pieces[root].max(pieces);
        higher
    }

    /// Puts values that must be cut alike into one web; constants among them only say how many pieces they need.
    fn together(&mut self, function: &Function, ops: &[Option<Op>], values: &[Value]) {
        let vectors = values.iter().copied().filter(|&value| function.ty(value).lanes > 1);
        let (constants, members): (Vec<Value>, Vec<Value>) =
            vectors.partition(|value| matches!(ops[value.0 as usize], Some(Op::Const(_))));
        let Some(&first) = members.first() else { return };
        members[1..].iter().for_each(|&member| self.union(first, member));
        for constant in constants {
            self.raise(first, pieces_for(function.ty(constant), self.register_bytes));
        }
    }

    fn connect(&mut self, function: &Function, ops: &[Option<Op>]) {
        let mut halves = Vec::new();
        function.body.for_each_inst(&mut |inst| match inst {
            Inst::Op { result, op } => match *op {
                Op::LowHalf(a) | Op::HighHalf(a) => halves.push((*result, a)),
                Op::Extract(..) | Op::MaskBits(_) | Op::Const(_) => {}
                _ => {
                    let mut values = vec![*result];
                    op.for_each_operand(|operand| values.push(operand));
                    self.together(function, ops, &values);
                }
            },
            Inst::Store { .. } | Inst::Scatter { .. } => {
                let mut values = Vec::new();
                inst.for_each_use(|value| values.push(value));
                self.together(function, ops, &values);
            }
            Inst::Loop(l) => {
                for (n, &(inside, init)) in l.carried.iter().enumerate() {
                    self.together(function, ops, &[inside, init, l.body.yields[n], l.results[n]]);
                }
            }
            Inst::If { then, otherwise, results, .. } => {
                for (n, &result) in results.iter().enumerate() {
                    self.together(function, ops, &[result, then.yields[n], otherwise.yields[n]]);
                }
            }
            Inst::Barrier | Inst::Prefetch { .. } | Inst::Tile(_) => {}
        });
        // A piece of a half is at most as long as a piece of the whole, so that it is one or lies in one.
        loop {
            let mut changed = false;
            for &(half, whole) in &halves {
                let whole_piece = self.lanes[whole.0 as usize] / self.pieces_of(whole);
                let lanes = self.lanes[half.0 as usize];
                changed |= whole_piece < lanes / self.pieces_of(half) && self.raise(half, lanes / whole_piece);
            }
            if !changed {
                break;
            }
        }
    }
}

struct Splitter<'a> {
    function: &'a Function,
    ops: &'a [Option<Op>],
    pieces: Vec<u16>,
    register_bytes: u32,
    types: Vec<Type>,
    parts: HashMap<Value, Parts>,
    constants: HashMap<(Type, u64), Value>,
    /// Constants, in front of everything.
    prelude: Vec<Inst>,
}

impl Splitter<'_> {
    fn fresh(&mut self, ty: Type) -> Value {
        let value = Value(u32::try_from(self.types.len()).expect("fewer than 2³² values"));
        self.types.push(ty);
        value
    }

    /// The pieces a value is to be defined as.
    fn define(&mut self, value: Value) -> Parts {
        let (ty, count) = (self.function.ty(value), self.pieces[value.0 as usize]);
        let parts: Parts = (0..count).map(|_| self.fresh(Type::vector(ty.elem, ty.lanes / count))).collect();
        self.parts.insert(value, parts.clone());
        parts
    }

    /// A value in so many pieces.
    fn use_as(&mut self, value: Value, count: u16) -> Parts {
        let ty = self.function.ty(value);
        if let Some(Op::Const(bits)) = self.ops[value.0 as usize] {
            let part = Type::vector(ty.elem, ty.lanes / count.min(ty.lanes));
            let piece = |n: u16| match ty.elem {
                Elem::Mask if ty.lanes > 1 => {
                    bits >> (n * part.lanes) & (u64::MAX >> (64 - u32::from(part.lanes.min(64))))
                }
                _ => bits,
            };
            return (0..count).map(|n| self.constant(part, piece(n))).collect();
        }
        let parts = self.parts[&value].clone();
        debug_assert!(parts.len() == usize::from(count), "pieces of {value}");
        parts
    }

    /// A scalar, or a value in the pieces it is in anyway.
    fn all(&mut self, value: Value) -> Parts {
        let count = match self.ops[value.0 as usize] {
            Some(Op::Const(_)) => 1,
            _ => self.pieces[value.0 as usize],
        };
        self.use_as(value, count)
    }

    fn scalar(&mut self, value: Value) -> Value {
        self.all(value)[0]
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        if let Some(&known) = self.constants.get(&(ty, bits)) {
            return known;
        }
        let value = self.fresh(ty);
        self.constants.insert((ty, bits), value);
        self.prelude.push(Inst::Op { result: value, op: Op::Const(bits) });
        value
    }

    fn op(&mut self, ty: Type, op: Op, out: &mut Vec<Inst>) -> Value {
        let result = self.fresh(ty);
        out.push(Inst::Op { result, op });
        result
    }

    fn block(&mut self, block: &Block) -> Block {
        let mut out = Vec::with_capacity(block.insts.len());
        for inst in &block.insts {
            self.inst(inst, &mut out);
        }
        Block { insts: out, yields: Vec::new() }
    }

    fn inst(&mut self, inst: &Inst, out: &mut Vec<Inst>) {
        match inst {
            Inst::Op { op: Op::Const(_), .. } => {}
            Inst::Op { result, op } => self.operation(*result, op, out),
            Inst::Store { value, base, disp, mask } => {
                let (ty, base) = (self.function.ty(*value), self.scalar(*base));
                let count = self.store_pieces(&[Some(*value), *mask]);
                let values = self.use_as(*value, count);
                let masks = mask.map(|mask| self.use_as(mask, count));
                let step = (ty.size_bytes() / u32::from(count)).cast_signed();
                for (n, &value) in values.iter().enumerate() {
                    let mask = masks.as_ref().map(|masks| masks[n]);
                    let (base, disp) = self.advance(base, *disp, n as i32 * step, out);
                    out.push(Inst::Store { value, base, disp, mask });
                }
            }
            Inst::Scatter { value, base, index, scale, disp, mask } => {
                let base = self.scalar(*base);
                let count = self.store_pieces(&[Some(*value), Some(*index), *mask]);
                let values = self.use_as(*value, count);
                let indices = self.use_as(*index, count);
                let masks = mask.map(|mask| self.use_as(mask, count));
                for (n, &value) in values.iter().enumerate() {
                    let mask = masks.as_ref().map(|masks| masks[n]);
                    out.push(Inst::Scatter { value, base, index: indices[n], scale: *scale, disp: *disp, mask });
                }
            }
            Inst::Loop(l) => {
                let (start, end) = (self.scalar(l.start), self.scalar(l.end));
                let iv = self.define(l.iv)[0];
                let mut carried = Vec::new();
                for &(inside, init) in &l.carried {
                    let inits = self.use_as(init, self.pieces[inside.0 as usize]);
                    carried.extend(self.define(inside).into_iter().zip(inits));
                }
                let mut body = self.block(&l.body);
                body.yields = self.yields(&l.body.yields, l.carried.iter().map(|&(inside, _)| inside));
                let results = l.results.iter().flat_map(|&result| self.define(result)).collect();
                let (step, nonempty) = (l.step, l.nonempty);
                out.push(Inst::Loop(Box::new(Loop { iv, start, end, step, nonempty, carried, body, results })));
            }
            Inst::If { cond, then, otherwise, results } => {
                let cond = self.scalar(*cond);
                let mut ways = [then, otherwise].map(|way| {
                    let mut block = self.block(way);
                    block.yields = self.yields(&way.yields, results.iter().copied());
                    block
                });
                let results = results.iter().flat_map(|&result| self.define(result)).collect();
                let otherwise = std::mem::take(&mut ways[1]);
                let then = std::mem::take(&mut ways[0]);
                out.push(Inst::If { cond, then, otherwise, results });
            }
            Inst::Barrier => out.push(Inst::Barrier),
            &Inst::Prefetch { base, disp, write } => {
                out.push(Inst::Prefetch { base: self.scalar(base), disp, write });
            }
            Inst::Tile(tile) => {
                let mut tile = *tile;
                tile.map_uses(|value| self.scalar(value));
                out.push(Inst::Tile(tile));
            }
        }
    }

    /// What a block hands on, cut like the values that receive it.
    fn yields(&mut self, values: &[Value], like: impl Iterator<Item = Value>) -> Vec<Value> {
        values.iter().zip(like).flat_map(|(&value, like)| self.use_as(value, self.pieces[like.0 as usize])).collect()
    }

    /// The pieces of a store: what its operands are in, or what constants need.
    fn store_pieces(&self, operands: &[Option<Value>]) -> u16 {
        let pieces = |value: &Value| match self.ops[value.0 as usize] {
            Some(Op::Const(_)) => None,
            _ => Some(self.pieces[value.0 as usize]),
        };
        let found = operands.iter().flatten().find_map(pieces);
        found.unwrap_or_else(|| {
            // Constants alone are stored.
            let types = operands.iter().flatten().map(|&value| self.function.ty(value));
            types.map(|ty| pieces_for(ty, self.register_bytes)).max().unwrap_or(1)
        })
    }

    /// An address further on; displacements that do not fit are added to the base.
    fn advance(&mut self, base: Value, disp: i32, by: i32, out: &mut Vec<Inst>) -> (Value, i32) {
        match disp.checked_add(by) {
            Some(disp) => (base, disp),
            None => {
                let amount = self.constant(I64, i64::from(by).cast_unsigned());
                (self.op(I64, Op::Binary(BinaryOp::Add, base, amount), out), disp)
            }
        }
    }

    fn operation(&mut self, result: Value, op: &Op, out: &mut Vec<Inst>) {
        let ty = self.function.ty(result);
        let count = self.pieces[result.0 as usize];
        let part = Type::vector(ty.elem, ty.lanes / count);
        let step = part.size_bytes().cast_signed();
        // Operations that take lanes apart or put them together.
        match *op {
            Op::LowHalf(a) | Op::HighHalf(a) => {
                let parts = self.half(part, count, a, matches!(op, Op::HighHalf(_)), out);
                self.parts.insert(result, parts);
                return;
            }
            Op::Extract(a, lane) => {
                let parts = self.all(a);
                let per_part = self.function.ty(a).lanes / parts.len() as u16;
                let piece = parts[usize::from(lane / per_part)];
                let value = match per_part {
                    1 => piece,
                    _ => self.op(ty, Op::Extract(piece, lane % per_part), out),
                };
                self.parts.insert(result, smallvec![value]);
                return;
            }
            Op::MaskBits(a) => {
                let value = self.mask_bits(a, out);
                self.parts.insert(result, smallvec![value]);
                return;
            }
            _ => {}
        }
        let results = self.define(result);
        for (n, &result) in results.iter().enumerate() {
            let first_lane = n as u16 * part.lanes;
            let op = match *op {
                Op::Lanes(ref lanes) => {
                    let first = usize::from(first_lane);
                    match &lanes[first..first + usize::from(part.lanes)] {
                        [lane] => Op::Const(*lane),
                        lanes => Op::Lanes(lanes.into()),
                    }
                }
                Op::FirstLanes(lanes) => {
                    let lanes = self.scalar(lanes);
                    let before = self.constant(I64, u64::from(first_lane));
                    let rest = match first_lane {
                        0 => lanes,
                        _ => self.op(I64, Op::Binary(BinaryOp::Sub, lanes, before), out),
                    };
                    Op::FirstLanes(rest)
                }
                Op::Load { base, disp, invariant } => {
                    let base = self.scalar(base);
                    let (base, disp) = self.advance(base, disp, n as i32 * step, out);
                    Op::Load { base, disp, invariant }
                }
                Op::LoadMasked { base, disp, mask } => {
                    let base = self.scalar(base);
                    let mask = self.use_as(mask, count)[n];
                    let (base, disp) = self.advance(base, disp, n as i32 * step, out);
                    Op::LoadMasked { base, disp, mask }
                }
                // A period that is wider than a piece.
                Op::LoadSplat { base, disp, period, invariant } if period >= part.lanes => {
                    if first_lane >= period {
                        continue;
                    }
                    let base = self.scalar(base);
                    let (base, disp) = self.advance(base, disp, n as i32 * step, out);
                    Op::Load { base, disp, invariant }
                }
                // The same for every piece.
                Op::Splat(_) | Op::LoadSplat { .. } if n > 0 => continue,
                _ => {
                    let mut piece = op.clone();
                    piece.map_operands(|operand| match self.function.ty(operand).lanes {
                        1 => self.scalar(operand),
                        _ => self.use_as(operand, count)[n],
                    });
                    piece
                }
            };
            out.push(Inst::Op { result, op });
        }
        // Pieces of a splat are one value, or as many as a period has.
        let distinct = match *op {
            Op::Splat(_) => 1,
            Op::LoadSplat { period, .. } => usize::from(period / part.lanes).max(1),
            _ => return,
        };
        let pieces = (0..usize::from(count)).map(|n| results[n % distinct]).collect();
        self.parts.insert(result, pieces);
    }

    /// Half of a value's lanes in `count` pieces, each of which is a piece of the value or lies in one.
    fn half(&mut self, part: Type, count: u16, a: Value, high: bool, out: &mut Vec<Inst>) -> Parts {
        let whole = self.function.ty(a);
        let pieces = self.all(a);
        let piece_lanes = whole.lanes / pieces.len() as u16;
        let first = if high { whole.lanes / 2 } else { 0 };
        (0..count)
            .map(|n| {
                let mut lane = first + n * part.lanes;
                let mut value = pieces[usize::from(lane / piece_lanes)];
                lane %= piece_lanes;
                let mut lanes = piece_lanes;
                while lanes > part.lanes {
                    lanes /= 2;
                    let ty = Type::vector(whole.elem, lanes);
                    let op = if lane >= lanes { Op::HighHalf(value) } else { Op::LowHalf(value) };
                    value = self.op(ty, op, out);
                    lane %= lanes;
                }
                value
            })
            .collect()
    }

    fn mask_bits(&mut self, a: Value, out: &mut Vec<Inst>) -> Value {
        let pieces = self.all(a);
        let lanes = u64::from(self.function.ty(a).lanes) / pieces.len() as u64;
        let mut bits: Option<Value> = None;
        for (n, &piece) in pieces.iter().enumerate() {
            let own = self.op(I64, Op::MaskBits(piece), out);
            bits = Some(match bits {
                None => own,
                Some(lower) => {
                    let amount = self.constant(I64, n as u64 * lanes);
                    let moved = self.op(I64, Op::Binary(BinaryOp::Shl, own, amount), out);
                    self.op(I64, Op::Binary(BinaryOp::Or, lower, moved), out)
                }
            });
        }
        bits.expect("a value has at least one piece")
    }
}
