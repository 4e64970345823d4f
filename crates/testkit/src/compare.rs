//! Comparing tensors within tolerances.

use infc_tensor::{DType, Tensor};

/// Asserts that tensors agree: equal types and shapes, and per element `|a − b| ≤ atol + rtol·|b|` with `b` the expected
/// one; NaN equals NaN, infinities by sign; integers and bools exactly. Where anything may differ, numbers of 16 bits may be
/// neighbours: what they are rounded from may lie on either side of a rounding.
///
/// # Panics
/// If they do not; the message begins with `place` and names the worst element.
#[track_caller]
pub fn assert_close(place: &str, found: &[Tensor], expected: &[Tensor], rtol: f64, atol: f64) {
    if let Some(difference) = difference(found, expected, rtol, atol) {
        panic!("{place}: {difference}");
    }
}

/// What [`assert_close`] would find, of the worst element.
#[must_use]
pub fn difference(found: &[Tensor], expected: &[Tensor], rtol: f64, atol: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} tensors, expected {}", found.len(), expected.len()));
    }
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
            let of = |t: &Tensor| format!("{}{:?}", t.dtype(), t.shape());
            return Some(format!("tensor {n} is {}, expected {}", of(found), of(expected)));
        }
        if !expected.dtype().is_float() {
            if found.bytes() != expected.bytes() {
                return Some(format!("tensor {n} differs"));
            }
            continue;
        }
        let mut worst: Option<(f64, usize)> = None;
        for i in 0..expected.len_elems() {
            let element = |t: &Tensor| t.get_f64(i).expect("floats of whole bytes");
            let (a, b) = (element(found), element(expected));
            if a == b || (a.is_nan() && b.is_nan()) {
                continue;
            }
            // Whatever involves one NaN or infinity is as bad as can be.
            let rounding = if rtol > 0.0 || atol > 0.0 { step(expected.dtype(), b) } else { 0.0 };
            let excess = (a - b).abs() - (atol + rtol * b.abs()).max(rounding);
            let excess = if excess.is_finite() { excess } else { f64::INFINITY };
            if excess > 0.0 && worst.is_none_or(|(w, _)| excess > w) {
                worst = Some((excess, i));
            }
        }
        if let Some((_, i)) = worst {
            let (a, b) = (found.get_f64(i), expected.get_f64(i));
            return Some(format!("tensor {n} {:?} is {a:?} at {i}, expected {b:?}", expected.shape()));
        }
    }
    None
}

/// How far the neighbours of a number of 16 bits are; 0 for other types, whose steps are less than any tolerance.
fn step(dtype: DType, x: f64) -> f64 {
    let (digits, least) = match dtype {
        DType::F16 => (10.0, -14.0),
        DType::BF16 => (7.0, -126.0),
        _ => return 0.0,
    };
    (x.abs().log2().floor().max(least) - digits).exp2()
}

/// Asserts that tensors are the same bit for bit, except that zeros may differ in sign, and NaN in payload.
///
/// # Panics
/// If they are not; the message begins with `place` and names an element.
#[track_caller]
pub fn assert_same(place: &str, found: &[Tensor], expected: &[Tensor]) {
    assert_close(place, found, expected, 0.0, 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_among_halves() {
        for x in [1.0, 1.5, 2.0, 1000.0, 0.125, 6e-5] {
            let half = infc_tensor::f16::from_f64(x);
            assert_eq!(
                step(DType::F16, half.to_f64()),
                infc_tensor::f16::from_bits(half.to_bits() + 1).to_f64() - half.to_f64()
            );
            let half = infc_tensor::bf16::from_f64(x);
            assert_eq!(
                step(DType::BF16, half.to_f64()),
                infc_tensor::bf16::from_bits(half.to_bits() + 1).to_f64() - half.to_f64()
            );
        }
        assert_eq!(step(DType::F16, 0.0), infc_tensor::f16::from_bits(1).to_f64());
        assert_eq!(step(DType::F32, 1.0), 0.0);
    }
}
