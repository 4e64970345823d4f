//! The contests of all kernels of a model: whose turn it is.

use crate::contest::{Contest, Outcome};
use crate::measure::Measure;
use crate::model::CostModel;
use crate::search::Strategy;
use infc::Task;
use infc_passes::ErrorClass;
use infc_passes::schedule::Machine;

/// What searches have in common.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'t> {
    /// What schedules are made for.
    pub machine: &'t Machine,
    /// How far results may differ from the kernels' own.
    pub allowed: ErrorClass,
    /// How schedules are found.
    pub strategy: Strategy,
    /// The same seed and the same answers give the same search.
    pub seed: u64,
}

/// A search over all kernels of a model; one more trial goes to the kernel of which most is to be hoped for. They share a
/// cost model.
pub struct Tournament<'t> {
    contests: Vec<Contest<'t>>,
    model: CostModel,
}

impl<'t> Tournament<'t> {
    /// Measures the default choices of all kernels. `begun` is told which one is next.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn new<M: Measure<'t>>(
        tasks: &'t [Task],
        rules: Rules<'t>,
        measure: &mut M,
        mut begun: impl FnMut(usize),
    ) -> Result<Self, M::Error> {
        let mut contests = Vec::with_capacity(tasks.len());
        for (n, task) in tasks.iter().enumerate() {
            begun(n);
            let Rules { machine, allowed, strategy, seed } = rules;
            contests.push(Contest::new(task, machine, allowed, strategy, seed.wrapping_add(n as u64), measure)?);
        }
        Ok(Self { contests, model: CostModel::default() })
    }

    /// Tries one more schedule of some kernel; `None` if there is nothing left to be tried.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn advance<M: Measure<'t>>(&mut self, measure: &mut M) -> Result<Option<(&Contest<'t>, Outcome)>, M::Error> {
        loop {
            let most = self.contests.iter_mut().max_by(|a, b| a.hope().total_cmp(&b.hope()));
            let Some(contest) = most.filter(|contest| contest.hope() > 0.0) else { return Ok(None) };
            let outcome = contest.advance(&mut self.model, measure)?;
            if outcome != Outcome::Exhausted {
                let key = contest.task.key;
                return Ok(self.contests.iter().find(|contest| contest.task.key == key).map(|c| (c, outcome)));
            }
        }
    }

    /// The kernels, in the order of the tasks.
    #[must_use]
    pub fn contests(&self) -> &[Contest<'t>] {
        &self.contests
    }

    /// Seconds of all launches of a run of the model, by the best schedules so far.
    #[must_use]
    pub fn total_seconds(&self) -> f64 {
        self.contests.iter().map(Contest::share_seconds).sum()
    }
}
