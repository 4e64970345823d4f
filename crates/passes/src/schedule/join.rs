//! The step `join`: two axes become one before anything else is scheduled.

use super::ScheduleError;
use crate::formulate::collapse;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::{Schedule, Step};
use std::borrow::Cow;

/// The kernel as the `join` steps at the head of the schedule leave it, and the steps behind them.
pub(super) fn joined<'k, 's>(
    kernel: &'k Kernel,
    schedule: &'s Schedule,
) -> Result<(Cow<'k, Kernel>, &'s [Step]), ScheduleError> {
    let mut kernel = Cow::Borrowed(kernel);
    let mut steps = &schedule.steps[..];
    while let [step @ Step::Join { stage, outer, inner, joined }, rest @ ..] = steps {
        kernel = Cow::Owned(one(&kernel, step, stage, [outer, inner], joined)?);
        steps = rest;
    }
    Ok((kernel, steps))
}

fn one(
    kernel: &Kernel,
    step: &Step,
    stage: &str,
    [outer, inner]: [&str; 2],
    name: &str,
) -> Result<Kernel, ScheduleError> {
    let Some((id, s)) = kernel.stages.iter_enumerated().find(|(_, s)| s.name == stage) else {
        return Err(ScheduleError::UnknownStage { step: step.to_string(), stage: stage.to_owned() });
    };
    let position = |axis: &str| {
        s.axes.iter().position(|a| a.name == axis).ok_or_else(|| ScheduleError::UnknownLoop {
            step: step.to_string(),
            stage: stage.to_owned(),
            axis: axis.to_owned(),
            loops: s.axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    let illegal = |reason: &str| ScheduleError::Illegal { step: step.to_string(), reason: reason.to_owned() };
    let (outer, inner) = (position(outer)?, position(inner)?);
    if outer == inner {
        return Err(illegal("an axis cannot be joined with itself"));
    }
    if s.axes.iter().enumerate().any(|(at, a)| at != outer && at != inner && a.name == name) {
        return Err(illegal("the joined axis needs a name of its own"));
    }
    collapse::join(kernel, id, outer, inner, name).ok_or_else(|| {
        illegal(
            "both axes must be parallel, or both reduced and the inner next to the outer, the inner of constant extent, and \
             stages that read each other must do so at the same place of both",
        )
    })
}
