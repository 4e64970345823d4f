//! Numbers of 16 bits from wider ones.
//!
//! `half`'s own conversions from `f64` are not used: one looks at the upper 32 bits alone, so that what is a little more than the
//! middle between two neighbours is taken for the middle, and another one rounds twice.

use half::{bf16, f16};

/// The nearest `f16`, of two the even one.
#[must_use]
pub fn nearest_f16(x: f64) -> f16 {
    f16::from_f32(to_odd(x))
}

/// The nearest `bf16`, of two the even one.
#[must_use]
pub fn nearest_bf16(x: f64) -> bf16 {
    bf16::from_f32(to_odd(x))
}

/// The nearest `f32` whose last 13 bits are zero, of two the one further from zero: TF32, as PTX's `cvt.rna.tf32.f32` rounds
/// to it. What is beyond the largest becomes infinite; NaN stays NaN.
#[must_use]
pub fn nearest_tf32(x: f32) -> f32 {
    const DROPPED: u32 = 13;
    if x.is_nan() {
        return x;
    }
    f32::from_bits((x.to_bits() + (1 << (DROPPED - 1))) & !((1 << DROPPED) - 1))
}

/// The `f32` next to a number towards zero, with its last bit set if it is not that number: rounding it further gives what
/// rounding the number once would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if near.is_nan() || f64::from(near) == x {
        return near;
    }
    // Infinity, which a number beyond all others is nearest to, is one above the largest.
    let is_beyond = f64::from(near).abs() > x.abs();
    f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is exactly in the middle goes to the even neighbour, what is beside it to the nearer one, however near it is.
    #[test]
    fn beside_the_middle() {
        let (tiny, one) = (2f64.powi(-40), 1.0);
        for (middle, below, above) in
            [(one + 2f64.powi(-8), 1.0, 1.0078125), (1.0 + 3.0 * 2f64.powi(-8), 1.0078125, 1.015625)]
        {
            let even = if below == 1.0 { below } else { above };
            let found = [middle - tiny, middle, middle + tiny].map(|x| nearest_bf16(x).to_f64());
            assert_eq!(found, [below, even, above]);
            assert_eq!(nearest_bf16(-middle - tiny).to_f64(), -above);
        }
        let middle = 1.0 + 2f64.powi(-11);
        let found = [middle - tiny, middle, middle + tiny].map(|x| nearest_f16(x).to_f64());
        assert_eq!(found, [1.0, 1.0, 1.0 + 2f64.powi(-10)]);
    }

    #[test]
    fn at_the_ends() {
        assert_eq!(nearest_f16(65519.99999999), f16::MAX);
        assert_eq!(nearest_f16(65520.0), f16::INFINITY);
        assert_eq!(nearest_f16(-1e300), f16::NEG_INFINITY);
        assert_eq!(nearest_bf16(1e300), bf16::INFINITY);
        assert_eq!(nearest_bf16(f64::from(bf16::MAX)), bf16::MAX);
        assert!(nearest_f16(f64::NAN).is_nan() && nearest_bf16(f64::NAN).is_nan());
        // Half of the least number goes to zero, what is more to the least.
        let least = f64::from(f16::from_bits(1));
        assert_eq!([0.5 * least, 0.5 * least + 1e-300, 1e-320].map(|x| nearest_f16(x).to_bits()), [0, 0, 0]);
        assert_eq!([0.5000001 * least, -0.6 * least].map(|x| nearest_f16(x).to_bits()), [1, 0x8001]);
        assert_eq!(nearest_bf16(-1e-320).to_bits(), 0x8000);
    }

    /// What `f32` holds is converted as from there.
    #[test]
    fn as_from_f32() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            let wide = f64::from(x);
            assert!(nearest_f16(wide).to_bits() == f16::from_f32(x).to_bits() || x.is_nan(), "{x}");
            assert!(nearest_bf16(wide).to_bits() == bf16::from_f32(x).to_bits() || x.is_nan(), "{x}");
        }
    }

    /// Ten bits behind the point stay; the middle goes away from zero, on both sides of it.
    #[test]
    fn eleven_significant_bits() {
        let step = 2.0f32.powi(-10);
        let just_below = f32::from_bits((1.0 + step / 2.0).to_bits() - 1);
        for (x, wanted) in [
            (1.0, 1.0),
            (just_below, 1.0),
            (1.0 + step / 2.0, 1.0 + step),
            (1.0 + step * 1.5, 1.0 + 2.0 * step),
            (f32::MAX, f32::INFINITY),
            (f32::INFINITY, f32::INFINITY),
            (0.0, 0.0),
            (f32::from_bits(1), 0.0),
            (f32::from_bits(0x1000), f32::from_bits(0x2000)),
        ] {
            assert_eq!(nearest_tf32(x), wanted, "{x:e}");
            assert_eq!(nearest_tf32(-x).to_bits(), (-wanted).to_bits(), "{x:e}");
        }
        assert!(nearest_tf32(f32::from_bits(0x7fff_ffff)).is_nan());
    }
}
