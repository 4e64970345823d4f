//! Whether two tensors agree.
//!
//! An element agrees if |a − b| ≤ atol + rtol·|b|, where b is the expected one; NaN equals NaN, an infinity only itself.
//! Integers, bools and strings must be equal. Another shape or type disagrees as a whole.

use crate::convert::to_f64;
use infc_tensor::Tensor;
use serde::Serialize;

/// How far elements may be apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

/// An element, and how far it is off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Worst {
    pub(crate) error: f64,
    pub(crate) index: Vec<usize>,
    pub(crate) expected: f64,
    pub(crate) found: f64,
}

/// The outcome for one output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Agreement {
    pub(crate) agrees: bool,
    pub(crate) elements: usize,
    pub(crate) mismatches: usize,
    /// The largest |a − b|; `None` if all elements are equal, or are no numbers.
    pub(crate) worst_abs: Option<Worst>,
    /// The largest |a − b| / |b|, of those with b ≠ 0.
    pub(crate) worst_rel: Option<Worst>,
    /// The first element that disagrees.
    pub(crate) first_mismatch: Option<Vec<usize>>,
    /// Why the two cannot be compared at all.
    pub(crate) problem: Option<String>,
}

impl Agreement {
    /// Compares what was found with what was expected.
    pub(crate) fn of(found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Self {
        let elements = found.len_elems();
        let problem = |problem: String| Self {
            agrees: false,
            elements,
            mismatches: elements,
            worst_abs: None,
            worst_rel: None,
            first_mismatch: None,
            problem: Some(problem),
        };
        if found.dtype() != expected.dtype() {
            return problem(format!("expected elements of type {}, found {}", expected.dtype(), found.dtype()));
        }
        if found.shape() != expected.shape() {
            return problem(format!("expected shape {:?}, found {:?}", expected.shape(), found.shape()));
        }
        if let (Ok(a), Ok(b)) = (found.values(), expected.values()) {
            return Self::of_values(a, b, tolerance);
        }
        if !found.dtype().is_float() {
            return Self::exact(found, expected);
        }
        let (Some(a), Some(b)) = (to_f64(found), to_f64(expected)) else {
            return problem(format!("elements of type {} cannot be compared", found.dtype()));
        };
        let mut result = Self::perfect(elements);
        let (mut worst_abs, mut worst_rel) = ((0.0, 0), (0.0, 0));
        for (index, (&a, &b)) in a.iter().zip(&b).enumerate() {
            if a == b || (a.is_nan() && b.is_nan()) {
                continue;
            }
            // Not finite unless both are: then the elements are infinitely far apart.
            let error = if a.is_finite() && b.is_finite() { (a - b).abs() } else { f64::INFINITY };
            if error > worst_abs.0 {
                worst_abs = (error, index);
            }
            if b != 0.0 && error / b.abs() > worst_rel.0 {
                worst_rel = (error / b.abs(), index);
            }
            if error > tolerance.atol + tolerance.rtol * b.abs() || error == f64::INFINITY {
                result.mismatches += 1;
                result.first_mismatch.get_or_insert_with(|| unravel(index, found.shape()));
            }
        }
        let worst = |(error, index): (f64, usize)| {
            let place = unravel(index, found.shape());
            (error > 0.0).then(|| Worst { error, index: place, expected: b[index], found: a[index] })
        };
        result.worst_abs = worst(worst_abs);
        result.worst_rel = worst(worst_rel);
        result.agrees = result.mismatches == 0;
        result
    }

    /// The values of two sequences or optionals, as many on both sides. Places begin with the number of the value.
    fn of_values(found: &[Tensor], expected: &[Tensor], tolerance: Tolerance) -> Self {
        let mut whole = Self::perfect(0);
        for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
            let part = Self::of(found, expected, tolerance);
            let place = |index: Vec<usize>| [vec![n], index].concat();
            let worse = |so_far: &mut Option<Worst>, worst: Option<Worst>| {
                let Some(worst) = worst.map(|w| Worst { index: place(w.index), ..w }) else { return };
                if so_far.as_ref().is_none_or(|so_far| worst.error > so_far.error) {
                    *so_far = Some(worst);
                }
            };
            whole.agrees &= part.agrees;
            whole.elements += part.elements;
            whole.mismatches += part.mismatches;
            worse(&mut whole.worst_abs, part.worst_abs);
            worse(&mut whole.worst_rel, part.worst_rel);
            whole.first_mismatch = whole.first_mismatch.or_else(|| part.first_mismatch.map(place));
            whole.problem = whole.problem.or_else(|| part.problem.map(|problem| format!("value {n}: {problem}")));
        }
        whole
    }

    fn perfect(elements: usize) -> Self {
        Self {
            agrees: true,
            elements,
            mismatches: 0,
            worst_abs: None,
            worst_rel: None,
            first_mismatch: None,
            problem: None,
        }
    }

