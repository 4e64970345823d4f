//! What a cost model is told of a schedule for a GPU: how its work is spread over blocks and threads, what a thread does, and what
//! warps ask of memory.

use super::{log, measured_at};
use infc_ir::nest::LoopNest;
use infc_passes::schedule::GpuCost;
use infc_passes::schedule::gpu::GpuMachine;

/// What the features are called, in order.
pub const GPU_FEATURE_NAMES: [&str; 20] = [
    "blocks",
    "threads of a block",
    "waves",
    "arithmetic of a thread",
    "arithmetic of all",
    "matrix instructions of a warp",
    "matrix instructions of all",
    "memory accesses of a thread",
    "sectors of a warp's access",
    "bytes of all sectors",
    "shared accesses of a thread",
    "lanes that meet in a bank",
    "copies of a thread",
    "bytes of a copy",
    "register elements",
    "shared bytes",
    "local bytes",
    "turns of a thread",
    "straight-line operations",
    "barriers",
];

/// The features of a nest on a GPU; counts as logarithms, since ratios are what matters.
#[must_use]
pub fn gpu_features(nest: &LoopNest, machine: &GpuMachine) -> Vec<f64> {
    let cost = GpuCost::of(nest, machine, &measured_at(nest));
    let all = cost.blocks * cost.threads;
    let warps = all / machine.warp as f64;
    vec![
        log(cost.blocks),
        log(cost.threads),
        log(all / machine.busy_threads as f64),
        log(cost.arithmetic),
        log(cost.arithmetic * all),
        log(cost.matrices),
        log(cost.matrices * warps),
        log(cost.memory),
        log(cost.sectors / cost.memory.max(1.0)),
        log(cost.sector_bytes(machine)),
        log(cost.shared),
        log(cost.conflicts / cost.shared.max(1.0)),
        log(cost.copies),
        log(cost.copied / cost.copies.max(1.0)),
        log(cost.register_elems),
        log(cost.shared_bytes),
        log(cost.local_bytes),
        log(cost.repeats),
        log(cost.straight),
        log(cost.barriers),
    ]
}
