//! Attention by blocks of keys ([`crate::formulate::online`]): a block of threads has some rows of queries, and takes the keys
//! some at a time. Scores are a product of matrices; they and their exponentials lie in shared memory, where the second product
//! takes them from, and what the blocks of keys come to is merged in registers.
//!
//! Nothing but the result is written to memory, and what a block of threads keeps does not grow with the number of keys, which may
//! be one that only a run tells.

use super::super::access::extent;
use super::fragments::{Form, Fragments, Spread, WARP};
use super::product::find;
use super::rewrite::{Rewritten, same_load};
use super::{Plan, Setting, is_fit};
use crate::ErrorClass;
use crate::formulate::cache::axes_of;
use crate::formulate::online::{self, Online};
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{BinaryOp, Load, ScalarOp, Source};
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};
use infc_tensor::DType;

/// Keys at a time, where there are no more, and where there are.
const KEYS: i64 = 64;
const MANY_KEYS: i64 = 128;
/// Tiles of keys and values that are copied ahead of those that are multiplied, by warps and by threads, the best first.
const AHEAD: [u32; 4] = [2, 1, 3, 0];
const AHEAD_OF_PATCHES: [u32; 4] = [1, 0, 2, 3];
/// Bytes along a sum between two barriers.
const STEP_BYTES: i64 = 64;
/// Rows of a block, and its warps along rows and columns: the largest first.
const MATRICES: [(i64, [i64; 2]); 3] = [(64, [4, 2]), (32, [2, 2]), (16, [1, 4])];
/// The same where every thread multiplies by itself: a warp has eight rows.
const PATCHES: [(i64, [i64; 2]); 3] = [(64, [8, 1]), (32, [4, 1]), (16, [2, 1])];
/// Rows that warps multiply of a block which goes through many keys at a time, at most.
const MOST_ROWS: i64 = 32;
/// Rows below which most of a fragment would be of no use.
const LEAST_ROWS: i64 = 9;
/// Columns of values, beyond which registers are too few.
const MOST_COLUMNS: i64 = 128;
/// Columns of which a warp's threads have as many each.
const PATCHED_COLUMNS: i64 = 16;
/// Columns of a fragment.
const FRAGMENT_COLUMNS: i64 = 8;

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let Setting { machine, allowed, .. } = setting;
    if allowed < ErrorClass::Reassociating || machine.warp != WARP {
        return None;
    }
    let few = online::online(kernel, KEYS)?;
    let axes = &few.kernel.stages[online::PRODUCT].axes;
    let is_one = axes.iter().any(|axis| axis.name == online::BLOCK && axis.extent.is_const(1));
    let usual = if is_one { KEYS } else { MANY_KEYS };
    let keys = setting.pick("keys", [usual, KEYS, KEYS / 2, MANY_KEYS])?;
    let online = online::online(kernel, keys)?;
    let multiplied = [online::PRODUCT, online::WEIGHTED].map(|id| multiplied(&online.kernel.stages[id]));
    let suits = |dtype: &Option<DType>| dtype.is_some_and(|dtype| dtype != DType::F32 || machine.rounds_to_tf32);
    let multiplies = machine.multiplies_matrices && multiplied.iter().all(suits);
    let (form, blocks) = if multiplies { (Form::Matrices, MATRICES) } else { (Form::Patches, PATCHES) };
    // Many rows of many keys leave room for one block of threads on a processor, which waits at every barrier.
    let most = if multiplies && keys > KEYS { MOST_ROWS } else { blocks[0].0 };
    let mut parts: Vec<Parts> = Vec::new();
    for block in blocks.into_iter().filter(|(rows, _)| *rows <= most) {
        parts.extend(Parts::of(kernel, &online, form, block, keys));
    }
    // Blocks enough for all processors, else as many as there can be.
    let busy =
        parts.iter().position(|parts| parts.blocks >= machine.busy_blocks).unwrap_or(parts.len().checked_sub(1)?);
    let order = (busy..parts.len()).chain(0..busy);
    // Without asynchronous copies nothing comes ahead.
    let ahead = match form {
        Form::Matrices | Form::Groups => AHEAD,
        Form::Patches if machine.multiplies_matrices => AHEAD_OF_PATCHES,
        Form::Patches => [0; 4],
    };
    let schedule = |(block, ahead): (usize, u32)| {
        parts[block].schedule(ahead).filter(|schedule| is_fit(kernel, schedule, &machine, allowed))
    };
    let ways = |block: usize| ahead.into_iter().map(move |ahead| (block, ahead));
    let usual = (busy..parts.len()).flat_map(ways).find(|&way| schedule(way).is_some())?;
    let all = order.flat_map(ways);
    schedule(setting.pick("block", [usual].into_iter().chain(all))?)
}

