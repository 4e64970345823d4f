//! Records of what was found: one JSON object per line, so that a file can be appended to and merged by hand.

use infc::{KernelKey, Records, Target};
use infc_ir::schedule::Schedule;
use serde::{Deserialize, Serialize};

/// Counts changes of the schedule language after which the text of a schedule means something else.
pub const SPACE_VERSION: u32 = 1;

/// The schema of a line.
const SCHEMA: &str = "infc.record/1";

/// A schedule that was quicker than the default choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `infc.record/1`.
    pub schema: String,
    /// [`SPACE_VERSION`] when it was found.
    pub space: u32,
    /// The [`KernelKey`] as text.
    pub kernel: String,
    /// What the kernel was called; for people.
    pub name: String,
    /// The target that code was made for.
    pub target: String,
    /// The processor that it was measured on; for people.
    pub machine: String,
    /// Threads that it was measured with.
    pub threads: usize,
    /// Whether it was found under `--strict`.
    pub strict: bool,
    /// The steps.
    pub schedule: String,
    /// Seconds per launch.
    pub seconds: f64,
    /// The same of the default choice, measured in turns with it.
    pub default_seconds: f64,
}

/// Why a line is no record that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadRecord {
    /// From 1.
    pub line: usize,
    /// What was expected and found.
    pub reason: String,
}

/// Lines of records, those that cannot be used told apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordFile {
    /// In the order of the file.
    pub records: Vec<Record>,
    /// What was left out, and why.
    pub bad: Vec<BadRecord>,
}

impl RecordFile {
    /// Reads the text of a file. Lines that are no records, of another version, or with a schedule that is none, are left
    /// out and reported; the others count.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut file = Self::default();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match Record::parse(line) {
                Ok(record) => file.records.push(record),
                Err(reason) => file.bad.push(BadRecord { line: n + 1, reason }),
            }
        }
        file
    }

    /// The records in the form that compilations take; of several for one place the quickest in comparison with its
    /// default.
    #[must_use]
    pub fn to_records(&self) -> Records {
        let mut sorted: Vec<&Record> = self.records.iter().collect();
        // The last one counts.
        sorted.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
        let mut records = Records::default();
        for record in sorted {
            if let Ok((key, target, schedule)) = record.parts() {
                records.insert(key, &target, record.strict, schedule);
            }
        }
        records
    }
}

impl Record {
    /// A record of this version.
    #[must_use]
    pub fn new(kernel: KernelKey, name: &str, target: &Target, schedule: &Schedule) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            space: SPACE_VERSION,
            kernel: kernel.to_string(),
            name: name.to_owned(),
            target: target.to_string(),
            machine: String::new(),
            threads: 1,
            strict: false,
            schedule: schedule.to_string(),
            seconds: 0.0,
            default_seconds: 0.0,
        }
    }

    /// The line, with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Its time over that of the default; smaller is better.
    fn gain(&self) -> f64 {
        self.seconds / self.default_seconds.max(f64::MIN_POSITIVE)
    }

    fn parse(line: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if record.schema != SCHEMA || record.space != SPACE_VERSION {
            let found = format!("{} of version {}", record.schema, record.space);
            return Err(format!("expected {SCHEMA} of version {SPACE_VERSION}, found {found}"));
        }
        record.parts().map(|_| record)
    }

    fn parts(&self) -> Result<(KernelKey, Target, Schedule), String> {
        let key = self.kernel.parse().map_err(|error| format!("kernel `{}`: {error}", self.kernel))?;
        let target = self.target.parse().map_err(|error| format!("target `{}`: {error}", self.target))?;
        let schedule = self.schedule.parse().map_err(|error| format!("schedule: {error}"))?;
        Ok((key, target, schedule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(schedule: &str, seconds: f64) -> Record {
        let key = KernelKey::of(&infc_testkit::kernel("matmul"));
        let target = "x86-64-v3".parse().expect("a target");
        let schedule = schedule.parse().expect("a schedule");
        Record { seconds, default_seconds: 2.0, ..Record::new(key, "matmul", &target, &schedule) }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = record("unroll s.k", 1.5);
        let file = RecordFile::parse(&format!("{}\n", written.to_line()));
        assert_eq!((file.records, file.bad), (vec![written], Vec::new()));
    }

    #[test]
    fn the_quickest_counts_and_wrong_lines_are_told() {
        let good = [record("unroll s.k", 1.5), record("unroll s.m", 1.0), record("unroll s.n", 1.9)];
        let mut text: String = good.iter().map(Record::to_line).collect();
        text += "{\"schema\": 1}\nnot json\n";
        text += &Record { space: 99, ..good[0].clone() }.to_line();
        text += &Record { kernel: "zz".repeat(32), ..good[0].clone() }.to_line();
        text += &Record { target: "z80".to_owned(), ..good[0].clone() }.to_line();
        text += &Record { schedule: "unrol s.k".to_owned(), ..good[0].clone() }.to_line();
        let file = RecordFile::parse(&text);
        assert_eq!(file.records, good);
        assert_eq!(file.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9]);
        assert!(file.bad[2].reason.contains("version 99"), "{:?}", file.bad);
        let only = RecordFile { records: vec![good[1].clone()], bad: Vec::new() };
        assert_eq!(file.to_records(), only.to_records());
        assert_eq!(file.to_records().len(), 1);
    }
}
