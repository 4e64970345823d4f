//! What a library makes of the same kernels and of networks on the same machine: PyTorch, by the script `library.py`.

use crate::child;
use crate::speed::Case;
use anyhow::{Result, bail};
use serde::Deserialize;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The library, or what it needs, is missing: the exit code that the script has for that.
const MISSING: i32 = 7;
/// What the script has to end itself.
const TO_END: Duration = Duration::from_secs(3);

/// Something that the library was timed at.
#[derive(Clone, Debug, Deserialize)]
pub struct Timed {
    /// A case, or a network and the way it is run.
    pub name: String,
    /// Milliseconds of one; `None` if it failed.
    pub ms: Option<f64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What came of asking.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The times.
    Said(Vec<Timed>),
    /// There is no such library here, or no Python.
    Missing(String),
}

/// Times cases with a Python's PyTorch; `small` on the processor, to see that it works. What was timed when the deadline came is
/// told.
///
/// # Errors
/// It is there, and says nothing that can be read.
pub fn ask(python: &str, cases: &[Case], small: bool, deadline: Instant) -> Result<Answer> {
    let list: Vec<serde_json::Value> =
        cases.iter().map(|case| serde_json::json!({ "name": case.name, "same": case.same })).collect();
    // Loading it may take most of the time there is.
    let left = deadline.saturating_duration_since(Instant::now()).saturating_sub(TO_END);
    let end = SystemTime::now().duration_since(UNIX_EPOCH)? + left;
    let mut command = Command::new(python);
    let device = if small { "cpu" } else { "cuda" };
    command.args(["-c", include_str!("../library.py"), device, &end.as_secs().to_string()]);
    let Some(said) = child::run(&mut command, &serde_json::to_string(&list)?, deadline)? else {
        return Ok(Answer::Missing(format!("there is no {python}")));
    };
    match said.status.code() {
        Some(MISSING) => Ok(Answer::Missing(said.errors.trim().to_owned())),
        Some(0) => Ok(Answer::Said(said.output.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)),
        _ => bail!("{}: {}", said.status, said.errors),
    }
}
