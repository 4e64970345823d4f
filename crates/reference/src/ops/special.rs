//! Special functions in `f64`, by series and continued fractions.

use std::f64::consts::PI;

/// The error function.
pub(crate) fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let a = x.abs();
    let value = if a < 2.5 { erf_series(a) } else { 1.0 - erfc_fraction(a) };
    value.copysign(x)
}

/// `1 - erf(x)`, exact also where that would cancel.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < 2.5 { 1.0 - erf(x) } else { erfc_fraction(x) }
}

/// `erf(x) = 2/√π · e^(-x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!`: all terms are positive, so nothing cancels.
fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = 0.0;
    let mut odd = 1.0;
    while sum + term != sum {
        sum += term;
        odd += 2.0;
        term *= 2.0 * x * x / odd;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// `erfc(x) = e^(-x²)/√π · 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …))))`, for `x` of at least 2.5.
fn erfc_fraction(x: f64) -> f64 {
    if x > 27.5 {
        return 0.0;
    }
    let tail = (1..=120).rev().fold(0.0, |tail, k| f64::from(k) / 2.0 / (x + tail));
    (-x * x).exp() / PI.sqrt() / (x + tail)
}

/// The standard normal distribution function.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// `ln(1 + e^x)`.
pub(crate) fn softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.0) + (-x.abs()).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_tables() {
        // Abramowitz and Stegun, table 7.1, and erfc(3), erfc(10) of the same chapter.
        for (x, expected) in [(0.0, 0.0), (0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (2.0, 0.995_322_265_0)] {
            assert!((erf(x) - expected).abs() < 1e-10, "erf({x})");
            assert_eq!(erf(-x), -erf(x));
        }
        assert!((erfc(3.0) / 2.209_049_699_858_544e-5 - 1.0).abs() < 1e-12);
        assert!((erfc(10.0) / 2.088_487_583_762_545e-45 - 1.0).abs() < 1e-12);
        assert_eq!((erf(f64::INFINITY), erf(f64::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn erf_is_continuous_where_the_method_changes() {
        assert!((erf(2.5) - erf(2.5f64.next_down())).abs() < 1e-15);
    }

    #[test]
    fn tails_do_not_overflow() {
        assert_eq!((sigmoid(-1000.0), sigmoid(1000.0)), (0.0, 1.0));
        assert_eq!((softplus(-1000.0), softplus(1000.0)), (0.0, 1000.0));
    }
}
