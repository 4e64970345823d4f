//! `cargo xtask conformance`: ONNX's own cases through the whole line, held to `tests/conformance/status.txt`.
//!
//! Those for `cuda` are run by `infc-simulated`, whose GPU is the simulator.
//!
//! The cases come with the Python package `onnx` (`tests/conformance/requirements.txt` pins it) and are written once.
//! The list has one line per case; a case that was better there fails the task, unless `--bless` writes the list anew. What cases of
//! one node show of each operator is `tests/conformance/operators.txt`.

mod changed;
mod operators;
mod status;

use crate::{python, workspace};
use anyhow::{Context, Result, bail};
use operators::Operators;
use serde_json::{Map, Value};
use status::{Row, Status};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the columns of the list stand for; the definitions of the operators come last.
const TARGETS: [&str; 5] = ["x86-64-v2", "x86-64-v3", "x86-64-v4", GPU, "reference"];
/// The column of the simulator.
pub(super) const GPU: &str = "cuda";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Python interpreter with the package onnx.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The folder of cases; they are written there if it does not exist.
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// The command `infc`; built in release mode unless given.
    #[arg(long, value_name = "PATH")]
    infc: Option<PathBuf>,
    /// The command `infc-simulated`; built in release mode unless given.
    #[arg(long, value_name = "PATH")]
    simulated: Option<PathBuf>,
    /// Only cases whose name matches, as in `node/test_conv*`.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Write the list anew.
    #[arg(long)]
    bless: bool,
}

#[expect(clippy::print_stdout, reason = "the summary is output of the task")]
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cases = match &arguments.cases {
        Some(folder) => folder.clone(),
        None => workspace::target_dir()?.join("conformance"),
    };
    if !cases.is_dir() {
        generate(&cases, arguments.python.as_deref())?;
    }
    let infc = match &arguments.infc {
        Some(path) => path.clone(),
        None => workspace::build_infc()?,
    };
    let simulated = match &arguments.simulated {
        Some(path) => path.clone(),
        None => workspace::build_simulated()?,
    };
    let Measured { found, share, operators } = measure(&infc, &simulated, &cases, arguments.filter.as_deref())?;
    let list = workspace::root().join("tests/conformance/status.txt");
    let known = if list.is_file() {
        Status::parse(&std::fs::read_to_string(&list)?).with_context(|| format!("{}", list.display()))?
    } else {
        Status::default()
    };
    print!("{}\n{}\n", found.summary(), share.describe());

    let complete = arguments.filter.is_none();
    let changed = || changed::run_all(&infc, &cases, arguments.python.as_deref(), arguments.bless);
    let table = workspace::root().join("tests/conformance/operators.txt");
    let worse = known.worse_in(&found, complete);
    let better = found.worse_in(&known, false).len();
    if arguments.bless {
        std::fs::write(&list, known.updated_by(found, complete).to_string())?;
        if complete {
            std::fs::write(&table, operators.to_string())?;
            changed()?;
        }
        println!("\n{} is up to date: {better} better, {} worse", list.display(), worse.len());
        return Ok(());
    }
    if better > 0 {
        println!("\n{better} cases are better than the list says: cargo xtask conformance --bless");
    }
    if !worse.is_empty() {
        bail!("{} cases are worse than the list says:\n  {}", worse.len(), worse.join("\n  "));
    }
    if complete && share.percent() < NativeShare::AT_LEAST {
        bail!("too many cases run on the host");
    }
    if complete && std::fs::read_to_string(&table).unwrap_or_default() != operators.to_string() {
        bail!(
            "{} is out of date: cargo xtask conformance --bless, then INFC_BLESS=1 for docs/operators.md",
            table.display()
        );
    }
    if complete { changed() } else { Ok(()) }
}

/// Writes ONNX's cases.
fn generate(cases: &Path, asked_for: Option<&Path>) -> Result<()> {
    generate_with(asked_for, "generate.py", &[], cases)
}

