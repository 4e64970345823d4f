//! What the way from an imported graph to kernels costs: each graph pass, all of them to the end, kernel formation.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use infc_frontend_onnx::{ImportOptions, Model, import};
use infc_ir::graph::Graph;
use infc_passes::form::{FormOptions, form};
use infc_passes::graph::{PIPELINE, PassContext, optimize, run_pass};
use std::hint::black_box;

const DIGITS: &[u8] = include_bytes!("../../../demo/digits.onnx");

fn digits() -> Graph {
    let model = Model::from_bytes(DIGITS, None).expect("loads");
    import(&model, &ImportOptions::default()).expect("imports")
}

/// Every pass on the graph that the passes before it leave in the first round.
fn each(c: &mut Criterion) {
    let cx = PassContext::default();
    let mut graph = digits();
    let mut group = c.benchmark_group("digits, first round");
    for pass in PIPELINE {
        group.bench_function(pass.name, |b| {
            let run = |mut graph: Graph| {
                run_pass(pass, &mut graph, &cx).expect("the graph is valid");
                graph
            };
            b.iter_batched(|| graph.clone(), run, BatchSize::SmallInput);
        });
        run_pass(pass, &mut graph, &cx).expect("the graph is valid");
    }
    group.finish();
}

fn all(c: &mut Criterion) {
    let cx = PassContext::default();
    let imported = digits();
    let mut optimized = imported.clone();
    optimize(&mut optimized, &cx).expect("the graph is valid");
    let mut group = c.benchmark_group("digits");
    group.bench_function("optimize", |b| {
        let run = |mut graph: Graph| {
            optimize(&mut graph, &cx).expect("the graph is valid");
            graph
        };
        b.iter_batched(|| imported.clone(), run, BatchSize::SmallInput);
    });
    group.bench_function("form", |b| {
        b.iter(|| form(black_box(&optimized), &FormOptions::default()).expect("forms kernels"))
    });
    group.finish();
}

criterion_group!(benches, each, all);
criterion_main!(benches);
