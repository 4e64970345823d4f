//! The file of records that a search begins with and writes to.

use super::{TuneArgs, read_known};
use crate::console::Console;
use crate::failure::Failure;
use crate::{host, output_file, process};
use infc::{KernelKey, Task, VariantTarget};
use infc_ir::schedule::Schedule;
use infc_tune::{ChoiceRecord, Contest, Proven, Record, RecordFile, Standing, builtin_records};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Keeps what a search finds.
pub(super) struct Keeper<'a> {
    file: &'a Path,
    target: &'a VariantTarget,
    arguments: &'a TuneArgs,
    /// What this run wrote for each kernel.
    written: HashMap<KernelKey, Record>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(file: &'a Path, target: &'a VariantTarget, arguments: &'a TuneArgs) -> Self {
        Self { file, target, arguments, written: HashMap::new() }
    }

    /// Schedules of these kernels that were found before: those of the file where the search goes on, and of what ships with infc
    /// for machines of this kind.
    pub(super) fn known(&self, tasks: &[Task], console: &Console) -> Result<HashMap<KernelKey, Schedule>, Failure> {
        let mut known = HashMap::new();
        let keys: HashSet<String> = tasks.iter().map(|task| task.key.to_string()).collect();
        let is_of_this = |record: &Record| {
            keys.contains(&record.kernel)
                && record.target == self.target.to_string()
                && record.strict == self.arguments.strict
                && record.threads == self.arguments.threads
        };
        let mut take = |file: RecordFile, is_of_machine: &dyn Fn(&Record) -> bool| {
            for record in file.records.iter().filter(|record| is_of_this(record) && is_of_machine(record)) {
                // A file may say anything: no schedule is measured that a compilation would not take.
                match (record.standing(self.target.cpu().map(|target| target.machine)), record.parts()) {
                    (Standing::Illegal(reason), _) | (_, Err(reason)) => {
                        console.note(format!("  record not taken  {}: {reason}", record.name));
                    }
                    (_, Ok((key, _, schedule))) => {
                        known.insert(key, schedule);
                    }
                }
            }
        };
        if self.arguments.target == "native"
            && let Some(kind) = process::machine_kind()
        {
            take(builtin_records(&kind.to_string()).unwrap_or_default(), &|_| true);
        }
        if self.arguments.resume {
            let device = host::device(self.target);
            let mut file = read_known(self.file)?;
            file.keep_best();
            take(file, &|record| record.machine == device);
        }
        if !known.is_empty() {
            console.note(format!("  begins with what was found before for {} of them", known.len()));
        }
        Ok(known)
    }

    /// Writes down the best schedule of a kernel, so that nothing is lost when the search is interrupted.
    pub(super) fn keep(&mut self, contest: &Contest<'_>, console: &Console) -> Result<(), Failure> {
        let Some((schedule, proof)) = &contest.found else { return Ok(()) };
        match Record::new(contest.task, self.target, self.arguments.strict, schedule, *proof) {
            Ok(record) => {
                let record = Record { machine: host::device(self.target), threads: self.arguments.threads, ..record };
                // Another run may have added to it meanwhile.
                let mut known = read_known(self.file)?;
                known.keep(record.clone(), self.written.get(&contest.task.key));
                output_file::write(self.file, &known.to_bytes_with_bad())?;
                // What is there may be the same schedule, better proven by an earlier run; whatever beats one beats both.
                let same = |other: &&Record| other.place() == record.place() && other.schedule == record.schedule;
                let there = known.records.iter().find(same).cloned();
                self.written.insert(contest.task.key, there.unwrap_or(record));
            }
            // It was compiled and measured, so this is a disagreement within infc; the search goes on.
            Err(reason) => console.note(format!("  record not kept  {}: {reason}", contest.task.kernel.name)),
        }
        Ok(())
    }

    /// Takes out what was found for a question of kernel formation and is no longer quicker here.
    pub(super) fn drop_choice(&self, question: KernelKey) -> Result<(), Failure> {
        let mut known = read_known(self.file)?;
        let (question, target, device) = (question.to_string(), self.target.to_string(), host::device(self.target));
        let place =
            (question.as_str(), target.as_str(), device.as_str(), self.arguments.threads, self.arguments.strict);
        known.choices.retain(|choice| choice.place() != place);
        output_file::write(self.file, &known.to_bytes_with_bad())
    }

    /// Writes down a way to form kernels.
    pub(super) fn keep_choice(&self, record: ChoiceRecord) -> Result<(), Failure> {
        let record = ChoiceRecord {
            target: self.target.to_string(),
            machine: host::device(self.target),
            threads: self.arguments.threads,
            strict: self.arguments.strict,
            ..record
        };
        let mut known = read_known(self.file)?;
        known.keep_choice(record);
        output_file::write(self.file, &known.to_bytes_with_bad())
    }
}
