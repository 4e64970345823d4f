//! What the rows of a tile take of the caches, where every row reads vectors of its own (depthwise convolutions): lines
//! that come from the second cache, and how many of them the first one has to keep.

use super::access::{Access, CACHE_LINE, Step};
use super::machine::Machine;
use super::order;
use super::tile::{Tile, View};

/// How much longer a step takes if the lines of a row of tiles leave the first cache before those of the next vectors, which
/// lie beside them in lines or were fetched with them, are used: 5×5 on 56×57×200 took 1.09 to 1.2 times as long.
const LEAVE: f64 = 1.1;

/// The part of lines that come from the second cache, or of arithmetic that takes less, that shows beside the other. Chosen
/// by judgement, to decide between tiles that the greater of the two makes equal; no other value was tried.
const UNHIDDEN: f64 = 0.1;

/// What the rows that a tile reads of an access take of the caches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// Cache lines that come from the second cache for a tile.
    tile: f64,
    /// Whether lines that tiles beside each other along the last axis read, and write, are more than the first cache holds.
    leave: bool,
}

/// What rows take of the caches, if the lines of all of them are more than the first one holds. The order of loops is taken
/// to be the one that `order.rs` chooses when the tile is known: its conditions and those here have to be alike.
pub(super) fn of_rows(
    view: &View<'_>,
    machine: &Machine,
    access: &Access,
    tile: &Tile,
    size_of: &dyn Fn(usize) -> i64,
) -> Lines {
    let last = tile.rows.last().map(|&(axis, _)| axis);
    let places = |whole: &dyn Fn(usize) -> bool, share: bool| {
        let points = |axis: usize| if whole(axis) { view.extents[axis] } else { size_of(axis) };
        places_read(view, access, tile.vector_axis, last.filter(|_| share), &points)
    };
    let bytes = tile.points_along_vectors() * access.elem_bytes as i64;
    let lines = ((bytes + CACHE_LINE - 1) / CACHE_LINE) as f64;
    let room = tile.vector_axis.map_or(machine.l1_bytes.cast_signed(), |lanes| access.room(machine.l1_bytes, lanes));
    let stay = |places: f64| places * lines * CACHE_LINE as f64 <= room as f64;
    let all = places(&|_| true, false);
    if stay(all) {
        return Lines::default();
    }
    let moves = |&axis: &usize| tile.vector_axis != Some(axis) && access.steps[axis] != Step::Zero;
    let rows = view.stage.value_axes().map(|(axis, _)| axis).filter(moves);
    let loops: Vec<usize> = rows.filter(|&axis| size_of(axis) < view.extents[axis]).collect();
    let columns = tile.vector_axis.map_or(1, |lanes| view.extents[lanes]) as f64;
    let whole_bytes = |places: f64| places * columns * access.elem_bytes as f64;
    let row = places(&|axis| loops.first() != Some(&axis), false);
    // What stays until it is read again comes once: a row of the image, or, with one loop over tiles, which goes inside of
    // that over vectors, the vectors of a row.
    let is_part = bytes <= CACHE_LINE / 2;
    let row_stays = whole_bytes(row) <= machine.l1_bytes as f64;
    if row_stays || loops.len() == 1 && !is_part && stay(row) {
        let tiles: f64 = loops.iter().map(|&axis| view.extents[axis] as f64 / size_of(axis) as f64).product();
        let lines = if row_stays { bytes as f64 / CACHE_LINE as f64 } else { lines };
        return Lines { tile: all / tiles * lines, leave: false };
    }
    // Where vectors come one after the other, they use up lines, and what lies between tiles beside each other leaves
    // before the next tile: those of parts of lines, of rows far apart, and of bands.
    let far_apart = tile.vector_axis.is_some_and(|lanes| access.rows_are_far_apart(lanes))
        && order::is_beyond_caches(whole_bytes(all), machine);
    let in_bands = loops.len() > 1 && whole_bytes(row) > machine.l2_bytes as f64 / 2.0;
    if is_part || far_apart || in_bands {
        return Lines { tile: places(&|_| false, false) * bytes as f64 / CACHE_LINE as f64, leave: is_part };
    }
    // Without windows nothing lies between tiles, and what one tile uses up may leave, but for what is fetched with it.
    let shares = has_windows(view, access, tile.vector_axis) || leaves_neighbours(view, access, tile, size_of);
    let along = last.map_or(1.0, |axis| view.extents[axis] as f64 / size_of(axis) as f64);
    let written = tile.rows.iter().map(|&(axis, _)| size_of(axis) as f64).product::<f64>() * along;
    Lines {
        // Tiles beside each other share what lies between them.
        tile: places(&|_| false, true) * lines,
        leave: shares && !stay(places(&|axis| last == Some(axis), false) + written),
    }
}

