//! One kernel as an artifact of its own, so that single kernels are measured and tested the way models run.
//!
//! Inputs and outputs are the operands' buffers, laid out, flat. Symbols have no axes to be read from then: one more
//! input, [`SYMBOLS`], has their values as elements.

use crate::kernels::{ChosenBy, Scheduled, check_kernel, check_nest};
use crate::machine::schedule_machine;
use crate::size::size;
use crate::{CompileError, Target};
use infc_artifact::{
    Arg, ArtifactBuilder, Binding, BindingSource, Entry, KernelInfo, Launch, MemoryPlan, PortSpec, Program, Provenance,
    SizeExpr, Slot, Step, SymbolSpec, VariantBuilder,
};
use infc_codegen_cpu::CompiledKernel;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::schedule::Schedule;
use infc_passes::{ErrorClass, formulate, schedule};
use infc_tensor::DType;

/// The input that has the values of a kernel's symbols, `i64`; there is none if the kernel has no symbols.
pub const SYMBOLS: &str = "(symbols)";

/// How a single kernel is compiled.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// The processor to make code for.
    pub target: Target,
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
    pub fn new(target: Target) -> Self {
        Self { target, schedule: None, allowed: ErrorClass::Reassociating, launches: 1 }
    }
}

/// A kernel that was compiled alone.
#[derive(Clone, Debug)]
pub struct SingleKernel {
    /// The artifact's bytes.
    pub artifact: Vec<u8>,
    /// How it runs.
    pub scheduled: Scheduled,
    /// Its code.
    pub compiled: CompiledKernel,
}

/// Compiles a kernel alone: formulated, scheduled and made into code as kernels of models are.
///
/// # Errors
/// [`CompileError`]: the schedule does not apply, or the emitters refuse the loop nest.
pub fn compile_kernel(kernel: &Kernel, options: &KernelOptions) -> Result<SingleKernel, CompileError> {
    let target = &options.target;
    check_kernel(kernel)?;
    let kernel = formulate::normalise(kernel.clone());
    check_kernel(&kernel)?;
    let schedule = options
        .schedule
        .clone()
        .unwrap_or_else(|| schedule::choose(&kernel, &schedule_machine(target), options.allowed));
    let named = || (kernel.name.clone(), target.to_string());
    let nest = schedule::apply(&kernel, &schedule).map_err(|source| {
        let (kernel, target) = named();
        CompileError::Schedule { kernel, origins: Vec::new(), target, source }
    })?;
    check_nest(&kernel, &nest)?;
    let compiled = infc_codegen_cpu::compile_nest(&nest, target).map_err(|source| {
        let (kernel, target) = named();
        CompileError::Codegen { kernel, origins: Vec::new(), target, source }
    })?;
    let scheduled = Scheduled { schedule, nest, chosen_by: ChosenBy::Default, refused: Vec::new() };

    let (entry, program) = entry_and_program(&kernel, &scheduled, &compiled, options.launches)?;
    let mut builder = ArtifactBuilder::new(Provenance::default());
    builder.entry(entry);
    let mut variant = VariantBuilder::new(target.to_string(), &target.required_features());
    let info = KernelInfo { name: kernel.name.clone(), ..KernelInfo::default() };
    variant.kernel(info, &compiled.function.code);
    variant.program(program);
    builder.variant(variant);
    let artifact = builder.finish()?.to_vec()?;
    Ok(SingleKernel { artifact, scheduled, compiled })
}

/// A port per operand, and launches of the kernel on them.
fn entry_and_program(
    kernel: &Kernel,
    scheduled: &Scheduled,
    compiled: &CompiledKernel,
    launches: usize,
) -> Result<(Entry, Program), CompileError> {
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
        let port = PortSpec { name: operand.name.clone(), dtype: operand.dtype, shape };
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
        entry.inputs.push(PortSpec { name: SYMBOLS.to_owned(), dtype: DType::I64, shape });
        let binding = |index| Binding { symbol: index, source: BindingSource::Element { input, index } };
        entry.bindings = (0..symbols).map(binding).collect();
    }
    let launch = Step::Launch(Launch {
        kernel: 0,
        args,
        values: (0..symbols).map(SizeExpr::symbol).collect(),
        chunks: scheduled.nest.parallel.as_ref().map_or_else(|| Ok(SizeExpr::constant(1)), |p| size(&p.chunks))?,
        grid: None,
        step_chunks: scheduled.nest.parallel.as_ref().and_then(|p| p.step_chunks.as_ref()).map(size).transpose()?,
        scratch_bytes: size(&compiled.scratch_bytes)?,
    });
    program.steps = vec![launch; launches];
    if symbols == 0 {
        program.static_plan = Some(MemoryPlan::new(&program, &[])?);
    }
    Ok((entry, program))
}
