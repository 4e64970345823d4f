//! Losses over classes: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//!
//! ONNX operators of these names, opset 12 and later: log-probabilities (or scores) `[N, C, d…]`, classes `[N, d…]`, and
//! maybe a weight per class `[C]`. A sample's loss is a look-up; what is ignored has weight 0.

use super::Operator;
use super::elementwise::require_float;
use super::gather_elements::{elements_along, require_indices};
use super::pool::require_channels;
use super::reduce::divide;
use super::softmax::softmax;
use crate::build::{Builder, Result, compute_type, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("NegativeLogLikelihoodLoss", 12, negative_log_likelihood),
    Operator::new("SoftmaxCrossEntropyLoss", 12, cross_entropy),
];

fn negative_log_likelihood(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let log_probabilities = call.build.cast(&x, compute_type(x.dtype()))?;
    let loss = loss(call, &log_probabilities)?;
    Ok(vec![call.build.cast(&loss, x.dtype())?])
}

/// Outputs also the log-probabilities.
fn cross_entropy(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    require_channels(&x)?;
    let wide = call.build.cast(&x, compute_type(x.dtype()))?;
    let kind = CompositeKind::LogSoftmax;
    let normalised =
        call.build.composite(kind, &[&wide], |build, inputs| softmax(build, &inputs[0], &[1], kind, false))?;
    let loss = loss(call, &normalised)?;
    Ok(vec![call.build.cast(&loss, x.dtype())?, call.build.cast(&normalised, x.dtype())?])
}

/// `−x[n, target[n, d…], d…] · weight[target[n, d…]]`, reduced as the node says.
fn loss(call: &mut Call<'_>, x: &Tracked) -> Result<Tracked> {
    let (target, weight) = (call.input(1)?, call.optional(2));
    let reduction = call.string("reduction", "mean")?;
    let ignored = call.int("ignore_index")?;
    require_channels(x)?;
    require_indices(&target)?;
    if target.rank() + 1 != x.rank() {
        return Err(mismatch(format!("{} axes of classes", x.rank() - 1), target.shape()));
    }
    let build = &mut *call.build;
    for (n, extent) in target.shape().iter().enumerate() {
        let theirs = if n == 0 { 0 } else { n + 1 };
        build.require_equal("the extents of scores and classes", &x.shape()[theirs], extent)?;
    }
    let places = build.insert_axis(&target, 1)?;
    let found = elements_along(build, x, &places, 1)?;
    let found = build.reshape(&found, target.shape())?;
    let weights = match weight {
        Some(weight) => Some(weights(build, &weight, &target, &x.shape()[1], x.dtype())?),
        None if ignored.is_some() => Some(build.scalar(x.dtype(), 1.0)),
        None => None,
    };
    let inputs: Vec<&Tracked> = [&found, &target].into_iter().chain(&weights).collect();
    let is_ignored = |body: &mut Body, target: ScalarId| {
        let ignored = ignored?;
        let target = body.cast(DType::I64, target);
        let ignored = body.push(ScalarOp::Const(Const::from_i64(DType::I64, ignored)));
        Some(body.compare(CompareOp::Eq, target, ignored))
    };
    let or_zero = |body: &mut Body, x: ScalarId, target: ScalarId| match is_ignored(body, target) {
        Some(ignored) => {
            let zero = body.constant(body.dtype(x), 0.0);
            body.select(ignored, zero, x)
        }
        None => x,
    };
    let each = build.map(&inputs, |body, p| {
        let negative = body.unary(UnaryOp::Neg, p[0]);
        let weighted = p.get(2).map_or(negative, |&weight| body.binary(BinaryOp::Mul, negative, weight));
        or_zero(body, weighted, p[1])
    })?;
    let sum = |build: &mut Builder, x: &Tracked| -> Result<Tracked> {
        let axes: Vec<usize> = (0..x.rank()).collect();
        Ok(build.reduce(&[x], &axes, Reducer::sum(x.dtype()), |_, p| p.to_vec())?.remove(0))
    };
    match (reduction.as_str(), weights) {
        ("none", _) => Ok(each),
        ("sum", _) => sum(build, &each),
        ("mean", None) => {
            let total = sum(build, &each)?;
            let count: Dim = target.shape().iter().cloned().product();
            divide(build, &total, count, x.dtype())
        }
        ("mean", Some(weights)) => {
            let counted = build.map(&[&weights, &target], |body, p| or_zero(body, p[0], p[1]))?;
            let (total, weight) = (sum(build, &each)?, sum(build, &counted)?);
            build.map(&[&total, &weight], |body, p| body.binary(BinaryOp::Div, p[0], p[1]))
        }
        _ => Err(Problem::InvalidAttribute { attribute: "reduction", expected: "none, sum or mean", found: reduction }),
    }
}

/// The weight of each sample's class.
fn weights(build: &mut Builder, weight: &Tracked, target: &Tracked, classes: &Dim, dtype: DType) -> Result<Tracked> {
    let [extent] = weight.shape() else { return Err(mismatch("one weight per class", weight.shape())) };
    build.require_equal("the numbers of classes and weights", classes, extent)?;
    let weight = build.cast(weight, dtype)?;
    build.gather(&weight, target, 0)
}
