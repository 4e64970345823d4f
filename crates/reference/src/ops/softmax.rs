//! `Softmax`, `LogSoftmax`, `Hardmax`.
//!
//! Before opset 13 the tensor was flattened to a matrix at `axis` (1 by default) and its rows were normalized; since
//! then only the one axis is (the last by default).

use crate::call::{Call, one};
use crate::error::Result;
use crate::numeric::{Scalar, rounded_half};
use crate::shape;
use infc_tensor::{DType, Tensor};

/// Applies `f` to every group of elements that is normalized together.
fn normalized(call: &Call<'_>, f: impl Fn(&mut [f64])) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (outer, len, inner) = if call.opset() < 13 {
        let axis = call.int("axis", 1)?;
        let axis = if axis == x.rank() as i64 { x.rank() } else { shape::axis(axis, x.rank())? };
        (shape::len(&x.shape()[..axis]), shape::len(&x.shape()[axis..]), 1)
    } else {
        shape::around(x.shape(), shape::axis(call.int("axis", -1)?, x.rank())?)
    };
    let mut values = f64::read(x)?;
    if values.is_empty() {
        return one(x.clone());
    }
    let mut group = vec![0.0; len];
    for o in 0..outer {
        for i in 0..inner {
            (0..len).for_each(|k| group[k] = values[(o * len + k) * inner + i]);
            f(&mut group);
            (0..len).for_each(|k| values[(o * len + k) * inner + i] = group[k]);
        }
    }
    one(f64::write(x.dtype(), x.shape(), values.into_iter())?)
}

fn maximum(group: &[f64]) -> f64 {
    group.iter().fold(f64::NEG_INFINITY, |max, &v| max.larger(v))
}

pub(crate) fn softmax(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    normalized(call, |group| softmax_in_place(group, dtype))
}

/// `e^(x - max) / Σ e^(x - max)`.
///
/// ONNX defines it by ReduceMax, Sub, Exp, ReduceSum and Div, so half types are rounded after each.
pub(crate) fn softmax_in_place(group: &mut [f64], dtype: DType) {
    let max = maximum(group);
    group.iter_mut().for_each(|v| *v = rounded_half(dtype, rounded_half(dtype, *v - max).exp()));
    let sum = sum_of_halves(dtype, group);
    group.iter_mut().for_each(|v| *v /= sum);
}

/// A sum as ONNX's reference implementation makes it: of f16 with one rounding, of bf16 with one per addition.
fn sum_of_halves(dtype: DType, terms: &[f64]) -> f64 {
    match dtype {
        DType::BF16 => terms.iter().fold(0.0, |sum, term| rounded_half(dtype, sum + term)),
        _ => rounded_half(dtype, terms.iter().sum()),
    }
}

pub(crate) fn log_softmax(call: &Call<'_>) -> Result<Vec<Tensor>> {
    normalized(call, log_softmax_in_place)
}

/// `x - max - log Σ e^(x - max)`.
pub(crate) fn log_softmax_in_place(group: &mut [f64]) {
    let max = maximum(group);
    let log_sum = group.iter().map(|v| (v - max).exp()).sum::<f64>().ln();
    group.iter_mut().for_each(|v| *v = *v - max - log_sum);
}

/// `Hardmax`: one for the first maximum, zero for the rest.
pub(crate) fn hardmax(call: &Call<'_>) -> Result<Vec<Tensor>> {
    normalized(call, |group| {
        let max = maximum(group);
        let first = group.iter().position(|&v| v == max || v.is_nan());
        group.iter_mut().enumerate().for_each(|(i, v)| *v = f64::from(u8::from(Some(i) == first)));
    })
}
