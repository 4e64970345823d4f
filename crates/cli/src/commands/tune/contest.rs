//! The contest of schedules for one kernel: who is the best so far, and what beats it.

use super::rig::{Arena, Rig};
use crate::error::CliError;
use crate::failure::Failure;
use infc::Task;
use infc_ir::schedule::Schedule;
use infc_passes::schedule::Machine;
use infc_tune::{Proof, Search, Verdict};
use std::path::PathBuf;

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
    /// `None` if the default choice cannot be measured.
    rig: Option<Rig<'t>>,
    /// The artifact of the best so far.
    best: PathBuf,
    /// What is known of the best so far, unless that is the default.
    pub(super) found: Option<(Schedule, Proof)>,
    pub(super) trials: u64,
    pub(super) failed: u64,
    /// Trials since the last win.
    stale: u64,
    pub(super) exhausted: bool,
}

impl<'t> Contest<'t> {
    /// Measures the default choice.
    pub(super) fn new(task: &'t Task, machine: &'t Machine, arena: Arena<'t>, seed: u64) -> Result<Self, Failure> {
        let rig = Rig::new(&task.kernel, &task.key.to_string(), arena)?;
        Ok(Self {
            task,
            search: Search::new(&task.kernel, machine, arena.allowed, seed),
            best: rig.as_ref().map_or_else(PathBuf::new, |rig| rig.default.clone()),
            exhausted: rig.is_none(),
            rig,
            found: None,
            trials: 0,
            failed: 0,
            stale: 0,
        })
    }

    /// Seconds per launch of the default choice.
    pub(super) fn default_seconds(&self) -> f64 {
        self.rig.as_ref().map_or(0.0, |rig| rig.default_seconds)
    }

    /// The best's time over the default's.
    pub(super) fn relative(&self) -> f64 {
        self.found.as_ref().map_or(1.0, |(_, proof)| proof.ratio)
    }

    /// The part of a run of the model that this kernel takes, in seconds.
    pub(super) fn share_seconds(&self) -> f64 {
        self.default_seconds() * self.relative() * self.task.launches as f64
    }

    /// How much is to be hoped for of one more trial: less, the longer nothing was won.
    pub(super) fn hope(&self) -> f64 {
        if self.exhausted { 0.0 } else { self.share_seconds() / (1.0 + self.stale as f64 / 16.0) }
    }

    /// Tries one more schedule.
    pub(super) fn advance(&mut self) -> Result<Outcome, Failure> {
        let (Some(rig), Some(proposal)) = (&self.rig, self.search.propose()) else {
            self.exhausted = true;
            return Ok(Outcome::Exhausted);
        };
        self.trials += 1;
        self.stale += 1;
        let verdict = |candidate: &PathBuf| rig.trial(candidate, &self.best)?.verdict();
        let candidate = rig.candidate(&proposal.schedule)?;
        let Some((candidate, first)) = candidate.and_then(|path| verdict(&path).map(|verdict| (path, verdict))) else {
            self.failed += 1;
            return Ok(Outcome::Failed);
        };
        // The best of many is the luckiest, too: a win is measured again, and the second time counts. What is kept is what
        // is proven beside the default itself, so that errors of many small wins do not add up.
        let second = first.is_win().then(|| verdict(&candidate)).flatten();
        let proof = second.filter(Verdict::is_win).and_then(|_| rig.proof(&candidate));
        self.search.tell(&proposal, self.relative() * second.unwrap_or(first).ratio);
        let Some(proof) = proof else { return Ok(Outcome::Loss) };
        let best = candidate.with_extension("best.infa");
        std::fs::rename(&candidate, &best).map_err(|source| CliError::CannotWrite { path: best.clone(), source })?;
        self.best = best;
        self.found = Some((proposal.schedule, proof));
        self.stale = 0;
        Ok(Outcome::Win)
    }
}
