//! Loop nests to PTX text, without any toolkit.
//!
//! [`emit`] prints one kernel. The nest says everything: loops bound to GPU dimensions become the launch, shared buffers
//! become shared memory, masks become predicates; nothing here knows what the kernel computes.
//!
//! ABI: the parameters are the device addresses of the nest's operand buffers in the order of their argument numbers,
//! then the value of every symbol as `s64`. Addresses are those of whole allocations, at least 16-byte aligned.
//!
//! - `builder` is the type checker: `ptxas` accepts registers of the wrong type silently.
//! - `launch` finds grid and block.
//! - `index` computes addresses, in 32 bits where ranges allow.
//! - `scalar` computes expressions, `math` the functions without an instruction of their own; it states their accuracy.
//! - `stmt` does loops, stores, folds and copies.

#![forbid(unsafe_code)]

mod builder;
mod emitter;
mod error;
mod index;
mod launch;
mod math;
mod memory;
mod scalar;
mod stmt;
mod target;

pub use emitter::{Param, PtxModule, emit};
pub use error::PtxError;
pub use launch::Launch;
pub use target::{ParsePtxTargetError, PtxTarget};
