//! `TreeEnsemble`, `TreeEnsembleRegressor` and `TreeEnsembleClassifier`.
//!
//! The two older operators list nodes by the ids of tree and node, the new one by position; both become [`Forest`].

use super::Rows;
use super::post::{Labels, PostTransform, best};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{read_as_f64, write_f64_as};
use infc_tensor::{DType, Tensor};
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Test {
    AtMost(f64),
    Less(f64),
    AtLeast(f64),
    Greater(f64),
    Equal(f64),
    Differs(f64),
    /// One of these.
    Among(Vec<f64>),
}

impl Test {
    fn holds(&self, x: f64) -> bool {
        match self {
            Test::AtMost(split) => x <= *split,
            Test::Less(split) => x < *split,
            Test::AtLeast(split) => x >= *split,
            Test::Greater(split) => x > *split,
            Test::Equal(split) => x == *split,
            Test::Differs(split) => x != *split,
            Test::Among(set) => set.contains(&x),
        }
    }
}

/// What a branch leads to.
#[derive(Clone, Copy, Debug)]
enum Next {
    Node(usize),
    Leaf(usize),
}

#[derive(Clone, Debug)]
struct Branch {
    feature: usize,
    test: Test,
    /// Whether a missing value (NaN) takes the way of those that pass.
    missing_passes: bool,
    then: Next,
    otherwise: Next,
}

/// Trees over shared lists of nodes and leaves; a leaf has weights for targets.
#[derive(Clone, Debug, Default)]
struct Forest {
    branches: Vec<Branch>,
    leaves: Vec<Vec<(usize, f64)>>,
    roots: Vec<Next>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

fn bad<T>(name: &'static str, reason: &'static str) -> Result<T> {
    Err(EvalError::InvalidAttribute { name, reason })
}

impl Forest {
    fn leaf(&self, root: Next, row: &[f64]) -> Result<usize> {
        let mut at = root;
        // A path that is longer than there are nodes goes in a circle.
        for _ in 0..=self.branches.len() {
            let node = match at {
                Next::Leaf(leaf) => return Ok(leaf),
                Next::Node(node) => &self.branches[node],
            };
            let Some(&x) = row.get(node.feature) else { return bad("nodes_featureids", "a feature does not exist") };
            let passes = node.test.holds(x) || node.missing_passes && x.is_nan();
            at = if passes { node.then } else { node.otherwise };
        }
        bad("nodes_truenodeids", "a tree has a circle")
    }

    /// Per row the weights of the leaves it comes to, by target; targets that no leaf speaks of have no value.
    fn scores(&self, rows: &Rows, targets: usize, aggregate: Aggregate) -> Result<Vec<Vec<Option<f64>>>> {
        checked_len(DType::F32, &[rows.count, targets])?;
        check_work([
            &rows.count,
            &self.roots.len(),
            &self.branches.len().max(1).ilog2().max(1).try_into().unwrap_or(1),
        ])?;
        let mut all = Vec::with_capacity(rows.count);
        for row in rows.iter() {
            let mut scores: Vec<Option<f64>> = vec![None; targets];
            for &root in &self.roots {
                for &(target, weight) in &self.leaves[self.leaf(root, row)?] {
                    let Some(score) = scores.get_mut(target) else {
                        return bad("leaf_targetids", "a target does not exist");
                    };
                    *score = Some(match (*score, aggregate) {
                        (None, _) => weight,
                        (Some(score), Aggregate::Average | Aggregate::Sum) => score + weight,
                        (Some(score), Aggregate::Min) => score.min(weight),
                        (Some(score), Aggregate::Max) => score.max(weight),
                    });
                }
            }
            if aggregate == Aggregate::Average {
                let trees = self.roots.len().max(1) as f64;
                scores.iter_mut().flatten().for_each(|score| *score /= trees);
            }
            all.push(scores);
        }
        Ok(all)
    }

