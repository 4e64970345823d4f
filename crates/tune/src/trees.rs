//! Gradient-boosted regression trees: a sum of small decision trees, each fitted to what those before it leave over.
//!
//! After Friedman, "Greedy Function Approximation: A Gradient Boosting Machine" (2001), for squared errors, with the
//! histograms of Ke et al., "LightGBM" (2017): a feature is known by which of at most [`BINS`] quantiles a sample falls
//! into, so a split is found in one pass over the samples of a leaf. Thousands of samples take a fraction of a second.
//!
//! Everything is deterministic: sums are formed in the order of the samples, and of equal gains the first split counts. So
//! the same samples give the same trees, bit for bit, on every machine.

/// Quantiles that a feature is known by.
const BINS: usize = 64;

/// How trees are grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOptions {
    /// Trees that are summed.
    pub trees: usize,
    /// Splits from root to leaf at most.
    pub depth: usize,
    /// Samples of a leaf at least.
    pub min_samples: usize,
    /// How much of its prediction a tree adds.
    pub learning_rate: f64,
    /// Added to the number of samples of a leaf, which keeps its prediction near 0 if they are few.
    pub regularisation: f64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { trees: 120, depth: 5, min_samples: 4, learning_rate: 0.12, regularisation: 1.0 }
    }
}

/// A node; children of a split are further behind.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Leaf(f64),
    /// Samples with `feature <= at_most` go to `low`, others (those that are no number, too) to `high`.
    Split {
        feature: usize,
        at_most: f64,
        low: usize,
        high: usize,
    },
}

/// A function of features that was learned from samples.
#[derive(Clone, Debug, PartialEq)]
pub struct BoostedTrees {
    base: f64,
    trees: Vec<Vec<Node>>,
    /// How much splits by each feature have lowered the squared error.
    gains: Vec<f64>,
}

/// The samples, as splits see them.
struct Binned {
    /// Per feature, the greatest value of each bin but the last, ascending.
    edges: Vec<Vec<f64>>,
    /// Per feature and sample.
    bins: Vec<Vec<u8>>,
}

/// The best way to part a leaf.
struct BestSplit {
    gain: f64,
    feature: usize,
    /// The last bin of the lower part.
    bin: usize,
}

impl BoostedTrees {
    /// Learns `targets` as a function of features. All samples have as many features; `samples` and `targets` are equally
    /// long.
    ///
    /// # Panics
    /// If they are not.
    #[must_use]
    pub fn fit(samples: &[Vec<f64>], targets: &[f64], options: &TreeOptions) -> Self {
        assert_eq!(samples.len(), targets.len(), "a target per sample");
        let features = samples.first().map_or(0, Vec::len);
        let base = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let binned = Binned::new(samples, features);
        let mut model = Self { base, trees: Vec::new(), gains: vec![0.0; features] };
        let mut residuals: Vec<f64> = targets.iter().map(|target| target - base).collect();
        for _ in 0..options.trees {
            let mut grower = Grower { binned: &binned, residuals: &mut residuals, options, nodes: Vec::new() };
            grower.grow((0..samples.len() as u32).collect(), options.depth, &mut model.gains);
            let tree = grower.nodes;
            // A tree that parts nothing is what all that follow would be.
            if tree.len() == 1 {
                break;
            }
            model.trees.push(tree);
        }
        model
    }

    /// What is to be expected of a sample.
    #[must_use]
    pub fn predict(&self, sample: &[f64]) -> f64 {
        self.base + self.trees.iter().map(|tree| leaf(tree, sample)).sum::<f64>()
    }

    /// Per feature, the part of all that was learned which splits by it account for; they sum to 1, or are all 0.
    #[must_use]
    pub fn importance(&self) -> Vec<f64> {
        let all: f64 = self.gains.iter().sum();
        self.gains.iter().map(|gain| gain / all.max(f64::MIN_POSITIVE)).collect()
    }
}

fn leaf(tree: &[Node], sample: &[f64]) -> f64 {
    let mut at = 0;
    loop {
        match &tree[at] {
            Node::Leaf(value) => return *value,
            Node::Split { feature, at_most, low, high } => {
                at = if sample[*feature] <= *at_most { *low } else { *high };
            }
        }
    }
}

impl Binned {
    fn new(samples: &[Vec<f64>], features: usize) -> Self {
        let mut binned = Self { edges: Vec::with_capacity(features), bins: Vec::with_capacity(features) };
        for feature in 0..features {
            // What is no number counts as the greatest.
            let number = |value: f64| if value.is_nan() { f64::INFINITY } else { value };
            let mut values: Vec<f64> = samples.iter().map(|sample| number(sample[feature])).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            // The greatest value of all needs no edge.
            let distinct = values.len();
            let edges: Vec<f64> = if distinct <= BINS {
                values[..distinct.saturating_sub(1)].to_vec()
            } else {
                (1..BINS).map(|n| values[n * distinct / BINS]).collect()
            };
            let bin = |value: f64| edges.partition_point(|edge| *edge < value) as u8;
            binned.bins.push(samples.iter().map(|sample| bin(number(sample[feature]))).collect());
            binned.edges.push(edges);
        }
        binned
    }
}

/// Grows one tree.
struct Grower<'a> {
    binned: &'a Binned,
    /// What is left over, less what the tree says once a leaf is made.
    residuals: &'a mut [f64],
    options: &'a TreeOptions,
    nodes: Vec<Node>,
}

