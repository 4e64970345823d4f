//! `Slice`: every `step`-th element from `start` to `end` along some axes.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::select::gather;
use crate::shape::{self, Strided};
use infc_tensor::Tensor;

pub(crate) fn slice(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let list = |name: &str, index: usize| call.ints_or_input(name, index, 10);
    let starts = list("starts", 1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    let ends = list("ends", 2)?.ok_or(EvalError::MissingInput { index: 2 })?;
    let axes = list("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = if call.opset() < 10 { None } else { call.int_list(4)? }.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(EvalError::InvalidInput { index: 1, reason: "starts, ends, axes and steps differ in number" });
    }
    let mut out = x.shape().to_vec();
    let mut strides = shape::strides(x.shape());
    let mut offset = 0usize;
    for (i, axis) in shape::axes(&axes, x.rank())?.into_iter().enumerate() {
        let range = Range::new(starts[i], ends[i], steps[i], x.shape()[axis])?;
        offset = offset.wrapping_add(range.first.wrapping_mul(strides[axis] as usize));
        out[axis] = range.len;
        strides[axis] = strides[axis].wrapping_mul(range.step as isize);
    }
    one(gather(x, &out, Strided::new(&out, strides, offset))?)
}

/// The elements of one axis that a slice takes.
struct Range {
    first: usize,
    step: i64,
    len: usize,
}

impl Range {
    /// Negative bounds count from the back, and bounds are clamped to the axis: as ONNX says it, and unlike numpy, a slice
    /// backwards that starts before the first element starts there.
    fn new(start: i64, end: i64, step: i64, len: usize) -> Result<Self> {
        if step == 0 {
            return Err(EvalError::InvalidInput { index: 4, reason: "a step is zero" });
        }
        let len = len as i64;
        let from_front = |bound: i64| if bound < 0 { bound.saturating_add(len) } else { bound };
        // Going backwards the slice may start at the last element and may end before the first one.
        let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let start = from_front(start).max(0).min(high);
        let end = from_front(end).clamp(low, high);
        let distance = if step > 0 { end - start } else { start - end };
        let len = if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
        Ok(Self { first: if len == 0 { 0 } else { start as usize }, step, len })
    }
}
