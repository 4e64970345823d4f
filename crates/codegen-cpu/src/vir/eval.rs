//! What every operation of `vir` means for one lane, on bits.
//!
//! The builder folds constants with these functions and the interpreter runs them, so that folding can not disagree
//! with running. A lane is a `u64` whose low bits hold the element; the rest are zero.

use super::{BinaryOp, Cond, Convert, Elem, UnaryOp};

/// The bits of an element that count.
#[must_use]
pub const fn lane_mask(elem: Elem) -> u64 {
    match elem {
        Elem::Mask => 1,
        Elem::I8 => 0xff,
        Elem::I16 | Elem::F16 | Elem::BF16 => 0xffff,
        Elem::I32 | Elem::F32 => 0xffff_ffff,
        Elem::I64 | Elem::F64 => u64::MAX,
    }
}

/// Width of an element in bits.
#[must_use]
pub const fn bits_of(elem: Elem) -> u32 {
    match elem {
        Elem::Mask => 1,
        _ => elem.size_bytes() * 8,
    }
}

/// The signed value of an integer lane; a mask's lane is 0 or 1.
#[must_use]
pub const fn sign_extend(elem: Elem, bits: u64) -> i64 {
    if matches!(elem, Elem::Mask) {
        return (bits & 1).cast_signed();
    }
    let unused = 64 - bits_of(elem);
    (bits << unused).cast_signed() >> unused
}

/// A lane of float type as `f64`; exact for every type.
#[must_use]
pub fn to_f64(elem: Elem, bits: u64) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(bits),
        Elem::F32 => f64::from(f32::from_bits(bits as u32)),
        Elem::F16 => f64::from(f16_to_f32(bits as u16)),
        Elem::BF16 => f64::from(f32::from_bits((bits as u32 & 0xffff) << 16)),
        _ => sign_extend(elem, bits) as f64,
    }
}

/// The lane of float type nearest to a value.
#[must_use]
pub fn from_f64(elem: Elem, value: f64) -> u64 {
    match elem {
        Elem::F64 => value.to_bits(),
        Elem::F32 => u64::from((value as f32).to_bits()),
        Elem::F16 => u64::from(narrow(value, 5, 10)),
        Elem::BF16 => u64::from(narrow(value, 8, 7)),
        _ => value as i64 as u64 & lane_mask(elem),
    }
}

/// Binary16 to `f32`, exactly.
fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 31;
    let mantissa = u32::from(bits) & 0x3ff;
    match exponent {
        0 => {
            // Subnormal: mantissa · 2⁻²⁴, exact in f32.
            let magnitude = mantissa as f32 * f32::from_bits((127 - 24) << 23);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | (mantissa << 13) | if mantissa == 0 { 0 } else { 0x40_0000 }),
        _ => f32::from_bits(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13)),
    }
}

