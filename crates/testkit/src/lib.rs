//! What infc's tests share: the kernel files, seeded inputs, the file-test harness and proptest strategies.
//!
//! Only tests depend on this crate, so it panics where a test should fail.

#![forbid(unsafe_code)]

mod compare;
mod filetest;
pub mod functions;
mod inputs;
mod kernels;
mod layout;
pub mod strategies;

pub use compare::{assert_close, assert_same, difference};
pub use filetest::{Expectation, FileTest, Run};
pub use inputs::{Random, default_symbols, operand_shape, random_inputs, random_tensor};
pub use kernels::{filetests, filetests_in, kernel, kernels};
pub use layout::{buffers_of, from_physical, outputs_in, run_nest_of, symbol_choices, to_physical};
