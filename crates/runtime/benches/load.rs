//! What the runtime itself costs: loading an artifact the size of a ResNet-50, a step, a parallel region.

#![cfg_attr(not(target_arch = "x86_64"), expect(unused, reason = "the kernels are x86-64 code"))]

#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use infc_runtime::artifact::{
    Arg, ArtifactBuilder, KernelInfo, Program, Provenance, SizeExpr, Slot, Step, VariantBuilder,
};
use infc_runtime::{DType, LoadOptions, Model, Pool, RunOptions, SessionOptions, TensorView, TensorViewMut};
use std::hint::black_box;
use support::{ADD, arena, fixed, launch, port, weight};

const STEPS: u32 = 57;
const LEN: i64 = 16;

/// 57 kernels of 16 KiB of code in a chain, each with a weight, and 100 MB of weights in all.
fn resnet_sized() -> Vec<u8> {
    let f32s = |name| port(name, DType::F32, [SizeExpr::constant(LEN)]);
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    let mut variant = VariantBuilder::new("x86-64", &[]);
    let (mut slots, mut steps) = (vec![Slot::Input(0), Slot::Output(0)], vec![]);
    for step in 0..STEPS {
        let bytes: Vec<u8> = step.to_le_bytes().repeat((100 << 20) / 4 / STEPS as usize);
        slots.push(Slot::Weight(artifact.weight(weight(&format!("w{step}"), bytes.len() / 4), bytes)));
        let weight_slot = slots.len() as u32 - 1;
        let (last, source) = (step + 1 == STEPS, if step == 0 { 0 } else { weight_slot - 1 });
        // The arena slot of a step comes after its weight's, so the former step's is the one before the weight.
        let out = if last { 1 } else { weight_slot + 1 };
        if !last {
            slots.push(arena(SizeExpr::constant(LEN * 4), step, step + 1));
        }
        let info = KernelInfo {
            name: format!("k{step}_conv_relu"),
            origins: vec![format!("/layer{step}/conv/Conv"), format!("/layer{step}/relu/Relu")],
            schedule: "split m by 6 -> mo, mi; reorder mo, n, k, mi; vectorize n by 16; parallel mo".to_owned(),
            ..KernelInfo::default()
        };
        let mut code = ADD.to_vec();
        code.resize(16 << 10, 0);
        let kernel = variant.kernel(info, &code);
        let args = vec![Arg::read(source), Arg::read(weight_slot), Arg::write(out)];
        steps.push(Step::Launch(launch(kernel, args, SizeExpr::constant(LEN))));
    }
    variant.program(Program { slots, steps, static_plan: None });
    artifact.entry(fixed(vec![f32s("in")], vec![f32s("out")]));
    artifact.variant(variant);
    artifact.finish().expect("well-formed").to_vec().expect("memory is enough")
}

fn load(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.infa");
    std::fs::write(&path, resnet_sized()).expect("space for 100 MB");
    c.bench_function("open 100 MB", |b| b.iter(|| Model::open(black_box(&path)).expect("loads")));
    c.bench_function("open and make a session", |b| {
        b.iter(|| Model::open(&path).expect("loads").session(&SessionOptions::default()).expect("fits"));
    });
}

fn run(c: &mut Criterion) {
    let bytes = resnet_sized();
    let (input, mut output) = ([1f32; LEN as usize], [0f32; LEN as usize]);
    for threads in [1, 2] {
        let pool = Some(Pool::builder().threads(threads).build());
        let options = LoadOptions { pool, ..LoadOptions::default() };
        let model = Model::from_vec_with(bytes.clone(), &options).expect("loads");
        let mut session = model.session(&SessionOptions::default()).expect("fits");
        c.bench_function(&format!("57 steps of 16 additions, {threads} threads"), |b| {
            b.iter(|| {
                let view = TensorView::from_slice(&[LEN as usize], &input).expect("fits");
                let mut outputs = [TensorViewMut::from_slice(&[LEN as usize], &mut output).expect("fits")];
                session.run(&[view], &mut outputs, &RunOptions::default()).expect("runs");
            });
        });
    }
}

criterion_group!(benches, load, run);
criterion_main!(benches);
