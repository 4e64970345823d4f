//! Which stages have storage, and which are computed wherever they are read.

use super::access::cost;
use super::chooser::Chooser;
use super::decode;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr, Term};
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{ScalarOp, Source};

/// Operations per point from which on a stage that is needed again and again is stored.
const STORED_COST: f64 = 8.0;

/// Stages without a reduction that are cheap, or read once; but not what a sum would compute again for points that
/// only its other operand tells apart, unless it is made of constants for few of them ([`decode`]); nor what is read
/// place by place in tiles of which only the run tells how many there are: where a tile is cut off at the end, places
/// would not be known, and with them not which formula to compute.
pub(super) fn inlined(kernel: &Kernel) -> Vec<bool> {
    let mut reads = vec![0usize; kernel.stages.len()];
    let mut self_reads = vec![false; kernel.stages.len()];
    let mut gathered = vec![false; kernel.stages.len()];
    let mut repeated = vec![false; kernel.stages.len()];
    let mut in_tiles = vec![false; kernel.stages.len()];
    let stored = decode::is_stored(kernel);
    for (id, stage) in kernel.stages.iter_enumerated() {
        stage.for_each_load(&mut |_, load| {
            if let Source::Stage(source, _) = load.source {
                reads[source.index()] += 1;
                self_reads[source.index()] |= source == id;
                gathered[source.index()] |= !load.gather.is_empty();
                in_tiles[source.index()] |= load.index.iter().any(|e| is_place_in_unknown(stage, e));
                let uses = |axis: usize| load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
                repeated[source.index()] |= stage.reducer.is_some() && stage.value_axes().any(|(axis, _)| !uses(axis));
            }
        });
    }
    kernel
        .stages
        .iter_enumerated()
        .map(|(id, stage)| {
            let output = kernel.outputs.iter().any(|o| o.stage == id);
            let read_elsewhere = self_reads[id.index()] || gathered[id.index()] || in_tiles[id.index()];
            let plain = stage.reducer.is_none() && !read_elsewhere;
            let sequential = stage.axes.iter().any(|a| a.kind == AxisKind::Sequential);
            let worth_storing = stored[id.index()].unwrap_or(repeated[id.index()] && cost(stage) > STORED_COST);
            // A conversion alone is a stage only where it was brought in front of a sum to be stored.
            let is_brought = stored[id.index()] == Some(true) && is_conversion(stage);
            let cheap = !is_brought && (cost(stage) <= 2.0 || (reads[id.index()] <= 1 && !worth_storing));
            plain && !output && !sequential && cheap
        })
        .collect()
}

/// Whether a stage converts what it loads, and nothing else.
pub(super) fn is_conversion(stage: &Stage) -> bool {
    let converts = stage.body.ops.iter().any(|op| matches!(op, ScalarOp::Cast(..)));
    let is_all = stage.body.ops.iter().all(|op| matches!(op, ScalarOp::Load(_) | ScalarOp::Cast(..)));
    stage.reducer.is_none() && converts && is_all
}

/// Whether a coordinate is the place in a tile along an axis whose extent only the run tells.
fn is_place_in_unknown(reader: &Stage, coordinate: &IndexExpr) -> bool {
    let [Term { atoms, .. }] = coordinate.terms() else { return false };
    let [Atom::Mod(parts)] = &atoms[..] else { return false };
    let axis = parts.0.as_var().filter(|_| parts.1.as_const().is_some());
    axis.is_some_and(|var| reader.axes[var.index()].extent.as_const().is_none())
}

impl Chooser<'_> {
    /// The stages that `root` reads, directly or through others, that have storage; in dependency order.
    pub(super) fn producers(&self, root: StageId) -> Vec<StageId> {
        let mut needed = vec![false; self.kernel.stages.len()];
        needed[root.index()] = true;
        for id in self.kernel.stages.ids().rev() {
            if needed[id.index()] {
                for source in self.accesses[id.index()].iter().filter_map(|a| a.stage) {
                    needed[source.index()] = true;
                }
            }
        }
        let outputs: Vec<StageId> = self.kernel.outputs.iter().map(|o| o.stage).collect();
        let run = self.run_of(root);
        let producer = |id: StageId| {
            let together = run.is_some_and(|run| run.contains(&id.index()) && !self.inlined[id.index()]);
            id != root && (together || (needed[id.index()] && !outputs.contains(&id)))
        };
        self.kernel.stages.ids().filter(|&id| producer(id)).collect()
    }
}
