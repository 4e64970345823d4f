//! What infc's tests share: the kernel files, seeded inputs, the file-test harness and proptest strategies.
//!
//! Only tests depend on this crate, so it panics where a test should fail.

#![forbid(unsafe_code)]

mod compare;
mod filetest;
mod inputs;
mod kernels;
mod layout;
mod operands;
pub mod strategies;

pub use compare::assert_close;
pub use filetest::{Expectation, FileTest, Run};
pub use inputs::{Random, default_symbols, operand_shape, random_inputs, random_tensor};
pub use kernels::{filetests, kernel, kernels};
pub use layout::{from_physical, symbol_choices, to_physical};
pub use operands::{pack_operand, poisoned_buffer, run_nest_of, unpack_operand};
