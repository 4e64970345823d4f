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

/// What is known of the argument of an exponential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// Nothing.
    Any,
    /// Its exponential is a normal number.
    Moderate,
    /// Its exponential times two to this power is a normal number, and is what is asked for.
    Times(i32),
}

/// `e^x`.
pub fn exp<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    power_of_e(b, x, None, Argument::Any)
}

/// `e^x / 2`, finite where that is although `e^x` is not.
pub(super) fn half_exp<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let (power, n) = reduced_power(b, x, None, Argument::Any);
    let one = b.fconst(b.ty(n), 1.0);
    let n = b.sub(n, one);
    scale(b, power, n, false)
}

/// `e^(x + small)`, where `small` is too small to change `x` by more than its last places.
pub(super) fn power_of_e<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    small: Option<B::Value>,
    argument: Argument,
) -> B::Value {
    let (power, n) = reduced_power(b, x, small, argument);
    scale(b, power, n, argument != Argument::Any)
}

/// What the low bits of the float from [`reduced_power`] hold beside n: the bias of the factor 2ⁿ, or of both halves of
/// it, so that they need no additions of their own.
fn bias(float: Float, argument: Argument) -> i32 {
    let bias = if float == Float::F32 { 127 } else { 1023 };
    match argument {
        Argument::Any => 2 * bias,
        Argument::Moderate => bias,
        Argument::Times(exponent) => bias + exponent,
    }
}

/// `e^r` with |r| ≤ ln 2 / 2, and n plus a [`bias`] in the low bits of a float, for `e^(x + small) = 2ⁿ e^r`.
fn reduced_power<B: Arithmetic>(
    b: &mut B,
    x: B::Value,
    small: Option<B::Value>,
    argument: Argument,
) -> (B::Value, B::Value) {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    // Beyond these bounds the result is zero or infinite, and the exponents below stay in their fields.
    let (lowest, highest) = if single { (-104.0, 90.0) } else { (-746.0, 711.0) };
    let x = match argument {
        Argument::Any => clamp(b, x, lowest, highest),
        Argument::Moderate | Argument::Times(_) => x,
    };
    // n = round(x / ln 2), r = x − n ln 2. Adding 1.5·2^(mantissa bits) rounds to an integer and leaves it in the low
    // bits of the sum, as it does with the bias on top.
    let magic = if single { 12_582_912.0 } else { 6_755_399_441_055_744.0 };
    let magic = b.fconst(ty, magic + f64::from(bias(B::float(ty), argument)));
    let log2_e = b.fconst(ty, LOG2_E);
    let shifted = b.fma(x, log2_e, magic);
    let n = b.sub(shifted, magic);
    let Ln2 { hi, lo } = ln2(B::float(ty));
    let (minus_hi, minus_lo) = (b.fconst(ty, -hi), b.fconst(ty, -lo));
    let r = b.fma(n, minus_hi, x);
    let mut r = b.fma(n, minus_lo, r);
    if let Some(small) = small {
        r = b.add(r, small);
    }
    // e^r = 1 + r + r² q(r)
    let q = polynomial(b, r, if single { &F32 } else { &F64 });
    let one = b.fconst(ty, 1.0);
    let square = b.mul(r, r);
    let tail = b.fma(q, square, r);
    (b.add(tail, one), shifted)
}

/// `x · 2ⁿ` rounded once, for `n` plus a [`bias`] in the low bits of the given float. Subnormal and infinite results are
/// included, since the factor is applied in two halves of which the first is exact; where 2ⁿ is a normal number, it is
/// applied at once. Multiplied rather than added to the exponent, so that NaN stays NaN.
fn scale<B: Arithmetic>(b: &mut B, x: B::Value, n: B::Value, at_once: bool) -> B::Value {
    let float = b.float_type(x);
    let bits = b.bits_of(n);
    let ty = b.ty(bits);
    let mantissa = if float == Float::F32 { 23 } else { 52 };
    let (all, half) = (b.constant(ty, mantissa), b.constant(ty, mantissa - 1));
    let whole = b.shl(bits, all);
    if at_once {
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
    let minus_x = b.neg(x);
    // Both numerator and denominator are scaled by half an ulp of one: then e^−x is finite as long as the result, which
    // may be subnormal, is not zero. Below the lower bound e^−x is lost in the sum.
    let (half_ulp, lowest, highest) =
        if B::float(ty) == Float::F32 { (-24, -30.0, 104.5) } else { (-53, -60.0, 745.5) };
    let minus_x = clamp(b, minus_x, lowest, highest);
    let e = power_of_e(b, minus_x, None, Argument::Times(half_ulp));
    let numerator = b.fconst(ty, 2f64.powi(half_ulp));
    let denominator = b.add(e, numerator);
    b.div(numerator, denominator)
}
