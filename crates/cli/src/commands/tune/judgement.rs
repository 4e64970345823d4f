//! Whether a schedule that was quicker once still is.

use super::trial::Trial;
use infc_tune::{Proof, Verdict};

/// What two trials of a schedule beside the default choice say. One alone decides nothing, as in the contest: noise of a
/// machine that is shared neither proves a schedule nor takes it away.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands) enum Judgement {
    /// Both times quicker; the second time counts.
    Quicker(Proof),
    /// Neither time.
    NotQuicker,
    /// It is not used, however quick it is.
    ComputesElse,
    /// They do not decide it, for this reason.
    Undecided(&'static str),
}

impl Judgement {
    /// Of the trials that could be made, and of the proof for other values of symbols; `None`: it could not be made.
    pub(super) fn of(trials: &[Trial], holds: Option<bool>, default_seconds: f64) -> Self {
        if holds == Some(false) || trials.iter().any(|trial| !trial.agrees()) {
            return Self::ComputesElse;
        }
        if holds.is_none() {
            return Self::Undecided("whether it computes the same could not be found out");
        }
        let verdicts: Vec<Verdict> = trials.iter().filter_map(Trial::verdict).collect();
        let &[first, second] = verdicts.as_slice() else { return Self::Undecided("it could not be measured twice") };
        match (first.is_win(), second.is_win()) {
            (true, true) => {
                Self::Quicker(Proof { default_seconds, ratio: second.ratio, ratio_at_most: second.at_most })
            }
            (false, false) => Self::NotQuicker,
            _ => Self::Undecided("quicker in one of two measurements"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trial_decides_nothing() {
        let trial = |ratio: f64, agrees| Trial::made_up(vec![ratio; 15], agrees);
        let of = |trials: &[Trial]| Judgement::of(trials, Some(true), 2e-6);
        let proof = |ratio| Proof { default_seconds: 2e-6, ratio, ratio_at_most: ratio };
        assert_eq!(of(&[trial(0.8, true), trial(0.9, true)]), Judgement::Quicker(proof(0.9)));
        assert_eq!(of(&[trial(1.0, true), trial(1.1, true)]), Judgement::NotQuicker);
        for undecided in [vec![], vec![trial(0.8, true)], vec![trial(1.2, true)]] {
            assert!(
                matches!(of(&undecided), Judgement::Undecided(reason) if reason.contains("twice")),
                "{undecided:?}"
            );
        }
        for mixed in [[0.8, 1.2], [1.2, 0.8]] {
            let found = of(&mixed.map(|ratio| trial(ratio, true)));
            assert!(matches!(found, Judgement::Undecided(reason) if reason.contains("one of two")), "{mixed:?}");
        }
        assert_eq!(of(&[trial(0.8, true), trial(0.8, false)]), Judgement::ComputesElse);
        assert_eq!(of(&[trial(0.8, false)]), Judgement::ComputesElse);
    }

    #[test]
    fn a_proof_that_could_not_be_made_decides_nothing() {
        let trials = [0.8, 0.8].map(|ratio| Trial::made_up(vec![ratio; 15], true));
        assert_eq!(Judgement::of(&trials, Some(false), 2e-6), Judgement::ComputesElse);
        let unknown = Judgement::of(&trials, None, 2e-6);
        assert!(matches!(unknown, Judgement::Undecided(reason) if reason.contains("found out")), "{unknown:?}");
        let other = [Trial::made_up(vec![0.8; 15], false)];
        assert_eq!(Judgement::of(&other, None, 2e-6), Judgement::ComputesElse);
    }
}
