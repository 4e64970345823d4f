//! Steps that change axes and stages, before anything else is scheduled ([`Step::is_rewrite`]).

use super::ScheduleError;
use crate::ErrorClass;
use crate::formulate::{bring, cache, collapse, interleave, online, pad, part, rfactor, tf32, unit};
use infc_ir::entity::{ScalarId, StageId};
use infc_ir::kernel::{Kernel, Stage};
use infc_ir::scalar::ScalarOp;
use infc_ir::schedule::{Schedule, Step};
use std::borrow::Cow;

/// The kernel as the steps at the head of the schedule that change it leave it, and the steps behind them. Sums whose order
/// shows are taken apart only if that is `allowed`.
pub(super) fn prepared<'k, 's>(
    kernel: &'k Kernel,
    schedule: &'s Schedule,
    allowed: ErrorClass,
) -> Result<(Cow<'k, Kernel>, &'s [Step]), ScheduleError> {
    let mut kernel = Cow::Borrowed(kernel);
    let mut steps = &schedule.steps[..];
    // Stages of parts: in each fold the numbers that they are read at grow by as many times as there are parts.
    let mut of_parts: Vec<&str> = Vec::new();
    // Those of them that are copies of what is summed elsewhere, and that.
    let mut copied: Vec<&str> = Vec::new();
    while let [step, rest @ ..] = steps
        && step.is_rewrite()
    {
        if let Step::Rfactor { stage, into, parts, .. } = step {
            let is_of_parts = of_parts.contains(&&**stage);
            if is_of_parts && (*parts > 1 || copied.contains(&&**stage)) {
                return Err(Change { kernel: &kernel, step }.illegal("what is folded in parts is so once"));
            }
            if is_of_parts {
                copied.extend([&**stage, &**into]);
            }
            of_parts.push(into);
        }
        kernel = Cow::Owned(rewritten(&kernel, step, allowed)?);
        steps = rest;
    }
    Ok((kernel, steps))
}

/// Parts of a reduction, multiples of its length and keys at a time are at most this, as many as a block of a GPU has threads.
const MOST_POINTS: i64 = 1 << 10;

/// The kernel as one such step leaves it.
pub(super) fn rewritten(kernel: &Kernel, step: &Step, allowed: ErrorClass) -> Result<Kernel, ScheduleError> {
    let change = Change { kernel, step };
    match step {
        Step::Join { stage, outer, inner, joined } => change.join(stage, [outer, inner], joined),
        Step::Part { stage, axis, points, outer, inner } => {
            change.part(stage, axis, i64::from(*points), [outer, inner])
        }
        Step::Bring { stage, operand, into } => change.bring(stage, operand, into),
        Step::Interleave { stage, axis, points, columns, joined } => {
            change.interleave(stage, [axis, columns], i64::from(*points), joined, allowed)
        }
        Step::Rfactor { stage, axis, parts, into, part } => {
            change.rfactor(stage, axis, i64::from(*parts), [into, part], allowed)
        }
        Step::Pad { stage, axis, to } => change.pad(stage, axis, i64::from(*to)),
        Step::Round { stage, load } => change.round(stage, *load),
        Step::Cache { stage, load, into } => change.cache(stage, *load, into),
        Step::Single { stage, axis } => change.single(stage, axis),
        Step::Online { keys } => change.online(i64::from(*keys), allowed),
        _ => Err(change.illegal("it changes no axes or stages")),
    }
}

/// One step, and the kernel that it changes.
struct Change<'a> {
    kernel: &'a Kernel,
    step: &'a Step,
}

