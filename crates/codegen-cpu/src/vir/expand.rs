//! Spells out operations that an emitter has no instruction for in terms of others.
//!
//! Always: conversions from `bfloat16`, those between binary16 and `f64`, and masked or indexed accesses of a single lane.
//! On demand: rounding to `bfloat16` (the instruction flushes subnormal numbers, which infc keeps unless it is told
//! otherwise), all binary16 conversions, and fused multiply-adds as a product and a sum.

use super::{BinaryOp, Block, Cond, Convert, Elem, Function, I64, Inst, Op, Type, UnaryOp, Value, emit, eval};
use infc_ir::math::Table;

/// What the target lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Conversions between binary16 and `f32`.
    pub half: bool,
    /// Rounding of vectors of `f32` to bfloat16: also where subnormal numbers must not become zero, as they do by the
    /// instruction.
    pub bf16: bool,
    /// Fused multiply-add.
    pub fma: bool,
    /// [`BinaryOp::Scale`] and [`UnaryOp::Table`].
    pub scale: bool,
    /// Dot products of bytes ([`super::halves`] spells them out).
    pub dot_bytes: bool,
    /// Dot products of bfloat16 pairs ([`super::halves`]).
    pub dot_bf16: bool,
}

/// Rewrites a function.
pub fn run(function: &mut Function, lacks: Lacks) {
    let types = std::mem::take(&mut function.types);
    let mut pass = Pass { types, lacks };
    pass.block(&mut function.body);
    function.types = pass.types;
}

struct Pass {
    types: Vec<Type>,
    lacks: Lacks,
}

impl Pass {
    fn ty(&self, value: Value) -> Type {
        self.types[value.0 as usize]
    }

    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            match &mut inst {
                Inst::Op { result, op } => {
                    if let Some(op) = self.operation(*result, op, &mut out) {
                        out.push(Inst::Op { result: *result, op });
                    }
                    continue;
                }
                Inst::Store { value, base, disp, mask: Some(mask) } if self.ty(*mask).lanes == 1 => {
                    let store = Inst::Store { value: *value, base: *base, disp: *disp, mask: None };
                    out.push(when(*mask, vec![store]));
                    continue;
                }
                Inst::Scatter { value, base, index, scale, disp, mask } if self.ty(*value).lanes == 1 => {
                    let mut insts = Vec::new();
                    let base = Seq { pass: self, out: &mut insts }.indexed(*base, *index, *scale);
                    insts.push(Inst::Store { value: *value, base, disp: *disp, mask: None });
                    match mask {
                        Some(mask) => out.push(when(*mask, insts)),
                        None => out.append(&mut insts),
                    }
                    continue;
                }
                Inst::Loop(l) => self.block(&mut l.body),
                Inst::If { then, otherwise, .. } => {
                    self.block(then);
                    self.block(otherwise);
                }
                _ => {}
            }
            out.push(inst);
        }
        block.insts = out;
    }

    /// The operation that defines the result in the end, after what was put in front of it; `None` if something else
    /// defines it already.
    fn operation(&mut self, result: Value, op: &Op, out: &mut Vec<Inst>) -> Option<Op> {
        let ty = self.ty(result);
        match *op {
            Op::Fma(a, b, c) if self.lacks.fma => {
                let product = Seq { pass: self, out }.op(ty, Op::Binary(BinaryOp::Mul, a, b));
                // The sum first: an accumulator keeps its register where results replace their first operand.
                Some(Op::Binary(BinaryOp::Add, c, product))
            }
            Op::Binary(BinaryOp::Scale, a, n) if self.lacks.scale => Some(Seq { pass: self, out }.scale(a, n)),
            Op::Unary(UnaryOp::Table(table), a) if self.lacks.scale => {
                Some(Seq { pass: self, out }.constant_of_table(table, a))
            }
            Op::Convert(Convert::Float, a) => Some(self.float(ty, a, out)),
            Op::LoadMasked { base, disp, mask } if ty.lanes == 1 => {
                self.guarded(result, mask, Op::Load { base, disp, invariant: false }, Vec::new(), out);
                None
            }
            Op::Gather { base, index, scale, disp, mask } if ty.lanes == 1 => {
                let mut insts = Vec::new();
                let base = Seq { pass: self, out: &mut insts }.indexed(base, index, scale);
                let load = Op::Load { base, disp, invariant: false };
                match mask {
                    Some(mask) => {
                        self.guarded(result, mask, load, insts, out);
                        None
                    }
                    None => {
                        out.append(&mut insts);
                        Some(load)
                    }
                }
            }
            _ => Some(op.clone()),
        }
    }

    /// `result = mask ? load : 0`, reading only if the mask is set.
    fn guarded(&mut self, result: Value, mask: Value, load: Op, mut insts: Vec<Inst>, out: &mut Vec<Inst>) {
        let ty = self.ty(result);
        let read = Seq { pass: self, out: &mut insts }.op(ty, load);
        let zero = Seq { pass: self, out }.constant(ty, 0);
        let then = Block { insts, yields: vec![read] };
        let otherwise = Block { insts: Vec::new(), yields: vec![zero] };
        out.push(Inst::If { cond: mask, then, otherwise, results: vec![result] });
    }

    /// The last step of a conversion between float types.
    fn float(&mut self, ty: Type, a: Value, out: &mut Vec<Inst>) -> Op {
        let lacks = self.lacks;
        let from = self.ty(a).elem;
        let mut seq = Seq { pass: self, out };
        let f32 = ty.with_elem(Elem::F32);
        match (from, ty.elem) {
            (Elem::BF16, Elem::F32) => seq.widen_bf16(a),
            (Elem::F32, Elem::BF16) if lacks.bf16 || ty.lanes == 1 => seq.narrow_bf16(a),
            (Elem::F16, Elem::F32) if lacks.half => seq.widen_f16(a),
            (Elem::F32, Elem::F16) if lacks.half => seq.narrow_f16(a),
            // Between 16 bits and f64 lies f32: exactly on the way up, rounded to odd on the way down, which keeps the
            // second rounding right.
            (Elem::BF16 | Elem::F16, _) if ty.elem != Elem::F32 => {
                let middle = seq.pass.float(f32, a, seq.out);
                let middle = seq.op(f32, middle);
                seq.pass.float(ty, middle, seq.out)
            }
            (Elem::F64, Elem::BF16 | Elem::F16) => {
                let middle = seq.round_to_odd(a);
                seq.pass.float(ty, middle, seq.out)
            }
            _ => Op::Convert(Convert::Float, a),
        }
    }
}

