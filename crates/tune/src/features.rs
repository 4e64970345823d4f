//! What a cost model is told of a schedule: numbers that follow from the loop nest and the machine, whatever is computed.
//!
//! They are what [`NestCost`] and [`infc_passes::schedule::GpuCost`] count, as numbers that trees can split.

mod gpu;

pub use gpu::{GPU_FEATURE_NAMES, gpu_features};

use infc_ir::entity::SymbolId;
use infc_ir::nest::LoopNest;
use infc_passes::schedule::{AnyMachine, Machine, NestCost};

/// What the features are called, in order.
pub const FEATURE_NAMES: [&str; 34] = [
    "arithmetic",
    "loads",
    "broadcasts",
    "gathered lanes",
    "stores",
    "scattered lanes",
    "chain cycles",
    "arithmetic cycles",
    "load cycles",
    "L2 cycles",
    "L3 cycles",
    "bound cycles",
    "sum of cycles",
    "bytes beyond L1",
    "bytes beyond L2",
    "bytes touched",
    "accumulators",
    "registers",
    "registers beyond those there are",
    "spilled work",
    "lanes in use",
    "conditional work",
    "straight-line operations",
    "local bytes",
    "chunks",
    "work per chunk",
    "repeats of loops",
    "work per repeat",
    "innermost turns",
    "innermost bytes",
    "streams",
    "greatest stride",
    "aliasing streams",
    "hints",
];

/// The features of a nest on a machine of either kind: [`features`] or [`gpu_features`].
#[must_use]
pub fn any_features(nest: &LoopNest, machine: &AnyMachine) -> Vec<f64> {
    match machine {
        AnyMachine::Cpu(machine) => features(nest, machine),
        AnyMachine::Gpu(machine) => gpu_features(nest, machine),
    }
}

/// The features of a nest on a machine; counts as logarithms, since ratios are what matters.
#[must_use]
pub fn features(nest: &LoopNest, machine: &Machine) -> Vec<f64> {
    let cost = NestCost::of(nest, machine, &measured_at(nest));
    let parts = cost.parts();
    let bound = parts.iter().copied().fold(0.0, f64::max);
    let work = cost.arithmetic.max(1.0);
    vec![
        log(cost.arithmetic),
        log(cost.loads),
        log(cost.broadcasts),
        log(cost.gathered),
        log(cost.stores),
        log(cost.scattered),
        log(cost.chain_cycles),
        log(cost.arithmetic_cycles),
        log(cost.load_cycles),
        log(cost.l2_cycles),
        log(cost.l3_cycles),
        log(bound),
        log(parts.iter().sum()),
        log(cost.beyond_l1),
        log(cost.beyond_l2),
        log(cost.touched),
        cost.accumulators,
        cost.registers,
        cost.excess,
        log(cost.spilled),
        cost.lanes_in_use,
        cost.conditional,
        log(cost.straight),
        log(cost.local_bytes),
        log(cost.chunks),
        log(work / cost.chunks.max(1.0)),
        log(cost.repeats),
        log(work / cost.repeats.max(1.0)),
        log(cost.innermost_turns),
        log(cost.innermost_bytes),
        cost.streams,
        log(cost.greatest_stride),
        cost.aliasing,
        log(cost.hints),
    ]
}

/// The values of symbols that the tuner measures at: their minimum, at least 1.
fn measured_at(nest: &LoopNest) -> impl Fn(SymbolId) -> i64 {
    |symbol| nest.symbols[symbol].min.max(1)
}

/// A logarithm that 0 has, too.
fn log(count: f64) -> f64 {
    (1.0 + count.max(0.0)).log2()
}

#[cfg(test)]
mod tests;
