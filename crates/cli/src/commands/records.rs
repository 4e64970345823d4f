//! `infc records`: what `infc tune` has found, of schedules and of ways to form kernels, listed, put together, chosen from and checked.

mod builtin;
mod select;
mod verify;

pub(super) use builtin::BuiltinRecords;

use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::tables::{self, Side, table};
use crate::{model_file, output_file, process};
use infc_tune::{ChoiceRecord, Proven, Record, RecordFile, Times};
use select::Selection;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// List, check, merge and choose from records of schedules
///
/// `infc tune` writes records, a line of JSON each, and `infc compile --records` takes them. Lines that cannot be used are
/// told and left out, whatever is done with the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc records ls digits.records\n  infc records verify digits.records")]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Ls(LsArgs),
    Verify(verify::VerifyArgs),
    Merge(MergeArgs),
    Export(ExportArgs),
}

/// List records
///
/// Those that are much quicker than the default choice come first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc records ls digits.records\n  \
                        infc records ls digits.records --target x86-64-v2 --min-gain 1% --format json")]
struct LsArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

/// Put files of records together
///
/// Of two records for the same kernel, target, machine, number of threads and strictness the better one is kept: the one
/// whose gain is the larger one at the lower end of its 95 % interval. The order of files makes no difference.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc records merge digits.records other.records -o all.records\n  \
                        infc records merge digits.records -o -")]
struct MergeArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write, which may be one of those that are read; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Choose some of the records
///
/// What is chosen is written with all that it says, a line each. Without a choice all records are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc records export digits.records --model digits.onnx -o mine.records\n  \
                        infc records export digits.records --target x86-64-v2 -o -")]
struct ExportArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    selection: Selection,
}

/// What of a record people and scripts want to know.
#[derive(Serialize)]
struct Line<'a> {
    kernel: &'a str,
    name: &'a str,
    #[serde(flatten)]
    proof: ProofLine<'a>,
    schedule: &'a str,
}

/// The same of a way to form kernels.
#[derive(Serialize)]
struct ChoiceLine<'a> {
    question: &'a str,
    kind: &'a str,
    name: &'a str,
    #[serde(flatten)]
    proof: ProofLine<'a>,
    way: &'a str,
    instead_of: &'a str,
}

/// What both have in common.
#[derive(Serialize)]
struct ProofLine<'a> {
    target: &'a str,
    machine: &'a str,
    here: bool,
    threads: usize,
    strict: bool,
    default_us: f64,
    best_us: f64,
    ratio: f64,
    ratio_at_most: f64,
}

impl<'a> ProofLine<'a> {
    fn new(record: &'a impl Proven, processor: &str) -> Self {
        let (_, target, machine, threads, strict) = record.place();
        let Times { seconds, default_seconds, ratio_at_most } = record.times();
        Self {
            target,
            machine,
            here: machine == processor,
            threads,
            strict,
            default_us: default_seconds * 1e6,
            best_us: seconds * 1e6,
            ratio: record.ratio(),
            ratio_at_most,
        }
    }

    /// For which target, threads and strictness.
    fn conditions(&self) -> String {
        let strict = if self.strict { ", strict" } else { "" };
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        format!("{}{threads}{strict}", self.target)
    }

    fn place(&self) -> String {
        if self.here { "this".to_owned() } else { self.machine.to_owned() }
    }
}

impl<'a> Line<'a> {
    fn new(record: &'a Record, processor: &str) -> Self {
        let Record { kernel, name, schedule, .. } = record;
        Self { kernel, name, proof: ProofLine::new(record, processor), schedule }
    }
}

impl<'a> ChoiceLine<'a> {
    fn new(record: &'a ChoiceRecord, processor: &str) -> Self {
        let ChoiceRecord { question, kind, name, way, instead_of, .. } = record;
        Self { question, kind, name, proof: ProofLine::new(record, processor), way, instead_of }
    }
}

/// A line that is no record.
#[derive(Clone, Debug, Serialize)]
struct BadLine {
    file: String,
    line: usize,
    reason: String,
}

/// What was read.
#[derive(Default)]
struct Lines {
    records: RecordFile,
    bad: Vec<BadLine>,
}

/// What merging and choosing tell.
#[derive(Serialize)]
struct Written {
    schema: &'static str,
    read: usize,
    written: usize,
    output: String,
    bad: Vec<BadLine>,
}

pub(crate) fn run(arguments: RecordsArgs, console: &Console) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Ls(arguments) => list(&arguments, console)?,
        Action::Verify(arguments) => return verify::run(&arguments, console),
        Action::Merge(arguments) => {
            check_output(&arguments.output, console)?;
            let mut lines = read_all(&arguments.files, console)?;
            let read = lines.records.len();
            lines.records.keep_best();
            write(&lines, read, &arguments.output, console)?;
        }
        Action::Export(arguments) => {
            check_output(&arguments.output, console)?;
            let mut lines = read_all(&arguments.files, console)?;
            let read = lines.records.len();
            arguments.selection.apply(&mut lines.records)?;
            write(&lines, read, &arguments.output, console)?;
        }
    }
    Ok(Exit::Done)
}

/// Reads files of records. What in them cannot be used is said, and left out.
pub(super) fn read(paths: &[PathBuf], console: &Console) -> Result<RecordFile, Failure> {
    Ok(read_all(paths, console)?.records)
}

