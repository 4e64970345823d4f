//! The contests of all kernels of a model: whose turn it is.

use crate::contest::{Contest, Outcome};
use crate::measure::Measure;
use crate::model::CostModel;
use crate::search::Strategy;
use infc::Task;
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use infc_passes::schedule::AnyMachine;

/// What is to be expected of a kernel that was not searched yet: as much less of its time. With what kernels of the same run
/// gained it is a mean, of which it is one of the numbers.
const TYPICAL_GAIN: f64 = 0.1;
/// Trials after which what was gained over a kernel's default says something.
const TELLING: u64 = 48;
/// Less of a run's time than this is not worth a search.
const WORTH: f64 = 0.01;
/// Trials that are counted ahead at most.
const FORESEEN: u64 = 100_000;

/// What searches have in common.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'t> {
    /// What schedules are made for.
    pub machine: &'t AnyMachine,
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
    /// Measures the default choices of all kernels. `model` may have learned already; `begun` is told which one is next.
    ///
    /// # Errors
    /// Those of measuring.
    pub fn new<M: Measure<'t>>(
        tasks: &'t [Task],
        rules: Rules<'t>,
        model: CostModel,
        measure: &mut M,
        mut begun: impl FnMut(usize),
    ) -> Result<Self, M::Error> {
        let mut contests = Vec::with_capacity(tasks.len());
        for (n, task) in tasks.iter().enumerate() {
            begun(n);
            let Rules { machine, allowed, strategy, seed } = rules;
            contests.push(Contest::new(task, machine, allowed, strategy, seed.wrapping_add(n as u64), measure)?);
        }
        Ok(Self { contests, model })
    }

    /// Begins with schedules that were found before, those that still are quicker than the default; `kept` is told of each.
    ///
    /// # Errors
    /// Those of measuring, and of `kept`.
    pub fn resume<M: Measure<'t>>(
        &mut self,
        known: impl Fn(&Task) -> Option<Schedule>,
        measure: &mut M,
        mut kept: impl FnMut(&Contest<'t>) -> Result<(), M::Error>,
    ) -> Result<(), M::Error> {
        for contest in &mut self.contests {
            if let Some(schedule) = known(contest.task)
                && contest.resume(&schedule, measure)?
            {
                kept(contest)?;
            }
        }
        Ok(())
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

    /// By which part the time of a run is to be expected to become less if the search goes on: of each kernel as much as
    /// kernels have gained so far, and less the longer nothing was won.
    #[must_use]
    pub fn expected_gain(&self) -> f64 {
        self.typical_gain() * self.contests.iter().map(Contest::hope).sum::<f64>() / self.total_seconds().max(1e-12)
    }

    /// Whether a percent is to be expected, at least.
    #[must_use]
    pub fn is_worth_more(&self) -> bool {
        self.expected_gain() >= WORTH
    }

    /// How many trials are to come until less is to be expected, if none of them wins.
    #[must_use]
    pub fn trials_to_come(&self) -> u64 {
        let enough = WORTH * self.total_seconds() / self.typical_gain();
        let mut stale: Vec<u64> = self.contests.iter().map(|contest| contest.stale).collect();
        let mut hopes: Vec<f64> = self.contests.iter().map(Contest::hope).collect();
        let mut sum: f64 = hopes.iter().sum();
        for trials in 0..FORESEEN {
            let most = (0..hopes.len()).max_by(|&a, &b| hopes[a].total_cmp(&hopes[b]));
            let Some(most) = most.filter(|_| sum >= enough) else { return trials };
            stale[most] += 1;
            sum -= hopes[most];
            hopes[most] = self.contests[most].hope_after(stale[most]);
            sum += hopes[most];
        }
        FORESEEN
    }

    /// What kernels have gained that were searched for a while, and [`TYPICAL_GAIN`]: the mean.
    fn typical_gain(&self) -> f64 {
        let searched = self.contests.iter().filter(|contest| contest.trials >= TELLING);
        let gains: Vec<f64> = searched.map(|contest| 1.0 - contest.relative()).collect();
        (TYPICAL_GAIN + gains.iter().sum::<f64>()) / (1 + gains.len()) as f64
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
