//! `TopK`.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, with_scalar, write_i64s};
use crate::select::gather;
use crate::shape;
use infc_tensor::Tensor;
use std::cmp::Ordering;

/// `TopK`: the `k` largest (or smallest) elements along an axis and their indices, always sorted; among equals the
/// lower index comes first. NaN counts as larger than everything.
pub(crate) fn top_k(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let k = if call.opset() < 10 {
        call.required_int("k")?
    } else {
        call.int_scalar(1)?.ok_or(EvalError::MissingInput { index: 1 })?
    };
    let axis = shape::axis(call.int("axis", -1)?, x.rank())?;
    let largest = call.flag("largest", true)?;
    let (outer, len, inner) = shape::around(x.shape(), axis);
    let k = usize::try_from(k).ok().filter(|&k| k <= len).ok_or(EvalError::IndexOutOfRange { index: k, len })?;
    let mut out = x.shape().to_vec();
    out[axis] = k;
    let dtype = x.dtype();
    let rows = with_scalar!(dtype, T => ranked::<T>(&T::read(x)?, (outer, len, inner), k, largest));
    let picks = (0..shape::len(&out)).map(|flat| {
        let (o, i) = (flat / inner / k, flat % inner);
        (o * len + rows[flat]) * inner + i
    });
    let values = gather(x, &out, picks)?;
    let indices: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
    Ok(vec![values, write_i64s(&out, &indices)?])
}

/// For every element of the output, the coordinate along the axis of the element it is.
fn ranked<T: Scalar>(values: &[T], (outer, len, inner): (usize, usize, usize), k: usize, largest: bool) -> Vec<usize> {
    let mut rows = vec![0; shape::len(&[outer, k, inner])];
    if rows.is_empty() {
        return rows;
    }
    let mut order: Vec<usize> = Vec::with_capacity(len);
    for o in 0..outer {
        for i in 0..inner {
            let at = |row: usize| values[(o * len + row) * inner + i];
            order.clear();
            order.extend(0..len);
            order.sort_by(|&a, &b| {
                let ascending = total_order(at(a), at(b));
                (if largest { ascending.reverse() } else { ascending }).then(a.cmp(&b))
            });
            for (rank, &row) in order.iter().take(k).enumerate() {
                rows[(o * k + rank) * inner + i] = row;
            }
        }
    }
    rows
}

/// Ascending, with NaN last.
fn total_order<T: Scalar>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
