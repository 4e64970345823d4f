//! The steps `join`, `part`, `bring` and `interleave`: axes become one, or two, loads stages of their own, and sums several,
//! before anything else is scheduled.

use super::ScheduleError;
use crate::ErrorClass;
use crate::formulate::{bring, collapse, interleave, part};
use infc_ir::entity::StageId;
use infc_ir::kernel::{Kernel, Stage};
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
    while let [step, rest @ ..] = steps {
        let change = Change { kernel: &kernel, step };
        let changed = match step {
            Step::Join { stage, outer, inner, joined } => change.join(stage, [outer, inner], joined)?,
            Step::Part { stage, axis, points, outer, inner } => {
                change.part(stage, axis, i64::from(*points), [outer, inner])?
            }
            Step::Bring { stage, operand, into } => change.bring(stage, operand, into)?,
            Step::Interleave { stage, axis, points, columns, joined } => {
                change.interleave(stage, [axis, columns], i64::from(*points), joined, allowed)?
            }
            _ => break,
        };
        kernel = Cow::Owned(changed);
        steps = rest;
    }
    Ok((kernel, steps))
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

    fn bring(&self, stage: &str, operand: &str, into: &str) -> Result<Kernel, ScheduleError> {
        let id = self.stage(stage)?;
        if self.kernel.stages.iter().any(|s| s.name == into) {
            return Err(self.illegal("the new stage needs a name of its own"));
        }
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
