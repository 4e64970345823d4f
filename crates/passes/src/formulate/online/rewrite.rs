//! The stages that go through keys in blocks, in the place of those that do not.

use super::found::{Found, Sum, stage_load};
use super::{BLOCK, FOLDED, GONE, KEY, MAXIMUM, Online, PRODUCT, Row, SCORES, TOTAL, WEIGHTED, WEIGHTS};
use crate::graph::composites::exp_if_normal;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Proof, Ranges};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::DType;
use std::collections::BTreeSet;

impl Found<'_> {
    /// The kernel with blocks of so many keys.
    pub(super) fn rewrite(&self, points: i64) -> Option<Online> {
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

    /// A stage with its axis of keys as two, and still without a body, and what its old coordinates are.
    fn with_blocks(&self, id: StageId, keys: usize, points: i64) -> (Stage, Placed) {
        let old = &self.kernel.stages[id];
        let mut stage = Stage { body: Body::default(), results: Vec::new(), ..old.clone() };
        stage.axes.splice(keys..=keys, self.axes(points, [AxisKind::Parallel; 2]));
        let at = |n: usize| match n {
            n if n < keys => var(n),
            n if n > keys => var(n + 1),
            _ => var(keys).scale(points) + var(keys + 1),
        };
        let place: Vec<IndexExpr> = (0..old.axes.len()).map(at).collect();
        let placed = self.placed(place, keys, keys, &stage);
        (stage, placed)
    }

    /// Coordinates in a stage: where those of another are, of which `keys` is the axis of keys, and the axis of blocks of them.
    fn placed(&self, place: Vec<IndexExpr>, keys: usize, block: usize, stage: &Stage) -> Placed {
        let open = self.exists(place[keys].clone(), stage);
        Placed { place, block, open, ranges: stage.ranges(&self.kernel.symbols) }
    }

    /// A stage with its axis of keys as two. Of keys that do not exist it reads zeros.
    fn in_blocks(&self, id: StageId, keys: usize, points: i64) -> Stage {
        let old = &self.kernel.stages[id];
        let (mut stage, placed) = self.with_blocks(id, keys, points);
        let mut body = Body::default();
        stage.results = body.import(&old.body, &old.results, &mut |body, op| Some(body.push(placed.op(op))));
        stage.body = body;
        stage
    }

    fn scores(&self, points: i64) -> Option<Stage> {
        let keys = self.keys;
        let old = &self.kernel.stages[self.weights];
        let (mut stage, placed) = self.with_blocks(self.weights, keys, points);
        "scores".clone_into(&mut stage.name);
        let along = self.kernel.stages[self.product].value_axes().position(|(n, _)| n == self.product_keys)?;
        let mut body = Body::default();
        let score = body.import(&old.body, &[self.score], &mut |body, op| {
            let new = match op {
                // There is a sum for each key of a block, if only of zeros.
                ScalarOp::Load(load) if matches!(load.source, Source::Stage(..)) => {
                    let at = |e: &IndexExpr| e.substitute_vars(&placed.place);
                    let mut index: Vec<IndexExpr> = load.index.iter().map(at).collect();
                    index.splice(along..=along, [var(keys), var(keys + 1)]);
                    ScalarOp::Load(Load { source: Source::Stage(PRODUCT, 0), index, ..load.clone() })
                }
                op => placed.op(op),
            };
            Some(body.push(new))
        });
        stage.results = match placed.open {
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
        let at = self.at(&row, var(rows), var(rows + 1));
        let result = if from == WEIGHTS { self.weight(&mut body, at) } else { body.push(load(from, 0, at)) };
        Stage { name: name.to_owned(), axes, body, results: vec![result], reducer: Some(reducer) }
    }

    /// The weight at coordinates, as it is summed.
    fn weight(&self, body: &mut Body, at: Vec<IndexExpr>) -> ScalarId {
        let weight = body.push(load_as(self.half.unwrap_or(DType::F32), WEIGHTS, 0, at));
        if self.half.is_some() { body.cast(DType::F32, weight) } else { weight }
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
        let exponential = match self.least {
            None => body.unary(UnaryOp::Exp, difference),
            Some(least) => exp_if_normal(&mut body, difference, least),
        };
        let result = self.half.map_or(exponential, |half| body.cast(half, exponential));
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
        let placed = self.placed(place, *keys, values, &stage);
        let row: Vec<IndexExpr> = rows.iter().map(|&axis| placed.place[axis].clone()).collect();
        let mut body = Body::default();
        let factor = body.import(&old.body, &[(*factor)?], &mut |body, op| Some(body.push(placed.op(op))));
        let weight = self.weight(&mut body, self.at(&row, var(values), var(values + 1)));
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

/// Where the coordinates of a stage are in another one.
struct Placed {
    place: Vec<IndexExpr>,
    /// The axis of blocks of keys; the next one is that of keys within them.
    block: usize,
    /// What says that a key exists, unless all of them do.
    open: Option<Bound>,
    ranges: Ranges,
}

impl Placed {
    /// An operation there. Where keys may not exist, what it loads of them is zero.
    fn op(&self, op: &ScalarOp) -> ScalarOp {
        let mut op = op.map_indices(&|e| e.substitute_vars(&self.place).simplify(&self.ranges));
        let of_keys =
            |e: &IndexExpr| [self.block, self.block + 1].iter().any(|&axis| e.uses_var(VarId::from_index(axis)));
        if let (ScalarOp::Load(load), Some(within)) = (&mut op, &self.open)
            && load.index.iter().any(of_keys)
        {
            load.valid.push(within.clone());
        }
        op
    }
}

fn load(stage: StageId, component: u8, index: Vec<IndexExpr>) -> ScalarOp {
    load_as(DType::F32, stage, component, index)
}

fn load_as(dtype: DType, stage: StageId, component: u8, index: Vec<IndexExpr>) -> ScalarOp {
    let source = Source::Stage(stage, component);
    let otherwise = Const::zero(dtype);
    ScalarOp::Load(Load { source, index, gather: Vec::new(), valid: Vec::new(), otherwise, dtype })
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
