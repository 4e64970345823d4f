//! Softmax and the sum that it weighs in one pass over the keys, some of them at a time (online softmax: Milakov and
//! Gimelshein, arXiv:1805.02867; in blocks: Dao et al., FlashAttention, arXiv:2205.14135).
//!
//! ```text
//! m = max_l e_l;  p_l = exp(e_l − m);  z = Σ_l p_l;  a = Σ_l p_l·v_l
//! ```
//!
//! becomes, for blocks `j` of keys `l = j·B + i`,
//!
//! ```text
//! m_j = max_i e_ji;  p_ji = exp(e_ji − m_j);  z_j = Σ_i p_ji;  a_j = Σ_i p_ji·v_ji
//! (m, z, a) = fold over j:  k = max(m, m_j);  (k, exp(m − k)·z + exp(m_j − k)·z_j, exp(m − k)·a + exp(m_j − k)·a_j)
//! ```
//!
//! so that nothing has to be kept per key, but of one block. What lies behind the last key is −∞, of weight 0. The maximum
//! of a row is the lowest finite number at least, so that no infinity is subtracted from another: where all of a row is −∞
//! the quotient of the sums is 0/0, as it was. Error class: reassociating.

use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Proof, Ranges};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;
use std::collections::BTreeSet;

/// A kernel that goes through keys in blocks: its first stages, in this order, and a fold over blocks of keys.
#[derive(Clone, Debug)]
pub struct Online {
    /// The kernel.
    pub kernel: Kernel,
    /// Per axis that goes over rows, or over rows of several heads, its number in the product, the weights and the values.
    pub rows: Vec<Row>,
    /// The axis of keys within a block, in the product.
    pub product_key: usize,
}

/// An axis by its numbers in stages of an [`Online`] kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// In [`PRODUCT`].
    pub product: usize,
    /// In [`SCORES`] and [`WEIGHTS`].
    pub weights: usize,
    /// In [`WEIGHTED`] and [`FOLDED`].
    pub folded: usize,
}

/// The sum of products that scores are made of.
pub const PRODUCT: StageId = StageId(0);
/// Scores.
pub const SCORES: StageId = StageId(1);
/// The largest of a row's scores in a block.
pub const MAXIMUM: StageId = StageId(2);
/// Exponentials of scores below that.
pub const WEIGHTS: StageId = StageId(3);
/// The sum of a row's weights in a block.
pub const TOTAL: StageId = StageId(4);
/// The sum of what they weigh.
pub const WEIGHTED: StageId = StageId(5);
/// What all blocks come to: the largest score, the sum of weights, and that of what they weigh.
pub const FOLDED: StageId = StageId(6);
/// The axis of blocks of keys, in all of these.
pub const BLOCK: &str = "block";
/// The axis of keys within one.
pub const KEY: &str = "key";
/// Stages that these replace. They come first in a kernel.
const GONE: usize = 5;

/// The kernel with blocks of so many keys; `None` if it does not begin with such stages.
#[must_use]
pub fn online(kernel: &Kernel, points: i64) -> Option<Online> {
    let mut kernel = kernel.clone();
    // Scores that are a stage of their own are computed where they are read.
    while let Some(id) = kernel.stages.ids().find(|&id| is_score(&kernel, id)) {
        compute_in_readers(&mut kernel, id);
    }
    Found::of(&kernel)?.rewrite(points)
}

/// Whether a stage only maps what it reads, and is read by a maximum, or by exponentials, without conditions.
fn is_score(kernel: &Kernel, id: StageId) -> bool {
    let stage = &kernel.stages[id];
    let mut readers = kernel.stages.ids().filter(|&reader| reads(&kernel.stages[reader], id)).peekable();
    let is_map = stage.reducer.is_none()
        && stage.results.len() == 1
        && stage.axes.iter().all(|axis| axis.kind == AxisKind::Parallel)
        && kernel.outputs.iter().all(|output| output.stage != id);
    is_map
        && readers.peek().is_some()
        && readers.all(|reader| {
            let reader = &kernel.stages[reader];
            let is_plain = |op: &ScalarOp| match op {
                ScalarOp::Load(load) if load.source == Source::Stage(id, 0) => stage_load(op).is_some(),
                _ => true,
            };
            let folds_maximum = reader.reducer.as_ref().is_some_and(|r| r.as_binary() == Some(BinaryOp::Max));
            let is_exponential = matches!(reader.body.ops[reader.results[0]], ScalarOp::Unary(UnaryOp::Exp, _));
            (folds_maximum || is_exponential) && reader.body.ops.iter().all(is_plain)
        })
}

