//! Kernels with the default choice for GPUs, held to the interpreter.

#![allow(dead_code, reason = "each test file uses its part")]

use crate::device::execute;
use infc_codegen_ptx::{PtxError, PtxModule, PtxTarget, emit};
use infc_ir::interp::run_kernel;
use infc_ir::kernel::Kernel;
use infc_ir::nest::LoopNest;
use infc_ir::schedule::Schedule;
use infc_ir::verify::verify_nest;
use infc_passes::ErrorClass;
use infc_passes::schedule::{apply, gpu, rewritten};
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
    let kernel = infc_passes::formulate::normalise(kernel.clone());
    let schedule = gpu::choose(&kernel, machine, allowed);
    compile_by(kernel, &schedule)
}

/// A kernel that is normalised already, by a schedule.
#[track_caller]
pub(crate) fn compile_by(kernel: Kernel, schedule: &Schedule) -> Compiled {
    let nest = apply(&kernel, schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{kernel}"));
    verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
    let module = emit(&nest, &PtxTarget::default());
    let kernel = rewritten(&kernel, schedule).expect("it was applied");
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

/// The code of what is found wrong with a changed text, or that its numbers differ; `None` if nothing is.
pub(crate) fn fault(compiled: &Compiled, original: &Kernel, changed: &str) -> Option<&'static str> {
    let module = compiled.module.as_ref().expect("it has PTX");
    let inputs = random_inputs(original, &[], 1);
    let run = |text: &str| execute(&compiled.kernel, &compiled.nest, module, text, &[], &inputs, 0);
    let expected = run(&module.text).unwrap_or_else(|e| panic!("unchanged: {e}"));
    match run(changed) {
        Err(e) => Some(e.code()),
        Ok(found) => {
            let same = found.iter().zip(&expected).all(|(a, b)| a.bytes() == b.bytes());
            (!same).then_some("wrong numbers")
        }
    }
}

/// Changes lines that hold `wanted`, one at a time; gives what each change leads to.
#[track_caller]
pub(crate) fn mutants(
    compiled: &Compiled,
    original: &Kernel,
    wanted: &str,
    change: impl Fn(&str) -> String,
) -> Vec<Option<&'static str>> {
    let text = &compiled.module.as_ref().expect("it has PTX").text;
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for n in (0..lines.len()).filter(|&n| lines[n].contains(wanted)) {
        let changed = change(lines[n]);
        let text: Vec<&str> = lines.iter().enumerate().map(|(at, &l)| if at == n { &*changed } else { l }).collect();
        found.push(fault(compiled, original, &text.join("\n")));
    }
    assert!(!found.is_empty(), "no line has {wanted:?}");
    found
}
