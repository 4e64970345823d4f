//! Reductions over axes, `ArgMax` and `ArgMin`.
//!
//! The axes became an input in opset 13 for `ReduceSum` and in opset 18 for the others. Without axes everything is
//! reduced, unless `noop_with_empty_axes` is set. Reducing nothing gives the operation's neutral element.

use crate::call::{Call, one};
use crate::error::Result;
use crate::numeric::{Scalar, read_as_f64, with_scalar, write_f64_as, write_i64s};
use crate::shape;
use infc_tensor::Tensor;

/// The elements of the input grouped by the output element they reduce to.
struct Grouping {
    /// Extents of the output, as `keepdims` says.
    out: Vec<usize>,
    /// For every input element, the flat index of the output element.
    targets: Vec<usize>,
    /// How many elements come together in each output element.
    count: usize,
}

impl Grouping {
    fn new(shape_: &[usize], axes: &[usize], keep_dims: bool) -> Self {
        let kept: Vec<usize> =
            (0..shape_.len()).map(|axis| if axes.contains(&axis) { 1 } else { shape_[axis] }).collect();
        let targets = shape::Strided::broadcast(&kept, shape_).collect();
        let count = axes.iter().fold(1usize, |n, &axis| n.saturating_mul(shape_[axis]));
        let out = if keep_dims {
            kept
        } else {
            (0..shape_.len()).filter(|axis| !axes.contains(axis)).map(|axis| shape_[axis]).collect()
        };
        Self { out, targets, count }
    }
}

/// The axes a node reduces; `None` means that the input is returned as it is.
fn reduced_axes(call: &Call<'_>, input_since: i64) -> Result<Option<Vec<usize>>> {
    let rank = call.input(0)?.rank();
    Ok(match call.ints_or_input("axes", 1, input_since)?.filter(|list| !list.is_empty()) {
        // Of one element without axes, numpy and ONNX Runtime fold it along an axis that it does not have.
        Some(list) if rank == 0 && list.iter().all(|axis| matches!(axis, -1 | 0)) => Some(Vec::new()),
        Some(list) => Some(shape::axes(&list, rank)?),
        None if call.opset() >= input_since && call.flag("noop_with_empty_axes", false)? => None,
        None => Some((0..rank).collect()),
    })
}

/// Folds every group with `f`, each element first mapped, and each result finished with the size of its group.
fn reduce<T: Scalar>(
    call: &Call<'_>,
    input_since: i64,
    start: T,
    map: impl Fn(T) -> T,
    f: impl Fn(T, T) -> T,
    finish: impl Fn(T, usize) -> T,
) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = reduced_axes(call, input_since)?.unwrap_or_default();
    let groups = Grouping::new(x.shape(), &axes, call.flag("keepdims", true)?);
    let len = crate::limits::checked_len(x.dtype(), &groups.out)?;
    let mut totals = vec![start; len];
    for (value, &target) in T::read(x)?.into_iter().zip(&groups.targets) {
        totals[target] = f(totals[target], map(value));
    }
    one(T::write(x.dtype(), &groups.out, totals.into_iter().map(|total| finish(total, groups.count)))?)
}

/// As [`reduce`], for results that are not integers even if the elements are: computed as `f64`, then truncated.
fn reduce_as_f64(call: &Call<'_>, map: impl Fn(f64) -> f64, finish: impl Fn(f64) -> f64) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = reduced_axes(call, 18)?.unwrap_or_default();
    let groups = Grouping::new(x.shape(), &axes, call.flag("keepdims", true)?);
    let len = crate::limits::checked_len(x.dtype(), &groups.out)?;
    let mut totals = vec![0.0; len];
    for (value, &target) in read_as_f64(x)?.into_iter().zip(&groups.targets) {
        totals[target] += map(value);
    }
    one(write_f64_as(x.dtype(), &groups.out, totals.into_iter().map(finish))?)
}

pub(crate) fn sum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 13, T::ZERO, |v| v, T::plus, |total, _| total))
}

pub(crate) fn mean(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::ZERO, |v| v, T::plus, |total, count| {
        T::from_f64(total.to_f64() / count as f64)
    }))
}

pub(crate) fn prod(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::ONE, |v| v, T::times, |total, _| total))
}

pub(crate) fn max(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::lowest(dtype), |v| v, T::larger, |total, _| total))
}

pub(crate) fn min(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::highest(dtype), |v| v, T::smaller, |total, _| total))
}

pub(crate) fn sum_square(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::ZERO, |v| v.times(v), T::plus, |total, _| total))
}

pub(crate) fn l1(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => reduce::<T>(call, 18, T::ZERO, T::magnitude, T::plus, |total, _| total))
}

pub(crate) fn l2(call: &Call<'_>) -> Result<Vec<Tensor>> {
    reduce_as_f64(call, |v| v * v, f64::sqrt)
}

pub(crate) fn log_sum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    reduce_as_f64(call, |v| v, f64::ln)
}

/// `ReduceLogSumExp`, with the maximum taken out so that nothing overflows.
pub(crate) fn log_sum_exp(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = reduced_axes(call, 18)?.unwrap_or_default();
    let groups = Grouping::new(x.shape(), &axes, call.flag("keepdims", true)?);
    let len = crate::limits::checked_len(x.dtype(), &groups.out)?;
    let values = read_as_f64(x)?;
    let mut maxima = vec![f64::NEG_INFINITY; len];
    for (&value, &target) in values.iter().zip(&groups.targets) {
        maxima[target] = maxima[target].larger(value);
    }
    let mut totals = vec![0.0; len];
    for (&value, &target) in values.iter().zip(&groups.targets) {
        // Equal infinities would give NaN for what is e^0.
        totals[target] += if value == maxima[target] { 1.0 } else { (value - maxima[target]).exp() };
    }
    let logs = totals.into_iter().zip(maxima).map(|(total, max)| total.ln() + max);
    one(write_f64_as(x.dtype(), &groups.out, logs)?)
}

/// Index of the element that beats all others along an axis; the first or, with `select_last_index`, the last of equals.
fn arg_best<T: Scalar>(call: &Call<'_>, beats: fn(T, T) -> bool) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    let last = call.flag("select_last_index", false)?;
    let (outer, len, inner) = shape::around(x.shape(), axis);
    let groups = Grouping::new(x.shape(), &[axis], call.flag("keepdims", true)?);
    if len == 0 && outer > 0 && inner > 0 {
        return Err(crate::EvalError::InvalidInput { index: 0, reason: "an empty axis has no best element" });
    }
    let values = T::read(x)?;
    let mut best = vec![0i64; outer * inner];
    for o in 0..outer {
        for i in 0..inner {
            let at = |k: usize| values[(o * len + k) * inner + i];
            let mut winner = 0;
            for k in 1..len {
                // NaN beats everything, as in numpy.
                let nan = at(k).is_nan() && !at(winner).is_nan();
                if nan || beats(at(k), at(winner)) || (last && at(k) == at(winner)) {
                    winner = k;
                }
            }
            best[o * inner + i] = winner as i64;
        }
    }
    one(write_i64s(&groups.out, &best)?)
}

pub(crate) fn arg_max(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => arg_best::<T>(call, |a, b| a > b))
}

pub(crate) fn arg_min(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => arg_best::<T>(call, |a, b| a < b))
}
