//! Kernels with the default choice for GPUs, held to the interpreter.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::device::execute;
use infc_codegen_ptx::{PtxError, PtxModule, PtxTarget, emit};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_ir::verify::{verify_kernel, verify_nest};
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, gpu};
use infc_testkit::random_inputs;

pub(crate) struct Compiled {
    pub(crate) kernel: Kernel,
    pub(crate) schedule: String,
    pub(crate) nest: LoopNest,
    pub(crate) module: Result<PtxModule, PtxError>,
}

#[track_caller]
pub(crate) fn compile(kernel: &Kernel, allowed: ErrorClass) -> Compiled {
    compile_for(kernel, &gpu::GpuMachine::default(), allowed)
}

/// For a generation before Ampere.
#[track_caller]
pub(crate) fn compile_old(kernel: &Kernel, allowed: ErrorClass) -> Compiled {
    let compiled = compile_for(kernel, &gpu::GpuMachine::for_capability(75), allowed);
    let module = emit(&compiled.nest, &old());
    Compiled { module, ..compiled }
}

pub(crate) fn old() -> PtxTarget {
    "sm_75".parse().expect("a listed target")
}

#[track_caller]
pub(crate) fn compile_for(kernel: &Kernel, machine: &gpu::GpuMachine, allowed: ErrorClass) -> Compiled {
    let normalised = infc_passes::formulate::normalise(kernel.clone());
    let (kernel, schedule) = gpu::choose(&normalised, machine, allowed);
    verify_kernel(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let nest = apply(&kernel, &schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{kernel}"));
    verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
    let module = emit(&nest, &PtxTarget::default());
    Compiled { kernel, schedule: schedule.to_string(), nest, module }
}

#[track_caller]
pub(crate) fn agrees(place: &str, original: &Kernel, compiled: &Compiled, symbols: &[i64], tolerance: f64) {
    let Compiled { kernel, schedule, nest, module } = compiled;
    let inputs = random_inputs(original, symbols, 7);
    let expected = run_kernel(original, symbols, &inputs).unwrap_or_else(|e| panic!("{place}: {e}"));
    let found = infc_testkit::run_nest_of(kernel, nest, symbols, &inputs)
        .unwrap_or_else(|e| panic!("{place}: {e}\n{schedule}\n{kernel}\n{nest}"));
    infc_testkit::assert_close(
        &format!("{place}, interpreted by\n{schedule}\n{kernel}"),
        &found,
        &expected,
        tolerance,
        tolerance,
    );
    let module = module.as_ref().unwrap_or_else(|e| panic!("{place}: {e}\n{schedule}\n{kernel}\n{nest}"));
    for seed in 0..2 {
        let found = execute(kernel, nest, module, &module.text, symbols, &inputs, seed)
            .unwrap_or_else(|e| panic!("{place}: {e}\n{schedule}\n{kernel}\n{nest}\n{}", module.text));
        infc_testkit::assert_close(
            &format!("{place} by\n{schedule}\n{kernel}\n{nest}"),
            &found,
            &expected,
            tolerance,
            tolerance,
        );
    }
}
