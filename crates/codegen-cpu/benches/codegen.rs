//! What machine code costs: from loop nests to vector SSA, and from there to AVX-512 instructions.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use infc_codegen_cpu::lower::lower;
use infc_codegen_cpu::{Target, emit};
use infc_ir::nest::LoopNest;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{DotCost, Machine, apply, choose};
use std::hint::black_box;

/// Kernel files: one that is tiled, two that are fused, one with elementary functions in a recurrence, one of many
/// stages.
const KERNELS: [&str; 5] = ["matmul", "softmax", "layer_norm", "lstm", "winograd"];

/// The untuned nest of a kernel file.
fn nest(name: &str, target: &Target) -> LoopNest {
    let model = &target.machine;
    let machine = Machine {
        vector_bytes: model.vector_bits / 8,
        vector_registers: model.vector_regs,
        mask_registers: model.vector_bits == 512,
        arithmetic_per_cycle: f64::from(model.fma_per_cycle),
        byte_dot: DotCost::of_instruction(4.0),
        pair_dot: DotCost::of_instruction(6.0),
        tile_registers: false,
        permuted_vectors: if model.vector_bits == 512 { 2 } else { 1 },
        loads_per_cycle: f64::from(model.loads_per_cycle),
        latency_cycles: f64::from(model.fma_latency),
        l2_bytes_per_cycle: 32.0,
        l3_bytes_per_cycle: 10.0,
        l1_bytes: model.l1d_bytes,
        l2_bytes: model.l2_bytes,
        l3_bytes: model.l3_bytes,
        threads: 1,
    };
    let kernel = normalise(infc_testkit::kernel(name));
    apply(&kernel, &choose(&kernel, &machine, infc_passes::ErrorClass::Reassociating))
        .expect("chosen schedules are possible")
}

fn codegen(c: &mut Criterion) {
    let target: Target = "x86-64-v4".parse().expect("a known target");
    for name in KERNELS {
        let nest = nest(name, &target);
        let lowered = lower(&nest, &target).expect("scheduled nests can be lowered");
        let code = emit(&lowered.function, &target).expect("lowered functions can be emitted").code;
        let mut group = c.benchmark_group(name);
        // Kernels differ in size, so what compares them is the code made per second.
        group.throughput(Throughput::Bytes(code.len() as u64));
        group.bench_function("lower", |b| b.iter(|| lower(black_box(&nest), &target).expect("as before")));
        group.bench_function("emit", |b| b.iter(|| emit(black_box(&lowered.function), &target).expect("as before")));
        group.finish();
    }
}

criterion_group!(benches, codegen);
criterion_main!(benches);
