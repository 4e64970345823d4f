//! Running PTX: a module through the simulator, on the buffers of a kernel.

#![allow(dead_code, reason = "each test file uses its part")]

use infc_codegen_ptx::{Param, PtxModule};
use infc_ir::entity::EntityId;
use infc_ir::index::Dim;
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::{BufferKind, LoopNest};
use infc_ptxsim::{Argument, Buffer, Launch, Module, SimError, Stats};
use infc_tensor::{AlignedBytes, Tensor};

/// Instructions that a launch of a test may take.
const STEP_LIMIT: u64 = 200_000_000;

/// Launches text that may differ from the module's own; operand `n` of the kernel is the buffer `places[n]`.
pub(crate) fn launch(
    nest: &LoopNest,
    module: &PtxModule,
    text: &str,
    symbols: &[i64],
    buffers: &mut Vec<Buffer>,
    places: &[usize],
    seed: u64,
) -> Result<Stats, SimError> {
    let size = |dim: &Dim| dim.eval(&|s| symbols.get(s.index()).copied(), &|_| None).expect("all symbols have values");
    // Memory for the launch alone, which is behind the others and taken away again.
    let scratch = buffers.len();
    buffers.push(Buffer::output(usize::try_from(size(&module.scratch_bytes)).expect("a size")));
    let arguments: Vec<Argument> = module
        .params
        .iter()
        .map(|param| match param {
            Param::Buffer(id) => match nest.buffers[*id].kind {
                BufferKind::Operand { operand, .. } => Argument::Buffer(places[operand.index()]),
                BufferKind::Local(_) => unreachable!("parameters are operands"),
            },
            Param::Scratch => Argument::Buffer(scratch),
            Param::Symbol(s) => Argument::Value(symbols[s.index()] as u64),
        })
        .collect();
    let blocks = |dim: &Dim| u32::try_from(size(dim)).expect("a number of blocks");
    let grid = [blocks(&module.launch.grid[0]), blocks(&module.launch.grid[1]), blocks(&module.launch.grid[2])];
    // A grid without blocks is not launched at all.
    if grid.contains(&0) {
        buffers.truncate(scratch);
        return Ok(Stats::default());
    }
    let launch = Launch {
        entry: &module.entry,
        grid,
        block: module.launch.block,
        arguments: &arguments,
        dynamic_shared_bytes: if module.dynamic_shared { module.shared_bytes } else { 0 },
        seed,
        step_limit: STEP_LIMIT,
    };
    let done = Module::parse(text).and_then(|module| infc_ptxsim::run(&module, &launch, buffers));
    buffers.truncate(scratch);
    done
}

/// Launches text that may differ from the module's own, on logical inputs; gives the logical outputs.
///
/// Outputs begin uninitialised, and everything outside of the inputs is poison.
pub(crate) fn execute(
    kernel: &Kernel,
    nest: &LoopNest,
    module: &PtxModule,
    text: &str,
    symbols: &[i64],
    inputs: &[Tensor],
    seed: u64,
) -> Result<Vec<Tensor>, SimError> {
    let mut tensors = infc_testkit::buffers_of(kernel, symbols, inputs);
    let mut buffers: Vec<Buffer> = kernel
        .operands
        .iter()
        .zip(&tensors)
        .map(|(operand, tensor)| match operand.kind {
            OperandKind::Output => Buffer::output(tensor.bytes().len()),
            OperandKind::Input | OperandKind::Constant => Buffer::input(tensor.bytes().to_vec()),
        })
        .collect();
    let places: Vec<usize> = (0..buffers.len()).collect();
    launch(nest, module, text, symbols, &mut buffers, &places, seed)?;
    for ((operand, tensor), buffer) in kernel.operands.iter().zip(&mut tensors).zip(buffers) {
        if operand.kind == OperandKind::Output {
            let bytes = AlignedBytes::from_slice(&buffer.bytes);
            *tensor = Tensor::from_bytes(tensor.dtype(), tensor.shape().to_vec(), bytes).expect("the same size");
        }
    }
    Ok(infc_testkit::outputs_in(kernel, symbols, &tensors))
}
