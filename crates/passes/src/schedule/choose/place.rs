//! Where stages are computed: inside which loop of which reader, or in front of everything.

use super::access::{Access, Move, Period, accesses, cost, extent, reduction_points, step, stride_of};
use super::block::Blocks;
use super::decide::{Decisions, MOST_ALTERNATIVES};
use super::decode::{self, Work};
use super::dot::{self, Dot};
use super::loops::Loops;
use super::machine::Machine;
use super::matrices::Matrices;
use super::nested::Nested;
use super::order::RowsInside;
use super::scatter::Scatter;
use super::steps::Units;
use super::stored;
use super::strip::{self, Strip};
use super::tile::{self, Tile, View};
use crate::ErrorClass;
use crate::schedule::plan::{reads_near, reads_neighbours};
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{AxisKind, Kernel, Reducer};
use infc_ir::schedule::{Schedule, Scope, Step as ScheduleStep};
use std::collections::BTreeSet;
use std::ops::Range;

/// Operations per point that are worth a way through memory to be done in vectors.
const SCALAR_COST: f64 = 4.0;

/// Points of a sum in lanes beside which what is computed of one result takes no time.
const MANY_POINTS: f64 = 512.0;

/// Chunks that suffice for the threads of most machines.
const SHARED_CHUNKS: i64 = 8;

/// Rows of a chunk that converts what it shares with other chunks.
const CHUNK_ROWS: i64 = 96;

