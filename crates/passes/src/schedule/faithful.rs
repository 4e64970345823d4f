//! Whether reductions are folded in the order of their axes, the first outermost, as the kernel says it.
//!
//! Joins keep that order always ([`crate::formulate::collapse`]), and a split's tiles nest in it ([`super::plan`]).

use super::ScheduleError;
use super::plan::{LoopMode, LoopPlan, Plans};
use infc_ir::kernel::{AxisKind, Kernel, Reducer};

/// Fails if a reduction whose order shows is folded in another one.
pub(super) fn check(kernel: &Kernel, plans: &Plans) -> Result<(), ScheduleError> {
    for (id, stage) in kernel.stages.iter_enumerated() {
        if stage.reducer.as_ref().is_none_or(Reducer::is_associative) {
            continue;
        }
        let fail = |l: &LoopPlan, why: &str| {
            let reason = format!("loop `{}` {why}, which folds in another order than the kernel says", l.name);
            Err(ScheduleError::Stage { stage: stage.name.clone(), reason })
        };
        let mut last = 0;
        for l in plans[id].loops.iter().filter(|l| stage.axes[l.axis].kind == AxisKind::Reduce) {
            if l.partial {
                return fail(l, "has accumulators of its own");
            }
            if matches!(l.mode, LoopMode::Bound(_)) {
                return fail(l, "runs side by side");
            }
            if matches!(l.mode, LoopMode::Tensor(intrinsic) if !intrinsic.is_exact()) {
                return fail(l, "is summed by an instruction");
            }
            if l.axis < last {
                return fail(l, "lies within one of a later axis");
            }
            last = l.axis;
        }
    }
    Ok(())
}
