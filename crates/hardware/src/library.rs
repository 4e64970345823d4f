//! What a library makes of the same kernels and of networks on the same machine: PyTorch, by the script `library.py`.

use crate::speed::Case;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// A module is missing: the exit code that the script has for that.
const MISSING: i32 = 7;

/// How long the library took.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Said {
    /// Microseconds of a kernel, by the name of its case.
    pub kernels: BTreeMap<String, f64>,
    /// Milliseconds of a run, by model and way.
    pub models: BTreeMap<String, f64>,
}

/// What came of asking.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The times.
    Said(Said),
    /// There is no such library here, or no Python.
    Missing(String),
}

/// Times cases with a Python's PyTorch; `small` on the processor, to see that it works.
///
/// # Errors
/// It is there, and fails.
pub fn ask(python: &str, cases: &[Case], small: bool) -> Result<Answer> {
    let list: Vec<serde_json::Value> =
        cases.iter().map(|case| serde_json::json!({ "name": case.name, "same": case.same })).collect();
    let mut command = Command::new(python);
    command.args(["-c", include_str!("../library.py"), if small { "cpu" } else { "cuda" }]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Answer::Missing(format!("there is no {python}")));
        }
        child => child.with_context(|| python.to_owned())?,
    };
    child.stdin.take().context("a pipe")?.write_all(serde_json::to_string(&list)?.as_bytes())?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(Answer::Said(serde_json::from_slice(&output.stdout).context("what library.py says")?)),
        Some(MISSING) => Ok(Answer::Missing(errors.trim().to_owned())),
        _ => bail!("{}: {errors}", output.status),
    }
}
