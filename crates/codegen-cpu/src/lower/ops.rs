//! Scalar operations, one IR operation at a time.

use super::quantize::{Inverse, Quantization};
use super::{Lower, LowerError, register_elem};
use crate::vir::{Cond, Convert, Elem, Type, Value};
use infc_ir::math;
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::{DType, DTypeClass};

pub(super) fn is_unsigned(dtype: DType) -> bool {
    dtype.class() == DTypeClass::Unsigned
}

impl Lower<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, dtype: DType, a: Value) -> Result<Value, LowerError> {
        let ty = self.b.ty(a);
        if dtype == DType::Bool {
            return match op {
                UnaryOp::Not => Ok(self.b.not(a)),
                _ => self.unsupported(format!("{op:?} of bool")),
            };
        }
        if !ty.elem.is_float() {
            let value = match op {
                UnaryOp::Neg => self.b.neg(a),
                UnaryOp::Abs if is_unsigned(dtype) => a,
                UnaryOp::Abs => self.b.abs(a),
                UnaryOp::Not => self.b.not(a),
                UnaryOp::Sign => {
                    let (zero, one, minus) =
                        (self.b.constant(ty, 0), self.b.constant(ty, 1), self.b.constant(ty, u64::MAX));
                    if is_unsigned(dtype) {
                        let is_zero = self.b.compare(Cond::Eq, a, zero);
                        self.b.select(is_zero, zero, one)
                    } else {
                        let capped = self.b.min(a, one);
                        self.b.max(capped, minus)
                    }
                }
                UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => a,
                UnaryOp::IsNan | UnaryOp::IsInf => self.b.constant(ty.mask(), 0),
                _ => return self.unsupported(format!("{op:?} of {dtype}")),
            };
            return if ty.elem == Elem::Mask { Ok(value) } else { self.wrap(dtype, value) };
        }
        let value = match op {
            UnaryOp::Neg => self.b.neg(a),
            UnaryOp::Abs => self.b.abs(a),
            UnaryOp::Sign => {
                let (zero, one, minus) = (self.b.fconst(ty, 0.0), self.b.fconst(ty, 1.0), self.b.fconst(ty, -1.0));
                let positive = self.b.compare(Cond::Gt, a, zero);
                let negative = self.b.compare(Cond::Lt, a, zero);
                let rest = self.b.select(negative, minus, a);
                self.b.select(positive, one, rest)
            }
            UnaryOp::Not => {
                let zero = self.b.fconst(ty, 0.0);
                self.b.compare(Cond::Eq, a, zero)
            }
            UnaryOp::Sqrt => self.b.sqrt(a),
            UnaryOp::Reciprocal => {
                let one = self.b.fconst(ty, 1.0);
                self.b.div(one, a)
            }
            UnaryOp::Floor => self.b.floor(a),
            UnaryOp::Ceil => self.b.ceil(a),
            UnaryOp::Trunc => self.b.trunc(a),
            UnaryOp::Round => self.b.round_even(a),
            UnaryOp::Tf32 => self.tf32(a),
            UnaryOp::IsNan => self.b.compare(Cond::Ne, a, a),
            UnaryOp::IsInf => {
                let infinity = self.b.fconst(ty, f64::INFINITY);
                let magnitude = self.b.abs(a);
                self.b.compare(Cond::Eq, magnitude, infinity)
            }
            function => match math::unary(&mut self.b, function, a) {
                Some(value) => value,
                None => return self.unsupported(format!("{op:?} of {dtype}")),
            },
        };
        Ok(if self.b.ty(value).elem == Elem::Mask { value } else { self.round_half(dtype, value) })
    }

    pub(super) fn binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Result<Value, LowerError> {
        let ty = self.b.ty(a);
        if ty.elem == Elem::Mask {
            return match op {
                BinaryOp::And | BinaryOp::Mul | BinaryOp::Min => Ok(self.b.and(a, b)),
                BinaryOp::Or | BinaryOp::Add | BinaryOp::Max => Ok(self.b.or(a, b)),
                BinaryOp::Xor => Ok(self.b.xor(a, b)),
                _ => self.unsupported(format!("{op:?} of bool")),
            };
        }
        if ty.elem.is_float() {
            let value = match op {
                BinaryOp::Add => self.b.add(a, b),
                BinaryOp::Sub => self.b.sub(a, b),
                BinaryOp::Mul => self.b.mul(a, b),
                BinaryOp::Div => self.b.div(a, b),
                BinaryOp::Max => self.propagating(crate::vir::BinaryOp::Max, a, b),
                BinaryOp::Min => self.propagating(crate::vir::BinaryOp::Min, a, b),
                BinaryOp::Pow => math::pow(&mut self.b, a, b),
                BinaryOp::Rem | BinaryOp::Mod => math::remainder(&mut self.b, op, a, b),
                _ => return self.unsupported(format!("{op:?} of {dtype}")),
            };
            return Ok(self.round_half(dtype, value));
        }
        let unsigned = is_unsigned(dtype);
        if ty.lanes > 1 && matches!(op, BinaryOp::Min | BinaryOp::Max) && dtype.size_bits() < 32 {
            // Vectors of narrow integers are compared as they are: they were extended to be held, and will be again.
            let (a, b) = (self.narrow(dtype, a), self.narrow(dtype, b));
            let value = match op {
                BinaryOp::Min if unsigned => self.b.min_u(a, b),
                BinaryOp::Min => self.b.min(a, b),
                _ if unsigned => self.b.max_u(a, b),
                _ => self.b.max(a, b),
            };
            return self.widen(dtype, value);
        }
        let value = match op {
            BinaryOp::Add => self.b.add(a, b),
            BinaryOp::Sub => self.b.sub(a, b),
            BinaryOp::Mul => self.b.mul(a, b),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::Mod => self.divide(op, dtype, a, b),
            BinaryOp::Min if unsigned => self.b.min_u(a, b),
            BinaryOp::Min => self.b.min(a, b),
            BinaryOp::Max if unsigned => self.b.max_u(a, b),
            BinaryOp::Max => self.b.max(a, b),
            BinaryOp::And => self.b.and(a, b),
            BinaryOp::Or => self.b.or(a, b),
            BinaryOp::Xor => self.b.xor(a, b),
            BinaryOp::Shl | BinaryOp::Shr => {
                // Shifts by the width or more give 0.
                let width = self.b.constant(ty, dtype.size_bits() as u64);
                let zero = self.b.constant(ty, 0);
                let small = self.b.compare(Cond::LtU, b, width);
                let amount = self.b.select(small, b, zero);
                let shifted = match op {
                    BinaryOp::Shl => self.b.shl(a, amount),
                    _ if unsigned => self.b.shr_u(a, amount),
                    _ => self.b.shr_s(a, amount),
                };
                self.b.select(small, shifted, zero)
            }
            BinaryOp::Pow => math::integer_power(&mut self.b, dtype.size_bits() as u32, !unsigned, a, b),
        };
        self.wrap(dtype, value)
    }

    /// Integer division and remainders; a zero divisor gives 0.
    fn divide(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Value {
        let ty = self.b.ty(a);
        let (zero, one) = (self.b.constant(ty, 0), self.b.constant(ty, 1));
        let by_zero = self.b.compare(Cond::Eq, b, zero);
        let mut divisor = self.b.select(by_zero, one, b);
        let unsigned = is_unsigned(dtype);
        let mut dividend = a;
        if !unsigned {
            // The one quotient that does not fit, MIN / −1, must not trap: −1 is handled by negation.
            let minus = self.b.constant(ty, u64::MAX);
            let by_minus = self.b.compare(Cond::Eq, divisor, minus);
            let negated = self.b.neg(a);
            divisor = self.b.select(by_minus, one, divisor);
            dividend = self.b.select(by_minus, negated, a);
        }
        let quotient = if unsigned { self.b.div_u(dividend, divisor) } else { self.b.div(dividend, divisor) };
        let result = if op == BinaryOp::Div {
            quotient
        } else {
            let whole = self.b.mul(quotient, divisor);
            let remainder = self.b.sub(dividend, whole);
            if op == BinaryOp::Rem || unsigned {
                remainder
            } else {
                // The sign of the divisor: add it where the signs differ.
                let signs = self.b.xor(remainder, b);
                let differ = self.b.compare(Cond::Lt, signs, zero);
                let some = self.b.compare(Cond::Ne, remainder, zero);
                let fix = self.b.and(differ, some);
                let moved = self.b.add(remainder, b);
                self.b.select(fix, moved, remainder)
            }
        };
        self.b.select(by_zero, zero, result)
    }

    /// Min or max that is NaN if either operand is. The machine's instruction gives its second operand on NaN, so a
    /// constant goes first and then nothing more is needed.
    fn propagating(&mut self, op: crate::vir::BinaryOp, a: Value, b: Value) -> Value {
        if self.is_number(a) {
            return self.b.binary(op, a, b);
        }
        if self.is_number(b) {
            return self.b.binary(op, b, a);
        }
        let picked = self.b.binary(op, a, b);
        let nan = self.b.compare(Cond::Ne, a, a);
        self.b.select(nan, a, picked)
    }

    fn is_number(&self, value: Value) -> bool {
        self.b.const_bits(value).is_some_and(|bits| match self.b.ty(value).elem {
            Elem::F32 => !f32::from_bits(bits as u32).is_nan(),
            Elem::F64 => !f64::from_bits(bits).is_nan(),
            _ => false,
        })
    }

    pub(super) fn compare(&mut self, op: CompareOp, dtype: DType, a: Value, b: Value) -> Result<Value, LowerError> {
        let ty = self.b.ty(a);
        if ty.elem == Elem::Mask {
            let differ = self.b.xor(a, b);
            return match op {
                CompareOp::Ne => Ok(differ),
                CompareOp::Eq => Ok(self.b.not(differ)),
                _ => self.unsupported("ordering of bool"),
            };
        }
        let unsigned = is_unsigned(dtype);
        let (cond, swap) = match (op, unsigned) {
            (CompareOp::Eq, _) => (Cond::Eq, false),
            (CompareOp::Ne, _) => (Cond::Ne, false),
            (CompareOp::Lt, false) => (Cond::Lt, false),
            (CompareOp::Le, false) => (Cond::Le, false),
            (CompareOp::Gt, false) => (Cond::Gt, false),
            (CompareOp::Ge, false) => (Cond::Ge, false),
            (CompareOp::Lt, true) => (Cond::LtU, false),
            (CompareOp::Le, true) => (Cond::LeU, false),
            (CompareOp::Gt, true) => (Cond::LtU, true),
            (CompareOp::Ge, true) => (Cond::LeU, true),
        };
        let (a, b) = if swap { (b, a) } else { (a, b) };
        Ok(self.b.compare(cond, a, b))
    }

    pub(super) fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        if self.b.ty(a).elem == Elem::Mask {
            let taken = self.b.and(mask, a);
            let off = self.b.not(mask);
            let other = self.b.and(off, b);
            return self.b.or(taken, other);
        }
        self.b.select(mask, a, b)
    }

    /// Halves are held as f32 and rounded to their type after every operation.
    fn round_half(&mut self, dtype: DType, value: Value) -> Value {
        let elem = match dtype {
            DType::F16 => Elem::F16,
            DType::BF16 => Elem::BF16,
            _ => return value,
        };
        let rounded = self.b.convert(Convert::Float, value, elem);
        self.b.convert(Convert::Float, rounded, Elem::F32)
    }

    /// Half of what the dropped bits can say is added to the bits; NaN stays what it is.
    fn tf32(&mut self, a: Value) -> Value {
        let ty = self.b.ty(a);
        let words = ty.with_elem(Elem::I32);
        let bits = self.b.bitcast(a, words);
        let (half, kept) = (self.b.constant(words, 0x1000), self.b.constant(words, 0xffff_e000));
        let up = self.b.add(bits, half);
        let rounded = self.b.and(up, kept);
        let rounded = self.b.bitcast(rounded, ty);
        let is_nan = self.b.compare(Cond::Ne, a, a);
        self.b.select(is_nan, a, rounded)
    }

    /// Narrow integers are held extended to 32 bits and wrapped after every operation.
    fn wrap(&mut self, dtype: DType, value: Value) -> Result<Value, LowerError> {
        let narrow = match dtype {
            DType::I8 | DType::U8 => Elem::I8,
            DType::I16 | DType::U16 => Elem::I16,
            _ => return Ok(value),
        };
        let low = self.b.convert(Convert::Truncate, value, narrow);
        let extend = if is_unsigned(dtype) { Convert::ZeroExtend } else { Convert::SignExtend };
        Ok(self.b.convert(extend, low, Elem::I32))
    }

    /// From memory form to register form.
    pub(super) fn widen(&mut self, dtype: DType, raw: Value) -> Result<Value, LowerError> {
        let ty = self.b.ty(raw);
        Ok(match dtype {
            DType::F16 | DType::BF16 => self.b.convert(Convert::Float, raw, Elem::F32),
            DType::I8 | DType::I16 => self.b.convert(Convert::SignExtend, raw, Elem::I32),
            DType::U8 | DType::U16 => self.b.convert(Convert::ZeroExtend, raw, Elem::I32),
            DType::Bool => {
                let wide = self.b.convert(Convert::ZeroExtend, raw, Elem::I32);
                let zero = self.b.constant(Type::vector(Elem::I32, ty.lanes), 0);
                self.b.compare(Cond::Ne, wide, zero)
            }
            _ => raw,
        })
    }

    /// From register form to memory form.
    pub(super) fn narrow(&mut self, dtype: DType, value: Value) -> Value {
        match dtype {
            DType::F16 => self.b.convert(Convert::Float, value, Elem::F16),
            DType::BF16 => self.b.convert(Convert::Float, value, Elem::BF16),
            DType::I8 | DType::U8 => self.b.convert(Convert::Truncate, value, Elem::I8),
            DType::I16 | DType::U16 => self.b.convert(Convert::Truncate, value, Elem::I16),
            DType::Bool => {
                let wide = self.b.convert(Convert::MaskToInt, value, Elem::I32);
                self.b.convert(Convert::Truncate, wide, Elem::I8)
            }
            _ => value,
        }
    }

    pub(super) fn cast(&mut self, from: DType, to: DType, value: Value) -> Result<Value, LowerError> {
        let (Some(source), Some(target)) = (register_elem(from), register_elem(to)) else {
            return self.unsupported(format!("conversion from {from} to {to}"));
        };
        let ty = self.b.ty(value);
        if to == DType::Bool {
            if source == Elem::Mask {
                return Ok(value);
            }
            let zero = self.b.constant(ty, 0);
            return Ok(self.b.compare(Cond::Ne, value, zero));
        }
        let (value, source, from) = if source == Elem::Mask {
            (self.b.convert(Convert::MaskToInt, value, Elem::I32), Elem::I32, DType::I32)
        } else {
            (value, source, from)
        };
        let value = match (source.is_float(), target.is_float()) {
            (true, true) if source == target => value,
            (true, true) => self.b.convert(Convert::Float, value, target),
            (true, false) => self.float_to_int(to, target, value),
            (false, true) if from == DType::U64 => self.u64_to_float(value, target),
            (false, true) if from == DType::U32 => {
                let wide = self.b.convert(Convert::ZeroExtend, value, Elem::I64);
                self.b.convert(Convert::IntToFloat, wide, target)
            }
            (false, true) => self.b.convert(Convert::IntToFloat, value, target),
            (false, false) => match (source, target) {
                (Elem::I32, Elem::I64) if is_unsigned(from) => self.b.convert(Convert::ZeroExtend, value, Elem::I64),
                (Elem::I32, Elem::I64) => self.b.convert(Convert::SignExtend, value, Elem::I64),
                (Elem::I64, Elem::I32) => self.b.convert(Convert::Truncate, value, Elem::I32),
                _ => value,
            },
        };
        if target.is_float() { Ok(self.round_half(to, value)) } else { self.wrap(to, value) }
    }

    /// Truncates. Conversions know signed integers only: what may have 32 bits is converted to 64, and what has the highest
    /// of 64 bits without it, which is exact, since such a float is a multiple of 2¹¹ at least.
    fn float_to_int(&mut self, to: DType, target: Elem, value: Value) -> Value {
        if to == DType::U32 {
            let wide = self.b.convert(Convert::FloatToInt, value, Elem::I64);
            return self.b.convert(Convert::Truncate, wide, Elem::I32);
        }
        if to != DType::U64 {
            return self.b.convert(Convert::FloatToInt, value, target);
        }
        let ty = self.b.ty(value);
        let highest = self.b.fconst(ty, 2f64.powi(63));
        let is_large = self.b.compare(Cond::Ge, value, highest);
        let rest = self.b.sub(value, highest);
        let small = self.b.select(is_large, rest, value);
        let low = self.b.convert(Convert::FloatToInt, small, Elem::I64);
        let bit = self.b.constant(self.b.ty(low), 1 << 63);
        let high = self.b.or(low, bit);
        self.b.select(is_large, high, low)
    }

    /// Conversions know signed integers only: what has the highest bit is halved first and doubled behind. The bit that is
    /// shifted out stays to be seen, so that rounding is that of the whole.
    fn u64_to_float(&mut self, value: Value, target: Elem) -> Value {
        let ty = self.b.ty(value);
        let (zero, one) = (self.b.constant(ty, 0), self.b.constant(ty, 1));
        let (half, odd) = (self.b.shr_u(value, one), self.b.and(value, one));
        let half = self.b.or(half, odd);
        let half = self.b.convert(Convert::IntToFloat, half, target);
        let doubled = self.b.add(half, half);
        let plain = self.b.convert(Convert::IntToFloat, value, target);
        let is_large = self.b.compare(Cond::Lt, value, zero);
        self.b.select(is_large, doubled, plain)
    }

    /// The bits that memory would hold, as those of another type.
    pub(super) fn bit_cast(&mut self, from: DType, to: DType, value: Value) -> Result<Value, LowerError> {
        let elem = self.memory_type(to)?;
        let raw = self.narrow(from, value);
        let raw = if self.b.ty(raw).elem == elem { raw } else { self.b.convert(Convert::Bitcast, raw, elem) };
        self.widen(to, raw)
    }

    /// Rounds half to even, then clamps to the target's range.
    /// Bytes of floats; see [`super::quantize`].
    pub(super) fn quantize(&mut self, parts: &Quantization, value: Value) -> Value {
        let ty = self.b.ty(value);
        let quotient = match parts.scale.map(|scale| (scale, self.inverse(scale))) {
            Some((_, Some(Inverse { high, low }))) => {
                let [high, low] = [high, low].map(|part| self.b.fconst(ty, part.into()));
                let rest = self.b.mul(value, low);
                self.b.fma(value, high, rest)
            }
            Some((scale, None)) => {
                let scale = self.b.fconst(ty, scale.into());
                self.b.div(value, scale)
            }
            None => value,
        };
        let (lo, hi) = if parts.to == DType::U8 { (0, 255) } else { (-128, 127) };
        let [lo, hi] = [lo, hi].map(|bound| self.b.fconst(ty, (bound - parts.zero) as f64));
        let capped = self.b.min(quotient, hi);
        let clamped = self.b.max(capped, lo);
        let whole = self.b.convert(Convert::FloatToIntRound, clamped, Elem::I32);
        let zero = self.b.constant(self.b.ty(whole), parts.zero.cast_unsigned());
        self.b.add(whole, zero)
    }

    /// The inverse of a scale, which takes a while to find.
    fn inverse(&mut self, scale: f32) -> Option<Inverse> {
        *self.inverses.entry(scale.to_bits()).or_insert_with(|| Inverse::of(scale))
    }

    pub(super) fn cast_saturating(&mut self, from: DType, to: DType, value: Value) -> Result<Value, LowerError> {
        let Some(target) = register_elem(to) else { return self.unsupported(format!("conversion to {to}")) };
        let value = if from.is_float() { value } else { self.cast(from, DType::F32, value)? };
        let ty = self.b.ty(value);
        let bits = to.size_bits() as i32;
        // What is in range lies below `end`, which is a float, other than the largest integer.
        let (lo, end) =
            if is_unsigned(to) { (0.0, 2f64.powi(bits)) } else { (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)) };
        let lo = self.b.fconst(ty, lo);
        if bits < 32 {
            let hi = self.b.fconst(ty, end - 1.0);
            let capped = self.b.min(value, hi);
            let clamped = self.b.max(capped, lo);
            return Ok(self.b.convert(Convert::FloatToIntRound, clamped, target));
        }
        let rounded = self.b.round_even(value);
        let raised = self.b.max(rounded, lo);
        let within = self.float_to_int(to, target, raised);
        let end = self.b.fconst(ty, end);
        let is_beyond = self.b.compare(Cond::Ge, rounded, end);
        let largest = u64::MAX >> (64 - bits) >> i32::from(!is_unsigned(to));
        let largest = self.b.constant(self.b.ty(within), largest);
        Ok(self.b.select(is_beyond, largest, within))
    }
}
