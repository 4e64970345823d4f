//! A trial: one kernel by two schedules, in turns, in a process of its own, so that code that is wrong takes nothing down.
//!
//! Before anything is measured the candidate computes in memory between inaccessible pages, once with each operand and scratch
//! memory flush with the pages before it and once with those behind it: who reads or writes a byte beyond ends the process, and
//! so the trial. What it leaves unwritten of its outputs is not what the other one has written there, and what it has not
//! written of scratch memory is no number. Both are held against what the kernel's definition says of some of their elements.
//! Of GPUs, whose memory has no such pages, only outputs are what nothing was written to, and operands stay in their memory; the
//! GPU says how long it takes.

use super::definition::Definition;
use super::points::Points;
use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::Failure;
use infc::SYMBOLS;
use infc_runtime::{
    Flush, GpuTensor, GuardedBytes, GuardedScratch, LoadOptions, Model, Pool, RunInput, RunOptions, RunOutput,
    RuntimeError, Session, SessionOptions, TensorView, TensorViewMut,
};
use infc_tensor::{AlignedBytes, Tensor};
use infc_tune::Verdict;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::DerefMut;
use std::path::Path;
use std::time::Instant;

/// Turns that count, and turns before them.
const TURNS: usize = 15;
const WARM_UP: usize = 2;

/// How far results may lie apart that sum in another order.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5 };

/// How far they may lie apart where sums have one order only.
const SAME: Tolerance = Tolerance { rtol: 0.0, atol: 0.0 };

/// What a trial says; the line that the process prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::commands) struct Trial {
    /// Per turn, the candidate's time over the incumbent's.
    ratios: Vec<f64>,
    /// Seconds per run of the incumbent, at its quickest.
    pub(super) incumbent_seconds: f64,
    /// Whether both compute the same, and what they have to.
    agrees: bool,
    /// What is wrong with the incumbent, by the kernel's definition.
    #[serde(default)]
    refuted: Option<String>,
}

impl Trial {
    /// How the candidate did; `None` if it computes something else.
    pub(in crate::commands) fn verdict(&self) -> Option<Verdict> {
        self.agrees.then(|| Verdict::of(&self.ratios)).flatten()
    }

    /// Whether both compute the same.
    pub(super) fn agrees(&self) -> bool {
        self.agrees
    }

    /// What the incumbent computes that is not what the kernel's definition says.
    pub(super) fn refuted(&self) -> Option<&str> {
        self.refuted.as_deref()
    }

    #[cfg(test)]
    pub(super) fn made_up(ratios: Vec<f64>, agrees: bool) -> Self {
        Self { ratios, agrees, ..Self::default() }
    }
}

/// What outputs are full of before anything is measured: what is not written does not look like a result.
const POISON: u8 = 0xff;
/// The same of guarded ones, differently for each side that memory is guarded on: neither looks like a result
/// both times.
const POISONS: [(Flush, u8); 2] = [(Flush::Start, 0x55), (Flush::End, POISON)];

/// How results are judged.
pub(super) struct Judge<'a> {
    pub(super) definition: &'a Definition,
    pub(super) points: &'a Points,
    /// No sum may have another order, so that results are the same.
    pub(super) strict: bool,
    /// How many threads run both.
    pub(super) threads: usize,
}