/// Reads a file of records.
///
/// Fails if it is something else, such as a model: whoever names the wrong file is not to find it replaced by records, or to
/// be told that there are none.
pub(super) fn read_one(path: &Path) -> Result<RecordFile, Failure> {
    let wrap = |source| CliError::CannotRead { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(wrap)?;
    let file = RecordFile::parse(&bytes);
    if file.is_foreign() {
        return Err(wrap(io::Error::new(io::ErrorKind::InvalidData, "none of its lines is a record")).into());
    }
    Ok(file)
}

/// Leaves out records that were measured elsewhere, for the target that is this machine alone, and says so: what is quicker
/// there need not be here.
pub(super) fn leave_out_foreign(file: &mut RecordFile, native: &str, console: &Console) {
    let processor = process::processor();
    file.records.retain(|record| {
        let is_taken = record.target != native || record.machine == processor;
        if !is_taken {
            let (name, machine) = (&record.name, &record.machine);
            console.note(format!("  record not taken  {name}: measured on {machine}, this is {processor}"));
        }
        is_taken
    });
    file.choices.retain(|choice| {
        let is_taken = choice.target != native || choice.machine == processor;
        if !is_taken {
            let (kind, name, machine) = (&choice.kind, &choice.name, &choice.machine);
            console.note(format!("  record not taken  {kind} of {name}: measured on {machine}, this is {processor}"));
        }
        is_taken
    });
}

fn read_all(paths: &[PathBuf], console: &Console) -> Result<Lines, Failure> {
    let mut lines = Lines::default();
    for path in paths {
        let file = read_one(path)?;
        tell_bad(&file, path, console);
        for bad in file.bad {
            lines.bad.push(BadLine { file: path.display().to_string(), line: bad.line, reason: bad.reason });
        }
        lines.records.records.extend(file.records);
        lines.records.choices.extend(file.choices);
    }
    Ok(lines)
}

/// Says which lines cannot be used.
pub(super) fn tell_bad(file: &RecordFile, path: &Path, console: &Console) {
    for bad in &file.bad {
        console.note(format!("  record not taken  {}, {bad}", path.display()));
    }
}

fn list(arguments: &LsArgs, console: &Console) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Listed<'a> {
        schema: &'static str,
        records: Vec<Line<'a>>,
        choices: Vec<ChoiceLine<'a>>,
        bad: Vec<BadLine>,
    }
    let mut lines = read_all(&arguments.files, console)?;
    arguments.selection.apply(&mut lines.records)?;
    let processor = process::processor();
    let mut records: Vec<Line<'_>> = lines.records.records.iter().map(|record| Line::new(record, &processor)).collect();
    records.sort_by(|a, b| a.proof.ratio_at_most.total_cmp(&b.proof.ratio_at_most));
    let mut choices: Vec<ChoiceLine<'_>> =
        lines.records.choices.iter().map(|record| ChoiceLine::new(record, &processor)).collect();
    choices.sort_by(|a, b| a.proof.ratio_at_most.total_cmp(&b.proof.ratio_at_most));
    if console.is_json() {
        return console.json(&Listed { schema: "infc.records/1", records, choices, bad: lines.bad });
    }
    if !choices.is_empty() {
        let columns = [
            ("question", Side::Left),
            ("how kernels are formed", Side::Left),
            ("target", Side::Left),
            ("a run", Side::Right),
            ("quicker", Side::Right),
            ("at least", Side::Right),
            ("machine", Side::Left),
        ];
        let rows = choices.iter().map(|line| {
            vec![
                line.question.chars().take(12).collect(),
                format!("{} of {}: {} instead of {}", line.kind, line.name, line.way, line.instead_of),
                line.proof.conditions(),
                tables::millis(line.proof.best_us / 1e3),
                gain(line.proof.ratio),
                gain(line.proof.ratio_at_most),
                line.proof.place(),
            ]
        });
        console.write(table(&columns, rows).as_bytes())?;
        if records.is_empty() {
            return Ok(());
        }
        console.line("")?;
    }
    let columns = [
        ("kernel", Side::Left),
        ("name", Side::Left),
        ("target", Side::Left),
        ("default", Side::Right),
        ("best", Side::Right),
        ("quicker", Side::Right),
        ("at least", Side::Right),
        ("machine", Side::Left),
    ];
    let rows = records.iter().map(|line| {
        vec![
            line.kernel.chars().take(12).collect(),
            line.name.to_owned(),
            line.proof.conditions(),
            tables::millis(line.proof.default_us / 1e3),
            tables::millis(line.proof.best_us / 1e3),
            gain(line.proof.ratio),
            gain(line.proof.ratio_at_most),
            line.proof.place(),
        ]
    });
    console.write(table(&columns, rows).as_bytes())
}

/// How much less time.
fn gain(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * (1.0 - ratio))
}

/// Fails if records and the report would both go to standard output.
fn check_output(output: &Path, console: &Console) -> Result<(), Failure> {
    if model_file::is_stream(output) && console.is_json() {
        return Err(CliError::usage("-o - and --format json both want standard output").into());
    }
    Ok(())
}

/// Writes records to a file, or to standard output, which then takes no report.
fn write_records(records: &RecordFile, output: &Path, console: &Console) -> Result<(), Failure> {
    let text = records.to_text();
    if model_file::is_stream(output) {
        return console.write(text.as_bytes());
    }
    output_file::write(output, text.as_bytes())
}

fn write(lines: &Lines, read: usize, output: &Path, console: &Console) -> Result<(), Failure> {
    write_records(&lines.records, output, console)?;
    if model_file::is_stream(output) {
        return Ok(());
    }
    let written = lines.records.len();
    let report = Written {
        schema: "infc.records/1",
        read,
        written,
        output: output.display().to_string(),
        bad: lines.bad.clone(),
    };
    if console.is_json() {
        return console.json(&report);
    }
    console.line(format!("  {read} records read, {written} written to {}", output.display()))
}
