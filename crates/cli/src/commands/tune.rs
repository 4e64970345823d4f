//! `infc tune MODEL`.

mod judgement;
mod rig;
mod trial;

pub(in crate::commands) use judgement::Judgement;
pub(in crate::commands) use rig::{Arena, Rig};

use crate::commands::{dims, records};
use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::output_file::OutputFile;
use crate::tables::{self, Side, table};
use crate::{host, model_file, output_file, process};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use infc::{CompileOptions, KernelKey, Phase, Source, Target, schedule_machine};
use infc_passes::ErrorClass;
use infc_tune::{Contest, LOG_HEAD, Outcome, Record, RecordFile, Rules, Strategy, Tournament};
use rig::Bench;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Search for schedules that are quicker than the default choice
///
/// The kernels of a model are measured on this machine by other schedules than the default's, those that take most of the
/// time most often. What is quicker beyond the noise is written to a file of records at once, so that nothing is lost
/// when it is interrupted, and `infc compile --records FILE` takes it. Single-threaded; dynamic dims count as their
/// minimum, at least 1, unless --dim gives a value.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc tune digits.onnx --trials 20\n  \
                        infc tune digits.onnx --budget 2s --records digits.records")]
pub(crate) struct TuneArgs {
    /// The model
    #[arg(required_unless_present = "trial")]
    model: Option<PathBuf>,
    /// What to make code for: native (this machine), or a target that this machine runs
    #[arg(short, long, value_name = "TARGET", default_value = "native")]
    target: String,
    /// A dynamic dim: its value, or its range with both ends
    #[arg(long, value_name = "SYM=A..B")]
    dim: Vec<String>,
    /// Values of a dynamic dim that the model is going to be compiled for with --specialize: their kernels are tuned,
    /// too
    #[arg(long, value_name = "SYM=V,V")]
    specialize: Vec<String>,
    /// How long to search, as in 90s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = budget)]
    budget: Duration,
    /// How many schedules to try at most
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// The file of records, which is read and added to; MODEL.records in the current folder unless given
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Make no rewrites that change the order of floating-point additions
    #[arg(long)]
    strict: bool,
    /// The same seed and the same times give the same search
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Only kernels whose hash begins so, as reports and records name them
    #[arg(long, value_name = "HASH")]
    kernel: Vec<String>,
    /// How to search: guided (by a cost model that is learned meanwhile), evolutionary (without it) or random
    #[arg(long, value_enum, value_name = "HOW", default_value_t, hide_possible_values = true)]
    search: SearchArg,
    /// Write down all kernels and measurements, as lines of JSON
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Measures one artifact of a kernel beside another: what the search runs in processes of its own
    #[arg(long, hide = true, num_args = 2, value_names = ["CANDIDATE", "INCUMBENT"])]
    trial: Option<Vec<PathBuf>>,
    /// The values of the kernel's symbols
    #[arg(long, hide = true, requires = "trial", value_delimiter = ',')]
    symbols: Vec<i64>,
}

/// See [`Strategy`].
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum SearchArg {
    #[default]
    Guided,
    Evolutionary,
    Random,
}

impl From<SearchArg> for Strategy {
    fn from(search: SearchArg) -> Self {
        match search {
            SearchArg::Guided => Self::Guided,
            SearchArg::Evolutionary => Self::Evolutionary,
            SearchArg::Random => Self::Random,
        }
    }
}

fn budget(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a time such as 90s, 10m or 1h".to_owned()),
    };
    let seconds = number.parse::<f64>().ok().map(|n| n * factor).filter(|s| (0.0..=1e7).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected a time such as 90s, 10m or 1h".to_owned())
}

/// What was found for one kernel.
#[derive(Debug, Serialize)]
struct KernelResult {
    /// What records call it.
    key: String,
    kernel: String,
    origins: Vec<String>,
    launches: usize,
    /// Of the model's time in kernels.
    share: f64,
    default_us: f64,
    best_us: f64,
    trials: u64,
    failed: u64,
    schedule: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    target: String,
    machine: String,
    trials: u64,
    seconds: f64,
    /// Of all launches of a run, by default and by the best.
    default_ms: f64,
    best_ms: f64,
    records: String,
    kernels: Vec<KernelResult>,
}

