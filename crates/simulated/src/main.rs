//! The command `infc` on a machine whose GPU is the simulator: `infc-simulated conformance DIR --target cuda`.
//!
//! For developers: it executes some ten million instructions a second, and finds what no GPU finds. The order of threads and
//! blocks is drawn; `INFC_SIMULATED_SEED=N` draws another one. `INFC_SIMULATED_STEPS=N` lets the launches of a model take more
//! instructions than 200 million.

#![forbid(unsafe_code)]

use infc_simgpu::Simulator;
use std::sync::Arc;

/// Instructions that all launches of a loaded model may take together, counted per thread: some twenty seconds.
const STEP_LIMIT: u64 = 200_000_000;
/// More than any model has that could be run within the limit.
const MEMORY_BYTES: usize = 1 << 30;

/// A number that the environment sets.
fn set(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, found {text}")))
}

fn main() -> std::process::ExitCode {
    // A model each time, a GPU each time: what one leaves behind is nobody else's.
    infc_cli::main(Some(|| {
        let gpu = Simulator::new(set("INFC_SIMULATED_SEED").unwrap_or(1));
        let steps = set("INFC_SIMULATED_STEPS").unwrap_or(STEP_LIMIT);
        Arc::new(gpu.with_memory(MEMORY_BYTES).with_step_limit(steps))
    }))
}
