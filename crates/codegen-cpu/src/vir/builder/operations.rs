//! Leaves and arithmetic.

use super::{Builder, Motion};
use crate::vir::{BinaryOp, Cond, Convert, Elem, I64, Op, Type, UnaryOp, Value, eval};

impl Builder {
    /// The n-th parameter: 0 args, 1 begin, 2 end, 3 scratch.
    pub fn param(&mut self, n: u8) -> Value {
        assert!(n < 4, "a kernel has four parameters");
        self.pure(Op::Param(n), I64)
    }

    /// An I64 constant.
    pub fn iconst(&mut self, value: i64) -> Value {
        self.constant(I64, value.cast_unsigned())
    }

    /// A constant by the bits of one element; for a mask, bit i is lane i.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        let meaningful = match ty.elem {
            Elem::Mask if ty.lanes < 64 => (1 << ty.lanes) - 1,
            Elem::Mask => u64::MAX,
            elem => eval::lane_mask(elem),
        };
        self.pure(Op::Const(bits & meaningful), ty)
    }

    /// A constant of any integer or float type, splat over the lanes; floats round to nearest.
    pub fn fconst(&mut self, ty: Type, value: f64) -> Value {
        self.constant(ty, eval::from_f64(ty.elem, value))
    }

    /// Lane numbers 0, 1, 2, ….
    pub fn lane_index(&mut self, ty: Type) -> Value {
        let numbers: Vec<i64> = (0..i64::from(ty.lanes)).collect();
        self.lanes(ty, &numbers)
    }

    /// A constant with a number for each lane (integers).
    pub fn lanes(&mut self, ty: Type, numbers: &[i64]) -> Value {
        assert_eq!(numbers.len(), usize::from(ty.lanes), "numbers of {ty}");
        let bits: Vec<u64> = numbers.iter().map(|n| n.cast_unsigned() & eval::lane_mask(ty.elem)).collect();
        self.lane_bits(ty, &bits)
    }

    /// A constant by the bits of each lane.
    pub(in crate::vir) fn lane_bits(&mut self, ty: Type, bits: &[u64]) -> Value {
        if bits.iter().all(|&lane| lane == bits[0]) {
            return self.constant(ty, bits[0]);
        }
        self.pure(Op::Lanes(bits.into()), ty)
    }

    /// See [`UnaryOp`].
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        let ty = self.ty(a);
        self.make(Op::Unary(op, a), ty, Motion::Free)
    }

    /// See [`BinaryOp`].
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?}");
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivU | BinaryOp::RemU);
        let traps = divides && !ty.elem.is_float() && !matches!(self.as_const(b), Some(n) if n != 0 && n != -1);
        self.make(Op::Binary(op, a, b), ty, if traps { Motion::WhereExecuted } else { Motion::Free })
    }

    /// `a·b + c` rounded once.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.elem.is_float() && ty == self.ty(b) && ty == self.ty(c), "operands of fma");
        self.make(Op::Fma(a, b, c), ty, Motion::Free)
    }

    /// Lane-wise comparison giving a mask.
    pub fn compare(&mut self, cond: Cond, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of a comparison");
        self.make(Op::Compare(cond, a, b), ty.mask(), Motion::Free)
    }

    /// `mask ? a : b`.
    pub fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of select");
        assert_eq!(ty.mask(), self.ty(mask), "mask of select");
        self.make(Op::Select(mask, a, b), ty, Motion::Free)
    }

    /// The same bits as another type of the same size, possibly of other lanes.
    pub fn bitcast(&mut self, a: Value, ty: Type) -> Value {
        assert_eq!(self.ty(a).size_bytes(), ty.size_bytes(), "a bitcast keeps all bits");
        self.make(Op::Convert(Convert::Bitcast, a), ty, Motion::Free)
    }

    /// Converts to another element type.
    pub fn convert(&mut self, kind: Convert, a: Value, to: Elem) -> Value {
        let ty = self.ty(a).with_elem(to);
        if kind == Convert::Truncate {
            // What was extended is there already.
            if let Some(&Op::Convert(Convert::ZeroExtend | Convert::SignExtend, narrow)) = self.op(a)
                && self.ty(narrow) == ty
            {
                return narrow;
            }
            if let Some(bits) = self.const_bits(a) {
                return self.constant(ty, bits & (u64::MAX >> (64 - 8 * to.size_bytes())));
            }
        }
        self.make(Op::Convert(kind, a), ty, Motion::Free)
    }

    /// A scalar in all lanes.
    pub fn splat(&mut self, a: Value, lanes: u16) -> Value {
        let ty = self.ty(a);
        assert_eq!(ty.lanes, 1, "only scalars are splat");
        self.make(Op::Splat(a), Type::vector(ty.elem, lanes), Motion::Free)
    }

    /// The lower half of a vector's lanes.
    pub fn low_half(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.lanes > 1, "a scalar has no halves");
        self.make(Op::LowHalf(a), Type::vector(ty.elem, ty.lanes / 2), Motion::Free)
    }

    /// The upper half of a vector's lanes.
    pub fn high_half(&mut self, a: Value) -> Value {
        let ty = self.ty(a);
        assert!(ty.lanes > 1, "a scalar has no halves");
        self.make(Op::HighHalf(a), Type::vector(ty.elem, ty.lanes / 2), Motion::Free)
    }

    /// One lane as a scalar.
    pub fn extract(&mut self, a: Value, lane: u16) -> Value {
        let ty = self.ty(a);
        assert!(lane < ty.lanes, "lane {lane} of {}", ty.lanes);
        self.make(Op::Extract(a, lane), Type::scalar(ty.elem), Motion::Free)
    }

    /// The mask whose first `n` lanes are set.
    pub fn first_lanes(&mut self, n: Value, lanes: u16) -> Value {
        assert_eq!(self.ty(n), I64, "a lane count is an i64");
        self.make(Op::FirstLanes(n), Type::vector(Elem::Mask, lanes), Motion::Free)
    }

    /// A mask's lanes as the bits of an I64 scalar.
    pub fn mask_bits(&mut self, mask: Value) -> Value {
        assert_eq!(self.ty(mask).elem, Elem::Mask, "mask bits of a mask");
        self.make(Op::MaskBits(mask), I64, Motion::Free)
    }

    /// Per 32-bit lane `acc + Σ₄ a(u8)·b(i8)`.
    pub fn dot4(&mut self, acc: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(acc);
        let bytes = Type::vector(Elem::I8, ty.lanes * 4);
        assert!(ty.elem == Elem::I32 && self.ty(a) == bytes && self.ty(b) == bytes, "operands of dot4");
        self.make(Op::Dot4(acc, a, b), ty, Motion::Free)
    }

    /// Per 32-bit lane `Σ₂ a·b` of signed 16-bit numbers.
    pub fn dot2(&mut self, a: Value, b: Value) -> Value {
        let halves = self.ty(a);
        assert!(halves.elem == Elem::I16 && halves.lanes > 1 && self.ty(b) == halves, "operands of dot2");
        self.make(Op::Dot2(a, b), Type::vector(Elem::I32, halves.lanes / 2), Motion::Free)
    }

    /// Per lane of f32 `acc + Σ₂ a·b` of the two bfloat16 numbers in each 32-bit lane ([`Op::Dot2Bf16`]).
    pub fn dot2_bf16(&mut self, acc: Value, a: Value, b: Value) -> Value {
        let ty = self.ty(acc);
        let words = ty.with_elem(Elem::I32);
        assert!(ty.elem == Elem::F32 && ty.lanes > 1, "dot products of bfloat16 are summed in vectors of f32");
        assert!(self.ty(a) == words && self.ty(b) == words, "operands of dot2_bf16");
        self.make(Op::Dot2Bf16(acc, a, b), ty, Motion::Free)
    }
}

/// Short forms of [`Builder::binary`] and [`Builder::unary`].
macro_rules! short_forms {
    (binary $($name:ident $op:ident),+) => {
        impl Builder {
            $(
                #[doc = concat!("See [`BinaryOp::", stringify!($op), "`].")]
                pub fn $name(&mut self, a: Value, b: Value) -> Value {
                    self.binary(BinaryOp::$op, a, b)
                }
            )+
        }
    };
    (unary $($name:ident $op:ident),+) => {
        impl Builder {
            $(
                #[doc = concat!("See [`UnaryOp::", stringify!($op), "`].")]
                pub fn $name(&mut self, a: Value) -> Value {
                    self.unary(UnaryOp::$op, a)
                }
            )+
        }
    };
}

short_forms!(binary add Add, sub Sub, mul Mul, div Div, rem Rem, div_u DivU, rem_u RemU, min Min, max Max, min_u MinU, max_u MaxU, and And, or Or, xor Xor, shl Shl, shr_s ShrS, shr_u ShrU);
short_forms!(unary neg Neg, abs Abs, not Not, sqrt Sqrt, round_even RoundEven, floor Floor, ceil Ceil, trunc Trunc);
