//! Powers.
//!
//! `x^y = e^(y log x)` needs the logarithm more precisely than the result: `f32` does everything in `f64`, and `f64`
//! carries a second word through logarithm and product.

use super::exp::{Argument, Ln2, ln2, power_of_e};
use super::log::{F64 as LOG_F64, split};
use super::{Arithmetic, Float, clamp, flip_sign, polynomial, sign_of};
use crate::scalar::CompareOp;

/// `log₂(m) / s` in s², for `s = (m − 1) / (m + 1)` and √½ ≤ m ≤ √2.
const LOG2: [f64; 6] = [
    0.28292090595468833,
    0.3199043221052746,
    0.4122092838779623,
    0.577077942074736,
    0.9617966941142595,
    2.8853900817778495,
];

/// `2^f` for |f| ≤ ½.
const EXP2: [f64; 8] = [
    1.5201895004924034e-5,
    0.0001546931734106203,
    0.0013333922891455338,
    0.009618027173128586,
    0.055504103527746144,
    0.2402265119874378,
    0.6931471807287335,
    0.9999999999616238,
];

/// `x^y`, with the special cases of C99's `pow`.
pub fn pow<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> B::Value {
    if let Some(simple) = constant_power(b, x, y) {
        return simple;
    }
    let magnitude = b.abs(x);
    let power = if b.float_type(x) == Float::F32 { power_f32(b, magnitude, y) } else { power_f64(b, magnitude, y) };
    special_cases(b, x, y, magnitude, power)
}

/// Exponents that are a multiplication, division or root.
fn constant_power<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> Option<B::Value> {
    let ty = b.ty(x);
    let one = b.fconst(ty, 1.0);
    let exponent = b.constant_of(y)?;
    if exponent == 0.0 {
        return Some(one);
    }
    if exponent == 1.0 {
        return Some(x);
    }
    if exponent == -1.0 {
        return Some(b.div(one, x));
    }
    if exponent == 2.0 {
        return Some(b.mul(x, x));
    }
    if exponent == 3.0 {
        let square = b.mul(x, x);
        return Some(b.mul(square, x));
    }
    if exponent == 0.5 {
        // Unlike the root, (−0)^½ is 0 and (−∞)^½ is ∞.
        let zero = b.fconst(ty, 0.0);
        let positive = b.add(x, zero);
        let root = b.sqrt(positive);
        let (infinity, minus_infinity) = (b.fconst(ty, f64::INFINITY), b.fconst(ty, f64::NEG_INFINITY));
        let lowest = b.compare(CompareOp::Eq, x, minus_infinity);
        return Some(b.select(lowest, infinity, root));
    }
    None
}

/// For x ≥ 0.
fn power_f32<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> B::Value {
    let x = b.double_of(x);
    let y = b.double_of(y);
    let ty = b.ty(x);
    // Every f32, even a subnormal one, is a normal f64.
    let (exponent, m) = split(b, x);
    let one = b.fconst(ty, 1.0);
    let (below, above) = (b.sub(m, one), b.add(m, one));
    let s = b.div(below, above);
    let square = b.mul(s, s);
    let p = polynomial(b, square, &LOG2);
    let log2 = b.fma(s, p, exponent);
    let log2 = log_of_ends(b, x, log2);
    let product = b.mul(y, log2);
    // Beyond these bounds the f32 result is zero or infinite; 2ⁿ is a normal f64 all the way.
    let product = clamp(b, product, -160.0, 130.0);
    let magic = b.fconst(ty, 6_755_399_441_055_744.0);
    let shifted = b.add(product, magic);
    let n = b.sub(shifted, magic);
    let f = b.sub(product, n);
    let fraction = polynomial(b, f, &EXP2);
    let bits = b.bits_of(shifted);
    let (amount, bias) = (b.constant(b.ty(bits), 52), b.constant(b.ty(bits), 1023 << 52));
    let field = b.shl(bits, amount);
    let field = b.add(field, bias);
    let scale = b.float_of(field);
    let power = b.mul(fraction, scale);
    b.single_of(power)
}

/// For x ≥ 0. The parts marked `lo` are what their other half lacks.
fn power_f64<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (exponent, m) = split(b, x);
    let (one, two) = (b.fconst(ty, 1.0), b.fconst(ty, 2.0));
    // s = f / (2 + f) in two words.
    let f = b.sub(m, one);
    let sum = b.add(f, two);
    let sum_hi = b.sub(sum, two);
    let sum_lo = b.sub(f, sum_hi);
    let s = b.div(f, sum);
    let minus_s = b.neg(s);
    let remainder = b.fma(minus_s, sum, f);
    let remainder = b.fma(minus_s, sum_lo, remainder);
    let s_lo = b.div(remainder, sum);
    // log m = 2 s + s³ p(s²)
    let square = b.mul(s, s);
    let p = polynomial(b, square, &LOG_F64);
    let cube = b.mul(square, s);
    let rest = b.mul(p, cube);
    let rest = b.fma(s_lo, two, rest);
    let twice = b.add(s, s);
    let Ln2 { hi, lo } = ln2(Float::F64);
    let (hi, lo) = (b.fconst(ty, hi), b.fconst(ty, lo));
    // The larger of exponent · hi and 2 s first, both exact.
    let whole = b.mul(exponent, hi);
    let (log, log_lo) = ordered_sum(b, whole, twice);
    let rest = b.fma(exponent, lo, rest);
    let rest = b.add(log_lo, rest);
    let (log, log_lo) = ordered_sum(b, log, rest);
    let log = log_of_ends(b, x, log);
    // y log x
    let product = b.mul(y, log);
    let minus_product = b.neg(product);
    let product_lo = b.fma(y, log, minus_product);
    let product_lo = b.fma(y, log_lo, product_lo);
    // Where the product is infinite its second word is NaN; there, and where it is too small to matter, it is dropped.
    let (limit, zero) = (b.fconst(ty, 800.0), b.fconst(ty, 0.0));
    let size = b.abs(product);
    let moderate = b.compare(CompareOp::Lt, size, limit);
    let product_lo = b.select(moderate, product_lo, zero);
    power_of_e(b, product, Some(product_lo), Argument::Any)
}

