//! Strips of rows, for stages whose readers look at neighbours.
//!
//! A point of a stencil needs a few points of what it reads, and the next one most of them again. Computed per point
//! they are computed several times; computed all in front, they leave the caches before they are read. So the reader's
//! outermost axis is cut into strips, and per strip what it needs is computed: the strip, and at its edges what the
//! neighbours compute as well.

use super::access::Access;
use super::machine::Machine;
use super::tile::Tile;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::{AxisKind, Kernel};

/// Rows per row that is computed twice, at least and at most: fewer cost too much work, more gain nothing.
const ROWS_PER_OVERLAP: (i64, i64) = (4, 64);

/// What of the second cache a strip may take: as much passes by of what is read for it, and of what is written.
const PART_OF_CACHE: u64 = 3;

/// How a reader's axis is cut, and what a strip needs of the stage it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    /// Of the reader.
    pub(super) axis: usize,
    /// Points of the axis per strip.
    pub(super) rows: i64,
    /// Position of the read stage's axis that moves along.
    position: usize,
    /// Points that a strip needs beside one per row.
    overlap: i64,
}

impl Strip {
    /// Points of each axis of the read stage that a strip of so many rows needs; given are those of all axes.
    pub(super) fn extents(&self, kernel: &Kernel, stage: StageId, rows: i64, mut all: Vec<i64>) -> Vec<i64> {
        if let Some((axis, _)) = kernel.stages[stage].value_axes().nth(self.position) {
            all[axis] = all[axis].min(rows + self.overlap);
        }
        all
    }
}

/// The strips in which `reader` and the `stage` that it reads at neighbouring points are computed together.
pub(super) fn strip(
    kernel: &Kernel,
    reader: StageId,
    stage: StageId,
    accesses: &[Vec<Access>],
    tile: &Tile,
    machine: &Machine,
) -> Option<Strip> {
    let reads = |by: StageId| accesses[by.index()].iter().filter(move |a| a.stage == Some(stage));
    let alone = kernel.stages.ids().all(|by| by == reader || by <= stage || reads(by).next().is_none());
    if !alone || accesses[stage.index()].iter().any(|a| a.stage.is_some()) {
        return None;
    }
    // Per value axis of the stage: the axis of the reader that it moves along, and how far reads reach.
    let mut reach: Vec<(usize, i64, i64)> = Vec::new();
    for access in reads(reader) {
        let near: Vec<(usize, i64)> = access.near.iter().copied().collect::<Option<_>>()?;
        if reach.is_empty() {
            reach = near.iter().map(|&(axis, distance)| (axis, distance, distance)).collect();
        }
        for ((axis, low, high), (other, distance)) in reach.iter_mut().zip(near) {
            if *axis != other {
                return None;
            }
            (*low, *high) = ((*low).min(distance), (*high).max(distance));
        }
    }
    let axes = &kernel.stages[reader].axes;
    let extents: Vec<i64> =
        kernel.stages[stage].value_axes().map(|(_, a)| a.extent.as_const()).collect::<Option<_>>()?;
    let elem_bytes: i64 = kernel.stages[stage].dtypes().iter().map(|d| d.size_bytes().unwrap_or(1) as i64).sum();
    let all_bytes = extents.iter().try_fold(elem_bytes, |bytes, n| bytes.checked_mul(*n))?;
    reach.iter().enumerate().find_map(|(position, &(axis, low, high))| {
        let points = axes[axis].extent.as_const()?;
        if axes[axis].kind != AxisKind::Parallel || tile.points(axis) > 1 {
            return None;
        }
        let overlap = high - low;
        let row_bytes = all_bytes / extents[position].max(1);
        let fitting = |bytes: u64| bytes.cast_signed() / row_bytes.max(1) - overlap;
        let (least, most) = (ROWS_PER_OVERLAP.0 * overlap.max(1), ROWS_PER_OVERLAP.1 * overlap.max(1));
        let rows = fitting(machine.l2_bytes / PART_OF_CACHE).max(least.min(fitting(machine.l2_bytes))).min(most);
        if rows < least || rows >= points {
            return None;
        }
        // As even as they come.
        let strips = (points + rows - 1) / rows;
        Some(Strip { axis, rows: (points + strips - 1) / strips, position, overlap })
    })
}
