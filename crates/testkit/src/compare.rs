//! Comparing tensors as CONTRACTS.md says.

use infc_tensor::Tensor;

/// Asserts that tensors agree: equal types and shapes, and per element `|a − b| ≤ atol + rtol·|b|` with `b` the expected
/// one; NaN equals NaN, infinities by sign; integers and bools exactly.
///
/// # Panics
/// If they do not; the message begins with `place` and names the worst element.
#[track_caller]
pub fn assert_close(place: &str, found: &[Tensor], expected: &[Tensor], rtol: f64, atol: f64) {
    assert_eq!(found.len(), expected.len(), "{place}: number of tensors");
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.dtype(), expected.dtype(), "{place}: type of tensor {n}");
        assert_eq!(found.shape(), expected.shape(), "{place}: shape of tensor {n}");
        if !expected.dtype().is_float() {
            assert!(found.bytes() == expected.bytes(), "{place}: tensor {n} differs");
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
            let excess = (a - b).abs() - (atol + rtol * b.abs());
            let excess = if excess.is_finite() { excess } else { f64::INFINITY };
            if excess > 0.0 && worst.is_none_or(|(w, _)| excess > w) {
                worst = Some((excess, i));
            }
        }
        if let Some((_, i)) = worst {
            let (a, b) = (found.get_f64(i), expected.get_f64(i));
            panic!("{place}: tensor {n} {:?} is {a:?} at {i}, expected {b:?}", expected.shape());
        }
    }
}

/// Asserts that tensors are the same bit for bit, except that zeros may differ in sign, and NaN in payload.
///
/// # Panics
/// If they are not; the message begins with `place` and names an element.
#[track_caller]
pub fn assert_same(place: &str, found: &[Tensor], expected: &[Tensor]) {
    assert_close(place, found, expected, 0.0, 0.0);
}
