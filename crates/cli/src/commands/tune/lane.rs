//! One of the two that a trial compares: an artifact of a single kernel with the memory that it runs in, the host's or a GPU's.

use crate::failure::Failure;
use infc::SYMBOLS;
use infc_runtime::{
    Flush, GpuTensor, GuardedBytes, GuardedScratch, Model, RunInput, RunOptions, RunOutput, RuntimeError, Session,
    SessionOptions, TensorView, TensorViewMut,
};
use infc_tensor::{AlignedBytes, Tensor};
use std::ops::DerefMut;
use std::time::Instant;

/// An artifact of a single kernel, ready to run.
pub(super) struct Lane {
    model: Model,
    session: Session,
    memory: Memory,
    shapes: Vec<Vec<usize>>,
}

/// Where what is computed, and on GPUs what it is computed from, is.
enum Memory {
    /// Outputs.
    Host(Vec<AlignedBytes>),
    /// The values of symbols stay with the host, which launches kernels for them.
    Gpu { inputs: Vec<Option<GpuTensor>>, outputs: Vec<GpuTensor> },
}

/// What outputs are full of before anything is measured: what is not written does not look like a result.
pub(super) const POISON: u8 = 0xff;
impl Lane {
    pub(super) fn new(model: Model, views: &[TensorView<'_>]) -> Result<Self, Failure> {
        let gpu = model.gpu().cloned();
        let options = SessionOptions { device_time: gpu.is_some(), ..SessionOptions::default() };
        let mut session = model.session(&options)?;
        let shapes = session.output_shapes_for(views)?;
        let entry = session.entry();
        let ports = entry.outputs.iter().zip(&shapes);
        let memory = match gpu {
            None => Memory::Host(
                ports
                    .map(|(port, shape)| {
                        AlignedBytes::zeroed(port.dtype.storage_bytes(shape.iter().product()).unwrap_or(0))
                    })
                    .collect(),
            ),
            Some(gpu) => {
                let outputs = ports.map(|(port, shape)| GpuTensor::zeros(&gpu, port.dtype, shape));
                let inputs =
                    entry.inputs.iter().zip(views).map(|(port, view)| {
                        (port.name != SYMBOLS).then(|| GpuTensor::from_view(&gpu, view)).transpose()
                    });
                Memory::Gpu { inputs: inputs.collect::<Result<_, _>>()?, outputs: outputs.collect::<Result<_, _>>()? }
            }
        };
        let mut lane = Self { model, session, memory, shapes };
        lane.fill(POISON)?;
        Ok(lane)
    }

    /// Whether a GPU runs it.
    pub(super) fn is_on_gpu(&self) -> bool {
        matches!(self.memory, Memory::Gpu { .. })
    }

    /// Makes outputs what nothing was written to.
    pub(super) fn fill(&mut self, poison: u8) -> Result<(), Failure> {
        match &mut self.memory {
            Memory::Host(outputs) => outputs.iter_mut().for_each(|bytes| bytes.fill(poison)),
            Memory::Gpu { outputs, .. } => {
                for output in outputs {
                    let (dtype, shape) = (output.dtype(), output.shape().to_vec());
                    let bytes = vec![poison; dtype.storage_bytes(shape.iter().product()).unwrap_or(0)];
                    output.write(&TensorView::new(dtype, &shape, &bytes)?)?;
                }
            }
        }
        Ok(())
    }

    /// Seconds of a run.
    pub(super) fn run(&mut self, views: &[TensorView<'_>]) -> Result<f64, Failure> {
        match &mut self.memory {
            Memory::Host(outputs) => run_into(&mut self.session, views, outputs, &self.shapes),
            Memory::Gpu { inputs, outputs } => {
                let given = inputs.iter().zip(views).map(|(input, view)| match input {
                    Some(tensor) => RunInput::Gpu(tensor),
                    None => RunInput::Host(*view),
                });
                let mut taken: Vec<RunOutput<'_>> = outputs.iter_mut().map(RunOutput::Gpu).collect();
                self.session.run_on_gpu(&given.collect::<Vec<_>>(), &mut taken, &RunOptions::default())?;
                Ok(self.session.device_time().unwrap_or_default().as_secs_f64())
            }
        }
    }

    /// What a run makes of poisoned outputs and poisoned scratch memory between inaccessible pages.
    pub(super) fn guarded_results(
        &mut self,
        views: &[TensorView<'_>],
        flush: Flush,
        poison: u8,
    ) -> Result<Vec<Tensor>, Failure> {
        let mut outputs = Vec::new();
        let Memory::Host(own) = &self.memory else { return self.results() };
        for bytes in own {
            let mut between = GuardedBytes::zeroed(bytes.len(), flush).map_err(|_| out_of_memory(bytes.len()))?;
            between.fill(poison);
            outputs.push(between);
        }
        let guarded_scratch = Some(GuardedScratch { flush, poison });
        let mut session = self.model.session(&SessionOptions { guarded_scratch, ..SessionOptions::default() })?;
        run_into(&mut session, views, &mut outputs, &self.shapes)?;
        tensors(&session, &self.shapes, outputs.iter().map(|bytes| AlignedBytes::from_slice(bytes)))
    }

    pub(super) fn results(&self) -> Result<Vec<Tensor>, Failure> {
        match &self.memory {
            Memory::Host(outputs) => tensors(&self.session, &self.shapes, outputs.iter().cloned()),
            Memory::Gpu { outputs, .. } => Ok(outputs.iter().map(GpuTensor::read).collect::<Result<_, _>>()?),
        }
    }
}

/// Runs into these buffers; the seconds it takes.
fn run_into<B: DerefMut<Target = [u8]>>(
    session: &mut Session,
    views: &[TensorView<'_>],
    outputs: &mut [B],
    shapes: &[Vec<usize>],
) -> Result<f64, Failure> {
    let ports = session.entry().outputs.clone();
    let mut outputs: Vec<TensorViewMut<'_>> = ports
        .iter()
        .zip(outputs.iter_mut().zip(shapes))
        .map(|(port, (bytes, shape))| TensorViewMut::new(port.dtype, shape, bytes))
        .collect::<Result<_, _>>()?;
    let start = Instant::now();
    session.run(views, &mut outputs, &RunOptions::default())?;
    Ok(start.elapsed().as_secs_f64())
}

/// The outputs of a run as tensors.
fn tensors(
    session: &Session,
    shapes: &[Vec<usize>],
    outputs: impl Iterator<Item = AlignedBytes>,
) -> Result<Vec<Tensor>, Failure> {
    let ports = session.entry().outputs.iter().zip(shapes).zip(outputs);
    ports
        .map(|((port, shape), bytes)| {
            Tensor::from_bytes(port.dtype, shape.clone(), bytes)
                .map_err(|error| Failure::from(RuntimeError::from(error)))
        })
        .collect()
}

pub(super) fn out_of_memory(len_bytes: usize) -> Failure {
    RuntimeError::OutOfMemory { len_bytes }.into()
}
