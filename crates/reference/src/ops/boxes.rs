//! Operators on bounding boxes: `NonMaxSuppression`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::check_work;
use crate::numeric::{read_as_f64, write_i64s};
use infc_tensor::Tensor;

/// A box by its corners, the smaller coordinates first.
#[derive(Clone, Copy)]
struct Corners {
    low: [f64; 2],
    high: [f64; 2],
}

impl Corners {
    /// From two opposite corners `[y1, x1, y2, x2]`, in any order.
    fn of_corners(b: &[f64]) -> Self {
        Self { low: [b[0].min(b[2]), b[1].min(b[3])], high: [b[0].max(b[2]), b[1].max(b[3])] }
    }

    /// From a centre and extents `[x, y, width, height]`.
    fn of_centre(b: &[f64]) -> Self {
        Self { low: [b[1] - b[3] / 2.0, b[0] - b[2] / 2.0], high: [b[1] + b[3] / 2.0, b[0] + b[2] / 2.0] }
    }

    fn area(&self) -> f64 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Intersection over union; 0 if either is empty.
    fn overlap(&self, other: &Self) -> f64 {
        let side = |axis: usize| self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis]);
        let (height, width) = (side(0), side(1));
        if height <= 0.0 || width <= 0.0 || self.area() <= 0.0 || other.area() <= 0.0 {
            return 0.0;
        }
        let both = height * width;
        both / (self.area() + other.area() - both)
    }
}

/// `NonMaxSuppression`: per batch and class the boxes with the best scores, without those that overlap a better one by
/// more than a threshold. `[count, 3]`: batch, class, box.
pub(crate) fn non_max_suppression(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (boxes, scores) = (call.input(0)?, call.input(1)?);
    let (&[batches, count, 4], &[score_batches, classes, scored]) = (boxes.shape(), scores.shape()) else {
        return Err(EvalError::ShapeMismatch {
            left: boxes.shape().to_vec(),
            right: scores.shape().to_vec(),
            reason: "boxes are [batch, count, 4], scores [batch, class, count]",
        });
    };
    if (batches, count) != (score_batches, scored) {
        return Err(EvalError::ShapeMismatch {
            left: boxes.shape().to_vec(),
            right: scores.shape().to_vec(),
            reason: "as many boxes as scores are needed",
        });
    }
    // Without a limit there is no output.
    let most = usize::try_from(call.int_scalar(2)?.unwrap_or(0)).unwrap_or(0);
    let threshold = |index: usize| -> Result<Option<f64>> {
        let Some(tensor) = call.optional(index) else { return Ok(None) };
        match read_as_f64(tensor)?[..] {
            [value] => Ok(Some(value)),
            _ => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
        }
    };
    let (max_overlap, min_score) = (threshold(3)?.unwrap_or(0.0), threshold(4)?);
    let read = if call.flag("center_point_box", false)? { Corners::of_centre } else { Corners::of_corners };
    check_work([&batches, &classes, &count, &most.min(count)])?;

    let corners: Vec<Corners> = read_as_f64(boxes)?.chunks_exact(4).map(read).collect();
    let scores = read_as_f64(scores)?;
    let mut selected: Vec<i64> = Vec::new();
    for batch in 0..batches {
        for class in 0..classes {
            let scores = &scores[(batch * classes + class) * count..][..count];
            let corners = &corners[batch * count..][..count];
            let mut order: Vec<usize> =
                (0..count).filter(|&n| min_score.is_none_or(|least| scores[n] > least)).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            let mut kept: Vec<usize> = Vec::new();
            for candidate in order {
                if kept.len() >= most {
                    break;
                }
                if kept.iter().all(|&better| corners[better].overlap(&corners[candidate]) <= max_overlap) {
                    kept.push(candidate);
                }
            }
            selected.extend(kept.iter().flat_map(|&n| [batch as i64, class as i64, n as i64]));
        }
    }
    one(write_i64s(&[selected.len() / 3, 3], &selected)?)
}
