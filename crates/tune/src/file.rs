//! Files of records: one JSON object per line, so that a file can be appended to and merged by hand.

use crate::choice::{self, ChoiceRecord};
use crate::proven::Proven;
use crate::record::{self, Record};
use infc::Records;
use std::collections::BTreeMap;

/// Why a line is no record that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct BadRecord {
    /// From 1.
    pub line: usize,
    /// What was expected and found.
    pub reason: String,
    /// The line, without its end; it need not be text.
    pub bytes: Vec<u8>,
}

impl BadRecord {
    /// Whether it names the schema of records, of any version.
    fn is_of_records(&self) -> bool {
        let names = |family: &str| self.bytes.windows(family.len()).any(|bytes| bytes == family.as_bytes());
        names(record::SCHEMA_FAMILY) || names(choice::SCHEMA_FAMILY)
    }
}

/// Lines of records, those that cannot be used told apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordFile {
    /// In the order of the file.
    pub records: Vec<Record>,
    /// Of ways to form kernels, in the order of the file.
    pub choices: Vec<ChoiceRecord>,
    /// What was left out, and why.
    pub bad: Vec<BadRecord>,
}

impl RecordFile {
    /// Reads the bytes of a file. Lines that are no records, of another version, or with a schedule that is none, are left
    /// out and reported; the others count.
    #[must_use]
    pub fn parse(bytes: impl AsRef<[u8]>) -> Self {
        let mut file = Self::default();
        let lines = bytes.as_ref().split(|&byte| byte == b'\n').enumerate();
        for (n, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            let read = std::str::from_utf8(line).map_err(|error| error.to_string());
            if let Err(reason) = read.and_then(|line| file.take(line)) {
                file.bad.push(BadRecord { line: n + 1, reason, bytes: line.to_owned() });
            }
        }
        file
    }

    /// Reads a line of either kind.
    fn take(&mut self, line: &str) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct Head {
            schema: String,
        }
        let is_choice = |head: Head| head.schema.starts_with(choice::SCHEMA_FAMILY);
        if serde_json::from_str(line).is_ok_and(is_choice) {
            self.choices.push(ChoiceRecord::parse(line)?);
        } else {
            self.records.push(Record::parse(line)?);
        }
        Ok(())
    }

    /// Whether there is no record of either kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records there are of both kinds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len() + self.choices.len()
    }

    /// Whether what was read is something else than a file of records: not empty, and no line is a record, not even of
    /// another version or a damaged one.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.is_empty() && !self.bad.is_empty() && self.bad.iter().all(|bad| !bad.is_of_records())
    }

    /// The lines of all records, and those that cannot be used as they were: an older or a newer infc may read them.
    #[must_use]
    pub fn to_bytes_with_bad(&self) -> Vec<u8> {
        let mut bytes = self.to_text().into_bytes();
        for bad in &self.bad {
            bytes.extend_from_slice(&bad.bytes);
            bytes.push(b'\n');
        }
        bytes
    }

    /// Takes a record in, unless there is a better one for its place ([`Record::place`]) that was measured beside the same
    /// code of the default choice. `beaten` is a record that this one was quicker than when they took turns, which counts
    /// more than what either gained over the default.
    pub fn keep(&mut self, record: Record, beaten: Option<&Record>) {
        let is_better = |other: &Record| {
            other.default_code == record.default_code && other.is_better_than(&record) && Some(other) != beaten
        };
        let of_place = |other: &Record| other.place() == record.place();
        if !self.records.iter().any(|other| of_place(other) && is_better(other)) {
            self.records.retain(|other| !of_place(other));
            self.records.push(record);
        }
    }

    /// Takes a record of a choice in, in place of what there was for its place: it was measured with that, or without.
    pub fn keep_choice(&mut self, record: ChoiceRecord) {
        self.choices.retain(|other| other.place() != record.place());
        self.choices.push(record);
    }

    /// The lines of all records.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.records.iter().map(Record::to_line).chain(self.choices.iter().map(ChoiceRecord::to_line)).collect()
    }

    /// Keeps the best record of every place ([`Record::place`]), sorted by it: the same result whatever the order of the
    /// records was before. Says how many were left out.
    pub fn keep_best(&mut self) -> usize {
        let before = self.len();
        self.records = best_of_each(&self.records, Record::place, Record::is_better_than);
        self.choices = best_of_each(&self.choices, ChoiceRecord::place, ChoiceRecord::is_better_than);
        before - self.len()
    }

    /// Leaves of the choices, of several for one question, target and strictness, the one that compilations take, as of schedules
    /// ([`RecordFile::to_records`]).
    pub fn keep_taken(&mut self, threads: Option<usize>) {
        self.choices =
            best_of_each(&self.choices, |r| (&r.question, &r.target, r.strict), |a, b| a.is_taken_before(b, threads));
    }

    /// The records in the form that compilations take; of several for one kernel, target and strictness the one that was
    /// measured with so many threads, if there is such, and else the one that is proven to be the quickest in comparison
    /// with its default.
    #[must_use]
    pub fn to_records(&self, threads: Option<usize>) -> Records {
        let mut records = Records::default();
        let before = |a: &Record, b: &Record| a.is_taken_before(b, threads);
        for record in best_of_each(&self.records, |r| (&r.kernel, &r.target, r.strict), before) {
            if let Ok((key, target, schedule)) = record.parts() {
                records.insert(key, &target, record.strict, schedule);
            }
        }
        let mut taken = Self { choices: self.choices.clone(), ..Self::default() };
        taken.keep_taken(threads);
        for record in taken.choices {
            if let Ok((key, target, way)) = record.parts() {
                records.settle(key, &target, record.strict, way);
            }
        }
        records
    }
}