    /// From the lists of `TreeEnsemble`, by position.
    fn of_positions(call: &Call<'_>) -> Result<Self> {
        let index = |list: &[i64], n: usize, name: &'static str, len: usize| -> Result<usize> {
            let found = list.get(n).copied().and_then(|v| usize::try_from(v).ok()).filter(|&v| v < len);
            found.ok_or(EvalError::InvalidAttribute { name, reason: "it is too short, or refers to what is not there" })
        };
        let ints = |name: &'static str| -> Result<&[i64]> { Ok(call.ints(name)?.unwrap_or_default()) };
        let tensor = |name: &'static str| -> Result<Vec<f64>> {
            call.node.attributes.tensor(name)?.map_or(Ok(Vec::new()), read_as_f64)
        };
        let (features, modes, splits) = (ints("nodes_featureids")?, tensor("nodes_modes")?, tensor("nodes_splits")?);
        let (then, otherwise) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let (then_leaf, otherwise_leaf) = (ints("nodes_trueleafs")?, ints("nodes_falseleafs")?);
        let missing = ints("nodes_missing_value_tracks_true")?;
        let (targets, weights) = (ints("leaf_targetids")?, tensor("leaf_weights")?);
        super::long_enough(&weights, targets.len(), "leaf_weights")?;
        let mut leaves = Vec::with_capacity(targets.len());
        for (n, &weight) in weights.iter().enumerate() {
            leaves.push(vec![(index(targets, n, "leaf_targetids", usize::MAX)?, weight)]);
        }
        // The members of sets, in the order of the nodes that test for them, each set ended by a NaN.
        let members = tensor("membership_values")?;
        let mut sets = members.split(|v| v.is_nan());
        let count = features.len();
        let mut branches = Vec::with_capacity(count);
        for n in 0..count {
            let Some((&mode, &split)) = modes.get(n).zip(splits.get(n)) else {
                return bad("nodes_modes", "it is not as long as the others need it to be");
            };
            let test = match mode as i64 {
                0 => Test::AtMost(split),
                1 => Test::Less(split),
                2 => Test::AtLeast(split),
                3 => Test::Greater(split),
                4 => Test::Equal(split),
                5 => Test::Differs(split),
                6 => Test::Among(sets.next().unwrap_or_default().to_vec()),
                _ => return bad("nodes_modes", "a mode is not known"),
            };
            let next = |nodes: &[i64], leaf: &[i64], name: &'static str| -> Result<Next> {
                Ok(if leaf.get(n).is_some_and(|&is_leaf| is_leaf != 0) {
                    Next::Leaf(index(nodes, n, name, leaves.len())?)
                } else {
                    Next::Node(index(nodes, n, name, count)?)
                })
            };
            branches.push(Branch {
                feature: index(features, n, "nodes_featureids", usize::MAX)?,
                test,
                missing_passes: missing.get(n).is_some_and(|&passes| passes != 0),
                then: next(then, then_leaf, "nodes_truenodeids")?,
                otherwise: next(otherwise, otherwise_leaf, "nodes_falsenodeids")?,
            });
        }
        let roots = ints("tree_roots")?;
        let roots = (0..roots.len()).map(|n| Ok(Next::Node(index(roots, n, "tree_roots", count)?)));
        let roots = roots.collect::<Result<_>>()?;
        Ok(Self { branches, leaves, roots })
    }

    /// From the lists of the older operators; leaves have weights in lists that begin with `prefix`.
    fn of_ids(call: &Call<'_>, prefix: &'static str, ids: &'static str) -> Result<Self> {
        let ints = |name: &str| -> Result<&[i64]> { Ok(call.ints(name)?.unwrap_or_default()) };
        let floats = |name: &str| -> Result<Vec<f64>> {
            if let Some(tensor) = call.node.attributes.tensor(&format!("{name}_as_tensor"))? {
                return read_as_f64(tensor);
            }
            let list = call.node.attributes.floats(name)?.unwrap_or_default();
            Ok(list.iter().copied().map(f64::from).collect())
        };
        let (trees, nodes) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let (features, values) = (ints("nodes_featureids")?, floats("nodes_values")?);
        let (then, otherwise) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let missing = ints("nodes_missing_value_tracks_true")?;
        let modes = call.node.attributes.strings("nodes_modes")?.unwrap_or_default();
        let count = nodes.len();
        for (list, name) in [
            (trees, "nodes_treeids"),
            (features, "nodes_featureids"),
            (then, "nodes_truenodeids"),
            (otherwise, "nodes_falsenodeids"),
        ] {
            super::long_enough(list, count, name)?;
        }
        super::long_enough(&values, count, "nodes_values")?;
        super::long_enough(modes, count, "nodes_modes")?;
        let mut weights: HashMap<(i64, i64), Vec<(usize, f64)>> = HashMap::new();
        let of_leaf = |what: &str| format!("{prefix}_{what}");
        let (leaf_trees, leaf_nodes) = (ints(&of_leaf("treeids"))?, ints(&of_leaf("nodeids"))?);
        let (leaf_targets, leaf_weights) = (ints(&of_leaf("ids"))?, floats(&of_leaf("weights"))?);
        super::long_enough(leaf_trees, leaf_weights.len(), ids)?;
        super::long_enough(leaf_nodes, leaf_weights.len(), ids)?;
        super::long_enough(leaf_targets, leaf_weights.len(), ids)?;
        for (n, &weight) in leaf_weights.iter().enumerate() {
            let target = usize::try_from(leaf_targets[n]).or_else(|_| bad(ids, "it must not be negative"))?;
            weights.entry((leaf_trees[n], leaf_nodes[n])).or_default().push((target, weight));
        }
        let mut forest = Self::default();
        let mut places: HashMap<(i64, i64), Next> = HashMap::new();
        let mut numbered = 0;
        for n in 0..count {
            let key = (trees[n], nodes[n]);
            let next = if modes[n] == "LEAF" {
                forest.leaves.push(weights.remove(&key).unwrap_or_default());
                Next::Leaf(forest.leaves.len() - 1)
            } else {
                numbered += 1;
                Next::Node(numbered - 1)
            };
            // The first node of a tree is its root.
            if n == 0 || trees[n - 1] != trees[n] {
                forest.roots.push(next);
            }
            places.insert(key, next);
        }
        for n in (0..count).filter(|&n| modes[n] != "LEAF") {
            let find = |node: i64| {
                places.get(&(trees[n], node)).copied().map_or_else(|| bad("nodes_nodeids", "a node is missing"), Ok)
            };
            forest.branches.push(Branch {
                feature: usize::try_from(features[n])
                    .or_else(|_| bad("nodes_featureids", "it must not be negative"))?,
                test: match modes[n].as_str() {
                    "BRANCH_LEQ" => Test::AtMost(values[n]),
                    "BRANCH_LT" => Test::Less(values[n]),
                    "BRANCH_GTE" => Test::AtLeast(values[n]),
                    "BRANCH_GT" => Test::Greater(values[n]),
                    "BRANCH_EQ" => Test::Equal(values[n]),
                    "BRANCH_NEQ" => Test::Differs(values[n]),
                    _ => return bad("nodes_modes", "a mode is not known"),
                },
                missing_passes: missing.get(n).is_some_and(|&passes| passes != 0),
                then: find(then[n])?,
                otherwise: find(otherwise[n])?,
            });
        }
        Ok(forest)
    }
}

