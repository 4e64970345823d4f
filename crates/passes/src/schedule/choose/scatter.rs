//! Reductions whose points each count at one place that data tells, folded there alone.
//!
//! `Σ_m select(target[m] = r, value[m, d], 0)` takes `R·M·D` steps as a reduction, and `M·D` where `scatter` folds each update
//! in its place. The sums are kept in scratch memory, for a tile of columns `d`, so that they stay in cache and threads
//! share the tiles, and for one point of axes in front of `r` along which targets differ (batches). The reader of the sums
//! follows in the same tile.

use super::access::extent;
use super::place::Chooser;
use infc_ir::entity::StageId;
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::{Scope, Step as ScheduleStep};

/// Points of an axis from which on each update in its place takes less than all of them everywhere.
const LEAST_POINTS: i64 = 8;

/// Vectors of columns that are summed together, if their sums stay in the second cache: an update's target is read once for all
/// of them.
const TILE_VECTORS: i64 = 4;

/// Cycles of an update besides those of its vectors: its target decides where is read, and that takes a branch.
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
        let (kernel, machine) = (chooser.kernel, chooser.machine);
        let (s, root) = (&kernel.stages[self.stage], &kernel.stages[self.root]);
        let (stage_name, root_name) = (s.name.clone(), root.name.clone());
        let loop_of = |axis: usize| s.axes[axis].name.clone();
        // Batches are computed one by one.
        let batches: Vec<usize> = self.axes(|n| self.told_by[n] && n < self.axis).collect();
        let among: Vec<usize> = self.axes(|n| self.told_by[n] && n > self.axis).collect();
        let free: Vec<usize> = self.axes(|n| !self.told_by[n]).collect();
        let reduced: Vec<usize> = s.reduce_axes().map(|(n, _)| n).collect();
        let elem_bytes = s.dtypes()[0].size_bytes().unwrap_or(4);
        let lanes = machine.lanes(elem_bytes);
        let columns = free.last().copied().filter(|&n| n + 1 == self.of_root.len() || self.is_last(n));
        let points = |axis: usize| extent(kernel, s, axis);
        let columns = columns.filter(|&n| points(n) >= lanes);
        let rows = s.axes[self.axis].extent.as_const().unwrap_or(1);
        let vector_bytes = rows.saturating_mul(lanes * elem_bytes as i64).max(1);
        let tile = lanes * ((machine.l2_bytes / 2) as i64 / vector_bytes).clamp(1, TILE_VECTORS);
        let in_tiles = columns.filter(|&n| s.axes[n].extent.as_const() != Some(tile));

        // The reader.
        let mut outer: Vec<String> = Vec::new();
        let mut inner: Vec<String> = Vec::new();
        for (axis, a) in root.axes.iter().enumerate() {
            let own = (0..self.of_root.len()).find(|&n| self.of_root[n] == Some(axis));
            if own.is_some_and(|n| batches.contains(&n)) {
                outer.push(a.name.clone());
            } else if own.is_some() && own == columns {
                let (o, i) = (format!("{}_o", a.name), format!("{}_i", a.name));
                let lanes_of = if in_tiles.is_some() {
                    chooser.split_step(&root_name, &a.name, tile, &o, &i);
                    outer.push(o);
                    i
                } else {
                    a.name.clone()
                };
                let (v, l) = (format!("{}_v", a.name), format!("{}_l", a.name));
                chooser.split_step(&root_name, &lanes_of, lanes, &v, &l);
                inner.extend([v, l]);
            } else {
                inner.insert(0, a.name.clone());
            }
        }
        // Rows in their order, columns behind them.
        let place = |name: &String| root.axes.iter().position(|a| a.name == *name).unwrap_or(usize::MAX);
        inner.sort_by_key(|name| place(name));
        chooser.reorder(&root_name, outer.iter().chain(&inner).cloned().collect());
        if columns.is_some()
            && let Some(lanes) = inner.last()
        {
            chooser.steps.push(ScheduleStep::Vectorize { stage: root_name.clone(), axis: lanes.clone() });
        }
        if let Some(axis) = outer.last() {
            let (stage, consumer, axis) = (stage_name.clone(), root_name.clone(), axis.clone());
            chooser.steps.push(ScheduleStep::ComputeAt { stage, consumer, axis });
            chooser.steps.push(ScheduleStep::Parallel { stage: root_name, axes: outer });
        }

        // The sums.
        chooser.steps.push(ScheduleStep::StoreIn { stage: stage_name.clone(), scope: Scope::Scratch });
        let before = batches.iter().chain(&reduced).chain(&among).chain([&self.axis]).map(|&n| loop_of(n));
        let others = free.iter().filter(|&&n| Some(n) != columns).map(|&n| loop_of(n));
        let mut order: Vec<String> = before.chain(others).collect();
        if let Some(n) = columns {
            let (v, l) = (format!("{}_v", loop_of(n)), format!("{}_l", loop_of(n)));
            chooser.split_step(&stage_name, &loop_of(n), lanes, &v, &l);
            order.extend([v, l]);
        }
        let last = order.last().cloned();
        chooser.reorder(&stage_name, order);
        if columns.is_some()
            && let Some(axis) = last
        {
            chooser.steps.push(ScheduleStep::Vectorize { stage: stage_name.clone(), axis });
        }
        chooser.steps.push(ScheduleStep::Scatter { stage: stage_name, axis: loop_of(self.axis) });

        let product = |axes: &mut dyn Iterator<Item = usize>| axes.map(|n| points(n) as f64).product::<f64>();
        let updates = product(&mut batches.iter().chain(&reduced).chain(&among).copied());
        let width = columns.map_or(1.0, |n| (points(n) as f64 / lanes as f64).ceil());
        let tiles = columns.map_or(1.0, |n| (points(n) as f64 / tile as f64).ceil());
        let apart = product(&mut free.iter().copied().filter(|&n| Some(n) != columns));
        chooser.count(updates * (UPDATE * tiles + VECTOR * width * apart));
    }

    /// Whether an axis is the last that the sums have.
    fn is_last(&self, axis: usize) -> bool {
        (axis + 1..self.of_root.len()).all(|n| self.of_root[n].is_none())
    }
}