/// Rounds to a 16-bit float with the given field widths, half to even, directly from `f64` (no double rounding).
fn narrow(value: f64, exponent_bits: u32, mantissa_bits: u32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 63) as u16) << 15;
    let max_exponent = (1i64 << exponent_bits) - 1;
    let bias = max_exponent >> 1;
    let infinity = (max_exponent as u16) << mantissa_bits;
    if value.is_nan() {
        let payload = (bits >> (52 - mantissa_bits)) as u16 & ((1 << mantissa_bits) - 1);
        return sign | infinity | payload | (1 << (mantissa_bits - 1));
    }
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    if value == 0.0 || exponent < -bias - i64::from(mantissa_bits) - 1 {
        return sign;
    }
    if exponent > bias {
        return sign | infinity;
    }
    let significand = (bits & ((1 << 52) - 1)) | if exponent == -1023 { 0 } else { 1 << 52 };
    // Normal numbers drop 52 − mantissa_bits bits; subnormal ones one more per step below the smallest exponent.
    let subnormal_steps = (1 - bias - exponent).max(0) as u32;
    let drop = 52 - mantissa_bits + subnormal_steps;
    let kept = significand >> drop;
    let rest = significand & ((1 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let rounded = kept + u64::from(rest > half || (rest == half && kept & 1 == 1));
    // The hidden bit adds one to the exponent field; a carry out of the mantissa adds one more, up to infinity.
    let field = if subnormal_steps > 0 { 0 } else { (exponent + bias - 1) as u64 };
    sign | ((field << mantissa_bits) + rounded).min(u64::from(infinity)) as u16
}

macro_rules! float_op {
    ($elem:expr, $op:expr, $($bits:ident),+) => {
        match $elem {
            Elem::F32 => u64::from($op($(f32::from_bits($bits as u32)),+).to_bits()),
            _ => $op($(f64::from_bits($bits)),+).to_bits(),
        }
    };
}

/// One lane of a [`UnaryOp`].
#[must_use]
pub fn unary(op: UnaryOp, elem: Elem, a: u64) -> u64 {
    let sign = 1u64 << (bits_of(elem) - 1);
    match op {
        UnaryOp::Not => !a & lane_mask(elem),
        UnaryOp::Neg if elem.is_float() => a ^ sign,
        UnaryOp::Abs if elem.is_float() => a & !sign,
        UnaryOp::Neg => a.wrapping_neg() & lane_mask(elem),
        UnaryOp::Abs => sign_extend(elem, a).wrapping_abs().cast_unsigned() & lane_mask(elem),
        UnaryOp::Sqrt => match elem {
            Elem::F32 => u64::from(f32::from_bits(a as u32).sqrt().to_bits()),
            _ => f64::from_bits(a).sqrt().to_bits(),
        },
        UnaryOp::RoundEven => match elem {
            Elem::F32 => u64::from(f32::from_bits(a as u32).round_ties_even().to_bits()),
            _ => f64::from_bits(a).round_ties_even().to_bits(),
        },
        UnaryOp::Floor => match elem {
            Elem::F32 => u64::from(f32::from_bits(a as u32).floor().to_bits()),
            _ => f64::from_bits(a).floor().to_bits(),
        },
        UnaryOp::Ceil => match elem {
            Elem::F32 => u64::from(f32::from_bits(a as u32).ceil().to_bits()),
            _ => f64::from_bits(a).ceil().to_bits(),
        },
        UnaryOp::Trunc => match elem {
            Elem::F32 => u64::from(f32::from_bits(a as u32).trunc().to_bits()),
            _ => f64::from_bits(a).trunc().to_bits(),
        },
        UnaryOp::Table(table) => u64::from(table.values()[(a & 0xf) as usize]),
    }
}

/// One lane of a [`BinaryOp`]; `None` for a division by zero or an overflowing one (both trap on the machine) and for
/// a shift by the width or more.
#[must_use]
pub fn binary(op: BinaryOp, elem: Elem, a: u64, b: u64) -> Option<u64> {
    let bitwise = match op {
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        _ => None,
    };
    if bitwise.is_some() {
        return bitwise;
    }
    if elem.is_float() {
        return Some(match op {
            BinaryOp::Add => float_op!(elem, |x, y| x + y, a, b),
            BinaryOp::Sub => float_op!(elem, |x, y| x - y, a, b),
            BinaryOp::Mul => float_op!(elem, |x, y| x * y, a, b),
            BinaryOp::Div => float_op!(elem, |x, y| x / y, a, b),
            BinaryOp::Min => float_op!(elem, |x, y| if x < y { x } else { y }, a, b),
            BinaryOp::Max => float_op!(elem, |x, y| if x > y { x } else { y }, a, b),
            BinaryOp::Scale => from_f64(elem, scale(elem, to_f64(elem, a), to_f64(elem, b))),
            _ => return None,
        });
    }
    let (x, y) = (sign_extend(elem, a), sign_extend(elem, b));
    let shift = (b < u64::from(bits_of(elem))).then_some(b as u32);
    let result = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => x.checked_div(y)?.cast_unsigned(),
        BinaryOp::Rem => x.checked_rem(y)?.cast_unsigned(),
        BinaryOp::DivU => a.checked_div(b)?,
        BinaryOp::RemU => a.checked_rem(b)?,
        BinaryOp::Min => x.min(y).cast_unsigned(),
        BinaryOp::Max => x.max(y).cast_unsigned(),
        BinaryOp::MinU => a.min(b),
        BinaryOp::MaxU => a.max(b),
        BinaryOp::Shl => a << shift?,
        BinaryOp::ShrS => (x >> shift?).cast_unsigned(),
        BinaryOp::ShrU => a >> shift?,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Scale => return None,
    };
    Some(result & lane_mask(elem))
}