impl Change<'_> {
    fn stage(&self, name: &str) -> Result<StageId, ScheduleError> {
        let found = self.kernel.stages.iter_enumerated().find(|(_, s)| s.name == name);
        let unknown = || ScheduleError::UnknownStage { step: self.step.to_string(), stage: name.to_owned() };
        found.map(|(id, _)| id).ok_or_else(unknown)
    }

    fn position(&self, stage: StageId, axis: &str) -> Result<usize, ScheduleError> {
        let Stage { name, axes, .. } = &self.kernel.stages[stage];
        axes.iter().position(|a| a.name == axis).ok_or_else(|| ScheduleError::UnknownLoop {
            step: self.step.to_string(),
            stage: name.clone(),
            axis: axis.to_owned(),
            loops: axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn illegal(&self, reason: &str) -> ScheduleError {
        ScheduleError::Illegal { step: self.step.to_string(), reason: reason.to_owned() }
    }

    /// Whether the axes of a stage that are not in `replaced` leave the names free.
    fn check_names(&self, stage: StageId, replaced: &[usize], names: &[&str]) -> Result<(), ScheduleError> {
        let axes = self.kernel.stages[stage].axes.iter().enumerate();
        let taken = axes.filter(|(at, _)| !replaced.contains(at)).any(|(_, a)| names.contains(&a.name.as_str()));
        let same = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
        if taken || same { Err(self.illegal("a new axis needs a name of its own")) } else { Ok(()) }
    }

    fn join(&self, stage: &str, [outer, inner]: [&str; 2], name: &str) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        let (outer, inner) = (self.position(id, outer)?, self.position(id, inner)?);
        if outer == inner {
            return Err(self.illegal("an axis cannot be joined with itself"));
        }
        self.check_names(id, &[outer, inner], &[name])?;
        collapse::join(self.kernel, id, outer, inner, name).ok_or_else(|| {
            self.illegal(
                "both axes must be parallel, or both reduced and the inner next to the outer, the inner of constant extent, \
                 and stages that read each other must do so at the same place of both",
            )
        })
    }

    fn check_stage_name(&self, into: &str) -> Result<(), ScheduleError> {
        let is_taken = self.kernel.stages.iter().any(|s| s.name == into);
        if is_taken { Err(self.illegal("the new stage needs a name of its own")) } else { Ok(()) }
    }

    fn check_points(&self, points: i64) -> Result<(), ScheduleError> {
        let fits = (1..=MOST_POINTS).contains(&points);
        if fits { Ok(()) } else { Err(self.illegal(&format!("the number must be 1 to {MOST_POINTS}"))) }
    }

    /// A load of a stage by its number.
    fn load(&self, stage: StageId, number: u32) -> Result<ScalarId, ScheduleError> {
        let ops = self.kernel.stages[stage].body.ops.iter_enumerated();
        let mut loads = ops.filter(|(_, op)| matches!(op, ScalarOp::Load(_))).map(|(id, _)| id);
        loads.nth(number as usize).ok_or_else(|| self.illegal("the stage has no such load; they are counted from 0"))
    }

    fn rfactor(
        &self,
        stage: &str,
        axis: &str,
        parts: i64,
        [into, part]: [&str; 2],
        allowed: ErrorClass,
    ) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        let axis = self.position(id, axis)?;
        self.check_points(parts)?;
        self.check_stage_name(into)?;
        self.check_names(id, &[], &[part])?;
        if allowed < ErrorClass::Reassociating && interleave::shows(self.kernel, id) {
            return Err(self.illegal("it folds in another order than the kernel says"));
        }
        rfactor::rfactor(self.kernel, id, axis, parts, [into, part])
            .ok_or_else(|| self.illegal("the axis must be reduced, and the stage be no part of a recurrence"))
    }

    fn pad(&self, stage: &str, axis: &str, to: i64) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        let axis = self.position(id, axis)?;
        self.check_points(to)?;
        pad::pad(self.kernel, id, axis, to).ok_or_else(|| {
            self.illegal(
                "the stage must sum products of two loads along the axis, which move along it and are 0 where they do not \
                 happen",
            )
        })
    }

    fn round(&self, stage: &str, load: u32) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        tf32::round(self.kernel, id, self.load(id, load)?).ok_or_else(|| self.illegal("the load must be of f32"))
    }

    fn cache(&self, stage: &str, load: u32, into: &str) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        self.check_stage_name(into)?;
        cache::cache(self.kernel, id, self.load(id, load)?, into).ok_or_else(|| {
            self.illegal(
                "the load must move along axes of the stage and not where data says, and the stage be no part of a recurrence",
            )
        })
    }

    fn single(&self, stage: &str, axis: &str) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        self.check_names(id, &[], &[axis])?;
        unit::single(self.kernel, id, axis)
            .ok_or_else(|| self.illegal("the stage must have no parallel axes, and nobody read it"))
    }

    fn online(&self, keys: i64, allowed: ErrorClass) -> Result<Kernel, ScheduleError> {
        self.check_points(keys)?;
        if allowed < ErrorClass::Reassociating {
            return Err(self.illegal("it sums in another order than the kernel says"));
        }
        let found = online::online(self.kernel, keys);
        found.map(|online| online.kernel).ok_or_else(|| self.illegal("the kernel does not begin with attention"))
    }

    fn bring(&self, stage: &str, operand: &str, into: &str) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        self.check_stage_name(into)?;
        let found = self.kernel.operands.iter_enumerated().find(|(_, o)| o.name == operand);
        found.and_then(|(operand, _)| bring::bring(self.kernel, id, operand, into)).ok_or_else(|| {
            self.illegal("the stage must load the operand once, without conditions, and be no part of a recurrence")
        })
    }

    fn interleave(
        &self,
        stage: &str,
        [summed, columns]: [&str; 2],
        points: i64,
        name: &str,
        allowed: ErrorClass,
    ) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        let (summed, columns) = (self.position(id, summed)?, self.position(id, columns)?);
        self.check_names(id, &[columns], &[name])?;
        if allowed < ErrorClass::Reassociating && interleave::shows(self.kernel, id) {
            return Err(self.illegal("it sums in another order than the kernel says"));
        }
        interleave::interleave(self.kernel, id, summed, columns, points, name).ok_or_else(|| {
            self.illegal(
                "the stage must sum, be no output and be read without conditions, the axis be reduced and its extent a \
                 multiple of the points, and the columns' axis be parallel",
            )
        })
    }

    fn part(&self, stage: &str, axis: &str, points: i64, names: [&str; 2]) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        let axis = self.position(id, axis)?;
        self.check_names(id, &[axis], &names)?;
        part::part(self.kernel, id, axis, points, names).ok_or_else(|| {
            self.illegal(
                "the axis must be parallel, its extent a multiple of the points, and the stage no output of the kernel",
            )
        })
    }
}
