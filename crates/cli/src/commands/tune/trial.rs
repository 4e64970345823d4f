//! A trial: one kernel by two schedules, in turns, in a process of its own, so that code that is wrong takes nothing down.
//!
//! Before anything is measured the candidate computes in memory between inaccessible pages, once with each operand and scratch
//! memory flush with the pages before it and once with those behind it: who reads or writes a byte beyond ends the process, and
//! so the trial. What it leaves unwritten of its outputs is not what the other one has written there, and what it has not
//! written of scratch memory is no number. Both are held against what the kernel's definition says of some of their elements.
//! Of GPUs, whose memory has no such pages, only outputs are what nothing was written to, and operands stay in their memory; the
//! GPU says how long it takes.

use super::definition::Definition;
use super::lane::{Lane, POISON, out_of_memory};
use super::points::Points;
use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::Failure;
use infc_runtime::{Flush, GuardedBytes, LoadOptions, Model, Pool, RuntimeError, TensorView};
use infc_tensor::Tensor;
use infc_tune::Verdict;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

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
            let guarded: io::Result<Vec<GuardedBytes>> = match candidate.is_on_gpu() {
                false => inputs.iter().map(|input| guarded_copy(input.bytes(), flush)).collect(),
                true => Err(io::ErrorKind::Unsupported.into()),
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
