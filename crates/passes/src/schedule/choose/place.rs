//! Where stages are computed: inside which loop of which reader, or in front of everything.

use super::access::{cost, reduction_points};
use super::chooser::Chooser;
use super::follow::Followed;
use super::loops::Loops;
use super::order::RowsInside;
use super::steps::Units;
use super::stored;
use super::strip::{self, Strip};
use super::tile::Tile;
use crate::schedule::reads::{reads_near, reads_neighbours};
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::{Scope, Step as ScheduleStep};

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

/// The loops of a root, in which what it reads is computed.
struct Placing<'a> {
    root: StageId,
    tile: &'a Tile,
    /// Those of a chunk, where chunks share a step.
    units: Option<Units>,
    /// Per stage that would be computed in front of all loops, the strips that it is computed for instead.
    strips: &'a [(StageId, Strip)],
    loops: &'a Loops,
}

impl Chooser<'_> {
    /// The steps of a stage in loops of its own, and of all that is computed within them: the tile, the order of loops, where
    /// in them its producers stand, and what threads share.
    pub(super) fn root(&mut self, root: StageId) {
        let stage = &self.kernel.stages[root];
        let producers = self.producers(root);
        let mut memo = vec![None; self.kernel.stages.len()];
        let followed: Vec<Followed> = producers.iter().map(|&p| (p, self.depends(root, p, &mut memo))).collect();
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
        let (mut root_tile, apart) = self.tile_of_root(root, main, &followed);
        let (in_step, main) = if apart { (Vec::new(), None) } else { (in_step, main) };
        let units = self.units_of_chunk(root, &followed).filter(|units| root_tile.vector_axis == Some(units.axis));
        if let Some(units) = units {
            // A chunk has whole tiles.
            let fits = |vectors: &i64| units.count % (vectors * root_tile.lanes) == 0;
            root_tile.vectors = (1..=root_tile.vectors).rev().find(fits).unwrap_or(1);
        }
        let mut loops = self.split(root, &root_tile);
        let name = self.name(root);
        self.order_outer(root, &root_tile, main, &followed, &mut loops);
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

        let placing = Placing { root, tile: &root_tile, units, strips: &strips, loops: &loops };
        let mut deepest_attached = loops.outer.len();
        for (id, follow) in &followed {
            let shares = in_step.contains(id);
            let position = self.attach(&placing, *id, follow.as_deref(), shares);
            deepest_attached = position.map_or(deepest_attached, |position| deepest_attached.min(position + 1));
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

    /// The tile of a root, and whether it stands apart from the sums that it could share it with.
    fn tile_of_root(&mut self, root: StageId, main: Option<StageId>, followed: &[Followed]) -> (Tile, bool) {
        let stage = &self.kernel.stages[root];
        let cycles = self.cycles;
        let shared = match main {
            Some(main) => self.tile_through(root, main, followed),
            None => self.tile_of_rows(root, followed),
        };
        // Lanes that sum leave one result each: what is still to be done with them is done in vectors of several.
        let sums_in_lanes = main.is_some() && shared.vector_axis.is_none() && shared.lanes > 1;
        if !sums_in_lanes || cost(stage) <= SCALAR_COST || self.run_of(root).is_some() {
            return (shared, false);
        }
        let before = std::mem::replace(&mut self.cycles, cycles);
        let own = self.tile(root, Some(self.store_moves(root)), self.extents(root));
        // Of a vector whose last points do not exist, their sums are computed all the same.
        let is_known = |axis: usize| stage.axes[axis].extent.as_const().is_some();
        let sums = main.map_or(0.0, |main| reduction_points(self.kernel, &self.kernel.stages[main]));
        if sums < MANY_POINTS || own.vector_axis.is_none_or(is_known) {
            return (own, true);
        }
        self.cycles = before;
        (shared, false)
    }

    /// Orders the loops around a root's tile.
    fn order_outer(
        &mut self,
        root: StageId,
        root_tile: &Tile,
        main: Option<StageId>,
        followed: &[Followed],
        loops: &mut Loops,
    ) {
        let stage = &self.kernel.stages[root];
        // Axes that more producers follow go outside; then what is read again soonest goes inside. Among several sums
        // the loop over which least is read is the innermost: what does not move there stays in cache.
        let moved = |axis: usize| if followed.len() > 1 { self.moved_bytes(followed, axis) } else { 0 };
        let weight =
            |axis: usize| followed.iter().filter(|(_, f)| f.as_ref().is_some_and(|f| f.contains(&Some(axis)))).count();
        let follow_of = |id: StageId| followed.iter().find(|(f, _)| *f == id).and_then(|(_, follow)| follow.as_deref());
        let vector_first =
            main.is_some_and(|m| follow_of(m).is_some_and(|follow| self.columns_outermost(m, root_tile, follow)));
        let vector_axis = root_tile.vector_axis;
        // Where all that is read moves along the vector axis, the next vector reads nothing again, but the next rows may.
        let rows_inside = main.map_or(RowsInside::None, |m| self.rows_inside(m, root_tile, followed));
        let last_row = loops.outer.iter().rev().map(|&(_, axis)| axis).find(|&axis| vector_axis != Some(axis));
        let along_lines = self.gathered_lines(root, root_tile).map(|(axis, _)| axis);
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
            self.in_bands(main, root_tile, follow, &mut loops.outer);
        }
    }

    /// Says where in a root's loops a stage is computed that it reads; gives the number of the loop, `None` if it is computed
    /// in front of them all. `follow` has, for each value axis of the stage, the root's axis that it moves along; `shares` says
    /// that it shares the root's tile.
    fn attach(
        &mut self,
        placing: &Placing<'_>,
        id: StageId,
        follow: Option<&[Option<usize>]>,
        shares: bool,
    ) -> Option<usize> {
        let &Placing { root, tile, units, strips, loops } = placing;
        let name = self.name(root);
        // What belongs to a step is computed at it, whole, so that all its rows share the weights; or, where chunks share
        // the step, at a chunk, what that needs.
        let together = self.run_of(id).is_some() && !shares;
        let rank = self.kernel.stages[id].value_axes().count();
        let own = (0..rank).map(|axis| (axis == 0).then_some(0)).collect();
        let follow = &if together && units.is_none() { own } else { follow.unwrap_or_default().to_vec() };
        let position = if together {
            if units.is_some() { Some(CHUNK_LOOP) } else { loops.outer.iter().position(|(_, axis)| *axis == 0) }
        } else {
            loops.outer.iter().rposition(|(_, axis)| follow.contains(&Some(*axis)))
        };
        let strip = strips.iter().find(|(stage, _)| *stage == id).map(|(_, strip)| strip);
        let Some(position) = position.or(strip.map(|_| 0)) else {
            // Every point needs all of it: computed once, in front.
            self.producer(id, None, self.extents(id));
            return None;
        };
        let producer = self.name(id);
        self.steps.push(ScheduleStep::ComputeAt {
            stage: producer.clone(),
            consumer: name.clone(),
            axis: loops.outer[position].0.clone(),
        });
        // Columns of weights are more than a stack should hold.
        let is_decoding = crate::form::contraction::is_decoding(self.kernel, &self.kernel.stages[id]);
        // Registers are read whole: what has several points per point of the root is read in parts.
        let has_parts = self.has_own_points(root, id, follow);
        let scope = match (shares && !has_parts, is_decoding) {
            (true, _) => Scope::Register,
            (false, true) => Scope::Scratch,
            (false, false) => Scope::Stack,
        };
        self.steps.push(ScheduleStep::StoreIn { stage: producer, scope });
        // Axes whose loops lie around the computation have a tile's points in it, the others all.
        let mut extents = self.extents(id);
        for ((axis, _), followed_axis) in self.kernel.stages[id].value_axes().zip(follow) {
            let Some(root_axis) = followed_axis else { continue };
            let around = loops.outer[..=position].iter().any(|(_, a)| a == root_axis);
            if around {
                let of_chunk = units.filter(|units| units.axis == *root_axis && position == CHUNK_LOOP);
                let points = of_chunk.map_or_else(|| tile.points(*root_axis), |units| units.count);
                extents[axis] = extents[axis].min(points * self.own_points(root, *root_axis, id, axis));
            }
        }
        if let (Some(strip), Some(rows)) = (strip, loops.strip_rows) {
            extents = strip.extents(self.kernel, id, rows, extents);
            // The first part of a strip computes, the second writes: memory is asked for in time.
            if reads_near(self.kernel, root, id).is_some() && self.kernel.stages[id].reducer.is_none() {
                self.steps.push(ScheduleStep::Prefetch { stage: name.clone(), during: self.name(id) });
            }
        }
        self.producer(id, shares.then_some((root, tile, follow.as_slice())), extents);
        if shares {
            self.fetch_ahead(id, root, tile, follow, loops.outer.last().map(|&(_, axis)| axis));
        }
        Some(position)
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
    fn chunks_of_rows(&mut self, root: StageId, tile: &Tile, loops: &mut Loops, followed: &[Followed]) {
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
        followed: &[Followed],
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
        self.skip_padding(id, &tile, &reduction);
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
