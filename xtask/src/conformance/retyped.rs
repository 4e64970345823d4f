//! ONNX's cases with other element types (`tests/conformance/retype.py`), held to the list of those that do not pass.

use super::{details, generate_with};
use anyhow::{Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Types are a matter of import and of definitions, so one level is enough.
const TARGETS: [&str; 2] = ["x86-64-v3", "reference"];

const HEAD: &str = "# Of ONNX's cases with other element types, those that do not pass: target, case, why (cargo xtask conformance --bless).
# Definitions that round halves after every step, and types that a case's values do not fit, are among them.
";

/// Runs them, made of `cases`, and compares with the list, or writes it anew.
///
/// # Errors
/// Cases that are not in the list fail.
#[expect(clippy::print_stdout, reason = "the summary is output of the task")]
pub(super) fn run(infc: &Path, cases: &Path, python: Option<&Path>, list: &Path, bless: bool) -> Result<()> {
    let folder = cases.with_extension("retyped");
    if !folder.is_dir() {
        generate_with(python, "retype.py", &[cases], &folder)?;
    }
    let found = details(infc, &folder, None, &TARGETS)?;
    let outcome = |result: &Value, target: &str| result["targets"][target].as_str().unwrap_or("not-run").to_owned();
    let lines = found.iter().flat_map(|(name, result)| {
        TARGETS.iter().map(move |target| (*target, name, outcome(result, target))).filter(|(.., why)| why != "pass")
    });
    let failing: BTreeSet<String> = lines.map(|(target, name, why)| format!("{target} {name} {why}")).collect();
    let passing = found.len() * TARGETS.len() - failing.len();
    println!("{passing} of {} pass with other element types ({})", found.len() * TARGETS.len(), TARGETS.join(", "));
    if bless {
        let all: String = failing.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(list, format!("{HEAD}{all}"))?;
        return Ok(());
    }
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let known: BTreeSet<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let better = known.difference(&failing).count();
    if better > 0 {
        println!("{better} of them are better than {} says: cargo xtask conformance --bless", list.display());
    }
    let worse: Vec<&str> = failing.difference(&known).map(String::as_str).collect();
    if worse.is_empty() {
        return Ok(());
    }
    bail!("{} cases with other element types are not in the list:\n  {}", worse.len(), worse.join("\n  "))
}