/// The best record of each place, sorted by it.
fn best_of_each<'r, R: Clone, P: Ord>(
    records: &'r [R],
    place: impl Fn(&'r R) -> P,
    is_better: impl Fn(&R, &R) -> bool,
) -> Vec<R> {
    let mut best: BTreeMap<P, &R> = BTreeMap::new();
    for record in records {
        let kept = best.entry(place(record)).or_insert(record);
        if is_better(record, kept) {
            *kept = record;
        }
    }
    best.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Proof, Standing};
    use infc::{Task, key_text};

    fn task(kernel: &str) -> Task {
        let kernel = infc_testkit::kernel(kernel);
        let text = key_text(&kernel);
        let key = infc::KernelKey::of_text(&text);
        Task { key, kernel: infc::recorded_kernel(&text).expect("a kernel"), text, origins: Vec::new(), launches: 1 }
    }

    fn record(schedule: &str, ratio: f64) -> Record {
        let proof = Proof { default_seconds: 2.0, ratio, ratio_at_most: ratio * 1.01 };
        let target = "x86-64-v3".parse().expect("a target");
        let schedule = schedule.parse().expect("a schedule");
        let record = Record::new(&task("max_pool"), &target, false, &schedule, proof).expect("it is legal");
        Record { machine: "Abacus".to_owned(), ..record }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = record("unroll m.r", 0.75);
        let file = RecordFile::parse(format!("{}\n", written.to_line()));
        assert_eq!((file.records, file.bad), (vec![written], Vec::new()));
    }

    #[test]
    fn the_quickest_counts_and_wrong_lines_are_told() {
        let good = [record("unroll m.r", 0.75), record("unroll m.s", 0.5), record("", 0.9)];
        let with = |change: &dyn Fn(&mut Record)| {
            let mut record = good[0].clone();
            change(&mut record);
            record.to_line()
        };
        let mut text: String = good.iter().map(Record::to_line).collect();
        let bad = [
            "{\"schema\": 1}\n".to_owned(),
            "not json\n".to_owned(),
            with(&|r| r.space = 99),
            with(&|r| r.schema = "infc.record/1".to_owned()),
            with(&|r| r.kernel = "zz".repeat(32)),
            with(&|r| r.target = "z80".to_owned()),
            with(&|r| r.schedule = "unrol s.k".to_owned()),
            with(&|r| r.text.push(' ')),
            with(&|r| r.seconds = 0.0),
            // JSON has no such numbers.
            with(&|r| r.ratio_at_most = f64::NAN),
            with(&|r| r.ratio_at_most = 1.0),
            with(&|r| r.seconds = r.default_seconds * 0.8),
            with(&|r| r.seconds = f64::MAX),
            with(&|r| r.threads = 0),
            // The same key and target in another way.
            with(&|r| r.kernel = r.kernel.to_uppercase()),
            with(&|r| r.kernel.replace_range(..1, "+")),
            with(&|r| r.target = "x86-64-v4+bf16+vnni".to_owned()),
        ];
        text.extend(bad);
        let file = RecordFile::parse(&text);
        assert_eq!(file.records, good);
        assert_eq!(file.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), (4..21).collect::<Vec<_>>());
        for (n, said) in [
            (2, "version 99"),
            (3, "found infc.record/1"),
            (7, "the text is that of"),
            (8, "above 0"),
            (10, "below 1"),
            (11, "ratio_at_most"),
            (13, "threads"),
            (14, "expected `"),
            (15, "hexadecimal"),
            (16, "expected `x86-64-v4+vnni+bf16`"),
        ] {
            assert!(file.bad[n].reason.contains(said), "{:?}", file.bad[n]);
        }
        let only = RecordFile { records: vec![good[1].clone()], ..RecordFile::default() };
        assert_eq!(file.to_records(None), only.to_records(None));
        assert_eq!(file.to_records(None).len(), 1);
    }

    #[test]
    fn the_better_proven_is_kept_whatever_the_order() {
        let likely = Record { ratio_at_most: 0.99, ..record("unroll m.r", 0.5) };
        let proven = record("unroll m.s", 0.75);
        let elsewhere = Record { machine: "Another".to_owned(), ..likely.clone() };
        let two = Record { threads: 2, ..likely.clone() };
        let all = [likely, proven.clone(), elsewhere.clone(), two.clone()];
        for shift in 0..all.len() {
            let mut records = all.to_vec();
            records.rotate_left(shift);
            let mut file = RecordFile { records, ..RecordFile::default() };
            assert_eq!(file.keep_best(), 1);
            assert_eq!(file.records, [proven.clone(), two.clone(), elsewhere.clone()]);
            assert_eq!(file.keep_best(), 0);
        }
    }

    #[test]
    fn records_of_as_many_threads_come_first() {
        let (one, two) = (record("unroll m.r", 0.5), Record { threads: 2, ..record("unroll m.s", 0.75) });
        let alone =
            |record: &Record| RecordFile { records: vec![record.clone()], ..RecordFile::default() }.to_records(None);
        for records in [vec![one.clone(), two.clone()], vec![two.clone(), one.clone()]] {
            let file = RecordFile { records, ..RecordFile::default() };
            assert_eq!(file.to_records(Some(2)), alone(&two));
            for other in [None, Some(1), Some(16)] {
                assert_eq!(file.to_records(other), alone(&one), "{other:?}");
            }
        }
    }

    #[test]
    fn a_worse_record_takes_no_place() {
        let (good, worse) = (record("unroll m.r", 0.5), record("unroll m.s", 0.75));
        let after = |known: &Record, new: &Record, beaten: Option<&Record>| {
            let mut file = RecordFile { records: vec![known.clone()], ..RecordFile::default() };
            file.keep(new.clone(), beaten);
            file.records
        };
        assert_eq!(after(&good, &worse, None), std::slice::from_ref(&good));
        assert_eq!(after(&worse, &good, None), std::slice::from_ref(&good));
        // It took turns with the other, and was quicker.
        assert_eq!(after(&good, &worse, Some(&good)), std::slice::from_ref(&worse));
        // What was gained over another default says nothing.
        let before = Record { default_code: "0".repeat(64), ..good.clone() };
        assert_eq!(after(&before, &worse, None), std::slice::from_ref(&worse));
        let elsewhere = Record { machine: "Another".to_owned(), ..good };
        assert_eq!(after(&elsewhere, &worse, None), [elsewhere.clone(), worse]);
    }

    #[test]
    fn other_files_are_told_from_records() {
        let line = record("", 0.5).to_line();
        let foreign = |text: &str| RecordFile::parse(text).is_foreign();
        assert!(foreign("\u{8}\u{1}onnx\nmore of it") && foreign("{}"));
        assert!(!foreign("") && !foreign("\n") && !foreign(&format!("garbage\n{line}")));
        assert!(!foreign(&line[..line.len() / 2]), "the end is missing");
        let newer = line.replace("infc.record/2", "infc.record/3");
        assert!(!foreign(&newer));
        let text = [line.as_bytes(), newer.as_bytes(), b"garbage\n\xff\xfe no text \xc3\n"].concat();
        let file = RecordFile::parse(&text);
        assert_eq!(file.to_bytes_with_bad(), text);
        assert_eq!(file.to_text(), line);
        assert!(file.bad[2].reason.contains("utf-8") && file.bad[2].line == 4, "{:?}", file.bad[2]);
    }

    #[test]
    fn records_stand_as_long_as_the_code_does() {
        let record = record("unroll m.r", 0.75);
        assert_eq!(record.standing(None), Standing::Measured);
        let before = Record { code: "0".repeat(64), ..record.clone() };
        assert!(matches!(before.standing(None), Standing::Changed(now) if now.code == record.code));
        // The code of the default choice is that for another machine.
        let target: infc::Target = record.target.parse().expect("a target");
        let small = infc::MachineModel { vector_bits: target.machine.vector_bits / 2, ..target.machine };
        assert!(matches!(record.standing(Some(small)), Standing::Changed(now) if now.code == record.code));
        let default = Record { default_code: "0".repeat(64), ..record.clone() };
        assert!(matches!(default.standing(None), Standing::Changed(now) if now.default_code == record.default_code));
        let illegal = Record { schedule: "unroll nothing.x".to_owned(), ..record.clone() };
        assert!(matches!(illegal.standing(None), Standing::Illegal(reason) if reason.contains("nothing")));
        let broken = Record { text: "kernel @".to_owned(), ..record };
        assert!(matches!(broken.standing(None), Standing::Illegal(reason) if reason.contains("the kernel's text")));
    }

    /// A record of a choice, for a place of its own.
    fn choice(question: &str, ratio: f64) -> ChoiceRecord {
        let choice = infc::Choice {
            question: question.to_owned(),
            ways: vec![infc::Way::Together, infc::Way::Apart],
            taken: infc::Way::Together,
            answer: None,
            origins: vec!["/Add".to_owned()],
        };
        let proof = Proof { default_seconds: 2.0, ratio, ratio_at_most: ratio * 1.01 };
        let record = ChoiceRecord::new(&choice, infc::Way::Apart, proof);
        ChoiceRecord { target: "x86-64-v3".to_owned(), machine: "Abacus".to_owned(), ..record }
    }

    /// Both kinds of records lie in one file, and what is wrong of either is told.
    #[test]
    fn choices_lie_beside_schedules() {
        let (schedule, first, second) =
            (record("unroll m.r", 0.75), choice("layout\na", 0.9), choice("layout\nb", 0.8));
        let newer = first.to_line().replace("infc.choice/1", "infc.choice/2");
        let text = [first.to_line(), schedule.to_line(), newer.clone(), second.to_line()].concat();
        let mut file = RecordFile::parse(&text);
        assert_eq!((file.len(), file.records.len(), file.choices.len(), file.bad.len()), (3, 1, 2, 1));
        assert!(file.bad[0].line == 3 && file.bad[0].reason.contains("infc.choice/2"), "{:?}", file.bad);
        assert_eq!(file.to_bytes_with_bad(), [file.to_text(), newer.clone()].concat().into_bytes());
        assert!(!RecordFile::parse(&newer).is_foreign() && !RecordFile::parse(first.to_line()).is_foreign());
        assert_eq!(file.to_records(None).len(), 3);
        // The better one of a place is kept; what is measured now replaces what was.
        let better = choice("layout\na", 0.5);
        file.choices.push(better.clone());
        assert_eq!(file.keep_best(), 1);
        assert!(file.choices.contains(&better) && !file.choices.contains(&first));
        file.keep_choice(first.clone());
        assert!(file.choices.contains(&first) && !file.choices.contains(&better) && file.len() == 3);
    }
}
