//! Windows that slide: neighbouring rows of a tile meet the same elements at different taps.
//!
//! Along one axis an access moves by some elements per row and by some per tap of a reduction, as in a convolution. If
//! the taps are unrolled with the rows, what the tile reads at all of them is little more than what it reads at one.
//! That holds for vectors of neighbours and for those that are put together of what lies side by side: the lanes of a
//! group's element are moved once, not once per tap.

use super::access::{Access, Step};
use super::machine::Machine;
use super::tile::View;
use infc_ir::kernel::AxisKind;

/// Multiply-adds in one body up to which taps are unrolled with the rows of a tile.
const MOST_IN_BODY: i64 = 96;

/// The same per vector register where lanes sum and nothing is gathered: both rows and columns share what they read, from the
/// second cache if the first one does not hold it, so that tiles of as many sums as there are registers for need less of it.
const MOST_PER_REGISTER: i64 = 6;

/// Taps beyond which elements would stay in registers for too long.
const MOST_TAPS: i64 = 8;

/// How an access moves along the rows of a tile and the taps of a reduction axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Which of the tile's row axes slides.
    pub(super) row_axis: usize,
    /// Taps per row.
    stride: i64,
    /// Points of the reduction axis.
    pub(super) taps: i64,
}

impl Window {
    /// Distinct elements that so many rows read at all taps together.
    pub(super) fn elements(self, rows: i64) -> i64 {
        (rows - 1) * self.stride + self.taps
    }
}

/// The window that an access slides along one of the rows, with taps along a reduction axis, if neighbours share elements.
pub(super) fn window(view: &View<'_>, access: &Access, rows: &[(usize, i64)], taps_axis: usize) -> Option<Window> {
    let taps = view.stage.axes[taps_axis].extent.as_const().filter(|&n| n > 1 && n <= MOST_TAPS)?;
    let per_tap = access.strides[taps_axis].filter(|&stride| stride != 0)?;
    rows.iter().rev().find_map(|&(row_axis, _)| {
        let per_row = access.strides[row_axis]?;
        let stride = per_row / per_tap;
        (per_row % per_tap == 0 && (1..taps).contains(&stride)).then_some(Window { row_axis, stride, taps })
    })
}

/// The reduction axes whose taps a tile of these rows and vectors can unroll with them: the innermost, and others where
/// sums may be folded in another order.
pub(super) fn sliding(
    view: &View<'_>,
    machine: &Machine,
    vector_axis: usize,
    vectors: i64,
    rows: &[(usize, i64)],
) -> Vec<usize> {
    if view.dot.is_some() {
        return Vec::new();
    }
    let body: i64 = rows.iter().map(|&(_, n)| n).product::<i64>() * vectors;
    // Vectors of neighbours, or of what is read side by side and put in its lanes.
    let is_vector = |a: &&Access| a.strides[vector_axis] == Some(1) || a.periods[vector_axis].is_some();
    let along_lanes: Vec<&Access> = view.accesses.iter().filter(is_vector).collect();
    let lanes_sum = view.stage.axes[vector_axis].kind == AxisKind::Reduce;
    let is_loaded = |a: &Access| a.strides[vector_axis] == Some(1);
    let most = if lanes_sum && view.accesses.iter().all(is_loaded) {
        MOST_PER_REGISTER * i64::from(machine.vector_registers)
    } else {
        MOST_IN_BODY
    };
    let slides =
        |&axis: &usize| along_lanes.iter().filter_map(|a| window(view, a, rows, axis)).any(|w| body * w.taps <= most);
    let axes = view.stage.axes.iter().enumerate().filter(|(_, a)| a.kind == AxisKind::Reduce).map(|(axis, _)| axis);
    axes.rev().take(if view.reorders { usize::MAX } else { 1 }).filter(slides).collect()
}

/// Vectors that rows of a tile share at all taps of an axis but the first: what stays in registers while elements pass by.
pub(super) fn read_beside(view: &View<'_>, vector_axis: usize, taps_axis: usize, rows: &[(usize, i64)]) -> f64 {
    let moves = |a: &Access, axis: usize| a.steps[axis] != Step::Zero;
    let is_shared = |a: &&Access| rows.iter().all(|&(row, _)| !moves(a, row));
    let shared =
        view.accesses.iter().filter(is_shared).filter(|a| moves(a, vector_axis) && moves(a, taps_axis)).count();
    shared as f64 * (view.extents[taps_axis] - 1).max(0) as f64
}
