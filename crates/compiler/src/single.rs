//! One kernel as an artifact of its own, so that single kernels are measured and tested the way models run.
//!
//! Inputs and outputs are the operands' buffers, laid out, flat. Symbols have no axes to be read from then: one more
//! input, [`SYMBOLS`], has their values as elements.

use crate::code::{self, Code, LaunchForm};
use crate::kernels::{ChosenBy, Distinct, Kernels, Scheduled, by_schedule, check_kernel};
use crate::size::size;
use crate::{CompileError, VariantTarget};
use infc_artifact::{
    Arg, ArtifactBuilder, Binding, BindingSource, Entry, Launch, MemoryPlan, PortSpec, Program, Provenance, SizeExpr,
    Slot, Step, SymbolSpec, VariantBuilder,
};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::schedule::Schedule;
use infc_passes::{ErrorClass, formulate};
use infc_tensor::DType;

/// The input that has the values of a kernel's symbols, `i64`; there is none if the kernel has no symbols.
pub const SYMBOLS: &str = "(symbols)";

/// How a single kernel is compiled.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// What to make code for.
    pub target: VariantTarget,
    /// The schedule, of the normalised kernel; `None` for the default choice.
    pub schedule: Option<Schedule>,
    /// How far the default choice may move results.
    pub allowed: ErrorClass,
    /// How often a run launches the kernel.
    pub launches: usize,
}

impl KernelOptions {
    /// As a model's kernel would be compiled.
    #[must_use]
    pub fn new(target: impl Into<VariantTarget>) -> Self {
        Self { target: target.into(), schedule: None, allowed: ErrorClass::Reassociating, launches: 1 }
    }
}

/// A kernel that was compiled alone.
#[derive(Clone, Debug)]
pub struct SingleKernel {
    /// The artifact's bytes.
    pub artifact: Vec<u8>,
    /// How it runs.
    pub scheduled: Scheduled,
    /// Its code: a processor's, or the text of a PTX module.
    pub code: Vec<u8>,
    /// Moves between registers and stack in innermost loops, as far as that is known.
    pub inner_loop_spills: u32,
}

/// Compiles a kernel alone: formulated, scheduled and made into code as kernels of models are.
///
/// # Errors
/// [`CompileError`]: the schedule does not apply, or the emitters refuse the loop nest.
pub fn compile_kernel(kernel: &Kernel, options: &KernelOptions) -> Result<SingleKernel, CompileError> {
    let target = &options.target;
    check_kernel(kernel)?;
    let mut kernel = kernel.clone();
    // Outputs have memory of their own here.
    kernel.outputs.iter_mut().for_each(|output| output.onto = None);
    let kernel = formulate::normalise(kernel);
    check_kernel(&kernel)?;
    let chosen = || target.machine().choose(&kernel, options.allowed);
    let schedule = options.schedule.clone().unwrap_or_else(chosen);
    let distinct = Distinct { keys: Vec::new(), kernel, origins: Vec::new() };
    let scheduled = by_schedule(&distinct, target, (schedule, ChosenBy::Default), Vec::new())?;
    let kernels = Kernels { distinct: vec![distinct], of_planned: Vec::new() };
    let code = code::codegen(&kernels, std::slice::from_ref(&scheduled), target)?;
    let inner_loop_spills = match &code {
        Code::Cpu(compiled) => compiled.iter().map(|kernel| kernel.function.stats.inner_loop_spills).sum(),
        Code::Cuda(_) => 0,
    };

    let kernel = &kernels.distinct[0].kernel;
    let (entry, program) = entry_and_program(kernel, code.launch(0, &scheduled)?, options.launches)?;
    let mut builder = ArtifactBuilder::new(Provenance::default());
    builder.entry(entry);
    let required = target.required_features();
    let mut variant = VariantBuilder::new(target.to_string(), &required.iter().map(String::as_str).collect::<Vec<_>>());
    let head = code.head();
    variant.head(head.as_bytes());
    variant.kernel(infc_artifact::KernelInfo { name: kernel.name.clone(), ..code.info(0)? }, code.bytes(0));
    variant.program(program);
    builder.variant(variant);
    let artifact = builder.finish()?.to_vec()?;
    let code = [head.as_bytes(), code.bytes(0)].concat();
    Ok(SingleKernel { artifact, scheduled, code, inner_loop_spills })
}

/// A port per operand, and launches of the kernel on them.
fn entry_and_program(kernel: &Kernel, form: LaunchForm, launches: usize) -> Result<(Entry, Program), CompileError> {
    let mut entry = Entry {
        name: "main".to_owned(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        symbols: kernel.symbols.iter().map(|s| SymbolSpec { name: s.name.clone(), min: s.min, max: s.max }).collect(),
        bindings: Vec::new(),
        state: Vec::new(),
        assumptions: Vec::new(),
        specializes: None,
        slices: None,
    };
    let mut program = Program::default();
    let mut args = Vec::new();
    for operand in kernel.operands.iter() {
        let shape = vec![size(&operand.layout.len_elems)?];
        let port = PortSpec::new(&operand.name, operand.dtype, shape);
        let slot = program.slots.len() as u32;
        if operand.kind == OperandKind::Output {
            program.slots.push(Slot::Output(entry.outputs.len() as u32));
            entry.outputs.push(port);
            args.push(Arg::write(slot));
        } else {
            program.slots.push(Slot::Input(entry.inputs.len() as u32));
            entry.inputs.push(port);
            args.push(Arg::read(slot));
        }
    }
    let symbols = kernel.symbols.len() as u32;
    if symbols > 0 {
        let input = entry.inputs.len() as u32;
        let shape = vec![SizeExpr::constant(i64::from(symbols))];
        entry.inputs.push(PortSpec::new(SYMBOLS, DType::I64, shape));
        let binding = |index| Binding { symbol: index, source: BindingSource::Element { input, index } };
        entry.bindings = (0..symbols).map(binding).collect();
    }
    let launch = Step::Launch(Launch {
        kernel: 0,
        args,
        values: (0..symbols).filter(|_| form.takes_symbols).map(SizeExpr::symbol).collect(),
        chunks: form.chunks,
        grid: form.grid,
        step_chunks: form.step_chunks,
        scratch_bytes: form.scratch_bytes,
    });
    program.steps = vec![launch; launches];
    if symbols == 0 {
        program.static_plan = Some(MemoryPlan::new(&program, &[])?);
    }
    Ok((entry, program))
}
