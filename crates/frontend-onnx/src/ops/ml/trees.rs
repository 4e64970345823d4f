//! Ensembles of trees: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier.
//!
//! ONNX operators of these names in the domain `ai.onnx.ml`, opsets 1 to 5. Which leaves rows come to is found in one of two ways:
//! all tests at once ([`super::words`]), which is quicker for many rows of small trees, or one behind the other ([`super::walk`]).

use super::interval::Columns;
use super::post::{Labels, Other, PostTransform, with_numbers};
use super::tables::{self, MAX_TABLE, Reached, floats};
use super::walk::{self, Node, Walk};
use super::words::{self, Word};
use super::{Operator, table};
use crate::attributes::node_attributes;
use crate::build::{Builder, Result};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, CompareOp, Const, ScalarOp};
use infc_reference::Forest;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("TreeEnsemble", 5, ensemble),
    Operator::new("TreeEnsembleClassifier", 1, classify),
    Operator::new("TreeEnsembleRegressor", 1, regress),
];

const BASE_VALUES: &str = "base_values";

/// Rows where nobody knows how many there are.
const ROWS: i64 = 1000;

/// How the weights of several trees become one score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

fn forest(call: &Call<'_>) -> Result<Forest> {
    let unreadable = || Problem::UnsupportedAttribute {
        attribute: "nodes_treeids",
        expected: "trees that fit together",
        found: "others".to_owned(),
    };
    let attributes = node_attributes(call.node).ok().flatten().ok_or_else(unreadable)?;
    // What is wrong with it is said by whoever evaluates it.
    Forest::read(call.node.op_type(), &attributes).map_err(|_| unreadable())
}

fn base_values(call: &Call<'_>) -> Result<Vec<f64>> {
    if let Some(tensor) = call.tensor("base_values_as_tensor")? {
        return Ok((0..tensor.len_elems()).filter_map(|n| tensor.get_f64(n)).collect());
    }
    Ok(call.floats(BASE_VALUES)?.unwrap_or_default().iter().map(|&v| f64::from(v)).collect())
}

/// `TreeEnsembleRegressor`: `[rows, targets]`, of `f32`.
fn regress(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let aggregate = match call.string("aggregate_function", "SUM")?.as_str() {
        "AVERAGE" => Aggregate::Average,
        "SUM" => Aggregate::Sum,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        other => return Err(unknown_aggregate(other)),
    };
    let (forest, post, base) = (forest(call)?, PostTransform::of(call)?, base_values(call)?);
    let (x, targets) = (call.input(0)?, targets(call)?);
    let build = &mut *call.build;
    let x = table(build, &x)?;
    let scores = scores(build, &x, &forest, targets, aggregate)?;
    let scores = with_numbers(build, &scores, BASE_VALUES, base.into_iter())?;
    let scores = post.apply(build, &scores)?;
    Ok(vec![build.cast(&scores, DType::F32)?])
}

/// `TreeEnsemble`: `[rows, targets]`, of the input's type.
fn ensemble(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let aggregate = match call.int_or("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(unknown_aggregate(&other.to_string())),
    };
    let (forest, post) = (forest(call)?, PostTransform::of_number(call)?);
    let (x, targets) = (call.input(0)?, targets(call)?);
    let build = &mut *call.build;
    let rows = table(build, &x)?;
    let scores = scores(build, &rows, &forest, targets, aggregate)?;
    let scores = post.apply(build, &scores)?;
    Ok(vec![build.cast(&scores, x.dtype())?])
}

