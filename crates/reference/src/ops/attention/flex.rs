//! `FlexAttention`: attention whose scores and weights are changed by graphs that the node holds.

use super::Heads;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, rounded_half, write_floats};
use crate::ops::softmax::softmax_in_place;
use infc_tensor::{DType, Tensor};

/// `prob_mod(softmax(score_mod(scale · Q·Kᵀ))) · V` per head; several query heads may share one of keys and values. The
/// graphs see all scores at once, `[B, N, S, T]`.
pub(crate) fn flex_attention(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let heads = |index: usize| match call.input(index)? {
        x if x.rank() == 4 => Heads::read(x, 0),
        _ => Err(EvalError::InvalidInput { index, reason: "a tensor of rank 4 is needed" }),
    };
    let (dtype, y_dtype) = (call.input(0)?.dtype(), call.input(2)?.dtype());
    let (q, k, v) = (heads(0)?, heads(1)?, heads(2)?);
    let ([b, n, s, h], [kb, kn, t, kh], [vb, vn, vt, vh]) = (q.shape, k.shape, v.shape);
    if (kb, vb, vt, vn, kh) != (b, b, t, kn, h) || kn == 0 || n % kn != 0 {
        return Err(EvalError::InvalidInput { index: 1, reason: "queries, keys and values do not fit" });
    }
    let precision = call.dtype("softmax_precision")?.unwrap_or(if dtype == DType::F64 { dtype } else { DType::F32 });
    checked_len(precision, &[b, n, s, t])?;
    check_work(&[b, n, s, t, h.max(vh)])?;
    let scale = if call.has("scale") { call.float("scale", 1.0)? } else { 1.0 / (h as f64).sqrt() };
    // ONNX scales queries and keys by the root; half types are rounded after each step.
    let half = |x: f64| rounded_half(dtype, x);
    let root = half(scale.abs().sqrt());
    let rows = || (0..b).flat_map(move |x| (0..n).flat_map(move |y| (0..s).map(move |z| (x, y, z))));
    let mut scores = Vec::with_capacity(b * n * s * t);
    for (batch, head, i) in rows() {
        let query = q.row(batch, head, i);
        scores.extend((0..t).map(|j| {
            let products = query.iter().zip(k.row(batch, head / (n / kn), j));
            half(products.map(|(a, b)| half(a * root.copysign(scale)) * half(b * root)).sum())
        }));
    }
    let scores = write_floats(precision, &[b, n, s, t], scores.into_iter(), false)?;
    let mut weights = f64::read(&modified(call, "score_mod", scores)?)?;
    if t > 0 {
        weights.chunks_mut(t).for_each(|row| softmax_in_place(row, precision));
    }
    let weights = write_floats(precision, &[b, n, s, t], weights.into_iter(), false)?;
    let weights = f64::read(&modified(call, "prob_mod", weights)?)?;
    let mut y = Vec::with_capacity(b * n * s * vh);
    for (row, (batch, head, _)) in rows().enumerate() {
        let weight = |j: usize| weights[row * t + j];
        let value = |j: usize| v.row(batch, head / (n / kn), j);
        y.extend((0..vh).map(|d| (0..t).map(|j| weight(j) * value(j)[d]).sum::<f64>()));
    }
    one(write_floats(y_dtype, &[b, n, s, vh], y.into_iter(), false)?)
}

/// What the graph of an attribute makes of a tensor, of which it keeps type and shape.
fn modified(call: &Call<'_>, name: &'static str, x: Tensor) -> Result<Tensor> {
    if !call.holds(name) {
        return Ok(x);
    }
    let (dtype, shape) = (x.dtype(), x.shape().to_vec());
    match &call.run_graph(name, vec![x])?[..] {
        [y] if y.dtype() == dtype && y.shape() == shape => Ok(y.clone()),
        _ => Err(EvalError::InvalidAttribute { name, reason: "it gives something else than scores of that shape" }),
    }
}