impl Grower<'_> {
    /// Makes the node for some samples; says where it is.
    fn grow(&mut self, samples: Vec<u32>, depth: usize, gains: &mut [f64]) -> usize {
        let at = self.nodes.len();
        let Some(best) = (depth > 0).then(|| self.best_split(&samples)).flatten() else {
            let sum: f64 = samples.iter().map(|&s| self.residuals[s as usize]).sum();
            let value = self.options.learning_rate * sum / (samples.len() as f64 + self.options.regularisation);
            for &sample in &samples {
                self.residuals[sample as usize] -= value;
            }
            self.nodes.push(Node::Leaf(value));
            return at;
        };
        gains[best.feature] += best.gain;
        let bins = &self.binned.bins[best.feature];
        let (low, high) = samples.into_iter().partition(|&sample| bins[sample as usize] as usize <= best.bin);
        let at_most = self.binned.edges[best.feature][best.bin];
        self.nodes.push(Node::Leaf(0.0));
        let low = self.grow(low, depth - 1, gains);
        let high = self.grow(high, depth - 1, gains);
        self.nodes[at] = Node::Split { feature: best.feature, at_most, low, high };
        at
    }

    /// The split that lowers the squared error most; `None` if none does by anything that shows.
    fn best_split(&self, samples: &[u32]) -> Option<BestSplit> {
        let score = |sum: f64, count: f64| sum * sum / (count + self.options.regularisation);
        let total: f64 = samples.iter().map(|&s| self.residuals[s as usize]).sum();
        let whole = score(total, samples.len() as f64);
        let mut best: Option<BestSplit> = None;
        for (feature, bins) in self.binned.bins.iter().enumerate() {
            let edges = self.binned.edges[feature].len();
            if edges == 0 {
                continue;
            }
            let mut histogram = [(0.0f64, 0usize); BINS];
            for &sample in samples {
                let (sum, count) = &mut histogram[bins[sample as usize] as usize];
                *sum += self.residuals[sample as usize];
                *count += 1;
            }
            let (mut sum, mut count) = (0.0, 0);
            for (bin, (in_bin, of_bin)) in histogram[..edges].iter().enumerate() {
                sum += in_bin;
                count += of_bin;
                let rest = samples.len() - count;
                if count < self.options.min_samples || rest < self.options.min_samples {
                    continue;
                }
                let gain = score(sum, count as f64) + score(total - sum, rest as f64) - whole;
                if gain > 1e-9 && best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(BestSplit { gain, feature, bin });
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Samples of five features, of which the last says nothing, and a function with steps, a slope and a product.
    fn made_up(count: usize, seed: u64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut random = Random::new(seed);
        let samples: Vec<Vec<f64>> =
            (0..count).map(|_| (0..5).map(|_| random.below(1000) as f64 / 1000.0).collect()).collect();
        let target = |x: &Vec<f64>| if x[0] > 0.3 { 2.0 } else { 0.0 } + x[1] + 3.0 * x[2] * x[3];
        let targets = samples.iter().map(target).collect();
        (samples, targets)
    }

    #[test]
    fn a_function_is_learned_from_samples() {
        let (samples, targets) = made_up(1500, 1);
        let model = BoostedTrees::fit(&samples, &targets, &TreeOptions::default());
        let (others, expected) = made_up(500, 2);
        let mean = expected.iter().sum::<f64>() / 500.0;
        let variance: f64 = expected.iter().map(|e| (e - mean).powi(2)).sum();
        let errors: f64 = others.iter().zip(&expected).map(|(o, e)| (model.predict(o) - e).powi(2)).sum();
        // LightGBM leaves 0.029 with the same options.
        assert!(errors < 0.035 * variance, "{} of the variance is not explained", errors / variance);
        let importance = model.importance();
        assert!((importance.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(importance[0] > 0.3 && importance[4] < 0.01, "{importance:?}");
    }

    #[test]
    fn the_same_samples_give_the_same_trees() {
        let (samples, targets) = made_up(300, 3);
        let fit = || BoostedTrees::fit(&samples, &targets, &TreeOptions::default());
        assert_eq!(fit(), fit());
    }

    #[test]
    fn few_samples_equal_ones_and_no_numbers_are_taken() {
        let options = TreeOptions::default();
        assert_eq!(BoostedTrees::fit(&[], &[], &options).predict(&[]), 0.0);
        assert_eq!(BoostedTrees::fit(&[vec![1.0]], &[3.0], &options).predict(&[7.0]), 3.0);
        let equal = BoostedTrees::fit(&vec![vec![1.0]; 50], &[2.0; 50], &options);
        assert_eq!(equal.predict(&[f64::NAN]), 2.0);
        let samples: Vec<Vec<f64>> = (0..60).map(|n| vec![if n % 2 == 0 { f64::NAN } else { f64::from(n) }]).collect();
        let targets: Vec<f64> = (0..60).map(|n| if n % 2 == 0 { 5.0 } else { 1.0 }).collect();
        let model = BoostedTrees::fit(&samples, &targets, &options);
        assert!((model.predict(&[f64::NAN]) - 5.0).abs() < 0.1 && (model.predict(&[31.0]) - 1.0).abs() < 0.1);
    }

    /// More different values than bins: the quantiles still tell parts apart.
    #[test]
    fn many_values_fall_into_quantiles() {
        let samples: Vec<Vec<f64>> = (0..5000).map(|n| vec![f64::from(n)]).collect();
        let targets: Vec<f64> = (0..5000).map(|n| if n < 2500 { 0.0 } else { 1.0 }).collect();
        let model = BoostedTrees::fit(&samples, &targets, &TreeOptions::default());
        assert!(model.predict(&[100.0]) < 0.02 && model.predict(&[4900.0]) > 0.98);
    }
}
