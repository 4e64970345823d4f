//! `infc records verify`: whether records still say what would happen.

use super::{Lines, check_output, gain, read_all, write_records};
use crate::commands::tune::{Arena, Folder, Judgement, Rig, Stand};
use crate::console::Console;
use crate::failure::{Exit, Failure};
use crate::tables::{Side, table};
use crate::{host, model_file, process};
use infc::{RecordedCode, Target, recorded_kernel};
use infc_passes::ErrorClass;
use infc_tune::{Proven, Record, RecordFile, Standing};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Check records
///
/// Every kernel is compiled by its record's schedule and by the default choice, on any machine. A record whose schedule no
/// longer applies is illegal; `infc compile` leaves it out. If one of the two codes is another than what was measured, as a
/// newer infc makes, it has changed: with --measure it is measured again, if this is the machine that it was measured on.
/// The others still hold.
///
/// Ways to form kernels are kept as they are: what they gain only a whole model tells, which `infc tune MODEL --resume` measures.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc records verify digits.records\n  \
                        infc records verify digits.records --measure -o verified.records")]
pub(super) struct VerifyArgs {
    /// Files of records
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Measure those again that have changed
    #[arg(long, requires = "output")]
    measure: bool,
    /// Measure all schedules, those too whose code is as it was, and keep only what is quicker than the default once more
    #[arg(long, requires = "measure")]
    all: bool,
    /// Write the records that are legal, without those that are no longer quicker; the file may be one of those read, and
    /// - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 3 if a line is no record, or a record is illegal or not known to be quicker
    #[arg(long)]
    deny: bool,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Found {
    /// As it was measured.
    Measured,
    /// The code is another one; not measured again, or that decided nothing.
    Changed,
    /// Measured again twice, and quicker than the default both times.
    Proven,
    /// All were to be measured again, which of this one could not be done or decided nothing.
    Undecided,
    /// Measured again twice, and not quicker either time, or it computes something else.
    NotQuicker,
    /// No compilation takes it.
    Illegal,
}

impl Found {
    const ALL: [Self; 6] =
        [Self::Measured, Self::Changed, Self::Proven, Self::Undecided, Self::NotQuicker, Self::Illegal];

    fn text(self) -> &'static str {
        match self {
            Self::Measured => "as measured",
            Self::Changed => "changed",
            Self::Proven => "measured again",
            Self::Undecided => "undecided",
            Self::NotQuicker => "no longer quicker",
            Self::Illegal => "illegal",
        }
    }

    fn is_kept(self) -> bool {
        !matches!(self, Self::NotQuicker | Self::Illegal | Self::Undecided)
    }
}

#[derive(Serialize)]
struct Checked {
    kernel: String,
    name: String,
    target: String,
    strict: bool,
    machine: String,
    found: Found,
    /// Why it is illegal, was not measured again or is not kept, or what was measured decided nothing.
    reason: Option<String>,
    ratio: f64,
    ratio_at_most: f64,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    checked: Vec<Checked>,
    /// Ways to form kernels, which are not checked.
    unchecked_choices: usize,
    bad: Vec<super::BadLine>,
    output: Option<String>,
}

pub(super) fn run(arguments: &VerifyArgs, console: &Console) -> Result<Exit, Failure> {
    arguments.output.as_ref().map_or(Ok(()), |output| check_output(output, console))?;
    let Lines { records, bad } = read_all(&arguments.files, console)?;
    let folder = Folder::new()?;
    let native = host::native().map(|native| native.target);
    let unchecked_choices = records.choices.len();
    let mut kept = RecordFile { choices: records.choices, ..RecordFile::default() };
    let mut checked = Vec::new();
    for record in records.records {
        let (found, reason, record) = check(record, native.as_ref(), arguments, folder.path())?;
        checked.push(Checked {
            kernel: record.kernel.clone(),
            name: record.name.clone(),
            target: record.target.clone(),
            strict: record.strict,
            machine: record.machine.clone(),
            found,
            reason,
            ratio: record.ratio(),
            ratio_at_most: record.ratio_at_most,
        });
        if found.is_kept() {
            kept.records.push(record);
        }
    }
    if let Some(output) = &arguments.output {
        write_records(&kept, output, console)?;
    }
    let holds = bad.is_empty() && checked.iter().all(|c| matches!(c.found, Found::Measured | Found::Proven));
    let output = arguments.output.as_ref().map(|path| path.display().to_string());
    let report = Report { schema: "infc.records/1", checked, unchecked_choices, bad, output };
    if console.is_json() {
        console.json(&report)?;
    } else if !arguments.output.as_ref().is_some_and(|output| model_file::is_stream(output)) {
        print(&report, console)?;
    }
    Ok(if arguments.deny && !holds { Exit::Condition } else { Exit::Done })
}

