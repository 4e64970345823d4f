//! What schedules are told about a target.

use infc_codegen_cpu::{Feature, Target};
use infc_passes::schedule::{DotCost, Machine};

/// The machine that the untuned schedule has in mind for a target: its fixed model, or the one that was measured.
#[must_use]
pub fn schedule_machine(target: &Target) -> Machine {
    let model = &target.machine;
    let has_byte_dot = target.has(Feature::Vnni) || target.has(Feature::AvxVnni);
    let latency_cycles = f64::from(model.fma_latency);
    // Without the instruction, even and odd bytes are multiplied and added in pairs apart. Most of these instructions have
    // more units than multiply-adds have.
    let apart = DotCost { cost: 2.5, operand_cost: 1.5, latency_cycles };
    // A shift and a mask widen the two bfloat16 numbers of a lane for a multiply-add each. The instruction takes two cycles
    // more than a multiply-add on Zen 4 and Sapphire Rapids.
    let widened = DotCost { cost: 2.0, operand_cost: 2.0, latency_cycles: 2.0 * latency_cycles };
    Machine {
        vector_bytes: model.vector_bits / 8,
        vector_registers: model.vector_regs,
        mask_registers: model.vector_bits == 512,
        arithmetic_per_cycle: f64::from(model.fma_per_cycle),
        byte_dot: if has_byte_dot { DotCost::of_instruction(latency_cycles) } else { apart },
        pair_dot: if target.has(Feature::Bf16) { DotCost::of_instruction(latency_cycles + 2.0) } else { widened },
        tile_registers: target.has(Feature::Amx),
        permuted_vectors: match model.vector_bits {
            512 => 2,
            256 => 1,
            _ => 0,
        },
        loads_per_cycle: f64::from(model.loads_per_cycle),
        latency_cycles,
        l2_bytes_per_cycle: f64::from(model.l2_bytes_per_cycle),
        l3_bytes_per_cycle: f64::from(model.l3_bytes_per_cycle),
        l1_bytes: model.l1d_bytes,
        l2_bytes: model.l2_bytes,
        l3_bytes: model.l3_bytes,
        threads: 1,
    }
}
