//! ONNX's cases, changed in one way or another, held to lists of those that do not pass.

use super::{details, generate_with};
use crate::workspace;
use anyhow::{Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A way to change cases.
struct Change {
    /// What makes them, in `tests/conformance`.
    script: &'static str,
    /// The folder beside that of the cases ends in this, and the list is called so.
    name: &'static str,
    /// Of which kind they are, in a sentence.
    what: &'static str,
    /// One level is enough where import and definitions matter.
    targets: &'static [&'static str],
    head: &'static str,
}

const CHANGES: [Change; 2] = [
    Change {
        script: "retype.py",
        name: "retyped",
        what: "with other element types",
        targets: &["x86-64-v3", "reference"],
        head: "# Of ONNX's cases with other element types, those that do not pass: target, case, why (cargo xtask conformance --bless).
# Definitions that round halves after every step, and types that a case's values do not fit, are among them.
",
    },
    Change {
        script: "unrank.py",
        name: "unranked",
        what: "without any rank that is declared",
        targets: &["x86-64-v3"],
        head: "# Of ONNX's cases with inputs and outputs of any rank, those that do not pass: target, case, why (cargo xtask conformance --bless).
# Those that do not pass with ranks either are among them.
",
    },
];

/// Runs all changes of some cases.
///
/// # Errors
/// As [`Change::run`].
pub(super) fn run_all(infc: &Path, cases: &Path, python: Option<&Path>, bless: bool) -> Result<()> {
    CHANGES.iter().try_for_each(|change| change.run(infc, cases, python, bless))
}

impl Change {
    /// Runs them, made of `cases`, and compares with the list, or writes it anew.
    ///
    /// # Errors
    /// Cases that are not in the list fail.
    #[expect(clippy::print_stdout, reason = "the summary is output of the task")]
    fn run(&self, infc: &Path, cases: &Path, python: Option<&Path>, bless: bool) -> Result<()> {
        let Self { script, name, what, targets, head } = self;
        let list = workspace::root().join(format!("tests/conformance/{name}.txt"));
        let folder = cases.with_extension(name);
        if !folder.is_dir() {
            generate_with(python, script, &[cases], &folder)?;
        }
        let found = details(infc, &folder, None, targets)?;
        let outcome = |result: &Value, target: &str| result["targets"][target].as_str().unwrap_or("not-run").to_owned();
        let lines = found.iter().flat_map(|(name, result)| {
            targets.iter().map(move |target| (*target, name, outcome(result, target))).filter(|(.., why)| why != "pass")
        });
        let failing: BTreeSet<String> = lines.map(|(target, name, why)| format!("{target} {name} {why}")).collect();
        let passing = found.len() * targets.len() - failing.len();
        println!("{passing} of {} pass {what} ({})", found.len() * targets.len(), targets.join(", "));
        if bless {
            let all: String = failing.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&list, format!("{head}{all}"))?;
            return Ok(());
        }
        let text = std::fs::read_to_string(&list).unwrap_or_default();
        let known: BTreeSet<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let better = known.difference(&failing).count();
        if better > 0 {
            println!("{better} of them are better than {} says: cargo xtask conformance --bless", list.display());
        }
        let worse: Vec<&str> = failing.difference(&known).map(String::as_str).collect();
        if worse.is_empty() {
            return Ok(());
        }
        bail!("{} cases {what} are not in the list:\n  {}", worse.len(), worse.join("\n  "))
    }
}
