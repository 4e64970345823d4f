//! Windows that slide: neighbouring rows of a tile meet the same elements at different taps.
//!
//! Along one axis an access moves by some elements per row and by some per tap of a reduction, as in a convolution. If
//! the taps are unrolled with the rows, what the tile reads at all of them is little more than what it reads at one.

use super::access::Access;
use super::tile::View;
use infc_ir::kernel::AxisKind;

/// Multiply-adds in one body up to which taps are unrolled with the rows of a tile.
const MOST_IN_BODY: i64 = 96;

/// Taps beyond which elements would stay in registers for too long.
const MOST_TAPS: i64 = 8;

/// How an access moves along the rows of a tile and the taps of the innermost reduction axis.
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

/// The window that an access slides along one of the rows, if neighbours share elements.
pub(super) fn window(view: &View<'_>, access: &Access, rows: &[(usize, i64)]) -> Option<Window> {
    let taps_axis = view.stage.axes.iter().rposition(|a| a.kind == AxisKind::Reduce)?;
    let taps = view.stage.axes[taps_axis].extent.as_const().filter(|&n| n > 1 && n <= MOST_TAPS)?;
    let per_tap = access.strides[taps_axis].filter(|&stride| stride != 0)?;
    rows.iter().rev().find_map(|&(row_axis, _)| {
        let per_row = access.strides[row_axis]?;
        let stride = per_row / per_tap;
        (per_row % per_tap == 0 && (1..taps).contains(&stride)).then_some(Window { row_axis, stride, taps })
    })
}

/// Whether a tile of these rows and vectors can unroll the taps of a window with them.
pub(super) fn slides(view: &View<'_>, vector_axis: usize, vectors: i64, rows: &[(usize, i64)]) -> bool {
    let body: i64 = rows.iter().map(|&(_, n)| n).product::<i64>() * vectors;
    let lies_along_lanes = |access: &&Access| access.strides[vector_axis] == Some(1);
    let mut windows = view.accesses.iter().filter(lies_along_lanes).filter_map(|a| window(view, a, rows));
    view.points_at_once == 1 && windows.any(|w| body * w.taps <= MOST_IN_BODY)
}
