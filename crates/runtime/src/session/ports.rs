//! Runs whose inputs and outputs stay in a GPU's memory.

use super::{Destination, RunOptions, Session};
use crate::error::RuntimeError;
use crate::gpu::{GpuAddress, GpuTensor};
use crate::view::{TensorView, TensorViewMut};
use infc_artifact::{Program, Side, Slot, Step};

/// An input of a run.
#[derive(Clone, Copy, Debug)]
pub enum RunInput<'a> {
    /// In the host's memory.
    Host(TensorView<'a>),
    /// In a GPU's.
    Gpu(&'a GpuTensor),
}

/// Where an output of a run is to be.
#[derive(Debug)]
pub enum RunOutput<'a> {
    /// In the host's memory.
    Host(TensorViewMut<'a>),
    /// In a GPU's.
    Gpu(&'a mut GpuTensor),
}

/// Where the inputs and outputs of the run in progress are that are on the GPU already, by the entry's numbers.
#[derive(Debug, Default)]
pub(super) struct DevicePorts {
    inputs: Vec<Option<GpuAddress>>,
    outputs: Vec<Option<GpuAddress>>,
}

impl DevicePorts {
    /// Where a slot is, if it is such an input or output.
    pub(super) fn place(&self, slot: &Slot) -> Option<GpuAddress> {
        match slot {
            Slot::Input(input) => self.inputs.get(*input as usize).copied().flatten(),
            Slot::Output(output) => self.outputs.get(*output as usize).copied().flatten(),
            Slot::Weight(_) | Slot::Arena(_) | Slot::Host(_) => None,
        }
    }

    fn clear(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
    }
}

/// Whether a step on the host reads or writes a slot.
pub(super) fn is_used_on_host(program: &Program, slot: usize) -> bool {
    let uses = |step: &Step| step.accesses().any(|(used, _)| used as usize == slot);
    // What a `Bind` looks at are shapes.
    let is_on_host = |step: &&Step| Side::of(step) == Side::Host && !matches!(step, Step::Bind(_));
    program.steps.iter().filter(is_on_host).any(uses)
}

impl Session {
    /// As [`Session::run`], with inputs and outputs in the host's memory or in that of the GPU which runs the model: those are used
    /// where they are. All is computed when this returns. Runs with the same tensors, again and again, are started as one.
    ///
    /// # Errors
    /// As [`Session::run`]; `runtime::gpu-tensor` if a tensor is on another GPU than the model, if the processor runs the model, if
    /// one of the model's steps on the host needs an input or makes an output, or if sizes follow from an input's values.
    pub fn run_on_gpu(
        &mut self,
        inputs: &[RunInput<'_>],
        outputs: &mut [RunOutput<'_>],
        options: &RunOptions<'_>,
    ) -> Result<(), RuntimeError> {
        let mut ports = DevicePorts::default();
        let entry = self.entry();
        ports.inputs.resize(entry.inputs.len(), None);
        ports.outputs.resize(entry.outputs.len(), None);
        let mut views = Vec::with_capacity(inputs.len());
        for (n, input) in inputs.iter().enumerate() {
            views.push(match input {
                RunInput::Host(view) => *view,
                RunInput::Gpu(tensor) => {
                    // There are not more than the entry has, or the run says so.
                    if let Some(input) = self.carried().given_input(n) {
                        let port = || format!("input `{}`", self.entry().inputs[input].name);
                        ports.inputs[input] = Some(self.address_of(tensor, port)?);
                    }
                    TensorView::without_bytes(tensor.dtype(), tensor.shape())
                }
            });
        }
        let mut views_mut = Vec::with_capacity(outputs.len());
        for (n, output) in outputs.iter_mut().enumerate() {
            views_mut.push(match output {
                RunOutput::Host(view) => view.reborrow(),
                RunOutput::Gpu(tensor) => {
                    if let Some(output) = self.carried().taken_output(n) {
                        let port = || format!("output `{}`", self.entry().outputs[output].name);
                        if self.entry().outputs[output].unranked.is_some() {
                            let reason = "a step on the host makes it".to_owned();
                            return Err(RuntimeError::GpuTensor { port: port(), reason });
                        }
                        ports.outputs[output] = Some(self.address_of(tensor, port)?);
                    }
                    TensorViewMut::without_bytes(tensor.dtype(), tensor.shape())
                }
            });
        }
        if let Some(on_gpu) = &mut self.on_gpu {
            on_gpu.ports = ports;
        }
        let done = self.execute(&views, &[], Destination::Caller(&mut views_mut), options);
        if let Some(on_gpu) = &mut self.on_gpu {
            on_gpu.ports.clear();
        }
        done
    }

    /// Where a tensor is on the GPU that runs the model.
    fn address_of(&self, tensor: &GpuTensor, port: impl Fn() -> String) -> Result<GpuAddress, RuntimeError> {
        match self.model.gpu() {
            Some(code) if tensor.is_on(&code.gpu) => Ok(tensor.address()),
            Some(code) => {
                let reason = format!(
                    "it is on `{}`, and the model on `{}`, which it was not loaded onto by the same `Gpu`",
                    tensor.gpu_name(),
                    code.gpu.name()
                );
                Err(RuntimeError::GpuTensor { port: port(), reason })
            }
            None => {
                let reason = format!("it is on `{}`, and the processor runs the model", tensor.gpu_name());
                Err(RuntimeError::GpuTensor { port: port(), reason })
            }
        }
    }
}