/// What the schedule is made of.
struct Parts {
    rewritten: Rewritten,
    /// The product that scores are made of, and that with the values.
    scored: Fragments,
    weighted: Fragments,
    /// Axes of rows and of columns of what blocks of keys come to, and of the result.
    folded: [usize; 2],
    root: [usize; 2],
    /// The axis of rows where scores and weights are.
    rows: usize,
    /// The same where rows are folded, and how many of them a warp has.
    row: usize,
    rows_of_warp: i64,
    /// Names of the stages of [`online`].
    names: Vec<String>,
    /// Blocks of threads.
    blocks: i64,
}

impl Parts {
    fn of(
        kernel: &Kernel,
        online: &Online,
        form: Form,
        (block_rows, warps): (i64, [i64; 2]),
        keys_at_once: i64,
    ) -> Option<Self> {
        let mut rewritten = Rewritten::of(kernel);
        rewritten.online(keys_at_once)?;
        let kernel = &online.kernel;
        let [product, weighted, folded] = [online::PRODUCT, online::WEIGHTED, online::FOLDED];
        let to_root = axes_in_root(kernel)?;

        // Rows are what the factor moves along that does not move along keys, and no other factor does.
        let scored = &kernel.stages[product];
        let moved = |stage: &Stage| -> Option<Vec<(ScalarId, Vec<usize>)>> {
            let of = |id: ScalarId| {
                let (load, of) = loaded(stage, id)?;
                Some((load, axes_of(stage, of)))
            };
            factors(stage)?.into_iter().map(of).collect()
        };
        let of_scores = moved(scored)?;
        let (keys, queries) = of_scores.iter().partition::<Vec<_>, _>(|(_, axes)| axes.contains(&online.product_key));
        let ([keys], [queries]) = (&keys[..], &queries[..]) else { return None };
        let is_row = |row: &&online::Row| queries.1.contains(&row.product) && !keys.1.contains(&row.product);
        let row = *only(online.rows.iter().filter(is_row))?;
        let scored_axes = [row.product, online.product_key, only(scored.reduce_axes().map(|(n, _)| n))?];

        // Columns are what the values alone move along.
        let values = &kernel.stages[weighted];
        let of_values = moved(values)?;
        let is_weights = |(id, _): &&(ScalarId, Vec<usize>)| {
            let ScalarOp::Load(load) = &values.body.ops[*id] else { return false };
            load.source == Source::Stage(online::WEIGHTS, 0)
        };
        let (of_weights, of_value) = of_values.iter().partition::<Vec<_>, _>(is_weights);
        let ([(of_weight, of_weights)], [(value, of_value)]) = (&of_weights[..], &of_value[..]) else { return None };
        let own = values.value_axes().map(|(n, _)| n).filter(|n| of_value.contains(n) && !of_weights.contains(n));
        let column = only(own)?;
        let weighted_axes = [row.folded, column, only(values.reduce_axes().map(|(n, _)| n))?];
        let [rows, columns] = [row.folded, column].map(|axis| extent(kernel, values, axis));
        if columns > MOST_COLUMNS || rows < LEAST_ROWS || values.axes[column].extent.as_const().is_none() {
            return None;
        }

        // Value axes come first, so that they have the same numbers where they are folded.
        let root_axes = [row.folded, column].map(|axis| to_root[axis]);
        let root = &kernel.stages[StageId::from_index(folded.index() + 1)];
        let beside = (0..root.axes.len()).filter(|axis| !root_axes.contains(axis));
        let beside = beside.map(|axis| extent(kernel, root, axis)).fold(1, i64::saturating_mul);
        let blocks = (rows.saturating_add(block_rows - 1) / block_rows).saturating_mul(beside);

        let side = if form == Form::Matrices { FRAGMENT_COLUMNS * warps[1] } else { PATCHED_COLUMNS };
        let columns = (columns + side - 1) / side * side;
        let loads = [of_scores[0].0, of_scores[1].0];
        let value = *value;
        if form == Form::Matrices {
            let of_weighted = [*of_weight, value];
            for (id, loads) in [(weighted, of_weighted), (product, loads)] {
                if multiplied(&kernel.stages[id])? == DType::F32 {
                    rewritten.round(id, &loads)?;
                }
            }
        }
        let value = same_load(&kernel.stages[weighted], value, &rewritten.kernel.stages[weighted])?;
        let weighted = Fragments::of(
            &mut rewritten,
            weighted,
            weighted_axes,
            &[value],
            [[block_rows, columns], warps],
            (form, STEP_BYTES),
        )?;
        let loads = loads.map(|load| same_load(&kernel.stages[product], load, &rewritten.kernel.stages[product]));
        let [Some(a), Some(b)] = loads else { return None };
        let shape = [[block_rows, keys_at_once], warps];
        let scored = Fragments::of(&mut rewritten, product, scored_axes, &[a, b], shape, (form, STEP_BYTES))?;
        let folded = [row.folded, column];
        // What a row's scores come to is folded by all threads of a warp that its rows leave.
        let rows_of_warp = block_rows / (warps[0] * warps[1]);
        for id in [online::MAXIMUM, online::TOTAL] {
            let id = find(&rewritten.kernel, &kernel.stages[id].name)?;
            let key = only(rewritten.kernel.stages[id].reduce_axes().map(|(n, _)| n))?;
            rewritten.rfactor(id, key, WARP / rows_of_warp)?;
        }
        let names = online.kernel.stages.iter().map(|stage| stage.name.clone()).collect();
        let rows = row.weights;
        let row = online.rows.iter().position(|own| *own == row)?;
        Some(Self { rewritten, scored, weighted, folded, root: root_axes, rows, row, rows_of_warp, names, blocks })
    }
}

