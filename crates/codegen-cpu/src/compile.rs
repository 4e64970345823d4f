//! From a loop nest to machine code: lower, then the emitter that the target calls for.

use crate::lower::{LowerError, Lowered, lower};
use crate::{CodegenError, CompiledFunction, Target, emit, listing};
use infc_ir::index::Dim;
use infc_ir::nest::LoopNest;

/// The machine code of a kernel, and what it needs beside its arguments.
#[derive(Clone, Debug)]
pub struct CompiledKernel {
    /// The code.
    pub function: CompiledFunction,
    /// Bytes of scratch per thread, over the kernel's symbols.
    pub scratch_bytes: Dim,
}

/// Compiles a nest for a target: with the wide emitter where the target has AVX2, with Cranelift elsewhere.
///
/// # Errors
/// [`CodegenError`]; the nest is one that `passes::schedule::apply` made, so most are bugs.
pub fn compile_nest(nest: &LoopNest, target: &Target) -> Result<CompiledKernel, CodegenError> {
    let lowered = lowered(nest, target)?;
    let function = emit(&lowered.function, target)?;
    Ok(CompiledKernel { function, scratch_bytes: lowered.scratch_bytes })
}

/// The code that [`compile_nest`] makes, as text.
///
/// # Errors
/// As [`compile_nest`].
pub fn list_nest(nest: &LoopNest, target: &Target) -> Result<String, CodegenError> {
    listing(&lowered(nest, target)?.function, target)
}

fn lowered(nest: &LoopNest, target: &Target) -> Result<Lowered, CodegenError> {
    lower(nest, target).map_err(|LowerError::Unsupported { kernel, reason }| CodegenError::Lower { kernel, reason })
}
