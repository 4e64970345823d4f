//! The contest of schedules for one kernel: who is the best so far, and what beats it.

use super::trial::Trial;
use crate::error::CliError;
use crate::failure::Failure;
use infc::{KernelOptions, Target, Task, compile_kernel};
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::Machine;
use infc_tune::{Record, Search, Verdict};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run launches a kernel so often that it takes about this long.
const RUN_SECONDS: f64 = 300e-6;
/// A trial that takes longer is given up.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// What all contests share.
pub(super) struct Arena<'a> {
    pub(super) target: &'a Target,
    pub(super) allowed: ErrorClass,
    /// Where artifacts of single kernels lie.
    pub(super) folder: &'a Path,
}

/// How a proposal did.
pub(super) enum Outcome {
    /// Quicker than the best so far, which it is now.
    Win,
    /// Not quicker, or not beyond the noise.
    Loss,
    /// It could not be compiled or measured, or computes something else.
    Failed,
    /// There is nothing left to be tried.
    Exhausted,
}

/// The search for one kernel.
pub(super) struct Contest<'t> {
    pub(super) task: &'t Task,
    search: Search<'t>,
    symbols: Vec<i64>,
    launches: usize,
    /// Of the best so far.
    best: PathBuf,
    pub(super) schedule: Option<Schedule>,
    /// Seconds per launch of the default.
    pub(super) default_seconds: f64,
    /// The best's time over the default's.
    pub(super) relative: f64,
    pub(super) trials: u64,
    pub(super) failed: u64,
    /// Trials since the last win.
    stale: u64,
    pub(super) exhausted: bool,
}

impl<'t> Contest<'t> {
    /// Measures the default choice.
    pub(super) fn new(task: &'t Task, machine: &'t Machine, arena: &Arena<'_>, seed: u64) -> Result<Self, Failure> {
        let mut contest = Self {
            task,
            search: Search::new(&task.kernel, machine, arena.allowed, seed),
            symbols: task.kernel.symbols.iter().map(|symbol| symbol.min.max(1)).collect(),
            launches: 1,
            best: arena.folder.join(format!("{}.infa", task.key)),
            schedule: None,
            default_seconds: 0.0,
            relative: 1.0,
            trials: 0,
            failed: 0,
            stale: 0,
            exhausted: false,
        };
        for _ in 0..2 {
            let artifact = contest.compile(None, arena)?;
            std::fs::write(&contest.best, artifact).map_err(|e| cannot_write(&contest.best, e))?;
            let trial = contest.trial(&contest.best);
            let Some(trial) = trial else {
                contest.exhausted = true;
                return Ok(contest);
            };
            let seconds = trial.incumbent_seconds / contest.launches as f64;
            contest.default_seconds = seconds;
            contest.launches = ((RUN_SECONDS / seconds.max(1e-9)).ceil() as usize).clamp(1, 1000);
        }
        Ok(contest)
    }

    /// The part of a run of the model that this kernel takes, in seconds.
    pub(super) fn share_seconds(&self) -> f64 {
        self.default_seconds * self.relative * self.task.launches as f64
    }

    /// How much is to be hoped for of one more trial: less, the longer nothing was won.
    pub(super) fn hope(&self) -> f64 {
        if self.exhausted { 0.0 } else { self.share_seconds() / (1.0 + self.stale as f64 / 16.0) }
    }

    /// Tries one more schedule.
    pub(super) fn advance(&mut self, arena: &Arena<'_>) -> Result<Outcome, Failure> {
        let Some(proposal) = self.search.propose() else {
            self.exhausted = true;
            return Ok(Outcome::Exhausted);
        };
        self.trials += 1;
        self.stale += 1;
        let path = arena.folder.join(format!("{}.candidate.infa", self.task.key));
        let Ok(artifact) = self.compile(Some(&proposal.schedule), arena) else {
            self.failed += 1;
            return Ok(Outcome::Failed);
        };
        std::fs::write(&path, artifact).map_err(|e| cannot_write(&path, e))?;
        let measured = self.trial(&path).filter(|trial| trial.agrees);
        let Some(verdict) = measured.and_then(|trial| Verdict::of(&trial.ratios)) else {
            self.failed += 1;
            return Ok(Outcome::Failed);
        };
        let mut relative = self.relative * verdict.ratio;
        let mut outcome = Outcome::Loss;
        // The best of many is the luckiest, too: a win is measured again, and the second time counts.
        let again = || self.trial(&path).and_then(|trial| Verdict::of(&trial.ratios)).filter(Verdict::is_win);
        if verdict.is_win()
            && let Some(confirmed) = again()
        {
            relative = self.relative * confirmed.ratio;
            std::fs::rename(&path, &self.best).map_err(|e| cannot_write(&self.best, e))?;
            self.relative = relative;
            self.schedule = Some(proposal.schedule.clone());
            self.stale = 0;
            outcome = Outcome::Win;
        }
        self.search.tell(&proposal, relative);
        Ok(outcome)
    }

    /// What is to be kept of the best; nothing if that is the default.
    pub(super) fn record(&self, arena: &Arena<'_>, machine: &str) -> Option<Record> {
        let schedule = self.schedule.as_ref()?;
        Some(Record {
            machine: machine.to_owned(),
            strict: arena.allowed < ErrorClass::Reassociating,
            seconds: self.default_seconds * self.relative,
            default_seconds: self.default_seconds,
            ..Record::new(self.task.key, &self.task.kernel.name, arena.target, schedule)
        })
    }

    fn compile(&self, schedule: Option<&Schedule>, arena: &Arena<'_>) -> Result<Vec<u8>, Failure> {
        let options = KernelOptions {
            schedule: schedule.cloned(),
            allowed: arena.allowed,
            launches: self.launches,
            ..KernelOptions::new(arena.target.clone())
        };
        Ok(compile_kernel(&self.task.kernel, &options)?.artifact)
    }

    /// Measures an artifact beside the best so far, in a process of its own.
    fn trial(&self, candidate: &Path) -> Option<Trial> {
        let symbols: Vec<String> = self.symbols.iter().map(i64::to_string).collect();
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("tune").arg("--trial").arg(candidate).arg(&self.best);
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
}

fn cannot_write(path: &Path, source: std::io::Error) -> Failure {
    CliError::CannotWrite { path: path.to_owned(), source }.into()
}
