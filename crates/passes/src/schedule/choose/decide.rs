//! Decisions: where the default choice could choose otherwise.
//!
//! A schedule follows from a list of decisions, which for one kernel and machine are met in the same order every time.
//! Each has alternatives, by estimate the best first; the untuned default takes the first of all. A tuner searches the
//! lists of picks, as over the traces of Shao et al., "Tensor Program Optimization with Probabilistic Programs", 2022:
//! whatever it picks, the same rules make a whole schedule of it.

use std::cell::RefCell;

/// Alternatives of a decision at most: what is estimated to be worse than so many others is not worth a trial.
pub(super) const MOST_ALTERNATIVES: usize = 64;

/// A decision that was met on the way to a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What it is about.
    pub what: &'static str,
    /// The stage that it is about; empty if it is the kernel as a whole.
    pub stage: String,
    /// How many alternatives there were.
    pub alternatives: usize,
    /// Which of them was taken.
    pub picked: usize,
}

/// What is picked, and what was met.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// Per decision in order; the first alternative behind the end. `None`: the default everywhere, and nothing is noted.
    picks: Option<Vec<usize>>,
    met: RefCell<Vec<Decision>>,
}

impl Decisions {
    /// The given alternatives, the first ones behind the end.
    pub(super) fn of(picks: &[usize]) -> Self {
        Self { picks: Some(picks.to_vec()), met: RefCell::default() }
    }

    /// Whether anybody wants to know of alternatives.
    pub(super) fn are_open(&self) -> bool {
        self.picks.is_some()
    }

    /// The alternative to take of so many.
    pub(super) fn pick(&self, what: &'static str, stage: &str, alternatives: usize) -> usize {
        let Some(picks) = &self.picks else { return 0 };
        let mut met = self.met.borrow_mut();
        let picked = picks.get(met.len()).copied().unwrap_or(0).min(alternatives.saturating_sub(1));
        met.push(Decision { what, stage: stage.to_owned(), alternatives, picked });
        picked
    }

    /// All that was met, in order.
    pub(super) fn into_met(self) -> Vec<Decision> {
        self.met.into_inner()
    }
}
