//! The error function.

use super::exp::{Argument, power_of_e};
use super::{Arithmetic, Float, flip_sign, polynomial, sign_of};
use crate::scalar::CompareOp;

/// `erf(x) / x − 1` in x², up to |x| = 0.92.
const NEAR_F32: [f64; 6] =
    [-5.967_617_03e-4, 4.991_194_23e-3, -2.676_813_49e-2, 1.128_199_25e-1, -3.761_253_36e-1, 1.283_791_66e-1];
/// `−1 + log(1 − erf(t)) / −t` in t, from 0.92 on: the coefficients of t⁰ to t⁶ after the first division.
const FAR_F32: [f64; 7] = [
    -1.728_534_70e-5,
    3.831_971_26e-4,
    -3.883_964_38e-3,
    2.425_462_19e-2,
    -1.067_778_77e-1,
    -6.348_466_87e-1,
    -1.287_175_12e-1,
];
/// As [`NEAR_F32`], up to |x| = 1.
const NEAR_F64: [f64; 13] = [
    5.945255584223488e-11,
    -1.136567067182716e-9,
    1.4657883530919653e-8,
    -1.635002619207727e-7,
    1.6460972954153765e-6,
    -1.4925593518728226e-5,
    0.00012055331037551108,
    -0.0008548326978765149,
    0.00522397762478137,
    -0.02686617064507296,
    0.11283791670954858,
    -0.3761263890318375,
    0.12837916709551257,
];
/// `log(1 − erf(t))` in t − 2, for 1 ≤ t ≤ 6.
const FAR_F64: [f64; 19] = [
    1.0387531138215157e-12,
    -1.0109892108455741e-11,
    3.736551741312205e-11,
    -4.3094255160412083e-11,
    -2.7431276267096527e-10,
    2.5391397062873385e-9,
    -1.3950655483236242e-8,
    5.77971800059587e-8,
    -1.7320485797019528e-7,
    2.036425360670173e-7,
    1.952193790400181e-6,
    -2.0706432566879696e-5,
    0.00013530933472704783,
    -0.00073239938574441,
    0.003570756346157506,
    -0.016465118136864094,
    -0.923750841823805,
    -4.418160805994417,
    -5.364941264616638,
];

/// The error function.
pub fn erf<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let single = B::float(ty) == Float::F32;
    let magnitude = b.abs(x);
    let square = b.mul(x, x);
    let near = polynomial(b, square, if single { &NEAR_F32[..] } else { &NEAR_F64[..] });
    let near = b.fma(near, x, x);
    // From 4 (f32) and 6 (f64) on the result is ±1.
    let most = b.fconst(ty, if single { 4.0 } else { 6.0 });
    let t = b.min(most, magnitude);
    let log = if single {
        let p = polynomial(b, t, &FAR_F32);
        let minus_t = b.neg(t);
        b.fma(p, t, minus_t)
    } else {
        let two = b.fconst(ty, 2.0);
        let offset = b.sub(t, two);
        polynomial(b, offset, &FAR_F64)
    };
    let complement = power_of_e(b, log, None, Argument::Moderate);
    let one = b.fconst(ty, 1.0);
    let far = b.sub(one, complement);
    let sign = sign_of(b, x);
    let far = flip_sign(b, far, sign);
    let bound = b.fconst(ty, if single { 0.921_875 } else { 1.0 });
    let is_near = b.compare(CompareOp::Lt, magnitude, bound);
    b.select(is_near, near, far)
}
