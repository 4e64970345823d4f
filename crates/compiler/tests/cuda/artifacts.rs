//! Whole artifacts: compiled for `cuda`, loaded and run by the runtime, with the simulator as the GPU.

use crate::net::{Attr, Net};
use crate::networks;
use infc::{Compilation, CompileOptions, KernelReport, VariantTarget};
use infc_frontend_onnx::{ImportOptions, Model as OnnxModel, import};
use infc_ir::interp::{run_graph, symbol_values};
use infc_runtime::artifact::container::{Container, ContainerWriter, Piece, SectionKind};
use infc_runtime::artifact::{Artifact, Side};
use infc_runtime::{LoadOptions, Model, RuntimeError, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor};
use infc_testkit::{assert_close, random_tensor};
use std::sync::Arc;

pub(crate) fn options(targets: &[&str]) -> CompileOptions {
    CompileOptions { targets: targets.iter().map(|&text| text.to_owned()).collect(), ..CompileOptions::default() }
}

#[track_caller]
fn bytes_of(compilation: &Compilation) -> Vec<u8> {
    compilation.to_bytes().expect("an artifact")
}

#[track_caller]
fn compiled(net: Net) -> Vec<u8> {
    bytes_of(&net.compile(&options(&["cuda"])).unwrap_or_else(|e| panic!("{e}")))
}

pub(crate) fn on(gpu: &Arc<Simulator>) -> LoadOptions {
    LoadOptions { gpu: Some(Arc::clone(gpu) as _), ..LoadOptions::default() }
}

fn inputs_of(shapes: &[Vec<usize>]) -> Vec<Tensor> {
    (0..).zip(shapes).map(|(n, shape)| random_tensor(DType::F32, shape.clone(), 5 + n)).collect()
}

