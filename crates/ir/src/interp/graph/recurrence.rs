//! Recurrences: the body once per step.

use super::super::array::Array;
use super::super::points::check_points;
use super::super::{InterpError, eval_shape};
use super::{Context, run};
use crate::op::RecurrenceOp;
use std::rc::Rc;

/// Runs the body step by step and stacks what it computes.
pub(super) fn recurrence(
    cx: &Context<'_>,
    op: &RecurrenceOp,
    operands: &[Rc<Array>],
) -> Result<Vec<Rc<Array>>, InterpError> {
    let body = &op.body;
    let sliced = op.states.checked_add(op.slices).ok_or_else(|| cx.malformed("too many operands"))?;
    if operands.len() != body.inputs.len() || sliced > operands.len() || op.states > body.outputs.len() {
        return Err(cx.malformed("a recurrence that does not fit its body"));
    }
    let steps = eval_shape(cx.place, std::slice::from_ref(&op.steps), cx.symbols)?[0];
    check_points(cx.place, &[steps])?;
    let (slices, shared) = operands[op.states..].split_at(op.slices);
    if slices.iter().any(|s| s.shape.first() != Some(&steps)) {
        return Err(cx.malformed("a slice with another number of steps"));
    }
    let mut outputs = Vec::new();
    for n in 0..body.outputs.len() {
        let value = cx.node.outputs.get(n).and_then(|&v| cx.graph.values.get(v));
        let dtype = value.ok_or_else(|| cx.malformed("an output that does not exist"))?.ty.dtype;
        outputs.push(Array::zeros(cx.place, dtype, cx.output_shape(n)?)?);
    }
    let mut states = operands[..op.states].to_vec();
    for step in 0..steps {
        let mut inputs = states;
        for slice in slices {
            inputs.push(Rc::new(row(cx, slice, step)?));
        }
        inputs.extend(shared.iter().cloned());
        let results = run(body, cx.symbols, inputs, cx.host, cx.depth + 1)?;
        for (output, result) in outputs.iter_mut().zip(&results) {
            if output.dtype != result.dtype || output.shape.get(1..) != Some(&result.shape[..]) {
                return Err(cx.malformed("a step whose result has another type"));
            }
            for at in 0..result.len() {
                output.set(step as usize * result.len() + at, result.get(at));
            }
        }
        states = results[..op.states].to_vec();
    }
    Ok(outputs.into_iter().map(Rc::new).collect())
}

/// One step's part of a slice.
fn row(cx: &Context<'_>, slice: &Array, step: i64) -> Result<Array, InterpError> {
    let mut row = Array::zeros(cx.place, slice.dtype, slice.shape[1..].to_vec())?;
    for at in 0..row.len() {
        row.set(at, slice.get(step as usize * row.len() + at));
    }
    Ok(row)
}