fn targets(call: &Call<'_>) -> Result<usize> {
    let targets = call.int("n_targets", 1)?;
    usize::try_from(targets).map_err(|_| EvalError::NegativeExtent { extent: targets })
}

/// `TreeEnsemble`: `[rows, targets]`, of the input's type.
pub(crate) fn ensemble(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let forest = call.node.attributes.prepared(|| Forest::of_positions(call))?;
    let (rows, targets) = (Rows::of(x)?, targets(call)?);
    let aggregate = match call.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        _ => return bad("aggregate_function", "it is not known"),
    };
    let post = PostTransform::from_number(call.int("post_transform", 0)?)?;
    finish(x.dtype(), &rows, &forest, targets, aggregate, post, &[])
}

/// `TreeEnsembleRegressor`: `[rows, targets]`.
pub(crate) fn regress(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let rows = Rows::of(call.input(0)?)?;
    let forest = call.node.attributes.prepared(|| Forest::of_ids(call, "target", "target_ids"))?;
    let aggregate = match call.string("aggregate_function", "SUM")? {
        "AVERAGE" => Aggregate::Average,
        "SUM" => Aggregate::Sum,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        _ => return bad("aggregate_function", "it is not known"),
    };
    let base = base_values(call)?;
    finish(DType::F32, &rows, &forest, targets(call)?, aggregate, PostTransform::of(call)?, &base)
}

