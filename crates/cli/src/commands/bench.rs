//! `infc bench ART…`: how fast artifacts load and run.
//!
//! Nothing that is not needed for a run is done before the first one, so that with `--warmup 0` the time from the start
//! of the process to the first result (`cold_ms`) is what a program that only runs the model would see.

mod against;

use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::given::Given;
use crate::inputs::{InputArgs, InputOptions, Missing};
use crate::kernel_times::{self, KernelTime};
use crate::model_file::{self, LoadArgs};
use crate::npz;
use crate::output_file::OutputFile;
use crate::process::{self, Start};
use crate::special_case;
use crate::stats::{Summary, millis};
use crate::tables::{self, Side, table};
use against::{Comparison, Conditions};
use infc_runtime::{LoadOptions, Model, RunOptions, Session, SessionOptions, TensorView};
use infc_tensor::{AlignedBytes, Tensor};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// With neither `--runs` nor `--duration`: as long, and at least as often.
const DEFAULT_DURATION: Duration = Duration::from_secs(1);
const DEFAULT_MIN_RUNS: usize = 10;
/// Several artifacts take turns of about this length.
const TURN: Duration = Duration::from_millis(60);
/// Timings kept of one artifact; a run of a microsecond fills this in seconds.
const MAX_RUNS: usize = 1_000_000;

/// Measure how fast artifacts load and run
///
/// Several artifacts take turns, so that a machine that grows slower or faster does so for all alike. With --against or
/// --baseline, the slowdown is told with an interval that encloses it in 95 of 100 cases.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc bench digits.infa --threads 1\n  \
                        infc bench digits.infa --against digits.infa --fail-if 25%")]
pub(crate) struct BenchArgs {
    /// The artifacts
    #[arg(required = true, value_name = "ARTIFACT")]
    artifacts: Vec<PathBuf>,
    /// Runs to time; as many as fit into one second, at least 10, unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Runs before those that are timed
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: u32,
    /// Time runs for so long
    #[arg(long, value_name = "SECONDS", conflicts_with = "runs", value_parser = seconds)]
    duration: Option<Duration>,
    /// Also tell where the time goes: per kernel its share, GFLOP/s and GB/s
    #[arg(long)]
    kernels: bool,
    /// Compare with another artifact of the same model, in turns
    #[arg(long, value_name = "OLD.infa", conflicts_with_all = ["baseline", "kernels", "save_output"], help_heading = "Comparison")]
    against: Option<PathBuf>,
    /// Compare with timings that --format json has stored on this machine
    #[arg(long, value_name = "OLD.json", help_heading = "Comparison")]
    baseline: Option<PathBuf>,
    /// End with 3 if it is slower by more than this part, as in 3%, for sure: the lower end of the interval counts
    #[arg(long, value_name = "PART", value_parser = against::limit, help_heading = "Comparison")]
    fail_if: Option<f64>,
    /// Turns of each artifact at least, with --against
    #[arg(long, hide = true, value_name = "N", default_value_t = against::MIN_TURNS)]
    turns: usize,
    /// Write the comparison as a table for a pull request
    #[arg(long, value_name = "OUT.md", help_heading = "Comparison")]
    markdown: Option<PathBuf>,
    /// Write the outputs of the last run to a NumPy archive
    #[arg(long, value_name = "OUT.npz")]
    save_output: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    load: LoadArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.0..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected 0 to 86400 seconds".to_owned())
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
struct Goal {
    warmup: usize,
    min_runs: usize,
    duration: Duration,
    /// See [`against`].
    turns: usize,
}

/// One artifact being measured.
struct Lane {
    path: PathBuf,
    model: Model,
    session: Session,
    given: Given,
    options: RunOptions<'static>,
    load_ms: f64,
    first_ms: Option<f64>,
    /// From the start of the process to the first result.
    cold_ms: Option<f64>,
    latencies_ms: Vec<f64>,
    /// Of the same runs what a GPU took, if one runs the model.
    device_ms: Vec<f64>,
    /// The runs that are timed, and their sum so far.
    spent: Duration,
    kernels: Option<Vec<KernelTime>>,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    machine: String,
    threads: usize,
    peak_rss_mb: Option<f64>,
    /// With one artifact its fields, too, are fields of the report.
    #[serde(flatten)]
    single: Option<LaneReport<'a>>,
    artifacts: Vec<LaneReport<'a>>,
    /// With `--against` and `--baseline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
}

#[derive(Clone, Serialize)]
struct LaneReport<'a> {
    artifact: String,
    variant: &'a str,
    /// The dims and values that what ran is made for; `None` if it takes all.
    special_case: Option<String>,
    /// Types, as in `f32[1, 3, 224, 224]`.
    inputs: Vec<String>,
    load_ms: f64,
    first_ms: Option<f64>,
    cold_ms: Option<f64>,
    latencies_ms: &'a [f64],
    latency_ms: Option<Summary>,
    /// What a GPU took of it, by its own clock, without copies to it and from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_ms: Option<Summary>,
    arena_bytes: usize,
    /// With `--kernels`: those that take longest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels: Option<&'a [KernelTime]>,
}

