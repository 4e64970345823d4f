//! `TreeEnsemble`, `TreeEnsembleRegressor` and `TreeEnsembleClassifier`, row by row.

use super::Rows;
use super::forest::{Forest, Next, bad};
use super::post::{Labels, Other, PostTransform, best};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{read_as_f64, write_f64_as};
use infc_tensor::{DType, Tensor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
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
}

fn targets(call: &Call<'_>) -> Result<usize> {
    let targets = call.int("n_targets", 1)?;
    usize::try_from(targets).map_err(|_| EvalError::NegativeExtent { extent: targets })
}

/// `TreeEnsemble`: `[rows, targets]`, of the input's type.
pub(crate) fn ensemble(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let forest = call.node.attributes.prepared(|| Forest::read(call.node.op_type, call.node.attributes))?;
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
    let forest = call.node.attributes.prepared(|| Forest::read(call.node.op_type, call.node.attributes))?;
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
        call.node.attributes.prepared(|| Forest::read(call.node.op_type, call.node.attributes).map(Classifier::new))?;
    let Classifier { forest, first, is_of_one, all_positive } = &*classifier;
    let (first, all_positive) = (*first, *all_positive);
    let (post, base) = (PostTransform::of(call)?, base_values(call)?);
    let classes = labels.len();
    let single = classes == 2 && *is_of_one;
    let (mut found, mut all) = (Vec::with_capacity(rows.count), Vec::new());
    for scores in forest.scores(&rows, classes.max(first + 1), Aggregate::Sum)? {
        let scores: Vec<f64> = if single {
            let base = if base.len() == 2 { base[1] } else { base.first().copied().unwrap_or(0.0) };
            let score = scores[first].unwrap_or(0.0) + base;
            found.push(usize::from(if all_positive { score > 0.5 } else { score > 0.0 }));
            post.of_second(score, if all_positive { Other::Complement } else { Other::Negative })
        } else {
            if !base.is_empty() {
                super::long_enough(&base, classes, "base_values")?;
            }
            let base_of = |n: usize| base.get(n).copied().unwrap_or(0.0);
            let mut scores: Vec<f64> =
                scores.iter().enumerate().map(|(n, score)| score.unwrap_or(0.0) + base_of(n)).collect();
            found.push(best(&scores));
            post.apply(&mut scores);
            scores
        };
        all.extend(scores);
    }
    let scores = write_f64_as(DType::F32, &[rows.count, classes], all.into_iter())?;
    Ok(vec![labels.tensor(&found)?, scores])
}
