//! `exp` and what is an exponential and little more.

use super::{Arithmetic, Float, Table, clamp, polynomial};
use crate::scalar::CompareOp;
use std::f64::consts::LOG2_E;

/// ln 2 in two parts; the first has so few bits that its product with any exponent is exact.
pub(super) struct Ln2 {
    pub hi: f64,
    pub lo: f64,
}

pub(super) const fn ln2(float: Float) -> Ln2 {
    match float {
        Float::F32 => Ln2 { hi: 355.0 / 512.0, lo: -2.121_944_400_546_905_8e-4 },
        _ => Ln2 { hi: 0.693_147_180_369_123_8, lo: 1.908_214_929_270_587_7e-10 },
    }
}

/// `(exp(r) − 1 − r) / r²` on |r| ≤ ln 2 / 2.
const F32: [f64; 5] =
    [0.0013814597438222226, 0.008368716929492741, 0.04166838807601518, 0.16666520631168508, 0.49999993447608637];
/// The same on |r| ≤ ln 2 / 32, for what is left when sixteenths of a power of two are looked up.
const F32_OF_SIXTEENTHS: [f64; 2] = [0.166_666_7, 0.500_016_21];
/// The powers of the sixteenth root of two from 2^0 to 2^(15/16), times [`ROOT_FACTOR`], each the nearest `f32`, as bits.
pub(super) const ROOT_POWERS: [u32; 16] = [
    0x3f80_1cd7,
    0x3f85_c8e1,
    0x3f8b_b535,
    0x3f91_e4ab,
    0x3f98_5a3c,
    0x3f9f_1903,
    0x3fa6_243d,
    0x3fad_7f4d,
    0x3fb5_2dbc,
    0x3fbd_333b,
    0x3fc5_93a4,
    0x3fce_52fe,
    0x3fd7_757d,
    0x3fe0_ff85,
    0x3fea_f5ab,
    0x3ff5_5cb9,
];
/// Found by trying some fifty million numbers from 1 to 1.03: powers of the root times this one are nearly `f32`, within 1.7e-8 of
/// themselves; rounded as they are they are off by up to 4.8e-8, which would be the largest part of an exponential's error.
const ROOT_FACTOR: f64 = 1.000_880_105_360_399;
/// As [`F32`].
const F64: [f64; 10] = [
    2.4999258634756277e-8,
    2.7630239579851316e-7,
    2.755758916453107e-6,
    2.4801493132749366e-5,
    0.00019841269503145212,
    0.0013888888943585419,
    0.008333333333496184,
    0.04166666666653039,
    0.1666666666666641,
    0.5000000000000011,
];

/// What is known of the argument of an exponential, and what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// Nothing is known.
    Any,
    /// Nothing; half of the exponential is asked for.
    Half,
    /// Its exponential is a normal number.
    Moderate,
    /// Its exponential times two to this power is a normal number, and is what is asked for.
    Times(i32),
}

impl Argument {
    /// The power of two that the exponential is asked for times.
    const fn exponent(self) -> i32 {
        match self {
            Argument::Any | Argument::Moderate => 0,
            Argument::Half => -1,
            Argument::Times(exponent) => exponent,
        }
    }

    /// Whether two to the power of n, and of the exponent asked for, is a normal number.
    const fn is_normal(self) -> bool {
        matches!(self, Argument::Moderate | Argument::Times(_))
    }

    /// What the low bits of the float that [`reduce`] rounds with hold beside n: the bias of the factor 2ⁿ, or of both
    /// halves of it, and the exponent asked for, so that these need no additions of their own.
    const fn bias(self, float: Float) -> i32 {
        let bias = match float {
            Float::F32 => 127,
            Float::F64 => 1023,
        };
        self.exponent() + if self.is_normal() { bias } else { 2 * bias }
    }
}

/// `e^x`.
pub fn exp<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    power_of_e(b, x, None, Argument::Any)
}

/// `e^x / 2`, finite where that is although `e^x` is not.
pub(super) fn half_exp<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    power_of_e(b, x, None, Argument::Half)
}

