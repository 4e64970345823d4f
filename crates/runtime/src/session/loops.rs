//! Loops whose steps are compiled: the host says how often, and an entry of the artifact computes each step.
//!
//! ONNX operator `Loop`. What a step takes for granted of extents may not hold, as where a state of one element meets another
//! extent; then the loop is evaluated by its definition, from its beginning.

use super::{RunOptions, Session, SessionOptions};
use crate::error::RuntimeError;
use crate::model::Loaded;
use infc_artifact::{LoopBody, SizeExpr};
use infc_tensor::{AlignedBytes, DType, Tensor};
use std::sync::Arc;

/// The sessions of the loops in a Program, by the number of the step; as many as runs came to.
#[derive(Debug, Default)]
pub(crate) struct Loops(Vec<(usize, Session)>);

impl Loops {
    /// The session that runs the steps of a loop. Of its own options, it has those that are given.
    pub(super) fn session(
        &mut self,
        step: usize,
        model: &Arc<Loaded>,
        body: &LoopBody,
        options: SessionOptions,
    ) -> Result<&mut Session, RuntimeError> {
        let at = match self.0.iter().position(|(known, _)| *known == step) {
            Some(at) => at,
            None => {
                let entry = model.manifest.entries.get(body.entry as usize).map(|entry| entry.name.clone());
                let session = Session::new(Arc::clone(model), &SessionOptions { entry, ..options })?;
                self.0.push((step, session));
                self.0.len() - 1
            }
        };
        Ok(&mut self.0[at].1)
    }
}

/// Runs a loop, which is part of a run that began then: the outputs of the operator, or `None` if it is to be evaluated instead. `operand` gives an input of the operator,
/// `interruption` says whether the run is to end.
///
/// # Errors
/// Those of runs of the entry, but for those about shapes.
pub(super) fn run(
    session: &mut Session,
    body: &LoopBody,
    operand: &dyn Fn(usize) -> Option<Result<Tensor, RuntimeError>>,
    (options, interruption): (&RunOptions<'_>, &dyn Fn() -> Result<(), RuntimeError>),
) -> Result<Option<Vec<Tensor>>, RuntimeError> {
    let most = operand(0).transpose()?.map(|count| first(&count)).transpose()?;
    let mut goes_on = operand(1).transpose()?.is_none_or(|condition| is_true(&condition));
    let count = body.states as usize;
    let given = |n: usize| operand(n).transpose();
    let Some(mut states) = (2..2 + count).map(given).collect::<Result<Option<Vec<_>>, _>>()? else { return Ok(None) };
    let captures = body.captures.iter().map(|&n| given(n as usize)).collect::<Result<Option<Vec<_>>, _>>()?;
    let Some(captures) = captures else { return Ok(None) };
    let mut added: Vec<Vec<Tensor>> = Vec::new();
    let mut at = 0i64;
    while goes_on && most.is_none_or(|most| at < most) {
        // A step may have nothing to do.
        interruption()?;
        let number = Tensor::from_elements(&[], &[at])?;
        let condition = Tensor::from_bytes(DType::Bool, Vec::new(), AlignedBytes::from_slice(&[1]))?;
        let inputs: Vec<&Tensor> = [&number, &condition].into_iter().chain(&states).chain(&captures).collect();
        let outputs = match session.run_owned_with(&inputs, options) {
            Ok(outputs) => outputs,
            Err(error) if body.may_fail && is_of_shapes(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut outputs = outputs.into_iter();
        goes_on = outputs.next().is_some_and(|condition| is_true(&condition));
        states.clear();
        states.extend(outputs.by_ref().take(count));
        added.resize_with(added.len().max(outputs.len()), Vec::new);
        added.iter_mut().zip(outputs).for_each(|(all, new)| all.push(new));
        at += 1;
    }
    if at == 0 && body.may_fail {
        return Ok(None);
    }
    if at == 0 {
        states.extend(of_no_step(session, 1 + count)?);
    }
    for all in added {
        match stacked(&all)? {
            Some(stacked) => states.push(stacked),
            None if body.may_fail => return Ok(None),
            None => return Err(uneven(&all)),
        }
    }
    Ok(Some(states))
}

/// What outputs of the entry, from this one on, are of no step. Extents that only a step tells are 0.
fn of_no_step(session: &Session, first: usize) -> Result<Vec<Tensor>, RuntimeError> {
    let ports = session.entry().outputs.iter().skip(first);
    let extent = |dim: &SizeExpr| dim.as_const().and_then(|extent| usize::try_from(extent).ok()).unwrap_or(0);
    let empty = ports.map(|port| {
        let shape: Vec<usize> = std::iter::once(0).chain(port.shape.iter().map(extent)).collect();
        Tensor::zeros(port.dtype, &shape).map_err(RuntimeError::from)
    });
    empty.collect()
}

/// The error about steps that do not give as much each.
fn uneven(all: &[Tensor]) -> RuntimeError {
    let shape = |tensor: Option<&Tensor>| tensor.map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
    let other = all.iter().find(|part| Some(part.shape()) != all.first().map(Tensor::shape));
    RuntimeError::UnexpectedResult {
        expected: format!("{:?} of each step of a loop", shape(all.first())),
        found: format!("{:?}", shape(other)),
    }
}

/// The first element of a count.
fn first(tensor: &Tensor) -> Result<i64, RuntimeError> {
    let elements = tensor.elements::<i64>()?;
    elements.first().copied().ok_or_else(|| RuntimeError::UnexpectedResult {
        expected: "a count of one element".to_owned(),
        found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
    })
}

fn is_true(condition: &Tensor) -> bool {
    condition.dtype() == DType::Bool && condition.bytes().first().is_some_and(|&byte| byte != 0)
}

/// Whether a run ended because extents are not what the entry is for.
fn is_of_shapes(error: &RuntimeError) -> bool {
    matches!(
        error,
        RuntimeError::AssumptionFailed { .. }
            | RuntimeError::UnmetRequirement { .. }
            | RuntimeError::DimOutOfRange { .. }
            | RuntimeError::ValueOutOfRange { .. }
            | RuntimeError::WrongShape { .. }
            | RuntimeError::UnexpectedResult { .. }
    )
}

/// What steps give, along a new first axis; `None` if they do not give as much each.
fn stacked(parts: &[Tensor]) -> Result<Option<Tensor>, RuntimeError> {
    let Some(first) = parts.first() else { return Ok(None) };
    if parts.iter().any(|part| part.shape() != first.shape() || part.dtype() != first.dtype()) {
        return Ok(None);
    }
    let shape = [&[parts.len()], first.shape()].concat();
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).copied().collect();
    Ok(Some(Tensor::from_bytes(first.dtype(), shape, AlignedBytes::from_slice(&bytes))?))
}
