//! `infc bench --kernels`: where the time of a run goes.
//!
//! Runs of their own, since an observed step costs two looks at the clock; per step the quickest run counts.

use crate::failure::Failure;
use crate::layers::symbol_values;
use crate::tables::{self, Side, few, table, value};
use infc_artifact::Step;
use infc_runtime::{Event, Model, Observer, RunOptions, SessionOptions, TensorView};
use infc_tensor::Tensor;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Observed runs: at least so many, and for so long.
const MIN_RUNS: usize = 5;
const DURATION: Duration = Duration::from_millis(500);
const ORIGINS_SHOWN: usize = 3;

/// All launches of one kernel in a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KernelTime {
    pub(super) name: String,
    pub(super) emitter: String,
    pub(super) launches: usize,
    pub(super) ms: f64,
    /// Of the time of all kernels.
    pub(super) share: f64,
    /// Two operations per multiply-accumulate; `None` if their number is not known.
    pub(super) gflops: Option<f64>,
    /// Of the bytes that must be read and written.
    pub(super) gb_per_s: Option<f64>,
    pub(super) origins: Vec<String>,
}

/// The quickest time of each step.
#[derive(Default)]
struct Quickest {
    steps: Mutex<Vec<Duration>>,
}

impl Observer for Quickest {
    fn event(&self, event: &Event<'_>) {
        let Event::Step(step) = event else { return };
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() <= step.step {
            steps.resize(step.step + 1, Duration::MAX);
        }
        steps[step.step] = steps[step.step].min(step.took);
    }
}

/// Measures the kernels of a model, those that take longest first.
pub(super) fn measure(
    model: &Model,
    inputs: &[Tensor],
    states: &[(String, Tensor)],
    options: &RunOptions<'_>,
) -> Result<Vec<KernelTime>, Failure> {
    let quickest = Arc::new(Quickest::default());
    let observer: Arc<dyn Observer> = quickest.clone();
    let mut session = model.session(&SessionOptions { observer: Some(observer), ..SessionOptions::default() })?;
    let views = inputs.iter().map(TensorView::try_from).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let mut runs = 0;
    while runs < MIN_RUNS || begun.elapsed() < DURATION {
        super::rewind(&mut session, states)?;
        session.run_in_session(&views, options)?;
        runs += 1;
    }
    // What runs begin with counts, in the entry's order.
    let mut rest = inputs.iter();
    let mut all = Vec::with_capacity(session.entry().inputs.len());
    for (n, port) in session.entry().inputs.iter().enumerate() {
        let state = states.iter().find(|(name, _)| *name == port.name).map(|(_, tensor)| tensor);
        let begins = || Tensor::zeros(port.dtype, &vec![0; port.shape.len()]).ok();
        all.extend(match session.entry().state_of_input(n) {
            Some(_) => state.cloned().or_else(begins),
            None => rest.next().cloned(),
        });
    }
    let symbols = symbol_values(session.entry(), &all);
    let steps = quickest.steps.lock().unwrap_or_else(PoisonError::into_inner);
    let variant = model.variant();
    let mut times: Vec<KernelTime> = Vec::new();
    for (index, kernel) in variant.kernels.iter().enumerate() {
        let program = variant.programs.first().map(|program| program.steps.as_slice()).unwrap_or_default();
        let launched = program
            .iter()
            .zip(steps.iter())
            .filter(|(step, _)| matches!(step, Step::Launch(launch) if launch.kernel as usize == index));
        let (launches, took) = launched.fold((0, Duration::ZERO), |(n, sum), (_, took)| (n + 1, sum + *took));
        if launches == 0 {
            continue;
        }
        let per_second = |each: Option<u64>| Some(each? as f64 * launches as f64 / took.as_secs_f64());
        let count = |size: &Option<infc_artifact::SizeExpr>| value(size.as_ref()?, &symbols);
        times.push(KernelTime {
            name: kernel.name.clone(),
            emitter: kernel.emitter.clone(),
            launches,
            ms: crate::stats::millis(took),
            share: 0.0,
            gflops: per_second(count(&kernel.macs)).map(|rate| 2.0 * rate / 1e9),
            gb_per_s: per_second(count(&kernel.bytes)).map(|rate| rate / 1e9),
            origins: kernel.origins.clone(),
        });
    }
    let total: f64 = times.iter().map(|time| time.ms).sum();
    for time in &mut times {
        time.share = if total > 0.0 { time.ms / total } else { 0.0 };
    }
    times.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Ok(times)
}

/// The table for people.
pub(super) fn text(times: &[KernelTime]) -> String {
    let columns = [
        ("kernel", Side::Left),
        ("emitter", Side::Left),
        ("runs", Side::Right),
        ("time", Side::Right),
        ("", Side::Right),
        ("GFLOP/s", Side::Right),
        ("GB/s", Side::Right),
        ("from", Side::Left),
    ];
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let rows = times.iter().map(|time| {
        vec![
            time.name.clone(),
            time.emitter.clone(),
            time.launches.to_string(),
            tables::millis(time.ms),
            format!("{:.1} %", time.share * 100.0),
            rate(time.gflops),
            rate(time.gb_per_s),
            few(&time.origins, ORIGINS_SHOWN),
        ]
    });
    table(&columns, rows)
}
