//! What reading a model costs: decoding and checking the file, then making the graph.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use infc_frontend_onnx::{ImportOptions, Model, import};
use std::hint::black_box;

const DIGITS: &[u8] = include_bytes!("../../../demo/digits.onnx");

fn digits(c: &mut Criterion) {
    let mut group = c.benchmark_group("digits");
    group.throughput(Throughput::Bytes(DIGITS.len() as u64));
    group.bench_function("load", |b| {
        b.iter(|| Model::from_bytes(Bytes::from_static(black_box(DIGITS)), None).expect("loads"));
    });
    let model = Model::from_bytes(Bytes::from_static(DIGITS), None).expect("loads");
    group.bench_function("import", |b| {
        b.iter(|| import(black_box(&model), &ImportOptions::default()).expect("imports"));
    });
    group.finish();
}

criterion_group!(benches, digits);
criterion_main!(benches);
