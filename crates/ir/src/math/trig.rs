//! Sine and cosine.
//!
//! Both reduce their argument to |r| ≤ π/4 by subtracting a multiple n of π/2, evaluate both polynomials at r and pick
//! by the last two bits of n. `f32` is reduced as it is where products are added in one rounding, in three steps (after Cody
//! and Waite); a branch takes care of arguments of some thousand and more, and of all where a product is rounded: in `f64`, where
//! 25 bits of π/2 times n are exact up to |x| = 2²⁸, with another branch for what is larger still.

use super::{Arithmetic, Float, clamp, flip_sign, polynomial};
use crate::scalar::CompareOp;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// π/2 in parts of 33 bits, and what remains.
const HALF_PI: [f64; 4] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_711_166_5e-21, 8.478_427_660_368_9e-32];

/// 25 bits of π/2, and what remains.
const HALF_PI_SHORT: [f64; 2] = [1.570_796_310_901_641_8, 1.589_325_477_352_819_7e-8];

/// π/2 in parts of 24 bits.
const HALF_PI_F32: [f64; 3] = [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_881_9e-15];

/// Up to here, [`reduce_short`] leaves sine and cosine within two units in the last place: tried were all `f32`.
const SHORT: f64 = 2048.0;

/// From here on, `f32` is reduced by [`reduce_large`].
const LARGE: f64 = 268_435_456.0;
/// 2/π in digits of 28 bits: a product with an `f32` is exact, and seven suffice for the largest.
const TWO_OVER_PI: [u32; 7] = [0xa2f_9836, 0xe4e_4415, 0x29f_c275, 0x7d1_f534, 0xddc_0db6, 0x295_993c, 0x439_041f];

/// `(sin(r) − r) / r³` in r².
const SIN_F32: [f64; 3] = [-1.951_529_589_1e-4, 8.332_160_873_6e-3, -1.666_666_546_11e-1];
/// `(cos(r) − 1 + r²/2) / r⁴` in r².
const COS_F32: [f64; 3] = [2.443_315_711_809_948e-5, -1.388_731_625_493_765e-3, 4.166_664_568_298_827e-2];

/// As [`SIN_F32`].
const SIN_F64: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -1.984_126_982_985_795e-4,
    8.333_333_333_322_49e-3,
    -1.666_666_666_666_663_2e-1,
];
/// As [`COS_F32`].
const COS_F64: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -1.388_888_888_887_411e-3,
    4.166_666_666_666_66e-2,
];

/// An argument less a multiple of π/2.
struct Reduced<V> {
    /// |r| ≤ π/4, nearly.
    r: V,
    /// What `r` lacks.
    tail: Option<V>,
    /// The multiple's last bits, as integer lanes of any width.
    quadrant: V,
}

/// The sine.
pub fn sin<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let reduced = reduce(b, x);
    let value = pick(b, &reduced, 0);
    // The sums above lose the sign of −0.
    let ty = b.ty(x);
    let zero = b.fconst(ty, 0.0);
    let is_zero = b.compare(CompareOp::Eq, x, zero);
    b.select(is_zero, x, value)
}

/// The cosine.
pub fn cos<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let reduced = reduce(b, x);
    // cos x = sin(x + π/2)
    pick(b, &reduced, 1)
}

/// The tangent.
pub fn tan<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let (sine, cosine) = (sin(b, x), cos(b, x));
    b.div(sine, cosine)
}

fn reduce<B: Arithmetic>(b: &mut B, x: B::Value) -> Reduced<B::Value> {
    match b.float_type(x) {
        Float::F64 => reduce_f64(b, x),
        Float::F32 => {
            let [r, quadrant] = if b.fuses() { reduce_short(b, x) } else { reduce_doubled(b, x) };
            Reduced { r, tail: None, quadrant }
        }
    }
}