pub(crate) fn run(arguments: TuneArgs, console: &Console) -> Result<Exit, Failure> {
    if let Some([candidate, incumbent]) = arguments.trial.as_deref() {
        let trial = trial::run(candidate, incumbent, &arguments.symbols)?;
        console.json(&trial)?;
        return Ok(Exit::Done);
    }
    let started = Instant::now();
    let model = arguments.model.clone().ok_or_else(|| CliError::usage("the model is missing"))?;
    let target = target(&arguments.target)?;
    let file = match &arguments.records {
        Some(file) => file.clone(),
        None => default_records(&model).ok_or_else(|| CliError::usage("the model's path names no file"))?,
    };
    check_files(&arguments, &file)?;
    records::tell_bad(&read_known(&file)?, &file, console);
    let options = CompileOptions {
        targets: vec![target.to_string()],
        byte_targets: Vec::new(),
        dims: arguments.dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
        specialize: arguments.specialize.iter().map(|text| dims::parse_specialize(text)).collect::<Result<_, _>>()?,
        strict: arguments.strict,
        stop_after: Some(Phase::Plan),
        ..CompileOptions::default()
    };
    let compilation = infc::compile(&Source::file(&model), &options, &mut ())?;
    let mut tasks = infc::tasks(&compilation.plans());
    if !arguments.kernel.is_empty() {
        tasks.retain(|task| arguments.kernel.iter().any(|prefix| task.key.to_string().starts_with(prefix.as_str())));
        if tasks.is_empty() {
            return Err(CliError::usage("the model has no kernel whose hash begins as --kernel says").into());
        }
    }
    let folder = tempfile::tempdir().map_err(|source| CliError::CannotWrite { path: std::env::temp_dir(), source })?;
    let allowed = if arguments.strict { ErrorClass::Exact } else { ErrorClass::Reassociating };
    let arena = Arena { target: &target, allowed, folder: folder.path() };
    let machine = schedule_machine(&target);
    console.note(format!("  {} distinct kernels for {target}", tasks.len()));
    let bar = progress(console);
    let mut bench = Bench::new(arena, arguments.log.as_deref())?;
    let rules = Rules { machine: &machine, allowed, strategy: arguments.search.into(), seed: arguments.seed };
    let mut tournament = Tournament::new(&tasks, rules, &mut bench, |n| {
        bar.set_message(format!("default choice of kernel {} of {}", n + 1, tasks.len()));
    })?;
    let processor = process::processor();
    let before = tournament.total_seconds();
    let mut trials = 0;
    // What this run wrote for each kernel.
    let mut written: HashMap<KernelKey, Record> = HashMap::new();
    while started.elapsed() < arguments.budget && arguments.trials.is_none_or(|most| trials < most) {
        let Some((contest, outcome)) = tournament.advance(&mut bench)? else { break };
        trials += 1;
        if let (Outcome::Win, Some((schedule, proof))) = (outcome, &contest.found) {
            match Record::new(contest.task, &target, arguments.strict, schedule, *proof) {
                Ok(record) => {
                    let record = Record { machine: processor.clone(), ..record };
                    // Another run may have added to it meanwhile.
                    let mut known = read_known(&file)?;
                    known.keep(record.clone(), written.get(&contest.task.key));
                    output_file::write(&file, known.to_text_with_bad().as_bytes())?;
                    written.insert(contest.task.key, record);
                }
                // It was compiled and measured, so this is a disagreement within infc; the search goes on.
                Err(reason) => console.note(format!("  record not kept  {}: {reason}", contest.task.kernel.name)),
            }
        }
        let gain = 100.0 * (1.0 - tournament.total_seconds() / before);
        let left = tables::seconds(arguments.budget.saturating_sub(started.elapsed()));
        bar.set_message(format!("{trials} schedules tried, kernels {gain:.1} % quicker, {left} left"));
    }
    bar.finish_and_clear();
    let report = Report {
        schema: "infc.tune/1",
        target: target.to_string(),
        machine: process::machine(),
        trials,
        seconds: started.elapsed().as_secs_f64(),
        default_ms: before * 1e3,
        best_ms: tournament.total_seconds() * 1e3,
        records: file.display().to_string(),
        kernels: results(tournament.contests()),
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, &model, &file, console)?
    }
    Ok(Exit::Done)
}

fn target(text: &str) -> Result<Target, Failure> {
    let target = match text {
        "native" => host::native_target().ok_or_else(|| CliError::usage("infc makes no code for this machine"))?,
        _ => text.parse().map_err(|error| CliError::usage(format!("--target {text}: {error}")))?,
    };
    if !host::runs_target(&target) {
        return Err(CliError::usage(format!("--target {target}: this machine does not run such code")).into());
    }
    Ok(target)
}

/// The model's stem in the current folder.
fn default_records(model: &Path) -> Option<PathBuf> {
    let mut name = model.file_stem()?.to_owned();
    name.push(".records");
    Some(name.into())
}

