//! `exp` and what is an exponential and little more.

use super::{Arithmetic, Float, clamp, polynomial};
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
    let reduced = reduce(b, x, Sign::Plus, small, argument);
    let power = reduced_power(b, reduced.r, Sign::Plus);
    scale(b, power, reduced, argument)
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

/// `±(x + small) = n ln 2 ± r` with |r| ≤ ln 2 / 2.
#[derive(Clone, Copy)]
struct Reduced<V> {
    r: V,
    /// A float whose low bits hold n plus [`Argument::bias`].
    shifted: V,
    /// n.
    n: V,
}

fn reduce<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    sign: Sign,
    small: Option<B::Value>,
    argument: Argument,
) -> Reduced<B::Value> {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    // Beyond these bounds the result is zero or infinite, and the exponents below stay in their fields.
    let (lowest, highest) = if single { (-104.0, 90.0) } else { (-746.0, 711.0) };
    let x = if argument.is_normal() { x } else { clamp(b, x, lowest, highest) };
    // n = round(x / ln 2), r = x − n ln 2. Adding 1.5·2^(mantissa bits) rounds to an integer and leaves it in the low
    // bits of the sum, as it does with the bias on top.
    let magic = if single { 12_582_912.0 } else { 6_755_399_441_055_744.0 };
    let magic = b.fconst(ty, magic + f64::from(argument.bias(B::float(ty))));
    let log2_e = b.fconst(ty, sign.of(LOG2_E));
    let shifted = b.fma(x, log2_e, magic);
    let n = b.sub(shifted, magic);
    let Ln2 { hi, lo } = ln2(B::float(ty));
    let (minus_hi, minus_lo) = (b.fconst(ty, sign.of(-hi)), b.fconst(ty, sign.of(-lo)));
    let r = b.fma(n, minus_hi, x);
    let mut r = b.fma(n, minus_lo, r);
    if let Some(small) = small {
        r = b.add(r, small);
    }
    Reduced { r, shifted, n }
}

/// `e^±r` with |r| ≤ ln 2 / 2.
fn reduced_power<B: Arithmetic>(b: &mut B, r: B::Value, sign: Sign) -> B::Value {
    // e^r = 1 + r + r² q(r); odd powers have the sign of r.
    let q = if B::float(b.ty(r)) == Float::F32 { &F32[..] } else { &F64[..] };
    let highest = q.len() + 1;
    let signed = |(n, &c): (usize, &f64)| if (highest - n).is_multiple_of(2) { c } else { sign.of(c) };
    let coefficients: Vec<f64> = q.iter().chain(&[1.0, 1.0]).enumerate().map(signed).collect();
    polynomial(b, r, &coefficients)
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
    let reduced = reduce(b, bounded, Sign::Minus, None, argument);
    let power = reduced_power(b, reduced.r, Sign::Minus);
    let e = scale(b, power, reduced, argument);
    let numerator = b.fconst(ty, 2f64.powi(half_ulp));
    let denominator = b.add(e, numerator);
    b.div(numerator, denominator)
}
