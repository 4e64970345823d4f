//! Losses over classes: `NegativeLogLikelihoodLoss`, `SoftmaxCrossEntropyLoss`.

use super::softmax::log_softmax_in_place;
use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::numeric::Scalar;
use crate::shape;
use infc_tensor::Tensor;

/// `NegativeLogLikelihoodLoss`: minus the log-probability of each sample's class, times the class' weight.
pub(crate) fn negative_log_likelihood(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    one(loss(call, x, &f64::read(x)?)?)
}

/// `SoftmaxCrossEntropyLoss`: the same for the log-softmax of scores, which is the second output.
pub(crate) fn softmax_cross_entropy(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let mut values = f64::read(x)?;
    if x.rank() < 2 {
        return Err(EvalError::InvalidInput { index: 0, reason: "a batch and a class axis are needed" });
    }
    let (outer, classes, inner) = shape::around(x.shape(), 1);
    let mut group = vec![0.0; classes];
    for o in 0..outer {
        for i in 0..inner {
            (0..classes).for_each(|c| group[c] = values[(o * classes + c) * inner + i]);
            log_softmax_in_place(&mut group);
            (0..classes).for_each(|c| values[(o * classes + c) * inner + i] = group[c]);
        }
    }
    let loss = loss(call, x, &values)?;
    Ok(vec![loss, f64::write(x.dtype(), x.shape(), values.into_iter())?])
}

/// The loss for log-probabilities `values` of the shape and type of `x`.
fn loss(call: &Call<'_>, x: &Tensor, values: &[f64]) -> Result<Tensor> {
    let target = call.input(1)?;
    if x.rank() < 2 || x.rank() != target.rank() + 1 {
        return Err(EvalError::InvalidInput { index: 1, reason: "one class per sample is needed" });
    }
    let (outer, classes, inner) = shape::around(x.shape(), 1);
    if target.shape()[0] != outer || target.shape()[1..] != x.shape()[2..] {
        return Err(EvalError::ShapeMismatch {
            left: x.shape().to_vec(),
            right: target.shape().to_vec(),
            reason: "there must be one class per sample",
        });
    }
    let weights = call.optional(2).map(f64::read).transpose()?;
    if weights.as_ref().is_some_and(|w| w.len() != classes) {
        return Err(EvalError::InvalidInput { index: 2, reason: "one weight per class is needed" });
    }
    let ignored = if call.has("ignore_index") { Some(call.int("ignore_index", 0)?) } else { None };
    let (mut losses, mut total_weight) = (Vec::new(), 0.0);
    for (sample, class) in int_list(target, 1)?.into_iter().enumerate() {
        if Some(class) == ignored {
            losses.push(0.0);
            continue;
        }
        let class = shape::index(class, classes)?;
        let weight = weights.as_ref().map_or(1.0, |w| w[class]);
        let (o, i) = (sample / inner, sample % inner);
        losses.push(-values[(o * classes + class) * inner + i] * weight);
        total_weight += weight;
    }
    let total: f64 = losses.iter().sum();
    match call.string("reduction", "mean")? {
        "none" => f64::write(x.dtype(), target.shape(), losses.into_iter()),
        "sum" => f64::write(x.dtype(), &[], std::iter::once(total)),
        "mean" => f64::write(x.dtype(), &[], std::iter::once(total / total_weight)),
        _ => Err(EvalError::InvalidAttribute { name: "reduction", reason: "it must be none, sum or mean" }),
    }
}
