//! The learned cost model: from the features of a schedule to how long it takes in comparison with the default choice.

use crate::lesson::Lesson;
use crate::trees::{BoostedTrees, TreeOptions};

/// Samples before anything is learned.
const FEWEST: usize = 32;
/// New samples after which the model is learned anew, at least; a fraction of all it has, so that learning stays cheap.
const NEWS: usize = 16;
const NEWS_PART: usize = 12;
/// What is slower than this, in times of the default, is bad enough: differences beyond are not learned. They would be most of
/// what there is to learn, and tell nothing of which of the quick ones is the quickest.
const SLOWEST: f64 = 3.0;

/// What is known of a schedule: its features, and how they differ from those of the kernel's default choice. The former say
/// what kind of kernel it is, the latter what the schedule changes.
#[must_use]
pub fn sample(features: &[f64], of_default: &[f64]) -> Vec<f64> {
    let differences = features.iter().zip(of_default).map(|(own, default)| own - default);
    features.iter().copied().chain(differences).collect()
}

/// Learns from all trials of a run, of all kernels together: what is too much for the cache in one is so in others.
#[derive(Clone, Debug, Default)]
pub struct CostModel {
    samples: Vec<Vec<f64>>,
    /// Logarithms of times in those of the default.
    targets: Vec<f64>,
    trees: Option<BoostedTrees>,
    /// How many samples the trees have seen.
    learned: usize,
}

impl CostModel {
    /// Notes a trial, and learns from all once there are enough new ones. `sample` is what [`sample`] makes; the time is in
    /// times of the kernel's default choice.
    pub fn learn(&mut self, sample: Vec<f64>, relative_time: f64) {
        self.note(sample, relative_time);
        let news = self.samples.len() - self.learned;
        if self.samples.len() >= FEWEST && news >= NEWS.max(self.learned / NEWS_PART) {
            self.fit();
        }
    }

    /// Notes a trial for [`Self::fit`].
    pub fn note(&mut self, sample: Vec<f64>, relative_time: f64) {
        self.samples.push(sample);
        self.targets.push(relative_time.clamp(f64::MIN_POSITIVE, SLOWEST).ln());
    }

    /// Learns from all samples now, be they few or known already.
    pub fn fit(&mut self) {
        self.trees = Some(BoostedTrees::fit(&self.samples, &self.targets, &TreeOptions::default()));
        self.learned = self.samples.len();
    }

    /// A model that begins with what others have measured; it has learned nothing if that is too little.
    #[must_use]
    pub fn of(lessons: &[Lesson]) -> Self {
        let mut model = Self::default();
        for (sample, relative_time) in lessons.iter().flat_map(|lesson| &lesson.trials) {
            model.note(sample.clone(), *relative_time);
        }
        if model.samples.len() >= FEWEST {
            model.fit();
        }
        model
    }

    /// Whether it predicts anything yet.
    #[must_use]
    pub fn has_learned(&self) -> bool {
        self.trees.is_some()
    }

    /// The logarithm of the time that is to be expected, in times of the default; `None` before anything was learned.
    #[must_use]
    pub fn predict(&self, sample: &[f64]) -> Option<f64> {
        self.trees.as_ref().map(|trees| trees.predict(sample))
    }

    /// See [`BoostedTrees::importance`].
    #[must_use]
    pub fn importance(&self) -> Vec<f64> {
        self.trees.as_ref().map(BoostedTrees::importance).unwrap_or_default()
    }
}

/// Spearman's rank correlation of two rows of numbers: 1 if they order alike, −1 if the other way round; equal numbers share
/// their ranks. `None` of fewer than three, or if all of one are equal.
#[must_use]
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let count = a.len().min(b.len());
    let (a, b) = (ranks(&a[..count]), ranks(&b[..count]));
    let mean = (count as f64 - 1.0) / 2.0;
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let scale = (dot(&a, &a) * dot(&b, &b)).sqrt();
    (count >= 3 && scale > 0.0).then(|| dot(&a, &b) / scale)
}

/// From 0; the mean of their places for equal numbers.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[i].total_cmp(&numbers[j]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut place = 0;
    for same in order.chunk_by(|&i, &j| numbers[i].total_cmp(&numbers[j]).is_eq()) {
        for &i in same {
            ranks[i] = place as f64 + (same.len() as f64 - 1.0) / 2.0;
        }
        place += same.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_what_counts() {
        let close = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert!(close(spearman(&[1.0, 2.0, 30.0], &[-5.0, 0.0, 0.1]), 1.0));
        assert!(close(spearman(&[1.0, 2.0, 30.0], &[3.0, 2.0, 1.0]), -1.0));
        // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3: 4.5 / sqrt(4.5 · 5).
        assert!(close(spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]), 4.5 / 22.5f64.sqrt()));
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(spearman(&[1.0, 2.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn what_was_measured_is_expected() {
        let mut model = CostModel::default();
        assert_eq!(model.predict(&[0.0, 0.0]), None);
        for n in 0..64 {
            let x = f64::from(n % 8);
            model.learn(sample(&[x], &[3.0]), 1.0 + x / 4.0);
        }
        let expected = |x: f64| model.predict(&sample(&[x], &[3.0])).expect("it has learned");
        assert!((expected(4.0) - 2.0f64.ln()).abs() < 0.02 && expected(0.0) < expected(7.0));
    }
}
