//! The Cranelift emitter.

use crate::CodegenError;
use crate::object::CompiledFunction;
use crate::target::Target;
use crate::vir::Function;

/// Compiles a function.
///
/// # Errors
/// [`CodegenError::Unsupported`] for what it does not take.
pub(crate) fn emit(_function: &Function, _target: &Target) -> Result<CompiledFunction, CodegenError> {
    Err(CodegenError::Unsupported { what: "any function so far" })
}