/// `x·2ⁿ` for a whole n, rounded once, for elements of a type.
fn scale(elem: Elem, x: f64, n: f64) -> f64 {
    if n.is_nan() {
        return n;
    }
    // Exact for f32, whose rounding comes when the result is narrowed. For f64, the factors but the last leave room for all
    // bits of a result that is going to be subnormal.
    let smallest = if elem == Elem::F64 { -1022.0 + 53.0 } else { -1022.0 };
    let (mut x, mut n) = (x, n.floor().clamp(-2200.0, 2200.0));
    while n != 0.0 {
        let step = n.clamp(smallest, 1023.0);
        x *= 2f64.powi(step as i32);
        n -= step;
    }
    x
}

/// One lane of a fused multiply-add.
#[must_use]
pub fn fma(elem: Elem, a: u64, b: u64, c: u64) -> u64 {
    match elem {
        Elem::F32 => {
            let (a, b, c) = (f32::from_bits(a as u32), f32::from_bits(b as u32), f32::from_bits(c as u32));
            u64::from(a.mul_add(b, c).to_bits())
        }
        _ => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
    }
}

/// One lane of a comparison.
#[must_use]
pub fn compare(cond: Cond, elem: Elem, a: u64, b: u64) -> bool {
    if elem.is_float() {
        let (x, y) = (to_f64(elem, a), to_f64(elem, b));
        return match cond {
            Cond::Eq => x == y,
            Cond::Ne => x != y,
            Cond::Lt | Cond::LtU => x < y,
            Cond::Le | Cond::LeU => x <= y,
            Cond::Gt => x > y,
            Cond::Ge => x >= y,
            Cond::Ordered => !x.is_nan() && !y.is_nan(),
        };
    }
    let (x, y) = (sign_extend(elem, a), sign_extend(elem, b));
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::Ordered => true,
        Cond::Lt => x < y,
        Cond::Le => x <= y,
        Cond::Gt => x > y,
        Cond::Ge => x >= y,
        Cond::LtU => a < b,
        Cond::LeU => a <= b,
    }
}

/// One lane of a conversion.
#[must_use]
pub fn convert(kind: Convert, from: Elem, to: Elem, a: u64) -> u64 {
    match kind {
        Convert::SignExtend => sign_extend(from, a).cast_unsigned() & lane_mask(to),
        Convert::ZeroExtend | Convert::Bitcast | Convert::MaskToInt | Convert::Truncate => a & lane_mask(to),
        Convert::IntToFloat => {
            let value = sign_extend(from, a);
            // Not by way of f64, which would round twice on the way to f32.
            match to {
                Elem::F32 => u64::from((value as f32).to_bits()),
                _ => from_f64(to, value as f64),
            }
        }
        Convert::FloatToInt => float_to_int(to, to_f64(from, a).trunc()),
        Convert::FloatToIntRound => float_to_int(to, to_f64(from, a).round_ties_even()),
        Convert::Float => match (from, to) {
            _ if from == to => a,
            _ => from_f64(to, to_f64(from, a)),
        },
    }
}

/// The x86 rule: what does not fit becomes the minimum integer.
fn float_to_int(to: Elem, value: f64) -> u64 {
    let limit = 2f64.powi(bits_of(to) as i32 - 1);
    if value >= -limit && value < limit {
        (value as i64).cast_unsigned() & lane_mask(to)
    } else {
        1 << (bits_of(to) - 1)
    }
}

/// One lane of [`super::Op::Dot4`]: `acc + Σ a(u8)·b(i8)` over four bytes each.
#[must_use]
pub fn dot4(acc: u64, a: &[u64], b: &[u64]) -> u64 {
    let sum = a.iter().zip(b).fold(sign_extend(Elem::I32, acc), |sum, (&a, &b)| {
        sum.wrapping_add((a & 0xff) as i64 * sign_extend(Elem::I8, b))
    });
    sum.cast_unsigned() & lane_mask(Elem::I32)
}

