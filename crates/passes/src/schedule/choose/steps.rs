//! Recurrences on several threads.
//!
//! A step of a recurrence needs all of the step before, so threads can share the units of one step only, and meet after
//! each. Chunks are parts of a step's units with all that is computed for them alone; whoever runs chunks waits for those of
//! the steps before ([`infc_ir::nest::ParallelAxis::step_chunks`]). The sums of several gates lie behind each other along
//! one axis, of which a unit needs a place in each gate: that axis is taken apart first.

use super::access::{PANEL, cost, extent};
use super::chooser::Chooser;
use super::follow::Followed;
use crate::formulate::part;
use crate::schedule::reads::read_early;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::Source;
use infc_ir::schedule::Step as ScheduleStep;

/// Parts of a step at most: threads beyond them have nothing to do.
const MOST_PARTS: i64 = 8;

/// Vector operations of a step from which on it is shared: threads take about a thousand to meet.
const LEAST_STEP: f64 = 4000.0;

/// Vector operations of a part at least: smaller ones have too few sums for a tile.
const LEAST_PART: f64 = 1000.0;

/// The units of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// The root's axis over units.
    pub(super) axis: usize,
    /// Of one chunk.
    pub(super) count: i64,
}

/// The kernel with the gates of its recurrences apart from their units, and the steps that do that.
pub(super) fn with_gates_apart(kernel: &Kernel) -> (Option<Kernel>, Vec<ScheduleStep>) {
    let (mut changed, mut steps) = (None, Vec::new());
    for id in kernel.stages.ids() {
        let now = changed.as_ref().unwrap_or(kernel);
        let stage = &now.stages[id];
        let Some(Gates { axis, units }) = gates(now, id) else { continue };
        let name = stage.axes[axis].name.clone();
        let (outer, inner) = (free_name(now, id, &name, "g"), free_name(now, id, &name, "u"));
        if let Some(parted) = part::part(now, id, axis, units, [&outer, &inner]) {
            let points = u32::try_from(units).unwrap_or(1);
            steps.push(ScheduleStep::Part { stage: stage.name.clone(), axis: name, points, outer, inner });
            changed = Some(parted);
        }
    }
    (changed, steps)
}

/// Sums of the gates of a recurrence, those of all units behind each other for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Their axis.
    pub(crate) axis: usize,
    /// Units, a multiple of 16.
    pub(crate) units: i64,
}

/// The gates that a stage sums, if whoever reads them moves along the units of one gate.
pub(crate) fn gates(kernel: &Kernel, id: StageId) -> Option<Gates> {
    kernel.stages[id].reducer.as_ref()?;
    let run = kernel.recurrence_of(id)?;
    let last = &kernel.stages[StageId::from_index(run.end - 1)];
    let units = last.value_axes().last()?.1.extent.as_const()?;
    let (position, axis) = kernel.stages[id].value_axes().map(|(axis, _)| axis).enumerate().last()?;
    let extent = kernel.stages[id].axes[axis].extent.as_const()?;
    if units % PANEL != 0 || extent <= units || extent % units != 0 {
        return None;
    }
    let mut along_units = true;
    for reader in kernel.stages.iter() {
        reader.for_each_load(&mut |_, load| {
            if !matches!(load.source, Source::Stage(source, _) if source == id) {
                return;
            }
            let e = &load.index[position];
            let start = e.constant_part();
            let var = (e.clone() - start).as_var();
            along_units &= start % units == 0
                && load.gather.is_empty()
                && var.is_some_and(|v| reader.axes[v.index()].extent.is_const(units));
        });
    }
    along_units.then_some(Gates { axis, units })
}

fn free_name(kernel: &Kernel, id: StageId, axis: &str, suffix: &str) -> String {
    let mut name = format!("{axis}_{suffix}");
    while kernel.stages[id].axes.iter().any(|a| a.name == name) {
        name.push('_');
    }
    name
}

impl Chooser<'_> {
    /// The units that a chunk of a recurrence's step has, where sharing steps between threads is possible and worth it.
    pub(super) fn units_of_chunk(&self, root: StageId, followed: &[Followed]) -> Option<Units> {
        let run = self.run_of(root)?;
        let only_output = self.kernel.outputs.iter().all(|o| o.stage == root) && !self.kernel.outputs.is_empty();
        let stage = &self.kernel.stages[root];
        let sequential = stage.axes.iter().filter(|a| a.kind == AxisKind::Sequential).count();
        if !only_output || sequential != 1 || read_early(self.kernel, run).is_some() {
            return None;
        }
        let (axis, units) = stage.value_axes().filter_map(|(n, a)| Some((n, a.extent.as_const()?))).last()?;
        let work = |id: StageId| {
            let stage = &self.kernel.stages[id];
            let points = (1..stage.axes.len()).map(|a| extent(self.kernel, stage, a) as f64);
            points.product::<f64>() * cost(stage)
        };
        let lanes = self.machine.lanes(self.view(root, None, Vec::new()).elem_bytes) as f64;
        let step = run.clone().map(|n| work(StageId::from_index(n))).sum::<f64>() / lanes;
        if step < LEAST_STEP {
            return None;
        }
        let parts = MOST_PARTS.min((step / LEAST_PART) as i64);
        let count = (units + parts - 1) / parts;
        let count = (count + PANEL - 1) / PANEL * PANEL;
        let is_last = stage.value_axes().last().is_some_and(|(n, _)| n == axis);
        if !is_last || stage.axes[axis].kind != AxisKind::Parallel || units <= count {
            return None;
        }
        // Sums of which every chunk needs all would be computed by each.
        let shared = |(id, follow): &Followed| {
            let apart = follow.as_ref().is_some_and(|f| f.contains(&Some(axis)));
            run.contains(&id.index()) && self.kernel.stages[*id].reducer.is_some() && !apart
        };
        if followed.iter().any(shared) {
            return None;
        }
        Some(Units { axis, count })
    }
}