/// An `f32` less a multiple of π/2, and that multiple's last bits. The first difference is exact.
fn reduce_short<B: Arithmetic>(b: &mut B, x: B::Value) -> [B::Value; 2] {
    let ty = b.ty(x);
    let (scale, magic) = (b.fconst(ty, FRAC_2_PI), b.fconst(ty, 12_582_912.0));
    let shifted = b.fma(x, scale, magic);
    let n = b.sub(shifted, magic);
    let mut r = x;
    for part in HALF_PI_F32 {
        let part = b.fconst(ty, -part);
        r = b.fma(n, part, r);
    }
    let quadrant = b.bits_of(shifted);
    let (magnitude, limit) = (b.abs(x), b.fconst(ty, SHORT));
    let long = b.compare(CompareOp::Ge, magnitude, limit);
    b.if_any(long, [r, quadrant], |b| {
        let [long_r, long_quadrant] = reduce_doubled(b, x);
        [b.select(long, long_r, r), b.select(long, long_quadrant, quadrant)]
    })
}

/// The multiple of π/2 nearest to `x`, in `f64`, and the same with its integer value in the low bits.
fn nearest_multiple<B: Arithmetic>(b: &mut B, x: B::Value) -> (B::Value, B::Value) {
    let ty = b.ty(x);
    let (scale, magic) = (b.fconst(ty, FRAC_2_PI), b.fconst(ty, 6_755_399_441_055_744.0));
    let shifted = b.fma(x, scale, magic);
    (b.sub(shifted, magic), shifted)
}

/// As [`reduce_short`] of any `f32`, in `f64`.
fn reduce_doubled<B: Arithmetic>(b: &mut B, x: B::Value) -> [B::Value; 2] {
    let magnitude = b.abs(x);
    let limit = b.fconst(b.ty(x), LARGE);
    let x = b.double_of(x);
    let ty = b.ty(x);
    let (n, _) = nearest_multiple(b, x);
    let (hi, lo) = (b.fconst(ty, -HALF_PI_SHORT[0]), b.fconst(ty, -HALF_PI_SHORT[1]));
    let r = b.fma(n, hi, x);
    let r = b.fma(n, lo, r);
    // Arguments this large are rare: their reduction is jumped over unless a lane has one.
    let large = b.compare(CompareOp::Ge, magnitude, limit);
    let [r, n] = b.if_any(large, [r, n], |b| {
        let (large_r, large_n) = reduce_large(b, x);
        [b.select(large, large_r, r), b.select(large, large_n, n)]
    });
    [b.single_of(r), b.whole_of(n)]
}

/// The reduced argument and the multiple of π/2 less some multiple of four, for any `f32` as `f64`, after Payne and
/// Hanek: the product of x and 2/π is formed in parts, exactly, and multiples of four are dropped from each.
fn reduce_large<B: Arithmetic>(b: &mut B, x: B::Value) -> (B::Value, B::Value) {
    let ty = b.ty(x);
    let (quarter, minus_four) = (b.fconst(ty, 0.25), b.fconst(ty, -4.0));
    let (mut turns, mut fraction) = (b.fconst(ty, 0.0), b.fconst(ty, 0.0));
    for (n, digit) in (1..).zip(TWO_OVER_PI) {
        let digit = b.fconst(ty, f64::from(digit) * 2f64.powi(-28 * n));
        let part = b.mul(x, digit);
        let fours = b.mul(part, quarter);
        let fours = b.round_even(fours);
        let part = b.fma(fours, minus_four, part);
        // Whole quarter turns leave the sum at once, so that small fractions keep all their bits.
        let sum = b.add(fraction, part);
        let whole = b.round_even(sum);
        turns = b.add(turns, whole);
        fraction = b.sub(sum, whole);
    }
    let half_pi = b.fconst(ty, FRAC_PI_2);
    (b.mul(fraction, half_pi), turns)
}

