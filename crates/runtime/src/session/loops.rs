//! Loops whose steps are compiled: the host says how often, and an entry of the artifact computes each step.
//!
//! ONNX operator `Loop`. What a step takes for granted of extents may not hold, as where a state of one element meets another
//! extent; then the loop is evaluated by its definition, from its beginning.

use super::{RunOptions, Session, SessionOptions};
use crate::error::RuntimeError;
use crate::model::Loaded;
use infc_artifact::{Host, LoopBody, SizeExpr};
use infc_tensor::{AlignedBytes, DType, Tensor, integer_element};
use std::sync::Arc;

/// A loop takes no more steps than its definition does.
const MAX_STEPS: i64 = 1 << 24;

/// The sessions that run steps of loops, each with its entry; as many as runs came to.
#[derive(Debug, Default)]
pub(crate) struct Loops(Vec<(u32, Session)>);

impl Loops {
    /// The session that runs the steps of a loop. Of its own options, it has those that are given.
    pub(super) fn session(
        &mut self,
        model: &Arc<Loaded>,
        body: &LoopBody,
        options: SessionOptions,
    ) -> Result<&mut Session, RuntimeError> {
        let at = match self.0.iter().position(|(entry, _)| *entry == body.entry) {
            Some(at) => at,
            None => {
                let entry = model.manifest.entries.get(body.entry as usize).map(|entry| entry.name.clone());
                let session = Session::new(Arc::clone(model), &SessionOptions { entry, ..options })?;
                self.0.push((body.entry, session));
                self.0.len() - 1
            }
        };
        Ok(&mut self.0[at].1)
    }
}

/// A loop that a run has come to.
pub(super) struct Looped<'r> {
    pub(super) step: &'r Host,
    pub(super) body: &'r LoopBody,
    /// An input of the operator, by its number.
    pub(super) operand: &'r dyn Fn(usize) -> Option<Result<Tensor, RuntimeError>>,
    pub(super) options: &'r RunOptions<'r>,
    /// Whether the run is to end.
    pub(super) interruption: &'r dyn Fn() -> Result<(), RuntimeError>,
}

impl Looped<'_> {
    /// Runs the loop in a session of its entry: the outputs of the operator, or `None` if it is to be evaluated instead.
    ///
    /// # Errors
    /// Those of runs of the entry, with the name of the loop.
    pub(super) fn run(&self, session: &mut Session) -> Result<Option<Vec<Tensor>>, RuntimeError> {
        match self.steps(session) {
            Err(error) if self.body.may_fail && !error.is_final() => Ok(None),
            Err(error) if error.is_final() || matches!(error, RuntimeError::HostStep { .. }) => Err(error),
            Err(error) => Err(self.failed(error.to_string())),
            made => made,
        }
    }

    fn steps(&self, session: &mut Session) -> Result<Option<Vec<Tensor>>, RuntimeError> {
        let most = (self.operand)(0).transpose()?.map(|count| self.count(&count)).transpose()?;
        let mut goes_on = (self.operand)(1).transpose()?.map_or(Ok(true), |condition| self.holds(&condition))?;
        let states = self.body.states as usize;
        let given = |n: usize| (self.operand)(n).transpose();
        let values = (2..2 + states).map(given).collect::<Result<Option<Vec<_>>, _>>()?;
        let captures = self.body.captures.iter().map(|&n| given(n as usize)).collect::<Result<Option<Vec<_>>, _>>()?;
        // All are given, or the artifact is refused.
        let Some((mut values, captures)) = values.zip(captures) else { return Ok(None) };
        let mut added: Vec<Vec<Tensor>> = Vec::new();
        let mut at = 0i64;
        while goes_on && most.is_none_or(|most| at < most) {
            // A step may have nothing to do.
            (self.interruption)()?;
            if at >= MAX_STEPS {
                return Err(self.failed(format!("it takes more than {MAX_STEPS} steps")));
            }
            let number = Tensor::from_elements(&[], &[at])?;
            let condition = Tensor::from_bytes(DType::Bool, Vec::new(), AlignedBytes::from_slice(&[1]))?;
            let inputs: Vec<&Tensor> = [&number, &condition].into_iter().chain(&values).chain(&captures).collect();
            let mut outputs = session.run_owned_with(&inputs, self.options)?.into_iter();
            goes_on = outputs.next().map_or(Ok(false), |condition| self.holds(&condition))?;
            values.clear();
            values.extend(outputs.by_ref().take(states));
            added.resize_with(added.len().max(outputs.len()), Vec::new);
            added.iter_mut().zip(outputs).for_each(|(all, new)| all.push(new));
            at += 1;
        }
        match at {
            0 if self.body.may_fail => return Ok(None),
            0 => values.extend(of_no_step(session, 1 + states)?),
            _ => {
                for all in added {
                    values.push(self.stacked(&all)?);
                }
            }
        }
        Ok(Some(values))
    }

    /// The error about the loop.
    fn failed(&self, reason: String) -> RuntimeError {
        let nodes = self.step.origins.iter().map(|origin| format!("`{origin}`")).collect::<Vec<_>>().join(", ");
        RuntimeError::HostStep { op_type: self.step.op_type.clone(), nodes, reason }
    }

    /// How many steps there are at most: one integer.
    fn count(&self, tensor: &Tensor) -> Result<i64, RuntimeError> {
        let count = integer_element(tensor.dtype(), tensor.bytes(), 0);
        count.ok_or_else(|| self.failed(format!("its count is {}{:?}, no integer", tensor.dtype(), tensor.shape())))
    }

    /// A condition: one bool.
    fn holds(&self, tensor: &Tensor) -> Result<bool, RuntimeError> {
        match tensor.bytes() {
            [byte] if tensor.dtype() == DType::Bool => Ok(*byte != 0),
            _ => Err(self.failed(format!("its condition is {}{:?}, not one bool", tensor.dtype(), tensor.shape()))),
        }
    }

    /// What steps give, along a new first axis.
    fn stacked(&self, parts: &[Tensor]) -> Result<Tensor, RuntimeError> {
        let ([first, ..], shape) = (parts, parts.first().map(Tensor::shape).unwrap_or_default()) else {
            return Err(self.failed("it gives nothing".to_owned()));
        };
        if let Some(other) = parts.iter().find(|part| part.shape() != shape || part.dtype() != first.dtype()) {
            let found = format!("{}{:?}", other.dtype(), other.shape());
            return Err(self.failed(format!("a step gives {}{shape:?}, another one {found}", first.dtype())));
        }
        let mut stacked = Tensor::zeros(first.dtype(), &[&[parts.len()], shape].concat())?;
        let len = first.bytes().len();
        if len > 0 {
            let places = stacked.bytes_mut().chunks_exact_mut(len);
            places.zip(parts).for_each(|(place, part)| place.copy_from_slice(part.bytes()));
        }
        Ok(stacked)
    }
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
