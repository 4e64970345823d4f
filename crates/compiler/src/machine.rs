//! What schedules are told about a target.

use infc_codegen_cpu::{Feature, Target};
use infc_passes::schedule::Machine;

/// The machine that the untuned schedule has in mind for a target: its fixed model, or the one that was measured.
#[must_use]
pub fn schedule_machine(target: &Target) -> Machine {
    let model = &target.machine;
    let has_dot = target.has(Feature::Vnni) || target.has(Feature::AvxVnni);
    Machine {
        vector_bytes: model.vector_bits / 8,
        vector_registers: model.vector_regs,
        arithmetic_per_cycle: f64::from(model.fma_per_cycle),
        // Without the instruction, even and odd bytes are multiplied and added in pairs apart. Most of these instructions
        // have more units than multiply-adds have.
        dot_cost: if has_dot { 1.0 } else { 2.5 },
        dot_operand_cost: if has_dot { 0.0 } else { 1.5 },
        permuted_vectors: match model.vector_bits {
            512 => 2,
            256 => 1,
            _ => 0,
        },
        loads_per_cycle: f64::from(model.loads_per_cycle),
        latency_cycles: f64::from(model.fma_latency),
        l2_bytes_per_cycle: f64::from(model.l2_bytes_per_cycle),
        l3_bytes_per_cycle: f64::from(model.l3_bytes_per_cycle),
        l1_bytes: model.l1d_bytes,
        l2_bytes: model.l2_bytes,
    }
}
