//! Filters brought to the points of minimal filtering, when compiling.

use super::algebra::Filtering;
use infc_tensor::{DType, Tensor};
use std::fmt;

/// `G` applied to a constant along the axes of its taps: `r` taps become `n = m + r − 1` points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterTransform {
    /// `m`, the results of one application along each axis.
    pub outputs: usize,
    /// `r`, the taps.
    pub taps: usize,
    /// The constant's axes that hold taps.
    pub axes: Vec<usize>,
}

impl FilterTransform {
    /// The transformed constant. Sums are in `f64` and rounded once. `None` if the constant is not an `f32` tensor
    /// with `taps` elements along the axes, or no such filtering is known.
    #[must_use]
    pub fn apply(&self, constant: &Tensor) -> Option<Tensor> {
        let filtering = Filtering::new(self.outputs, self.taps)?;
        if constant.dtype() != DType::F32 {
            return None;
        }
        let mut shape = constant.shape().to_vec();
        let mut values: Vec<f64> = constant.elements::<f32>().ok()?.iter().map(|&x| f64::from(x)).collect();
        for &axis in &self.axes {
            if *shape.get(axis)? != self.taps {
                return None;
            }
            let inner: usize = shape[axis + 1..].iter().product();
            let outer: usize = shape[..axis].iter().product();
            let points = filtering.points();
            let mut next = vec![0.0; outer.checked_mul(points)?.checked_mul(inner)?];
            for (o, block) in values.chunks_exact((self.taps * inner).max(1)).enumerate() {
                for (p, row) in filtering.filter.iter().enumerate() {
                    let to = &mut next[(o * points + p) * inner..][..inner];
                    for (t, &factor) in row.iter().enumerate() {
                        let from = &block[t * inner..][..inner];
                        to.iter_mut().zip(from).for_each(|(sum, &x)| *sum += factor * x);
                    }
                }
            }
            shape[axis] = points;
            values = next;
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the constant's type")]
        let rounded: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
        Tensor::from_elements(&shape, &rounded).ok()
    }
}

impl fmt::Display for FilterTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(ToString::to_string).collect();
        write!(f, "winograd F({}, {}) along axes {}", self.outputs, self.taps, axes.join(", "))
    }
}
