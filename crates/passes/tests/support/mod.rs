//! What tests of schedules share: machines, and nests made and interpreted for them.

#![allow(dead_code, reason = "each test file uses its part")]

use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_ir::verify::verify_nest;
use infc_passes::ErrorClass;
use infc_passes::schedule::{DotCost, Machine, apply, choose};
use infc_tensor::Tensor;

/// One machine per width of vectors.
pub(crate) const MACHINES: [(&str, Machine); 3] =
    [("128-bit", machine(16, 16)), ("256-bit", machine(32, 16)), ("512-bit", machine(64, 32))];

/// A machine with so many vector registers of so many bytes.
pub(crate) const fn machine(vector_bytes: u32, vector_registers: u32) -> Machine {
    Machine {
        vector_bytes,
        vector_registers,
        mask_registers: vector_bytes == 64,
        arithmetic_per_cycle: 2.0,
        byte_dot: DotCost::of_instruction(4.0),
        pair_dot: DotCost::of_instruction(6.0),
        tile_registers: false,
        permuted_vectors: match vector_bytes {
            64 => 2,
            32 => 1,
            _ => 0,
        },
        loads_per_cycle: 2.0,
        latency_cycles: 4.0,
        l2_bytes_per_cycle: 32.0,
        l3_bytes_per_cycle: 10.0,
        l1_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        l3_bytes: 2 << 20,
        threads: 1,
    }
}

/// The logical outputs of a kernel's nest by the default schedule, interpreted on buffers in which everything outside of
/// the inputs is poison.
#[track_caller]
pub(crate) fn run_scheduled(
    kernel: &Kernel,
    machine: &Machine,
    allowed: ErrorClass,
    symbols: &[i64],
    inputs: &[Tensor],
) -> Vec<Tensor> {
    run_by(kernel, &choose(kernel, machine, allowed), symbols, inputs)
}

/// The same by a given schedule.
#[track_caller]
pub(crate) fn run_by(kernel: &Kernel, schedule: &Schedule, symbols: &[i64], inputs: &[Tensor]) -> Vec<Tensor> {
    let nest = apply(kernel, schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}\n{kernel}"));
    verify_nest(&nest).unwrap_or_else(|e| panic!("{e}\n{nest}"));
    infc_testkit::run_nest_of(kernel, &nest, symbols, inputs)
        .unwrap_or_else(|e| panic!("{e}\n{schedule}\n{kernel}\n{nest}"))
}
