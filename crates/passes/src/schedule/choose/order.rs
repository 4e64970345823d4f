//! What is read again soonest, and so which loop goes inside: which operand stays while another streams by.

use super::access::{Access, CACHE_LINE, Step, extent};
use super::chooser::Chooser;
use super::follow::Followed;
use super::machine::Machine;
use super::tile::Tile;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::Interval;
use infc_ir::kernel::AxisKind;

/// Weights up to this size are found in the last cache by the next sweep; larger ones come from memory each time.
const LAST_LEVEL_BYTES: f64 = 16.0 * 1024.0 * 1024.0;

/// By how much weights from the last cache have to arrive more quickly than they are used: between makers of processors
/// its bandwidth differs by a factor of four.
const LAST_LEVEL_MARGIN: f64 = 2.0;

/// Second caches that rows exceed before it matters how far apart they lie: up to there caches differ too much between
/// machines.
const BEYOND_CACHES: f64 = 2.0;

/// Whether so many bytes come from beyond the caches of any machine like this one.
pub(super) fn is_beyond_caches(bytes: f64, machine: &Machine) -> bool {
    bytes > BEYOND_CACHES * machine.l2_bytes as f64
}

/// Which loops over tiles of rows go inside of that over tiles of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsInside {
    None,
    /// The innermost.
    Last,
    /// All: their lines of one tile of vectors stay in the first cache.
    All,
}