fn when(cond: Value, insts: Vec<Inst>) -> Inst {
    let then = Block { insts, yields: Vec::new() };
    Inst::If { cond, then, otherwise: Block::default(), results: Vec::new() }
}

/// Code being written.
struct Seq<'a> {
    pass: &'a mut Pass,
    out: &'a mut Vec<Inst>,
}

impl Seq<'_> {
    fn op(&mut self, ty: Type, op: Op) -> Value {
        emit(&mut self.pass.types, self.out, ty, op)
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.op(ty, Op::Const(bits))
    }

    /// `a ∘ constant`
    fn with(&mut self, kind: BinaryOp, a: Value, bits: u64) -> Value {
        let ty = self.pass.ty(a);
        let constant = self.constant(ty, bits);
        self.op(ty, Op::Binary(kind, a, constant))
    }

    fn both(&mut self, kind: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.pass.ty(a);
        self.op(ty, Op::Binary(kind, a, b))
    }

    fn convert(&mut self, kind: Convert, a: Value, to: Elem) -> Value {
        let ty = self.pass.ty(a).with_elem(to);
        self.op(ty, Op::Convert(kind, a))
    }

    fn compare(&mut self, cond: Cond, a: Value, b: Value) -> Value {
        let ty = self.pass.ty(a).mask();
        self.op(ty, Op::Compare(cond, a, b))
    }

    fn compare_with(&mut self, cond: Cond, a: Value, bits: u64) -> Value {
        let ty = self.pass.ty(a);
        let constant = self.constant(ty, bits);
        self.compare(cond, a, constant)
    }

    fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let ty = self.pass.ty(a);
        self.op(ty, Op::Select(mask, a, b))
    }

    /// `base + index·scale` for one lane.
    fn indexed(&mut self, base: Value, index: Value, scale: u8) -> Value {
        let index = match self.pass.ty(index).elem {
            Elem::I64 => index,
            _ => self.convert(Convert::SignExtend, index, Elem::I64),
        };
        let offset = self.with(BinaryOp::Mul, index, u64::from(scale));
        self.op(I64, Op::Binary(BinaryOp::Add, base, offset))
    }

    /// `a·2ⁿ` by two factors, each half of n as an exponent, of which the first is exact. What n is beyond makes no
    /// difference, as far as `a` is no smaller or larger than the rest of an exponential.
    fn scale(&mut self, a: Value, n: Value) -> Op {
        let ty = self.pass.ty(n);
        let (int, mantissa, bias, magic) = match ty.elem {
            Elem::F32 => (Elem::I32, 23, 127.0, 12_582_912.0),
            _ => (Elem::I64, 52, 1023.0, 6_755_399_441_055_744.0),
        };
        let bound = |value: f64| eval::from_f64(ty.elem, value);
        let (lowest, highest) = (self.constant(ty, bound(-2.0 * bias + 2.0)), self.constant(ty, bound(2.0 * bias)));
        let n = self.op(ty, Op::Unary(UnaryOp::Floor, n));
        let n = self.both(BinaryOp::Min, highest, n);
        let n = self.both(BinaryOp::Max, lowest, n);
        // Leaves n and twice the bias in the low bits of the sum.
        let shifted = self.with(BinaryOp::Add, n, bound(magic + 2.0 * bias));
        let bits = self.convert(Convert::Bitcast, shifted, int);
        let whole = self.with(BinaryOp::Shl, bits, mantissa);
        let first = self.with(BinaryOp::Shl, bits, mantissa - 1);
        let field = eval::lane_mask(int) & (u64::MAX << mantissa);
        let first = self.with(BinaryOp::And, first, field);
        let second = self.both(BinaryOp::Sub, whole, first);
        let (first, second) =
            (self.convert(Convert::Bitcast, first, ty.elem), self.convert(Convert::Bitcast, second, ty.elem));
        let scaled = self.both(BinaryOp::Mul, a, first);
        Op::Binary(BinaryOp::Mul, scaled, second)
    }

    /// One of 16 constants, by a chain of choices.
    fn constant_of_table(&mut self, table: Table, a: Value) -> Op {
        let ty = self.pass.ty(a);
        let bits = self.convert(Convert::Bitcast, a, Elem::I32);
        let k = self.with(BinaryOp::And, bits, 0xf);
        let (int, mask) = (self.pass.ty(k), ty.with_elem(Elem::Mask));
        let [first, rest @ .., last] = table.values().map(|constant| self.constant(ty, u64::from(constant)));
        let mut chosen = first;
        for (constant, number) in rest.into_iter().zip(1..) {
            let number = self.constant(int, number);
            let is_it = self.op(mask, Op::Compare(Cond::Eq, k, number));
            chosen = self.op(ty, Op::Select(is_it, constant, chosen));
        }
        let number = self.constant(int, 15);
        let is_it = self.op(mask, Op::Compare(Cond::Eq, k, number));
        Op::Select(is_it, last, chosen)
    }

    /// The high half of an `f32` is its bfloat16.
    fn widen_bf16(&mut self, a: Value) -> Op {
        let bits = self.convert(Convert::Bitcast, a, Elem::I16);
        let bits = self.convert(Convert::ZeroExtend, bits, Elem::I32);
        let bits = self.with(BinaryOp::Shl, bits, 16);
        Op::Convert(Convert::Bitcast, bits)
    }

    /// Adds half of the last place kept, less one if that is even; NaNs keep their upper bits and become quiet.
    fn narrow_bf16(&mut self, a: Value) -> Op {
        let bits = self.convert(Convert::Bitcast, a, Elem::I32);
        let high = self.with(BinaryOp::ShrU, bits, 16);
        let odd = self.with(BinaryOp::And, high, 1);
        let bias = self.with(BinaryOp::Add, odd, 0x7fff);
        let rounded = self.both(BinaryOp::Add, bits, bias);
        let rounded = self.with(BinaryOp::ShrU, rounded, 16);
        let quiet = self.with(BinaryOp::Or, high, 0x40);
        let is_nan = self.compare(Cond::Ne, a, a);
        let result = self.select(is_nan, quiet, rounded);
        let result = self.convert(Convert::Truncate, result, Elem::I16);
        Op::Convert(Convert::Bitcast, result)
    }

    /// Exponent and mantissa, moved into place, are off by a factor of 2¹¹² that multiplication brings back, for
    /// subnormal numbers, too; infinities and NaNs get the highest exponent.
    fn widen_f16(&mut self, a: Value) -> Op {
        let bits = self.convert(Convert::Bitcast, a, Elem::I16);
        let bits = self.convert(Convert::ZeroExtend, bits, Elem::I32);
        let sign = self.with(BinaryOp::And, bits, 0x8000);
        let sign = self.with(BinaryOp::Shl, sign, 16);
        let magnitude = self.with(BinaryOp::And, bits, 0x7fff);
        let moved = self.with(BinaryOp::Shl, magnitude, 13);
        let float = self.convert(Convert::Bitcast, moved, Elem::F32);
        let scaled = self.with(BinaryOp::Mul, float, eval::from_f64(Elem::F32, 2f64.powi(112)));
        let scaled = self.convert(Convert::Bitcast, scaled, Elem::I32);
        let special = self.with(BinaryOp::Or, moved, 0x7f80_0000);
        let is_special = self.compare_with(Cond::Ge, magnitude, 0x7c00);
        let result = self.select(is_special, special, scaled);
        let result = self.both(BinaryOp::Or, result, sign);
        Op::Convert(Convert::Bitcast, result)
    }

    /// Three ranges: results that are normal round like integers; subnormal ones are rounded by adding 0.5, whose last
    /// place is theirs; what is too big becomes infinity, and NaNs keep their upper bits and become quiet.
    fn narrow_f16(&mut self, a: Value) -> Op {
        const HALF: u64 = 0x3f00_0000;
        let bits = self.convert(Convert::Bitcast, a, Elem::I32);
        let magnitude = self.with(BinaryOp::And, bits, 0x7fff_ffff);
        let sign = self.with(BinaryOp::ShrU, bits, 16);
        let sign = self.with(BinaryOp::And, sign, 0x8000);

        let kept = self.with(BinaryOp::ShrU, magnitude, 13);
        let odd = self.with(BinaryOp::And, kept, 1);
        // Exponents are rebased from 127 to 15.
        let rebased = self.with(BinaryOp::Add, magnitude, u64::from((0xfff_u32).wrapping_sub(112 << 23)));
        let normal = self.both(BinaryOp::Add, rebased, odd);
        let normal = self.with(BinaryOp::ShrU, normal, 13);

        let float = self.convert(Convert::Bitcast, magnitude, Elem::F32);
        let aligned = self.with(BinaryOp::Add, float, HALF);
        let aligned = self.convert(Convert::Bitcast, aligned, Elem::I32);
        let subnormal = self.with(BinaryOp::Sub, aligned, HALF);

        let ty = self.pass.ty(magnitude);
        let infinity = self.constant(ty, 0x7c00);
        let payload = self.with(BinaryOp::And, kept, 0x3ff);
        let nan = self.with(BinaryOp::Or, payload, 0x7e00);
        let is_nan = self.compare_with(Cond::Gt, magnitude, 0x7f80_0000);
        let special = self.select(is_nan, nan, infinity);

        let is_subnormal = self.compare_with(Cond::Lt, magnitude, 113 << 23);
        let finite = self.select(is_subnormal, subnormal, normal);
        let is_special = self.compare_with(Cond::Ge, magnitude, 143 << 23);
        let result = self.select(is_special, special, finite);
        let result = self.both(BinaryOp::Or, result, sign);
        let result = self.convert(Convert::Truncate, result, Elem::I16);
        Op::Convert(Convert::Bitcast, result)
    }

    /// `f64` to `f32`: what is not exact gets an odd last bit, towards zero from the nearest if need be.
    fn round_to_odd(&mut self, a: Value) -> Value {
        let nearest = self.convert(Convert::Float, a, Elem::F32);
        let back = self.convert(Convert::Float, nearest, Elem::F64);
        let ty = self.pass.ty(a);
        let (size, back_size) = (self.op(ty, Op::Unary(UnaryOp::Abs, a)), self.op(ty, Op::Unary(UnaryOp::Abs, back)));
        let too_big = self.compare(Cond::Gt, back_size, size);
        let differs = self.compare(Cond::Ne, back_size, size);
        let bits = self.convert(Convert::Bitcast, nearest, Elem::I32);
        let less = self.with(BinaryOp::Sub, bits, 1);
        let towards_zero = self.select(too_big, less, bits);
        let odd = self.with(BinaryOp::Or, towards_zero, 1);
        let result = self.select(differs, odd, bits);
        self.convert(Convert::Bitcast, result, Elem::F32)
    }
}