/// `e^(x + small)`, where `small` is too small to change `x` by more than its last places.
pub(super) fn power_of_e<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    small: Option<B::Value>,
    argument: Argument,
) -> B::Value {
    signed_power(b, x, Sign::Plus, small, argument)
}

/// `e^±(x + small)`.
fn signed_power<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    sign: Sign,
    small: Option<B::Value>,
    argument: Argument,
) -> B::Value {
    let reduced = reduce(b, x, sign, small, argument);
    let power = reduced_power(b, &reduced, sign);
    let scaled = scale(b, power, reduced, argument);
    if !bounds_results(b, argument) {
        return scaled;
    }
    debug_assert!(sign == Sign::Plus, "what is less than all arguments of an exponential is asked for of x");
    let ty = b.ty(x);
    let lowest = if B::float(ty) == Float::F32 { -104.0 } else { -746.0 };
    let (lowest, zero) = (b.fconst(ty, lowest), b.fconst(ty, 0.0));
    let is_lost = b.compare(CompareOp::Lt, x, lowest);
    b.select(is_lost, zero, scaled)
}

/// Whether results that are lost are set to 0, instead of bounding arguments from below: the instruction that scales takes
/// sixty times as long for what underflows, and weights of what is masked out do nothing else.
fn bounds_results<B: Arithmetic>(b: &B, argument: Argument) -> bool {
    b.has_tables() && !argument.is_normal()
}

/// Whether the exponential of a number is asked for, or that of minus the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    /// A constant for a number with the sign.
    fn of(self, value: f64) -> f64 {
        match self {
            Sign::Plus => value,
            Sign::Minus => -value,
        }
    }
}

/// `±(x + small) = n ln 2 ± r`: n is whole and |r| ≤ ln 2 / 2, or, where roots of two are looked up, n is a multiple of 1/16 and
/// |r| ≤ ln 2 / 32.
#[derive(Clone, Copy)]
struct Reduced<V> {
    r: V,
    /// A float whose low bits hold n plus [`Argument::bias`], or sixteenths of n.
    shifted: V,
    n: V,
    /// Of [`ROOT_POWERS`] the one to the power of what n has behind the point, if that is looked up.
    root: Option<V>,
}

/// 1.5·2^19: as an `f32`, whose last place is 1/16, what is added to it is rounded to sixteenths.
const SIXTEENTHS: f64 = 786_432.0;

fn reduce<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    sign: Sign,
    small: Option<B::Value>,
    argument: Argument,
) -> Reduced<B::Value> {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    // Beyond these bounds the result is zero or infinite, and the exponents below stay in their fields. The lower one is far
    // from the last results that are not zero, for a product that nearly is 0 takes a hundred times as long as one that is.
    let (lowest, highest) = if single { (-150.0, 90.0) } else { (-1000.0, 711.0) };
    let x = match argument {
        _ if argument.is_normal() => x,
        _ if bounds_results(b, argument) => {
            let highest = b.fconst(ty, highest);
            b.min(highest, x)
        }
        _ => clamp(b, x, lowest, highest),
    };
    // n = round(x / ln 2), r = x − n ln 2. Adding 1.5·2^(mantissa bits) rounds to an integer and leaves it in the low
    // bits of the sum, as it does with the bias on top.
    let roots = single && b.has_tables();
    let magic = match (single, roots) {
        (true, true) => SIXTEENTHS,
        (true, false) => 12_582_912.0 + f64::from(argument.bias(Float::F32)),
        (false, _) => 6_755_399_441_055_744.0 + f64::from(argument.bias(Float::F64)),
    };
    let (magic, log2_e) = (b.fconst(ty, magic), b.fconst(ty, sign.of(LOG2_E)));
    let shifted = b.fma(x, log2_e, magic);
    let root = roots.then(|| b.look_up(Table::RootPowers, shifted));
    let n = b.sub(shifted, magic);
    let Ln2 { hi, lo } = ln2(B::float(ty));
    let (minus_hi, minus_lo) = (b.fconst(ty, sign.of(-hi)), b.fconst(ty, sign.of(-lo)));
    let r = b.fma(n, minus_hi, x);
    let mut r = b.fma(n, minus_lo, r);
    if let Some(small) = small {
        r = b.add(r, small);
    }
    Reduced { r, shifted, n, root }
}

