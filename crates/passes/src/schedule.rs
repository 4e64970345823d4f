//! Schedule application: the only door from kernels to loop nests.
//!
//! [`apply`] reads the steps of a [`Schedule`] into one plan per stage (which loops, in which order, run
//! how), then walks the kernel from its root stages and emits loops. At each loop that other stages are computed at,
//! `region` works out which part of them one turn needs. Every remainder of a split gets code of its own with its
//! own constant extents, so that tiles never test bounds; where an extent is symbolic, the remainder runs in steps of
//! one masked vector, or of rows in steps of four, two and one.

pub mod choose;
mod code;
mod cost;
mod emit;
mod error;
mod faithful;
mod loops;
pub(crate) mod padding;
pub(crate) mod plan;
pub(crate) mod point;
mod prefetch;
mod prepare;
mod reads;
mod reduction;
mod region;
mod replaced;
mod scatter;
mod stream;

pub use choose::{AnyMachine, Decision, DotCost, Machine, choose, decide, gpu, operation_cost, plain};
pub use cost::{GpuCost, NestCost};
pub use error::ScheduleError;

use crate::ErrorClass;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_ir::schedule::Schedule;

/// Makes the loop nest that computes `kernel` as `schedule` says.
///
/// # Errors
/// A [`ScheduleError`] that names the step or stage that is not possible, and why.
pub fn apply(kernel: &Kernel, schedule: &Schedule) -> Result<LoopNest, ScheduleError> {
    let (kernel, steps) = prepare::prepared(kernel, schedule, ErrorClass::Reassociating)?;
    let plans = plan::read(&kernel, steps)?;
    emit::Emitter::new(&kernel, &plans)?.run()
}

/// The kernel as the steps of `schedule` leave it that change axes and stages ([`infc_ir::schedule::Step::is_rewrite`]): what its
/// loops compute, also where a step rounds what is read.
///
/// # Errors
/// A [`ScheduleError`] that names the step that is not possible, and why.
pub fn rewritten(kernel: &Kernel, schedule: &Schedule) -> Result<Kernel, ScheduleError> {
    Ok(prepare::prepared(kernel, schedule, ErrorClass::Reassociating)?.0.into_owned())
}

/// As [`apply`], for a schedule that others chose: results may differ from the kernel's own by `allowed` at most. Under
/// [`ErrorClass::Exact`] every reduction whose order shows is folded in the order of its axes.
///
/// # Errors
/// A [`ScheduleError`], also of a stage that is folded in another order than is allowed.
pub fn apply_within(kernel: &Kernel, schedule: &Schedule, allowed: ErrorClass) -> Result<LoopNest, ScheduleError> {
    let (kernel, steps) = prepare::prepared(kernel, schedule, allowed)?;
    let plans = plan::read(&kernel, steps)?;
    if allowed < ErrorClass::Reassociating {
        faithful::check(&kernel, &plans)?;
    }
    emit::Emitter::new(&kernel, &plans)?.run()
}
