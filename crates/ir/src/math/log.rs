//! The natural logarithm.

use super::exp::{Ln2, ln2};
use super::{Arithmetic, Float, polynomial};
use crate::scalar::CompareOp;

/// `(log(1 + f) − f + f²/2) / f³` on √½ ≤ 1 + f ≤ √2.
const F32: [f64; 8] = [
    -0.07634574666209912,
    0.12761621475548526,
    -0.1316017120251069,
    0.1420175092475847,
    -0.16623358104724645,
    0.20001227199972804,
    -0.2500082100327873,
    0.3333333170453976,
];

/// `(2 artanh(√z) − 2√z) / (z√z)` for `√z = f / (2 + f)` on the same interval.
pub(super) const F64: [f64; 7] = [
    0.14797312348776553,
    0.15313925968180367,
    0.18183568719787174,
    0.2222219849813259,
    0.28571428743025495,
    0.39999999999412217,
    0.6666666666666735,
];

/// `x = 2^exponent · m` with √½ ≤ m < √2, for positive finite x; both as floats.
pub(super) fn split<B: Arithmetic>(b: &mut B, x: B::Value) -> (B::Value, B::Value) {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    // Subnormal numbers are scaled to normal ones.
    let (smallest, factor, shift) = if single {
        (f64::from(f32::MIN_POSITIVE), 8_388_608.0, 23.0)
    } else {
        (f64::MIN_POSITIVE, 4_503_599_627_370_496.0, 52.0)
    };
    let (smallest, factor) = (b.fconst(ty, smallest), b.fconst(ty, factor));
    let subnormal = b.compare(CompareOp::Lt, x, smallest);
    let scaled = b.mul(x, factor);
    let x = b.select(subnormal, scaled, x);
    let bits = b.bits_of(x);
    let bits_ty = b.ty(bits);
    // Subtracting √½ moves the exponent's steps to where m must wrap around.
    let (root_half, mantissa) = if single { (0x3f35_04f3, 23) } else { (0x3fe6_a09e_667f_3bcd, 52) };
    let root = b.constant(bits_ty, root_half);
    let offset = b.sub(bits, root);
    let fraction = b.constant(bits_ty, (1 << mantissa) - 1);
    let low = b.and(offset, fraction);
    let m = b.add(low, root);
    let m = b.float_of(m);
    let amount = b.constant(bits_ty, mantissa);
    let exponent = if single {
        let exponent = b.shr_s(offset, amount);
        b.single_of(exponent)
    } else {
        // There are neither arithmetic shifts nor conversions of 64-bit lanes before AVX-512: the exponent plus its
        // bias, which is positive, becomes the low bits of 2⁵² and so a float.
        let bias = b.constant(bits_ty, 1023 << 52);
        let biased = b.add(offset, bias);
        let biased = b.shr_u(biased, amount);
        let two_52 = b.constant(bits_ty, 4_503_599_627_370_496f64.to_bits());
        let float = b.or(biased, two_52);
        let float = b.float_of(float);
        let offset = b.fconst(ty, 4_503_599_627_370_496.0 + 1023.0);
        b.sub(float, offset)
    };
    let (zero, shift) = (b.fconst(ty, 0.0), b.fconst(ty, shift));
    let correction = b.select(subnormal, shift, zero);
    (b.sub(exponent, correction), m)
}

/// The natural logarithm; −∞ of zero, NaN of negative numbers.
pub fn log<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (exponent, m) = split(b, x);
    let (one, half) = (b.fconst(ty, 1.0), b.fconst(ty, 0.5));
    let f = b.sub(m, one);
    let square = b.mul(f, f);
    let Ln2 { hi, lo } = ln2(B::float(ty));
    let (hi, lo) = (b.fconst(ty, hi), b.fconst(ty, lo));
    let tail = if B::float(ty) == Float::F32 {
        // log(1 + f) = f − f²/2 + f³ p(f)
        let p = polynomial(b, f, &F32);
        let cube = b.mul(square, f);
        let low = b.mul(exponent, lo);
        let high_order = b.fma(p, cube, low);
        let minus_half = b.neg(half);
        b.fma(square, minus_half, high_order)
    } else {
        // With s = f/(2 + f) and h = f²/2: log(1 + f) = f − (h − s (h + s² p(s²)))
        let two = b.fconst(ty, 2.0);
        let sum = b.add(f, two);
        let s = b.div(f, sum);
        let z = b.mul(s, s);
        let p = polynomial(b, z, &F64);
        let h = b.mul(square, half);
        let inner = b.fma(p, z, h);
        let low = b.mul(exponent, lo);
        let inner = b.fma(s, inner, low);
        b.sub(inner, h)
    };
    // exponent · hi is exact; the larger of it and f goes last.
    let sum = b.add(tail, f);
    let value = b.fma(exponent, hi, sum);
    special_cases(b, x, value)
}

/// `log(1 + x)` for x ≥ 0 and NaN, precise for small x.
pub(super) fn log_1p<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (zero, one, infinity) = (b.fconst(ty, 0.0), b.fconst(ty, 1.0), b.fconst(ty, f64::INFINITY));
    let sum = b.add(x, one);
    let log = log(b, sum);
    // log(s + e) ≈ log s + e/s, where e is what the sum s lost.
    let whole = b.sub(sum, one);
    let lost = b.sub(x, whole);
    let correction = b.div(lost, sum);
    let finite = b.compare(CompareOp::Lt, x, infinity);
    let correction = b.select(finite, correction, zero);
    b.add(log, correction)
}

/// What is not a positive finite number.
fn special_cases<B: Arithmetic>(b: &mut B, x: B::Value, value: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (zero, infinity) = (b.fconst(ty, 0.0), b.fconst(ty, f64::INFINITY));
    let (minus_infinity, nan) = (b.fconst(ty, f64::NEG_INFINITY), b.fconst(ty, f64::NAN));
    // Infinity is its own logarithm.
    let finite = b.compare(CompareOp::Lt, x, infinity);
    let value = b.select(finite, value, x);
    let is_zero = b.compare(CompareOp::Eq, x, zero);
    let otherwise = b.select(is_zero, minus_infinity, nan);
    let positive = b.compare(CompareOp::Gt, x, zero);
    b.select(positive, value, otherwise)
}
