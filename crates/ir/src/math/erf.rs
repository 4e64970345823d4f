//! The error function.

use super::exp::{Argument, power_of_e};
use super::{Arithmetic, Float, Table, flip_sign, polynomial, sign_of};
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
/// Where sixteen polynomials have their centres: at multiples of this. Of all `f32` near 4/15.5 the one at whose multiples the error
/// function is nearest to `f32`, within a tenth of a unit in the last place up to the seventh.
const STEP: f64 = 0.258_179_605_007_171_63;
/// From here on the error function is 1, and the sixteenth polynomial ends.
const MOST: f64 = 3.992_187_5;
/// `erf(k · STEP + u)` in u, for each k, by powers of u from 0 on; of k = 0 less u.
pub(super) const ERF: [[u32; 16]; 6] = [
    [
        0x0000_0000,
        0x3e91_e8c4,
        0x3f08_e5e4,
        0x3f3a_053e,
        0x3f5b_1887,
        0x3f6e_9d78,
        0x3f78_b616,
        0x3f7d_49c8,
        0x3f7f_1b51,
        0x3f7f_bd6c,
        0x3f7f_eee5,
        0x3f7f_fc20,
        0x3f7f_ff3a,
        0x3f7f_ffdd,
        0x3f7f_fffb,
        0x3f80_0000,
    ],
    [
        0x3e03_75d4,
        0x3f87_1e77,
        0x3f5d_423f,
        0x3f1e_8bf6,
        0x3ec6_dc15,
        0x3e5a_4ae7,
        0x3dd1_b797,
        0x3d30_550b,
        0x3c81_c1e2,
        0x3ba7_2255,
        0x3abc_68a0,
        0x39b9_e206,
        0x38a0_8089,
        0x3772_946f,
        0x3620_6f93,
        0x34b9_babe,
    ],
    [
        0x0000_0000,
        0xbe8b_897d,
        0xbee4_7eed,
        0xbef5_996b,
        0xbecd_5ddb,
        0xbe8c_e567,
        0xbe22_6f2c,
        0xbd9f_59aa,
        0xbd06_0720,
        0xbc42_0c5a,
        0xbb73_21e7,
        0xba82_e66f,
        0xb972_395c,
        0xb828_fcf1,
        0xb79d_596b,
        0xb7ba_aee3,
    ],
    [
        0xbec0_9317,
        0xbe9c_273a,
        0xbe09_b664,
        0x3d28_ecdf,
        0x3e16_3419,
        0x3e29_bf6e,
        0x3e04_cc19,
        0x3da2_96fd,
        0x3d22_e41d,
        0x3c88_788c,
        0x3bc1_9bca,
        0x3aea_5f33,
        0x39f3_5e74,
        0x38d9_94f7,
        0x37a7_f254,
        0x358f_fd02,
    ],
    [
        0x0000_0000,
        0x3e04_5521,
        0x3e3a_cc47,
        0x3e12_c53e,
        0x3d6e_2ccd,
        0xbc75_52fd,
        0xbd41_99ae,
        0xbd39_ca7e,
        0xbcf4_39d8,
        0xbc82_7e1d,
        0xbbd5_3fab,
        0xbb32_06d7,
        0xba84_fa25,
        0xba2b_8030,
        0x3a15_f3f2,
        0x3aa5_c7bf,
    ],
    [
        0x3de5_b8ea,
        0x3da1_a9c0,
        0x3b5f_ec8a,
        0xbd66_1460,
        0xbd8a_4b62,
        0xbd2b_7eb8,
        0xbc1d_5f5e,
        0x3c16_4591,
        0x3c53_e0eb,
        0x3c18_9633,
        0x3b9e_ab0b,
        0x3b01_ce63,
        0x3a2d_556e,
        0x3940_a175,
        0x3834_5172,
        0x3995_1524,
    ],
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
    if single && b.has_tables() {
        return of_table(b, x);
    }
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

/// The same by one of sixteen polynomials, whose coefficients are looked up: half of the operations, and off by 1.25 units at most.
fn of_table<B: Arithmetic>(b: &mut B, x: B::Value) -> B::Value {
    let ty = b.ty(x);
    let magnitude = b.abs(x);
    let most = b.fconst(ty, MOST);
    let t = b.min(most, magnitude);
    // 1.5·2^23 rounds to whole numbers, which are in the low bits then.
    let (magic, per_step) = (b.fconst(ty, 12_582_912.0), b.fconst(ty, 1.0 / STEP));
    let shifted = b.fma(t, per_step, magic);
    let k = b.sub(shifted, magic);
    let minus_step = b.fconst(ty, -STEP);
    let u = b.fma(k, minus_step, t);
    let mut sum = b.look_up(Table::Erf(5), shifted);
    for power in (1..5).rev() {
        let coefficient = b.look_up(Table::Erf(power), shifted);
        sum = b.fma(sum, u, coefficient);
    }
    // Small numbers are off by what they are off relative to themselves.
    let first = b.look_up(Table::Erf(0), shifted);
    let zero = b.fconst(ty, 0.0);
    let is_small = b.compare(CompareOp::Eq, k, zero);
    let first = b.select(is_small, u, first);
    let sum = b.fma(sum, u, first);
    let sign = sign_of(b, x);
    flip_sign(b, sum, sign)
}
