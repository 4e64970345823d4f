//! The Cranelift emitter: `vir` to code for processors without AVX2.
//!
//! It takes every function but those with tile registers. What the processor lacks is spelled out first
//! ([`expand`](crate::vir::expand)) and vectors are cut into pieces of 128 bits ([`split`](crate::vir::split)), so that
//! [`translate`] finds every value in one register ([`repr`]). Nothing becomes a call: without hardware for it, a fused
//! multiply-add is a product and a sum, each rounded, so results differ from other targets in the last place. Masked
//! and indexed accesses go lane by lane.

mod arith;
mod convert;
mod isa;
mod lanes;
mod memory;
mod repr;
mod stats;
mod translate;

use crate::CodegenError;
use crate::object::{CompiledFunction, Emitter};
use crate::target::{Level, Target};
use crate::vir::expand::{self, Lacks};
use crate::vir::{Function, halves, split, strength, verify};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use translate::Machine;

/// Compiles a function.
///
/// # Errors
/// [`CodegenError::Unsupported`] for functions with tile registers; anything else is a bug.
pub fn emit(function: &Function, target: &Target) -> Result<CompiledFunction, CodegenError> {
    let (code, listing) = compile(function, target)?;
    Ok(CompiledFunction {
        code,
        emitter: Emitter::Cranelift,
        vector_bits: repr::REGISTER_BYTES * 8,
        stats: stats::of(&listing),
    })
}

/// The instructions of a function as text, for people.
///
/// # Errors
/// As [`emit`].
pub fn listing(function: &Function, target: &Target) -> Result<String, CodegenError> {
    compile(function, target).map(|(_, listing)| listing)
}

/// Code with its constants behind it, and its listing.
fn compile(function: &Function, target: &Target) -> Result<(Vec<u8>, String), CodegenError> {
    let mut function = function.clone();
    let lacks = Lacks {
        half: true,
        bf16: true,
        fma: target.level() == Level::X86V2,
        scale: true,
        dot_bytes: true,
        dot_bf16: true,
    };
    expand::run(&mut function, lacks);
    split::run(&mut function, repr::REGISTER_BYTES);
    halves::run(&mut function, lacks);
    strength::run(&mut function);
    if cfg!(debug_assertions) {
        verify::check(&function).map_err(|errors| CodegenError::Malformed { errors })?;
    }
    let machine = match target.level() {
        Level::X86V2 => Machine::Sse,
        Level::X86V3 | Level::X86V4 => Machine::Avx,
        Level::Aarch64 => Machine::Aarch64,
    };
    let isa = isa::of(target)?;
    let mut context = Context::for_function(translate::function(&function, isa.as_ref(), machine)?);
    context.set_disasm(true);
    let compiled = context
        .compile(isa.as_ref(), &mut ControlPlane::default())
        .map_err(|error| CodegenError::Cranelift { message: error.inner.to_string() })?;
    let buffer = &compiled.buffer;
    // Constants are reached relative to the code; a relocation would mean a call.
    if !buffer.relocs().is_empty() || buffer.alignment as usize > CompiledFunction::ALIGNMENT {
        return Err(CodegenError::Cranelift { message: "the code depends on its place".to_owned() });
    }
    Ok((buffer.data().to_vec(), compiled.vcode.clone().unwrap_or_default()))
}