impl Parts {
    fn find(&self, id: StageId) -> Option<StageId> {
        find(&self.rewritten.kernel, &self.names[id.index()])
    }

    fn schedule(&self, ahead: u32) -> Option<Schedule> {
        let kernel = &self.rewritten.kernel;
        let mut plan = self.rewritten.plan();
        let kept = [online::SCORES, online::WEIGHTS].map(|id| &self.names[id.index()]);
        let is_stored =
            |name: &String| kept.contains(&name) || self.scored.is_tile(name) || self.weighted.is_tile(name);
        plan.steps.retain(|step| !matches!(step, Step::Inline { stage } if is_stored(stage)));
        let root = StageId::from_index(kernel.stages.len() - 1);
        let at = self.weighted.result(&mut plan, root, self.root)?;
        let folded = self.find(online::FOLDED)?;
        plan.compute_at(folded, root, &at, Scope::Register);
        let order = self.spread(&mut plan, folded, self.folded, &self.weighted);
        plan.steps.extend(order.loops().last().map(|axis| Step::Unroll { stage: plan.name(folded), axis }));

        for (id, scope) in [
            (online::WEIGHTED, Scope::Register),
            (online::TOTAL, Scope::Shared),
            (online::WEIGHTS, Scope::Shared),
            (online::MAXIMUM, Scope::Shared),
            (online::SCORES, Scope::Shared),
            (online::PRODUCT, Scope::Register),
        ] {
            plan.compute_at(self.find(id)?, folded, online::BLOCK, scope);
        }
        self.weighted.schedule(&mut plan, ahead)?;
        self.scored.schedule(&mut plan, ahead)?;
        for id in [online::SCORES, online::WEIGHTS] {
            let id = self.find(id)?;
            let key = kernel.stages[id].axes.iter().position(|axis| axis.name == online::KEY)?;
            let order = self.spread(&mut plan, id, [self.rows, key], &self.scored);
            plan.steps.push(order.stored(plan.name(id)));
        }
        for id in [online::MAXIMUM, online::TOTAL] {
            let whole = self.find(id)?;
            let parts = StageId::from_index(whole.index() - 1);
            plan.compute_at(parts, folded, online::BLOCK, Scope::Shared);
            self.fold_rows(&mut plan, parts);
            self.fold_rows(&mut plan, whole);
        }
        Some(self.rewritten.scheduled(plan.schedule()))
    }