/// Compiles a model, and holds what its artifact gives to what its graph means; several runs of one session, whose memory
/// grows and is used again.
#[track_caller]
fn agrees(model: Vec<u8>, runs: &[Vec<Vec<usize>>]) {
    let onnx = OnnxModel::from_bytes(model.clone(), None).expect("the model is well formed");
    let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
    let compilation = infc::compile(&infc::Source::bytes(model), &options(&["cuda"]), &mut ());
    let bytes = bytes_of(&compilation.unwrap_or_else(|e| panic!("{e}")));
    for seed in 0..2 {
        let gpu = Arc::new(Simulator::new(seed));
        let model = Model::from_vec_with(bytes.clone(), &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(model.selection().target, "cuda:sm_80");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        for shapes in runs {
            let inputs = inputs_of(shapes);
            let symbols = symbol_values(&graph, &inputs).expect("the inputs fit");
            let expected = run_graph(&graph, &symbols, &inputs).expect("the graph can be interpreted");
            let found = session.run_owned(&inputs.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
            assert_close(&format!("{shapes:?}, seed {seed}"), &found, &expected, 1e-4, 1e-5);
        }
        assert!(gpu.launches() > runs.len(), "{} launches", gpu.launches());
        drop((session, model));
        assert!(gpu.is_empty(), "nothing of the model is left on the GPU");
    }
}

#[test]
fn the_demo_network() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    let model = std::fs::read(path).expect("the model can be read");
    agrees(model, &[1, 2].map(|batch| vec![vec![batch, 1, 8, 8]]));
}

#[test]
fn a_residual_network() {
    agrees(networks::residual().into_bytes(), &[2, 1].map(|batch| vec![vec![batch, 3, 13, 11]]));
}

#[test]
fn a_kernel_that_writes_onto_what_it_reads() {
    agrees(networks::branches().into_bytes(), &[1, 40, 5].map(|rows| vec![vec![rows, 6]]));
}

#[test]
fn a_transformer() {
    let runs = [(1, 7), (2, 1), (2, 5)].map(|(n, s)| vec![vec![n, s, 16]]);
    agrees(networks::transformer().into_bytes(), &runs);
}

#[test]
fn a_recurrent_network() {
    agrees(networks::recurrent("2").into_bytes(), &[1, 4, 3].map(|s| vec![vec![s, 2, 5]]));
}

/// What a step keeps has a size that only the run tells: it lies in memory of the launch.
#[test]
fn a_recurrent_network_of_any_batch() {
    let runs = [(1, 2), (3, 1), (2, 5)].map(|(steps, batch)| vec![vec![steps, batch, 5]]);
    agrees(networks::recurrent("B").into_bytes(), &runs);
}

/// `y = (x·w)²` for known sizes, so that the artifact has a finished memory plan.
fn product() -> Net {
    Net::new(17)
        .input("x", DType::F32, &["3", "4"])
        .constant("w", &random_tensor(DType::F32, vec![4, 5], 1))
        .node("MatMul", &["x", "w"], &["p"], &[])
        .node("Mul", &["p", "p"], &["q"], &[])
        .node("Softmax", &["q"], &["y"], &[])
        .output("y")
}

#[test]
fn known_sizes() {
    agrees(product().into_bytes(), &[vec![vec![3, 4]], vec![vec![3, 4]]]);
}

/// Sums of so many terms with so few results are computed in parts, unless their order is to stay.
#[test]
fn long_sums_in_parts() {
    let net = || {
        Net::new(17)
            .input("x", DType::F32, &["1", "128", "5", "4"])
            .constant("w", &random_tensor(DType::F32, vec![24, 128, 3, 3], 1))
            .constant("b", &random_tensor(DType::F32, vec![24], 2))
            .node("Conv", &["x", "w", "b"], &["y"], &[("pads", Attr::Ints(&[1, 1, 1, 1]))])
            .node("Relu", &["y"], &["z"], &[])
            .output("z")
    };
    agrees(net().into_bytes(), &[vec![vec![1, 128, 5, 4]]]);
    for (targets, strict, in_parts) in
        [(&["cuda"][..], false, true), (&["cuda"], true, false), (&["x86-64-v3", "cuda"], false, false)]
    {
        let options = CompileOptions { strict, ..options(targets) };
        let compilation = net().compile(&options).unwrap_or_else(|e| panic!("{e}"));
        let is_of_parts = |kernel: &KernelReport| kernel.name.contains("reduce");
        let found = compilation.report.variants[0].kernels.iter().any(is_of_parts);
        assert_eq!(found, in_parts, "{targets:?}, strict: {strict}");
    }
}

/// Kept by the session between runs, in memory of its own or behind what is there.
#[test]
fn states_are_carried() {
    let net = || {
        Net::new(18)
            .input("new", DType::F32, &["1", "2"])
            .input("past", DType::F32, &["P", "2"])
            .input("sum", DType::F32, &["1", "2"])
            .node("Concat", &["past", "new"], &["present"], &[("axis", Attr::Int(0))])
            .node("Add", &["new", "sum"], &["next"], &[])
            .node("ReduceSum", &["present"], &["total"], &[])
            .output("total")
            .output("present")
            .output("next")
    };
    for capacity in [None, Some(4)] {
        let options = CompileOptions {
            states: vec![("present".to_owned(), "past".to_owned()), ("next".to_owned(), "sum".to_owned())],
            dims: capacity.map(|most| ("P".to_owned(), infc::DimChoice::Range(0, Some(most)))).into_iter().collect(),
            ..options(&["cuda"])
        };
        let compilation = net().compile(&options).unwrap_or_else(|e| panic!("{e}"));
        // What is told of copies beside those of inputs and outputs: a state that grows is copied whole.
        let told = |to| {
            let crossings = compilation.report.variants[0].crossings.iter().filter(|crossing| crossing.to == to);
            crossings.map(|crossing| crossing.size_bytes.as_const()).collect::<Vec<_>>()
        };
        let whole = capacity.map(|rows: i64| Some(rows * 2 * 4)).into_iter().collect::<Vec<_>>();
        assert_eq!((told(Side::Device), told(Side::Host)), (whole.clone(), whole));
        let bytes = bytes_of(&compilation);
        let gpu = Arc::new(Simulator::new(0));
        let model = Model::from_vec_with(bytes, &on(&gpu)).expect("a model");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let mut expected = 0.0;
        for n in 1..=4 {
            let new = Tensor::from_elements(&[1, 2], &[n as f32, 0.5]).expect("two");
            expected += n as f32 + 0.5;
            let before = gpu.copied();
            let found = session.run_owned(&[&new]).unwrap_or_else(|e| panic!("capacity {capacity:?}: {e}"));
            let (there, back) = (gpu.copied().there - before.there, gpu.copied().back - before.back);
            // Inputs of 2 numbers each, the total; and the state before and after, or the memory that it has.
            let (past, present) = capacity.map_or((n - 1, n), |rows| (rows as usize, rows as usize));
            assert_eq!((there, back), (16 + past * 8, 12 + present * 8), "capacity {capacity:?}, run {n}");
            assert_eq!(found[0].elements::<f32>().expect("floats"), [expected], "capacity {capacity:?}");
        }
        let sum = session.state("sum").expect("known").expect("it has a value").to_tensor().expect("numbers");
        assert_eq!(sum.elements::<f32>().expect("floats"), [10.0, 2.0]);
    }
}

/// Rows of a state are replaced where they are.
#[test]
fn rows_of_a_state_are_replaced() {
    let net = Net::new(24)
        .input("new", DType::F32, &["1", "S", "2"])
        .input("at", DType::I64, &["1"])
        .input("past", DType::F32, &["1", "5", "2"])
        .node("TensorScatter", &["past", "new", "at"], &["present"], &[("axis", Attr::Int(1))])
        .node("ReduceSum", &["present"], &["total"], &[])
        .output("total")
        .output("present");
    let states = vec![("present".to_owned(), "past".to_owned())];
    let compilation = net.compile(&CompileOptions { states, ..options(&["cuda"]) }).unwrap_or_else(|e| panic!("{e}"));
    assert!(compilation.plan.as_ref().expect("a plan").states[0].append.is_some());
    let gpu = Arc::new(Simulator::new(0));
    let model = Model::from_vec_with(bytes_of(&compilation), &on(&gpu)).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    for (at, total) in [(3i64, 1.5), (0, 3.0), (3, 3.0), (4, 4.5)] {
        let new = Tensor::from_elements(&[1, 1, 2], &[1f32, 0.5]).expect("two");
        let at = Tensor::from_elements(&[1], &[at]).expect("one");
        let found = session.run_owned(&[&new, &at]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found[0].elements::<f32>().expect("floats"), [total]);
    }
    let kept = session.state("past").expect("known").expect("it has a value").to_tensor().expect("numbers");
    assert_eq!(kept.elements::<f32>().expect("floats"), [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 1.0, 0.5]);
}

#[test]
fn the_same_bytes_every_time() {
    let once = bytes_of(&networks::residual().compile(&options(&["x86-64-v3", "cuda"])).expect("compiles"));
    assert_eq!(once, bytes_of(&networks::residual().compile(&options(&["x86-64-v3", "cuda"])).expect("compiles")));
    let container = Container::read(&once).expect("an artifact");
    let ptx = container.sections().iter().filter(|section| section.kind == SectionKind::PTX).count();
    assert_eq!(ptx, 1);
}

/// The processor does not step in silently.
#[test]
#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
fn without_a_gpu() {
    let code = |result: Result<Model, RuntimeError>| result.map(|m| m.selection().clone()).map_err(|e| e.code());
    let alone = compiled(product());
    let Err(error) = Model::from_vec(alone.clone()) else {
        eprintln!("skipped: there is a GPU");
        return;
    };
    assert_eq!(error.code(), "runtime::no-gpu");
    let text = error.to_string();
    assert!(text.contains("driver 450 or newer (PTX 7.0)") && text.contains("--target cpu,cuda"), "{text}");
    let allowed = LoadOptions { allow_cpu: true, ..LoadOptions::default() };
    assert_eq!(code(Model::from_vec_with(alone, &allowed)), Err("artifact::wrong-target"));

    let both = bytes_of(&product().compile(&options(&["x86-64-v2", "cuda"])).expect("compiles"));
    let error = Model::from_vec(both.clone()).expect_err("it was not allowed");
    assert!(error.code() == "runtime::no-gpu" && error.to_string().contains("--allow-cpu"), "{error}");
    let selection = code(Model::from_vec_with(both.clone(), &allowed)).expect("it runs on the processor");
    assert_eq!((selection.target.as_str(), selection.skipped.len()), ("x86-64-v2", 1));
    let named = LoadOptions { target: Some("x86-64-v2".to_owned()), ..LoadOptions::default() };
    assert_eq!(code(Model::from_vec_with(both.clone(), &named)).expect("it is asked for").target, "x86-64-v2");
    let named = LoadOptions { target: Some("cuda:sm_80".to_owned()), ..allowed.clone() };
    assert_eq!(code(Model::from_vec_with(both.clone(), &named)), Err("runtime::no-gpu"));

    for (gpu, reason) in [
        (Arc::new(Simulator::new(0).with_generation(75, 70)), "has compute capability 7.5, it needs 8.0"),
        (Arc::new(Simulator::new(0).with_generation(80, 65)), "too old, it needs driver 450 or newer"),
    ] {
        let error = Model::from_vec_with(both.clone(), &on(&gpu)).expect_err("it is too old");
        assert!(error.code() == "runtime::no-gpu" && error.to_string().contains(reason), "{error}");
    }
    assert_eq!(
        code(Model::from_vec_with(both, &on(&Arc::new(Simulator::new(0).with_generation(120, 90)))))
            .expect("newer")
            .target,
        "cuda:sm_80"
    );
}

#[test]
fn what_a_gpu_refuses() {
    let bytes = compiled(product());
    let little = Arc::new(Simulator::new(0).with_memory(100));
    let error = Model::from_vec_with(bytes.clone(), &on(&little))
        .and_then(|model| {
            let mut session = model.session(&SessionOptions::default())?;
            session.run_owned(&[&random_tensor(DType::F32, vec![3, 4], 1)]).map(drop)
        })
        .expect_err("there is too little memory");
    assert_eq!(error.code(), "runtime::gpu-memory");
    assert!(little.is_empty() && little.launches() == 0);

    // A launch fails: the session can be used again.
    let gpu = Arc::new(Simulator::new(0));
    let model = Model::from_vec_with(bytes, &on(&gpu)).expect("a model");
    let mut session = model.session(&SessionOptions::default()).expect("a session");
    let x = random_tensor(DType::F32, vec![3, 4], 1);
    let first = session.run_owned(&[&x]).expect("it runs");
    gpu.fail_after(1);
    let error = session.run_owned(&[&x]).map(drop).expect_err("the launch fails");
    assert_eq!(error.code(), "runtime::gpu-failed");
    let again = session.run_owned(&[&x]).expect("it runs");
    assert_eq!(again[0].bytes(), first[0].bytes());
}

/// All kernels are one module; where it is refused, the kernel is named that is at fault.
#[test]
fn one_module_for_all_kernels() {
    let bytes = compiled(networks::residual());
    let gpu = Arc::new(Simulator::new(0));
    let model = Model::from_vec_with(bytes.clone(), &on(&gpu)).expect("a model");
    let body = Artifact::read(&bytes).expect("well formed").variant(0).expect("well formed");
    assert!(body.kernels.len() > 3 && gpu.modules() == 1, "{} kernels, {} modules", body.kernels.len(), gpu.modules());
    drop(model);

    let damaged = |kernel: usize| {
        let container = Container::read(&bytes).expect("well formed");
        let mut writer = ContainerWriter::default();
        for (n, section) in container.sections().iter().enumerate() {
            let mut bytes = container.section_bytes(n).expect("a section").to_vec();
            if section.kind == SectionKind::PTX {
                let start = body.kernels[kernel].code_offset as usize;
                let end = start + body.kernels[kernel].code_len as usize;
                let text = std::str::from_utf8(&bytes[start..end]).expect("a text");
                let at = start + text.rfind("ret;").expect("an instruction");
                bytes[at..at + 3].copy_from_slice(b"rot");
            }
            writer.section(section.kind, section.flags, section.schema, vec![Piece::new(bytes)]);
        }
        let mut bytes = Vec::new();
        writer.write_to(&mut bytes).expect("a vector");
        bytes
    };
    for kernel in [0, 2] {
        let gpu = Arc::new(Simulator::new(0));
        let error = Model::from_vec_with(damaged(kernel), &on(&gpu)).map(drop).expect_err("no such instruction");
        assert_eq!(error.code(), "runtime::gpu-kernel");
        let (said, name) = (error.to_string(), &body.kernels[kernel].name);
        assert!(said.contains(&format!("`{name}`")) && said.contains("rot"), "{said}");
        assert!(gpu.is_empty());
    }
}

/// Files of before, whose kernels are modules of their own with zeros in between. `golden/program-schema-2.infa` is what infc
/// of 26 November 2026 (b156934's parent) made of this network.
#[test]
fn a_module_for_each_kernel() {
    let older = include_bytes!("golden/program-schema-2.infa").to_vec();
    let net = Net::new(17).input("x", DType::F32, &["4", "4"]).node("MatMul", &["x", "x"], &["p"], &[]);
    let net = net.node("MatMul", &["p", "x"], &["q"], &[]).node("Relu", &["q"], &["y"], &[]).output("y");
    let x = random_tensor(DType::F32, vec![4, 4], 1);
    // Thinned, it is written as files are now, still of modules of their own.
    let thinned = Artifact::read(&older).expect("well formed").thin("cuda:sm_80").expect("it has the target");
    let thinned = thinned.to_vec().expect("bytes");
    let found = [(compiled(net), 1), (older, 2), (thinned, 2)].map(|(bytes, modules)| {
        let gpu = Arc::new(Simulator::new(0));
        let model = Model::from_vec_with(bytes, &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(gpu.modules(), modules);
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        session.run_owned(&[&x]).expect("it runs").remove(0)
    });
    assert_close("an older file", &found[1..2], &found[..1], 1e-6, 1e-6);
    assert_eq!(found[1].bytes(), found[2].bytes());
}

#[test]
fn what_runs_on_the_host_is_refused_on_demand() {
    let host = Net::new(17).input("x", DType::F32, &["N"]).node("Unique", &["x"], &["y"], &[]).output("y");
    let deny = CompileOptions { deny_fallback: true, ..options(&["cuda"]) };
    let error = host.compile(&deny).expect_err("it runs on the host");
    assert_eq!(error.code(), "compile::fallback");
}

/// A loader takes the first variant that runs, so what is made for newer GPUs comes first, and what is for one alone before what is for it
/// and later ones.
#[test]
fn newer_generations_come_first() {
    let targets = ["x86-64-v2", "cuda:sm_75", "cuda", "cuda:sm_90", "cuda:sm_90a"];
    let bytes = bytes_of(&product().compile(&options(&targets)).expect("compiles"));
    let x = random_tensor(DType::F32, vec![3, 4], 1);
    let cpu = LoadOptions { target: Some("x86-64-v2".to_owned()), ..LoadOptions::default() };
    let run = |options: &LoadOptions| {
        let model = Model::from_vec_with(bytes.clone(), options).expect("it runs there");
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        (model.selection().target.clone(), session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}")))
    };
    let (_, expected) = run(&cpu);
    for (capability, target) in
        [(75, "cuda:sm_75"), (80, "cuda:sm_80"), (89, "cuda:sm_80"), (90, "cuda:sm_90a"), (120, "cuda:sm_90")]
    {
        let (found, outputs) = run(&on(&Arc::new(Simulator::new(0).with_generation(capability, 90))));
        assert_eq!(found, target);
        assert_close(target, &outputs, &expected, 1e-5, 1e-6);
    }
}

/// What one generation alone runs is refused by others, older or newer.
#[test]
fn one_generation_alone() {
    let bytes = bytes_of(&product().compile(&options(&["cuda:sm_90a"])).expect("compiles"));
    for (capability, ptx_version, reason) in [
        (80, 90, "has compute capability 8.0, it runs on 9.0 alone"),
        (100, 90, "has compute capability 10.0, it runs on 9.0 alone"),
        (90, 80, "too old, it needs driver 550 or newer (PTX 8.4)"),
    ] {
        let gpu = Arc::new(Simulator::new(0).with_generation(capability, ptx_version));
        let error = Model::from_vec_with(bytes.clone(), &on(&gpu)).expect_err("it is another");
        assert!(error.code() == "runtime::no-gpu" && error.to_string().contains(reason), "{error}");
    }
    let gpu = Arc::new(Simulator::new(0).with_generation(90, 84));
    assert_eq!(Model::from_vec_with(bytes, &on(&gpu)).expect("it runs there").selection().target, "cuda:sm_90a");
    assert!("cuda:sm_90a+".parse::<VariantTarget>().is_err(), "no later one runs it");
}

/// `cuda` alone is whichever of them the GPU runs, and never a processor's.
#[test]
fn any_generation_may_be_asked_for() {
    let bytes = bytes_of(&product().compile(&options(&["x86-64-v2", "cuda", "cuda:sm_90"])).expect("compiles"));
    let loaded = |capability: u32, allow_cpu: bool| {
        let gpu = Arc::new(Simulator::new(0).with_generation(capability, 90));
        let options = LoadOptions { target: Some("cuda".to_owned()), allow_cpu, ..on(&gpu) };
        Model::from_vec_with(bytes.clone(), &options).map(|model| model.selection().target.clone())
    };
    for (capability, target) in [(80, "cuda:sm_80"), (90, "cuda:sm_90")] {
        assert_eq!(loaded(capability, false).expect("it runs there"), target);
    }
    for allow_cpu in [false, true] {
        assert_eq!(loaded(75, allow_cpu).expect_err("it is too old").code(), "runtime::no-gpu");
    }
    let options = LoadOptions { target: Some("cuda".to_owned()), ..LoadOptions::default() };
    let cpu = bytes_of(&product().compile(&crate::artifacts::options(&["x86-64-v2"])).expect("compiles"));
    assert_eq!(Model::from_vec_with(cpu, &options).expect_err("there is none").code(), "artifact::no-such-target");
}

#[test]
fn targets_have_names() {
    for (targets, code) in [
        (&["cuda:sm_35"][..], "compile::unknown-target"),
        (&["cuda", "cuda:sm_80"], "compile::duplicate-target"),
        (&["cuda:sm_90", "cuda"], "compiled"),
    ] {
        let found = product().compile(&options(targets)).map_or_else(|e| e.code(), |_| "compiled");
        assert_eq!(found, code, "{targets:?}");
    }
}
