//! Whether one schedule is quicker than another, by runs that took turns.

use crate::interval::median_interval;

/// What runs in turns say of a candidate beside the best so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The median of the candidate's time over the other's in the same turn.
    pub ratio: f64,
    /// The upper bound of its 95 % interval.
    pub at_most: f64,
}

impl Verdict {
    /// Of the ratios of all turns; `None` of fewer than six, for which there is no such interval ([`median_interval`]).
    #[must_use]
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let (_, ratio, at_most) = median_interval(ratios, 0.95)?;
        Some(Self { ratio, at_most })
    }

    /// Whether the candidate is quicker, beyond the noise of the turns, by a percent at least.
    #[must_use]
    pub fn is_win(&self) -> bool {
        self.ratio < 0.99 && self.at_most < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_win_is_more_than_noise() {
        assert_eq!(Verdict::of(&[0.5; 5]), None);
        assert!(Verdict::of(&[0.9; 6]).expect("six").is_win());
        assert!(!Verdict::of(&[0.995; 15]).expect("fifteen").is_win(), "less than a percent");
        let mut mixed = vec![0.9; 10];
        mixed.extend([1.1; 5]);
        assert!(!Verdict::of(&mixed).expect("fifteen").is_win(), "one turn in three says otherwise");
        // Of fifteen throws three or fewer are heads in 1.8 % of all cases, four or fewer in 5.9 %.
        let steps: Vec<f64> = (1..=15).map(f64::from).collect();
        assert_eq!(Verdict::of(&steps), Some(Verdict { ratio: 8.0, at_most: 12.0 }));
    }

    /// Of equal candidates, with noise of any kind, next to none is taken for quicker.
    #[test]
    fn noise_does_not_win() {
        let mut random = infc_testkit::Random::new(1);
        let mut noise = || 1.0 + (random.below(1000) as f64 / 1000.0).powi(4) * 0.3;
        let wins = (0..1000).filter(|_| {
            let ratios: Vec<f64> = (0..15).map(|_| noise() / noise()).collect();
            Verdict::of(&ratios).is_some_and(|v| v.is_win())
        });
        let wins = wins.count();
        assert!(wins <= 30, "{wins} of 1000");
    }
}
