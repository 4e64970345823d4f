//! The door to machine code: one function in, code for one target out.

use crate::object::CompiledFunction;
use crate::target::{Feature, Level, Target};
use crate::vir::Function;
use crate::wide::{self, Isa};
use crate::{CodegenError, clif};

/// Compiles a function for a target.
///
/// On x86-64-v3 and v4 the wide emitter does it; what it does not take, and the other levels, Cranelift does.
///
/// # Errors
/// [`CodegenError::Unsupported`] if neither emitter takes the function; anything else is a bug.
pub fn emit(function: &Function, target: &Target) -> Result<CompiledFunction, CodegenError> {
    let Some(isa) = wide_isa(target) else { return clif::emit(function, target) };
    match wide::emit(function, isa) {
        Err(CodegenError::Unsupported { .. }) => clif::emit(function, target),
        outcome => outcome,
    }
}

/// The code of a function as text, for dumps.
///
/// # Errors
/// As [`emit`].
pub fn listing(function: &Function, target: &Target) -> Result<String, CodegenError> {
    match wide_isa(target).map(|isa| wide::listing(function, isa)) {
        None | Some(Err(CodegenError::Unsupported { .. })) => clif::listing(function, target),
        Some(outcome) => outcome,
    }
}

/// What the wide emitter may use, on the levels that it makes code for.
fn wide_isa(target: &Target) -> Option<Isa> {
    match target.level() {
        Level::X86V4 => Some(Isa {
            avx512: true,
            vnni: target.has(Feature::Vnni),
            bf16: target.has(Feature::Bf16),
            flush_bf16: target.flush_bf16,
        }),
        Level::X86V3 => Some(Isa { avx512: false, vnni: target.has(Feature::AvxVnni), bf16: false, flush_bf16: false }),
        Level::X86V2 | Level::Aarch64 => None,
    }
}