fn base_values(call: &Call<'_>) -> Result<Vec<f64>> {
    if let Some(tensor) = call.node.attributes.tensor("base_values_as_tensor")? {
        return read_as_f64(tensor);
    }
    let list = call.node.attributes.floats("base_values")?.unwrap_or_default();
    Ok(list.iter().copied().map(f64::from).collect())
}

fn finish(
    dtype: DType,
    rows: &Rows,
    forest: &Forest,
    targets: usize,
    aggregate: Aggregate,
    post: PostTransform,
    base: &[f64],
) -> Result<Vec<Tensor>> {
    if !base.is_empty() {
        super::long_enough(base, targets, "base_values")?;
    }
    let mut values = Vec::with_capacity(rows.count.saturating_mul(targets));
    for scores in forest.scores(rows, targets, aggregate)? {
        let with_base = |(n, score): (usize, Option<f64>)| score.unwrap_or(0.0) + base.get(n).copied().unwrap_or(0.0);
        let mut scores: Vec<f64> = scores.into_iter().enumerate().map(with_base).collect();
        post.apply(&mut scores);
        values.extend(scores);
    }
    one(write_f64_as(dtype, &[rows.count, targets], values.into_iter())?)
}

/// A forest whose targets are classes.
struct Classifier {
    forest: Forest,
    /// The class that the first leaf speaks of.
    first: usize,
    /// Whether all leaves speak of that one.
    is_of_one: bool,
    all_positive: bool,
}

impl Classifier {
    fn new(forest: Forest) -> Self {
        let weights = || forest.leaves.iter().flatten();
        let first = weights().next().map_or(0, |(class, _)| *class);
        let is_of_one = weights().all(|(class, _)| *class == first);
        let all_positive = weights().all(|(_, weight)| *weight >= 0.0);
        Self { first, is_of_one, all_positive, forest }
    }
}

/// `TreeEnsembleClassifier`: the class of each row, and all scores. Two classes may share one score: that of the second,
/// a probability if no weight is negative, else with its sign deciding.
pub(crate) fn classify(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let rows = Rows::of(call.input(0)?)?;
    let labels = Labels::of(call, "classlabels_int64s")?;
    let classifier =
        call.node.attributes.prepared(|| Forest::of_ids(call, "class", "class_ids").map(Classifier::new))?;
    let Classifier { forest, first, is_of_one, all_positive } = &*classifier;
    let (first, all_positive) = (*first, *all_positive);
    let (post, base) = (PostTransform::of(call)?, base_values(call)?);
    let classes = labels.len();
    let single = classes == 2 && *is_of_one;
    let (mut found, mut all) = (Vec::with_capacity(rows.count), Vec::new());
    for scores in forest.scores(&rows, classes.max(first + 1), Aggregate::Sum)? {
        let mut scores: Vec<f64> = if single {
            let base = if base.len() == 2 { base[1] } else { base.first().copied().unwrap_or(0.0) };
            let score = scores[first].unwrap_or(0.0) + base;
            found.push(usize::from(if all_positive { score > 0.5 } else { score > 0.0 }));
            match (post, all_positive) {
                (PostTransform::None, true) => vec![1.0 - score, score],
                _ => vec![-score, score],
            }
        } else {
            if !base.is_empty() {
                super::long_enough(&base, classes, "base_values")?;
            }
            let base_of = |n: usize| base.get(n).copied().unwrap_or(0.0);
            let scores: Vec<f64> =
                scores.iter().enumerate().map(|(n, score)| score.unwrap_or(0.0) + base_of(n)).collect();
            found.push(best(&scores));
            scores
        };
        post.apply(&mut scores);
        all.extend(scores);
    }
    let scores = write_f64_as(DType::F32, &[rows.count, classes], all.into_iter())?;
    Ok(vec![labels.tensor(&found)?, scores])
}