/// One lane of [`super::Op::Dot2`]: `Σ a·b` over two 16-bit numbers each.
#[must_use]
pub fn dot2(a: &[u64], b: &[u64]) -> u64 {
    let product = |(&a, &b)| sign_extend(Elem::I16, a) * sign_extend(Elem::I16, b);
    a.iter().zip(b).map(product).sum::<i64>().cast_unsigned() & lane_mask(Elem::I32)
}

/// One lane of [`super::Op::Dot2Bf16`]: upper halves first, a fused multiply-add each, subnormal numbers as zero on the
/// way in and out (Intel SDM, `VDPBF16PS`; Zen 4 gives the same bits).
#[must_use]
pub fn dot2_bf16(acc: u64, a: u64, b: u64) -> u64 {
    let normal = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
    let upper = |word: u64| normal(f32::from_bits(word as u32 & 0xffff_0000));
    let lower = |word: u64| normal(f32::from_bits((word as u32) << 16));
    let sum = normal(f32::from_bits(acc as u32));
    let sum = normal(upper(a).mul_add(upper(b), sum));
    let sum = normal(lower(a).mul_add(lower(b), sum));
    u64::from(sum.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_types_round_to_even() {
        assert_eq!(from_f64(Elem::F16, 1.0), 0x3c00);
        assert_eq!(from_f64(Elem::F16, 65504.0), 0x7bff);
        assert_eq!(from_f64(Elem::F16, 65519.9), 0x7bff);
        assert_eq!(from_f64(Elem::F16, 65520.0), 0x7c00);
        assert_eq!(from_f64(Elem::F16, 2f64.powi(-24)), 1);
        assert_eq!(from_f64(Elem::F16, 2f64.powi(-25)), 0);
        assert_eq!(from_f64(Elem::F16, 1.5 * 2f64.powi(-25)), 1);
        assert_eq!(from_f64(Elem::F16, -0.0), 0x8000);
        assert_eq!(from_f64(Elem::BF16, 1.0), 0x3f80);
        assert_eq!(from_f64(Elem::BF16, f64::from(f32::MAX)), 0x7f80);
        assert_eq!(from_f64(Elem::BF16, 1.00390625), 0x3f80);
        assert_eq!(from_f64(Elem::BF16, 1.01171875), 0x3f82);
    }

    #[test]
    fn half_types_round_trip() {
        for bits in 0..=u16::MAX {
            for elem in [Elem::F16, Elem::BF16] {
                let value = to_f64(elem, u64::from(bits));
                if !value.is_nan() {
                    assert_eq!(from_f64(elem, value), u64::from(bits), "{elem:?} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn integers_wrap_and_divisions_may_trap() {
        assert_eq!(binary(BinaryOp::Add, Elem::I8, 0xff, 2), Some(1));
        assert_eq!(binary(BinaryOp::Div, Elem::I64, 7, 0), None);
        assert_eq!(binary(BinaryOp::Rem, Elem::I32, (-7i32) as u32 as u64, 4), Some((-3i32) as u32 as u64));
        assert_eq!(binary(BinaryOp::ShrS, Elem::I16, 0x8000, 15), Some(0xffff));
        assert_eq!(binary(BinaryOp::Shl, Elem::I32, 1, 32), None);
        assert_eq!(unary(UnaryOp::Abs, Elem::I8, 0x80), 0x80);
    }

    #[test]
    fn conversions_out_of_range_give_the_indefinite_integer() {
        let nan = u64::from(f32::NAN.to_bits());
        assert_eq!(convert(Convert::FloatToInt, Elem::F32, Elem::I32, nan), 0x8000_0000);
        let big = u64::from(3e9f32.to_bits());
        assert_eq!(convert(Convert::FloatToInt, Elem::F32, Elem::I32, big), 0x8000_0000);
        let half = u64::from(2.5f32.to_bits());
        assert_eq!(convert(Convert::FloatToIntRound, Elem::F32, Elem::I32, half), 2);
    }
}
