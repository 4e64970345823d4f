//! How sure a difference between two lists of timings is.
//!
//! Timings of a machine are neither normal nor without drift, so nothing is taken for granted but order
//! ([`infc_tune::median_interval`]). Timings taken in turns are compared turn by turn, which takes out what slows both; timings of two occasions cannot
//! be, and only the intervals of both medians count.

use infc_tune::{median, median_interval};
use serde::Serialize;

/// The probability that an interval encloses what it is about, at least.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Blocks that timings of one occasion are put into: neighbours are alike, and counting each would promise too much.
const BLOCKS: usize = 32;

/// How much longer the new one takes, of the old: 0.03 is 3 % slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Slowdown {
    pub(crate) median: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Slowdown {
    /// From the ratios new / old of turns; `None` if they are too few to say anything.
    pub(crate) fn of_turns(ratios: &[f64]) -> Option<Self> {
        let (lower, median, upper) = median_interval(ratios, CONFIDENCE)?;
        Some(Self { median: median - 1.0, lower: lower - 1.0, upper: upper - 1.0 })
    }

    /// From timings of two occasions.
    pub(crate) fn of_occasions(new: &[f64], old: &[f64]) -> Option<Self> {
        // Both intervals hold at once with the confidence asked for.
        let each = 1.0 - (1.0 - CONFIDENCE) / 2.0;
        let (new_lower, new_median, new_upper) = median_interval(&blocks(new), each)?;
        let (old_lower, old_median, old_upper) = median_interval(&blocks(old), each)?;
        let ratio = |new: f64, old: f64| new / old - 1.0;
        Some(Self {
            median: ratio(new_median, old_median),
            lower: ratio(new_lower, old_upper),
            upper: ratio(new_upper, old_lower),
        })
    }

    /// Whether it is slower by more than this, as far as can be told.
    pub(crate) fn exceeds(&self, limit: f64) -> bool {
        self.lower > limit
    }
}

/// Medians of neighbours.
fn blocks(values: &[f64]) -> Vec<f64> {
    values.chunks(values.len().div_ceil(BLOCKS).max(1)).filter_map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of its own, so that a run repeats.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }

        /// A machine: noise of a few percent, a frequency that drifts, and now and then a run that something got in the
        /// way of.
        fn timing(&mut self, drift: &mut f64) -> f64 {
            *drift = 0.98 * *drift + 0.01 * self.normal();
            let spike = if self.uniform() < 0.05 { 1.0 + self.uniform() } else { 1.0 };
            10.0 * (0.03 * self.normal() + *drift).exp() * spike
        }
    }

    /// Turns of two artifacts, of which the new one takes `factor` times as long.
    fn turns(random: &mut Random, count: usize, factor: f64) -> Vec<f64> {
        let mut drift = 0.0;
        (0..count).map(|_| random.timing(&mut drift) * factor / random.timing(&mut drift)).collect()
    }

    #[test]
    fn the_interval_encloses_the_truth_as_often_as_it_says() {
        let mut random = Random(1);
        let enclosed = (0..2000).filter(|_| {
            let slowdown = Slowdown::of_turns(&turns(&mut random, 20, 1.02)).unwrap();
            slowdown.lower <= 0.02 && 0.02 <= slowdown.upper
        });
        let share = enclosed.count() as f64 / 2000.0;
        assert!(share >= CONFIDENCE - 0.01, "{share}");
    }

    #[test]
    fn the_same_is_hardly_ever_called_slower_and_what_is_slower_is() {
        let mut random = Random(2);
        let mut alarms = |factor: f64| {
            let found =
                (0..2000).filter(|_| Slowdown::of_turns(&turns(&mut random, 20, factor)).unwrap().exceeds(0.03));
            found.count()
        };
        // At most one in a hundred of the same, at most one in forty at the very limit, nearly all far beyond.
        let (same, at_limit, slower) = (alarms(1.0), alarms(1.03), alarms(1.15));
        assert!(same <= 20 && at_limit <= 50 && slower >= 1980, "{same}, {at_limit}, {slower} of 2000");
    }

    #[test]
    fn occasions_are_told_apart_only_beyond_their_noise() {
        let mut random = Random(3);
        let mut timings = |factor: f64| {
            let mut drift = 0.0;
            (0..200).map(|_| factor * random.timing(&mut drift)).collect::<Vec<f64>>()
        };
        let (old, same, slower) = (timings(1.0), timings(1.0), timings(1.3));
        assert!(!Slowdown::of_occasions(&same, &old).unwrap().exceeds(0.1));
        assert!(Slowdown::of_occasions(&slower, &old).unwrap().exceeds(0.1));
        assert_eq!(Slowdown::of_occasions(&old[..5], &old), None);
    }
}
