//! Reductions whose points each count at one place that data tells, folded there alone.
//!
//! `Σ_m select(target[m] = r, value[m, d], 0)` takes `R·M·D` steps as a reduction, and `M·D` where `scatter` folds each update
//! in its place. The sums are kept in scratch memory, for a tile of columns `d`, so that they stay in cache and threads
//! share the tiles, and for one point of axes in front of `r` along which targets differ (batches). The reader of the sums
//! follows in the same tile.

use super::access::extent;
use super::chooser::Chooser;
use infc_ir::entity::StageId;
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::{Scope, Step as ScheduleStep};

/// Points of an axis from which on each update in its place is taken to cost less than all of them everywhere, by judgement.
const LEAST_POINTS: i64 = 8;

/// Vectors of columns that are summed together, if their sums stay in the second cache: an update's target is read once for all
/// of them.
const TILE_VECTORS: i64 = 4;

/// Cycles of an update besides those of its vectors: its target decides where is read, and that takes a branch. By judgement, as
/// the next: together they say 17 µs of what takes 21 (docs/perf-log.md, "updates are folded where data says").
const UPDATE: f64 = 8.0;

/// Cycles of a vector of an update: what is there is read, and what was written shortly before.
const VECTOR: f64 = 2.0;

/// A root that reads the sums of one scattered stage, point by point.
pub(super) struct Scatter {
    root: StageId,
    stage: StageId,
    /// The axis of the stage whose point data tells.
    axis: usize,
    /// Per axis of the stage, the axis of the root that follows it.
    of_root: Vec<Option<usize>>,
    /// Per axis of the stage, whether targets differ along it.
    told_by: Vec<bool>,
}

/// The axes of the sums but the one that data tells the point of.
struct Axes {
    /// In front of that, and targets differ along them: computed one by one.
    batches: Vec<usize>,
    /// Behind it, and targets differ along them.
    among: Vec<usize>,
    /// All along which they do not.
    free: Vec<usize>,
    /// The last axis, if it is free and fills vectors.
    columns: Option<usize>,
    lanes: i64,
    /// Columns that are summed together.
    tile: i64,
}

impl Axes {
    /// Splits a loop over columns into vectors; both loops.
    fn vectors(&self, chooser: &mut Chooser<'_>, stage: &str, axis: &str, columns: &str) -> Vec<String> {
        let (vector, lane) = (format!("{axis}_v"), format!("{axis}_l"));
        chooser.split_step(stage, columns, self.lanes, &vector, &lane);
        vec![vector, lane]
    }
}

impl Scatter {
    pub(super) fn of(chooser: &Chooser<'_>, root: StageId) -> Option<Self> {
        let [stage] = chooser.producers(root)[..] else { return None };
        let s = &chooser.kernel.stages[stage];
        let (axis, found) = (0..s.axes.len()).find_map(|axis| Some((axis, s.scattered(axis)?)))?;
        if s.axes[axis].extent.as_const().is_some_and(|points| points < LEAST_POINTS) {
            return None;
        }
        let follow = chooser.depends(root, stage, &mut vec![None; chooser.kernel.stages.len()])?;
        let axes = &chooser.kernel.stages[root].axes;
        let is_each = |axis: usize| follow.contains(&Some(axis)) || axes[axis].extent.is_const(1);
        let plain = axes.iter().all(|axis| axis.kind == AxisKind::Parallel) && (0..axes.len()).all(is_each);
        let mut of_root = vec![None; s.axes.len()];
        for ((own, _), axis) in s.value_axes().zip(&follow) {
            of_root[own] = *axis;
        }
        let known = s.value_axes().all(|(own, axis)| axis.kind == AxisKind::Parallel && of_root[own].is_some());
        let told_by = s.axes_of(found.target);
        (plain && known).then_some(Self { root, stage, axis, of_root, told_by })
    }