/// `TreeEnsembleClassifier`: the label of each row, and its scores, `[rows, classes]`.
///
/// Two classes may share one score: that of the second, a probability if no weight is negative, else with its sign deciding.
fn classify(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (labels, post) = (Labels::of(call, "classlabels_int64s")?, PostTransform::of(call)?);
    let (mut forest, base) = (forest(call)?, base_values(call)?);
    let classes = labels.len();
    let weights = || forest.leaves.iter().flatten();
    let first = weights().next().map_or(0, |&(class, _)| class);
    let is_single = classes == 2 && weights().all(|&(class, _)| class == first);
    let all_positive = weights().all(|&(_, weight)| weight >= 0.0);
    if is_single {
        forest.leaves.iter_mut().flatten().for_each(|(class, _)| *class = 0);
    }
    let x = call.input(0)?;
    let build = &mut *call.build;
    let x = table(build, &x)?;
    let (found, result) = if is_single {
        let base = if base.len() == 2 { base[1] } else { base.first().copied().unwrap_or(0.0) };
        let score = scores(build, &x, &forest, 1, Aggregate::Sum)?;
        let score = with_numbers(build, &score, BASE_VALUES, [base].into_iter())?;
        let (bound, other) = if all_positive { (0.5, Other::Complement) } else { (0.0, Other::Negative) };
        (labels.of_second(build, &score, bound)?, post.apply_to_second(build, &score, other)?)
    } else {
        let scores = scores(build, &x, &forest, classes, Aggregate::Sum)?;
        let scores = with_numbers(build, &scores, BASE_VALUES, base.into_iter())?;
        (labels.of_best(build, &scores)?, post.apply(build, &scores)?)
    };
    Ok(vec![found, build.cast(&result, DType::F32)?])
}

fn unknown_aggregate(found: &str) -> Problem {
    let expected = "AVERAGE, SUM, MIN or MAX";
    Problem::InvalidAttribute { attribute: "aggregate_function", expected, found: found.to_owned() }
}

fn targets(call: &Call<'_>) -> Result<usize> {
    Ok(call.positive("n_targets", 1)? as usize)
}

/// How the leaves of rows are found.
enum Form {
    Words(Vec<Word>),
    Walk(Walk),
}

impl Form {
    /// The forms of a forest that there are, with their columns.
    fn all(forest: &Forest, dtype: DType) -> Vec<(Self, Columns)> {
        let (mut of_words, mut of_walk) = (Columns::default(), Columns::default());
        // Trees that share parts have each of their own; that many do so is no tree that anything exports.
        let nodes = MAX_TABLE.min(4 * (forest.branches.len() + forest.leaves.len()));
        let words = words::words(forest, dtype, (nodes, MAX_TABLE), &mut of_words);
        let walk = Walk::of(forest, dtype, nodes, &mut of_walk);
        let words = words.map(|words| (Self::Words(words), of_words));
        words.into_iter().chain(walk.map(|walk| (Self::Walk(walk), of_walk))).collect()
    }

    /// What it takes for so many rows, in ns on one thread of a processor with AVX-512 (docs/perf-log.md, "trees").
    fn costs(&self, rows: i64) -> f64 {
        let rows = rows as f64;
        match self {
            Self::Words(words) => {
                (1.0 + 0.75 * (rows / 16.0).ceil()) * words::table_len(words) as f64 + 2.7 * rows * words.len() as f64
            }
            Self::Walk(walk) => walk.depth as f64 * (300.0 + 3.0 * rows * walk.roots.len() as f64),
        }
    }

    /// How many units it has.
    fn units(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Walk(walk) => walk.roots.len(),
        }
    }

    /// For each unit the one target that all its leaves speak of; `None` if one has several.
    fn targets(&self, weights: &[Vec<(usize, f64)>]) -> Option<Vec<usize>> {
        let of_leaves = |leaves: &mut dyn Iterator<Item = usize>| {
            let mut first = None;
            for leaf in leaves {
                match weights[leaf][..] {
                    [] => {}
                    [(target, _)] if *first.get_or_insert(target) == target => {}
                    _ => return None,
                }
            }
            Some(first.unwrap_or(0))
        };
        match self {
            Self::Words(words) => words.iter().map(|word| of_leaves(&mut word.leaves.iter().copied())).collect(),
            Self::Walk(walk) => {
                let ends = walk.roots.iter().skip(1).copied().chain([walk.nodes.len()]);
                let trees = walk.roots.iter().zip(ends).map(|(&root, end)| &walk.nodes[root..end]);
                let leaf = |node: &Node| match node {
                    Node::Leaf(leaf) => Some(*leaf),
                    Node::Fork(_) => None,
                };
                trees.map(|nodes| of_leaves(&mut nodes.iter().filter_map(leaf))).collect()
            }
        }
    }

    fn reached(&self, build: &mut Builder, columns: &Tracked, order: &[Option<usize>]) -> Result<Reached> {
        match self {
            Self::Words(words) => words::reached(build, columns, words, order),
            Self::Walk(walk) => walk::reached(build, columns, walk, order),
        }
    }
}

