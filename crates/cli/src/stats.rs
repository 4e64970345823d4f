//! Summaries of timings.

use infc_tune::median;
use serde::Serialize;
use std::time::Duration;

/// What is said of a list of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) median: f64,
    /// Nine of ten runs take no longer.
    pub(crate) p90: f64,
}

impl Summary {
    /// Of at least one value; `None` of none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let &min = sorted.first()?;
        let median = median(&sorted)?;
        // Nearest rank: the smallest value that at least 90 % do not exceed.
        let p90 = sorted[(sorted.len() * 9).div_ceil(10) - 1];
        Some(Self { min, median, p90 })
    }
}

/// A duration in milliseconds, to the tenth of a microsecond.
pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[2.0]), Some(Summary { min: 2.0, median: 2.0, p90: 2.0 }));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(Summary::of(&ten), Some(Summary { min: 1.0, median: 5.5, p90: 9.0 }));
    }
}
