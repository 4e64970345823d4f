//! Hyperbolic functions but the tangent, and all their inverses.

use super::exp::half_exp;
use super::log::log_1p;
use super::{Arithmetic, Float, flip_sign, polynomial, sign_of};
use crate::scalar::CompareOp;
use std::f64::consts::LN_2;

/// `(sinh(x) − x) / x³` in x² up to 1.
const SINH_F32: [f64; 4] = [2.8169514387105824e-6, 0.0001983616008113155, 0.008333350053721105, 0.16666666497690777];
/// As [`SINH_F32`].
const SINH_F64: [f64; 7] = [
    7.758735456935992e-13,
    1.6057260330542624e-10,
    2.505212312767797e-8,
    2.7557319157141872e-6,
    0.00019841269841431607,
    0.008333333333333148,
    0.16666666666666669,
];

/// The hyperbolic sine.
pub fn sinh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let magnitude = b.abs(x);
    let square = b.mul(magnitude, magnitude);
    let p = polynomial(b, square, if B::float(ty) == Float::F32 { &SINH_F32[..] } else { &SINH_F64[..] });
    let cube = b.mul(square, magnitude);
    let near = b.fma(p, cube, magnitude);
    let (half, inverse) = exponentials(b, magnitude);
    let far = b.sub(half, inverse);
    let one = b.fconst(ty, 1.0);
    let is_near = b.compare(CompareOp::Lt, magnitude, one);
    let value = b.select(is_near, near, far);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}

/// The hyperbolic cosine.
pub fn cosh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let magnitude = b.abs(x);
    let (half, inverse) = exponentials(b, magnitude);
    b.add(half, inverse)
}

/// `e^x / 2` and `e^−x / 2`.
fn exponentials<B: Arithmetic>(b: &mut B, x: B::Value) -> (B::Value, B::Value) {
    let half = half_exp(b, x);
    let quarter = b.fconst(b.ty(x), 0.25);
    (half, b.div(quarter, half))
}

/// From here on, `x² + 1` and `x² − 1` are `x²`, and `x + 1` is `x`.
fn huge(float: Float) -> f64 {
    if float == Float::F32 { 1e9 } else { 1e18 }
}

/// `log(1 + small)`, or `log(2 x)` for huge x.
fn log_of_sum<B: Arithmetic>(b: &mut B, x: B::Value, small: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (limit, ln_2, zero) = (b.fconst(ty, huge(B::float(ty))), b.fconst(ty, LN_2), b.fconst(ty, 0.0));
    let far = b.compare(CompareOp::Gt, x, limit);
    let argument = b.select(far, x, small);
    let log = log_1p(b, argument);
    let more = b.select(far, ln_2, zero);
    b.add(log, more)
}

/// The inverse of [`sinh`].
pub fn asinh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let one = b.fconst(b.ty(x), 1.0);
    let magnitude = b.abs(x);
    // log(x + √(x² + 1)) = log(1 + x + x²/(1 + √(x² + 1)))
    let square = b.mul(magnitude, magnitude);
    let root = b.add(square, one);
    let root = b.sqrt(root);
    let root = b.add(root, one);
    let excess = b.div(square, root);
    let small = b.add(magnitude, excess);
    let value = log_of_sum(b, magnitude, small);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}

/// The inverse of [`cosh`]; NaN below 1.
pub fn acosh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (one, nan) = (b.fconst(ty, 1.0), b.fconst(ty, f64::NAN));
    // With t = x − 1: log(x + √(x² − 1)) = log(1 + t + √(t (x + 1)))
    let (below, above) = (b.sub(x, one), b.add(x, one));
    let root = b.mul(below, above);
    let root = b.sqrt(root);
    let small = b.add(below, root);
    let value = log_of_sum(b, x, small);
    let has_value = b.compare(CompareOp::Ge, x, one);
    b.select(has_value, value, nan)
}

/// The inverse of [`tanh`](super::tanh()); infinite at ±1, NaN beyond.
pub fn atanh<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (one, half) = (b.fconst(ty, 1.0), b.fconst(ty, 0.5));
    let magnitude = b.abs(x);
    // ½ log((1 + x)/(1 − x)) = ½ log(1 + 2x/(1 − x))
    let twice = b.add(magnitude, magnitude);
    let rest = b.sub(one, magnitude);
    let excess = b.div(twice, rest);
    let log = log_1p(b, excess);
    let value = b.mul(log, half);
    let sign = sign_of(b, x);
    flip_sign(b, value, sign)
}
