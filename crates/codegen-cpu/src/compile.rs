//! From a loop nest to machine code: lower, then the emitter that the target calls for.

use crate::lower::{LowerError, Lowered, lower};
use crate::vir::Function;
use crate::{CodegenError, CompiledFunction, Feature, Target, emit, listing};
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
    let (lowered, function) = in_tiles_or_memory(nest, target, emit)?;
    Ok(CompiledKernel { function, scratch_bytes: lowered.scratch_bytes })
}

/// The code that [`compile_nest`] makes, as text.
///
/// # Errors
/// As [`compile_nest`].
pub fn list_nest(nest: &LoopNest, target: &Target) -> Result<String, CodegenError> {
    Ok(in_tiles_or_memory(nest, target, listing)?.1)
}

/// Lowers a nest and makes something of it; without tile registers, which only the wide emitter knows, if it does not take what
/// is beside them.
fn in_tiles_or_memory<T>(
    nest: &LoopNest,
    target: &Target,
    make: impl Fn(&Function, &Target) -> Result<T, CodegenError>,
) -> Result<(Lowered, T), CodegenError> {
    let attempt = |target: &Target| {
        let lowered = lowered(nest, target)?;
        let made = make(&lowered.function, target)?;
        Ok((lowered, made))
    };
    match attempt(target) {
        Err(CodegenError::Lower { .. } | CodegenError::Unsupported { .. }) if target.has(Feature::Amx) => {
            attempt(&target.clone().without(Feature::Amx))
        }
        outcome => outcome,
    }
}

fn lowered(nest: &LoopNest, target: &Target) -> Result<Lowered, CodegenError> {
    lower(nest, target).map_err(|LowerError::Unsupported { kernel, reason }| CodegenError::Lower { kernel, reason })
}
