//! What every run of a measurement begins with.

use crate::failure::Failure;
use infc_artifact::{Entry, StatePair};
use infc_runtime::{Session, TensorView};
use infc_tensor::Tensor;

/// Values for an entry's inputs.
pub(crate) struct Given {
    /// Without states.
    pub(crate) inputs: Vec<Tensor>,
    /// By name; others are as a session begins with them.
    states: Vec<(String, Tensor)>,
}

impl Given {
    /// From values in the order of the entry's inputs; `None` of a state that is as it is.
    pub(crate) fn new(entry: &Entry, values: Vec<Option<Tensor>>) -> Self {
        let (mut inputs, mut states) = (Vec::new(), Vec::new());
        for (n, tensor) in values.into_iter().enumerate() {
            match (entry.state_of_input(n), tensor) {
                (None, tensor) => inputs.extend(tensor),
                (Some(_), tensor) => states.extend(tensor.map(|t| (entry.inputs[n].name.clone(), t))),
            }
        }
        Self { inputs, states }
    }

    /// Makes the next run begin as every run does. States of which runs replace a part where they lie are left as the run
    /// before has left them: copying all of a cache would take longer than many a run, and leave nothing else in caches.
    pub(crate) fn rewind(&self, session: &mut Session) -> Result<(), Failure> {
        let entry = session.entry();
        let stays = |pair: &StatePair| {
            let name = &entry.inputs[pair.input as usize].name;
            entry.is_replaced_in_place(pair) && session.state(name).is_ok_and(|state| state.is_some())
        };
        if entry.state.iter().all(stays) {
            return Ok(());
        }
        session.reset_states();
        for (name, state) in &self.states {
            session.set_state(name, &TensorView::try_from(state)?)?;
        }
        Ok(())
    }

    /// All that runs begin with, in the entry's order.
    pub(crate) fn all(&self, entry: &Entry) -> Vec<Tensor> {
        let mut rest = self.inputs.iter();
        let mut all = Vec::with_capacity(entry.inputs.len());
        for (n, port) in entry.inputs.iter().enumerate() {
            let state = self.states.iter().find(|(name, _)| *name == port.name).map(|(_, tensor)| tensor);
            let begins = || Tensor::zeros(port.dtype, &vec![0; port.shape.len()]).ok();
            all.extend(match entry.state_of_input(n) {
                Some(_) => state.cloned().or_else(begins),
                None => rest.next().cloned(),
            });
        }
        all
    }
}
