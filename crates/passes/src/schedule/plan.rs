//! Reads schedule steps into a loop structure per stage.

use super::ScheduleError;
use infc_ir::entity::{EntityId, IndexVec, OperandId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Scattered};
use infc_ir::scalar::{ScalarOp, Source};
use infc_ir::schedule::{GpuDim, Intrinsic, Scope, Step};
use std::ops::Range;

/// Loops of a stage at most; each is a level of recursion.
const MAX_LOOPS: usize = 128;

/// Turns of a loop that tiles are copied ahead, at most.
const MAX_AHEAD: u32 = 8;

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
        check(kernel, id, plan)?;
    }
    for run in kernel.recurrences() {
        check_recurrence(kernel, run, &plans)?;
    }
    Ok(plans)
}

/// Applies one step.
struct Reader<'a> {
    kernel: &'a Kernel,
    step: &'a Step,
}

impl Reader<'_> {
    fn stage(&self, name: &str) -> Result<StageId, ScheduleError> {
        let found = self.kernel.stages.iter_enumerated().find(|(_, s)| s.name == name);
        found
            .map(|(id, _)| id)
            .ok_or_else(|| ScheduleError::UnknownStage { step: self.step.to_string(), stage: name.to_owned() })
    }

    fn position(&self, plan: &StagePlan, stage: &str, axis: &str) -> Result<usize, ScheduleError> {
        plan.loops.iter().position(|l| l.name == axis).ok_or_else(|| ScheduleError::UnknownLoop {
            step: self.step.to_string(),
            stage: stage.to_owned(),
            axis: axis.to_owned(),
            loops: plan.loops.iter().map(|l| l.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn illegal<T>(&self, reason: impl Into<String>) -> Result<T, ScheduleError> {
        Err(ScheduleError::Illegal { step: self.step.to_string(), reason: reason.into() })
    }

    fn apply(&self, plans: &mut Plans) -> Result<(), ScheduleError> {
        match self.step {
            Step::Join { .. }
            | Step::Part { .. }
            | Step::Bring { .. }
            | Step::Interleave { .. }
            | Step::Rfactor { .. }
            | Step::Pad { .. }
            | Step::Round { .. }
            | Step::Cache { .. }
            | Step::Single { .. }
            | Step::Online { .. } => {
                return self.illegal("axes and stages are changed before all other steps");
            }
            Step::Split { stage, axis, factor, outer, inner } => {
                let plan = &mut plans[self.stage(stage)?];
                let at = self.position(plan, stage, axis)?;
                let factor = i64::from(*factor);
                if factor < 1 {
                    return self.illegal("the factor must be at least 1");
                }
                let taken = |name: &str| plan.loops.iter().enumerate().any(|(i, l)| i != at && l.name == name);
                if outer == inner || taken(outer) || taken(inner) {
                    return self.illegal("the new loops need names of their own");
                }
                let old = plan.loops[at].clone();
                if old.mode != LoopMode::Serial || old.partial {
                    return self.illegal("the loop has been given a mode already; split first");
                }
                if plan.loops.len() == MAX_LOOPS {
                    return self.illegal(format!("a stage has at most {MAX_LOOPS} loops"));
                }
                let Some(tile) = old.tile.checked_mul(factor) else { return self.illegal("the tile is too large") };
                let turns = old.turns.map(|t| (t + factor - 1) / factor);
                plan.loops[at] = LoopPlan { name: outer.clone(), tile, turns, ..old.clone() };
                plan.loops.insert(at + 1, LoopPlan { name: inner.clone(), turns: Some(factor), ..old });
            }
            Step::Reorder { stage, order } => {
                let plan = &mut plans[self.stage(stage)?];
                let mut places = Vec::new();
                for name in order {
                    places.push(self.position(plan, stage, name)?);
                }
                let moved: Vec<LoopPlan> = places.iter().map(|&p| plan.loops[p].clone()).collect();
                places.sort_unstable();
                places.dedup();
                if places.len() != moved.len() {
                    return self.illegal("a loop is named twice");
                }
                for (place, l) in places.into_iter().zip(moved) {
                    plan.loops[place] = l;
                }
            }
            Step::Inline { stage } => {
                let id = self.stage(stage)?;
                if self.kernel.stages[id].reducer.is_some() {
                    return self.illegal("a reduction cannot be inlined");
                }
                if self.kernel.outputs.iter().any(|o| o.stage == id) {
                    return self.illegal("an output of the kernel cannot be inlined");
                }
                plans[id].placement = Placement::Inline;
            }
            Step::ComputeAt { stage, consumer, axis } => {
                let (id, consumer_id) = (self.stage(stage)?, self.stage(consumer)?);
                self.position(&plans[consumer_id], consumer, axis)?;
                if consumer_id <= id {
                    return self.illegal("the consumer must come after the stage");
                }
                plans[id].placement = Placement::At(consumer_id, axis.clone());
            }
            Step::StoreIn { stage, scope } => plans[self.stage(stage)?].scope = *scope,
            Step::Vectorize { stage, axis } => {
                let id = self.stage(stage)?;
                let plan = &mut plans[id];
                let at = self.position(plan, stage, axis)?;
                let l = &mut plan.loops[at];
                let extent = self.kernel.stages[id].axes[l.axis].extent.as_const();
                let Some(turns) = l.turns.or(extent) else {
                    return self.illegal("the extent is symbolic; split it first");
                };
                let lanes = u16::try_from(turns.max(1).unsigned_abs().next_power_of_two()).unwrap_or(u16::MAX);
                if l.tile != 1 || lanes > 64 {
                    return self.illegal("a vector loop is the innermost of its axis, with at most 64 lanes");
                }
                l.mode = LoopMode::Vector { lanes };
            }
            Step::Unroll { stage, axis } => self.set_mode(plans, stage, axis, LoopMode::Unrolled)?,
            Step::Bind { stage, axis, dim } => self.set_mode(plans, stage, axis, LoopMode::Bound(*dim))?,
            Step::Stream { stage, ahead } => {
                let id = self.stage(stage)?;
                if !(1..=MAX_AHEAD).contains(ahead) {
                    return self.illegal(format!("1 to {MAX_AHEAD} turns ahead can be copied"));
                }
                plans[id].ahead = *ahead;
            }
            Step::Prefetch { stage, during } => {
                let (id, during_id) = (self.stage(stage)?, self.stage(during)?);
                if !self.kernel.outputs.iter().any(|o| o.stage == id) {
                    return self.illegal("the stage writes no output of the kernel");
                }
                if self.kernel.stages[during_id].reducer.is_some() {
                    return self.illegal("memory is asked for point by point, not while a reduction runs");
                }
                let Some(axes) = reads_near(self.kernel, id, during_id) else {
                    return self.illegal(format!("`{stage}` does not read `{during}` at points near its own"));
                };
                plans[during_id].prefetches = Some(Prefetch { stage: id, axes });
            }
            Step::Fetch { operand, during, axis, ahead } => {
                let id = self.stage(during)?;
                let stage = &self.kernel.stages[id];
                let found = self.kernel.operands.iter_enumerated().find(|(_, o)| o.name == *operand);
                let reads = |operand: OperandId| {
                    let of_operand = |op: &ScalarOp| matches!(op, ScalarOp::Load(load) if load.source == Source::Operand(operand) && load.gather.is_empty());
                    let written = self.kernel.outputs.iter().any(|o| o.stage == id && o.operand == operand);
                    written || stage.body.ops.iter().any(of_operand)
                };
                let Some((operand, _)) = found.filter(|&(id, _)| reads(id)) else {
                    return self
                        .illegal(format!("`{during}` does not read or write an operand `{operand}` at known places"));
                };
                let Some(axis) = stage.axes.iter().position(|a| a.name == *axis) else {
                    return self.illegal(format!("`{during}` has no axis `{axis}`"));
                };
                plans[id].fetches.push(Fetch { operand, axis, ahead: i64::from(*ahead) });
            }
            Step::Parallel { stage, axes } => {
                for axis in axes {
                    self.set_mode(plans, stage, axis, LoopMode::Parallel)?;
                }
            }
            Step::Tensorize { stage, axis, intrinsic } => {
                let id = self.stage(stage)?;
                let plan = &mut plans[id];
                let at = self.position(plan, stage, axis)?;
                let l = &mut plan.loops[at];
                let reduces = self.kernel.stages[id].axes[l.axis].kind == AxisKind::Reduce;
                if !reduces
                    || l.tile != 1
                    || l.turns != Some(intrinsic.turns())
                    || l.partial
                    || l.mode != LoopMode::Serial
                {
                    let turns = intrinsic.turns();
                    return self.illegal(format!("{intrinsic} takes the {turns} turns of a split-off reduction loop"));
                }
                l.mode = LoopMode::Tensor(*intrinsic);
                if intrinsic.is_tile() {
                    return self.tile(id, plan, at, *intrinsic);
                }
            }
            Step::Scatter { stage, axis } => {
                let id = self.stage(stage)?;
                let plan = &mut plans[id];
                let at = self.position(plan, stage, axis)?;
                let l = &mut plan.loops[at];
                if l.tile != 1 || l.turns.is_some() || l.mode != LoopMode::Serial {
                    return self.illegal("the axis is one loop without a mode");
                }
                let Some(found) = self.kernel.stages[id].scattered(l.axis) else {
                    return self.illegal(format!("`{stage}` folds something at more than one point of the axis"));
                };
                l.mode = LoopMode::Scattered(found);
            }
            Step::Partial { stage, axis } => {
                let id = self.stage(stage)?;
                let plan = &mut plans[id];
                let at = self.position(plan, stage, axis)?;
                let l = &mut plan.loops[at];
                if self.kernel.stages[id].axes[l.axis].kind != AxisKind::Reduce || l.turns.is_none() {
                    return self.illegal("partial accumulators need a split-off reduction loop");
                }
                l.partial = true;
            }
        }
        Ok(())
    }

    /// Makes the three loops around one that is innermost part of a product of matrices: rows, columns, and groups of what is
    /// summed.
    fn tile(&self, id: StageId, plan: &mut StagePlan, at: usize, intrinsic: Intrinsic) -> Result<(), ScheduleError> {
        let Some([rows, columns, groups, points]) = at.checked_sub(3).and_then(|first| plan.loops.get_mut(first..=at))
        else {
            return self
                .illegal(format!("{intrinsic} takes four loops: rows, columns, groups, and what is in a group"));
        };
        let kind = |l: &LoopPlan| self.kernel.stages[id].axes[l.axis].kind;
        let most = Intrinsic::TILE_TURNS;
        let fits =
            |l: &&mut LoopPlan| l.turns.is_some_and(|turns| turns <= most) && l.mode == LoopMode::Serial && !l.partial;
        let is_apart =
            kind(rows) == AxisKind::Parallel && kind(columns) == AxisKind::Parallel && rows.axis != columns.axis;
        let is_tile =
            rows.tile == 1 && columns.tile == 1 && groups.tile == intrinsic.turns() && groups.axis == points.axis;
        if !is_apart || !is_tile || ![&rows, &columns, &groups].into_iter().all(fits) {
            return self.illegal(format!(
                "{intrinsic} takes loops over at most {most} rows, columns and groups of what is summed, split off of their axes"
            ));
        }
        for l in [rows, columns, groups] {
            l.mode = LoopMode::Tensor(intrinsic);
        }
        Ok(())
    }

    fn set_mode(&self, plans: &mut Plans, stage: &str, axis: &str, mode: LoopMode) -> Result<(), ScheduleError> {
        let plan = &mut plans[self.stage(stage)?];
        let at = self.position(plan, stage, axis)?;
        plan.loops[at].mode = mode;
        Ok(())
    }
}

/// The rules that hold between the loops of a stage, whatever the steps were.
fn check(kernel: &Kernel, id: StageId, plan: &StagePlan) -> Result<(), ScheduleError> {
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
            // Chunks of a step wait for those of the steps before: see `check_recurrence`.
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

/// Whether a stage reads its own values of earlier steps.
fn reads_itself(kernel: &Kernel, id: StageId) -> bool {
    let mut reads = false;
    kernel.stages[id].for_each_load(&mut |_, load| {
        reads |= matches!(load.source, Source::Stage(source, _) if source == id);
    });
    reads
}

/// The stages of a recurrence are computed step by step together: the last one in loops of its own, that over the steps
/// outermost, and the others inside of that loop.
fn check_recurrence(kernel: &Kernel, run: Range<usize>, plans: &Plans) -> Result<(), ScheduleError> {
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

/// Whether each point of a recurrence along an axis of its last stage needs points of the same coordinate only, of all stages
/// and at all steps: those of a batch.
pub(in crate::schedule) fn is_apart(kernel: &Kernel, run: &Range<usize>, axis: usize) -> bool {
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
pub(in crate::schedule) fn read_early(kernel: &Kernel, run: &Range<usize>) -> Option<StageId> {
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

/// Whether the parallel loops of a stage begin with one over the steps of a recurrence.
pub(super) fn is_in_steps(kernel: &Kernel, id: StageId, plan: &StagePlan) -> bool {
    let over_steps = |l: &LoopPlan| kernel.stages[id].axes[l.axis].kind == AxisKind::Sequential;
    plan.loops.first().is_some_and(|l| l.mode == LoopMode::Parallel && over_steps(l))
}

/// Does the stage read itself at another coordinate of the axis than its own? Then no part of it along the axis can be
/// computed without the rest.
pub(in crate::schedule) fn reads_neighbours(kernel: &Kernel, id: StageId, axis: VarId) -> bool {
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
