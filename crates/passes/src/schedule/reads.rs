//! What points of stages need of other points, of the same stage or of others.

use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::Source;
use std::ops::Range;

/// Whether a stage reads its own values of earlier steps.
pub(super) fn reads_itself(kernel: &Kernel, id: StageId) -> bool {
    let mut reads = false;
    kernel.stages[id].for_each_load(&mut |_, load| {
        reads |= matches!(load.source, Source::Stage(source, _) if source == id);
    });
    reads
}

/// Whether each point of a recurrence along an axis of its last stage needs points of the same coordinate only, of all stages
/// and at all steps: those of a batch.
pub(super) fn is_apart(kernel: &Kernel, run: &Range<usize>, axis: usize) -> bool {
    // Per stage, its axis that follows.
    let mut own: Vec<Option<usize>> = vec![None; run.len()];
    let last = run.len() - 1;
    let axes = &kernel.stages[StageId::from_index(run.end - 1)].axes;
    if axis == 0 || axes[axis].kind != AxisKind::Parallel {
        return false;
    }
    own[last] = Some(axis);
    // Readers before what they read. What is read of later stages is checked when all are known.
    for is_final in [false, true] {
        for reader in (0..run.len()).rev() {
            let Some(of_reader) = own[reader] else { return false };
            let mut follows = true;
            kernel.stages[StageId::from_index(run.start + reader)].for_each_load(&mut |_, load| {
                let Source::Stage(source, _) = load.source else { return };
                if !run.contains(&source.index()) || (!is_final && source.index() >= run.start + reader) {
                    return;
                }
                let value: Vec<usize> = kernel.stages[source].value_axes().map(|(n, _)| n).collect();
                let moves = |position: &usize| load.index[*position].as_var() == Some(VarId::from_index(of_reader));
                let followed = (0..value.len()).find(moves).map(|position| value[position]);
                let known = &mut own[source.index() - run.start];
                follows &= load.gather.is_empty() && followed.is_some() && known.is_none_or(|k| Some(k) == followed);
                *known = known.or(followed);
            });
            if !follows {
                return false;
            }
        }
    }
    true
}

/// A stage of a recurrence, other than its last one, that is read at steps other than the reader's.
pub(super) fn read_early(kernel: &Kernel, run: &Range<usize>) -> Option<StageId> {
    let mut early = None;
    for id in run.clone().map(StageId::from_index) {
        kernel.stages[id].for_each_load(&mut |_, load| {
            if let Source::Stage(source, _) = load.source
                && run.contains(&source.index())
                && source.index() + 1 != run.end
                && load.index.first().and_then(IndexExpr::as_var) != Some(VarId(0))
            {
                early = Some(source);
            }
        });
    }
    early
}

/// Does the stage read itself at another coordinate of the axis than its own? Then no part of it along the axis can be
/// computed without the rest.
pub(super) fn reads_neighbours(kernel: &Kernel, id: StageId, axis: VarId) -> bool {
    let mut found = false;
    let stage = &kernel.stages[id];
    let position = stage.value_axes().position(|(n, _)| n == axis.index());
    stage.for_each_load(&mut |_, load| {
        if let Source::Stage(source, _) = load.source
            && source == id
            && let Some(p) = position
        {
            found |= load.index[p].as_var() != Some(axis);
        }
    });
    found
}

/// For each axis of a stage that reads another at its own coordinates plus constants, the other's value axis and the
/// constant; of several reads the one with the smallest constants.
pub(super) fn reads_near(kernel: &Kernel, reader: StageId, read: StageId) -> Option<Vec<(usize, i64)>> {
    let stage = &kernel.stages[reader];
    let mut nearest: Option<(u64, Vec<(usize, i64)>)> = None;
    stage.for_each_load(&mut |_, load| {
        if !matches!(load.source, Source::Stage(source, _) if source == read) || !load.gather.is_empty() {
            return;
        }
        let position = |axis: usize| {
            load.index.iter().enumerate().find_map(|(position, e)| {
                let distance = e.constant_part();
                let is_axis = (e.clone() - distance).as_var() == Some(VarId::from_index(axis));
                is_axis.then_some((position, distance))
            })
        };
        let Some(axes) = (0..stage.axes.len()).map(position).collect::<Option<Vec<_>>>() else { return };
        let distance = axes.iter().fold(0u64, |sum, (_, d)| sum.saturating_add(d.unsigned_abs()));
        if nearest.as_ref().is_none_or(|(least, _)| distance < *least) {
            nearest = Some((distance, axes));
        }
    });
    nearest.map(|(_, axes)| axes)
}