/// The cheapest form for so many rows.
fn cheapest(forms: &[(Form, Columns)], rows: i64) -> Option<usize> {
    (0..forms.len()).min_by(|&a, &b| forms[a].0.costs(rows).total_cmp(&forms[b].0.costs(rows)))
}

fn not_here(found: &str) -> Problem {
    Problem::UnsupportedAttribute {
        attribute: "nodes_modes",
        expected: "trees of few nodes that compare with one number each",
        found: found.to_owned(),
    }
}

/// Leaves to the host what is too large, and trees that speak of what there is not.
fn check(forest: &Forest, targets: usize) -> Result<()> {
    if forest.leaves.iter().flatten().any(|&(target, _)| target >= targets) {
        return Err(not_here("a target that does not exist"));
    }
    if forest.leaves.len().saturating_mul(targets) > MAX_TABLE {
        return Err(not_here("many targets"));
    }
    if forest.branches.iter().any(|branch| branch.feature >= MAX_TABLE) {
        return Err(not_here("many features"));
    }
    Ok(())
}

/// The scores of rows `[rows, features]` for each target, `[rows, targets]`, of the rows' type; 0 where no leaf speaks of one.
fn scores(build: &mut Builder, x: &Tracked, forest: &Forest, targets: usize, aggregate: Aggregate) -> Result<Tracked> {
    check(forest, targets)?;
    let (dtype, rows) = (x.dtype(), x.shape()[0].clone());
    let of_leaves: Vec<Vec<(usize, f64)>> = forest.leaves.iter().map(|leaf| aggregate.by_target(leaf)).collect();
    let is_finite = |weight: f64| if dtype == DType::F64 { weight.is_finite() } else { (weight as f32).is_finite() };
    if aggregate.is_extremum() && of_leaves.iter().flatten().any(|&(_, weight)| !is_finite(weight)) {
        // Infinity stands for a target that no leaf speaks of.
        return Err(not_here("weights that are not finite"));
    }
    if forest.roots.is_empty() {
        let zero = build.scalar(dtype, 0.0);
        return build.broadcast(&zero, &[rows, Dim::constant(targets as i64)]);
    }
    let mut forms = Form::all(forest, dtype);
    let chosen = cheapest(&forms, rows.as_const().unwrap_or(ROWS)).ok_or_else(|| not_here("others"))?;
    if rows.as_const().is_none() && cheapest(&forms, 1) != Some(chosen) {
        build.one_is_usual(&[&rows]);
    }
    let (form, columns) = forms.swap_remove(chosen);
    let least = columns.all.iter().map(|&(feature, _)| feature as i64 + 1).max().unwrap_or(0);
    if x.shape()[1].as_const().is_some_and(|features| features < least) {
        // Rows may never come to who asks for it.
        return Err(not_here("a feature that does not exist"));
    }
    build.require_at_least("the features of a row", &x.shape()[1], &Dim::constant(least))?;
    let columns = tables::columns(build, x, &columns)?;

    // A target for each unit alone, or all targets for all.
    let own = if targets > 1 && aggregate == Aggregate::Sum { form.targets(&of_leaves) } else { None };
    let grouped = own.and_then(|own| grouped(&own, targets));
    let outer = if grouped.is_some() { 1 } else { targets };
    let order = grouped.unwrap_or_else(|| (0..form.units()).map(Some).collect());
    let found = form.reached(build, &columns, &order)?;
    if found.leaves.len().saturating_mul(outer) > 4 * MAX_TABLE {
        return Err(not_here("many leaves"));
    }
    let mut weights = vec![aggregate.nothing(); outer * found.leaves.len()];
    for (place, leaf) in found.leaves.iter().enumerate() {
        for &(target, weight) in leaf.iter().flat_map(|&leaf| &of_leaves[leaf]) {
            let target = if outer < targets { 0 } else { target };
            weights[target * found.leaves.len() + place] = weight;
        }
    }
    let weights = floats(build, "weights of leaves", dtype, &[outer, found.leaves.len()], weights.into_iter());
    // [targets or 1, units, rows]
    let weights = build.gather(&weights, &found.places, 1)?;
    let weights = match &found.exists {
        None => weights,
        Some(exists) => build.map(&[exists, &weights], |body, p| {
            let nothing = body.constant(dtype, aggregate.nothing());
            body.select(p[0], p[1], nothing)
        })?,
    };
    let units = order.len() / (targets / outer);
    let shape = [Dim::constant(targets as i64), Dim::constant(units as i64), rows];
    let weights = build.reshape(&weights, &shape)?;
    let scores = aggregate.fold(build, &weights, forest.roots.len())?;
    build.transpose(&scores, &[1, 0])
}

