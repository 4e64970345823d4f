//! `infc tune`: of a model, or without one of this machine.

mod definition;
mod extents;
mod folder;
mod formation;
mod judgement;
mod keeper;
mod lane;
mod machine;
mod points;
mod proof;
mod report;
mod rig;
mod subject;
mod suite;
mod trial;
mod worker;

pub(in crate::commands) use folder::Folder;
pub(in crate::commands) use judgement::Judgement;
pub(in crate::commands) use rig::{Arena, Rig, Stand};

use crate::commands::compile::PrecisionArg;
use crate::commands::records;
use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::output_file::OutputFile;
use crate::{host, model_file, process, progress, tables};
use definition::Definition;
use infc::{Precision, Task, VariantTarget};
use infc_passes::ErrorClass;
use infc_passes::schedule::{AnyMachine, Machine};
use infc_tune::{CostModel, LOG_HEAD, Outcome, RecordFile, Rules, Strategy, Tournament};
use keeper::Keeper;
use points::Points;
use report::Report;
use rig::Bench;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subject::{Subject, subject};
use trial::Judge;

/// Search for plans and schedules that are quicker than the default choice
///
/// Whole runs of a model are measured on this machine with kernels formed otherwise, and then its kernels by other schedules
/// than the default's, those that take most of the time most often. What is quicker beyond the noise is written to a file of
/// records at once, so that nothing is lost when it is interrupted, and `infc compile --records FILE` takes it. The search
/// ends by itself when less than 1 % is to be expected of it. A dynamic batch counts as 1 and other dynamic dims as 64, or what
/// their range has nearest to it, unless --dim gives a value.
///
/// Without a model this machine is measured, which --target native takes into account from then on, and kernels of kinds
/// that most models have are tuned.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc tune digits.onnx --budget 2s --records digits.records\n  \
                        infc tune --trials 20")]
pub(crate) struct TuneArgs {
    /// The model; this machine is measured unless given
    model: Option<PathBuf>,
    /// What to make code for: native (this machine), or a target that this machine runs
    #[arg(short, long, value_name = "TARGET", default_value = "native")]
    target: String,
    /// A dynamic dim: its value, or its range with both ends
    #[arg(long, value_name = "SYM=A..B", requires = "model")]
    dim: Vec<String>,
    /// Values of a dynamic dim that the model is going to be compiled for with --specialize: their kernels are tuned,
    /// too
    #[arg(long, value_name = "SYM=V,V", requires = "model")]
    specialize: Vec<String>,
    /// How many threads run kernels; with several, which of their loops threads share is searched, too
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// How long to search, as in 90s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = budget)]
    budget: Duration,
    /// How many schedules to try at most; the search then goes on even if little is to be expected of it
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// How many other ways to form kernels to try at most before schedules are searched, within a quarter of the budget; as many as
    /// that allows unless given, or an eighth of --trials
    #[arg(long, value_name = "N", requires = "model")]
    plan_trials: Option<u64>,
    /// The file of records, which is read and added to; MODEL.records in the current folder unless given, or
    /// native.records without a model
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Go on where the file of records ends: what it has for this machine is measured again first, and what still is quicker
    /// than the default is what other schedules have to beat, as is what ships with infc for this machine in any case
    #[arg(long)]
    resume: bool,
    /// Make no rewrites that change the order of floating-point additions
    #[arg(long)]
    strict: bool,
    /// Numbers that the model is going to be compiled to multiply, as of infc compile: f32, bf16 or f16. What is multiplied as
    /// tf32 then is not tuned
    #[arg(long, value_enum, value_name = "TYPE", default_value_t, hide_possible_values = true, requires = "model")]
    precision: PrecisionArg,
    /// The same seed and the same times give the same search
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Only kernels whose hash begins so, as reports and records name them
    #[arg(long, value_name = "HASH")]
    kernel: Vec<String>,
    /// How to search: guided (by a cost model that is learned meanwhile), evolutionary (without it) or random
    #[arg(long, value_enum, value_name = "HOW", default_value_t, hide_possible_values = true)]
    search: SearchArg,
    /// Let the cost model begin with what earlier runs have measured: their logs or records; may be given several times
    #[arg(long, value_name = "FILE")]
    learn: Vec<PathBuf>,
    /// Write down all kernels and measurements, as lines of JSON
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Measures one artifact of a kernel beside another: what the search runs in processes of its own
    #[arg(long, hide = true, num_args = 2, requires = "definition", value_names = ["CANDIDATE", "INCUMBENT"])]
    trial: Option<Vec<PathBuf>>,
    /// The values of the kernel's symbols
    #[arg(long, hide = true, requires = "definition", value_delimiter = ',')]
    symbols: Vec<i64>,
    /// The text of the kernel
    #[arg(long, hide = true, value_name = "FILE")]
    definition: Option<PathBuf>,
    /// What some elements of its outputs have to be: read in a trial, else computed
    #[arg(long, hide = true, requires = "definition", value_name = "FILE")]
    points: Option<PathBuf>,
    /// Sizes of tiles whose edges are of interest then
    #[arg(long, hide = true, requires = "points", value_delimiter = ',')]
    tiles: Vec<i64>,
    /// Sums of it may be made by instructions that multiply matrices
    #[arg(long, hide = true, requires = "points")]
    matrices: bool,
    /// Values of the kernel's symbols for which both are to compute the same; then nothing is measured
    #[arg(long, hide = true, requires = "definition", value_parser = numbers)]
    proof: Vec<Numbers>,
    /// Answers questions: lines of standard input with arguments of trials, as lists in JSON
    #[arg(long, hide = true)]
    serve: bool,
    /// A folder to remove when the process that began this one is gone
    #[arg(long, hide = true, value_name = "FOLDER")]
    removes: Option<PathBuf>,
}

