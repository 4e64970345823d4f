//! What the rows of a tile take of the caches, where every row reads vectors of its own (depthwise convolutions): lines
//! that come from the second cache, and how many of them the first one has to keep.

use super::access::{Access, CACHE_LINE, Step};
use super::machine::Machine;
use super::tile::{Tile, View};

/// How much longer a step takes if the lines of a row of tiles leave the first cache before those of the next vectors, which
/// lie beside them in lines or were fetched with them, are used: 5×5 on 56×57×200 took 1.09 to 1.2 times as long.
const LEAVE: f64 = 1.1;

/// What the rows that a tile reads of an access take of the caches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// Cache lines that come from the second cache for a tile.
    tile: f64,
    /// Bytes of lines that tiles beside each other along the last axis read, and write; of the access with the most.
    beside: f64,
}

/// What rows take of the caches, if the lines of all of them are more than the first one holds.
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
    let line = CACHE_LINE as f64;
    if places(&|_| true, false) * line <= machine.l1_bytes as f64 {
        return Lines::default();
    }
    let bytes = tile.points_along_vectors() * access.elem_bytes as i64;
    let per_place = ((bytes + CACHE_LINE - 1) / CACHE_LINE) as f64;
    let along = last.map_or(1.0, |axis| view.extents[axis] as f64 / size_of(axis) as f64);
    let written = tile.rows.iter().map(|&(axis, _)| size_of(axis) as f64).product::<f64>() * along;
    Lines {
        // Tiles beside each other share what lies between them.
        tile: places(&|_| false, true) * per_place,
        beside: (places(&|axis| last == Some(axis), false) + written) * per_place * line,
    }
}

impl Lines {
    /// Those of two accesses together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { tile: self.tile + other.tile, beside: self.beside.max(other.beside) }
    }

    /// Cycles of a step of so many, which takes `step` without them.
    pub(super) fn step(self, step: f64, steps: f64, machine: &Machine) -> f64 {
        let step = step.max(self.tile * CACHE_LINE as f64 / steps / machine.l2_bytes_per_cycle);
        step * if self.beside > machine.l1_bytes as f64 { LEAVE } else { 1.0 }
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