    /// Spreads rows and columns of a stage as a product has them, within its other loops.
    fn spread(&self, plan: &mut Plan<'_>, id: StageId, sides: [usize; 2], like: &Fragments) -> Spread {
        let axes = &self.rewritten.kernel.stages[id].axes;
        let names = sides.map(|axis| axes[axis].name.clone());
        let order = like.spread(plan, id, &names, &names);
        let others = (0..axes.len()).filter(|axis| !sides.contains(axis)).map(|axis| axes[axis].name.clone());
        plan.reorder(id, others.chain(order.loops()).collect());
        order
    }

    /// Gives warps rows, whose parts are side by side.
    fn fold_rows(&self, plan: &mut Plan<'_>, id: StageId) {
        let stage = &self.rewritten.kernel.stages[id];
        let row = stage.axes[self.row].name.clone();
        let [warp, lane] = ["y", "x"].map(|suffix| format!("{row}_{suffix}"));
        plan.split(id, &row, self.rows_of_warp, &warp, &lane);
        let is_part = |axis: &&Axis| axis.kind == AxisKind::Parallel && axis.name.starts_with("part");
        let part = stage.axes.last().filter(is_part).map(|axis| axis.name.clone());
        let is_other = |name: &String| *name != row && Some(name) != part.as_ref();
        let others: Vec<String> = stage.value_axes().map(|(_, axis)| axis.name.clone()).filter(is_other).collect();
        plan.bind(id, &warp, GpuDim::ThreadY);
        plan.bind(id, &lane, GpuDim::ThreadX);
        part.iter().for_each(|part| plan.bind(id, part, GpuDim::ThreadX));
        plan.fold(id, others.into_iter().chain([warp, lane]).chain(part).collect());
    }
}

/// Per axis of what blocks of keys come to, that of the only root, which reads it point by point.
fn axes_in_root(kernel: &Kernel) -> Option<Vec<usize>> {
    let root = StageId::from_index(online::FOLDED.index() + 1);
    if kernel.stages.len() != root.index() + 1 || kernel.outputs.iter().any(|output| output.stage != root) {
        return None;
    }
    let stage = &kernel.stages[root];
    let loads = stage.body.ops.iter().filter_map(|op| match op {
        ScalarOp::Load(load) if load.source == Source::Stage(online::FOLDED, 2) => Some(load),
        _ => None,
    });
    let load = only(loads)?;
    let axis_of = |e: &IndexExpr| (0..stage.axes.len()).find(|&n| *e == IndexExpr::var(VarId::from_index(n)));
    let axes: Vec<usize> = load.index.iter().map(axis_of).collect::<Option<_>>()?;
    let covers = (0..stage.axes.len()).all(|n| axes.contains(&n) && stage.axes[n].kind == AxisKind::Parallel);
    (covers && axes.len() == stage.axes.len()).then_some(axes)
}

/// The factors of a product that is the only result of a stage.
fn factors(stage: &Stage) -> Option<[ScalarId; 2]> {
    let &[result] = &stage.results[..] else { return None };
    match stage.body.ops[result] {
        ScalarOp::Binary(BinaryOp::Mul, a, b) => Some([a, b]),
        _ => None,
    }
}

/// A load of f32, or one of a half type that is converted.
fn loaded(stage: &Stage, id: ScalarId) -> Option<(ScalarId, &Load)> {
    let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16);
    match stage.body.ops[id] {
        ScalarOp::Load(ref load) if load.gather.is_empty() && load.dtype == DType::F32 => Some((id, load)),
        ScalarOp::Cast(DType::F32, inner) => match &stage.body.ops[inner] {
            ScalarOp::Load(load) if load.gather.is_empty() && is_half(load.dtype) => Some((inner, load)),
            _ => None,
        },
        _ => None,
    }
}

/// The type of what a stage multiplies, if both are of one.
fn multiplied(stage: &Stage) -> Option<DType> {
    let [a, b] = factors(stage)?.map(|id| loaded(stage, id).map(|(_, load)| load.dtype));
    a.filter(|_| a == b)
}

/// What there is one of.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}
