//! Quantisation to bytes, `saturate(round(x / s) + z)`, in fewer instructions than its operations have.
//!
//! The zero point `z` is a whole number, so it may be added behind the rounding conversion, to bounds that are moved by it.
//! A quotient by a constant is `fma(x, h, x·l)`, where `h + l` is `1/s` to twice a float's precision: two instructions,
//! where a division of 16 floats takes over ten cycles. Its last bit may differ from the quotient's. That is seen only where the
//! quotient lies next to the middle between two whole numbers, and there all floats are tried when compiling: the results
//! are the same, or a division it stays.

use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// Scales outside of these bounds are divided by: products of their inverses could be subnormal or infinite.
const SCALES: std::ops::RangeInclusive<f32> = 1e-9..=1e9;

/// Floats on either side of a middle that are tried. Quotient and product are each off by less than the distance of two
/// floats, which is at most that of four operands.
const TRIED: u32 = 8;

/// The parts of a quantisation to bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantization {
    /// What is quantised: the dividend, if there is a divisor.
    pub(super) value: ScalarId,
    /// The divisor, if it is a constant.
    pub(super) scale: Option<f32>,
    /// The zero point.
    pub(super) zero: i64,
    pub(super) to: DType,
}

/// `1/s` as the sum of two floats, the first of them no larger in magnitude, so that products with infinity have one sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Inverse {
    pub(super) high: f32,
    pub(super) low: f32,
}

/// Takes a quantisation of f32 to bytes apart. `fuses` tells whether the target has fused multiply-adds.
pub(super) fn quantization(body: &Body, id: ScalarId, fuses: bool) -> Option<Quantization> {
    let ScalarOp::CastSaturating(to @ (DType::I8 | DType::U8), from) = body.ops[id] else { return None };
    let number = |id: ScalarId| match body.ops[id] {
        ScalarOp::Const(c) if c.dtype == DType::F32 => Some(c.to_f64()),
        _ => None,
    };
    let (value, zero) = match body.ops[from] {
        ScalarOp::Binary(BinaryOp::Add, rounded, zero) => {
            let zero = number(zero).filter(|zero| zero.fract() == 0.0 && zero.abs() <= 255.0)?;
            let ScalarOp::Unary(UnaryOp::Round, value) = body.ops[rounded] else { return None };
            (value, zero as i64)
        }
        _ => (from, 0),
    };
    if body.dtype(value) != DType::F32 {
        return None;
    }
    if let ScalarOp::Binary(BinaryOp::Div, dividend, divisor) = body.ops[value]
        && let Some(scale) = number(divisor).filter(|_| fuses)
    {
        return Some(Quantization { value: dividend, scale: Some(scale as f32), zero, to });
    }
    Some(Quantization { value, scale: None, zero, to })
}

impl Inverse {
    /// `None` if quotients by the scale would round to another whole number within the range of bytes and their zero points.
    pub(super) fn of(scale: f32) -> Option<Self> {
        if !SCALES.contains(&scale.abs()) {
            return None;
        }
        let exact = 1.0 / f64::from(scale);
        let nearest = exact as f32;
        let high = if f64::from(nearest).abs() > exact.abs() { nearest.next_toward_zero() } else { nearest };
        let this = Self { high, low: (exact - f64::from(high)) as f32 };
        (-512..512).all(|n| this.agrees_near(scale, n)).then_some(this)
    }

    /// Whether quotients around `n + 0.5` round to the same whole numbers.
    fn agrees_near(self, scale: f32, n: i32) -> bool {
        let middle = ((f64::from(n) + 0.5) * f64::from(scale)) as f32;
        let mut x = (0..TRIED).fold(middle, |x, _| x.next_down());
        (0..=2 * TRIED).all(|_| {
            let agrees = (x / scale).round_ties_even() == self.times(x).round_ties_even();
            x = x.next_up();
            agrees
        })
    }

    /// What the generated code computes.
    fn times(self, x: f32) -> f32 {
        x.mul_add(self.high, x * self.low)
    }
}

/// Towards zero, which the standard library has up and down only.
trait TowardZero {
    fn next_toward_zero(self) -> Self;
}

impl TowardZero for f32 {
    fn next_toward_zero(self) -> Self {
        if self > 0.0 { self.next_down() } else { self.next_up() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_round_as_quotients_do() {
        let mut state = 1u32;
        let mut taken = 0;
        for _ in 0..500 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let scale = (f32::from((state >> 16) as u16) + 1.0) / 1.7e6 * if state & 256 == 0 { 1.0 } else { -1.0 };
            let Some(inverse) = Inverse::of(scale) else { continue };
            taken += 1;
            assert!(inverse.low * inverse.high >= 0.0, "{inverse:?}");
            for n in -300_000..300_000 {
                // Of numbers all over the range and beyond.
                let x = scale * (n as f32 * 0.00173);
                let (quotient, product) = ((x / scale).round_ties_even(), inverse.times(x).round_ties_even());
                assert!(quotient == product, "{x} / {scale}: {quotient}, not {product}");
            }
            for x in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 0.0] {
                let clamp = |x: f32| x.clamp(-600.0, 600.0).round_ties_even();
                assert_eq!(clamp(x / scale), clamp(inverse.times(x)), "{x} / {scale}");
            }
        }
        assert!(taken > 450, "{taken} of 500 scales");
    }

    #[test]
    fn what_would_round_otherwise_is_divided() {
        // An inverse whose lower half is missing is wrong next to some middle.
        let scale = 0.022_142_978;
        let good = Inverse::of(scale).expect("agrees");
        let bad = Inverse { low: 0.0, ..good };
        assert!(!(-512..512).all(|n| bad.agrees_near(scale, n)));
        assert_eq!(Inverse::of(1e-20), None);
        assert_eq!(Inverse::of(f32::NAN), None);
        assert_eq!(Inverse::of(0.0), None);
    }
}
