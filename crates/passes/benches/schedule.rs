//! What a schedule costs: choosing one, and making the loop nest that it says.

use criterion::{Criterion, criterion_group, criterion_main};
use infc_passes::ErrorClass;
use infc_passes::formulate::normalise;
use infc_passes::schedule::{DotCost, Machine, apply, choose};
use std::hint::black_box;

/// Kernel files: one that is tiled, two that are fused, one with a recurrence, one of many stages.
const KERNELS: [&str; 5] = ["matmul", "softmax", "layer_norm", "lstm", "winograd"];

/// A core with 512-bit vectors, much like the model of x86-64-v4.
const MACHINE: Machine = Machine {
    vector_bytes: 64,
    vector_registers: 32,
    mask_registers: true,
    arithmetic_per_cycle: 2.0,
    byte_dot: DotCost::of_instruction(4.0),
    pair_dot: DotCost::of_instruction(6.0),
    tile_registers: false,
    permuted_vectors: 2,
    loads_per_cycle: 2.0,
    latency_cycles: 4.0,
    l2_bytes_per_cycle: 32.0,
    l3_bytes_per_cycle: 10.0,
    l1_bytes: 32 << 10,
    l2_bytes: 1 << 20,
    l3_bytes: 2 << 20,
    threads: 1,
};

fn schedules(c: &mut Criterion) {
    for name in KERNELS {
        let kernel = normalise(infc_testkit::kernel(name));
        let schedule = choose(&kernel, &MACHINE, ErrorClass::Reassociating);
        let mut group = c.benchmark_group(name);
        group.bench_function("choose", |b| b.iter(|| choose(black_box(&kernel), &MACHINE, ErrorClass::Reassociating)));
        group.bench_function("apply", |b| {
            b.iter(|| apply(black_box(&kernel), &schedule).expect("chosen schedules are possible"));
        });
        group.finish();
    }
}

criterion_group!(benches, schedules);
criterion_main!(benches);