fn progress(console: &Console) -> ProgressBar {
    if console.is_quiet() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("  {spinner} {msg}").unwrap_or(ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The records that there are already.
fn read_known(file: &Path) -> Result<RecordFile, Failure> {
    if file.exists() { records::read_one(file) } else { Ok(RecordFile::default()) }
}

/// Finds out before the search whether what it finds can be written, and that no other file is lost by it.
fn check_files(arguments: &TuneArgs, records: &Path) -> Result<(), Failure> {
    for (name, file) in [("--records", Some(records)), ("--log", arguments.log.as_deref())] {
        if file.is_some_and(model_file::is_stream) {
            return Err(CliError::usage(format!("{name}: expected a file, standard output takes the results")).into());
        }
    }
    if arguments.log.as_deref() == Some(records) {
        return Err(CliError::usage("--log and --records name the same file").into());
    }
    // It leaves nothing behind.
    OutputFile::create(records)?;
    let Some(log) = &arguments.log else { return Ok(()) };
    if log.is_file() {
        let wrap = |source| CliError::CannotRead { path: log.clone(), source };
        let mut head = Vec::new();
        File::open(log).map_err(wrap)?.take(LOG_HEAD.len() as u64).read_to_end(&mut head).map_err(wrap)?;
        if !head.is_empty() && head != LOG_HEAD.as_bytes() {
            let source = io::Error::new(io::ErrorKind::AlreadyExists, "it is there already, and no log of a search");
            return Err(CliError::CannotWrite { path: log.clone(), source }.into());
        }
    }
    Ok(())
}

fn results(contests: &[Contest<'_>]) -> Vec<KernelResult> {
    let total: f64 = contests.iter().map(|c| c.default_seconds * c.task.launches as f64).sum();
    let mut results: Vec<KernelResult> = contests
        .iter()
        .map(|c| KernelResult {
            key: c.task.key.to_string(),
            kernel: c.task.kernel.name.clone(),
            origins: c.task.origins.clone(),
            launches: c.task.launches,
            share: c.default_seconds * c.task.launches as f64 / total.max(1e-12),
            default_us: c.default_seconds * 1e6,
            best_us: c.default_seconds * c.relative() * 1e6,
            trials: c.trials,
            failed: c.failed,
            schedule: c.found.as_ref().map(|(schedule, _)| schedule.to_string()),
        })
        .collect();
    results.sort_by(|a, b| b.share.total_cmp(&a.share));
    results
}

fn print(report: &Report, model: &Path, file: &Path, console: &Console) -> Result<(), Failure> {
    let columns = [
        ("kernel", Side::Left),
        ("launches", Side::Right),
        ("share", Side::Right),
        ("default", Side::Right),
        ("best", Side::Right),
        ("quicker", Side::Right),
        ("tried", Side::Right),
    ];
    const SHOWN: usize = 20;
    let rows = report.kernels.iter().take(SHOWN).map(|k| {
        vec![
            k.kernel.clone(),
            k.launches.to_string(),
            format!("{:.1} %", k.share * 100.0),
            tables::millis(k.default_us / 1e3),
            tables::millis(k.best_us / 1e3),
            if k.schedule.is_some() {
                format!("{:.1} %", 100.0 * (1.0 - k.best_us / k.default_us))
            } else {
                "-".to_owned()
            },
            k.trials.to_string(),
        ]
    });
    console.write(table(&columns, rows).as_bytes())?;
    if report.kernels.len() > SHOWN {
        console.line(format!("  and {} more", report.kernels.len() - SHOWN))?;
    }
    console.line(format!("\n  {}", summary(report)))?;
    if report.kernels.iter().any(|k| k.schedule.is_some()) {
        let target = &report.target;
        console.line(format!(
            "  next      infc compile {} --target {target} --records {}",
            model.display(),
            file.display()
        ))?;
    }
    Ok(())
}

fn summary(report: &Report) -> String {
    let Report { default_ms, best_ms, trials, .. } = *report;
    if default_ms <= 0.0 {
        return "no kernel could be measured".to_owned();
    }
    let gain = 100.0 * (1.0 - best_ms / default_ms);
    let (default, best) = (tables::millis(default_ms), tables::millis(best_ms));
    format!("kernels of a run: {default} by default, {best} by the best of {trials} schedules ({gain:.1} % quicker)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_gain() {
        let report = |default_ms: f64, best_ms: f64| Report {
            schema: "infc.tune/1",
            target: String::new(),
            machine: String::new(),
            trials: 3,
            seconds: 0.0,
            default_ms,
            best_ms,
            records: String::new(),
            kernels: Vec::new(),
        };
        assert_eq!(summary(&report(0.0, 0.0)), "no kernel could be measured");
        assert!(summary(&report(2.0, 1.5)).ends_with("the best of 3 schedules (25.0 % quicker)"));
    }

    #[test]
    fn budgets() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("2"), Ok(Duration::from_secs(2)));
        assert!(budget("10x").is_err() && budget("m").is_err() && budget("-1s").is_err() && budget("").is_err());
    }
}
