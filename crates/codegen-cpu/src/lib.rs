//! Loop nests to machine code.
//!
//! [`vir`] is the vector SSA that nests are lowered to and that the emitters read; [`wide`] emits AVX2 and AVX-512.
//! Elementary functions are expanded by [`infc_ir::math`].

#![forbid(unsafe_code)]

pub mod clif;
mod compile;
mod emit;
mod error;
pub mod lower;
pub mod object;
pub mod target;
pub mod vir;
pub mod wide;

pub use compile::{CompiledKernel, compile_nest, list_nest};
pub use emit::{emit, listing};
pub use error::CodegenError;
pub use object::{CompiledFunction, Emitter, Stats};
pub use target::{Feature, ParseTargetError, Target};