/// Removes a stage whose readers compute what it does.
fn compute_in_readers(kernel: &mut Kernel, id: StageId) {
    let gone = kernel.stages[id].clone();
    let moved = |stage: StageId| StageId::from_index(stage.index() - usize::from(stage > id));
    let mut stages = Vec::new();
    for (_, stage) in kernel.stages.iter_enumerated().filter(|(own, _)| *own != id) {
        let mut new = Stage { body: Body::default(), ..stage.clone() };
        let ranges = stage.ranges(&kernel.symbols);
        let mut body = Body::default();
        new.results = body.import(&stage.body, &stage.results, &mut |body, op| match op {
            ScalarOp::Load(load) if load.source == Source::Stage(id, 0) => {
                let at = |e: &IndexExpr| e.substitute_vars(&load.index).simplify(&ranges);
                let value =
                    body.import(&gone.body, &gone.results, &mut |body, op| Some(body.push(op.map_indices(&at))));
                Some(value[0])
            }
            _ => None,
        });
        for op in body.ops.iter_mut() {
            if let ScalarOp::Load(Load { source: Source::Stage(source, _), .. }) = op {
                *source = moved(*source);
            }
        }
        new.body = body;
        stages.push(new);
    }
    kernel.stages = stages.into_iter().collect();
    kernel.outputs.iter_mut().for_each(|output| output.stage = moved(output.stage));
}

/// What is to be rewritten. Axes are numbers in their stage.
struct Found<'k> {
    kernel: &'k Kernel,
    /// The sum of products behind the scores, and its axis of keys.
    product: StageId,
    product_keys: usize,
    /// Per axis of `rows`, the product's.
    product_rows: Vec<usize>,
    weights: StageId,
    /// The weights' axis of keys, and the others.
    keys: usize,
    rows: Vec<usize>,
    /// The score, in the weights' body.
    score: ScalarId,
    total: Sum,
    weighted: Sum,
}

/// A sum over keys.
struct Sum {
    stage: StageId,
    /// Its reduced axis.
    keys: usize,
    /// Per axis of [`Found::rows`], its axis.
    rows: Vec<usize>,
    /// What weights are multiplied with.
    factor: Option<ScalarId>,
}

/// The axes that an index names one by one.
fn plain(index: &[IndexExpr], axes: usize) -> Option<Vec<usize>> {
    let axis_of = |e: &IndexExpr| (0..axes).find(|&axis| *e == IndexExpr::var(VarId::from_index(axis)));
    let found: Vec<usize> = index.iter().map(axis_of).collect::<Option<_>>()?;
    let is_once = |n: usize| found[..n].iter().all(|axis| *axis != found[n]);
    (0..found.len()).all(is_once).then_some(found)
}

/// A load of a stage's only component without conditions.
fn stage_load(op: &ScalarOp) -> Option<(StageId, &[IndexExpr])> {
    match op {
        ScalarOp::Load(Load { source: Source::Stage(stage, 0), index, gather, valid, .. })
            if gather.is_empty() && valid.is_empty() =>
        {
            Some((*stage, index))
        }
        _ => None,
    }
}

fn reads(stage: &Stage, id: StageId) -> bool {
    let mut found = false;
    stage.for_each_load(&mut |_, load| found |= matches!(load.source, Source::Stage(source, _) if source == id));
    found
}

fn only_reduced(stage: &Stage) -> Option<usize> {
    let mut reduced = stage.reduce_axes().map(|(n, _)| n);
    reduced.next().filter(|_| reduced.next().is_none())
}