/// The values of a kernel's symbols.
#[derive(Clone, Debug)]
struct Numbers(Vec<i64>);

fn numbers(text: &str) -> Result<Numbers, String> {
    if text.is_empty() {
        return Ok(Numbers(Vec::new()));
    }
    let numbers = text.split(',').map(|number| number.parse().map_err(|_| "expected numbers".to_owned()));
    numbers.collect::<Result<_, _>>().map(Numbers)
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

fn threads(text: &str) -> Result<usize, String> {
    let cores = process::cores();
    match text.parse() {
        Ok(threads) if (1..=cores).contains(&threads) => Ok(threads),
        _ => Err(format!("expected 1 to {cores}, as many as there are processors for this process")),
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

pub(crate) fn run(arguments: TuneArgs, console: &Console) -> Result<Exit, Failure> {
    if let Some(folder) = &arguments.removes {
        folder::remove_when_alone(folder)?;
        return Ok(Exit::Done);
    }
    if arguments.serve {
        return worker::serve(console);
    }
    if let Some(definition) = &arguments.definition {
        let mut definition = Definition::read(definition)?;
        definition.by_matrices = arguments.matrices && definition.reads_halves();
        return judge(&arguments, &definition, console);
    }
    let started = Instant::now();
    let file = match (&arguments.records, &arguments.model) {
        (Some(file), _) => file.clone(),
        (None, Some(model)) => {
            default_records(model).ok_or_else(|| CliError::usage("the model's path names no file"))?
        }
        (None, None) => "native.records".into(),
    };
    check_files(&arguments, &file)?;
    let taught = read_taught(&arguments.learn)?;
    records::tell_bad(&read_known(&file)?, &file, console);
    let folder = Folder::new()?;
    let allowed = arguments.allowed();
    let bar = progress::spinner(console);
    let Subject { target, profile, mut tasks, formed } = subject(&arguments, &file, folder.path(), &bar, console)?;
    if !arguments.kernel.is_empty() {
        tasks.retain(|task| arguments.kernel.iter().any(|prefix| task.key.to_string().starts_with(prefix.as_str())));
        if tasks.is_empty() {
            return Err(CliError::usage("there is no kernel whose hash begins as --kernel says").into());
        }
    }
    let threads = arguments.threads;
    if threads > 1 && target.cpu().is_none() {
        return Err(CliError::usage("--threads: threads of processors run no kernels of GPUs").into());
    }
    let arena = Arena { target: &target, allowed, threads, folder: folder.path() };
    let machine = match target.machine() {
        AnyMachine::Cpu(machine) => Machine { threads, ..machine }.into(),
        gpu @ AnyMachine::Gpu(_) => gpu,
    };
    bar.suspend(|| console.note(format!("  {} distinct kernels for {target}", tasks.len())));
    let model = bar.suspend(|| learned(&taught, &target, threads, console));
    let mut bench = Bench::new(arena, arguments.log.as_deref())?;
    let rules = Rules { machine: &machine, allowed, strategy: arguments.search.into(), seed: arguments.seed };
    let mut tournament = Tournament::new(&tasks, rules, model, &mut bench, |n| {
        bar.set_message(format!("default choice of kernel {} of {}", n + 1, tasks.len()));
    })?;
    for wrong in &bench.refuted {
        bar.suspend(|| {
            console.note(format!("  not tuned  {}: the default choice is wrong: {}", wrong.kernel, wrong.what))
        });
    }
    let before = tournament.total_seconds();
    let mut keeper = Keeper::new(&file, &target, &arguments);
    bar.set_message("schedules that were found before");
    let known = keeper.known(&tasks, console)?;
    let known = |task: &Task| known.get(&task.key).cloned();
    tournament.resume(known, &mut bench, |contest| bar.suspend(|| keeper.keep(contest, console)))?;
    let searching = Instant::now();
    let mut trials = 0;
    while started.elapsed() < arguments.budget && arguments.wants_more(trials, &tournament) {
        let Some((contest, outcome)) = tournament.advance(&mut bench)? else { break };
        trials += 1;
        if outcome == Outcome::Win {
            bar.suspend(|| keeper.keep(contest, console))?;
        }
        let of_kernel = format!("{} {:.1} %", contest.task.kernel.name, 100.0 * (1.0 - contest.relative()));
        let gain = 100.0 * (1.0 - tournament.total_seconds() / before);
        let expected = 100.0 * tournament.expected_gain();
        let left = tables::seconds(arguments.left(trials, &tournament, started.elapsed(), searching.elapsed()));
        bar.set_message(format!(
            "{trials} schedules tried ({of_kernel}), {gain:.1} % quicker, {expected:.1} % more expected, {left} left"
        ));
    }
    bar.finish_and_clear();
    let report = Report {
        schema: "infc.tune/1",
        model: arguments.model.as_ref().map(|model| model.display().to_string()),
        // Who names the target has its fixed machine in mind.
        compiled_for: if target.to_string().parse().as_ref() == Ok(&target) {
            target.to_string()
        } else {
            arguments.target.clone()
        },
        compiled_like: arguments.compiled_like(),
        target: target.to_string(),
        machine: if target.cpu().is_some() { process::machine() } else { host::device(&target) },
        threads,
        trials,
        seconds: started.elapsed().as_secs_f64(),
        default_ms: before * 1e3,
        best_ms: tournament.total_seconds() * 1e3,
        expected_gain: tournament.expected_gain(),
        records: file.display().to_string(),
        formed,
        profile,
        kernels: report::results(tournament.contests()),
        refuted: bench.refuted,
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        report.print(console)?
    }
    Ok(Exit::Done)
}

/// What processes of a search do: compute what a kernel has to, or try a schedule of it.
fn judge(arguments: &TuneArgs, definition: &Definition, console: &Console) -> Result<Exit, Failure> {
    let sets: Vec<Vec<i64>> = arguments.proof.iter().map(|set| set.0.clone()).collect();
    let symbols = &arguments.symbols;
    let Some([candidate, incumbent]) = arguments.trial.as_deref() else {
        let path = arguments.points.as_deref().ok_or_else(|| CliError::usage("--definition: expected --trial"))?;
        points::compute(definition, symbols, &sets, &arguments.tiles)?.write(path)?;
        return Ok(Exit::Done);
    };
    let points = arguments.points.as_deref().map(Points::read).transpose()?.unwrap_or_default();
    let judge = Judge { definition, points: &points, strict: arguments.strict, threads: arguments.threads };
    let trial = if sets.is_empty() {
        trial::run(candidate, incumbent, symbols, &judge)?
    } else {
        trial::prove(candidate, incumbent, &sets, &judge)?
    };
    console.json(&trial)?;
    Ok(Exit::Done)
}

impl TuneArgs {
    /// How far results may differ from those in the kernel's own order.
    fn allowed(&self) -> ErrorClass {
        if self.strict { ErrorClass::Exact } else { ErrorClass::Reassociating }
    }

    /// Words of `infc compile` for whoever wants what was found. One thread needs none: records of others are then the second
    /// choice.
    fn compiled_like(&self) -> String {
        let precision = Precision::from(self.precision);
        let words = [
            (self.threads > 1).then(|| format!(" --threads {}", self.threads)),
            (precision != Precision::F32).then(|| format!(" --precision {precision}")),
            self.strict.then(|| " --strict".to_owned()),
        ];
        words.into_iter().flatten().collect()
    }

    /// Whether one more schedule is to be tried: as many as were asked for, or else as long as that is worth it.
    fn wants_more(&self, trials: u64, tournament: &Tournament<'_>) -> bool {
        self.trials.map_or_else(|| tournament.is_worth_more(), |most| trials < most)
    }

    /// How long the search goes on, if it finds nothing more and a trial takes as long as those before.
    fn left(&self, trials: u64, tournament: &Tournament<'_>, elapsed: Duration, searching: Duration) -> Duration {
        let to_come = self.trials.map_or_else(|| tournament.trials_to_come(), |most| most.saturating_sub(trials));
        let needed = searching.as_secs_f64() / trials.max(1) as f64 * to_come as f64;
        Duration::try_from_secs_f64(needed).unwrap_or(Duration::MAX).min(self.budget.saturating_sub(elapsed))
    }
}

/// The files of earlier runs and what they hold, read before anything is measured or written.
fn read_taught(files: &[PathBuf]) -> Result<Vec<(&Path, String)>, Failure> {
    let read = |path: &'_ PathBuf| match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(CliError::CannotRead { path: path.clone(), source }),
    };
    files.iter().map(|path| Ok((path.as_path(), read(path)?))).collect()
}

/// A cost model that knows what these files tell.
fn learned(taught: &[(&Path, String)], target: &VariantTarget, threads: usize, console: &Console) -> CostModel {
    let mut all = Vec::new();
    for (path, text) in taught {
        let lessons = infc_tune::lessons(text, Some(target), threads);
        let trials: usize = lessons.iter().map(|lesson| lesson.trials.len()).sum();
        console.note(format!("  learned from {trials} schedules of {}", path.display()));
        all.extend(lessons);
    }
    CostModel::of(&all)
}

/// The model's stem in the current folder.
fn default_records(model: &Path) -> Option<PathBuf> {
    let mut name = model.file_stem()?.to_owned();
    name.push(".records");
    Some(name.into())
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
    // A log is begun anew, so it must not be what is read; records are added to, and may be learned from as well.
    if let Some(log) = arguments.log.as_deref().map(place) {
        let read = arguments.learn.iter().map(|file| ("--learn", file.as_path()));
        let mut others = read.chain([("--records", records)]).chain(arguments.model.as_deref().map(|m| ("MODEL", m)));
        if let Some((name, _)) = others.find(|(_, file)| place(file) == log) {
            return Err(CliError::usage(format!("--log and {name} name the same file, and a log is begun anew")).into());
        }
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

/// Where a file lies or is going to lie, whatever path and links lead there.
fn place(file: &Path) -> PathBuf {
    let in_folder = || {
        let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        Some(folder.canonicalize().ok()?.join(file.file_name()?))
    };
    file.canonicalize().ok().or_else(in_folder).unwrap_or_else(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        assert_eq!(budget("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("2"), Ok(Duration::from_secs(2)));
        assert!(budget("10x").is_err() && budget("m").is_err() && budget("-1s").is_err() && budget("").is_err());
    }
}
