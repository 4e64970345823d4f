//! Runs that return tensors: easier to call than [`Session::run`], at the price of an allocation or a copy.

use crate::arena::Arena;
use crate::error::RuntimeError;
use crate::session::{Destination, RunOptions, Session};
use crate::view::{TensorView, TensorViewMut, dense_size};
use infc_tensor::Tensor;

/// Above this, memory is asked for on trial before a tensor is made, which would end the process if there is none.
const TRIAL_BYTES: usize = 64 << 20;

/// The outputs of a run, in the session's memory until its next run.
#[derive(Clone, Copy, Debug)]
pub struct SessionOutputs<'s> {
    session: &'s Session,
}

impl<'s> SessionOutputs<'s> {
    /// How many outputs there are, without those that are states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.session.carried().taken()
    }

    /// Whether the entry has no outputs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Output `index` as a tensor; `None` if there is no such output.
    ///
    /// # Errors
    /// `runtime::bad-tensor` if a copy does not fit in memory.
    pub fn tensor(&self, index: usize) -> Result<Option<Tensor>, RuntimeError> {
        let given = self.session.carried().taken_output(index).and_then(|output| self.session.given(output));
        if let Some(tensor) = given {
            return Ok(Some(tensor.clone()));
        }
        self.get(index).map(|view| view.to_tensor()).transpose()
    }

    /// Output `index`; `None` if there is no such output, or its elements have no bytes.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<TensorView<'s>> {
        let output = self.session.carried().taken_output(index)?;
        let port = self.session.entry().outputs.get(output)?;
        if let Some(tensor) = self.session.given(output) {
            return TensorView::try_from(tensor).ok();
        }
        let (shape, bytes) = self.session.kept_output(output)?;
        TensorView::new(port.dtype, shape, bytes).ok()
    }
}

impl Session {
    /// Runs the entry and keeps the outputs in the session's memory. No heap call after warm-up.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_in_session(
        &mut self,
        inputs: &[TensorView<'_>],
        options: &RunOptions<'_>,
    ) -> Result<SessionOutputs<'_>, RuntimeError> {
        self.execute(inputs, &[], Destination::Session, options)?;
        Ok(SessionOutputs { session: self })
    }

    /// Runs the entry on tensors in the order of its inputs, and returns its outputs as tensors; states are neither.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_owned(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, RuntimeError> {
        self.run_owned_with(inputs, &RunOptions::default())
    }

    /// As [`Session::run_owned`], with options.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_owned_with(
        &mut self,
        inputs: &[&Tensor],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let mut views = Vec::with_capacity(inputs.len());
        let mut held: Vec<(usize, &Tensor)> = Vec::new();
        for (n, &tensor) in inputs.iter().enumerate() {
            if tensor.dtype().has_bytes() {
                views.push(TensorView::try_from(tensor)?);
            } else {
                // Found: there are not more tensors than inputs, or the run says so.
                held.push((self.carried().given_input(n).unwrap_or(n), tensor));
                views.push(TensorView::without_bytes(tensor.dtype(), tensor.shape()));
            }
        }
        if self.has_given_outputs() || !held.is_empty() {
            self.execute(&views, &held, Destination::Session, options)?;
            let outputs = SessionOutputs { session: self };
            return (0..outputs.len()).filter_map(|n| outputs.tensor(n).transpose()).collect();
        }
        let shapes = self.output_shapes_for(&views)?;
        let mut tensors = Vec::with_capacity(shapes.len());
        for (n, shape) in shapes.iter().enumerate() {
            let Some(output) = self.carried().taken_output(n) else { continue };
            let port = &self.entry().outputs[output];
            if let Some(len_bytes) = dense_size(port.dtype, shape).filter(|&bytes| bytes > TRIAL_BYTES) {
                Arena::zeroed(len_bytes)?;
            }
            tensors.push(Tensor::zeros(port.dtype, shape)?);
        }
        let mut outputs = Vec::with_capacity(tensors.len());
        for (tensor, shape) in tensors.iter_mut().zip(&shapes) {
            outputs.push(TensorViewMut::new(tensor.dtype(), shape, tensor.bytes_mut())?);
        }
        self.run(&views, &mut outputs, options)?;
        Ok(tensors)
    }

    /// Runs the entry on tensors given by name, in any order, and returns the outputs that are no states in the order of
    /// the entry's. States may be given, too: the run begins with them.
    ///
    /// # Errors
    /// `runtime::unknown-input`, `runtime::missing-input`, `runtime::duplicate-input`, and as [`Session::run`].
    pub fn run_named(
        &mut self,
        inputs: &[(&str, &Tensor)],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let entry = self.entry();
        let mut ordered: Vec<Option<&Tensor>> = vec![None; entry.inputs.len()];
        for &(name, tensor) in inputs {
            let index = entry.inputs.iter().position(|port| port.name == name);
            let index = index.ok_or_else(|| RuntimeError::UnknownInput {
                wanted: name.to_owned(),
                known: entry.inputs.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", "),
            })?;
            if ordered[index].replace(tensor).is_some() {
                return Err(RuntimeError::DuplicateInput { name: name.to_owned() });
            }
        }
        let given = self.take_states(&ordered)?;
        self.run_owned_with(&given, options)
    }
}