/// Whether neighbouring rows read some of the same elements, taps going either way.
fn has_windows(view: &View<'_>, access: &Access, vector_axis: Option<usize>) -> bool {
    let stride = |axis: usize| access.strides[axis].filter(|&stride| stride != 0);
    let mut rows =
        view.stage.value_axes().filter(|&(axis, _)| vector_axis != Some(axis)).filter_map(|(a, _)| stride(a));
    rows.any(|row| {
        let slides =
            |taps: usize| stride(taps).is_some_and(|tap| row % tap == 0 && (row / tap).abs() < view.extents[taps]);
        view.stage.reduce_axes().any(|(taps, _)| slides(taps))
    })
}

/// Whether the rows that a tile leaves to others lie so near to its own that their lines are fetched together.
fn leaves_neighbours(view: &View<'_>, access: &Access, tile: &Tile, size_of: &dyn Fn(usize) -> i64) -> bool {
    let is_near =
        |stride: i64| (CACHE_LINE..=2 * CACHE_LINE).contains(&stride.saturating_mul(access.elem_bytes as i64));
    let mut rows = view.stage.value_axes().map(|(axis, _)| axis).filter(|&axis| tile.vector_axis != Some(axis));
    rows.any(|axis| size_of(axis) < view.extents[axis] && access.strides[axis].is_some_and(is_near))
}

/// Bytes that a turn streams of weights which only move along the lanes, or as if they were so many if lines of others are
/// fetched together with them.
pub(super) fn streamed(
    view: &View<'_>,
    access: &Access,
    tile: &Tile,
    bytes: f64,
    size_of: &dyn Fn(usize) -> i64,
) -> f64 {
    bytes * if leaves_neighbours(view, access, tile, size_of) { LEAVE } else { 1.0 }
}

impl Lines {
    /// Those of two accesses together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { tile: self.tile + other.tile, leave: self.leave || other.leave }
    }

    /// Cycles of a step of so many, which takes `step` without them.
    pub(super) fn step(self, step: f64, steps: f64, machine: &Machine) -> f64 {
        let lines = self.tile * CACHE_LINE as f64 / steps / machine.l2_bytes_per_cycle;
        (step.max(lines) + UNHIDDEN * step.min(lines)) * if self.leave { LEAVE } else { 1.0 }
    }
}

/// Places beside each other along other axes than the lanes that an access reads for so many points along each axis, what
/// neighbouring windows share counted once; along one axis without what the windows reach beyond the points.
fn places_read(
    view: &View<'_>,
    access: &Access,
    vector_axis: Option<usize>,
    beside: Option<usize>,
    points: &dyn Fn(usize) -> i64,
) -> f64 {
    let moves = |&axis: &usize| vector_axis != Some(axis) && access.steps[axis] != Step::Zero;
    let mut taps: Vec<usize> = view.stage.reduce_axes().map(|(axis, _)| axis).filter(moves).collect();
    let mut places = 1.0;
    for axis in view.stage.value_axes().map(|(axis, _)| axis).filter(moves) {
        let distance = |taps: usize| {
            let (row, tap) = (access.strides[axis]?, access.strides[taps].filter(|&tap| tap != 0)?);
            Some(row / tap).filter(|&by| row % tap == 0 && (1..view.extents[taps]).contains(&by))
        };
        let of_window = taps.iter().enumerate().find_map(|(n, &taps)| Some((n, distance(taps)?)));
        places *= match of_window {
            Some((n, by)) => {
                let reach = view.extents[taps.remove(n)] - by;
                (points(axis) * by + if beside == Some(axis) { 0 } else { reach }) as f64
            }
            None => points(axis) as f64,
        };
    }
    places * taps.into_iter().map(|axis| view.extents[axis] as f64).product::<f64>()
}
