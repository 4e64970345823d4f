//! Softmax and its logarithm, as composites.
//!
//! Before opset 13 they normalise over all axes from `axis` on (default 1), since then over `axis` alone (default −1).

use super::Operator;
use super::elementwise::require_float;
use crate::build::{Builder, Result};
use crate::call::Call;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::kernel::Reducer;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Softmax", 1, |c| normalise(c, CompositeKind::Softmax)),
    Operator::new("LogSoftmax", 1, |c| normalise(c, CompositeKind::LogSoftmax)),
];

fn normalise(call: &mut Call<'_>, kind: CompositeKind) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let axes: Vec<usize> = if call.opset < 13 {
        (call.axis("axis", 1, x.rank())?..x.rank()).collect()
    } else {
        vec![call.axis("axis", -1, x.rank())?]
    };
    let result = call.build.composite(kind, &[&x], |build, inputs| softmax(build, &inputs[0], &axes, kind, false))?;
    Ok(vec![result])
}

/// `e^(x−m) / Σ e^(x−m)` or `(x−m) − log Σ e^(x−m)`, with `m = max x`.
///
/// ONNX defines it by ReduceMax, Sub, Exp, ReduceSum and Div, or Log and Sub, which round if that matters
/// ([`Builder::step_type`]). If it `may_be_empty`, that is all −∞, such a row becomes 0 and not NaN.
pub(super) fn softmax(
    build: &mut Builder,
    x: &Tracked,
    axes: &[usize],
    kind: CompositeKind,
    may_be_empty: bool,
) -> Result<Tracked> {
    let dtype = x.dtype();
    let (wide, adds) = (build.step_type(dtype), build.sum_type(dtype));
    let x = build.cast(x, wide)?;
    let kept: Vec<_> =
        x.shape().iter().enumerate().map(|(n, d)| if axes.contains(&n) { 1.into() } else { d.clone() }).collect();
    let largest = Reducer::binary(BinaryOp::Max, Const::from_f64(wide, f64::NEG_INFINITY));
    let max = build.reduce(&[&x], axes, largest, |_, p| p.to_vec())?.remove(0);
    let max = build.reshape(&max, &kept)?;
    let max = if may_be_empty { instead(build, &max, f64::NEG_INFINITY, 0.0)? } else { max };
    let shifted = build.map(&[&x, &max], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))?;
    let power = build.map(&[&shifted], |body, p| body.unary(UnaryOp::Exp, p[0]))?;
    let added = |body: &mut Body, p: &[ScalarId]| vec![body.cast(adds, p[0])];
    let sum = build.reduce(&[&power], axes, Reducer::sum(adds), added)?.remove(0);
    let sum = build.cast(&sum, wide)?;
    let sum = build.reshape(&sum, &kept)?;
    let sum = if may_be_empty { instead(build, &sum, 0.0, 1.0)? } else { sum };
    let result = if kind == CompositeKind::Softmax {
        build.map(&[&power, &sum], |body, p| body.binary(BinaryOp::Div, p[0], p[1]))?
    } else {
        build.map(&[&shifted, &sum], |body, p| {
            let log = body.unary(UnaryOp::Log, p[1]);
            body.binary(BinaryOp::Sub, p[0], log)
        })?
    };
    build.cast(&result, dtype)
}

/// `x`, but `by` where it is `value`.
fn instead(build: &mut Builder, x: &Tracked, value: f64, by: f64) -> Result<Tracked> {
    build.map(&[x], |body, p| {
        let dtype = body.dtype(p[0]);
        let (value, by) = (body.constant(dtype, value), body.constant(dtype, by));
        let is = body.compare(CompareOp::Eq, p[0], value);
        body.select(is, by, p[0])
    })
}
