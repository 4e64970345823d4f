//! The list of cases and what became of them, as a file that people read and that diffs well.
//!
//! ```text
//! # comment
//! node/test_abs   pass pass pass pass pass native
//! node/test_topk  onnx::unsupported-operator(TopK) = = = pass -
//! ```
//!
//! Columns are the targets in order, then what computes the nodes: `native`, `mixed`, `host`, or `-` for a model that was
//! not compiled. `=` is what stands to its left. `runtime::gpu-time-limit` are cases of more instructions than
//! `infc-simulated` executes (`STEP_LIMIT` there).

use super::{GPU, TARGETS};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

pub(super) const PASS: &str = "pass";
pub(super) const NOT_RUN: &str = "not-run";

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Per target.
    pub(super) columns: [String; TARGETS.len()],
    /// What computes the nodes.
    pub(super) runs: String,
}

/// All cases by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) rows: BTreeMap<String, Row>,
}

impl Status {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut rows = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let rest: Vec<&str> = words.collect();
            let [columns @ .., runs] = rest.as_slice() else { bail!("`{line}` has no columns") };
            let mut filled: Vec<String> = Vec::new();
            for &word in columns {
                let word = if word == "=" { filled.last().cloned() } else { Some(word.to_owned()) };
                filled.push(word.with_context(|| format!("`{line}` begins with ="))?);
            }
            let Ok(columns) = <[String; TARGETS.len()]>::try_from(filled) else {
                bail!("`{line}` should have {} columns", TARGETS.len() + 1);
            };
            rows.insert(name, Row { columns, runs: (*runs).to_owned() });
        }
        Ok(Self { rows })
    }

    /// The cases that are good here and worse in `other`; those that are not there count only if `complete`.
    pub(super) fn worse_in(&self, other: &Self, complete: bool) -> Vec<String> {
        let mut worse = Vec::new();
        for (name, row) in &self.rows {
            let Some(new) = other.rows.get(name) else {
                if complete {
                    worse.push(format!("{name} is gone"));
                }
                continue;
            };
            for (target, (old, new)) in TARGETS.iter().zip(row.columns.iter().zip(&new.columns)) {
                // A machine may lack a processor's instructions, but never the simulator of GPUs.
                if old == PASS && new != PASS && (new != NOT_RUN || *target == GPU) {
                    worse.push(format!("{name} on {target}: {new}"));
                }
            }
            if share(&new.runs) < share(&row.runs) && new.columns.iter().any(|column| column == PASS) {
                worse.push(format!("{name}: {} instead of {}", new.runs, row.runs));
            }
        }
        worse
    }

    /// The list with what was found now. Columns that could not be run here stay as they were.
    pub(super) fn updated_by(mut self, found: Self, complete: bool) -> Self {
        if complete {
            self.rows.retain(|name, _| found.rows.contains_key(name));
        }
        for (name, mut row) in found.rows {
            if let Some(old) = self.rows.get(&name) {
                for (new, old) in row.columns.iter_mut().zip(&old.columns).filter(|(new, _)| *new == NOT_RUN) {
                    new.clone_from(old);
                }
            }
            self.rows.insert(name, row);
        }
        self
    }

    /// How many pass per target, and the reasons of those that do not, the most frequent first.
    pub(super) fn summary(&self) -> String {
        const SHOWN: usize = 60;
        let mut text = String::new();
        for (n, target) in TARGETS.iter().enumerate() {
            let passed = self.rows.values().filter(|row| row.columns[n] == PASS).count();
            let _ = writeln!(text, "{target:10} {passed:5} of {} pass", self.rows.len());
        }
        let native = self.rows.values().filter(|row| row.runs == "native").count();
        let _ = writeln!(text, "{:10} {native:5} compile to kernels alone", "native");
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows.values() {
            let compiled = &row.columns[..TARGETS.len() - 1];
            if let Some(reason) = compiled.iter().find(|column| *column != PASS && *column != NOT_RUN) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
        let _ = writeln!(text);
        for (reason, count) in reasons.iter().take(SHOWN) {
            let _ = writeln!(text, "{count:5}  {reason}");
        }
        if reasons.len() > SHOWN {
            let rest: usize = reasons[SHOWN..].iter().map(|(_, count)| count).sum();
            let _ = writeln!(text, "{rest:5}  for {} other reasons", reasons.len() - SHOWN);
        }
        text
    }
}

/// How much of a model the kernels compute.
fn share(runs: &str) -> u8 {
    match runs {
        "native" => 3,
        "mixed" => 2,
        "host" => 1,
        _ => 0,
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What becomes of ONNX's conformance cases: cargo xtask conformance --bless writes this list, and"
        )?;
        writeln!(f, "# xtask/src/conformance/status.rs says how to read it. A change for the worse fails in .ci/run.")?;
        writeln!(f, "#\n# case: {}, what computes the nodes", TARGETS.join(", "))?;
        for (name, row) in &self.rows {
            write!(f, "{name}")?;
            for (n, column) in row.columns.iter().enumerate() {
                let same = n > 0 && *column == row.columns[n - 1] && column != PASS;
                write!(f, " {}", if same { "=" } else { column })?;
            }
            writeln!(f, " {}", row.runs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Status {
        Status::parse(text).expect("well formed")
    }

    #[test]
    fn lists_read_as_they_are_written() {
        let list = status("# x\n\na pass pass pass pass pass native\nb onnx::cycle = = = pass -\n");
        assert_eq!(
            list.rows["b"].columns,
            ["onnx::cycle", "onnx::cycle", "onnx::cycle", "onnx::cycle", "pass"].map(str::to_owned)
        );
        assert_eq!(status(&list.to_string()), list);
        assert!(list.to_string().contains("\nb onnx::cycle = = = pass -\n"));
        assert!(Status::parse("a pass native").is_err() && Status::parse("a = = = = = -").is_err());
        assert!(list.summary().contains("1  onnx::cycle"));
    }

    #[test]
    fn what_got_worse() {
        let old = status("a pass pass pass pass pass native\nb x x x x pass -\n");
        assert!(old.worse_in(&old, true).is_empty());
        let worse = |text: &str, complete| old.worse_in(&status(text), complete).len();
        assert_eq!(worse("a pass crash pass pass pass native\nb pass pass pass pass pass host", true), 1);
        assert_eq!(worse("a pass pass not-run pass pass native\nb y y y y pass -", true), 0);
        assert_eq!(worse("a pass pass pass pass pass mixed\nb x x x x pass -", true), 1);
        assert_eq!((worse("b x x x x pass -", true), worse("b x x x x pass -", false)), (1, 0));
        let updated = old.clone().updated_by(status("a pass pass not-run pass pass native"), false);
        assert_eq!(updated, old);
        assert_eq!(old.updated_by(status("a pass pass pass pass x native"), true).rows.len(), 1);
    }
}