    /// The axes of the stage that the sums have, as `is_wanted` says.
    fn axes<'a>(&'a self, is_wanted: impl Fn(usize) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
        (0..self.of_root.len()).filter(move |&n| self.of_root[n].is_some() && n != self.axis && is_wanted(n))
    }

    /// Appends the steps, and counts the cycles.
    pub(super) fn schedule(&self, chooser: &mut Chooser<'_>) {
        let axes = self.by_role(chooser);
        self.reader(chooser, &axes);
        self.sums(chooser, &axes);
        chooser.count(self.cycles(chooser, &axes));
    }

    fn by_role(&self, chooser: &Chooser<'_>) -> Axes {
        let s = &chooser.kernel.stages[self.stage];
        let elem_bytes = s.dtypes()[0].size_bytes().unwrap_or(4);
        let lanes = chooser.machine.lanes(elem_bytes);
        let free: Vec<usize> = self.axes(|n| !self.told_by[n]).collect();
        let is_wide = |&n: &usize| self.is_last(n) && extent(chooser.kernel, s, n) >= lanes;
        let rows = s.axes[self.axis].extent.as_const().unwrap_or(1);
        let vector_bytes = rows.saturating_mul(lanes * elem_bytes as i64).max(1);
        Axes {
            batches: self.axes(|n| self.told_by[n] && n < self.axis).collect(),
            among: self.axes(|n| self.told_by[n] && n > self.axis).collect(),
            columns: free.last().copied().filter(is_wide),
            free,
            lanes,
            tile: lanes * ((chooser.machine.l2_bytes / 2) as i64 / vector_bytes).clamp(1, TILE_VECTORS),
        }
    }

    /// The loops of the root: batches and tiles of columns are chunks, at which the sums are computed.
    fn reader(&self, chooser: &mut Chooser<'_>, axes: &Axes) {
        let kernel = chooser.kernel;
        let root = &kernel.stages[self.root];
        let of_sums = &kernel.stages[self.stage].axes;
        let is_one_tile = axes.columns.is_some_and(|n| of_sums[n].extent.as_const() == Some(axes.tile));
        let (mut outer, mut inner, mut vectors) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, a) in root.axes.iter().enumerate() {
            let own = self.of_root.iter().position(|of| *of == Some(axis));
            if own.is_some_and(|n| axes.batches.contains(&n)) {
                outer.push(a.name.clone());
            } else if own.is_some() && own == axes.columns {
                let mut columns = a.name.clone();
                if !is_one_tile {
                    let (o, i) = (format!("{}_o", a.name), format!("{}_i", a.name));
                    chooser.split_step(&root.name, &columns, axes.tile, &o, &i);
                    outer.push(o);
                    columns = i;
                }
                vectors = axes.vectors(chooser, &root.name, &a.name, &columns);
            } else {
                inner.push(a.name.clone());
            }
        }
        chooser.reorder(&root.name, outer.iter().chain(&inner).chain(&vectors).cloned().collect());
        if let Some(axis) = vectors.pop() {
            chooser.steps.push(ScheduleStep::Vectorize { stage: root.name.clone(), axis });
        }
        if let Some(axis) = outer.last().cloned() {
            let stage = chooser.name(self.stage);
            chooser.steps.push(ScheduleStep::ComputeAt { stage, consumer: root.name.clone(), axis });
            chooser.steps.push(ScheduleStep::Parallel { stage: root.name.clone(), axes: outer });
        }
    }

    /// The loops of the sums: over updates, at whose targets vectors of columns are folded.
    fn sums(&self, chooser: &mut Chooser<'_>, axes: &Axes) {
        let s = &chooser.kernel.stages[self.stage];
        let loop_of = |axis: usize| s.axes[axis].name.clone();
        chooser.steps.push(ScheduleStep::StoreIn { stage: s.name.clone(), scope: Scope::Scratch });
        let reduced = s.reduce_axes().map(|(n, _)| n);
        let updates = axes.batches.iter().copied().chain(reduced).chain(axes.among.iter().copied());
        let others = axes.free.iter().copied().filter(|&n| Some(n) != axes.columns);
        let mut order: Vec<String> = updates.chain([self.axis]).chain(others).map(loop_of).collect();
        let mut vectors = axes.columns.map_or_else(Vec::new, |n| {
            let columns = loop_of(n);
            axes.vectors(chooser, &s.name, &columns, &columns)
        });
        order.extend(vectors.iter().cloned());
        chooser.reorder(&s.name, order);
        if let Some(axis) = vectors.pop() {
            chooser.steps.push(ScheduleStep::Vectorize { stage: s.name.clone(), axis });
        }
        chooser.steps.push(ScheduleStep::Scatter { stage: s.name.clone(), axis: loop_of(self.axis) });
    }

    fn cycles(&self, chooser: &Chooser<'_>, axes: &Axes) -> f64 {
        let s = &chooser.kernel.stages[self.stage];
        let points = |n: usize| extent(chooser.kernel, s, n) as f64;
        let product = |axes: &mut dyn Iterator<Item = usize>| axes.map(points).product::<f64>();
        let reduced = s.reduce_axes().map(|(n, _)| n);
        let updates = product(&mut axes.batches.iter().chain(&axes.among).copied().chain(reduced));
        let pieces = |of: i64| axes.columns.map_or(1.0, |n| (points(n) / of as f64).ceil());
        let apart = product(&mut axes.free.iter().copied().filter(|&n| Some(n) != axes.columns));
        updates * (UPDATE * pieces(axes.tile) + VECTOR * pieces(axes.lanes) * apart)
    }

    /// Whether an axis is the last that the sums have.
    fn is_last(&self, axis: usize) -> bool {
        (axis + 1..self.of_root.len()).all(|n| self.of_root[n].is_none())
    }
}