pub(crate) fn run(arguments: BenchArgs, console: &Console, started: Start) -> Result<Exit, Failure> {
    let BenchArgs {
        mut artifacts,
        runs,
        warmup,
        duration,
        kernels,
        against,
        baseline,
        fail_if,
        turns,
        markdown,
        save_output,
        inputs,
        load,
    } = arguments;
    let compares = against.is_some() || baseline.is_some();
    if compares && artifacts.len() > 1 {
        return Err(CliError::usage("--against, --baseline: give one artifact").into());
    }
    if !compares && (fail_if.is_some() || markdown.is_some()) {
        return Err(CliError::usage("--fail-if, --markdown: with what? Give --against or --baseline").into());
    }
    artifacts.extend(against.clone());
    let inputs = inputs.resolve()?;
    let goal = Goal {
        warmup: warmup as usize,
        min_runs: runs.map_or(if duration.is_some() { 1 } else { DEFAULT_MIN_RUNS }, |runs| runs as usize),
        duration: duration.unwrap_or(if runs.is_some() { Duration::ZERO } else { DEFAULT_DURATION }),
        turns,
    };
    if save_output.is_some() && artifacts.len() > 1 {
        return Err(CliError::usage("--save-output: give one artifact").into());
    }
    let options = load.options();
    let run_options = RunOptions { flush_denormals: load.ftz, ..RunOptions::default() };
    let mut lanes = Vec::with_capacity(artifacts.len());
    for path in artifacts {
        let mut lane = Lane::load(path, &options, run_options, &inputs, console)?;
        if goal.warmup > 0 {
            (0..goal.warmup).try_for_each(|_| lane.run_once(started).map(drop))?;
        }
        lanes.push(lane);
    }
    let mut comparison = None;
    if let (Some(_), Ok(lanes)) = (&against, <&mut [Lane; 2]>::try_from(lanes.as_mut_slice())) {
        comparison = Some(against::measure(lanes, &goal, fail_if, started)?);
    } else {
        measure(&mut lanes, &goal, started)?;
    }

    // Before anything else uses memory.
    let peak_rss_mb = process::peak_rss_mb();
    let threads = options.pool.as_ref().map_or_else(|| infc_runtime::Pool::shared().threads(), |pool| pool.threads());
    if let (Some(path), [lane]) = (&save_output, lanes.as_mut_slice()) {
        lane.save_outputs(path)?;
    }
    if kernels {
        for lane in &mut lanes {
            lane.kernels = Some(kernel_times::measure(&lane.model, &lane.given, &lane.options)?.kernels);
        }
    }
    let reports: Vec<LaneReport<'_>> = lanes.iter().map(Lane::report).collect();
    let single = if let [single] = reports.as_slice() { Some(single.clone()) } else { None };
    let machine = process::machine();
    let types = lanes[0].input_types();
    let variant = &lanes[0].model.selection().target;
    let conditions = Conditions { machine: &machine, threads, variant, inputs: &types };
    if let Some(path) = &baseline {
        comparison = Some(against::with_stored(path, &lanes[0].latencies_ms, &conditions, fail_if)?);
    }
    if let (Some(path), Some(comparison)) = (&markdown, &comparison) {
        let median = Summary::of(&lanes[0].latencies_ms).map_or(0.0, |summary| summary.median);
        let text = against::markdown(&lanes[0].path, median, comparison, &conditions);
        let mut file = OutputFile::create(path)?;
        file.write_all(text.as_bytes()).map_err(|source| file.error(source))?;
        file.commit()?;
    }
    let fails = comparison.as_ref().is_some_and(|comparison| comparison.fails);
    let report = Report {
        schema: "infc.bench/1",
        machine: machine.clone(),
        threads,
        peak_rss_mb,
        single,
        artifacts: reports,
        comparison,
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(if fails { Exit::Condition } else { Exit::Done })
}

/// Times all lanes, in turns.
fn measure(lanes: &mut [Lane], goal: &Goal, started: Start) -> Result<(), Failure> {
    let alone = lanes.len() == 1;
    loop {
        let mut all_done = true;
        for lane in lanes.iter_mut().filter(|lane| !lane.is_done(goal)) {
            all_done = false;
            if !alone {
                // The lane before has emptied the caches.
                lane.run_once(started)?;
            }
            let turn = Instant::now();
            while !lane.is_done(goal) && (alone || turn.elapsed() < TURN) {
                let took = lane.run_once(started)?;
                lane.latencies_ms.push(millis(took));
                lane.device_ms.extend(lane.session.device_time().map(millis));
                lane.spent += took;
            }
        }
        if all_done {
            return Ok(());
        }
    }
}

impl Lane {
    fn load(
        path: PathBuf,
        options: &LoadOptions,
        run_options: RunOptions<'static>,
        inputs: &InputOptions,
        console: &Console,
    ) -> Result<Self, Failure> {
        let started = Instant::now();
        let model = model_file::open(&path, options, console)?;
        // Comparisons have sessions without it, since marks take time and nobody is told.
        let device_time = model.selection().gpu.is_some();
        let session = model.session(&SessionOptions { device_time, ..SessionOptions::default() })?;
        let load_ms = millis(started.elapsed());
        let sets = inputs.load(session.entry(), Missing::MakeUp, console)?;
        if sets.len() > 1 {
            console.note(format!("  of {} data sets the first is used", sets.len()));
        }
        let given = Given::new(session.entry(), sets.into_iter().next().map(|set| set.inputs).unwrap_or_default());
        Ok(Self {
            path,
            model,
            session,
            given,
            options: run_options,
            load_ms,
            first_ms: None,
            cold_ms: None,
            latencies_ms: Vec::new(),
            device_ms: Vec::new(),
            spent: Duration::ZERO,
            kernels: None,
        })
    }

    /// One run, timed; the first one of all is noted.
    fn run_once(&mut self, started: Start) -> Result<Duration, Failure> {
        let views = self.given.inputs.iter().map(TensorView::try_from).collect::<Result<Vec<_>, _>>()?;
        self.given.rewind(&mut self.session)?;
        let begin = Instant::now();
        self.session.run_in_session(&views, &self.options)?;
        let took = begin.elapsed();
        if self.first_ms.is_none() {
            self.cold_ms = Some(millis(started.elapsed()));
            self.first_ms = Some(millis(took));
        }
        Ok(took)
    }

    fn input_types(&self) -> Vec<String> {
        self.given.inputs.iter().map(|input| format!("{}{:?}", input.dtype(), input.shape())).collect()
    }

    fn is_done(&self, goal: &Goal) -> bool {
        let runs = self.latencies_ms.len();
        runs >= MAX_RUNS || (runs >= goal.min_runs && self.spent >= goal.duration)
    }

    /// What one more run computes.
    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
        let views = self.given.inputs.iter().map(TensorView::try_from).collect::<Result<Vec<_>, _>>()?;
        self.given.rewind(&mut self.session)?;
        let outputs = self.session.run_in_session(&views, &self.options)?;
        let tensors = (0..outputs.len()).filter_map(|index| outputs.get(index)).map(|view| {
            let bytes = AlignedBytes::from_slice(view.dense_bytes().unwrap_or_default());
            Tensor::from_bytes(view.dtype(), view.shape().to_vec(), bytes)
        });
        Ok(tensors.collect::<Result<_, _>>().map_err(infc_runtime::RuntimeError::from)?)
    }

    fn save_outputs(&mut self, path: &Path) -> Result<(), Failure> {
        let outputs = self.outputs()?;
        let names = self.session.outputs().map(|port| port.name.clone());
        npz::write(path, names.zip(&outputs))
    }

    fn report(&self) -> LaneReport<'_> {
        LaneReport {
            artifact: self.path.display().to_string(),
            variant: &self.model.selection().target,
            special_case: special_case::of_session(&self.model, &self.session),
            inputs: self.input_types(),
            load_ms: self.load_ms,
            first_ms: self.first_ms,
            cold_ms: self.cold_ms,
            latencies_ms: &self.latencies_ms,
            latency_ms: Summary::of(&self.latencies_ms),
            device_ms: Summary::of(&self.device_ms),
            arena_bytes: self.session.arena_bytes(),
            kernels: self.kernels.as_deref(),
        }
    }
}

