//! The wide emitter: `vir` to AVX2 and AVX-512 machine code.
//!
//! Selection ([`select`]) makes machine instructions on virtual registers, `regalloc2` allocates them ([`alloc`]), and
//! [`assemble`] writes bytes. Loops, addresses and masks are all made here, so nothing needs to be cleaned up later.

mod alloc;
mod assemble;
mod codes;
mod frame;
mod inst;
mod lanes;
mod listing;
mod pool;
mod select;
mod vocabulary;

use crate::CodegenError;
use crate::object::CompiledFunction;
use crate::vir::expand::{self, Lacks};
use crate::vir::regroup::{self, Permutes};
use crate::vir::reload::{self, Registers};
use crate::vir::{Function, balance, halves, hold, interleave, pack, speculate, split, strength, verify};
use inst::Encoding;

/// Vector registers that are tried to be left alone where the allocator finds too few all the same: it does not find the
/// allocation that there is, and what it spills in an inner loop costs more than to read something again.
const MOST_LEFT_ALONE: usize = 2;

/// Which vector instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa {
    /// AVX-512 F, VL, BW and DQ; otherwise AVX2, FMA, F16C and BMI2.
    pub avx512: bool,
    /// Byte dot products in the encoding at hand: AVX512-VNNI, or AVX-VNNI without AVX-512.
    pub vnni: bool,
    /// Dot products of bfloat16 pairs: AVX512-BF16.
    pub bf16: bool,
    /// Whether subnormal numbers may become zero where `f32` is rounded to bfloat16, which the instruction does.
    pub flush_bf16: bool,
}

/// Compiles a function.
///
/// # Errors
/// [`CodegenError::Unsupported`] for functions that the other emitter has to take; anything else is a bug.
pub fn emit(function: &Function, isa: Isa) -> Result<CompiledFunction, CodegenError> {
    compile(function, isa, None)
}

/// The instructions of a function as text, one a line behind its offset, blocks by number.
///
/// # Errors
/// As [`emit`].
pub fn listing(function: &Function, isa: Isa) -> Result<String, CodegenError> {
    let mut text = String::new();
    compile(function, isa, Some(&mut text))?;
    Ok(text)
}

fn compile(function: &Function, isa: Isa, listing: Option<&mut String>) -> Result<CompiledFunction, CodegenError> {
    let register_bytes = if isa.avx512 { 64 } else { 32 };
    let mut function = function.clone();
    let flushes_bf16 = isa.bf16 && isa.flush_bf16;
    expand::run(&mut function, Lacks { bf16: !flushes_bf16, scale: !isa.avx512, ..Lacks::default() });
    split::run(&mut function, register_bytes);
    regroup::run(&mut function, if isa.avx512 { Permutes::OfTwo } else { Permutes::OfOne });
    halves::run(&mut function, Lacks { dot_bytes: !isa.vnni, dot_bf16: !isa.bf16, ..Lacks::default() });
    // A masked comparison takes some cycles to be the mask of the next; an `and` of vectors takes one, and registers
    // are few.
    speculate::run(&mut function, if isa.avx512 { 4 } else { 1 });
    pack::run(&mut function);
    balance::run(&mut function);
    strength::run(&mut function);
    let mut best: Option<(CompiledFunction, String)> = None;
    for (left_alone, copies) in (0..=MOST_LEFT_ALONE).flat_map(|n| [(n, false), (n, true)]) {
        let mut text = String::new();
        let listing = listing.is_some().then_some(&mut text);
        let compiled = match finish(function.clone(), isa, (left_alone, copies), listing) {
            // What comes with fewer registers is only a trial.
            Err(_) if best.is_some() => break,
            compiled => compiled?,
        };
        if best.as_ref().is_none_or(|(best, _)| compiled.stats.inner_loop_spills < best.stats.inner_loop_spills) {
            best = Some((compiled, text));
        }
        if best.as_ref().is_some_and(|(best, _)| best.stats.inner_loop_spills == 0) {
            break;
        }
    }
    let (compiled, text) = best.expect("there is a first one");
    if let Some(listing) = listing {
        *listing = text;
    }
    Ok(compiled)
}

/// From the order of instructions on, which leaves some registers alone; what innermost loops leave may be copied behind them.
fn finish(
    mut function: Function,
    isa: Isa,
    (left_alone, copies): (usize, bool),
    listing: Option<&mut String>,
) -> Result<CompiledFunction, CodegenError> {
    let vectors = if isa.avx512 { 32 } else { 16 } - left_alone;
    let registers = Registers { vectors, hold_masks: !isa.avx512 };
    // Cores with short vectors start four a cycle, those with long ones two.
    interleave::run(&mut function, registers, if isa.avx512 { 2 } else { 4 });
    reload::run(&mut function, registers);
    hold::run(&mut function, registers);
    if cfg!(debug_assertions) {
        verify::check(&function).map_err(|errors| CodegenError::Malformed { errors })?;
    }
    let encoding = if isa.avx512 { Encoding::Evex } else { Encoding::Vex };
    let selected = select::select(&function, encoding, copies)?;
    let (allocation, layout) = alloc::allocate(&selected.function, encoding)
        .map_err(|error| CodegenError::Allocation { message: error.to_string() })?;
    assemble::assemble(&selected.function, &allocation, &layout, encoding, selected.width, listing)
}
