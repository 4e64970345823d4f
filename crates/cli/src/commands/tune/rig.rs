//! One kernel on the test bench: its default choice as an artifact, and trials of other schedules beside it.

use super::trial::Trial;
use crate::error::CliError;
use crate::failure::Failure;
use infc::{KernelOptions, Target, compile_kernel};
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_tune::Proof;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run launches a kernel so often that it takes about this long.
const RUN_SECONDS: f64 = 300e-6;
/// A trial that takes longer is given up.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// What all kernels share.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Arena<'a> {
    pub(in crate::commands) target: &'a Target,
    pub(in crate::commands) allowed: ErrorClass,
    /// Where artifacts of single kernels lie.
    pub(in crate::commands) folder: &'a Path,
}

/// A kernel whose default choice was measured.
pub(in crate::commands) struct Rig<'a> {
    arena: Arena<'a>,
    kernel: &'a Kernel,
    /// What its files are called.
    name: String,
    symbols: Vec<i64>,
    launches: usize,
    /// The artifact of the default choice.
    pub(in crate::commands) default: PathBuf,
    /// Seconds per launch of the default choice, at its quickest.
    pub(in crate::commands) default_seconds: f64,
}

impl<'a> Rig<'a> {
    /// Compiles and measures the default choice; `None` if that cannot be measured.
    pub(in crate::commands) fn new(kernel: &'a Kernel, name: &str, arena: Arena<'a>) -> Result<Option<Self>, Failure> {
        let mut rig = Self {
            arena,
            kernel,
            name: name.to_owned(),
            symbols: kernel.symbols.iter().map(|symbol| symbol.min.max(1)).collect(),
            launches: 1,
            default: arena.folder.join(format!("{name}.infa")),
            default_seconds: 0.0,
        };
        for _ in 0..2 {
            let artifact = rig.compile(None)?;
            write(&rig.default, &artifact)?;
            let Some(trial) = rig.trial(&rig.default, &rig.default) else { return Ok(None) };
            let seconds = trial.incumbent_seconds / rig.launches as f64;
            rig.default_seconds = seconds;
            rig.launches = ((RUN_SECONDS / seconds.max(1e-9)).ceil() as usize).clamp(1, 1000);
        }
        Ok(Some(rig))
    }

    /// The artifact of a schedule, to be tried; `None` if it cannot be compiled.
    pub(in crate::commands) fn candidate(&self, schedule: &Schedule) -> Result<Option<PathBuf>, Failure> {
        let path = self.arena.folder.join(format!("{}.candidate.infa", self.name));
        let Ok(artifact) = self.compile(Some(schedule)) else { return Ok(None) };
        write(&path, &artifact)?;
        Ok(Some(path))
    }

    /// Measures an artifact beside another, in a process of its own; `None` if it does not finish as it should, or takes too
    /// long.
    pub(in crate::commands) fn trial(&self, candidate: &Path, incumbent: &Path) -> Option<Trial> {
        let symbols: Vec<String> = self.symbols.iter().map(i64::to_string).collect();
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("tune").arg("--trial").arg(candidate).arg(incumbent);
        if !symbols.is_empty() {
            command.args(["--symbols", &symbols.join(",")]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let deadline = Instant::now() + TRIAL_TIMEOUT;
        // Its answer is one short line, which no pipe is too small for.
        let status = loop {
            match child.try_wait().ok()? {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    child.kill().ok()?;
                    child.wait().ok()?;
                    return None;
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let mut text = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut()?, &mut text).ok()?;
        serde_json::from_str(text.lines().last()?).ok().filter(|_| status.success())
    }

    /// What is proven of an artifact beside the default choice; `None` unless it computes the same and is quicker.
    pub(in crate::commands) fn proof(&self, candidate: &Path) -> Option<Proof> {
        let verdict = self.trial(candidate, &self.default)?.verdict().filter(infc_tune::Verdict::is_win)?;
        let (ratio, ratio_at_most) = (verdict.ratio, verdict.at_most);
        Some(Proof { default_seconds: self.default_seconds, ratio, ratio_at_most })
    }

    fn compile(&self, schedule: Option<&Schedule>) -> Result<Vec<u8>, Failure> {
        let options = KernelOptions {
            schedule: schedule.cloned(),
            allowed: self.arena.allowed,
            launches: self.launches,
            ..KernelOptions::new(self.arena.target.clone())
        };
        Ok(compile_kernel(self.kernel, &options)?.artifact)
    }
}

fn write(path: &Path, artifact: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, artifact).map_err(|source| CliError::CannotWrite { path: path.to_owned(), source }.into())
}
