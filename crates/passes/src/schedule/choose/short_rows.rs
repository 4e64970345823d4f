//! Rows with sums of their own that are shorter than vectors (softmax over a few classes, norms of a few numbers): lanes lie
//! across them.

use super::access::Step;
use super::chooser::Chooser;
use super::follow::Followed;
use super::tile::{self, Tile, View};
use infc_ir::entity::StageId;
use infc_ir::kernel::AxisKind;

/// Bytes of the elements of which short rows leave lanes empty.
const ROW_BYTES: usize = 4;

impl Chooser<'_> {
    /// The tile of a root that no sum is computed with tile by tile. Where each of its rows needs sums over the row, and rows are
    /// short, lanes lie across rows: lanes along them would be left empty, by every stage, and be summed for each row.
    pub(super) fn tile_of_rows(&mut self, root: StageId, followed: &[Followed]) -> Tile {
        let (stores, extents) = (Some(self.store_moves(root)), self.extents(root));
        let lanes_along = self.across_short_rows(root, followed);
        let view = View { lanes_along, ..self.view(root, stores, extents) };
        let (tile, cycles) = self.pick_tile(&view, false);
        self.count(cycles);
        tile
    }

    /// The axis across rows of a root that are short and have sums of their own; `None` if they are not.
    fn across_short_rows(&self, root: StageId, followed: &[Followed]) -> Option<usize> {
        let stage = &self.kernel.stages[root];
        let moves = self.store_moves(root);
        let row = moves.iter().position(|along| along.step == Step::One)?;
        let points = stage.axes[row].extent.as_const()?;
        let lanes = self.machine.lanes(ROW_BYTES);
        // Measured with softmax: from two vectors on, lanes across rows gain nothing, as little as where none is empty.
        if points < 2 || points >= 2 * lanes || points % lanes == 0 {
            return None;
        }
        let sums = followed.iter().filter(|(id, _)| self.kernel.stages[*id].reducer.is_some());
        let follows: Vec<&Vec<Option<usize>>> = sums.map(|(_, follow)| follow.as_ref()).collect::<Option<_>>()?;
        if follows.is_empty() || follows.iter().any(|follow| follow.contains(&Some(row))) {
            return None;
        }
        let is_across = |&axis: &usize| {
            axis != row
                && stage.axes[axis].kind == AxisKind::Parallel
                && stage.axes[axis].extent.as_const().map_or(!tile::is_batch(stage, axis), |n| n >= lanes)
                && follows.iter().all(|follow| follow.contains(&Some(axis)))
        };
        (0..stage.axes.len()).rev().find(is_across)
    }
}