/// An artifact of a single kernel, ready to run.
struct Lane {
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

/// Measures two artifacts of the same kernel.
pub(super) fn run(candidate: &Path, incumbent: &Path, symbols: &[i64], judge: &Judge<'_>) -> Result<Trial, Failure> {
    let [candidate, incumbent] = open_both(candidate, incumbent, judge.threads)?;
    let tensors = judge.operands(symbols)?;
    let views: Vec<TensorView<'_>> = tensors.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
    let (mut candidate, mut incumbent) = (Lane::new(candidate, &views)?, Lane::new(incumbent, &views)?);
    if let Some(failed) = judge.failed_when_guarded(&mut candidate, &mut incumbent, symbols, &tensors)? {
        return Ok(failed);
    }
    let mut trial = Trial { incumbent_seconds: f64::INFINITY, ..Trial::default() };
    for turn in 0..WARM_UP + TURNS {
        let (theirs, own) = (incumbent.run(&views)?, candidate.run(&views)?);
        if turn >= WARM_UP {
            trial.ratios.push(own / theirs.max(1e-9));
            trial.incumbent_seconds = trial.incumbent_seconds.min(theirs);
        }
    }
    trial.agrees = judge.agree(&candidate.results()?, &incumbent.results()?);
    Ok(trial)
}

/// Whether two artifacts of the same kernel compute what they have to for each of these values of its symbols, of which those are
/// left out that operands have no sizes for, or that the second one does not run for. Fails if none is left: then nothing is known.
pub(super) fn prove(
    candidate: &Path,
    incumbent: &Path,
    sets: &[Vec<i64>],
    judge: &Judge<'_>,
) -> Result<Trial, Failure> {
    let mut ran = 0;
    for symbols in sets {
        let [candidate, incumbent] = open_both(candidate, incumbent, judge.threads)?;
        let Ok(tensors) = judge.operands(symbols) else { continue };
        let views: Vec<TensorView<'_>> = tensors.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
        let Ok(mut incumbent) = Lane::new(incumbent, &views) else { continue };
        if incumbent.run(&views).is_err() {
            continue;
        }
        let mut candidate = Lane::new(candidate, &views)?;
        if let Some(failed) = judge.failed_when_guarded(&mut candidate, &mut incumbent, symbols, &tensors)? {
            return Ok(failed);
        }
        ran += 1;
    }
    if ran == 0 {
        return Err(CliError::usage("--proof: the kernel runs for none of these values").into());
    }
    Ok(Trial { agrees: true, ..Trial::default() })
}

fn open_both(candidate: &Path, incumbent: &Path, threads: usize) -> Result<[Model; 2], Failure> {
    let (pool, gpu) = (Some(Pool::builder().threads(threads).build()), crate::gpu::for_model());
    let options = LoadOptions { pool, gpu, ..LoadOptions::default() };
    Ok([Model::open_with(candidate, &options)?, Model::open_with(incumbent, &options)?])
}

impl Judge<'_> {
    /// What both are run with: made-up operands, and the kernel's symbols.
    fn operands(&self, symbols: &[i64]) -> Result<Vec<Tensor>, Failure> {
        let mut tensors = self.definition.operands(symbols)?;
        if !symbols.is_empty() {
            tensors.push(Tensor::from_elements(&[symbols.len()], symbols).map_err(RuntimeError::from)?);
        }
        Ok(tensors)
    }

    fn agree(&self, found: &[Tensor], expected: &[Tensor]) -> bool {
        let tolerance = if self.strict { SAME } else { TOLERANCE };
        found.iter().zip(expected).all(|(found, expected)| {
            found.bytes() == expected.bytes() || Agreement::of(found, expected, tolerance).agrees
        })
    }

    /// How a candidate fails that does not compute, between inaccessible pages, what another does, and what both have to; where
    /// a system has no such pages, elsewhere.
    fn failed_when_guarded(
        &self,
        candidate: &mut Lane,
        incumbent: &mut Lane,
        symbols: &[i64],
        inputs: &[Tensor],
    ) -> Result<Option<Trial>, Failure> {
        // The last poison is that of all outputs: what neither writes stays the same for both.
        for (flush, poison) in POISONS {
            let views: Vec<TensorView<'_>> = inputs.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
            incumbent.fill(poison)?;
            incumbent.run(&views)?;
            let expected = incumbent.results()?;
            if let Some(refuted) = self.points.refuted(self.definition, symbols, &expected) {
                return Ok(Some(Trial { refuted: Some(refuted), ..Trial::default() }));
            }
            let guarded: io::Result<Vec<GuardedBytes>> = match candidate.memory {
                Memory::Host(_) => inputs.iter().map(|input| guarded_copy(input.bytes(), flush)).collect(),
                Memory::Gpu { .. } => Err(io::ErrorKind::Unsupported.into()),
            };
            let found = match guarded {
                Ok(inputs_between) => {
                    let views = inputs.iter().zip(&inputs_between);
                    let views: Vec<TensorView<'_>> = views
                        .map(|(input, bytes)| TensorView::new(input.dtype(), input.shape(), bytes))
                        .collect::<Result<_, _>>()?;
                    candidate.guarded_results(&views, flush, poison)?
                }
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    candidate.fill(poison)?;
                    candidate.run(&views)?;
                    candidate.results()?
                }
                Err(_) => return Err(out_of_memory(inputs.iter().map(|input| input.bytes().len()).sum())),
            };
            if !self.agree(&found, &expected) || self.points.refuted(self.definition, symbols, &found).is_some() {
                return Ok(Some(Trial::default()));
            }
        }
        Ok(None)
    }
}

fn guarded_copy(bytes: &[u8], flush: Flush) -> io::Result<GuardedBytes> {
    let mut copy = GuardedBytes::zeroed(bytes.len(), flush)?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

fn out_of_memory(len_bytes: usize) -> Failure {
    RuntimeError::OutOfMemory { len_bytes }.into()
}

impl Lane {
    fn new(model: Model, views: &[TensorView<'_>]) -> Result<Self, Failure> {
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

    /// Makes outputs what nothing was written to.
    fn fill(&mut self, poison: u8) -> Result<(), Failure> {
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
    fn run(&mut self, views: &[TensorView<'_>]) -> Result<f64, Failure> {
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
    fn guarded_results(&mut self, views: &[TensorView<'_>], flush: Flush, poison: u8) -> Result<Vec<Tensor>, Failure> {
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

    fn results(&self) -> Result<Vec<Tensor>, Failure> {
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
