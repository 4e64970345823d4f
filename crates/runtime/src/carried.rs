//! States of a session as callers see them: read, given, taken away, and carried through runs.

use crate::error::RuntimeError;
use crate::session::{RunOptions, Session};
use crate::state::Port;
use crate::view::TensorView;
use infc_artifact::PortSpec;
use infc_tensor::Tensor;

impl Session {
    /// The inputs that a run takes, in order: those of the entry that are no states.
    pub fn inputs(&self) -> impl Iterator<Item = &PortSpec> {
        let ports = self.entry().inputs.iter().enumerate();
        ports.filter(|(n, _)| matches!(self.carried().input(*n), Port::Caller(_))).map(|(_, port)| port)
    }

    /// The outputs that a run gives, in order: those of the entry that are no states.
    pub fn outputs(&self) -> impl Iterator<Item = &PortSpec> {
        let ports = self.entry().outputs.iter().enumerate();
        ports.filter(|(n, _)| matches!(self.carried().output(*n), Port::Caller(_))).map(|(_, port)| port)
    }

    /// The states, as the inputs that they are.
    pub fn states(&self) -> impl Iterator<Item = &PortSpec> {
        self.entry().state.iter().map(|pair| &self.entry().inputs[pair.input as usize])
    }

    /// The value of a state, which is named after its input: what the last run has left, or what was given since.
    /// `None` before the first run and after [`Session::reset_states`]: the next run begins with zeros, of the smallest
    /// shape that the other inputs allow.
    ///
    /// # Errors
    /// `runtime::unknown-state`.
    pub fn state(&self, name: &str) -> Result<Option<TensorView<'_>>, RuntimeError> {
        Ok(self.carried().value(self.state_named(name)?))
    }

    /// Gives a state a value, for the next run to begin with.
    ///
    /// # Errors
    /// `runtime::unknown-state`, `runtime::wrong-type`, `runtime::wrong-shape` if the rank is another, and
    /// `runtime::state-full`. Other extents are checked by the next run.
    pub fn set_state(&mut self, name: &str, value: &TensorView<'_>) -> Result<(), RuntimeError> {
        let state = self.state_named(name)?;
        let entry = self.entry();
        let port = &entry.inputs[entry.state[state].input as usize];
        let place = || format!("state `{name}`");
        if port.dtype != value.dtype() {
            let (expected, found) = (port.dtype, value.dtype());
            return Err(RuntimeError::WrongType { port: place(), expected, found });
        }
        if port.shape.len() != value.shape().len() {
            let expected = port.type_text(&entry.symbol_names());
            return Err(RuntimeError::WrongShape { port: place(), expected, found: value.shape().to_vec() });
        }
        self.carried_mut().set(state, value)
    }

    /// Takes the values of all states away: the next run begins anew.
    pub fn reset_states(&mut self) {
        self.carried_mut().reset();
    }

    /// Runs the entry on what there is of its inputs, in the entry's order, and returns all of its outputs, states
    /// included. A state that is given replaces the one that is carried.
    ///
    /// # Errors
    /// `runtime::missing-input`, and as [`Session::set_state`] and [`Session::run`].
    pub fn advance(
        &mut self,
        inputs: &[Option<&Tensor>],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let given = self.take_states(inputs)?;
        let mut taken = self.run_owned_with(&given, options)?.into_iter();
        let mut outputs = Vec::with_capacity(self.entry().outputs.len());
        for output in 0..self.entry().outputs.len() {
            let value = match self.carried().output(output) {
                Port::Caller(_) => taken.next(),
                Port::State(state) => self.carried().value(state).map(|view| view.to_tensor()).transpose()?,
            };
            outputs.extend(value);
        }
        Ok(outputs)
    }

    /// Takes the states among the inputs, and returns the others, none of which may be missing.
    pub(crate) fn take_states<'t>(&mut self, inputs: &[Option<&'t Tensor>]) -> Result<Vec<&'t Tensor>, RuntimeError> {
        let expected = self.entry().inputs.len();
        if inputs.len() != expected {
            return Err(RuntimeError::InputCount { expected, found: inputs.len() });
        }
        let mut given = Vec::with_capacity(inputs.len());
        for (input, &tensor) in inputs.iter().enumerate() {
            match (self.carried().input(input), tensor) {
                (Port::Caller(_), Some(tensor)) => given.push(tensor),
                (Port::Caller(_), None) => {
                    let entry = self.entry();
                    let port = &entry.inputs[input];
                    let expected = port.type_text(&entry.symbol_names());
                    return Err(RuntimeError::MissingInput { name: port.name.clone(), expected });
                }
                (Port::State(_), Some(tensor)) => {
                    let name = self.entry().inputs[input].name.clone();
                    self.set_state(&name, &TensorView::try_from(tensor)?)?;
                }
                (Port::State(_), None) => {}
            }
        }
        Ok(given)
    }

    fn state_named(&self, name: &str) -> Result<usize, RuntimeError> {
        let found = self.states().position(|port| port.name == name);
        found.ok_or_else(|| RuntimeError::UnknownState {
            wanted: name.to_owned(),
            known: self.states().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", "),
        })
    }
}
