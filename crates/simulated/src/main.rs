//! The command `infc` on a machine whose GPU is the simulator: `infc-simulated conformance DIR --target cuda`.
//!
//! For developers: it executes some million instructions a second, and finds what no GPU finds.

#![forbid(unsafe_code)]

use infc_simgpu::Simulator;
use std::sync::Arc;

/// Instructions that all launches of a loaded model may take together, counted per thread: some ten seconds.
const STEP_LIMIT: u64 = 200_000_000;
/// More than any model has that could be run within the limit.
const MEMORY_BYTES: usize = 1 << 30;
/// What orders of threads are drawn from.
const SEED: u64 = 1;

fn main() -> std::process::ExitCode {
    infc_cli::main(Some(|| Arc::new(Simulator::new(SEED).with_memory(MEMORY_BYTES).with_step_limit(STEP_LIMIT))))
}
