//! Loop nests to PTX text, without any toolkit.
//!
//! [`emit`] prints one kernel. The nest says everything: loops bound to GPU dimensions become the launch, shared buffers
//! become shared memory, masks become predicates; nothing here knows what the kernel computes.
//!
//! ABI: the parameters are the device addresses of the nest's operand buffers in the order of their argument numbers,
//! then that of the launch's own memory if it needs some, then the value of every symbol as `s64`. Addresses have to be
//! multiples of 16 bytes: places in the blocks that a driver allocates, at offsets that the memory plan aligns.
//!
//! - `builder` is the type checker: `ptxas` accepts registers of the wrong type silently.
//! - `launch` finds grid and block.
//! - `index` computes addresses, in 32 bits where ranges allow.
//! - `scalar` computes expressions; functions without an instruction of their own are expanded by [`infc_ir::math`], which
//!   states their accuracy, into what `arithmetic` makes of it.
//! - `hoist` computes in front of loops what of copies' places is the same in all turns.
//! - `link` makes one module of many, for an assembler.
//! - `verify` sees that every register is written before it is read.
//! - `stmt` does loops, stores, folds and copies; `matrix` the loops that are products of matrices by a warp, `group`
//!   those by four warps together.

#![forbid(unsafe_code)]

mod arithmetic;
mod builder;
mod emitter;
mod error;
mod group;
mod hoist;
mod index;
mod launch;
mod link;
mod matrix;
mod memory;
mod scalar;
mod stmt;
mod target;
mod verify;

pub use emitter::{Param, PtxModule, emit};
pub use error::PtxError;
pub use launch::Launch;
pub use link::{head, link};
pub use target::{ParsePtxTargetError, PtxTarget};
