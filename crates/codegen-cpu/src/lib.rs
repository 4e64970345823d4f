//! Loop nests to machine code.
//!
//! [`vir`] is the vector SSA that nests are lowered to and that the emitters read; [`wide`] emits AVX2 and AVX-512.
//! [`math`] expands elementary functions.

#![forbid(unsafe_code)]

mod error;
pub mod math;
pub mod object;
pub mod vir;
pub mod wide;

pub use error::CodegenError;
