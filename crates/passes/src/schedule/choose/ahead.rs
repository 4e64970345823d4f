//! What is asked for before it is read or written: where the prefetchers of processors do not look ahead far enough.

use super::access::{CACHE_LINE, Step, reduction_points};
use super::chooser::Chooser;
use super::tile::Tile;
use infc_ir::entity::{EntityId, OperandId, StageId};
use infc_ir::kernel::AxisKind;
use infc_ir::schedule::Step as ScheduleStep;

/// Prefetchers follow what is read one after the other to the end of its page.
const PAGE_BYTES: i64 = 4096;

/// Cycles until a cache line comes from beyond the second cache.
const FAR_CYCLES: f64 = 250.0;

impl Chooser<'_> {
    /// Asks ahead for what a sum reads along its lanes, and what its root writes in whose tiles it is computed.
    ///
    /// `follow` says which axis of the root each value axis of `main` is, `innermost` which axis of the root the innermost
    /// loop over tiles runs along.
    pub(super) fn fetch_ahead(
        &mut self,
        main: StageId,
        root: StageId,
        tile: &Tile,
        follow: &[Option<usize>],
        innermost: Option<usize>,
    ) {
        let stage = &self.kernel.stages[main];
        let along = follow.iter().position(|f| f.is_some() && *f == tile.vector_axis);
        let Some((lanes, _)) = along.and_then(|position| stage.value_axes().nth(position)) else { return };
        let innermost_sum = stage.axes.iter().rposition(|a| a.kind == AxisKind::Reduce);
        let mut found: Vec<(OperandId, StageId, usize, i64)> = Vec::new();
        for access in &self.accesses[main.index()] {
            let Some(operand) = access.operand.filter(|_| access.steps[lanes] == Step::One) else { continue };
            let elem_bytes = access.elem_bytes as i64;
            let stays = stage.value_axes().all(|(n, _)| n == lanes || access.steps[n] == Step::Zero);
            let is_panel = stays && access.panelled[lanes].is_some();
            let bytes = self.elements(main, access).saturating_mul(elem_bytes);
            // Panels of weights that stream by, from beyond the second cache the first time, if they are not used more
            // quickly than they come: then prefetchers have enough to do.
            let per_point = innermost_sum.and_then(|axis| Some((axis, access.strides[axis]? * elem_bytes)));
            let panel = per_point.filter(|&(_, apart)| is_panel && (1..=PAGE_BYTES).contains(&apart));
            if let Some((axis, apart)) = panel
                && bytes > self.machine.l2_bytes.cast_signed() / 2
                && (tile.points_along_vectors() * elem_bytes) as f64 / self.machine.l3_bytes_per_cycle
                    <= self.cycles_per_point(tile)
            {
                found.push((operand, main, axis, PAGE_BYTES / apart));
            } else if innermost.is_some() && innermost == tile.vector_axis && self.is_unforeseen(main, lanes, access) {
                // Rows, of which there are more than a prefetcher follows: the next vectors of each.
                let ahead = self.points_until_far(main, tile).max(CACHE_LINE / elem_bytes);
                found.push((operand, main, lanes, ahead));
                let side_by_side = self.store_moves(root)[tile.vector_axis.unwrap_or(0)].step == Step::One;
                let outputs = self.kernel.outputs.iter().filter(|o| o.stage == root && side_by_side);
                found.extend(outputs.filter_map(|o| Some((o.operand, root, tile.vector_axis?, ahead))));
            }
        }
        found.sort_unstable();
        found.dedup_by_key(|&mut (operand, during, ..)| (operand, during));
        for (operand, during, axis, ahead) in found {
            let during = &self.kernel.stages[during];
            self.steps.push(ScheduleStep::Fetch {
                operand: self.kernel.operands[operand].name.clone(),
                during: during.name.clone(),
                axis: during.axes[axis].name.clone(),
                ahead: u32::try_from(ahead).unwrap_or(0),
            });
        }
    }

    /// Points along the vectors of as many tiles of a sum as take until a line comes that is asked for now.
    fn points_until_far(&self, main: StageId, tile: &Tile) -> i64 {
        let cycles = reduction_points(self.kernel, &self.kernel.stages[main]) * self.cycles_per_point(tile);
        (FAR_CYCLES / cycles.max(1.0)).ceil() as i64 * tile.points_along_vectors()
    }

    /// Cycles that a tile's multiply-adds take at a point of the sum.
    fn cycles_per_point(&self, tile: &Tile) -> f64 {
        let rows: i64 = tile.rows.iter().map(|&(_, n)| n).product();
        (rows * tile.vectors) as f64 / self.machine.arithmetic_per_cycle
    }
}
