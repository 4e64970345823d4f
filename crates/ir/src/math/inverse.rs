//! Inverse circular functions.

use super::{Arithmetic, Float, flip_sign, polynomial, sign_of};
use crate::scalar::CompareOp;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

/// `(asin(x) − x) / x³` in x² up to ½².
const ASIN_F32: [f64; 6] = [
    0.03752721414873764,
    0.01443176949564646,
    0.0318092882450215,
    0.044516796971398,
    0.07500504858121643,
    0.16666659982166285,
];
/// As [`ASIN_F32`].
const ASIN_F64: [f64; 13] = [
    0.03265398043764773,
    -0.021038608304103236,
    0.021734669272415547,
    0.0036955242511887668,
    0.010783051852429252,
    0.011398427990131646,
    0.013980877814344228,
    0.017351607402985175,
    0.022372215234597495,
    0.030381942699383598,
    0.04464285717477888,
    0.07499999999970634,
    0.1666666666666676,
];
/// `(atan(x) − x) / x³` in x² up to tan²(π/8).
const ATAN_F32: [f64; 5] =
    [-0.06078118107775933, 0.10593808294279508, -0.14243538740402184, 0.19998472202210188, -0.33333315206416336];
/// As [`ATAN_F32`].
const ATAN_F64: [f64; 11] = [
    -0.01790355090589577,
    0.03806080756193652,
    -0.050391391169707415,
    0.05847848155014464,
    -0.06663097715649818,
    0.07692059590340851,
    -0.09090897718344072,
    0.11111110781923993,
    -0.1428571428016215,
    0.19999999999953205,
    -0.333333333333332,
];

/// What π/2 has beyond the nearest `f64` and the nearest `f32`.
const HALF_PI_REST_F64: f64 = 6.123_233_995_736_766e-17;
const HALF_PI_REST_F32: f64 = -4.371_139_000_186_243e-8;

/// π/2 as the nearest number of a type and the rest.
fn half_pi<B: Arithmetic>(b: &mut B, ty: B::Type) -> (B::Value, B::Value) {
    let rest = if B::float(ty) == Float::F32 { HALF_PI_REST_F32 } else { HALF_PI_REST_F64 };
    (b.fconst(ty, FRAC_PI_2), b.fconst(ty, rest))
}

/// `s + s³ p(s²)`, given s and its square.
fn odd<B: Arithmetic>(b: &mut B, s: B::Value, square: B::Value, coefficients: &[f64]) -> B::Value {
    let p = polynomial(b, square, coefficients);
    let cube = b.mul(square, s);
    b.fma(p, cube, s)
}

/// Whether |x| ≤ ½, and the arcsine of |x| then, else of √((1 − |x|)/2).
fn reduced_asin<B: Arithmetic>(b: &mut B, magnitude: B::Value) -> (B::Value, B::Value) {
    let ty = b.ty(magnitude);
    let (one, half) = (b.fconst(ty, 1.0), b.fconst(ty, 0.5));
    let near = b.compare(CompareOp::Le, magnitude, half);
    let square = b.mul(magnitude, magnitude);
    let rest = b.sub(one, magnitude);
    let rest = b.mul(rest, half);
    let root = b.sqrt(rest);
    let s = b.select(near, magnitude, root);
    let square = b.select(near, square, rest);
    let coefficients = if B::float(ty) == Float::F32 { &ASIN_F32[..] } else { &ASIN_F64[..] };
    (near, odd(b, s, square, coefficients))
}

/// The arcsine; NaN beyond ±1.
pub fn asin<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let magnitude = b.abs(x);
    let (near, angle) = reduced_asin(b, magnitude);
    // asin x = π/2 − 2 asin √((1 − x)/2)
    let (hi, lo) = half_pi(b, ty);
    let twice = b.add(angle, angle);
    let far = b.sub(twice, lo);
    let far = b.sub(hi, far);
    let value = b.select(near, angle, far);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}

/// The arccosine; NaN beyond ±1.
pub fn acos<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let magnitude = b.abs(x);
    let (near, angle) = reduced_asin(b, magnitude);
    let (hi, lo) = half_pi(b, ty);
    // π/2 − asin x near zero, else 2 asin √((1 − x)/2), or π less that for negative x.
    let sign = sign_of(b, x);
    let signed = flip_sign(b, angle, sign);
    let rest = b.sub(signed, lo);
    let middle = b.sub(hi, rest);
    let rest = b.sub(angle, lo);
    let left = b.sub(hi, rest);
    let zero = b.fconst(ty, 0.0);
    let negative = b.compare(CompareOp::Lt, x, zero);
    let far = b.select(negative, left, angle);
    let far = b.add(far, far);
    b.select(near, middle, far)
}

/// The arctangent.
pub fn atan<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    let magnitude = b.abs(x);
    // atan x = π/4 + atan((x − 1)/(x + 1)) = π/2 + atan(−1/x); from tan(π/8) and tan(3π/8) on.
    let (low, high) = (b.fconst(ty, 0.414_213_562_373_095), b.fconst(ty, 2.414_213_562_373_095));
    let (zero, one, minus_one) = (b.fconst(ty, 0.0), b.fconst(ty, 1.0), b.fconst(ty, -1.0));
    let middle = b.compare(CompareOp::Gt, magnitude, low);
    let far = b.compare(CompareOp::Gt, magnitude, high);
    let (below, above) = (b.sub(magnitude, one), b.add(magnitude, one));
    let numerator = b.select(middle, below, magnitude);
    let numerator = b.select(far, minus_one, numerator);
    let denominator = b.select(middle, above, one);
    let denominator = b.select(far, magnitude, denominator);
    let t = b.div(numerator, denominator);
    let square = b.mul(t, t);
    let angle = odd(b, t, square, if single { &ATAN_F32[..] } else { &ATAN_F64[..] });
    let (right, right_rest) = half_pi(b, ty);
    let half = b.fconst(ty, 0.5);
    let (quarter, quarter_rest) = (b.fconst(ty, FRAC_PI_4), b.mul(right_rest, half));
    let base = b.select(middle, quarter, zero);
    let base = b.select(far, right, base);
    let rest = b.select(middle, quarter_rest, zero);
    let rest = b.select(far, right_rest, rest);
    let sum = b.add(angle, rest);
    let value = b.add(base, sum);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}
