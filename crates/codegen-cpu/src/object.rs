//! What the emitters give back.

use std::fmt;

/// Which emitter made a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitter {
    /// Selection for AVX2 and AVX-512 of this crate.
    Wide,
    /// Cranelift, with vectors of at most 128 bits.
    Cranelift,
}

impl fmt::Display for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Emitter::Wide => "wide",
            Emitter::Cranelift => "cranelift",
        })
    }
}

/// Counts over the code of a function, as a reader of `inspect` and a tuner want them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Machine instructions.
    pub insts: u32,
    /// Those that work on vector registers.
    pub vector_insts: u32,
    /// Moves between registers and stack, anywhere.
    pub spills: u32,
    /// Moves between registers and stack in innermost loops.
    pub inner_loop_spills: u32,
    /// Moves between registers in innermost loops.
    pub inner_loop_moves: u32,
}

/// Machine code of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledFunction {
    /// Position-independent code, entered at its first byte, constants behind it. It must lie at a multiple of
    /// [`CompiledFunction::ALIGNMENT`].
    pub code: Vec<u8>,
    /// Who made it.
    pub emitter: Emitter,
    /// Width of the widest vector instructions.
    pub vector_bits: u32,
    /// Counts.
    pub stats: Stats,
}

impl CompiledFunction {
    /// The alignment in bytes that the code wants of its first byte.
    pub const ALIGNMENT: usize = 64;
}
