//! What is chosen for a kernel so far: its state, the order in which its outputs are taken, and tiles.

use super::access::{Access, Move, Period, accesses, extent, step, stride_of};
use super::block::Blocks;
use super::decide::{Decisions, MOST_ALTERNATIVES};
use super::decode::{self, Work};
use super::dot::{self, Dot};
use super::machine::Machine;
use super::matrices::Matrices;
use super::nested::Nested;
use super::scatter::Scatter;
use super::stored;
use super::tile::{self, Tile, View};
use crate::ErrorClass;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{Kernel, Reducer};
use infc_ir::schedule::{Schedule, Step as ScheduleStep};
use std::collections::BTreeSet;
use std::ops::Range;

/// The schedule of a kernel while it is put together.
pub(super) struct Chooser<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) machine: &'a Machine,
    allowed: ErrorClass,
    pub(super) decisions: &'a Decisions,
    pub(super) inlined: Vec<bool>,
    /// See [`Kernel::recurrences`].
    runs: Vec<Range<usize>>,
    pub(super) accesses: Vec<Vec<Access>>,
    /// Per stage, what it takes to make what it reads.
    works: Vec<Vec<Work>>,
    /// Per stage, how it sums in dot products.
    pub(super) dots: Vec<Option<Dot>>,
    pub(super) steps: Vec<ScheduleStep>,
    /// What the stages with tiles of their own take, by the model of [`tile`].
    pub(super) cycles: f64,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(kernel: &'a Kernel, machine: &'a Machine, allowed: ErrorClass, decisions: &'a Decisions) -> Self {
        let inlined = stored::inlined(kernel);
        let accesses = kernel.stages.ids().map(|id| accesses(kernel, id, &inlined)).collect();
        let works = kernel.stages.ids().map(|id| decode::works(kernel, id, &inlined)).collect();
        let is_allowed = |dot: &Dot| dot.intrinsic.is_exact() || allowed >= ErrorClass::Reassociating;
        let dots = kernel.stages.iter().map(|stage| dot::of(kernel, stage).filter(is_allowed)).collect();
        Self {
            kernel,
            machine,
            allowed,
            decisions,
            inlined,
            runs: kernel.recurrences(),
            accesses,
            works,
            dots,
            steps: Vec::new(),
            cycles: 0.0,
        }
    }

    /// The schedule, and an estimate of the cycles that it takes.
    pub(super) fn run(mut self) -> (Schedule, f64) {
        for id in self.kernel.stages.ids() {
            if self.inlined[id.index()] {
                let stage = self.name(id);
                self.steps.push(ScheduleStep::Inline { stage });
            }
        }
        let outputs: BTreeSet<StageId> = self.kernel.outputs.iter().map(|o| o.stage).collect();
        // The last stage of a recurrence computes the others.
        let is_root = |root: &StageId| self.run_of(*root).is_none_or(|run| run.end == root.index() + 1);
        let roots: Vec<StageId> = outputs.iter().copied().filter(is_root).collect();
        for &root in &roots {
            if let Some(scatter) = Scatter::of(&self, root) {
                scatter.schedule(&mut self);
                continue;
            }
            if Matrices::of(&self, root).is_some_and(|matrices| matrices.schedule(&mut self)) {
                continue;
            }
            if Nested::of(&self, root).is_some_and(|nested| nested.schedule(&mut self)) {
                continue;
            }
            match Blocks::of(&self, root) {
                Some(blocks) => blocks.schedule(&mut self),
                None => self.root(root),
            }
        }
        // A stage that runs as a whole sees what came before it, so nothing beside it is in chunks of its own.
        let is_parallel = |root: &StageId| {
            let name = &self.kernel.stages[*root].name;
            self.steps.iter().any(|s| matches!(s, ScheduleStep::Parallel { stage, .. } if stage == name))
        };
        if !roots.iter().all(is_parallel) {
            self.steps.retain(|s| !matches!(s, ScheduleStep::Parallel { .. }));
        }
        (Schedule { steps: self.steps }, self.cycles)
    }

    /// Adds to what the schedule takes.
    pub(super) fn count(&mut self, cycles: f64) {
        self.cycles += cycles;
    }

    /// The recurrence that a stage belongs to.
    pub(super) fn run_of(&self, id: StageId) -> Option<&Range<usize>> {
        self.runs.iter().find(|run| run.contains(&id.index()))
    }

    /// How far results may differ from the kernel's own.
    pub(super) fn allowed(&self) -> ErrorClass {
        self.allowed
    }

    /// Whether reductions may be folded in another order where it shows.
    pub(super) fn may_reorder(&self) -> bool {
        self.allowed >= ErrorClass::Reassociating
    }

    /// Whether a stage may fold what it reduces in another order.
    pub(super) fn may_fold_anyhow(&self, id: StageId) -> bool {
        self.may_reorder() || self.kernel.stages[id].reducer.as_ref().is_none_or(Reducer::is_associative)
    }

    pub(super) fn name(&self, id: StageId) -> String {
        self.kernel.stages[id].name.clone()
    }

    pub(super) fn view<'v>(&'v self, id: StageId, store: Option<Vec<Move>>, extents: Vec<i64>) -> View<'v> {
        let stage = &self.kernel.stages[id];
        let loads = self.accesses[id.index()].iter().map(|a| a.elem_bytes);
        let own = stage.dtypes().into_iter().map(|d| d.size_bytes().unwrap_or(1));
        let elem_bytes = if stage.reducer.is_some() { own.max() } else { loads.chain(own).max() }.unwrap_or(4);
        // Vectors of bytes would be as wide as 64 elements; computing in 32 bits sets the width.
        let elem_bytes = elem_bytes.max(4);
        let reorders = self.may_fold_anyhow(id);
        let dot = self.dots[id.index()].map(|dot| dot.intrinsic);
        let accesses = &self.accesses[id.index()];
        let works = &self.works[id.index()];
        let (finishing, finishing_cost, lanes_along) = (Vec::new(), 0.0, None);
        let is_batch = |axis: usize| tile::is_batch(stage, axis) && !tile::lies_along(stage, accesses, axis);
        let batches = (0..stage.axes.len()).map(is_batch).collect();
        View {
            stage,
            accesses,
            works,
            stores: store,
            extents,
            batches,
            elem_bytes,
            reorders,
            dot,
            finishing,
            finishing_cost,
            lanes_along,
            totals: 0,
        }
    }

    /// Reduction points that one operation folds per lane.
    pub(super) fn points_at_once(&self, id: StageId) -> i64 {
        self.dots[id.index()].map_or(1, |dot| dot.intrinsic.turns())
    }

    /// The cheapest tile of a stage; counts what it takes.
    pub(super) fn tile(&mut self, id: StageId, store: Option<Vec<Move>>, extents: Vec<i64>) -> Tile {
        self.tile_to_finish(id, store, extents, (Vec::new(), 0.0))
    }

    /// As [`Chooser::tile`], where another stage finishes the sums with what moves along their axes so ([`View::finishing`]), by
    /// so many instructions.
    pub(super) fn tile_to_finish(
        &mut self,
        id: StageId,
        store: Option<Vec<Move>>,
        extents: Vec<i64>,
        (finishing, finishing_cost): (Vec<Option<Period>>, f64),
    ) -> Tile {
        let view = View { finishing, finishing_cost, ..self.view(id, store, extents) };
        let (tile, cycles) = self.pick_tile(&view, false);
        self.cycles += cycles;
        tile
    }

    /// A tile of a stage, the cheapest unless it is decided otherwise, and the cycles that the stage takes by it.
    pub(super) fn pick_tile(&self, view: &View<'_>, along_reduction: bool) -> (Tile, f64) {
        if !self.decisions.are_open() {
            return tile::choose(view, self.machine, along_reduction);
        }
        let mut ranked = tile::ranked(view, self.machine, along_reduction, MOST_ALTERNATIVES);
        let picked = self.decisions.pick("tile", &view.stage.name, ranked.len());
        ranked.swap_remove(picked)
    }

    /// The extents of all axes of a stage, with guesses for symbolic ones.
    pub(super) fn extents(&self, id: StageId) -> Vec<i64> {
        let stage = &self.kernel.stages[id];
        (0..stage.axes.len()).map(|a| extent(self.kernel, stage, a)).collect()
    }

    pub(super) fn store_moves(&self, id: StageId) -> Vec<Move> {
        let stage = &self.kernel.stages[id];
        let output = self.kernel.outputs.iter().find(|o| o.stage == id);
        let flat = match output {
            Some(o) => self.kernel.operands[o.operand].layout.flat(&o.index),
            None => infc_ir::kernel::Layout::dense(&stage.value_shape()).flat(
                &stage
                    .value_axes()
                    .map(|(n, _)| infc_ir::index::IndexExpr::var(VarId::from_index(n)))
                    .collect::<Vec<_>>(),
            ),
        };
        let flat = flat.simplify(&stage.ranges(&self.kernel.symbols));
        (0..stage.axes.len())
            .map(|a| Move { step: step(self.kernel, stage, &flat, a), stride: stride_of(&flat, a) })
            .collect()
    }
}