/// Writes cases by a script, beside their final place first, so that they are complete or not there.
fn generate_with(asked_for: Option<&Path>, script: &str, arguments: &[&Path], cases: &Path) -> Result<()> {
    let python = python::find(asked_for, &["onnx", "numpy"])?;
    let partial = cases.with_extension("partial");
    let status = Command::new(&python)
        .arg(workspace::root().join("tests/conformance").join(script))
        .args(arguments)
        .arg(&partial)
        .env("PYTHONWARNINGS", "ignore")
        .status()
        .with_context(|| format!("cannot start {}", python.display()))?;
    if !status.success() {
        bail!("generating the cases failed: {status}");
    }
    std::fs::rename(&partial, cases).with_context(|| format!("cannot make {}", cases.display()))
}

/// Of the cases that pass and that kernels could compute, how many are native.
#[derive(Clone, Copy, Debug, Default)]
struct NativeShare {
    native: usize,
    numeric: usize,
}

impl NativeShare {
    /// What is promised of the share, in percent.
    const AT_LEAST: f64 = 95.0;

    fn of<'a>(details: impl Iterator<Item = &'a Value>) -> Self {
        let mut share = Self::default();
        for result in details.filter(|result| result["numeric"] == true) {
            let passes = TARGETS
                .iter()
                .all(|target| matches!(result["targets"][target].as_str(), Some("pass" | "not-run") | None));
            share.numeric += usize::from(passes);
            share.native += usize::from(passes && result["runs"] == "native");
        }
        share
    }

    fn percent(self) -> f64 {
        if self.numeric == 0 { 100.0 } else { 100.0 * self.native as f64 / self.numeric as f64 }
    }

    fn describe(self) -> String {
        let Self { native, numeric } = self;
        format!(
            "{native} of {numeric} cases that pass and have numbers only are kernels alone: {:.1} %, at least {} %",
            self.percent(),
            Self::AT_LEAST
        )
    }
}

/// What became of the cases.
struct Measured {
    found: Status,
    share: NativeShare,
    operators: Operators,
}

/// Runs the cases on processors, by their definitions and on the simulator.
fn measure(infc: &Path, simulated: &Path, cases: &Path, filter: Option<&str>) -> Result<Measured> {
    let (gpu, others): (Vec<&str>, Vec<&str>) = TARGETS.iter().partition(|target| **target == GPU);
    let details = details(infc, cases, filter, &others)?;
    let on_gpu = self::details(simulated, cases, filter, &gpu)?;
    if !details.keys().eq(on_gpu.keys()) {
        bail!(
            "{} and {} did not run the same cases: {} and {}",
            infc.display(),
            simulated.display(),
            details.len(),
            on_gpu.len()
        );
    }
    let row = |name: &String, result: &Value| -> Row {
        let result_on = |target: &str| if target == GPU { on_gpu.get(name) } else { Some(result) };
        let outcome = |target: &str| result_on(target)?["targets"][target].as_str().map(str::to_owned);
        let columns = TARGETS.map(|target| outcome(target).unwrap_or_else(|| status::NOT_RUN.to_owned()));
        Row { columns, runs: result["runs"].as_str().unwrap_or("-").to_owned() }
    };
    let rows: BTreeMap<String, Row> = details.iter().map(|(name, result)| (name.clone(), row(name, result))).collect();
    let mut operators = Operators::default();
    details.iter().for_each(|(name, result)| operators.count(result, &rows[name]));
    Ok(Measured { found: Status { rows }, share: NativeShare::of(details.values()), operators })
}

/// What a command says of the cases on some targets, by name.
fn details(infc: &Path, cases: &Path, filter: Option<&str>, targets: &[&str]) -> Result<Map<String, Value>> {
    let mut command = Command::new(infc);
    command.arg("conformance").arg(cases).args(["--target", &targets.join(","), "--format", "json"]);
    if let Some(filter) = filter {
        command.args(["--filter", filter]);
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", infc.display()))?;
    let mut report: Value = serde_json::from_slice(&output.stdout).context("infc conformance wrote no report")?;
    match report["details"].take() {
        Value::Object(details) => Ok(details),
        _ => bail!("infc conformance: {}", report["message"].as_str().unwrap_or("no details")),
    }
}