impl<'k> Found<'k> {
    fn of(kernel: &'k Kernel) -> Option<Self> {
        let mut candidates = kernel.stages.ids().filter_map(|id| Self::with_weights(kernel, id));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    fn with_weights(kernel: &'k Kernel, weights: StageId) -> Option<Self> {
        let stage = &kernel.stages[weights];
        let is_output = |id: StageId| kernel.outputs.iter().any(|output| output.stage == id);
        let (&[result], None) = (&stage.results[..], &stage.reducer) else { return None };
        let ScalarOp::Unary(UnaryOp::Exp, difference) = stage.body.ops[result] else { return None };
        let ScalarOp::Binary(BinaryOp::Sub, score, least) = stage.body.ops[difference] else { return None };
        let (maximum, index) = stage_load(&stage.body.ops[least])?;
        if stage.body.dtype(result) != DType::F32 || stage.axes.iter().any(|a| a.kind != AxisKind::Parallel) {
            return None;
        }
        let rows_of_maximum = plain(index, stage.axes.len())?;
        let mut keys = (0..stage.axes.len()).filter(|axis| !rows_of_maximum.contains(axis));
        let (Some(keys), None) = (keys.next(), keys.next()) else { return None };

        // The maximum is that of the same scores.
        let of_maximum = &kernel.stages[maximum];
        let reducer = of_maximum.reducer.as_ref()?;
        let along = only_reduced(of_maximum)?;
        if reducer.as_binary() != Some(BinaryOp::Max) || of_maximum.axes[along].extent != stage.axes[keys].extent {
            return None;
        }
        let mut place = vec![IndexExpr::var(VarId::from_index(keys)); of_maximum.axes.len()];
        for ((axis, _), &row) in of_maximum.value_axes().zip(&rows_of_maximum) {
            place[axis] = IndexExpr::var(VarId::from_index(row));
        }
        let mut both = Body::default();
        let mine = both.import(&stage.body, &[score], &mut |_, _| None);
        let its = both.import(&of_maximum.body, &of_maximum.results, &mut |body, op| {
            Some(body.push(op.map_indices(&|e| e.substitute_vars(&place))))
        });
        if mine != its {
            return None;
        }

        // Scores are made of one sum of products, and of operands.
        let mut product = None;
        for op in both.ops.iter() {
            let ScalarOp::Load(Load { source: Source::Stage(..), .. }) = op else { continue };
            let (id, index) = stage_load(op)?;
            let axes = plain(index, stage.axes.len())?;
            let along = axes.iter().position(|&axis| axis == keys)?;
            if product.replace((id, along, axes)).is_some() {
                return None;
            }
        }
        let (product, along, axes) = product?;
        let reads_operands = |id: StageId| {
            let mut all = true;
            kernel.stages[id].for_each_load(&mut |_, load| all &= matches!(load.source, Source::Operand(_)));
            all
        };
        let product_keys = kernel.stages[product].value_axes().nth(along)?.0;
        if kernel.stages[product].reducer.is_none() || !reads_operands(product) {
            return None;
        }

        let rows: Vec<usize> = (0..stage.axes.len()).filter(|&axis| axis != keys).collect();
        let of_product = |row: &usize| {
            let position = axes.iter().position(|axis| axis == row)?;
            Some(kernel.stages[product].value_axes().nth(position)?.0)
        };
        let product_rows: Vec<usize> = rows.iter().map(of_product).collect::<Option<_>>()?;
        let mut sums = Vec::new();
        for id in kernel.stages.ids().filter(|&id| reads(&kernel.stages[id], weights)) {
            sums.push(Sum::of(kernel, id, weights, keys, &rows)?);
        }
        let [a, b] = <[Sum; 2]>::try_from(sums).ok()?;
        let (total, weighted) = if a.factor.is_none() { (a, b) } else { (b, a) };
        if total.factor.is_some() || weighted.factor.is_none() {
            return None;
        }
        let readers = |of: StageId| kernel.stages.ids().filter(move |&id| reads(&kernel.stages[id], of));
        let only_here = readers(product).all(|id| id == maximum || id == weights)
            && readers(maximum).all(|id| id == weights)
            && ![product, maximum, weights, total.stage, weighted.stage].into_iter().any(is_output);
        let first = [product, maximum, weights, total.stage, weighted.stage].iter().all(|id| id.index() < GONE);
        (only_here && first).then_some(Self {
            kernel,
            product,
            product_keys,
            product_rows,
            weights,
            keys,
            rows,
            score,
            total,
            weighted,
        })
    }

    fn rewrite(&self, points: i64) -> Option<Online> {
        let kernel = self.kernel;
        let mut stages = vec![
            self.in_blocks(self.product, self.product_keys, points),
            self.scores(points)?,
            self.of_block("block_max", SCORES, Reducer::binary(BinaryOp::Max, lowest()), points),
            self.exponentials(points),
            self.of_block("block_sum", WEIGHTS, Reducer::sum(DType::F32), points),
            self.weighted_block(points)?,
            self.folded(points)?,
        ];
        let further = kernel.stages.iter_enumerated().skip(GONE).map(|(_, stage)| self.behind(stage));
        stages.extend(further.collect::<Option<Vec<_>>>()?);
        let mut names = BTreeSet::new();
        if !stages.iter().all(|stage| names.insert(stage.name.clone())) {
            return None;
        }
        let mut new = Kernel { stages: stages.into_iter().collect(), ..kernel.clone() };
        new.outputs.iter_mut().for_each(|output| output.stage = behind(output.stage));
        let behind_keys = |axis: usize, keys: usize| axis + usize::from(axis > keys);
        let values: Vec<usize> = kernel.stages[self.weighted.stage].value_axes().map(|(n, _)| n).collect();
        let rows =
            self.rows.iter().zip(&self.product_rows).zip(&self.weighted.rows).map(|((&row, &product), folded)| {
                let folded = values.iter().position(|value| value == folded)?;
                let (product, weights) = (behind_keys(product, self.product_keys), behind_keys(row, self.keys));
                Some(Row { product, weights, folded })
            });
        Some(Online { kernel: new, rows: rows.collect::<Option<_>>()?, product_key: self.product_keys + 1 })
    }

    fn key_extent(&self) -> &IndexExpr {
        &self.kernel.stages[self.weights].axes[self.keys].extent
    }

    /// The axes that keys become: of blocks, and of keys within one.
    fn axes(&self, points: i64, kinds: [AxisKind; 2]) -> [Axis; 2] {
        let ranges = self.kernel.stages[self.weights].ranges(&self.kernel.symbols);
        let points = IndexExpr::constant(points);
        let blocks = self.key_extent().ceil_div(&points).simplify(&ranges);
        let [of_blocks, of_keys] = kinds;
        [
            Axis { name: BLOCK.to_owned(), extent: blocks, kind: of_blocks },
            Axis { name: KEY.to_owned(), extent: points, kind: of_keys },
        ]
    }

    /// That a key which is so much in a block exists, unless all of them do.
    fn exists(&self, at: IndexExpr, stage: &Stage) -> Option<Bound> {
        let within = Bound { expr: at, lo: IndexExpr::constant(0), hi: self.key_extent().clone() };
        (within.proof(&stage.ranges(&self.kernel.symbols)) != Proof::Yes).then_some(within)
    }

    /// A stage with its axis of keys as two. Of keys that do not exist it reads zeros.
    fn in_blocks(&self, id: StageId, keys: usize, points: i64) -> Stage {
        let old = &self.kernel.stages[id];
        let mut stage = Stage { body: Body::default(), ..old.clone() };
        stage.axes.splice(keys..=keys, self.axes(points, [AxisKind::Parallel; 2]));
        let at = |n: usize| match n {
            n if n < keys => var(n),
            n if n > keys => var(n + 1),
            _ => var(keys).scale(points) + var(keys + 1),
        };
        let place: Vec<IndexExpr> = (0..old.axes.len()).map(at).collect();
        let open = self.exists(place[keys].clone(), &stage);
        let ranges = stage.ranges(&self.kernel.symbols);
        let mut body = Body::default();
        stage.results = body.import(&old.body, &old.results, &mut |body, op| {
            Some(body.push(placed(op, &place, keys, open.as_ref(), &ranges)))
        });
        stage.body = body;
        stage
    }

    fn scores(&self, points: i64) -> Option<Stage> {
        let keys = self.keys;
        let old = &self.kernel.stages[self.weights];
        let mut stage = Stage { name: "scores".to_owned(), body: Body::default(), results: Vec::new(), ..old.clone() };
        stage.axes.splice(keys..=keys, self.axes(points, [AxisKind::Parallel; 2]));
        let at = |n: usize| match n {
            n if n < keys => var(n),
            n if n > keys => var(n + 1),
            _ => var(keys).scale(points) + var(keys + 1),
        };
        let place: Vec<IndexExpr> = (0..old.axes.len()).map(at).collect();
        let open = self.exists(place[keys].clone(), &stage);
        let ranges = stage.ranges(&self.kernel.symbols);
        let along = self.kernel.stages[self.product].value_axes().position(|(n, _)| n == self.product_keys)?;
        let mut body = Body::default();
        let score = body.import(&old.body, &[self.score], &mut |body, op| {
            let new = match op {
                // There is a sum for each key of a block, if only of zeros.
                ScalarOp::Load(load) if matches!(load.source, Source::Stage(..)) => {
                    let mut index: Vec<IndexExpr> = load.index.iter().map(|e| e.substitute_vars(&place)).collect();
                    index.splice(along..=along, [var(keys), var(keys + 1)]);
                    ScalarOp::Load(Load { source: Source::Stage(PRODUCT, 0), index, ..load.clone() })
                }
                op => placed(op, &place, keys, open.as_ref(), &ranges),
            };
            Some(body.push(new))
        });
        stage.results = match open {
            None => score,
            Some(within) => {
                let exists = body.push(ScalarOp::InBounds(vec![within]));
                let nothing = body.constant(DType::F32, f64::NEG_INFINITY);
                vec![body.push(ScalarOp::Select(exists, score[0], nothing))]
            }
        };
        stage.body = body;
        Some(stage)
    }

    /// Where scores and weights are, by the coordinates of a row, of a block and within it.
    fn at(&self, row: &[IndexExpr], block: IndexExpr, key: IndexExpr) -> Vec<IndexExpr> {
        let mut index = row.to_vec();
        index.splice(self.keys..self.keys, [block, key]);
        index
    }

    /// What a row's part in a block folds to.
    fn of_block(&self, name: &str, from: StageId, reducer: Reducer, points: i64) -> Stage {
        let rows = self.rows.len();
        let mut axes: Vec<Axis> =
            self.rows.iter().map(|&row| self.kernel.stages[self.weights].axes[row].clone()).collect();
        axes.extend(self.axes(points, [AxisKind::Parallel, AxisKind::Reduce]));
        let row: Vec<IndexExpr> = (0..rows).map(var).collect();
        let mut body = Body::default();
        let result = body.push(load(from, 0, self.at(&row, var(rows), var(rows + 1))));
        Stage { name: name.to_owned(), axes, body, results: vec![result], reducer: Some(reducer) }
    }

    fn exponentials(&self, points: i64) -> Stage {
        let old = &self.kernel.stages[self.weights];
        let mut axes: Vec<Axis> = self.rows.iter().map(|&row| old.axes[row].clone()).collect();
        axes.splice(self.keys..self.keys, self.axes(points, [AxisKind::Parallel; 2]));
        let all: Vec<IndexExpr> = (0..axes.len()).map(var).collect();
        let mut of_row = all.clone();
        of_row.remove(self.keys + 1);
        let block = of_row.remove(self.keys);
        of_row.push(block);
        let mut body = Body::default();
        let (score, most) = (body.push(load(SCORES, 0, all)), body.push(load(MAXIMUM, 0, of_row)));
        let difference = body.binary(BinaryOp::Sub, score, most);
        let result = body.push(ScalarOp::Unary(UnaryOp::Exp, difference));
        Stage { name: old.name.clone(), axes, body, results: vec![result], reducer: None }
    }

    fn weighted_block(&self, points: i64) -> Option<Stage> {
        let Sum { stage, keys, rows, factor, .. } = &self.weighted;
        let old = &self.kernel.stages[*stage];
        let mut axes: Vec<Axis> = old.value_axes().map(|(_, a)| a.clone()).collect();
        let values = axes.len();
        axes.extend(self.axes(points, [AxisKind::Parallel, AxisKind::Reduce]));
        let mut place = vec![var(values).scale(points) + var(values + 1); old.axes.len()];
        for (n, (own, _)) in old.value_axes().enumerate() {
            place[own] = var(n);
        }
        let (results, reducer) = (Vec::new(), old.reducer.clone());
        let mut stage = Stage { name: "block_values".to_owned(), axes, body: Body::default(), results, reducer };
        let open = self.exists(place[*keys].clone(), &stage);
        let ranges = stage.ranges(&self.kernel.symbols);
        let row: Vec<IndexExpr> = rows.iter().map(|&axis| place[axis].clone()).collect();
        let mut body = Body::default();
        let factor = body.import(&old.body, &[(*factor)?], &mut |body, op| {
            Some(body.push(placed(op, &place, values, open.as_ref(), &ranges)))
        });
        let weight = body.push(load(WEIGHTS, 0, self.at(&row, var(values), var(values + 1))));
        stage.results = vec![body.binary(BinaryOp::Mul, weight, factor[0])];
        stage.body = body;
        Some(stage)
    }

    fn folded(&self, points: i64) -> Option<Stage> {
        let old = &self.kernel.stages[self.weighted.stage];
        let mut axes: Vec<Axis> = old.value_axes().map(|(_, a)| a.clone()).collect();
        let values = axes.len();
        let [blocks, _] = self.axes(points, [AxisKind::Reduce; 2]);
        axes.push(blocks);
        let position = |axis: &usize| old.value_axes().position(|(n, _)| n == *axis).map(var);
        let mut of_row: Vec<IndexExpr> = self.weighted.rows.iter().map(position).collect::<Option<_>>()?;
        of_row.push(var(values));
        let mut body = Body::default();
        let results = vec![
            body.push(load(MAXIMUM, 0, of_row.clone())),
            body.push(load(TOTAL, 0, of_row)),
            body.push(load(WEIGHTED, 0, (0..=values).map(var).collect())),
        ];
        Some(Stage { name: "attended".to_owned(), axes, body, results, reducer: Some(merging()) })
    }

    /// A stage that follows, which reads both sums at the same rows where they are folded.
    fn behind(&self, stage: &Stage) -> Option<Stage> {
        let sum_at = |wanted: &Sum| {
            let found = stage.body.ops.iter().filter_map(stage_load).filter(|(id, _)| *id == wanted.stage);
            found.map(|(_, index)| index.to_vec()).collect::<Vec<_>>()
        };
        let (totals, values) = (sum_at(&self.total), sum_at(&self.weighted));
        // By the weights' rows.
        let rows_of = |index: &[IndexExpr], sum: &Sum| -> Vec<IndexExpr> {
            let axes: Vec<usize> = self.kernel.stages[sum.stage].value_axes().map(|(n, _)| n).collect();
            let position = |row: &usize| axes.iter().position(|axis| axis == row);
            sum.rows.iter().filter_map(|row| Some(index[position(row)?].clone())).collect()
        };
        let place = match (&totals[..], &values[..]) {
            ([], []) => None,
            ([total], [value]) if rows_of(total, &self.total) == rows_of(value, &self.weighted) => Some(value),
            _ => return None,
        };
        let mut new = stage.clone();
        for op in new.body.ops.iter_mut() {
            let ScalarOp::Load(load) = op else { continue };
            let Source::Stage(id, component) = load.source else { continue };
            let plain = load.gather.is_empty() && load.valid.is_empty();
            load.source = match place.filter(|_| plain) {
                Some(place) if id == self.total.stage => {
                    load.index.clone_from(place);
                    Source::Stage(FOLDED, 1)
                }
                Some(_) if id == self.weighted.stage => Source::Stage(FOLDED, 2),
                _ if id.index() < GONE => return None,
                _ => Source::Stage(behind(id), component),
            };
        }
        Some(new)
    }
}

/// The number of a stage behind those that are replaced.
fn behind(id: StageId) -> StageId {
    StageId::from_index(id.index() - GONE + FOLDED.index() + 1)
}

fn var(n: usize) -> IndexExpr {
    IndexExpr::var(VarId::from_index(n))
}

/// The least that a maximum is.
fn lowest() -> Const {
    Const::from_f64(DType::F32, f64::from(f32::MIN))
}

/// An operation at other coordinates. Where keys may not exist, what it loads of them is zero: of blocks, `block` is the axis, and
/// the next one of keys within them.
fn placed(op: &ScalarOp, place: &[IndexExpr], block: usize, open: Option<&Bound>, ranges: &Ranges) -> ScalarOp {
    let mut op = op.map_indices(&|e| e.substitute_vars(place).simplify(ranges));
    if let (ScalarOp::Load(load), Some(within)) = (&mut op, open)
        && load.index.iter().any(|e| [block, block + 1].iter().any(|&axis| e.uses_var(VarId::from_index(axis))))
    {
        load.valid.push(within.clone());
    }
    op
}

fn load(stage: StageId, component: u8, index: Vec<IndexExpr>) -> ScalarOp {
    let source = Source::Stage(stage, component);
    let otherwise = Const::zero(DType::F32);
    ScalarOp::Load(Load { source, index, gather: Vec::new(), valid: Vec::new(), otherwise, dtype: DType::F32 })
}

/// How what two blocks have come to is put together. Of `exp(m − k)` and `exp(n − k)` one is 1.
fn merging() -> Reducer {
    let mut combine = Body::default();
    let [m, z, a, n, t, w] = [0, 1, 2, 3, 4, 5].map(|p| combine.param(p, DType::F32));
    let most = combine.binary(BinaryOp::Max, m, n);
    let apart = combine.binary(BinaryOp::Sub, m, n);
    let size = combine.push(ScalarOp::Unary(UnaryOp::Abs, apart));
    let below = combine.push(ScalarOp::Unary(UnaryOp::Neg, size));
    let scale = combine.push(ScalarOp::Unary(UnaryOp::Exp, below));
    let one = combine.constant(DType::F32, 1.0);
    let is_old = combine.push(ScalarOp::Compare(CompareOp::Ge, m, n));
    let (old, new) =
        (combine.push(ScalarOp::Select(is_old, one, scale)), combine.push(ScalarOp::Select(is_old, scale, one)));
    let mut both = |x, y| {
        let (x, y) = (combine.binary(BinaryOp::Mul, x, old), combine.binary(BinaryOp::Mul, y, new));
        combine.binary(BinaryOp::Add, x, y)
    };
    let results = vec![most, both(z, t), both(a, w)];
    let zero = Const::zero(DType::F32);
    Reducer { init: vec![lowest(), zero, zero], combine, results }
}

impl Sum {
    fn of(kernel: &Kernel, id: StageId, weights: StageId, keys: usize, rows: &[usize]) -> Option<Self> {
        let stage = &kernel.stages[id];
        let along = only_reduced(stage)?;
        let (&[result], Some(BinaryOp::Add)) = (&stage.results[..], stage.reducer.as_ref()?.as_binary()) else {
            return None;
        };
        let load_of = |id: ScalarId| {
            stage_load(&stage.body.ops[id]).filter(|(source, _)| *source == weights).map(|(_, index)| index)
        };
        let (weight, factor) = match stage.body.ops[result] {
            ScalarOp::Binary(BinaryOp::Mul, a, b) if load_of(a).is_some() => (a, Some(b)),
            ScalarOp::Binary(BinaryOp::Mul, a, b) => (b, Some(a)),
            _ => (result, None),
        };
        let axes = plain(load_of(weight)?, stage.axes.len())?;
        let loads =
            stage.body.ops.iter().filter(|op| matches!(op, ScalarOp::Load(Load { source: Source::Stage(..), .. })));
        // Of stages only the weights are read, and once.
        if loads.count() != 1 || axes[keys] != along || stage.body.dtype(result) != DType::F32 {
            return None;
        }
        let rows: Vec<usize> = rows.iter().map(|&row| axes[row]).collect();
        let is_plain = factor.is_some() || rows.len() == stage.value_axes().count();
        is_plain.then_some(Self { stage: id, keys: along, rows, factor })
    }
}
