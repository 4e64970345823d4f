//! Three columns that are repeated, so that they fill vectors.
//!
//! Three channels of a depthwise convolution leave most lanes of a vector empty, so that lanes run along rows and columns as
//! one axis (`schedule::choose::join`). What they read of a constant is its columns again and again, from the first on in one
//! vector and from the second or third on in another; put together where it is read, that takes an instruction or two at
//! every point of the sum. Stored as often as fills vectors of all widths, it is an operand of the multiply-add.
//!
//! Where columns are not shared with the left operand, it may be better that lanes are rows alone, to which a repeated constant
//! is no single element any more.

use super::{Contraction, MIN_COLUMNS, PANEL, uses};
use crate::schedule::point::outside_halo;
use infc_ir::entity::VarId;
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::Source;
use infc_tensor::DType;

/// Columns of which three vectors hold whole rows. Of 2 and 4 each vector does, and has them all by one load; of 5 and 7 as
/// many vectors do, of which tiles have no registers for rows.
const ODD: i64 = 3;

/// The axis of rows that lie next to each other, and for how many of them the columns are stored: as many as fill whole
/// vectors. `None` if columns are not few, if they are not the innermost axis, or if rows cannot be joined with them.
pub(super) fn rows(kernel: &Kernel, c: &Contraction<'_>, column: VarId) -> Option<(VarId, i64)> {
    let axis = |v: VarId| &c.stage.axes[v.0 as usize];
    let value: Vec<VarId> = c.stage.value_axes().map(|(n, _)| VarId(n as u32)).collect();
    let [.., rows, inner] = value[..] else { return None };
    let columns = axis(column).extent.as_const().filter(|&n| n < MIN_COLUMNS && n % ODD == 0)?;
    let Source::Operand(lhs) = c.lhs.source else { return None };
    let free = outside_halo(&kernel.operands[lhs], c.lhs, &c.stage.ranges(&kernel.symbols)).is_empty();
    let many = axis(rows).extent.as_const().is_some_and(|n| n > 1);
    let joins = inner == column && axis(rows).kind == AxisKind::Parallel && many && free && !uses(c.rhs, rows);
    // What other types multiply has panels for dot products, or lanes of another width.
    let is_moved = c.rhs.dtype == DType::F32;
    // The least multiple of both the columns and a vector.
    let times = PANEL >> columns.trailing_zeros();
    (joins && is_moved).then_some((rows, times))
}
