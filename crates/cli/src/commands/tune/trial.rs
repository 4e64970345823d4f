//! A trial: one kernel by two schedules, in turns, in a process of its own, so that code that is wrong takes nothing down.

use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::Failure;
use crate::inputs;
use infc_artifact::Entry;
use infc_runtime::{LoadOptions, Model, Pool, RunOptions, Session, SessionOptions, TensorView, TensorViewMut};
use infc_tensor::{AlignedBytes, Tensor};
use infc_tune::Verdict;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Turns that count, and turns before them.
const TURNS: usize = 15;
const WARM_UP: usize = 2;

/// How far results may lie apart that sum in another order.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5 };

/// What a trial says; the line that the process prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::commands) struct Trial {
    /// Per turn, the candidate's time over the incumbent's.
    ratios: Vec<f64>,
    /// Seconds per run of the incumbent, at its quickest.
    pub(super) incumbent_seconds: f64,
    /// Whether both compute the same.
    agrees: bool,
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

    #[cfg(test)]
    pub(super) fn made_up(ratios: Vec<f64>, agrees: bool) -> Self {
        Self { ratios, agrees, ..Self::default() }
    }
}

/// An artifact of a single kernel, ready to run.
struct Lane {
    session: Session,
    outputs: Vec<AlignedBytes>,
    shapes: Vec<Vec<usize>>,
}

/// Measures two artifacts of the same kernel.
pub(super) fn run(candidate: &Path, incumbent: &Path, symbols: &[i64]) -> Result<Trial, Failure> {
    let options = LoadOptions { pool: Some(Pool::builder().threads(1).build()), ..LoadOptions::default() };
    let open = |path: &Path| -> Result<Session, Failure> {
        Ok(Model::open_with(path, &options)?.session(&SessionOptions::default())?)
    };
    let (candidate, incumbent) = (open(candidate)?, open(incumbent)?);
    let tensors = operands(candidate.entry(), symbols)?;
    let views: Vec<TensorView<'_>> = tensors.iter().map(TensorView::try_from).collect::<Result<_, _>>()?;
    let (mut candidate, mut incumbent) = (Lane::new(candidate, &views)?, Lane::new(incumbent, &views)?);
    let mut trial = Trial { incumbent_seconds: f64::INFINITY, ..Trial::default() };
    for turn in 0..WARM_UP + TURNS {
        let (theirs, own) = (incumbent.run(&views)?, candidate.run(&views)?);
        if turn >= WARM_UP {
            trial.ratios.push(own / theirs.max(1e-9));
            trial.incumbent_seconds = trial.incumbent_seconds.min(theirs);
        }
    }
    trial.agrees =
        candidate.results()?.iter().zip(&incumbent.results()?).all(|(found, expected)| {
            found.bytes() == expected.bytes() || Agreement::of(found, expected, TOLERANCE).agrees
        });
    Ok(trial)
}

/// Made-up operands; the kernel's symbols are one of them.
fn operands(entry: &Entry, symbols: &[i64]) -> Result<Vec<Tensor>, Failure> {
    let mut tensors = Vec::new();
    for (n, port) in entry.inputs.iter().enumerate() {
        if port.name == infc::SYMBOLS {
            tensors.push(Tensor::from_elements(&[symbols.len()], symbols).map_err(infc_runtime::RuntimeError::from)?);
            continue;
        }
        let too_large = |_| CliError::TooLarge { what: format!("operand `{}`", port.name) };
        let shape = port.shape.iter().map(|dim| dim.eval_size(symbols)).collect::<Result<Vec<usize>, _>>();
        tensors.push(inputs::made_up(port, &shape.map_err(too_large)?, n as u64)?);
    }
    Ok(tensors)
}

impl Lane {
    fn new(mut session: Session, views: &[TensorView<'_>]) -> Result<Self, Failure> {
        let shapes = session.output_shapes_for(views)?;
        let ports = &session.entry().outputs;
        let outputs = ports.iter().zip(&shapes).map(|(port, shape)| {
            let mut bytes = AlignedBytes::zeroed(port.dtype.storage_bytes(shape.iter().product()).unwrap_or(0));
            // What is not written does not look like a result.
            bytes.fill(0xff);
            bytes
        });
        let outputs = outputs.collect();
        Ok(Self { session, outputs, shapes })
    }

    /// Seconds of a run.
    fn run(&mut self, views: &[TensorView<'_>]) -> Result<f64, Failure> {
        let ports = self.session.entry().outputs.clone();
        let mut outputs: Vec<TensorViewMut<'_>> = ports
            .iter()
            .zip(self.outputs.iter_mut().zip(&self.shapes))
            .map(|(port, (bytes, shape))| TensorViewMut::new(port.dtype, shape, bytes))
            .collect::<Result<_, _>>()?;
        let start = Instant::now();
        self.session.run(views, &mut outputs, &RunOptions::default())?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn results(&self) -> Result<Vec<Tensor>, Failure> {
        let ports = &self.session.entry().outputs;
        let tensor = |((port, shape), bytes): ((&infc_artifact::PortSpec, &Vec<usize>), &AlignedBytes)| {
            Tensor::from_bytes(port.dtype, shape.clone(), bytes.clone())
                .map_err(|error| Failure::from(infc_runtime::RuntimeError::from(error)))
        };
        ports.iter().zip(&self.shapes).zip(&self.outputs).map(tensor).collect()
    }
}
