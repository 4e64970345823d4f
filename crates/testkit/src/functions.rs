//! Elementary functions in double precision, and what implementations of them are held to.

use infc_ir::math::Float;

/// Distance in units of the last place of the expected value; 0 for equal specials, huge for unequal ones.
#[must_use]
pub fn ulps_f32(found: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if found.to_bits() == rounded.to_bits() || (found.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    if found.is_nan() || expected.is_nan() || rounded == 0.0 && found == 0.0 {
        return f64::MAX;
    }
    // Infinity counts as the first number beyond the largest.
    let value = if found.is_infinite() { f64::from(found.signum()) * 2f64.powi(128) } else { f64::from(found) };
    let exponent = expected.abs().clamp(f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)).log2().floor() as i32;
    (value - expected).abs() / 2f64.powi(exponent - 23)
}

/// As [`ulps_f32`].
#[must_use]
pub fn ulps_f64(found: f64, expected: f64) -> f64 {
    if found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    if found.is_nan() || expected.is_nan() || (found == 0.0 && expected == 0.0) || found.signum() != expected.signum() {
        return f64::MAX;
    }
    found.to_bits().abs_diff(expected.to_bits()) as f64
}

/// Arguments that are tried of everything.
pub const SPECIAL: [f64; 17] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN,
    1e-310,
    1e-45,
    -1e-40,
];

/// Evenly spaced points, points of every binade, and special values.
#[must_use]
pub fn samples(lo: f64, hi: f64, count: u32, float: Float) -> Vec<f64> {
    let mut points: Vec<f64> = (0..=count).map(|n| lo + (hi - lo) * f64::from(n) / f64::from(count)).collect();
    let lowest = if float == Float::F32 { -149 } else { -1074 };
    for exponent in lowest..-lowest {
        for step in 0..37 {
            let point =
                (1.0 + f64::from(step) / 37.0) * 2f64.powi(exponent.max(-1022)) * 2f64.powi((exponent + 1022).min(0));
            points.extend([point, -point].into_iter().filter(|point| (lo..=hi).contains(point)));
        }
    }
    points.extend(SPECIAL);
    points
}

/// `1 / (1 + e^−x)`.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// The error function, by series near zero and by continued fraction elsewhere.
#[must_use]
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let t = x.abs();
    if t < 1.0 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while f64::abs(term) > f64::abs(sum) * 1e-18 {
            n += 1.0;
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    if t > 6.5 {
        return x.signum();
    }
    let fraction = (1..=200).rev().fold(0.0, |tail, n| f64::from(n) / 2.0 / (t + tail));
    let complement = (-t * t).exp() / (t + fraction) / std::f64::consts::PI.sqrt();
    (1.0 - complement).copysign(x)
}

/// The inverse of `sinh`; the standard library's forms lose precision near zero or overflow.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    let t = x.abs();
    if t > 1e18 {
        return (t.ln() + std::f64::consts::LN_2).copysign(x);
    }
    (t + t * t / (1.0 + (t * t + 1.0).sqrt())).ln_1p().copysign(x)
}

/// As [`asinh`].
#[must_use]
pub fn acosh(x: f64) -> f64 {
    if x > 1e18 {
        return x.ln() + std::f64::consts::LN_2;
    }
    if x < 1.0 {
        return f64::NAN;
    }
    let t = x - 1.0;
    (t + (t * (x + 1.0)).sqrt()).ln_1p()
}

/// As [`asinh`].
#[must_use]
pub fn atanh(x: f64) -> f64 {
    let t = x.abs();
    (0.5 * (2.0 * t / (1.0 - t)).ln_1p()).copysign(x)
}