fn print(report: &Report<'_>, console: &Console) -> Result<(), Failure> {
    let columns = [
        ("artifact", Side::Left),
        ("variant", Side::Left),
        ("load", Side::Right),
        ("first", Side::Right),
        ("min", Side::Right),
        ("median", Side::Right),
        ("p90", Side::Right),
        ("runs", Side::Right),
        ("per second", Side::Right),
    ];
    let on_gpu = report.artifacts.iter().any(|lane| lane.device_ms.is_some());
    let mut columns = columns.to_vec();
    if on_gpu {
        columns.push(("on the GPU", Side::Right));
    }
    let rows = report.artifacts.iter().map(|lane| {
        let summary = lane.latency_ms;
        let time = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), tables::millis);
        let mut row = vec![
            lane.artifact.clone(),
            format!("{}{}", lane.variant, special_case::suffix(lane.special_case.as_deref())),
            tables::millis(lane.load_ms),
            time(lane.first_ms),
            time(summary.map(|s| s.min)),
            time(summary.map(|s| s.median)),
            time(summary.map(|s| s.p90)),
            lane.latencies_ms.len().to_string(),
            summary.map_or_else(|| "-".to_owned(), |s| format!("{:.1}", 1000.0 / s.median)),
        ];
        if on_gpu {
            row.push(time(lane.device_ms.map(|s| s.median)));
        }
        row
    });
    console.write(table(&columns, rows).as_bytes())?;
    for lane in &report.artifacts {
        if let Some(times) = lane.kernels {
            console.line(format!("\n{}", lane.artifact))?;
            console.write(kernel_times::text(times).as_bytes())?;
        }
    }
    if let Some(comparison) = &report.comparison {
        let verdict = comparison.verdict();
        let style = if comparison.fails { Style::Error } else { Style::Good };
        let verdict =
            if comparison.fails || verdict == "faster" { console.paint(style, verdict) } else { verdict.to_owned() };
        let outputs = comparison.outputs.as_ref().map(|outputs| format!("; {}", outputs.text())).unwrap_or_default();
        console.line(format!("\n  against {}: {}, {verdict}{outputs}", comparison.against, comparison.text()))?;
    }
    let threads = if report.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", report.threads) };
    let peak = report.peak_rss_mb.map(|mb| format!(", peak memory {mb:.1} MiB")).unwrap_or_default();
    let cold = report.single.as_ref().and_then(|lane| lane.cold_ms);
    let cold = cold.map(|ms| format!(", process start to first result {}", tables::millis(ms))).unwrap_or_default();
    console.line(format!("\n  {} on {}{cold}{peak}", threads, report.machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("-1").is_err() && seconds("inf").is_err() && seconds("a").is_err());
    }
}
