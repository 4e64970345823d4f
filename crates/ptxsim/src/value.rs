//! What instructions compute, on the bits of values (PTX ISA 9.7.1 to 9.7.9).

use crate::instruction::{Compare, Compute, Round};
use crate::types::{Kind, Ty};
use half::{bf16, f16};

/// Relative error that `ex2.approx.f32` may have, and `lg2.approx.f32` outside of (0.5, 2), where it is the absolute one.
const APPROX_ERROR: f64 = 1.0 / (1u64 << 22) as f64;
/// Relative error that `tanh.approx.f32` may have.
const TANH_ERROR: f64 = 1.0 / (1u64 << 11) as f64;

/// The bits of a signed number of so many bits, as 64 of them.
pub(crate) fn sign_extend(bits: u64, width: u32) -> i64 {
    let shift = 64 - width;
    ((bits << shift) as i64) >> shift
}

/// What a register of the type `wide` holds of a value of the type `ty`.
pub(crate) fn extend(bits: u64, ty: Ty, wide: Ty) -> u64 {
    let bits = bits & ty.mask();
    if ty.kind == Kind::Signed { sign_extend(bits, ty.bits) as u64 & wide.mask() } else { bits }
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn f64_of(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// A number in [−1, 1] that depends on the seed and the argument alone, as an approximation's error does.
fn deviation(seed: u64, bits: u64) -> f64 {
    let mut z = seed ^ bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// One value of up to three others. For `MulWide` and `MadWide` the last source and the result are 64 bits wide; for
/// `Selp` the last source is the predicate.
pub(crate) fn compute(op: Compute, ty: Ty, [a, b, c]: [u64; 3], seed: u64) -> u64 {
    match (op, ty.kind, ty.bits) {
        (Compute::Mov, ..) => a,
        (Compute::Selp, ..) => {
            if c != 0 {
                a
            } else {
                b
            }
        }
        (_, Kind::Float, 32) => u64::from(single(op, f32_of(a), f32_of(b), f32_of(c), seed).to_bits()),
        (_, Kind::Float, _) => double(op, f64_of(a), f64_of(b), f64_of(c)).to_bits(),
        _ => integer(op, ty, a, b, c),
    }
}

fn integer(op: Compute, ty: Ty, a: u64, b: u64, c: u64) -> u64 {
    let signed = ty.kind == Kind::Signed;
    let (x, y) = (sign_extend(a, ty.bits), sign_extend(b, ty.bits));
    let wide = |v: u64| if signed { i128::from(sign_extend(v, ty.bits)) } else { i128::from(v) };
    let result = match op {
        Compute::Add => a.wrapping_add(b),
        Compute::Sub => a.wrapping_sub(b),
        Compute::MulLo => a.wrapping_mul(b),
        Compute::MadLo => a.wrapping_mul(b).wrapping_add(c),
        Compute::MulHi => (wide(a).wrapping_mul(wide(b)) >> ty.bits) as u64,
        Compute::MulWide => return wide(a).wrapping_mul(wide(b)) as u64,
        Compute::MadWide => return (wide(a).wrapping_mul(wide(b)) as u64).wrapping_add(c),
        // What division by zero gives is not defined; all ones are what GPUs give.
        Compute::Div | Compute::Rem if b == 0 => u64::MAX,
        Compute::Div if signed => x.wrapping_div(y) as u64,
        Compute::Rem if signed => x.wrapping_rem(y) as u64,
        Compute::Div => a / b,
        Compute::Rem => a % b,
        Compute::Min if signed => x.min(y) as u64,
        Compute::Max if signed => x.max(y) as u64,
        Compute::Min => a.min(b),
        Compute::Max => a.max(b),
        Compute::Neg => x.wrapping_neg() as u64,
        Compute::Abs => x.wrapping_abs() as u64,
        Compute::And => a & b,
        Compute::Or => a | b,
        Compute::Xor => a ^ b,
        Compute::Not => !a,
        // Distances of the width and more are the width.
        Compute::Shl if b >= u64::from(ty.bits) => 0,
        Compute::Shl => a << b,
        Compute::Shr if signed => (x >> b.min(u64::from(ty.bits) - 1)) as u64,
        Compute::Shr if b >= u64::from(ty.bits) => 0,
        Compute::Shr => a >> b,
        _ => unreachable!("decoding gives integers no such operation"),
    };
    result & ty.mask()
}

/// The lesser of two floats; −0 is less than 0, and a number less than NaN.
macro_rules! least {
    ($a:expr, $b:expr) => {
        match ($a, $b) {
            (a, b) if a.is_nan() => b,
            (a, b) if b.is_nan() => a,
            (a, b) if a == b => {
                if a.is_sign_negative() {
                    a
                } else {
                    b
                }
            }
            (a, b) => {
                if a < b {
                    a
                } else {
                    b
                }
            }
        }
    };
}

fn single(op: Compute, a: f32, b: f32, c: f32, seed: u64) -> f32 {
    let either_nan = a.is_nan() || b.is_nan();
    let off = |exact: f64, absolute: f64| (exact + absolute * deviation(seed, u64::from(a.to_bits()))) as f32;
    match op {
        Compute::Add => a + b,
        Compute::Sub => a - b,
        Compute::Mul => a * b,
        Compute::Div => a / b,
        Compute::Fma => a.mul_add(b, c),
        Compute::Sqrt => a.sqrt(),
        Compute::Reciprocal => 1.0 / a,
        Compute::Neg => -a,
        Compute::Abs => a.abs(),
        // PTX names the operand that gives the sign first.
        Compute::CopySign => b.copysign(a),
        Compute::MinNan | Compute::MaxNan if either_nan => f32::NAN,
        Compute::Min | Compute::MinNan => least!(a, b),
        Compute::Max | Compute::MaxNan => -least!(-a, -b),
        Compute::Exp2 => {
            let exact = f64::from(a).exp2();
            if exact.is_finite() { off(exact, exact * APPROX_ERROR) } else { exact as f32 }
        }
        Compute::Log2 => {
            let exact = f64::from(a).log2();
            let absolute = if a > 0.5 && a < 2.0 { APPROX_ERROR } else { exact.abs() * APPROX_ERROR };
            if exact.is_finite() { off(exact, absolute) } else { exact as f32 }
        }
        Compute::Tanh => {
            let exact = f64::from(a).tanh();
            off(exact, exact.abs() * TANH_ERROR).clamp(-1.0, 1.0)
        }
        _ => unreachable!("decoding gives floats no such operation"),
    }
}

fn double(op: Compute, a: f64, b: f64, c: f64) -> f64 {
    match op {
        Compute::Add => a + b,
        Compute::Sub => a - b,
        Compute::Mul => a * b,
        Compute::Div => a / b,
        Compute::Fma => a.mul_add(b, c),
        Compute::Sqrt => a.sqrt(),
        Compute::Reciprocal => 1.0 / a,
        Compute::Neg => -a,
        Compute::Abs => a.abs(),
        Compute::CopySign => b.copysign(a),
        Compute::Min => least!(a, b),
        Compute::Max => -least!(-a, -b),
        _ => unreachable!("decoding gives floats no such operation"),
    }
}

/// A comparison. Of floats, `Ne` is false if there is a NaN, `Neu` true.
pub(crate) fn compare(compare: Compare, ty: Ty, a: u64, b: u64) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (ty.kind, ty.bits) {
        (Kind::Float, 32) => f32_of(a).partial_cmp(&f32_of(b)),
        (Kind::Float, _) => f64_of(a).partial_cmp(&f64_of(b)),
        (Kind::Signed, bits) => Some(sign_extend(a, bits).cmp(&sign_extend(b, bits))),
        _ => Some(a.cmp(&b)),
    };
    match compare {
        Compare::Eq => order == Some(Equal),
        Compare::Ne => matches!(order, Some(Less | Greater)),
        Compare::Lt => order == Some(Less),
        Compare::Le => matches!(order, Some(Less | Equal)),
        Compare::Gt => order == Some(Greater),
        Compare::Ge => matches!(order, Some(Greater | Equal)),
        Compare::Neu => order != Some(Equal),
        Compare::Nan => order.is_none(),
        Compare::Num => order.is_some(),
    }
}

/// The nearest `f16`, in one rounding; that of `half` looks at 32 bits alone.
fn nearest_f16(value: f64) -> f16 {
    f16::from_f32(sticky(value))
}

/// `f32` towards zero, whose last bit tells whether there was more: enough for a rounding to 16 bits.
fn sticky(value: f64) -> f32 {
    let near = value as f32;
    if near.is_nan() || f64::from(near) == value {
        return near;
    }
    let towards_zero = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

/// A conversion; the result has the bits of `to`.
pub(crate) fn convert(round: Round, to: Ty, from: Ty, bits: u64) -> u64 {
    let bits = bits & from.mask();
    if !from.is_float() {
        let value = if from.kind == Kind::Signed { i128::from(sign_extend(bits, from.bits)) } else { i128::from(bits) };
        return match (to.kind, to.bits) {
            (Kind::Float, 16) => u64::from(nearest_f16(value as f64).to_bits()),
            (Kind::Float, 32) => u64::from((value as f32).to_bits()),
            (Kind::Float, _) => (value as f64).to_bits(),
            _ => value as u64 & to.mask(),
        };
    }
    if round == Round::NearestTf32 {
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        return if is_nan { 0x7fff_ffff } else { (bits + 0x1000) & 0xffff_e000 };
    }
    let value = match from.bits {
        16 => f16::from_bits(bits as u16).to_f64(),
        32 => f64::from(f32_of(bits)),
        _ => f64_of(bits),
    };
    let value = match round {
        Round::None | Round::Nearest | Round::NearestTf32 => value,
        Round::NearestInt => value.round_ties_even(),
        Round::DownInt => value.floor(),
        Round::UpInt => value.ceil(),
        Round::ZeroInt => value.trunc(),
    };
    match (to.kind, to.bits) {
        (Kind::Bf16, _) => u64::from(bf16::from_f32(sticky(value)).to_bits()),
        (Kind::Float, 16) => u64::from(nearest_f16(value).to_bits()),
        (Kind::Float, 32) => u64::from((value as f32).to_bits()),
        (Kind::Float, _) => value.to_bits(),
        // NaN: zero between narrow types, else the highest bit alone.
        _ if value.is_nan() => {
            if from.bits < 64 && to.bits < 64 {
                0
            } else {
                1 << (to.bits - 1)
            }
        }
        (Kind::Signed, bits) => {
            let limit = 1i128 << (bits - 1);
            (value as i128).clamp(-limit, limit - 1) as u64 & to.mask()
        }
        (_, bits) => (value as i128).clamp(0, (1i128 << bits) - 1) as u64 & to.mask(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(name: &str) -> Ty {
        Ty::named(name).expect("a type")
    }

    fn f(value: f32) -> u64 {
        u64::from(value.to_bits())
    }

    #[test]
    fn conversions_saturate_and_round() {
        assert_eq!(convert(Round::NearestInt, ty("s32"), ty("f32"), f(2.5)), 2);
        assert_eq!(convert(Round::ZeroInt, ty("s32"), ty("f32"), f(-1e20)), 0x8000_0000);
        assert_eq!(convert(Round::ZeroInt, ty("u32"), ty("f32"), f(-3.0)), 0);
        assert_eq!(convert(Round::ZeroInt, ty("s32"), ty("f32"), f(f32::NAN)), 0);
        assert_eq!(convert(Round::ZeroInt, ty("s64"), ty("f32"), f(f32::NAN)), 1 << 63);
        assert_eq!(convert(Round::None, ty("s32"), ty("s8"), 0x1ff), 0xffff_ffff);
        assert_eq!(convert(Round::None, ty("u32"), ty("u8"), 0x1ff), 0xff);
        assert_eq!(convert(Round::Nearest, ty("bf16"), ty("f32"), f(1.0)), 0x3f80);
        let tf32 = |bits| convert(Round::NearestTf32, ty("b32"), ty("f32"), bits);
        assert_eq!([0x3f80_0fff, 0x3f80_1000, 0xbf80_1000].map(tf32), [0x3f80_0000, 0x3f80_2000, 0xbf80_2000]);
        assert_eq!([0x7f7f_ffff, 0x7f80_0000].map(tf32), [0x7f80_0000; 2]);
        assert!(f32::from_bits(tf32(0x7fff_ffff) as u32).is_nan());
        assert_eq!(convert(Round::Nearest, ty("f16"), ty("f32"), f(1.0)), 0x3c00);
    }

    #[test]
    fn words_wrap_and_have_signs() {
        let word = |op, name: &str, a: i64, b: i64| {
            compute(op, ty(name), [a as u64 & 0xffff_ffff, b as u64 & 0xffff_ffff, 0], 0)
        };
        assert_eq!(word(Compute::Add, "s32", -1, 1), 0);
        assert_eq!(word(Compute::Rem, "s32", -7, 3), 0xffff_ffff);
        assert_eq!(word(Compute::Div, "u32", -1, 2), 0x7fff_ffff);
        assert_eq!(word(Compute::Min, "s32", -1, 1), 0xffff_ffff);
        assert_eq!(word(Compute::Shr, "s32", -8, 1), 0xffff_fffc);
        assert_eq!(word(Compute::Shr, "u32", -8, 40), 0);
        assert_eq!(word(Compute::MulHi, "s32", -1, 1), 0xffff_ffff);
        assert_eq!(compute(Compute::MadWide, ty("s32"), [0xffff_ffff, 4, 10], 0), 6);
    }

    #[test]
    fn nan_wins_where_the_name_says_so() {
        let max = |op, a, b| f32_of(compute(op, ty("f32"), [f(a), f(b), 0], 0));
        assert!(max(Compute::MaxNan, f32::NAN, 1.0).is_nan());
        assert_eq!(max(Compute::Max, f32::NAN, 1.0), 1.0);
        assert!(max(Compute::Max, -0.0, 0.0).is_sign_positive());
        assert!(max(Compute::Min, -0.0, 0.0).is_sign_negative());
    }

    #[test]
    fn approximations_are_off_by_no_more_than_they_may_and_not_exact() {
        let mut worst = 0.0f64;
        for n in 0..1000 {
            let x = f32::from_bits(0x3f00_0000 + n * 9973);
            let exact = f64::from(x).exp2();
            let found = f64::from(f32_of(compute(Compute::Exp2, ty("f32"), [f(x), 0, 0], 5)));
            worst = worst.max((found - exact).abs() / exact);
        }
        assert!(worst > APPROX_ERROR / 2.0 && worst < APPROX_ERROR * 1.3, "{worst:e}");
    }

    #[test]
    fn comparisons_with_nan() {
        let nan = f(f32::NAN);
        assert!(!compare(Compare::Ne, ty("f32"), nan, 0) && compare(Compare::Neu, ty("f32"), nan, 0));
        assert!(compare(Compare::Lt, ty("s32"), 0xffff_ffff, 0) && !compare(Compare::Lt, ty("u32"), 0xffff_ffff, 0));
    }
}
