//! Kernels of the back end on buffers.

use infc_codegen_ptx::{Param, PtxModule};
use infc_ir::entity::EntityId;
use infc_ir::index::Dim;
use infc_ir::nest::{BufferKind, LoopNest};
use infc_ptxsim::{Argument, Buffer, Launch, Module, SimError, Stats};

/// Instructions that one launch may take unless its caller knows better, counted per thread.
pub const STEP_LIMIT: u64 = 200_000_000;

/// Launches `text`, which is the module's own or a changed one; operand `n` of the kernel is the buffer `places[n]`.
/// Memory for the launch alone is put behind the buffers and taken away again.
///
/// # Errors
/// What the simulator finds wrong.
///
/// # Panics
/// If a symbol that a size needs has no value, or a size is negative.
pub fn launch(
    nest: &LoopNest,
    module: &PtxModule,
    text: &str,
    symbols: &[i64],
    buffers: &mut Vec<Buffer>,
    places: &[usize],
    seed: u64,
) -> Result<Stats, SimError> {
    let size = |dim: &Dim| dim.eval(&|s| symbols.get(s.index()).copied(), &|_| None).expect("all symbols have values");
    let grid = [0, 1, 2].map(|axis| u32::try_from(size(&module.launch.grid[axis])).expect("a number of blocks"));
    // A grid without blocks is not launched at all.
    if grid.contains(&0) {
        return Ok(Stats::default());
    }
    let scratch = buffers.len();
    buffers.push(Buffer::output(usize::try_from(size(&module.scratch_bytes)).expect("a size")));
    let argument = |param: &Param| match param {
        Param::Buffer(id) => match nest.buffers[*id].kind {
            BufferKind::Operand { operand, .. } => Argument::Buffer(places[operand.index()]),
            BufferKind::Local(_) => unreachable!("parameters are operands"),
        },
        Param::Scratch => Argument::Buffer(scratch),
        Param::Symbol(s) => Argument::Value(symbols[s.index()].cast_unsigned()),
    };
    let arguments: Vec<Argument> = module.params.iter().map(argument).collect();
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