/// `x + y` and what it lost, for |x| ≥ |y| or x = 0.
fn ordered_sum<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> (B::Value, B::Value) {
    let sum = b.add(x, y);
    let moved = b.sub(sum, x);
    (sum, b.sub(y, moved))
}

/// Logarithms of zero, infinity and NaN, for x ≥ 0.
fn log_of_ends<B: Arithmetic>(b: &mut B, x: B::Value, log: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (zero, infinity) = (b.fconst(ty, 0.0), b.fconst(ty, f64::INFINITY));
    let minus_infinity = b.fconst(ty, f64::NEG_INFINITY);
    let finite = b.compare(CompareOp::Lt, x, infinity);
    let log = b.select(finite, log, x);
    let is_zero = b.compare(CompareOp::Eq, x, zero);
    b.select(is_zero, minus_infinity, log)
}

/// Signs of negative bases, and where C99 wants 1 although an operand is NaN or infinite.
fn special_cases<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value, magnitude: B::Value, power: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (zero, one, half) = (b.fconst(ty, 0.0), b.fconst(ty, 1.0), b.fconst(ty, 0.5));
    let (infinity, nan) = (b.fconst(ty, f64::INFINITY), b.fconst(ty, f64::NAN));
    // (±1)^±∞ = 1; a NaN exponent stays.
    let unit = b.compare(CompareOp::Eq, magnitude, one);
    let endless = b.abs(y);
    let endless = b.compare(CompareOp::Eq, endless, infinity);
    let unit = b.and(unit, endless);
    let power = b.select(unit, one, power);
    // A finite negative base has powers with integer exponents only.
    let whole = b.trunc(y);
    let fractional = b.compare(CompareOp::Ne, whole, y);
    let negative = b.compare(CompareOp::Lt, x, zero);
    let finite = b.compare(CompareOp::Lt, magnitude, infinity);
    let invalid = b.and(negative, fractional);
    let invalid = b.and(invalid, finite);
    let power = b.select(invalid, nan, power);
    // Odd exponents keep the sign, that of −0 included.
    let y_half = b.mul(y, half);
    let y_half_whole = b.trunc(y_half);
    let halves = b.compare(CompareOp::Ne, y_half_whole, y_half);
    let integer = b.not(fractional);
    let odd = b.and(halves, integer);
    let sign = sign_of(b, x);
    let sign = b.select(odd, sign, zero);
    let power = flip_sign(b, power, sign);
    // x^0 = 1^y = 1, even of NaN.
    let to_zero = b.compare(CompareOp::Eq, y, zero);
    let of_one = b.compare(CompareOp::Eq, x, one);
    let certain = b.or(to_zero, of_one);
    b.select(certain, one, power)
}

/// `x^y` of integers of so many bits, held in wider ones perhaps: squares of the base, multiplied where the exponent has a
/// bit. Wraps. Under a negative exponent only 1 and −1 have a power that is an integer; all others give 0.
pub fn integer_power<B: Arithmetic>(b: &mut B, bits: u32, is_signed: bool, x: B::Value, y: B::Value) -> B::Value {
    let ty = b.ty(x);
    let (zero, one) = (b.constant(ty, 0), b.constant(ty, 1));
    let (mut power, mut square) = (one, x);
    for bit in 0..bits - u32::from(is_signed) {
        let mask = b.constant(ty, 1 << bit);
        let masked = b.and(y, mask);
        let has = b.compare(CompareOp::Ne, masked, zero);
        let times = b.mul(power, square);
        power = b.select(has, times, power);
        square = b.mul(square, square);
    }
    if !is_signed {
        return power;
    }
    let minus_one = b.constant(ty, (-1i64).cast_unsigned());
    let last = b.and(y, one);
    let odd = b.compare(CompareOp::Ne, last, zero);
    let of_minus_one = b.select(odd, minus_one, one);
    let is_minus_one = b.compare(CompareOp::Eq, x, minus_one);
    let inverse = b.select(is_minus_one, of_minus_one, zero);
    let is_one = b.compare(CompareOp::Eq, x, one);
    let inverse = b.select(is_one, one, inverse);
    let negative = b.compare(CompareOp::Lt, y, zero);
    b.select(negative, inverse, power)
}
