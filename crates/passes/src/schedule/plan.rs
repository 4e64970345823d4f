//! Reads schedule steps into a loop structure per stage.

mod check;
mod reader;

use super::ScheduleError;
use infc_ir::entity::{IndexVec, OperandId, StageId};
use infc_ir::kernel::{AxisKind, Kernel, Scattered};
use infc_ir::schedule::{GpuDim, Intrinsic, Scope, Step};
use reader::Reader;

/// How a planned loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopMode {
    Serial,
    Unrolled,
    Vector {
        lanes: u16,
    },
    Parallel,
    Tensor(Intrinsic),
    Bound(GpuDim),
    /// No loop: data tells the point.
    Scattered(Scattered),
}

/// One loop of a stage. The coordinate along an axis is the sum of `turn · tile` over the axis's loops.
#[derive(Clone, Debug)]
pub(super) struct LoopPlan {
    pub(super) name: String,
    /// Position among the stage's axes.
    pub(super) axis: usize,
    /// Points per turn.
    pub(super) tile: i64,
    /// Most turns, for all but the outermost loop of an axis.
    pub(super) turns: Option<i64>,
    pub(super) mode: LoopMode,
    /// Folds into accumulators of its own per turn.
    pub(super) partial: bool,
    /// Leaves out turns that only meet padding.
    pub(super) skips: bool,
}

impl LoopPlan {
    /// Whether its turns are done by four warps together.
    pub(super) fn is_of_group(&self) -> bool {
        matches!(self.mode, LoopMode::Tensor(intrinsic) if intrinsic.is_of_group())
    }
}

/// Where a stage is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// In loops of its own, over its whole extent.
    Root,
    /// Where it is read.
    Inline,
    /// At the start of each turn of a consumer's loop.
    At(StageId, String),
}

/// The loops of a stage, from outermost to innermost, and where it is computed and stored.
#[derive(Clone, Debug)]
pub(super) struct StagePlan {
    pub(super) loops: Vec<LoopPlan>,
    pub(super) placement: Placement,
    pub(super) scope: Scope,
    /// So many turns of the loop that it is computed at it is copied ahead; 0 if it is computed where it is needed.
    pub(super) ahead: u32,
    /// Whose memory is asked for meanwhile.
    pub(super) prefetches: Option<Prefetch>,
    /// Of which operands what is read or written later is asked for meanwhile.
    pub(super) fetches: Vec<Fetch>,
}

/// An operand that a stage reads or writes, and how far ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetch {
    pub(super) operand: OperandId,
    pub(super) axis: usize,
    /// Points of the axis.
    pub(super) ahead: i64,
}

/// An output stage that is computed after another, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefetch {
    pub(super) stage: StageId,
    /// Per axis of it: which value axis of the other stage moves along, and how far that is ahead.
    pub(super) axes: Vec<(usize, i64)>,
}

impl StagePlan {
    /// The vector lanes of an axis, if one of its loops is a vector.
    pub(super) fn lanes_of(&self, axis: usize) -> Option<u16> {
        self.loops.iter().find_map(|l| match l.mode {
            LoopMode::Vector { lanes } if l.axis == axis => Some(lanes),
            _ => None,
        })
    }

    /// Whether neighbours along an axis lie side by side where the stage is stored: lanes of vectors, and columns of tiles.
    pub(super) fn lies_innermost(&self, axis: usize) -> bool {
        let is_tile = |l: &&LoopPlan| matches!(l.mode, LoopMode::Tensor(intrinsic) if intrinsic.is_tile());
        let columns = self.loops.iter().filter(is_tile).nth(1).map(|l| l.axis);
        self.lanes_of(axis).is_some() || columns == Some(axis)
    }
}

/// Whether the parallel loops of a stage begin with one over the steps of a recurrence.
pub(super) fn is_in_steps(kernel: &Kernel, id: StageId, plan: &StagePlan) -> bool {
    let over_steps = |l: &LoopPlan| kernel.stages[id].axes[l.axis].kind == AxisKind::Sequential;
    plan.loops.first().is_some_and(|l| l.mode == LoopMode::Parallel && over_steps(l))
}

pub(super) type Plans = IndexVec<StageId, StagePlan>;

pub(super) fn read(kernel: &Kernel, steps: &[Step]) -> Result<Plans, ScheduleError> {
    let mut plans: Plans = kernel
        .stages
        .iter()
        .map(|stage| StagePlan {
            loops: stage
                .axes
                .iter()
                .enumerate()
                .map(|(axis, a)| LoopPlan {
                    name: a.name.clone(),
                    axis,
                    tile: 1,
                    turns: None,
                    mode: LoopMode::Serial,
                    partial: false,
                    skips: false,
                })
                .collect(),
            placement: Placement::Root,
            scope: Scope::Scratch,
            ahead: 0,
            prefetches: None,
            fetches: Vec::new(),
        })
        .collect();
    for step in steps {
        Reader { kernel, step }.apply(&mut plans)?;
    }
    for (id, plan) in plans.iter_enumerated() {
        check::stage(kernel, id, plan)?;
    }
    check::left_out(kernel, &plans)?;
    for run in kernel.recurrences() {
        check::recurrence(kernel, run, &plans)?;
    }
    Ok(plans)
}
