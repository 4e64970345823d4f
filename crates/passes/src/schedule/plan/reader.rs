//! What each step changes in the plan.

use super::{Fetch, LoopMode, LoopPlan, Placement, Plans, Prefetch, StagePlan};
use crate::schedule::ScheduleError;
use crate::schedule::padding::padded_by;
use crate::schedule::reads::reads_near;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::{ScalarOp, Source};
use infc_ir::schedule::{Intrinsic, Step};

/// Loops of a stage at most; each is a level of recursion.
const MAX_LOOPS: usize = 128;

/// Turns of a loop that tiles are copied ahead, at most.
const MAX_AHEAD: u32 = 8;

/// Applies one step.
pub(super) struct Reader<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) step: &'a Step,
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

    pub(super) fn apply(&self, plans: &mut Plans) -> Result<(), ScheduleError> {
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
            Step::Skip { stage, axis } => {
                let id = self.stage(stage)?;
                let plan = &mut plans[id];
                let at = self.position(plan, stage, axis)?;
                let l = &mut plan.loops[at];
                let meets = |bound: &Bound| bound.expr.uses_var(VarId::from_index(l.axis));
                let is_reduced = self.kernel.stages[id].axes[l.axis].kind == AxisKind::Reduce;
                if !is_reduced || !padded_by(self.kernel, id).iter().any(meets) {
                    return self.illegal(format!("`{stage}` sums no products of weights and padding along `{axis}`"));
                }
                l.skips = true;
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