    fn exact(found: &Tensor, expected: &Tensor) -> Self {
        let len = found.len_elems();
        let differs = |index: usize| match (found.strings(), expected.strings()) {
            (Ok(a), Ok(b)) => a[index] != b[index],
            _ => match found.dtype().size_bytes() {
                Some(size) => found.bytes()[index * size..][..size] != expected.bytes()[index * size..][..size],
                // Packed: the elements of one byte stand or fall together.
                None => {
                    let byte = index * found.dtype().size_bits() / 8;
                    found.bytes()[byte] != expected.bytes()[byte]
                }
            },
        };
        let mismatches: Vec<usize> = (0..len).filter(|&index| differs(index)).collect();
        let worst = mismatches.first().and_then(|&index| {
            let (a, b) = (found.get_f64(index)?, expected.get_f64(index)?);
            Some(Worst { error: (a - b).abs(), index: unravel(index, found.shape()), expected: b, found: a })
        });
        Self {
            agrees: mismatches.is_empty(),
            mismatches: mismatches.len(),
            first_mismatch: mismatches.first().map(|&index| unravel(index, found.shape())),
            worst_abs: worst,
            ..Self::perfect(len)
        }
    }
}

/// The coordinates of a flat index.
fn unravel(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut coordinates = vec![0; shape.len()];
    for (coordinate, &extent) in coordinates.iter_mut().zip(shape).rev() {
        *coordinate = index % extent.max(1);
        index /= extent.max(1);
    }
    coordinates
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-4 };

    fn floats(elements: &[f32]) -> Tensor {
        Tensor::from_elements(&[elements.len()], elements).unwrap()
    }

    fn agrees(found: &[f32], expected: &[f32]) -> bool {
        Agreement::of(&floats(found), &floats(expected), TOLERANCE).agrees
    }

    #[test]
    fn tolerances_are_relative_to_what_is_expected() {
        assert!(agrees(&[100.05], &[100.0]));
        assert!(!agrees(&[100.2], &[100.0]));
        assert!(agrees(&[0.00009], &[0.0]));
        assert!(!agrees(&[0.00011], &[0.0]));
    }

    #[test]
    fn what_is_not_finite() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(agrees(&[nan, inf, -inf], &[nan, inf, -inf]));
        assert!(!agrees(&[nan], &[1.0]));
        assert!(!agrees(&[1.0], &[nan]));
        assert!(!agrees(&[inf], &[-inf]));
        assert!(!agrees(&[f32::MAX], &[inf]));
    }

    #[test]
    fn the_worst_elements_are_told() {
        let found = Tensor::from_elements(&[2, 2], &[1.0f32, 2.5, 30.0, 0.0]).unwrap();
        let expected = Tensor::from_elements(&[2, 2], &[1.0f32, 2.0, 31.0, 0.0]).unwrap();
        let agreement = Agreement::of(&found, &expected, TOLERANCE);
        assert_eq!((agreement.agrees, agreement.mismatches), (false, 2));
        assert_eq!(agreement.worst_abs.unwrap().index, [1, 0]);
        assert_eq!(agreement.worst_rel.unwrap().error, 0.25);
        assert_eq!(agreement.first_mismatch, Some(vec![0, 1]));
    }

    #[test]
    fn integers_are_compared_exactly() {
        let int = |elements: &[i64]| Tensor::from_elements(&[elements.len()], elements).unwrap();
        assert!(Agreement::of(&int(&[1 << 60]), &int(&[1 << 60]), TOLERANCE).agrees);
        let agreement = Agreement::of(&int(&[5, (1 << 60) + 1]), &int(&[5, 1 << 60]), TOLERANCE);
        assert_eq!((agreement.mismatches, agreement.first_mismatch), (1, Some(vec![1])));
    }

    #[test]
    fn sequences_agree_value_by_value() {
        let sequence = |parts: &[&[f32]]| Tensor::sequence(parts.iter().map(|part| floats(part)).collect()).unwrap();
        let of = |a: &[&[f32]], b: &[&[f32]]| Agreement::of(&sequence(a), &sequence(b), TOLERANCE);
        assert!(of(&[&[1.0], &[2.0, 3.0]], &[&[1.0], &[2.0, 3.0]]).agrees);
        let off = of(&[&[1.0], &[2.0, 3.5]], &[&[1.0], &[2.0, 3.0]]);
        assert_eq!((off.agrees, off.elements, off.mismatches), (false, 3, 1));
        assert_eq!(off.first_mismatch, Some(vec![1, 1]));
        assert!(of(&[&[1.0]], &[&[1.0, 1.0]]).problem.unwrap().contains("value 0"));
        assert!(!of(&[&[1.0]], &[&[1.0], &[1.0]]).agrees);
    }

    #[test]
    fn another_shape_or_type_disagrees() {
        let column = floats(&[1.0, 2.0]).reshaped(&[2, 1]).unwrap();
        assert!(Agreement::of(&column, &floats(&[1.0, 2.0]), TOLERANCE).problem.unwrap().contains("shape"));
        let ints = Tensor::from_elements(&[1], &[1i32]).unwrap();
        assert!(Agreement::of(&ints, &floats(&[1.0]), TOLERANCE).problem.unwrap().contains("type f32, found i32"));
    }
}