impl Aggregate {
    fn is_extremum(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }

    /// The weights of a leaf, one for each target that it speaks of.
    fn by_target(self, leaf: &[(usize, f64)]) -> Vec<(usize, f64)> {
        let mut all = leaf.to_vec();
        // In the order of the leaf for each.
        all.sort_by_key(|&(target, _)| target);
        all.dedup_by(|&mut (target, weight), (kept, sum)| {
            let is_same = target == *kept;
            if is_same {
                *sum = match self {
                    Self::Sum | Self::Average => *sum + weight,
                    Self::Min => sum.min(weight),
                    Self::Max => sum.max(weight),
                };
            }
            is_same
        });
        all
    }

    /// The weight of a leaf that has none.
    fn nothing(self) -> f64 {
        match self {
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
            Aggregate::Sum | Aggregate::Average => 0.0,
        }
    }

    /// Of the weights that units of so many trees have for rows, `[targets, units, rows]`, the scores, `[targets, rows]`.
    fn fold(self, build: &mut Builder, weights: &Tracked, trees: usize) -> Result<Tracked> {
        let dtype = weights.dtype();
        let nothing = Const::from_f64(dtype, self.nothing());
        let reducer = match self {
            Aggregate::Sum | Aggregate::Average => Reducer::sum(dtype),
            Aggregate::Min => Reducer::binary(BinaryOp::Min, nothing),
            Aggregate::Max => Reducer::binary(BinaryOp::Max, nothing),
        };
        let scores = build.reduce(&[weights], &[1], reducer, |_, p| p.to_vec())?.remove(0);
        build.map(&[&scores], |body, p| match self {
            Aggregate::Sum => p[0],
            Aggregate::Average => {
                let trees = body.constant(dtype, trees as f64);
                body.binary(BinaryOp::Div, p[0], trees)
            }
            Aggregate::Min | Aggregate::Max => {
                let (none, zero) = (body.push(ScalarOp::Const(nothing)), body.constant(dtype, 0.0));
                let is_none = body.compare(CompareOp::Eq, p[0], none);
                body.select(is_none, zero, p[0])
            }
        })
    }
}

/// The units of each target, one target behind the other, each with as many as the greatest has; `None` if most of these would
/// be none.
fn grouped(of_units: &[usize], targets: usize) -> Option<Vec<Option<usize>>> {
    let mut of_targets = vec![Vec::new(); targets];
    for (unit, &target) in of_units.iter().enumerate() {
        of_targets[target].push(Some(unit));
    }
    let most = of_targets.iter().map(Vec::len).max().unwrap_or(0);
    if most.saturating_mul(targets) > 2 * of_units.len() {
        return None;
    }
    of_targets.iter_mut().for_each(|units| units.resize(most, None));
    Some(of_targets.concat())
}
