//! `infc profile ART`: where the time of a run goes, and how much of it the machine asks for.

mod ceilings;
mod charts;
mod page;
mod trace;

use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::given::Given;
use crate::inputs::{InputArgs, Missing};
use crate::kernel_times::{self, KernelTime, Times};
use crate::model_file::{self, LoadArgs};
use crate::output_file::OutputFile;
use crate::process;
use crate::special_case;
use crate::stats::millis;
use crate::tables::{self, Side, few, table};
use ceilings::{Bound, Ceilings, in_tiles};
use infc_runtime::{Model, Pool, RunOptions};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Kernels that the text tells of; JSON and page have all.
const SHOWN: usize = 25;

/// Tell where the time of a run goes, kernel by kernel
///
/// Per kernel its time and share, what it computes and moves per second, and how near that is to what this machine does
/// at most: the rate of a large matrix product, and the rate at which memory of that size is read and written, both
/// measured here and now. Times are of the quickest of several runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc profile digits.infa --threads 1\n  \
                        infc profile digits.infa --html profile.html --trace trace.json")]
pub(crate) struct ProfileArgs {
    /// The artifact, or - for standard input
    artifact: PathBuf,
    /// Write a page with the graph, the roofline, the memory plan and all schedules, for a browser
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Write the quickest run as a trace, for chrome://tracing and other viewers of that format
    #[arg(long, value_name = "OUT.json")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// What is told of a profile.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    artifact: String,
    variant: String,
    /// The dims and values that what ran is made for; `None` if it takes all.
    special_case: Option<String>,
    machine: String,
    threads: usize,
    inputs: Vec<String>,
    runs: usize,
    /// The quickest.
    run_ms: f64,
    /// The part of it that is no step: between steps, and around them.
    between_ms: f64,
    /// Steps that launch no kernel: operators on the host, copies.
    other_steps_ms: f64,
    ceilings: Ceilings,
    kernels: Vec<Profiled>,
}

/// A kernel, and how it stands to what the machine can do.
#[derive(Serialize)]
struct Profiled {
    #[serde(flatten)]
    time: KernelTime,
    /// Of one launch.
    macs: Option<u64>,
    bytes: Option<u64>,
    /// What the least time follows from.
    bound: Option<Bound>,
    /// The least time that the ceilings allow, of the time taken: 1 is as good as it gets.
    of_roofline: Option<f64>,
    schedule: String,
}

pub(crate) fn run(arguments: ProfileArgs, console: &Console) -> Result<Exit, Failure> {
    let ProfileArgs { artifact: path, html, trace, inputs, load } = arguments;
    let inputs = inputs.resolve()?;
    let options = load.options();
    let run_options = RunOptions { flush_denormals: load.ftz, ..RunOptions::default() };
    let model = model_file::open(&path, &options, console)?;
    let sets = inputs.load(model.default_entry(), Missing::MakeUp, console)?;
    if sets.len() > 1 {
        console.note(format!("  of {} data sets the first is used", sets.len()));
    }
    let given = Given::new(model.default_entry(), sets.into_iter().next().map(|set| set.inputs).unwrap_or_default());
    let pool = options.pool.clone().unwrap_or_else(Pool::shared);
    let ceilings = Ceilings::measure(&model, &pool)?;
    let times = kernel_times::measure(&model, &given, &run_options)?;
    let types = given.inputs.iter().map(|input| format!("{}{:?}", input.dtype(), input.shape())).collect();
    let report = Report::new(&path, &model, &pool, types, ceilings, &times);
    if let Some(path) = &html {
        write(path, page::page(&report, &model, &times)?.as_bytes())?;
    }
    if let Some(path) = &trace {
        write(path, trace::trace(&model, &times)?.as_bytes())?;
    }
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(Exit::Done)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes).map_err(|source| file.error(source))?;
    file.commit()
}

impl Report {
    fn new(path: &Path, model: &Model, pool: &Pool, inputs: Vec<String>, ceilings: Ceilings, times: &Times) -> Self {
        let kernels: Vec<Profiled> =
            times.kernels.iter().map(|time| Profiled::new(time, model, &ceilings, times)).collect();
        let of_kernels: f64 = kernels.iter().map(|kernel| kernel.time.ms).sum();
        let of_steps: f64 = times.run.steps.iter().map(|ran| millis(ran.took)).sum();
        let quickest: f64 = times.steps.iter().flatten().map(|took| millis(*took)).sum();
        Self {
            schema: "infc.profile/1",
            artifact: path.display().to_string(),
            variant: model.selection().target.clone(),
            special_case: model.manifest().special_case_text(times.entry),
            machine: process::machine(),
            threads: pool.threads(),
            inputs,
            runs: times.runs,
            run_ms: millis(times.run.took),
            between_ms: (millis(times.run.took) - of_steps).max(0.0),
            other_steps_ms: (quickest - of_kernels).max(0.0),
            ceilings,
            kernels,
        }
    }
}

impl Profiled {
    fn new(time: &KernelTime, model: &Model, ceilings: &Ceilings, times: &Times) -> Self {
        let info = model.variant().kernels.iter().find(|kernel| kernel.name == time.name);
        let count = |size: Option<&infc_artifact::SizeExpr>| kernel_times::count(size?, time.in_loop, &times.symbols);
        let macs = count(info.and_then(|info| info.macs.as_ref()));
        let bytes = count(info.and_then(|info| info.bytes.as_ref()));
        let least = macs.zip(bytes).map(|(macs, bytes)| ceilings.least(macs, bytes, info.is_some_and(in_tiles)));
        Self {
            macs,
            bytes,
            bound: least.map(|(_, bound)| bound),
            of_roofline: least.map(|(ms, _)| ms * time.launches as f64 / time.ms.max(1e-6)),
            schedule: info.map_or_else(String::new, |info| info.schedule.clone()),
            time: time.clone(),
        }
    }
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let columns = [
        ("kernel", Side::Left),
        ("runs", Side::Right),
        ("time", Side::Right),
        ("", Side::Right),
        ("GFLOP/s", Side::Right),
        ("GB/s", Side::Right),
        ("of roofline", Side::Right),
        ("bound by", Side::Left),
        ("from", Side::Left),
    ];
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let shown = if console.is_verbose() { usize::MAX } else { SHOWN };
    let rows = report.kernels.iter().take(shown).map(|kernel| {
        let time = &kernel.time;
        vec![
            time.name.clone(),
            time.launches.to_string(),
            tables::millis(time.ms),
            format!("{:.1} %", time.share * 100.0),
            rate(time.gflops),
            rate(time.gb_per_s),
            kernel.of_roofline.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0)),
            kernel.bound.map_or("-", Bound::name).to_owned(),
            few(&time.origins, 2),
        ]
    });
    console.write(table(&columns, rows).as_bytes())?;
    if report.kernels.len() > shown {
        console.line(format!("  … and {} more (-v shows all)", report.kernels.len() - shown))?;
    }
    if console.is_verbose() {
        for kernel in &report.kernels {
            console.line(format!("\n{}", console.paint(Style::Label, &kernel.time.name)))?;
            kernel.schedule.lines().try_for_each(|line| console.line(format!("  {line}")))?;
        }
    }
    let case = special_case::suffix(report.special_case.as_deref());
    let (run, between) = (tables::millis(report.run_ms), tables::millis(report.between_ms));
    let threads = if report.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", report.threads) };
    console.line(format!("\n  quickest run {run}, of which {between} are between steps; {}{case}", report.variant))?;
    console.line(format!("  ceilings     {}", report.ceilings.text()))?;
    console.line(format!("               {threads} on {}", report.machine))
}
