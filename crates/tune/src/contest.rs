//! The contest of schedules for one kernel: who is the best so far, and what beats it.

use crate::measure::Measure;
use crate::model::CostModel;
use crate::record::Proof;
use crate::search::{Search, Strategy};
use crate::verdict::Verdict;
use infc::Task;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::AnyMachine;

/// Weight of the trials since the last win: after so many a kernel is expected to gain half as much by one more.
const PATIENCE: f64 = 16.0;

/// How a proposal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
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
pub struct Contest<'t> {
    /// What is searched for.
    pub task: &'t Task,
    search: Search<'t>,
    /// Seconds per launch of the default choice; 0 if it cannot be measured.
    pub default_seconds: f64,
    /// The best so far and what is known of it, unless that is the default.
    pub found: Option<(Schedule, Proof)>,
    /// Schedules tried.
    pub trials: u64,
    /// Of them those that could not be measured, or compute something else.
    pub failed: u64,
    /// Trials since the last win.
    pub(crate) stale: u64,
    is_exhausted: bool,
}

impl<'t> Contest<'t> {
    /// Measures the default choice.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn new<M: Measure<'t>>(
        task: &'t Task,
        machine: &'t AnyMachine,
        allowed: ErrorClass,
        strategy: Strategy,
        seed: u64,
        measure: &mut M,
    ) -> Result<Self, M::Error> {
        let default_seconds = measure.default_seconds(task)?;
        Ok(Self {
            task,
            search: Search::new(&task.kernel, machine, allowed, strategy, seed),
            default_seconds: default_seconds.unwrap_or(0.0),
            found: None,
            trials: 0,
            failed: 0,
            stale: 0,
            is_exhausted: default_seconds.is_none(),
        })
    }

    /// Begins with a schedule that was found before, if it still is quicker than the default. Says whether it is.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn resume<M: Measure<'t>>(&mut self, schedule: &Schedule, measure: &mut M) -> Result<bool, M::Error> {
        if self.is_exhausted || self.found.is_some() {
            return Ok(false);
        }
        self.search.knows(schedule);
        // It was proven once, so that one measurement is the second.
        let Some(verdict) = measure.compare(self.task, schedule, None)?.filter(Verdict::is_win) else {
            return Ok(false);
        };
        if !measure.proves(self.task, schedule)? {
            return Ok(false);
        }
        self.win(schedule.clone(), verdict);
        Ok(true)
    }

    /// A schedule is the best so far.
    fn win(&mut self, schedule: Schedule, Verdict { ratio, at_most }: Verdict) {
        let proof = Proof { default_seconds: self.default_seconds, ratio, ratio_at_most: at_most };
        self.found = Some((schedule, proof));
        self.stale = 0;
    }

    /// The best's time over the default's.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.found.as_ref().map_or(1.0, |(_, proof)| proof.ratio)
    }

    /// The part of a run of the model that this kernel takes by its best schedule, in seconds.
    #[must_use]
    pub fn share_seconds(&self) -> f64 {
        self.default_seconds * self.relative() * self.task.launches as f64
    }

    /// How much is to be hoped for of one more trial: less, the longer nothing was won; nothing if there is none left.
    #[must_use]
    pub fn hope(&self) -> f64 {
        self.hope_after(self.stale)
    }

    /// The same after so many trials without a win.
    pub(crate) fn hope_after(&self, stale: u64) -> f64 {
        if self.is_exhausted { 0.0 } else { self.share_seconds() / (1.0 + stale as f64 / PATIENCE) }
    }

    /// Tries one more schedule.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn advance<M: Measure<'t>>(&mut self, model: &mut CostModel, measure: &mut M) -> Result<Outcome, M::Error> {
        if self.is_exhausted {
            return Ok(Outcome::Exhausted);
        }
        let Some(proposal) = self.search.propose(model) else {
            self.is_exhausted = true;
            return Ok(Outcome::Exhausted);
        };
        self.trials += 1;
        self.stale += 1;
        let (task, schedule) = (self.task, &proposal.schedule);
        let incumbent = self.found.as_ref().map(|(schedule, _)| schedule);
        let Some(first) = measure.compare(task, schedule, incumbent)? else {
            self.failed += 1;
            return Ok(Outcome::Failed);
        };
        // The best of many is the luckiest, too: a win is measured again, and the second time counts. What is kept is what
        // is proven beside the default itself, so that errors of many small wins do not add up.
        let second = if first.is_win() { measure.compare(task, schedule, incumbent)? } else { None };
        let is_confirmed = second.as_ref().is_some_and(Verdict::is_win);
        let beside_default = match (is_confirmed, incumbent) {
            (false, _) => None,
            (true, None) => second,
            (true, Some(_)) => measure.compare(task, schedule, None)?.filter(Verdict::is_win),
        };
        // Nothing is learned from schedules that compute something else, however quick they are.
        if beside_default.is_some() && !measure.proves(task, schedule)? {
            self.failed += 1;
            return Ok(Outcome::Failed);
        }
        self.search.tell(model, &proposal, self.relative() * second.unwrap_or(first).ratio);
        let Some(verdict) = beside_default else { return Ok(Outcome::Loss) };
        self.win(proposal.schedule, verdict);
        Ok(Outcome::Win)
    }
}
