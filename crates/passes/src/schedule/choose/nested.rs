//! Sums of sums: the terms of one reduction are each a reduction of their own, finished (scaled, shifted) one by one, as where
//! numbers are quantised in blocks.
//!
//! A tile of results has two sets of accumulators, the sums and the terms in progress. At each turn of the outer reduction
//! the terms of the whole tile are summed, then added. So both share the tile of the inner reduction, which does the work;
//! results of which registers hold neither twice are computed some other way.

use super::access::{Move, Step, cost};
use super::chooser::Chooser;
use super::tile::{Tile, View};
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::{Scope, Step as ScheduleStep};

/// A root that reads a sum whose terms are sums.
pub(super) struct Nested {
    root: StageId,
    outer: StageId,
    inner: StageId,
    /// Per value axis of the outer reduction, the root's.
    outer_follows: Vec<usize>,
    /// Per value axis of the inner one, the root's; `None` for those along which the outer one reduces.
    inner_follows: Vec<Option<usize>>,
}

impl Nested {
    /// `None` if the root is anything else.
    pub(super) fn of(chooser: &Chooser<'_>, root: StageId) -> Option<Self> {
        let kernel = chooser.kernel;
        let [inner, outer] = chooser.producers(root)[..] else { return None };
        let is_alone = [inner, outer, root].iter().all(|&id| chooser.run_of(id).is_none());
        let reduce = [inner, outer].iter().all(|&id| kernel.stages[id].reducer.is_some());
        let mut axes = [inner, outer, root].into_iter().flat_map(|id| &kernel.stages[id].axes);
        let in_steps = axes.any(|axis| axis.kind == AxisKind::Sequential);
        if !is_alone || !reduce || in_steps || kernel.outputs.iter().any(|output| output.stage != root) {
            return None;
        }
        let from_root = follow(chooser, root, outer)?;
        let from_outer = follow(chooser, outer, inner)?;
        let reads = |id: StageId, of: StageId| chooser.accesses[id.index()].iter().any(|a| a.stage == Some(of));
        if reads(root, inner) || reads(root, root) || reads(inner, outer) {
            return None;
        }
        let value: Vec<usize> = kernel.stages[outer].value_axes().map(|(axis, _)| axis).collect();
        let in_root = |axis: usize| value.iter().position(|&v| v == axis).map(|place| from_root[place]);
        let inner_follows: Vec<Option<usize>> = from_outer.iter().map(|&axis| in_root(axis)).collect();
        // Each point of the root has its own sums, and each term of a sum its own terms.
        let whole = (0..kernel.stages[root].axes.len()).all(|axis| from_root.contains(&axis));
        let all = (0..kernel.stages[outer].axes.len()).all(|axis| from_outer.contains(&axis));
        (whole && all).then_some(Self { root, outer, inner, outer_follows: from_root, inner_follows })
    }

    /// Schedules the three stages; false, with nothing done, if there is no tile for that.
    pub(super) fn schedule(&self, chooser: &mut Chooser<'_>) -> bool {
        let Some((tile, cycles)) = self.tile(chooser) else { return false };
        chooser.count(cycles);
        let root = self.root;
        let mut loops = chooser.split(root, &tile);
        // What a panel of columns has is read again by all rows.
        loops.outer.sort_by_key(|&(_, axis)| tile.vector_axis != Some(axis));
        chooser.reorder_outer(root, &mut loops);
        let name = chooser.name(root);
        let order = loops.outer.iter().map(|(name, _)| name).chain(&loops.inner).cloned().collect();
        chooser.reorder(&name, order);
        if let Some(axis) = loops.inner.last() {
            chooser.steps.push(ScheduleStep::Vectorize { stage: name.clone(), axis: axis.clone() });
        }
        let at = loops.outer.last().map(|(axis, _)| axis.clone());
        self.place(chooser, self.outer, name, at);
        let terms = self.totals(chooser, &tile);
        let consumer = chooser.name(self.outer);
        self.place(chooser, self.inner, consumer, terms);
        chooser.producer(self.inner, Some((root, &tile, &self.inner_follows)), chooser.extents(self.inner));
        chooser.parallel(root, &loops, &tile, loops.outer.len());
        true
    }

    /// Computes a stage at a loop of another, in registers.
    fn place(&self, chooser: &mut Chooser<'_>, id: StageId, consumer: String, axis: Option<String>) {
        let stage = chooser.name(id);
        if let Some(axis) = axis {
            chooser.steps.push(ScheduleStep::ComputeAt { stage: stage.clone(), consumer, axis });
        }
        chooser.steps.push(ScheduleStep::StoreIn { stage, scope: Scope::Register });
    }