fn reduce_f64<B: Arithmetic>(b: &mut B, x: B::Value) -> Reduced<B::Value> {
    let ty = b.ty(x);
    let (n, shifted) = nearest_multiple(b, x);
    let quadrant = b.bits_of(shifted);
    let parts = HALF_PI.map(|part| b.fconst(ty, -part));
    // The first difference is exact; the next two keep what they round off.
    let r = b.fma(n, parts[0], x);
    let second = b.mul(n, parts[1]);
    let (r, error) = two_sum(b, r, second);
    let third = b.mul(n, parts[2]);
    let (r, more) = two_sum(b, r, third);
    let error = b.add(error, more);
    let error = b.fma(n, parts[3], error);
    let (r, tail) = two_sum(b, r, error);
    // Beyond 2²⁰ or so nothing sensible is left; the result stays within ±1 all the same.
    let (r, tail) = (clamp(b, r, -0.786, 0.786), clamp(b, tail, -1e-16, 1e-16));
    Reduced { r, tail: Some(tail), quadrant }
}

/// `x + y` rounded, and exactly what that lost.
fn two_sum<B: Arithmetic>(b: &mut B, x: B::Value, y: B::Value) -> (B::Value, B::Value) {
    let sum = b.add(x, y);
    let y_part = b.sub(sum, x);
    let x_part = b.sub(sum, y_part);
    let (x_lost, y_lost) = (b.sub(x, x_part), b.sub(y, y_part));
    (sum, b.add(x_lost, y_lost))
}

/// The sine of `r` and a number of quarter turns.
fn pick<B: Arithmetic>(b: &mut B, reduced: &Reduced<B::Value>, quarters: u64) -> B::Value {
    let ints = b.ty(reduced.quadrant);
    let quarters = b.constant(ints, quarters);
    let quadrant = b.add(reduced.quadrant, quarters);
    let (zero, one, two) = (b.constant(ints, 0), b.constant(ints, 1), b.constant(ints, 2));
    let parity = b.and(quadrant, one);
    let odd = b.compare(CompareOp::Ne, parity, zero);
    let half = b.and(quadrant, two);
    let negative = b.compare(CompareOp::Ne, half, zero);
    let (sine, cosine) = kernels(b, reduced);
    let magnitude = b.select(odd, cosine, sine);
    let ty = b.ty(magnitude);
    let (minus, plus) = (b.fconst(ty, -0.0), b.fconst(ty, 0.0));
    let sign = b.select(negative, minus, plus);
    flip_sign(b, magnitude, sign)
}

/// Sine and cosine of the reduced argument.
fn kernels<B: Arithmetic>(b: &mut B, reduced: &Reduced<B::Value>) -> (B::Value, B::Value) {
    let r = reduced.r;
    let ty = b.ty(r);
    let (one, minus_half) = (b.fconst(ty, 1.0), b.fconst(ty, -0.5));
    let square = b.mul(r, r);
    let cube = b.mul(square, r);
    let Some(tail) = reduced.tail else {
        let p = polynomial(b, square, &SIN_F32);
        let sine = b.fma(p, cube, r);
        let q = polynomial(b, square, &COS_F32);
        let fourth = b.mul(square, square);
        let head = b.fma(square, minus_half, one);
        return (sine, b.fma(q, fourth, head));
    };
    // sin(r + t) ≈ sin r + t (1 − r²/2)
    let p = polynomial(b, square, &SIN_F64);
    let slope = b.fma(square, minus_half, one);
    let correction = b.mul(tail, slope);
    let rest = b.fma(p, cube, correction);
    let sine = b.add(r, rest);
    // cos(r + t) ≈ 1 − r²/2 + (r⁴ q − r t), keeping what the first difference rounds off.
    let q = polynomial(b, square, &COS_F64);
    let half_square = b.mul(square, minus_half);
    let head = b.add(half_square, one);
    let lost = b.sub(one, head);
    let lost = b.add(lost, half_square);
    let fourth = b.mul(square, square);
    let minus_tail = b.neg(tail);
    let lost = b.fma(r, minus_tail, lost);
    let rest = b.fma(q, fourth, lost);
    (sine, b.add(head, rest))
}
