//! `infc conformance DIR`: cases with known outputs through the whole line, model by model: compile, artifact, runtime.
//!
//! Cases are run by worker processes ([`crew`]), so that one that crashes or hangs is an outcome like others.

mod case;
mod crew;
mod find;
mod outcome;

use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::host;
use crate::tables::{Side, few, table};
use outcome::{CaseResult, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Run cases with known outputs
///
/// A case is a folder with model.onnx, test_data_set_* and perhaps tolerance.json (rtol and atol), anywhere below DIR.
/// Models are compiled with --strict and without looking at the data: shapes, axes and counts that come as inputs are
/// values of the run. The exit code is 3 if a case does not pass.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc conformance cases\n  infc conformance cases --filter node/test_abs \
                        --target x86-64-v2,reference")]
pub(crate) struct ConformanceArgs {
    /// The folder of cases
    #[arg(required_unless_present = "worker")]
    folder: Option<PathBuf>,
    /// Only cases whose name, the path below DIR, matches; * stands for any characters, ? for one
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// What to run on, separated by commas: names from `infc targets`, or reference, the definitions of the operators;
    /// the best level of this machine unless given
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    target: Vec<String>,
    /// Cases at a time; as many as this machine has processors unless given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// A case that takes longer on one target has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    time_limit: u32,
    /// Read cases from standard input and write their outcomes: what the command starts to run them
    #[arg(long, hide = true)]
    worker: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    targets: Vec<String>,
    total: usize,
    passed: usize,
    /// Per case `pass`, or why not.
    cases: BTreeMap<String, String>,
    /// The same, target by target.
    details: BTreeMap<String, CaseResult>,
    total_ms: f64,
}

pub(crate) fn run(arguments: ConformanceArgs, console: &Console) -> Result<Exit, Failure> {
    let targets = resolve_targets(&arguments.target)?;
    if arguments.worker {
        return case::serve(&targets);
    }
    let folder = arguments.folder.unwrap_or_default();
    let cases = find::cases(&folder, arguments.filter.as_deref())?;
    if cases.is_empty() {
        return Err(CliError::BadDataFolder { path: folder, reason: "no case in it matches".to_owned() }.into());
    }
    let jobs = arguments.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), usize::from);
    console.note(format!("  {} cases on {}", cases.len(), targets.join(", ")));
    let begun = Instant::now();
    let limit = Duration::from_secs(arguments.time_limit.into());
    let program = std::env::current_exe().map_err(|source| CliError::CannotRead { path: "infc".into(), source })?;
    let mut details = crew::run(&program, &cases, &targets, jobs, limit)?;
    for case in &cases {
        if let Some(result) = details.get_mut(&case.name) {
            result.numeric = case::is_numeric(&case.folder);
            result.node = case::single_node(&case.folder);
        }
    }
    let report = Report {
        schema: "infc.conformance/1",
        total: details.len(),
        passed: details.values().filter(|result| result.passes()).count(),
        cases: details.iter().map(|(name, result)| (name.clone(), result.summary())).collect(),
        details,
        targets,
        total_ms: crate::stats::millis(begun.elapsed()),
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(if report.passed == report.total { Exit::Done } else { Exit::Condition })
}

/// Checked names; the best level of this machine if there are none.
fn resolve_targets(names: &[String]) -> Result<Vec<String>, Failure> {
    if names.is_empty() {
        let best = host::best_level().ok_or_else(|| CliError::usage("infc makes no code for this machine"))?;
        return Ok(vec![best.to_string()]);
    }
    for name in names.iter().filter(|name| *name != case::REFERENCE) {
        infc::check_target(name)?;
    }
    Ok(names.to_vec())
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    for target in &report.targets {
        let outcomes = || report.details.values().filter_map(|result| result.targets.get(target));
        let passed = outcomes().filter(|outcome| **outcome == Outcome::Pass).count();
        let run = outcomes().filter(|outcome| **outcome != Outcome::NotRun).count();
        let name = console.paint(Style::Label, &format!("{target:12}"));
        console.line(format!("  {name} {passed} of {run} pass"))?;
    }
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, summary) in report.cases.iter().filter(|(_, summary)| *summary != "pass") {
        reasons.entry(summary.clone()).or_default().push(name.clone());
    }
    if reasons.is_empty() {
        return Ok(());
    }
    let mut reasons: Vec<(String, Vec<String>)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(reason, cases)| (std::cmp::Reverse(cases.len()), reason.clone()));
    let shown = if console.is_verbose() { usize::MAX } else { 2 };
    let rows = reasons.iter().map(|(reason, cases)| vec![cases.len().to_string(), reason.clone(), few(cases, shown)]);
    console.line("")?;
    let columns = [("cases", Side::Right), ("reason", Side::Left), ("for example", Side::Left)];
    console.write(table(&columns, rows).as_bytes())
}
