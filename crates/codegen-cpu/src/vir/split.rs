//! Splits vectors that are wider than the target's registers into pieces that fit.
//!
//! Operations work lane by lane, so a value of `p` pieces comes from operands of `p` pieces. Which values are cut alike
//! is for [`webs`] to say; where those with fewer pieces meet those with more, pieces are halved or joined.

mod webs;

use super::{BinaryOp, Block, Elem, Function, I64, Inst, Loop, Op, Type, Value, dce, emit, fresh};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// Splits a function for registers of `register_bytes`. Functions that fit are left alone.
pub fn run(function: &mut Function, register_bytes: u32) {
    let fits = function.types.iter().all(|&ty| pieces_for(ty, register_bytes) == 1);
    if fits {
        return;
    }
    let ops = dce::definitions(function);
    let pieces = webs::pieces(function, &ops, register_bytes);
    let mut splitter = Splitter {
        function,
        ops: &ops,
        pieces,
        recut: Vec::new(),
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

struct Splitter<'a> {
    function: &'a Function,
    ops: &'a [Option<Op>],
    pieces: Vec<u16>,
    register_bytes: u32,
    types: Vec<Type>,
    parts: HashMap<Value, Parts>,
    /// Per open block, values in other pieces than they are in.
    recut: Vec<HashMap<(Value, u16), Parts>>,
    constants: HashMap<(Type, u64), Value>,
    /// Constants, in front of everything.
    prelude: Vec<Inst>,
}

impl Splitter<'_> {
    fn fresh(&mut self, ty: Type) -> Value {
        fresh(&mut self.types, ty)
    }

    /// The pieces a value is to be defined as.
    fn define(&mut self, value: Value) -> Parts {
        let (ty, count) = (self.function.ty(value), self.pieces[value.0 as usize]);
        let parts: Parts = (0..count).map(|_| self.fresh(Type::vector(ty.elem, ty.lanes / count))).collect();
        self.parts.insert(value, parts.clone());
        parts
    }

    /// A value in the pieces it is in, a constant in so many.
    fn own(&mut self, value: Value, count: u16) -> Parts {
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
        self.parts[&value].clone()
    }

    /// A value in so many pieces, which may be more than it is in, or fewer.
    fn use_as(&mut self, value: Value, count: u16, out: &mut Vec<Inst>) -> Parts {
        let mut parts = self.own(value, count);
        if parts.len() == usize::from(count) {
            return parts;
        }
        let ty = self.function.ty(value);
        let key = (value, count);
        if let Some(known) = self.recut.iter().find_map(|block| block.get(&key)) {
            return known.clone();
        }
        let mut lanes = ty.lanes / parts.len() as u16;
        let is_splat = matches!(self.ops[value.0 as usize], Some(Op::Splat(_)));
        while parts.len() < usize::from(count) {
            lanes /= 2;
            let half = Type::vector(ty.elem, lanes);
            let halve =
                |part: Value| [Op::LowHalf(part), if is_splat { Op::LowHalf(part) } else { Op::HighHalf(part) }];
            parts = parts.iter().flat_map(|&part| halve(part)).map(|op| self.op(half, op, out)).collect();
        }
        parts = self.joined(parts, count, out);
        if let Some(block) = self.recut.last_mut() {
            block.insert(key, parts.clone());
        }
        parts
    }

    /// Pieces put together until they are so many.
    fn joined(&mut self, mut parts: Parts, count: u16, out: &mut Vec<Inst>) -> Parts {
        while parts.len() > usize::from(count) {
            let ty = self.types[parts[0].0 as usize];
            let whole = Type::vector(ty.elem, 2 * ty.lanes);
            parts = parts.chunks(2).map(|pair| self.op(whole, Op::Join(pair[0], pair[1]), out)).collect();
        }
        parts
    }

    /// A scalar, or a value in the pieces it is in anyway.
    fn all(&mut self, value: Value) -> Parts {
        self.own(value, 1)
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
        emit(&mut self.types, out, ty, op)
    }

    fn block(&mut self, block: &Block) -> Block {
        let mut out = Vec::with_capacity(block.insts.len());
        self.recut.push(HashMap::new());
        for inst in &block.insts {
            self.inst(inst, &mut out);
        }
        self.recut.pop();
        Block { insts: out, yields: Vec::new() }
    }

    fn inst(&mut self, inst: &Inst, out: &mut Vec<Inst>) {
        match inst {
            Inst::Op { op: Op::Const(_), .. } => {}
            Inst::Op { result, op } => self.operation(*result, op, out),
            Inst::Store { value, base, disp, mask } => {
                let (ty, base) = (self.function.ty(*value), self.scalar(*base));
                let count = self.store_pieces(&[Some(*value), *mask]);
                let values = self.use_as(*value, count, out);
                let masks = mask.map(|mask| self.use_as(mask, count, out));
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
                let values = self.use_as(*value, count, out);
                let indices = self.use_as(*index, count, out);
                let masks = mask.map(|mask| self.use_as(mask, count, out));
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
                    let inits = self.use_as(init, self.pieces[inside.0 as usize], out);
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
        values.iter().zip(like).flat_map(|(&value, like)| self.own(value, self.pieces[like.0 as usize])).collect()
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
            Op::Convert(kind, a) if self.all(a).len() > usize::from(count) => {
                let pieces = self.all(a);
                let piece = Type::vector(ty.elem, ty.lanes / pieces.len() as u16);
                let converted = pieces.iter().map(|&a| self.op(piece, Op::Convert(kind, a), out)).collect();
                let parts = self.joined(converted, count, out);
                self.parts.insert(result, parts);
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
                    let mask = self.use_as(mask, count, out)[n];
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
                        _ => self.use_as(operand, count, out)[n],
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