/// Where among the outer loops of a recurrence that over chunks of a step is, behind that over steps.
const CHUNK_LOOP: usize = 1;

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
    cycles: f64,
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

    /// What the schedule takes so far.
    pub(super) fn cycles(&self) -> f64 {
        self.cycles
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

    // --------------------------------------------------------------------------------------------------- tiles --

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

    // --------------------------------------------------------------------------------------------------- roots --

    pub(super) fn root(&mut self, root: StageId) {
        let stage = &self.kernel.stages[root];
        let producers = self.producers(root);
        let mut memo = vec![None; self.kernel.stages.len()];
        let followed: Vec<(StageId, Option<Vec<Option<usize>>>)> =
            producers.iter().map(|&p| (p, self.depends(root, p, &mut memo))).collect();
        // A reduction whose points are in step with the root's shares its tile and is computed tile by tile.
        let in_step: Vec<StageId> = followed
            .iter()
            .filter(|(id, follow)| {
                let Some(follow) = follow else { return false };
                let reduces = self.kernel.stages[*id].reducer.is_some();
                let read_by_root = self.accesses[root.index()].iter().any(|a| a.stage == Some(*id));
                let all = (0..stage.axes.len()).all(|a| follow.contains(&Some(a)) || stage.axes[a].extent.is_const(1));
                reduces && read_by_root && all && follow.iter().all(Option::is_some)
            })
            .map(|(id, _)| *id)
            .collect();
        let main = in_step.iter().copied().max_by(|&a, &b| {
            let weight = |id: StageId| reduction_points(self.kernel, &self.kernel.stages[id]);
            weight(a).total_cmp(&weight(b))
        });
        let cycles = self.cycles;
        let mut root_tile = match main {
            Some(main) => self.tile_through(root, main, &followed),
            None => self.tile_of_rows(root, &followed),
        };
        // Lanes that sum leave one result each: what is still to be done with them is done in vectors of several.
        let sums_in_lanes = main.is_some() && root_tile.vector_axis.is_none() && root_tile.lanes > 1;
        let mut apart = sums_in_lanes && cost(stage) > SCALAR_COST && self.run_of(root).is_none();
        if apart {
            let before = std::mem::replace(&mut self.cycles, cycles);
            let tile = self.tile(root, Some(self.store_moves(root)), self.extents(root));
            // Of a vector whose last points do not exist, their sums are computed all the same.
            let is_known = |axis: usize| stage.axes[axis].extent.as_const().is_some();
            let sums = main.map_or(0.0, |main| reduction_points(self.kernel, &self.kernel.stages[main]));
            apart = sums < MANY_POINTS || tile.vector_axis.is_none_or(is_known);
            if apart {
                root_tile = tile;
            } else {
                self.cycles = before;
            }
        }
        let (in_step, main) = if apart { (Vec::new(), None) } else { (in_step, main) };
        let units = self.units_of_chunk(root, &followed).filter(|units| root_tile.vector_axis == Some(units.axis));
        if let Some(units) = units {
            // A chunk has whole tiles.
            let fits = |vectors: &i64| units.count % (vectors * root_tile.lanes) == 0;
            root_tile.vectors = (1..=root_tile.vectors).rev().find(fits).unwrap_or(1);
        }
        let mut loops = self.split(root, &root_tile);
        let name = self.name(root);

        // Axes that more producers follow go outside; then what is read again soonest goes inside. Among several sums
        // the loop over which least is read is the innermost: what does not move there stays in cache.
        let moved = |axis: usize| if followed.len() > 1 { self.moved_bytes(&followed, axis) } else { 0 };
        let weight =
            |axis: usize| followed.iter().filter(|(_, f)| f.as_ref().is_some_and(|f| f.contains(&Some(axis)))).count();
        let follow_of = |id: StageId| followed.iter().find(|(f, _)| *f == id).and_then(|(_, follow)| follow.as_deref());
        let vector_first =
            main.is_some_and(|m| follow_of(m).is_some_and(|follow| self.columns_outermost(m, &root_tile, follow)));
        let vector_axis = root_tile.vector_axis;
        // Where all that is read moves along the vector axis, the next vector reads nothing again, but the next rows may.
        let rows_inside = main.map_or(RowsInside::None, |m| self.rows_inside(m, &root_tile, &followed));
        let last_row = loops.outer.iter().rev().map(|&(_, axis)| axis).find(|&axis| vector_axis != Some(axis));
        let along_lines = self.gathered_lines(root, &root_tile).map(|(axis, _)| axis);
        loops.outer.sort_by_key(|(_, axis)| {
            let is_vector = vector_axis == Some(*axis);
            let place = match (is_vector, vector_first) {
                (true, true) => 0,
                (false, _) if rows_inside == RowsInside::All => 3,
                (false, _) if rows_inside == RowsInside::Last && last_row == Some(*axis) => 3,
                (false, _) if along_lines == Some(*axis) => 3,
                (false, _) => 1,
                (true, false) => 2,
            };
            (stage.axes[*axis].kind != AxisKind::Sequential, usize::MAX - weight(*axis), place, -moved(*axis))
        });
        if let Some((main, follow)) = main.and_then(|m| Some((m, follow_of(m)?)))
            && rows_inside != RowsInside::All
        {
            self.in_bands(main, &root_tile, follow, &mut loops.outer);
        }
        self.reorder_outer(root, &mut loops);
        if let Some(units) = units {
            self.chunks_of_steps(root, units, &root_tile, &mut loops);
        }
        let strips = if main.is_none() && units.is_none() {
            self.strips(root, &root_tile, &mut loops, &followed)
        } else {
            Vec::new()
        };
        if strips.is_empty() && units.is_none() {
            self.chunks_of_rows(root, &root_tile, &mut loops, &followed);
        }
        let order: Vec<String> =
            loops.outer.iter().map(|(n, _)| n.clone()).chain(loops.inner.iter().cloned()).collect();
        self.reorder(&name, order);
        if root_tile.vector_axis.is_some()
            && let Some(lanes) = loops.inner.last()
        {
            self.steps.push(ScheduleStep::Vectorize { stage: name.clone(), axis: lanes.clone() });
        }

        let mut deepest_attached = loops.outer.len();
        for (id, follow) in &followed {
            // What belongs to a step is computed at it, whole, so that all its rows share the weights; or, where chunks share
            // the step, at a chunk, what that needs.
            let together = self.run_of(*id).is_some() && !in_step.contains(id);
            let rank = self.kernel.stages[*id].value_axes().count();
            let own = (0..rank).map(|axis| (axis == 0).then_some(0)).collect();
            let follow = &if together && units.is_none() { own } else { follow.clone().unwrap_or_default() };
            let position = if together {
                if units.is_some() { Some(CHUNK_LOOP) } else { loops.outer.iter().position(|(_, axis)| *axis == 0) }
            } else {
                loops.outer.iter().rposition(|(_, axis)| follow.contains(&Some(*axis)))
            };
            let strip = strips.iter().find(|(stage, _)| stage == id).map(|(_, strip)| strip);
            let Some(position) = position.or(strip.map(|_| 0)) else {
                // Every point needs all of it: computed once, in front.
                self.producer(*id, None, self.extents(*id));
                continue;
            };
            let producer = self.name(*id);
            self.steps.push(ScheduleStep::ComputeAt {
                stage: producer.clone(),
                consumer: name.clone(),
                axis: loops.outer[position].0.clone(),
            });
            deepest_attached = deepest_attached.min(position + 1);
            let shares = in_step.contains(id);
            // Columns of weights are more than a stack should hold.
            let is_decoding = crate::form::contraction::is_decoding(self.kernel, &self.kernel.stages[*id]);
            // Registers are read whole: what has several points per point of the root is read in parts.
            let has_parts = self.has_own_points(root, *id, follow);
            let scope = match (shares && main.is_some() && !has_parts, is_decoding) {
                (true, _) => Scope::Register,
                (false, true) => Scope::Scratch,
                (false, false) => Scope::Stack,
            };
            self.steps.push(ScheduleStep::StoreIn { stage: producer, scope });
            // Axes whose loops lie around the computation have a tile's points in it, the others all.
            let mut extents = self.extents(*id);
            for ((axis, _), followed_axis) in self.kernel.stages[*id].value_axes().zip(follow) {
                let Some(root_axis) = followed_axis else { continue };
                let around = loops.outer[..=position].iter().any(|(_, a)| a == root_axis);
                if around {
                    let of_chunk = units.filter(|units| units.axis == *root_axis && position == CHUNK_LOOP);
                    let points = of_chunk.map_or_else(|| root_tile.points(*root_axis), |units| units.count);
                    extents[axis] = extents[axis].min(points * self.own_points(root, *root_axis, *id, axis));
                }
            }
            if let (Some(strip), Some(rows)) = (strip, loops.strip_rows) {
                extents = strip.extents(self.kernel, *id, rows, extents);
                // The first part of a strip computes, the second writes: memory is asked for in time.
                if reads_near(self.kernel, root, *id).is_some() && self.kernel.stages[*id].reducer.is_none() {
                    self.steps.push(ScheduleStep::Prefetch { stage: name.clone(), during: self.name(*id) });
                }
            }
            self.producer(*id, shares.then_some((root, &root_tile, follow.as_slice())), extents);
            if shares {
                self.fetch_ahead(*id, root, &root_tile, follow, loops.outer.last().map(|&(_, axis)| axis));
            }
        }
        let unattached = followed
            .iter()
            .filter(|(id, _)| strips.iter().all(|(stage, _)| stage != id))
            .any(|(_, f)| f.as_ref().is_none_or(|f| !loops.outer.iter().any(|(_, a)| f.contains(&Some(*a)))));
        let sequential = stage.axes.iter().any(|a| a.kind == AxisKind::Sequential);
        if !unattached && !sequential {
            self.parallel(root, &loops, &root_tile, deepest_attached);
        }
        if !unattached && units.is_some() {
            let axes = loops.outer[..=CHUNK_LOOP].iter().map(|(name, _)| name.clone()).collect();
            self.steps.push(ScheduleStep::Parallel { stage: name, axes });
        }
    }

    /// Puts a loop over chunks of a step's units next to that over steps.
    fn chunks_of_steps(&mut self, root: StageId, units: Units, tile: &Tile, loops: &mut Loops) {
        let Some(at) = loops.outer.iter().position(|&(_, axis)| axis == units.axis) else { return };
        let tiles = units.count / tile.points(units.axis).max(1);
        let chunk = if tiles > 1 {
            let whole = loops.outer[at].0.clone();
            let (outer, inner) = (format!("{whole}_c"), format!("{whole}_r"));
            self.split_step(&self.name(root), &whole, tiles, &outer, &inner);
            loops.outer[at].0 = inner;
            (outer, units.axis)
        } else {
            loops.outer.remove(at)
        };
        loops.outer.insert(CHUNK_LOOP, chunk);
    }

    /// Puts a loop over chunks of rows around that over columns, if a factor is brought to tiles of columns of which there
    /// are fewer than threads may be: what a chunk converts again is little beside its rows.
    fn chunks_of_rows(
        &mut self,
        root: StageId,
        tile: &Tile,
        loops: &mut Loops,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) {
        let is_brought = |id: StageId| stored::is_conversion(&self.kernel.stages[id]);
        let Some((_, Some(follow))) = followed.iter().find(|(id, _)| is_brought(*id)) else { return };
        let Some(columns) = loops.outer.iter().rposition(|(_, axis)| follow.contains(&Some(*axis))) else { return };
        let extent = |axis: usize| self.kernel.stages[root].axes[axis].extent.as_const().unwrap_or(1);
        let turns = |&(_, axis): &(String, usize)| (extent(axis) + tile.points(axis) - 1) / tile.points(axis);
        let column_tiles: i64 = loops.outer[..=columns].iter().map(turns).product();
        let row_loop = (columns + 1..loops.outer.len()).find(|&at| turns(&loops.outer[at]) > 1);
        let Some(at) = row_loop.filter(|_| column_tiles < SHARED_CHUNKS) else { return };
        let (whole, axis) = loops.outer[at].clone();
        let others: i64 = loops.outer[at + 1..].iter().map(|&(_, axis)| extent(axis)).product();
        let (all, rows_per_turn) = (turns(&loops.outer[at]), others * tile.points(axis));
        let chunks = (all * rows_per_turn / CHUNK_ROWS).min((SHARED_CHUNKS + column_tiles - 1) / column_tiles).min(all);
        if chunks < 2 {
            return;
        }
        let least = (all + chunks - 1) / chunks;
        // A remainder would be code of its own.
        let together = (least..2 * least).find(|n| all % n == 0).unwrap_or(least);
        let (outer, inner) = (format!("{whole}_c"), format!("{whole}_r"));
        self.split_step(&self.name(root), &whole, together, &outer, &inner);
        loops.outer[at].0 = inner;
        loops.outer.insert(0, (outer, axis));
        loops.strip_rows = Some(together * tile.points(axis));
    }

    /// Cuts an outer loop into strips, if what would be computed in front of everything can be computed per strip; gives
    /// the stages for which that holds.
    fn strips(
        &mut self,
        root: StageId,
        tile: &Tile,
        loops: &mut Loops,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) -> Vec<(StageId, Strip)> {
        let attaches = |follow: &Option<Vec<Option<usize>>>| {
            follow.as_ref().is_some_and(|f| loops.outer.iter().any(|(_, axis)| f.contains(&Some(*axis))))
        };
        let in_front: Vec<StageId> = followed.iter().filter(|(_, f)| !attaches(f)).map(|(id, _)| *id).collect();
        if in_front.len() < followed.len() || self.run_of(root).is_some() {
            return Vec::new();
        }
        let cut = |&id: &StageId| {
            strip::strip(self.kernel, root, id, &self.accesses, tile, self.machine).map(|strip| (id, strip))
        };
        let Some(strips) = in_front.iter().map(cut).collect::<Option<Vec<(StageId, Strip)>>>() else {
            return Vec::new();
        };
        let Some((axis, rows)) = strips.iter().map(|(_, s)| (s.axis, s.rows)).min_by_key(|&(_, rows)| rows) else {
            return Vec::new();
        };
        let Some(at) = loops.outer.iter().position(|&(_, a)| a == axis) else { return Vec::new() };
        if strips.iter().any(|(_, s)| s.axis != axis) {
            return Vec::new();
        }
        let whole = loops.outer[at].0.clone();
        let (outer, inner) = (format!("{whole}_s"), format!("{whole}_r"));
        self.split_step(&self.name(root), &whole, rows, &outer, &inner);
        loops.outer[at].0 = inner;
        loops.outer.insert(0, (outer, axis));
        loops.strip_rows = Some(rows);
        strips
    }

    /// Loops of a stage that is computed inside another.
    pub(super) fn producer(
        &mut self,
        id: StageId,
        shared: Option<(StageId, &Tile, &[Option<usize>])>,
        extents: Vec<i64>,
    ) {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let tile = match shared {
            Some((root, tile, follow)) => {
                let from_root = |axis: usize| follow.iter().position(|f| *f == Some(axis)).map(|p| value[p]);
                let mut own = Tile {
                    vector_axis: tile.vector_axis.and_then(from_root),
                    rows: tile.rows.iter().filter_map(|&(a, n)| from_root(a).map(|r| (r, n))).collect(),
                    ..tile.clone()
                };
                if let (Some(axis), Some(root_axis)) = (own.vector_axis, tile.vector_axis) {
                    let points = self.own_points(root, root_axis, id, axis);
                    if points > 1 {
                        own.lanes = self.machine.lanes(self.view(id, None, Vec::new()).elem_bytes);
                        own.with_points_of_vectors(tile.points_along_vectors() * points);
                    }
                }
                if tile.vector_axis.is_none() && tile.lanes > 1 {
                    // Lanes along the reduction.
                    let (best, _) = self.pick_tile(&self.view(id, None, self.extents(id)), true);
                    own = Tile { vector_axis: best.vector_axis, lanes: best.lanes, vectors: best.vectors, ..own };
                }
                own
            }
            None => self.tile(id, Some(self.store_moves(id)), extents),
        };
        let mut loops = self.split(id, &tile);
        let stage = &self.kernel.stages[id];
        if loops.outer.iter().any(|&(_, axis)| reads_neighbours(self.kernel, id, VarId::from_index(axis))) {
            // A step is taken at all points before the next begins.
            loops.outer.sort_by_key(|&(_, axis)| stage.axes[axis].kind != AxisKind::Sequential);
        }
        let (mut reduction, lanes) = self.reduction_loops(id, &tile);
        // Vectors one after the other, each with the points that share its loads, need fewer registers.
        if tile.vectors > 1 && reduction.last().is_some_and(|_| self.shares_taps(id, &tile)) {
            let vectors = loops.inner.remove(loops.inner.len() - 2);
            reduction.insert(reduction.len() - 1, vectors);
        }
        let order: Vec<String> = loops
            .outer
            .iter()
            .map(|(n, _)| n.clone())
            .chain(reduction)
            .chain(loops.inner.iter().cloned())
            .chain(lanes.iter().cloned())
            .collect();
        let tensorized = usize::from(tile.vector_axis.is_some() && self.dots[id.index()].is_some());
        let last = order.iter().rev().nth(tensorized).cloned();
        self.reorder(&name, order);
        if tile.vector_axis.is_some()
            && let Some(last) = last
        {
            self.steps.push(ScheduleStep::Vectorize { stage: name, axis: last });
        }
    }
}
