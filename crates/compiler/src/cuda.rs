//! Kernels for NVIDIA GPUs: schedules and PTX. What no kernel computes runs on the host there as it does on processors.

use crate::kernels::{ChosenBy, Kernels, Scheduled, check_kernel, check_nest, schedule_error};
use crate::{CompileError, CompileOptions};
use infc_codegen_ptx::{PtxModule, PtxTarget, emit};
use infc_passes::schedule::{self, gpu};
use rayon::prelude::*;

fn refuse(parts: Vec<String>, target: PtxTarget) -> Result<(), CompileError> {
    if parts.is_empty() { Ok(()) } else { Err(CompileError::NoGpuCode { target: format!("cuda:{target}"), parts }) }
}

/// Schedules every kernel for GPUs.
pub(crate) fn schedule(
    kernels: &Kernels,
    target: &str,
    options: &CompileOptions,
) -> Result<Vec<Scheduled>, CompileError> {
    let allowed = options.allowed();
    let schedule = |distinct: &crate::kernels::Distinct| {
        check_kernel(&distinct.kernel)?;
        // The kernel may have got further stages, which bring what others read to shared memory.
        let (kernel, schedule) = gpu::choose(&distinct.kernel, &gpu::GpuMachine::default(), allowed);
        check_kernel(&kernel)?;
        let nest = schedule::apply(&kernel, &schedule).map_err(|source| schedule_error(distinct, target, source))?;
        check_nest(&kernel, &nest)?;
        Ok(Scheduled { schedule, nest, chosen_by: ChosenBy::Default, refused: Vec::new() })
    };
    kernels.distinct.par_iter().map(schedule).collect()
}

/// Makes a PTX module of every kernel; the error names all that have none.
pub(crate) fn codegen(
    kernels: &Kernels,
    scheduled: &[Scheduled],
    target: PtxTarget,
) -> Result<Vec<PtxModule>, CompileError> {
    let emitted: Vec<_> = scheduled.par_iter().map(|scheduled| emit(&scheduled.nest, &target)).collect();
    let mut modules = Vec::with_capacity(emitted.len());
    let mut refused = Vec::new();
    for (distinct, emitted) in kernels.distinct.iter().zip(emitted) {
        match emitted {
            Ok(module) => modules.push(module),
            Err(error) => refused.push(format!("{} ({error})", distinct.origins.join(", "))),
        }
    }
    refuse(refused, target)?;
    Ok(modules)
}
