//! What others make of the same on the same machine: PyTorch of kernels and networks, by the script `library.py`, and ONNX Runtime of
//! models, by `onnx_runtime.py`.

use crate::child;
use crate::speed::Case;
use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
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

/// A Python and how long it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Python<'p> {
    /// The command.
    pub command: &'p str,
    /// Whether it computes on the processor, to see that it works.
    pub small: bool,
    /// When what was timed is told, and nothing more is.
    pub deadline: Instant,
}

impl Python<'_> {
    /// Times cases with its PyTorch.
    ///
    /// # Errors
    /// It is there, and says nothing that can be read.
    pub fn cases(&self, cases: &[Case]) -> Result<Answer> {
        let list = cases.iter().map(|case| serde_json::json!({ "name": case.name, "same": case.same }));
        self.ask(include_str!("../scripts/library.py"), None, list.collect())
    }

    /// Times models with its ONNX Runtime, in the numbers that are named as for `--precision`; dims are as in `N=1`.
    ///
    /// # Errors
    /// It is there, and says nothing that can be read.
    pub fn models(&self, models: &[PathBuf], dims: &[String], precision: &str) -> Result<Answer> {
        let dims = dims.iter().filter_map(|dim| dim.split_once('='));
        let dims: BTreeMap<&str, u64> = dims.filter_map(|(name, size)| Some((name, size.parse().ok()?))).collect();
        let list = models.iter().map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            serde_json::json!({ "name": name, "path": path, "dims": dims })
        });
        self.ask(include_str!("../scripts/onnx_runtime.py"), Some(precision), list.collect())
    }

    fn ask(&self, script: &str, more: Option<&str>, list: Vec<Value>) -> Result<Answer> {
        // Loading it may take most of the time there is.
        let left = self.deadline.saturating_duration_since(Instant::now()).saturating_sub(TO_END);
        let end = SystemTime::now().duration_since(UNIX_EPOCH)? + left;
        let mut command = Command::new(self.command);
        let device = if self.small { "cpu" } else { "cuda" };
        command.args(["-c", script, device, &end.as_secs().to_string()]).args(more);
        let Some(said) = child::run_until(&mut command, &serde_json::to_string(&list)?, self.deadline)? else {
            return Ok(Answer::Missing(format!("there is no {}", self.command)));
        };
        match said.status.code() {
            Some(MISSING) => Ok(Answer::Missing(said.errors.trim().to_owned())),
            Some(0) => Ok(Answer::Said(said.output.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)),
            // What it was busy with is lost, a line that it had not finished too.
            None if said.is_late => {
                Ok(Answer::Said(said.output.lines().map_while(|line| serde_json::from_str(line).ok()).collect()))
            }
            _ => bail!("{}: {}", said.status, said.errors),
        }
    }
}
