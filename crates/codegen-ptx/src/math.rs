//! Functions that take several instructions, on f32.
//!
//! | function | how | error |
//! | --- | --- | --- |
//! | exp | `2^round(x·log₂e) · 2^rest`, the rest in two steps of `fma` | 4 ulp |
//! | log | `lg2.approx · ln 2` | that of `lg2.approx`: 2⁻²² absolute near 1, relative elsewhere |
//! | sigmoid | `1/(1 + exp(−x))` | 5 ulp |
//! | tanh | a polynomial below 0.55, `1 − 2/(exp(2x) + 1)` above | 3 ulp |
//! | erf | a polynomial below 0.6, Abramowitz and Stegun 7.1.26 above | 5 ulp |
//!
//! The bounds are the worst of millions of random arguments when these steps are emulated, with `ex2.approx` off by as
//! much as the PTX ISA allows it.

use crate::builder::{Builder, Reg, Src, Ty};
use std::f32::consts::{FRAC_2_SQRT_PI, LN_2, LOG2_E};

/// Beyond these, exp of an f32 is 0 or infinite.
const EXP_LIMIT: f32 = 110.0;

/// log₂e minus its nearest f32.
const LOG2_E_LOW: f32 = 1.925_963e-8;

fn f(value: f32) -> Src {
    Src::F32(value)
}

fn fma(b: &mut Builder, x: Src, y: Src, z: Src) -> Reg {
    b.op("fma.rn", Ty::F32, &[x, y, z])
}

/// `c₀ + c₁·t + c₂·t² + …`, highest first.
fn polynomial(b: &mut Builder, t: Reg, highest_first: &[f32]) -> Reg {
    let mut sum: Option<Reg> = None;
    for &c in highest_first {
        sum = Some(match sum {
            None => b.op("mov", Ty::F32, &[f(c)]),
            Some(s) => fma(b, s.into(), t.into(), f(c)),
        });
    }
    sum.expect("polynomials have coefficients")
}

pub(crate) fn exp(b: &mut Builder, x: Reg) -> Reg {
    // NaN passes through both.
    let low = b.op("max.NaN", Ty::F32, &[x.into(), f(-EXP_LIMIT)]);
    let x = b.op("min.NaN", Ty::F32, &[low.into(), f(EXP_LIMIT)]);
    let scaled = b.op("mul.rn", Ty::F32, &[x.into(), f(LOG2_E)]);
    let whole = b.cvt(".rni", Ty::F32, Ty::F32, scaled);
    let minus = b.op("neg", Ty::F32, &[whole.into()]);
    let rest = fma(b, x.into(), f(LOG2_E), minus.into());
    let rest = fma(b, x.into(), f(LOG2_E_LOW), rest.into());
    let fraction = b.op("ex2.approx", Ty::F32, &[rest.into()]);
    // Two factors, since 2^whole alone leaves the range before the product does.
    let half = b.op("mul.rn", Ty::F32, &[whole.into(), f(0.5)]);
    let half = b.cvt(".rmi", Ty::F32, Ty::F32, half);
    let other = b.op("sub.rn", Ty::F32, &[whole.into(), half.into()]);
    let (p, q) = (b.op("ex2.approx", Ty::F32, &[half.into()]), b.op("ex2.approx", Ty::F32, &[other.into()]));
    let partial = b.op("mul.rn", Ty::F32, &[fraction.into(), p.into()]);
    b.op("mul.rn", Ty::F32, &[partial.into(), q.into()])
}

pub(crate) fn log(b: &mut Builder, x: Reg) -> Reg {
    let log2 = b.op("lg2.approx", Ty::F32, &[x.into()]);
    b.op("mul.rn", Ty::F32, &[log2.into(), f(LN_2)])
}

pub(crate) fn sigmoid(b: &mut Builder, x: Reg) -> Reg {
    let minus = b.op("neg", Ty::F32, &[x.into()]);
    let e = exp(b, minus);
    let sum = b.op("add.rn", Ty::F32, &[e.into(), f(1.0)]);
    b.op("rcp.rn", Ty::F32, &[sum.into()])
}

pub(crate) fn tanh(b: &mut Builder, x: Reg) -> Reg {
    let magnitude = b.op("abs", Ty::F32, &[x.into()]);
    // |x| ≥ 0.55: 1 − 2/(exp(2|x|) + 1), with the sign of x.
    let twice = b.op("add.rn", Ty::F32, &[magnitude.into(), magnitude.into()]);
    let e = exp(b, twice);
    let sum = b.op("add.rn", Ty::F32, &[e.into(), f(1.0)]);
    let inverse = b.op("rcp.rn", Ty::F32, &[sum.into()]);
    let large = fma(b, inverse.into(), f(-2.0), f(1.0));
    let large = copysign(b, large, x);
    // Below: the odd Taylor polynomial to x¹⁵.
    let square = b.op("mul.rn", Ty::F32, &[x.into(), x.into()]);
    let coefficients = [
        -929_569.0 / 638_512_875.0,
        21844.0 / 6_081_075.0,
        -1382.0 / 155_925.0,
        62.0 / 2835.0,
        -17.0 / 315.0,
        2.0 / 15.0,
        -1.0 / 3.0,
    ];
    let series = polynomial(b, square, &coefficients);
    let cube = b.op("mul.rn", Ty::F32, &[square.into(), x.into()]);
    let small = fma(b, series.into(), cube.into(), x.into());
    let is_small = b.setp("lt", Ty::F32, magnitude.into(), f(0.55));
    b.selp(Ty::F32, small.into(), large.into(), is_small)
}

pub(crate) fn erf(b: &mut Builder, x: Reg) -> Reg {
    let magnitude = b.op("abs", Ty::F32, &[x.into()]);
    let square = b.op("mul.rn", Ty::F32, &[x.into(), x.into()]);
    // 1 − (a₁t + … + a₅t⁵)·exp(−x²), t = 1/(1 + p·|x|)
    let denominator = fma(b, magnitude.into(), f(0.327_591_1), f(1.0));
    let t = b.op("rcp.rn", Ty::F32, &[denominator.into()]);
    let a = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6, 0.0];
    let series = polynomial(b, t, &a);
    let minus = b.op("neg", Ty::F32, &[square.into()]);
    let e = exp(b, minus);
    let tail = b.op("mul.rn", Ty::F32, &[series.into(), e.into()]);
    let large = b.op("sub.rn", Ty::F32, &[f(1.0), tail.into()]);
    let large = copysign(b, large, x);
    // 2/√π·(x − x³/3 + x⁵/10 − x⁷/42 + x⁹/216 − x¹¹/1320)
    let coefficients = [-1.0 / 1320.0, 1.0 / 216.0, -1.0 / 42.0, 0.1, -1.0 / 3.0, 1.0].map(|c| c * FRAC_2_SQRT_PI);
    let series = polynomial(b, square, &coefficients);
    let small = b.op("mul.rn", Ty::F32, &[series.into(), x.into()]);
    let is_small = b.setp("lt", Ty::F32, magnitude.into(), f(0.6));
    b.selp(Ty::F32, small.into(), large.into(), is_small)
}

/// The magnitude of `a` with the sign of `x`.
fn copysign(b: &mut Builder, a: Reg, x: Reg) -> Reg {
    // PTX names the operand that gives the sign first.
    b.op("copysign", Ty::F32, &[x.into(), a.into()])
}