impl Chooser<'_> {
    /// Of a stage that only moves: the axis along which lie the neighbours of what its lanes gather, and how many of them a
    /// cache line has. With its loop innermost, the cache lines that one vector touches serve the next ones, too.
    pub(super) fn gathered_lines(&self, id: StageId, tile: &Tile) -> Option<(usize, i64)> {
        let stage = &self.kernel.stages[id];
        let vector = tile.vector_axis.filter(|_| stage.reducer.is_none())?;
        let gathers = self.accesses[id.index()].iter().filter(|a| a.steps[vector] == Step::Far);
        let along = |a: &Access| {
            let is_along = |&n: &usize| a.steps[n] == Step::One && stage.axes[n].kind == AxisKind::Parallel;
            let axis = (0..stage.axes.len()).find(is_along)?;
            Some((axis, (CACHE_LINE / a.elem_bytes.max(1) as i64).max(1)))
        };
        gathers.filter_map(along).next()
    }

    /// Whether loops over tiles of columns (the vector axis) go around those over tiles of rows.
    ///
    /// `follow` says which axis of the root each value axis of `main` is; the tile is in terms of the root.
    ///
    /// Weights that fit into the second cache stay there, and tiles of rows pass by. Of larger ones a panel stays there,
    /// which costs a sweep over all rows per panel. Where a tile of rows stays in the first cache, it is as well to
    /// sweep over all weights per tile, as far as they arrive as quickly as they are used, from the last cache.
    pub(super) fn columns_outermost(&self, main: StageId, tile: &Tile, follow: &[Option<usize>]) -> bool {
        let stage = &self.kernel.stages[main];
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let of_root = |axis: usize| value.iter().position(|&v| v == axis).and_then(|p| follow[p]);
        let Some(column) =
            value.iter().copied().find(|&v| tile.vector_axis.is_some() && of_root(v) == tile.vector_axis)
        else {
            return false;
        };
        let points = |axis: usize| extent(self.kernel, stage, axis) as f64;
        let (mut weights, mut streamed) = (0.0, 0.0);
        for a in &self.accesses[main.index()] {
            if a.steps[column] == Step::Zero || value.iter().any(|&v| v != column && a.steps[v] != Step::Zero) {
                continue;
            }
            let moved = (0..stage.axes.len()).filter(|&x| a.steps[x] != Step::Zero);
            weights += moved.map(points).product::<f64>() * a.elem_bytes as f64;
            streamed += (tile.vectors * tile.lanes) as f64 * a.elem_bytes as f64 * self.points_at_once(main) as f64;
        }
        if weights <= self.machine.l2_bytes as f64 / 2.0 {
            return false;
        }
        let rows: i64 = tile.rows.iter().map(|&(_, n)| n).product();
        let cycles = (tile.vectors * rows) as f64 / self.machine.arithmetic_per_cycle;
        let of_rows = self.accesses[main.index()].iter().filter(|a| a.steps[column] == Step::Zero);
        let tile_bytes: f64 = of_rows.map(|a| self.tile_bytes(main, a, tile, &of_root)).sum();
        // Twice the cache: what is left over comes from the second, which has nothing else to do.
        let stay = tile_bytes <= 2.0 * self.machine.l1_bytes as f64;
        let in_cache = weights <= LAST_LEVEL_BYTES;
        !(stay && in_cache && LAST_LEVEL_MARGIN * streamed / self.machine.l3_bytes_per_cycle <= cycles)
    }

    /// Bytes that a tile's rows read of an access and that are read again soon: in one turn of the outermost of several
    /// reduction loops, what neighbouring windows share counted once.
    fn tile_bytes(&self, main: StageId, a: &Access, tile: &Tile, of_root: &dyn Fn(usize) -> Option<usize>) -> f64 {
        self.turn_bytes(main, a, &|axis| of_root(axis).map_or(1, |r| tile.points(r)))
    }

    /// Bytes that a stage reads of an access at so many points of each value axis, in one turn of the outermost of several
    /// reduction loops, what neighbouring windows share counted once.
    fn turn_bytes(&self, main: StageId, a: &Access, points: &dyn Fn(usize) -> i64) -> f64 {
        let stage = &self.kernel.stages[main];
        let outermost = stage.reduce_axes().map(|(axis, _)| axis).next();
        let several = stage.reduce_axes().count() > 1;
        let in_turn = |axis: usize| {
            let full = extent(self.kernel, stage, axis);
            match stage.axes[axis].kind {
                AxisKind::Reduce if several && Some(axis) == outermost => 1,
                AxisKind::Reduce => full,
                AxisKind::Parallel | AxisKind::Sequential => points(axis).min(full),
            }
        };
        let moved = (0..stage.axes.len()).filter(|&axis| a.steps[axis] != Step::Zero);
        let nominal = moved.map(|axis| in_turn(axis) as f64).product::<f64>();
        nominal.min(self.span(main, a, &in_turn)) * a.elem_bytes as f64
    }

    /// Elements from the first to the last that a stage reads of an access at so many points of each axis.
    fn span(&self, main: StageId, a: &Access, points: &dyn Fn(usize) -> i64) -> f64 {
        let stage = &self.kernel.stages[main];
        let mut ranges = stage.ranges(&self.kernel.symbols);
        for axis in 0..stage.axes.len() {
            ranges.set_var(VarId::from_index(axis), Interval::new(0, points(axis) - 1));
        }
        match ranges.interval(&a.flat) {
            Interval { min: Some(min), max: Some(max) } => max.saturating_sub(min) as f64 + 1.0,
            _ => f64::INFINITY,
        }
    }

    /// Puts the loop over tiles of a row around the loop over rows, where what the windows of one row share with those of
    /// the next leaves the second cache before they come. A band as wide as a tile stays; what neighbouring bands share is
    /// read twice from beyond.
    pub(super) fn in_bands(&self, main: StageId, tile: &Tile, follow: &[Option<usize>], outer: &mut [(String, usize)]) {
        let stage = &self.kernel.stages[main];
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let of_main = |root: usize| follow.iter().position(|f| *f == Some(root)).map(|p| value[p]);
        let accesses = &self.accesses[main.index()];
        let Some((turns_axis, _)) = stage.reduce_axes().next() else { return };
        let turns = extent(self.kernel, stage, turns_axis) as f64;
        let shares = |a: &Access, axis: usize| {
            let moves = |axis: usize| a.strides[axis].filter(|&stride| stride > 0);
            moves(axis).zip(moves(turns_axis)).is_some_and(|(row, turn)| turn as f64 * turns > row as f64)
        };
        let found = outer.iter().enumerate().find_map(|(at, &(_, axis))| {
            let row = of_main(axis).filter(|_| tile.vector_axis != Some(axis))?;
            accesses.iter().any(|a| shares(a, row)).then_some((at, row))
        });
        let Some((at, row)) = found else { return };
        let is_tiled = |&(_, axis): &(String, usize)| tile.vector_axis != Some(axis) && tile.points(axis) > 1;
        let Some(tiles) = outer.iter().skip(at + 1).position(is_tiled).map(|p| at + 1 + p) else { return };
        let Some(tiled) = of_main(outer[tiles].1) else { return };
        let width = tile.points(outer[tiles].1);
        // What one row reads and writes, whole and in one band.
        let bytes = |points: &dyn Fn(usize) -> i64| {
            let turns_of = |a: &Access| if a.steps[turns_axis] == Step::Zero { 1.0 } else { turns };
            let read: f64 = accesses.iter().map(|a| turns_of(a) * self.turn_bytes(main, a, points)).sum();
            let written = value.iter().map(|&axis| points(axis).min(extent(self.kernel, stage, axis)) as f64);
            let elem_bytes: usize = stage.dtypes().iter().map(|d| d.size_bytes().unwrap_or(1)).sum();
            read + written.product::<f64>() * elem_bytes as f64
        };
        let in_row = |axis: usize| if axis == row { 1 } else { i64::MAX };
        let in_band = |axis: usize| if axis == tiled { width } else { in_row(axis) };
        let room = self.machine.l2_bytes as f64 / 2.0;
        if bytes(&in_row) > room && bytes(&in_band) <= room {
            outer[at..=tiles].rotate_right(1);
        }
    }

    /// Bytes of operands that the stages before a root read at other places when the root moves along an axis.
    pub(super) fn moved_bytes(&self, followed: &[Followed], axis: usize) -> i64 {
        let mut bytes = 0;
        for (id, follow) in followed {
            let stage = &self.kernel.stages[*id];
            let position = follow.as_ref().and_then(|f| f.iter().position(|&a| a == Some(axis)));
            let Some(own) = position.and_then(|p| stage.value_axes().nth(p)).map(|(n, _)| n) else { continue };
            for access in self.accesses[id.index()].iter().filter(|a| a.stage.is_none() && a.steps[own] != Step::Zero) {
                let moving = (0..stage.axes.len()).filter(|&n| access.steps[n] != Step::Zero);
                let elems = moving.fold(1i64, |n, a| n.saturating_mul(extent(self.kernel, stage, a)));
                bytes = elems.saturating_mul(access.elem_bytes as i64).saturating_add(bytes);
            }
        }
        bytes
    }

    /// Which loops over rows go inside of that over vectors: some do where every load of a reduction differs from vector to
    /// vector, and some do not from row to row, so that a vector keeps what stays while its rows pass by.
    ///
    /// None where a vector is only part of a cache line and there are too many rows for the first cache, so that their
    /// lines would be fetched again for the next part; unless it is what stays that does not fit there. Nor where rows
    /// come from beyond the second cache and lie far apart: one after the other, the vectors of a row are fetched ahead.
    pub(super) fn rows_inside(&self, main: StageId, tile: &Tile, followed: &[Followed]) -> RowsInside {
        let Some(axis) = self.followed_axis(main, tile, followed) else { return RowsInside::None };
        let stage = &self.kernel.stages[main];
        let accesses = &self.accesses[main.index()];
        let stays = |a: &Access| stage.value_axes().any(|(n, _)| a.steps[n] == Step::Zero);
        let moves = |a: &Access| a.steps[axis] != Step::Zero && a.periods[axis].is_none();
        if !accesses.iter().all(moves) || !accesses.iter().any(stays) {
            return RowsInside::None;
        }
        let elements = |a: &Access| self.elements(main, a);
        let l1_bytes = self.machine.l1_bytes.cast_signed();
        let columns = extent(self.kernel, stage, axis).max(1);
        let width = |a: &Access| tile.points_along_vectors() * a.elem_bytes as i64;
        let is_part = |a: &Access| width(a) <= CACHE_LINE / 2;
        let room = |a: &Access| a.room(self.machine.l1_bytes, axis);
        let rows_leave = |a: &Access| (elements(a) / columns).saturating_mul(CACHE_LINE) > room(a);
        let bytes = |a: &Access| elements(a).saturating_mul(a.elem_bytes as i64);
        let stay = |a: &Access| bytes(a) <= l1_bytes / 2;
        let is_unforeseen = |a: &Access| self.is_unforeseen(main, axis, a);
        let is_fetched_again = accesses.iter().any(|a| !stays(a) && is_part(a) && rows_leave(a));
        if accesses.iter().any(is_unforeseen) || is_fetched_again && accesses.iter().any(|a| stays(a) && stay(a)) {
            return RowsInside::None;
        }
        let points = |n: usize| self.own_tile_points(main, tile, followed, n);
        if self.rows_share_lines(main, axis, tile, &points) { RowsInside::All } else { RowsInside::Last }
    }

    /// Whether windows of one row of tiles find what they share with those of the next, at least half of what they read, in
    /// the first cache if all loops over rows go inside of that over vectors, and only then: a row of the image does not
    /// stay there, but what one tile of vectors reads of it. `points` are those of the reduction's axes in a tile.
    fn rows_share_lines(&self, main: StageId, lanes: usize, tile: &Tile, points: &dyn Fn(usize) -> i64) -> bool {
        let stage = &self.kernel.stages[main];
        let accesses = &self.accesses[main.index()];
        let full = |n: usize| extent(self.kernel, stage, n);
        let mut rows = stage.value_axes().map(|(n, _)| n).filter(|&n| n != lanes);
        let Some(outermost) = rows.find(|&n| points(n) < full(n)) else { return false };
        let in_turn = |n: usize| if n == outermost { points(n) } else { full(n) };
        let read = |a: &Access| self.span(main, a, &in_turn);
        let read_bytes: f64 = accesses.iter().map(|a| read(a) * a.elem_bytes as f64).sum();
        if read_bytes <= self.machine.l1_bytes as f64 {
            return false;
        }
        let columns = full(lanes).max(1) as f64;
        accesses.iter().filter(|a| a.steps[outermost] != Step::Zero).all(|a| {
            let bytes = tile.points_along_vectors() * a.elem_bytes as i64;
            let lines = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
            let stays = read(a) / columns * lines as f64 <= a.room(self.machine.l1_bytes, lanes) as f64;
            let passed = a.strides[outermost].map(|stride| stride.saturating_mul(points(outermost)).saturating_abs());
            stays && passed.is_some_and(|passed| 2.0 * passed as f64 <= read(a))
        })
    }

    /// Elements from the first to the last that a stage reads of an access.
    pub(super) fn elements(&self, id: StageId, a: &Access) -> i64 {
        match self.kernel.stages[id].ranges(&self.kernel.symbols).interval(&a.flat) {
            Interval { min: Some(min), max: Some(max) } => max.saturating_sub(min).saturating_add(1),
            _ => i64::MAX,
        }
    }

    /// Whether what a stage reads next along its other axes than `lanes` is nothing that a prefetcher foresees: it comes from
    /// beyond the caches, and its rows lie far apart.
    pub(super) fn is_unforeseen(&self, id: StageId, lanes: usize, a: &Access) -> bool {
        let stage = &self.kernel.stages[id];
        let bytes = self.elements(id, a).saturating_mul(a.elem_bytes as i64);
        let moves = stage.value_axes().all(|(n, _)| a.steps[n] != Step::Zero);
        let has_rows = stage.value_axes().any(|(n, _)| n != lanes);
        has_rows && moves && is_beyond_caches(bytes as f64, self.machine) && a.rows_are_far_apart(lanes)
    }

    /// Points along a value axis of a reduction in one tile of the root.
    fn own_tile_points(&self, main: StageId, tile: &Tile, followed: &[Followed], axis: usize) -> i64 {
        let follow = followed.iter().find(|(id, _)| *id == main).and_then(|(_, f)| f.as_ref());
        let position = self.kernel.stages[main].value_axes().position(|(n, _)| n == axis);
        follow.zip(position).and_then(|(follow, position)| follow[position]).map_or(1, |root| tile.points(root))
    }

    /// The axis of a reduction along which the root's vectors lie.
    fn followed_axis(&self, main: StageId, tile: &Tile, followed: &[Followed]) -> Option<usize> {
        let follow = followed.iter().find(|(id, _)| *id == main).and_then(|(_, f)| f.as_ref())?;
        let position = follow.iter().position(|f| f.is_some() && *f == tile.vector_axis)?;
        self.kernel.stages[main].value_axes().nth(position).map(|(axis, _)| axis)
    }
}
