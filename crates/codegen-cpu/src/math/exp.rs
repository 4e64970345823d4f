//! `exp` and what is an exponential and little more.

use super::{clamp, from_bits, polynomial, to_bits};
use crate::vir::{Builder, Cond, Elem, Value};
use std::f64::consts::LOG2_E;

/// ln 2 in two parts; the first has so few bits that its product with any exponent is exact.
pub(super) struct Ln2 {
    pub hi: f64,
    pub lo: f64,
}

pub(super) const fn ln2(elem: Elem) -> Ln2 {
    match elem {
        Elem::F32 => Ln2 { hi: 355.0 / 512.0, lo: -2.121_944_400_546_905_8e-4 },
        _ => Ln2 { hi: 0.693_147_180_369_123_8, lo: 1.908_214_929_270_587_7e-10 },
    }
}

/// `(exp(r) − 1 − r) / r²` on |r| ≤ ln 2 / 2.
const F32: [f64; 6] = [
    0.00019790007123904395,
    0.001394465619040024,
    0.008333497836764795,
    0.04166629505004138,
    0.1666666586463271,
    0.5000000067610799,
];
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

/// `e^x`.
pub fn exp(b: &mut Builder, x: Value) -> Value {
    exp_of_sum(b, x, None)
}

/// `e^(x + small)`, where `small` is too small to change `x` by more than its last places.
pub(super) fn exp_of_sum(b: &mut Builder, x: Value, small: Option<Value>) -> Value {
    let ty = b.ty(x);
    // Beyond these bounds the result is zero or infinite, and the exponents below stay in their fields.
    let x = match ty.elem {
        Elem::F32 => clamp(b, x, -104.0, 89.0),
        _ => clamp(b, x, -746.0, 710.0),
    };
    // n = round(x / ln 2), r = x − n ln 2. Adding 1.5·2^(mantissa bits) rounds to an integer and leaves it in the low
    // bits of the sum.
    let magic = b.fconst(ty, if ty.elem == Elem::F32 { 12_582_912.0 } else { 6_755_399_441_055_744.0 });
    let log2_e = b.fconst(ty, LOG2_E);
    let shifted = b.fma(x, log2_e, magic);
    let n = b.sub(shifted, magic);
    let Ln2 { hi, lo } = ln2(ty.elem);
    let (minus_hi, minus_lo) = (b.fconst(ty, -hi), b.fconst(ty, -lo));
    let r = b.fma(n, minus_hi, x);
    let mut r = b.fma(n, minus_lo, r);
    if let Some(small) = small {
        r = b.add(r, small);
    }
    // e^r = 1 + r + r² q(r)
    let q = polynomial(b, r, if ty.elem == Elem::F32 { &F32 } else { &F64 });
    let one = b.fconst(ty, 1.0);
    let square = b.mul(r, r);
    let tail = b.fma(q, square, r);
    let power = b.add(tail, one);
    scale(b, power, shifted)
}

/// `x · 2ⁿ` rounded once, for `n` in the low bits of the given float; subnormal and infinite results included, since the
/// factor is applied in two halves of which the first is exact. Multiplied rather than added to the exponent, so that
/// NaN stays NaN.
fn scale(b: &mut Builder, x: Value, n: Value) -> Value {
    let elem = b.ty(x).elem;
    let bits = to_bits(b, n);
    let ty = b.ty(bits);
    let mantissa = if elem == Elem::F32 { 23 } else { 52 };
    let (all, half) = (b.constant(ty, mantissa), b.constant(ty, mantissa - 1));
    // The two halves of n as exponent fields: ⌊n/2⌋ and the rest.
    let field = b.constant(ty, u64::MAX << mantissa);
    let first = b.shl(bits, half);
    let first = b.and(first, field);
    let whole = b.shl(bits, all);
    let second = b.sub(whole, first);
    let bias = b.constant(ty, if elem == Elem::F32 { 127 << 23 } else { 1023 << 52 });
    let mut scaled = x;
    for part in [first, second] {
        let factor = b.add(part, bias);
        let factor = from_bits(b, factor, elem);
        scaled = b.mul(scaled, factor);
    }
    scaled
}

/// `1 / (1 + e^−x)`.
pub fn sigmoid(b: &mut Builder, x: Value) -> Value {
    let ty = b.ty(x);
    // With e = e^−|x| ≤ 1: 1/(1 + e) for positive x and e/(1 + e) for negative, which keeps small results precise.
    let magnitude = b.abs(x);
    let negative = b.neg(magnitude);
    let e = exp(b, negative);
    let (zero, one) = (b.fconst(ty, 0.0), b.fconst(ty, 1.0));
    let below = b.compare(Cond::Lt, x, zero);
    let numerator = b.select(below, e, one);
    let denominator = b.add(e, one);
    b.div(numerator, denominator)
}