/// `e^±r`, times the root of two that is looked up.
fn reduced_power<B: Arithmetic>(b: &mut B, reduced: &Reduced<B::Value>, sign: Sign) -> B::Value {
    // e^r = 1 + r + r² q(r); odd powers have the sign of r.
    let &Reduced { r, root, .. } = reduced;
    let q = match (root, B::float(b.ty(r))) {
        (Some(_), _) => &F32_OF_SIXTEENTHS[..],
        (None, Float::F32) => &F32[..],
        (None, Float::F64) => &F64[..],
    };
    let highest = q.len() + 1;
    let signed = |(n, &c): (usize, &f64)| if (highest - n).is_multiple_of(2) { c } else { sign.of(c) };
    let mut coefficients: Vec<f64> = q.iter().chain(&[1.0, 1.0]).enumerate().map(signed).collect();
    let Some(root) = root else { return polynomial(b, r, &coefficients) };
    // The root is multiplied by e^r / ROOT_FACTOR − 1, which is small, and added, so that the error is that of one rounding.
    coefficients.iter_mut().for_each(|c| *c /= ROOT_FACTOR);
    coefficients[highest] -= 1.0;
    let less_one = polynomial(b, r, &coefficients);
    b.fma(less_one, root, root)
}

/// `x · 2ⁿ`, and by the power of two that is asked for, rounded once. Subnormal and infinite results are included, since
/// the factor is applied in two halves of which the first is exact; where it is a normal number, it is applied at once.
/// Multiplied rather than added to the exponent, so that NaN stays NaN.
fn scale<B: Arithmetic>(b: &mut B, x: B::Value, reduced: Reduced<B::Value>, argument: Argument) -> B::Value {
    let float = b.float_type(x);
    if let Some(scaled) = b.scale(x, reduced.n, argument.exponent()) {
        return scaled;
    }
    let bits = b.bits_of(reduced.shifted);
    let ty = b.ty(bits);
    let mantissa = if float == Float::F32 { 23 } else { 52 };
    let (all, half) = (b.constant(ty, mantissa), b.constant(ty, mantissa - 1));
    let whole = b.shl(bits, all);
    if argument.is_normal() {
        let factor = b.float_of(whole);
        return b.mul(x, factor);
    }
    // Half of n + 2·bias, rounded down, and the rest: each an exponent with its bias. Both together fit the exponent's
    // field and the sign's bit.
    let field = b.constant(ty, u64::MAX << mantissa);
    let first = b.shl(bits, half);
    let first = b.and(first, field);
    let second = b.sub(whole, first);
    let (first, second) = (b.float_of(first), b.float_of(second));
    let scaled = b.mul(x, first);
    b.mul(scaled, second)
}

/// `1 / (1 + e^−x)`.
pub fn sigmoid<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    // Both numerator and denominator are scaled by half an ulp of one: then e^−x is finite as long as the result, which
    // may be subnormal, is not zero. Above the upper bound e^−x is lost in the sum.
    let (half_ulp, lowest, highest) =
        if B::float(ty) == Float::F32 { (-24, -104.5, 30.0) } else { (-53, -745.5, 60.0) };
    let bounded = clamp(b, x, lowest, highest);
    let argument = Argument::Times(half_ulp);
    let e = signed_power(b, bounded, Sign::Minus, None, argument);
    let numerator = b.fconst(ty, 2f64.powi(half_ulp));
    let denominator = b.add(e, numerator);
    b.div(numerator, denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_the_root_are_the_nearest_floats() {
        for (k, bits) in ROOT_POWERS.into_iter().enumerate() {
            let power = ROOT_FACTOR * (k as f64 / 16.0).exp2();
            assert_eq!(bits, (power as f32).to_bits(), "{k}");
            assert!((f64::from(f32::from_bits(bits)) / power - 1.0).abs() < 1.7e-8, "{k}");
        }
    }
}