    /// Loops of the outer reduction: over its terms, with a tile inside. Gives the innermost of those.
    fn totals(&self, chooser: &mut Chooser<'_>, tile: &Tile) -> Option<String> {
        let stage = &chooser.kernel.stages[self.outer];
        let value: Vec<usize> = stage.value_axes().map(|(axis, _)| axis).collect();
        let own = |axis: usize| self.outer_follows.iter().position(|&of| of == axis).map(|place| value[place]);
        let tile = Tile {
            vector_axis: tile.vector_axis.and_then(own),
            rows: tile.rows.iter().filter_map(|&(axis, n)| Some((own(axis)?, n))).collect(),
            ..tile.clone()
        };
        let terms: Vec<String> = stage.reduce_axes().map(|(_, axis)| axis.name.clone()).collect();
        let loops = chooser.split(self.outer, &tile);
        let name = chooser.name(self.outer);
        let order = loops.outer.into_iter().map(|(axis, _)| axis).chain(terms.iter().cloned());
        chooser.reorder(&name, order.chain(loops.inner.iter().cloned()).collect());
        if let Some(axis) = loops.inner.last() {
            chooser.steps.push(ScheduleStep::Vectorize { stage: name, axis: axis.clone() });
        }
        terms.last().cloned()
    }

    /// The tile in the root's axes, and the cycles that all sums take by it.
    fn tile(&self, chooser: &Chooser<'_>) -> Option<(Tile, f64)> {
        let stage = &chooser.kernel.stages[self.inner];
        let value: Vec<usize> = stage.value_axes().map(|(axis, _)| axis).collect();
        let to_root = |axis: usize| value.iter().position(|&v| v == axis).and_then(|place| self.inner_follows[place]);
        let mut extents = chooser.extents(self.inner);
        let mut terms = 1.0;
        for &axis in value.iter().filter(|&&axis| to_root(axis).is_none()) {
            terms *= std::mem::replace(&mut extents[axis], 1) as f64;
        }
        let moves = chooser.store_moves(self.root);
        let nowhere = Move { step: Step::Zero, stride: Some(0) };
        let stores = (0..stage.axes.len()).map(|axis| to_root(axis).map_or(nowhere, |root| moves[root])).collect();
        let totals = chooser.kernel.stages[self.outer].results.len();
        // Of rows that the run tells there is often one (a decoder's next token), and for many, tiles of two vectors are as good
        // as those of one (docs/perf-log.md, "language models of four bits").
        let batches = stage.axes.iter().map(|axis| axis.extent.as_const().is_none()).collect();
        let view = View {
            batches,
            totals,
            finishing: vec![None; stage.axes.len()],
            finishing_cost: cost(&chooser.kernel.stages[self.outer]),
            ..chooser.view(self.inner, Some(stores), extents)
        };
        let (tile, cycles) = chooser.pick_tile(&view, false);
        let vector_axis = to_root(tile.vector_axis?)?;
        if stage.axes[tile.vector_axis?].kind != AxisKind::Parallel {
            return None;
        }
        let rows = tile.rows.iter().filter_map(|&(axis, n)| Some((to_root(axis)?, n))).collect();
        Some((Tile { vector_axis: Some(vector_axis), rows, slides: None, ..tile }, cycles * terms))
    }
}

/// Which axis of its reader each value axis of a stage is, if every load of it reads one point per point, whatever the conditions.
fn follow(chooser: &Chooser<'_>, reader: StageId, stage: StageId) -> Option<Vec<usize>> {
    let mut found: Option<Vec<usize>> = None;
    for access in chooser.accesses[reader.index()].iter().filter(|a| a.stage == Some(stage)) {
        let axes: Vec<usize> = access.axes.iter().copied().collect::<Option<_>>()?;
        let mut distinct = axes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let is_plain = !access.guards.any && distinct.len() == axes.len();
        if !is_plain || found.as_ref().is_some_and(|found| *found != axes) {
            return None;
        }
        let (own, read) = (&chooser.kernel.stages[stage], &chooser.kernel.stages[reader]);
        let as_long = own.value_axes().zip(&axes).all(|((_, a), &axis)| a.extent == read.axes[axis].extent);
        found = as_long.then_some(axes);
        found.as_ref()?;
    }
    found
}
