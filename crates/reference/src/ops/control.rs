//! Operators that hold graphs: `If`, `Loop`, `Scan`, `SequenceMap`.

pub(crate) mod scan;

use super::values::stack;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::write_bools;
use crate::shape;
use infc_tensor::{DType, SubgraphOutput, Tensor};

/// The most steps that a loop may take.
const MAX_STEPS: u64 = 1 << 24;

/// A value as a condition.
fn truth(tensor: &Tensor, index: usize) -> Result<bool> {
    match tensor.bytes() {
        [byte] if tensor.dtype() == DType::Bool => Ok(*byte != 0),
        _ => Err(EvalError::InvalidInput { index, reason: "one bool is needed" }),
    }
}

/// `If`: the outputs of one graph or the other.
pub(crate) fn choose(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let branch = if truth(call.input(0)?, 0)? { "then_branch" } else { "else_branch" };
    call.run_graph(branch, Vec::new())
}

/// `Loop`: as many steps as the first input says, as long as the condition holds. The outputs are the last states, then
/// what the steps give beside them, stacked.
pub(crate) fn iterate(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let most = call.int_scalar(0)?;
    let mut holds = call.optional(1).map_or(Ok(true), |condition| truth(condition, 1))?;
    let mut states = (2..call.inputs.len()).map(|n| call.input(n).cloned()).collect::<Result<Vec<_>>>()?;
    let outputs = &call.graph("body")?.outputs;
    let Some(stacked) = outputs.get(1 + states.len()..) else {
        return Err(EvalError::InvalidAttribute { name: "body", reason: "it has fewer outputs than there are states" });
    };
    let mut parts: Vec<Vec<Tensor>> = vec![Vec::new(); stacked.len()];
    for step in 0i64.. {
        if !holds || most.is_some_and(|most| step >= most) {
            break;
        }
        if step as u64 >= MAX_STEPS {
            return Err(EvalError::TooMuchWork { limit: MAX_STEPS });
        }
        let condition = write_bools(&[], std::iter::once(holds))?;
        let mut inputs = vec![Tensor::scalar(step), condition];
        inputs.append(&mut states);
        let count = inputs.len() - 2;
        let mut results = call.run_graph("body", inputs)?.into_iter();
        let condition = results.next().ok_or(EvalError::InvalidAttribute { name: "body", reason: "no condition" })?;
        holds = truth(&condition, 1)?;
        states.extend(results.by_ref().take(count));
        parts.iter_mut().zip(results).for_each(|(parts, part)| parts.push(part));
    }
    for (parts, output) in parts.iter().zip(stacked) {
        states.push(if parts.is_empty() { none_of(output, 0)? } else { stack(parts, 0)? });
    }
    Ok(states)
}

/// What no steps give: of the declared type, with no element along the axis that the steps would have.
fn none_of(output: &SubgraphOutput, axis: i64) -> Result<Tensor> {
    let mut shape = Vec::with_capacity(output.shape.len() + 1);
    for &extent in &output.shape {
        shape.push(usize::try_from(extent).map_err(|_| EvalError::NegativeExtent { extent: i64::MAX })?);
    }
    shape.insert(shape::axis(axis, shape.len() + 1)?, 0);
    checked_len(output.dtype, &shape)?;
    Ok(Tensor::zeros(output.dtype, &shape)?)
}

/// `SequenceMap`: a graph for each value of a sequence; further inputs are sequences of as many values, or tensors that
/// all see.
pub(crate) fn map(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let inputs = call.variadic()?;
    let len = inputs[0].values()?.len();
    let mut results: Vec<Vec<Tensor>> = vec![Vec::new(); call.graph("body")?.outputs.len()];
    for n in 0..len {
        let at = |(index, input): (usize, &&Tensor)| {
            if input.dtype() != DType::Sequence {
                return Ok((*input).clone());
            }
            let missing = EvalError::InvalidInput { index, reason: "it holds fewer values than the first input" };
            input.values()?.get(n).cloned().ok_or(missing)
        };
        let outputs = call.run_graph("body", inputs.iter().enumerate().map(at).collect::<Result<_>>()?)?;
        results.iter_mut().zip(outputs).for_each(|(list, output)| list.push(output));
    }
    let sequence = |list| one(Tensor::sequence(list)?);
    Ok(results.into_iter().map(sequence).collect::<Result<Vec<_>>>()?.concat())
}