/// What a record is worth now, why, and the record as it is to be kept.
fn check(
    record: Record,
    native: Option<&Target>,
    arguments: &VerifyArgs,
    folder: &Path,
) -> Result<(Found, Option<String>, Record), Failure> {
    // Whoever tunes on this machine has its profile in mind.
    let of_native = |native: &&Target| record.machine == process::processor() && record.target == native.to_string();
    let machine = native.filter(of_native);
    let now = match record.standing(machine.map(|native| native.machine)) {
        Standing::Illegal(reason) => return Ok((Found::Illegal, Some(reason), record)),
        Standing::Measured if !arguments.all => return Ok((Found::Measured, None, record)),
        Standing::Measured => RecordedCode { code: record.code.clone(), default_code: record.default_code.clone() },
        Standing::Changed(now) => now,
    };
    let found = if arguments.all { Found::Undecided } else { Found::Changed };
    let changed = |reason: String| (found, Some(reason));
    let (found, reason) = match record.parts() {
        Err(reason) => (Found::Illegal, Some(reason)),
        Ok(_) if !arguments.measure => (Found::Changed, None),
        Ok((_, target, _)) if record.machine != host::device(&target) => {
            changed(format!("measured on {}", record.machine))
        }
        Ok(_) if record.threads > process::cores() => changed(format!("measured with {} threads", record.threads)),
        Ok((_, target, _)) if host::check_runs(&target).is_err() => {
            changed(format!("this machine does not run {target}"))
        }
        Ok((_, target, schedule)) => {
            let allowed = if record.strict { ErrorClass::Exact } else { ErrorClass::Reassociating };
            let target = machine.map_or(target, |native| native.clone().into());
            let arena = Arena { target: &target, allowed, threads: record.threads, folder };
            let kernel = match recorded_kernel(&record.text) {
                Ok(kernel) => kernel,
                Err(reason) => return Ok((Found::Illegal, Some(reason), record)),
            };
            let told = |what: String| Ok((found, Some(what), record.clone()));
            let mut rig = match Rig::stand(&kernel, &record.kernel, arena)? {
                Stand::Measured(rig) => rig,
                Stand::NotMeasured => return told("the default choice cannot be measured".to_owned()),
                Stand::Refuted(what) => return told(format!("the default choice is wrong: {what}")),
            };
            match rig.judge(&schedule)? {
                Judgement::Quicker(proof) => return Ok((Found::Proven, None, record.proven(proof, now))),
                Judgement::NotQuicker => (Found::NotQuicker, None),
                Judgement::ComputesElse => (Found::NotQuicker, Some("it computes something else".to_owned())),
                Judgement::Undecided(reason) => changed(reason.to_owned()),
            }
        }
    };
    Ok((found, reason, record))
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let columns = [
        ("kernel", Side::Left),
        ("name", Side::Left),
        ("target", Side::Left),
        ("quicker", Side::Right),
        ("", Side::Left),
    ];
    let rows = report.checked.iter().map(|c| {
        let reason = c.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        vec![
            c.kernel.chars().take(12).collect(),
            c.name.clone(),
            format!("{}{}", c.target, if c.strict { ", strict" } else { "" }),
            if c.found.is_kept() { gain(c.ratio) } else { "-".to_owned() },
            format!("{}{reason}", c.found.text()),
        ]
    });
    console.write(table(&columns, rows).as_bytes())?;
    let counts = Found::ALL.map(|found| (found, report.checked.iter().filter(|c| c.found == found).count()));
    let counts =
        counts.iter().filter(|(_, count)| *count > 0).map(|(found, count)| format!("{count} {}", found.text()));
    let mut counts: Vec<String> = counts.collect();
    if report.unchecked_choices > 0 {
        counts.push(format!("{} of how kernels are formed, not checked", report.unchecked_choices));
    }
    if !report.bad.is_empty() {
        counts.push(format!("{} lines are no records", report.bad.len()));
    }
    console.line(format!("\n  {}", if counts.is_empty() { "no records".to_owned() } else { counts.join(", ") }))?;
    if let Some(output) = &report.output {
        console.line(format!("  written   {output}"))?;
    }
    Ok(())
}
