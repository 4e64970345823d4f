//! A simulator of PTX, for tests only: what `codegen-ptx` prints is parsed from its text and executed, with checks that no
//! assembler and hardly any GPU makes.
//!
//! It knows nothing of how the text came about. [`Module::parse`] reads it and holds registers to the types of
//! instructions, more strictly than `ptxas` does; [`run`] executes a launch thread by thread between barriers and ends
//! with a [`SimError`] at
//!
//! - addresses outside of buffers, shared or local memory, addresses that are not aligned to their access, writes to
//!   what was passed as read-only;
//! - registers and bytes of memory that are read before something was written to them;
//! - races: two threads that touch the same byte, one of them writing, without a barrier in between; or two blocks;
//! - barriers that not all threads of a block reach, and operations of a warp that not all of its lanes reach;
//! - reading or writing what an asynchronous copy may be writing at the time;
//! - what a product by a group of warps reads or writes while it may be under way, and what it reads without a fence behind its
//!   writing;
//! - touching global memory, or ending, without having waited for the launches before, in a kernel that waits for them
//!   (`griddepcontrol.wait`);
//! - a launch that takes more steps than it may.
//!
//! Asynchronous copies land, and products of groups happen, as late as they may. Approximate instructions are off by as much as the PTX ISA allows, by a
//! seeded amount, so that no test passes by lucky bits. The order of threads between barriers, and of blocks, is drawn from
//! the seed as well. What is not modelled: the time anything takes, caches, and memory ordering weaker than barriers.
//!
//! Source: PTX ISA 8.5, chapters 5 (state spaces), 6 (operands) and 9 (instructions, with those of matrices). What a GPU makes of each
//! instruction is recorded (`tests/hardware`) and held against it.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod group;
mod instruction;
mod machine;
mod matrix;
mod memory;
mod module;
mod shadow;
mod thread;
mod token;
mod types;
mod value;
mod warp;

pub use error::{SimError, Site};
pub use machine::{Launch, Stats, run};
pub use memory::{Argument, Buffer, buffer_address, buffer_at};
pub use module::Module;
