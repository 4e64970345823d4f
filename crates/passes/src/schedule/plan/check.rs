//! The rules that hold between loops, whatever the steps were.

use super::{LoopMode, LoopPlan, Placement, Plans, StagePlan, is_in_steps};
use crate::schedule::ScheduleError;
use crate::schedule::reads::{is_apart, read_early, reads_itself, reads_neighbours};
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{AxisKind, Kernel, Scattered};
use infc_ir::schedule::{GpuDim, Scope};
use std::ops::Range;

/// The rules that hold between the loops of a stage, whatever the steps were.
pub(super) fn stage(kernel: &Kernel, id: StageId, plan: &StagePlan) -> Result<(), ScheduleError> {
    let stage = &kernel.stages[id];
    let fail = |reason: String| Err(ScheduleError::Stage { stage: stage.name.clone(), reason });
    if plan.ahead > 0 && !matches!(plan.placement, Placement::At(..)) {
        return fail("only what is computed at a loop of its reader can be copied ahead".to_owned());
    }
    let mut parallel_ended = false;
    for (i, l) in plan.loops.iter().enumerate() {
        let kind = stage.axes[l.axis].kind;
        if plan.loops[i + 1..].iter().any(|inner| inner.axis == l.axis && inner.tile > l.tile) {
            return fail(format!("loop `{}` runs outside a coarser loop of its axis", l.name));
        }
        let inside = &plan.loops[i + 1..];
        if l.skips && !matches!(l.mode, LoopMode::Serial | LoopMode::Unrolled) {
            return fail(format!("loop `{}` leaves out turns, so it has to run turn by turn", l.name));
        }
        match l.mode {
            LoopMode::Tensor(intrinsic)
                if !inside.iter().all(|l| intrinsic.is_tile() && l.mode == LoopMode::Tensor(intrinsic)) =>
            {
                return fail(format!("the tensorized loop `{}` is not innermost", l.name));
            }
            LoopMode::Vector { .. } if !inside.iter().all(|l| matches!(l.mode, LoopMode::Tensor(_))) => {
                return fail(format!("the vector loop `{}` is not innermost", l.name));
            }
            LoopMode::Vector { .. } if kind == AxisKind::Sequential => {
                return fail(format!("the sequential axis `{}` cannot be a vector", l.name));
            }
            LoopMode::Vector { .. } if kind == AxisKind::Reduce && !l.partial => {
                return fail(format!("the vector loop `{}` reduces; it needs partial accumulators", l.name));
            }
            // Chunks of a step wait for those of the steps before: see `recurrence`.
            LoopMode::Parallel if kind == AxisKind::Sequential && i == 0 && plan.placement == Placement::Root => {}
            LoopMode::Parallel if kind != AxisKind::Parallel => {
                return fail(format!("loop `{}` depends on the order of its turns and cannot be parallel", l.name));
            }
            LoopMode::Parallel if parallel_ended => {
                return fail(format!("the parallel loop `{}` is not outermost", l.name));
            }
            LoopMode::Parallel if plan.placement != Placement::Root => {
                return fail("a stage computed inside another has no parallel loops".to_owned());
            }
            LoopMode::Bound(_) if kind != AxisKind::Parallel => {
                return fail(format!("loop `{}` depends on the order of its turns and cannot be bound", l.name));
            }
            LoopMode::Bound(_) => {
                let apart = inside.iter().skip_while(|other| other.mode == l.mode).any(|other| other.mode == l.mode);
                if apart {
                    return fail(format!("loop `{}` shares a dimension with one that is not next to it", l.name));
                }
                parallel_ended = true;
            }
            LoopMode::Parallel => {}
            LoopMode::Scattered(Scattered { target, .. }) => {
                let needed = stage.axes_of(target);
                let is_early = |l: &LoopPlan| needed[l.axis] || stage.axes[l.axis].kind != AxisKind::Parallel;
                if let Some(inner) = inside.iter().find(|l| is_early(l)) {
                    return fail(format!("the scattered loop `{}` runs around `{}`", l.name, inner.name));
                }
                if plan.scope == Scope::Register {
                    return fail(format!("registers have no place that only data tells, which `{}` needs", l.name));
                }
                parallel_ended = true;
            }
            _ => parallel_ended = true,
        }
    }
    let mut sequential_inside = false;
    for l in plan.loops.iter().rev() {
        // A stage that reads its earlier steps must finish one step everywhere before the next begins.
        match stage.axes[l.axis].kind {
            AxisKind::Sequential => sequential_inside = true,
            AxisKind::Parallel | AxisKind::Reduce
                if sequential_inside && reads_neighbours(kernel, id, VarId::from_index(l.axis)) =>
            {
                return fail(format!("loop `{}` lies around a sequential one that mixes its points", l.name));
            }
            AxisKind::Reduce if sequential_inside && reads_itself(kernel, id) => {
                return fail(format!("loop `{}` folds around a sequential one that reads what was folded", l.name));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is computed inside of a loop that leaves out turns is needed in those turns alone that are taken: no output of the kernel,
/// no stage of a recurrence, and nothing that is copied ahead for the next turn.
pub(super) fn left_out(kernel: &Kernel, plans: &Plans) -> Result<(), ScheduleError> {
    let is_output = |id: StageId| kernel.outputs.iter().any(|output| output.stage == id);
    let runs = kernel.recurrences();
    let in_recurrence = |id: StageId| runs.iter().any(|run| run.contains(&id.index()));
    for id in kernel.stages.ids() {
        let needed = is_output(id) || in_recurrence(id) || plans[id].ahead > 0;
        let mut at = id;
        // Readers come later, so this ends.
        while let Placement::At(consumer, axis) = &plans[at].placement {
            let loops = &plans[*consumer].loops;
            let around = loops.iter().position(|l| l.name == *axis).map_or(loops.len(), |position| position + 1);
            if let Some(l) = loops[..around].iter().find(|l| l.skips && needed) {
                let reason = format!("it is computed inside of loop `{}`, which leaves out turns", l.name);
                return Err(ScheduleError::Stage { stage: kernel.stages[id].name.clone(), reason });
            }
            if *consumer <= at {
                break;
            }
            at = *consumer;
        }
    }
    Ok(())
}

/// The stages of a recurrence are computed step by step together: the last one in loops of its own, that over the steps
/// outermost, and the others inside of that loop.
pub(super) fn recurrence(kernel: &Kernel, run: Range<usize>, plans: &Plans) -> Result<(), ScheduleError> {
    let fail = |id: StageId, reason: &str| {
        let (stage, reason) = (kernel.stages[id].name.clone(), reason.to_owned());
        Err(ScheduleError::Stage { stage, reason })
    };
    let last = StageId::from_index(run.end - 1);
    // Blocks of a launch know nothing of each other.
    let is_block = |l: &&LoopPlan| matches!(l.mode, LoopMode::Bound(GpuDim::BlockX | GpuDim::BlockY | GpuDim::BlockZ));
    let (blocks, rest) = plans[last].loops.split_at(plans[last].loops.iter().take_while(is_block).count());
    let steps_outermost = rest.first().is_some_and(|l| l.axis == 0);
    if plans[last].placement != Placement::Root || !steps_outermost {
        return fail(last, "the last stage of a recurrence runs on its own, its steps outermost");
    }
    if blocks.iter().any(|l| !is_apart(kernel, &run, l.axis)) {
        return fail(last, "blocks that take the steps by themselves cannot have what other blocks compute");
    }
    if is_in_steps(kernel, last, &plans[last]) {
        if let Some(id) = read_early(kernel, &run) {
            return fail(id, "it is read at other steps, whose chunks may run on other threads");
        }
        if !kernel.outputs.iter().any(|o| o.stage == last) {
            return fail(last, "chunks that run on other threads find earlier steps in outputs only");
        }
    }
    for id in run.map(StageId::from_index).filter(|&id| id != last) {
        let inside = match &plans[id].placement {
            Placement::Root => false,
            Placement::Inline => true,
            Placement::At(consumer, _) => *consumer > id && consumer.index() <= last.index(),
        };
        if !inside {
            return fail(id, "a stage of a recurrence is computed where a later stage of it is");
        }
    }
    Ok(())
}
