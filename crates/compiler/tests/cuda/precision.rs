//! Less exact products where they are asked for (`--precision`): tensor cores multiply, and results stay close.

use crate::artifacts::{on, options};
use crate::net::{Attr, Net};
use infc::{CompileOptions, KernelReport, Precision};
use infc_frontend_onnx::{ImportOptions, Model as OnnxModel, import};
use infc_ir::interp::run_graph;
use infc_runtime::{LoadOptions, Model, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::{DType, Tensor, bf16, f16};
use infc_testkit::random_tensor;
use std::sync::Arc;

/// Products with weights around attention, whose products are of computed values; so many tokens of 32 channels.
fn attention(tokens: &str) -> Net {
    attention_of(DType::F32, tokens)
}

/// The same in another type.
fn attention_of(dtype: DType, tokens: &str) -> Net {
    let weight = |seed: u64| {
        let drawn = random_tensor(DType::F32, vec![32, 32], seed);
        let scaled = drawn.elements::<f32>().expect("floats").iter().map(|x| x * 0.3);
        match dtype {
            DType::F16 => Tensor::from_elements(&[32, 32], &scaled.map(f16::from_f32).collect::<Vec<_>>()),
            DType::BF16 => Tensor::from_elements(&[32, 32], &scaled.map(bf16::from_f32).collect::<Vec<_>>()),
            _ => Tensor::from_elements(&[32, 32], &scaled.collect::<Vec<_>>()),
        }
        .expect("as many")
    };
    let mut net = Net::new(17).input("x", dtype, &[tokens, "32"]);
    for (name, seed) in [("q", 1), ("k", 2), ("v", 3)] {
        let w = format!("w{name}");
        net = net.constant(&w, &weight(seed)).node("MatMul", &["x", &w], &[name], &[]);
    }
    net.node("Transpose", &["k"], &["turned"], &[("perm", Attr::Ints(&[1, 0]))])
        .node("MatMul", &["q", "turned"], &["scores"], &[])
        .node("Softmax", &["scores"], &["weights"], &[("axis", Attr::Int(-1))])
        .node("MatMul", &["weights", "v"], &["mixed"], &[])
        .constant("wo", &weight(4))
        .node("MatMul", &["mixed", "wo"], &["y"], &[])
        .output("y")
}

/// The largest difference, over the largest result.
fn apart(found: &Tensor, expected: &Tensor) -> f64 {
    let [found, expected] = [found, expected]
        .map(|tensor| (0..tensor.len_elems()).map(|n| tensor.get_f64(n).expect("a number")).collect::<Vec<f64>>());
    let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
    found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f64::max)
}

#[test]
fn tensor_cores_multiply_what_was_asked_for() {
    let onnx = OnnxModel::from_bytes(attention("20").into_bytes(), None).expect("the model is well formed");
    let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
    let x = random_tensor(DType::F32, vec![20, 32], 9);
    let exact = run_graph(&graph, &[], std::slice::from_ref(&x)).expect("the graph can be interpreted");
    // Attention multiplies computed values, which are f32 in memory.
    for (precision, rounded, tf32, instruction, bound) in [
        (Precision::F32, 0, 0, "", 1e-5),
        (Precision::Tf32, 0, 4, "m16n8k8.row.col.f32.tf32.tf32.f32", 4e-3),
        (Precision::Bf16, 3, 1, "m16n8k16.row.col.f32.bf16.bf16.f32", 3e-2),
        (Precision::F16, 3, 1, "m16n8k16.row.col.f32.f16.f16.f32", 4e-3),
    ] {
        let options = CompileOptions { precision, ..options(&["cuda"]) };
        let compilation = attention("20").compile(&options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(compilation.report.rounded_contractions, rounded, "{precision}");
        assert_eq!(compilation.report.variants[0].tf32_kernels, tf32, "{precision}");
        let bytes = compilation.to_bytes().expect("an artifact");
        assert!(String::from_utf8_lossy(&bytes).contains(instruction), "{precision}");
        let gpu = Arc::new(Simulator::new(3));
        let model = Model::from_vec_with(bytes, &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
        let off = apart(&found[0], &exact[0]);
        assert!(off <= bound, "{precision}: off by {off}");
        if precision != Precision::F32 {
            assert!(off > 1e-6, "{precision}: nothing was rounded");
        }
    }
}

/// A model in a half type as it is: tensor cores multiply its numbers, in attention, too, and values between kernels are halves.
#[test]
fn tensor_cores_multiply_halves() {
    for (half, instruction, bound) in [
        (DType::F16, "m16n8k16.row.col.f32.f16.f16.f32", 4e-3),
        (DType::BF16, "m16n8k16.row.col.f32.bf16.bf16.f32", 3e-2),
    ] {
        for (tokens, strict) in [("20", false), ("20", true), ("S", false)] {
            let net = || attention_of(half, tokens);
            let onnx = OnnxModel::from_bytes(net().into_bytes(), None).expect("the model is well formed");
            let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
            let options = CompileOptions { strict, ..options(&["cuda"]) };
            let compilation = net().compile(&options).unwrap_or_else(|e| panic!("{e}"));
            let kernels = &compilation.report.variants[0].kernels;
            let multiply = kernels.iter().filter(|kernel| kernel.schedule.contains("to mma16"));
            let launches: usize = multiply.map(|kernel| kernel.launches).sum();
            // Four products with weights, and attention. A fragment's sum has an order of its own.
            assert_eq!(launches, if strict { 0 } else { 5 }, "{half}, {tokens} tokens, strict: {strict}");
            let attends = |kernel: &&KernelReport| kernel.schedule.contains("attended");
            assert_eq!(kernels.iter().filter(attends).count(), usize::from(!strict), "{half}, {tokens}, {strict}");
            let bytes = compilation.to_bytes().expect("an artifact");
            assert_eq!(String::from_utf8_lossy(&bytes).contains(instruction), !strict, "{half}");
            let gpu = Arc::new(Simulator::new(5));
            let model = Model::from_vec_with(bytes, &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
            let mut session = model.session(&SessionOptions::default()).expect("a session");
            for tokens in if tokens == "S" { vec![1, 70, 20] } else { vec![20] } {
                let x = random_tensor(half, vec![tokens, 32], tokens as u64);
                let symbols: &[i64] = if graph.symbols.is_empty() { &[] } else { &[tokens as i64] };
                let exact = run_graph(&graph, symbols, std::slice::from_ref(&x)).expect("it can be interpreted");
                let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
                let off = apart(&found[0], &exact[0]);
                assert!(off <= bound, "{half}, {tokens} tokens, strict: {strict}: off by {off}");
            }
        }
    }
}

/// Beside processors, which compute halves in f32, GPUs have a plan of their own for them, and for nothing else.
#[test]
fn processors_and_gpus_have_plans_of_their_own_for_halves() {
    let compile = |half: DType, strict: bool| {
        let specialize = vec![("S".to_owned(), vec![20])];
        let options = CompileOptions { strict, specialize, ..options(&["x86-64-v2", "cuda"]) };
        attention_of(half, "S").compile(&options).unwrap_or_else(|e| panic!("{e}"))
    };
    for (half, strict, is_apart) in
        [(DType::F16, false, true), (DType::BF16, false, true), (DType::F32, false, false), (DType::F16, true, false)]
    {
        let compilation = compile(half, strict);
        let report = &compilation.report;
        let targets: Vec<&str> = report.variants.iter().map(|variant| variant.target.as_str()).collect();
        assert_eq!((targets, report.halves_in_f32), (vec!["cuda:sm_80", "x86-64-v2"], 0), "{half}");
        let multiplies = |kernel: &KernelReport| kernel.schedule.contains("to mma16");
        let on_gpu = report.variants[0].kernels.iter().any(multiplies);
        assert_eq!(on_gpu, is_apart, "{half}, strict: {strict}");
        let [for_gpu, for_cpu] = ["cuda:sm_80", "x86-64-v2"].map(|target| {
            let plans = compilation.plans_for(target);
            assert_eq!(plans.len(), 2, "a special case");
            plans.iter().map(ToString::to_string).collect::<Vec<_>>()
        });
        assert_eq!(for_gpu != for_cpu, is_apart, "{half}, strict: {strict}");

        let onnx = OnnxModel::from_bytes(attention_of(half, "S").into_bytes(), None).expect("well formed");
        let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
        let bytes = compilation.to_bytes().expect("an artifact");
        for target in ["cuda:sm_80", "x86-64-v2"] {
            let load = LoadOptions { target: Some(target.to_owned()), ..on(&Arc::new(Simulator::new(7))) };
            let model = Model::from_vec_with(bytes.clone(), &load).unwrap_or_else(|e| panic!("{e}"));
            let mut session = model.session(&SessionOptions::default()).expect("a session");
            for tokens in [20, 33] {
                let x = random_tensor(half, vec![tokens, 32], tokens as u64);
                let exact =
                    run_graph(&graph, &[tokens as i64], std::slice::from_ref(&x)).expect("it can be interpreted");
                let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{target}: {e}"));
                let off = apart(&found[0], &exact[0]);
                assert!(off <= if half == DType::BF16 { 3e-2 } else { 4e-3 }, "{half} on {target}: off by {off}");
            }
        }
    }
}

/// How long a sequence is only a run tells: attention is one kernel all the same, which goes through keys in blocks, and writes
/// nothing but its result.
#[test]
fn attention_of_any_length() {
    let onnx = OnnxModel::from_bytes(attention("S").into_bytes(), None).expect("the model is well formed");
    let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
    for (precision, strict, bound) in
        [(Precision::F32, false, 1e-5), (Precision::Tf32, false, 4e-3), (Precision::F32, true, 1e-5)]
    {
        let options = CompileOptions { precision, strict, ..options(&["cuda"]) };
        let compilation = attention("S").compile(&options).unwrap_or_else(|e| panic!("{e}"));
        let attends = |kernel: &&KernelReport| kernel.schedule.contains("attended");
        let kernels = compilation.report.variants[0].kernels.iter().filter(attends).count();
        assert_eq!(kernels, usize::from(!strict), "{precision}, strict: {strict}");
        let bytes = compilation.to_bytes().expect("an artifact");
        let gpu = Arc::new(Simulator::new(3));
        let model = Model::from_vec_with(bytes, &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        for tokens in [1, 70, 20] {
            let x = random_tensor(DType::F32, vec![tokens, 32], tokens as u64);
            let exact = run_graph(&graph, &[tokens as i64], std::slice::from_ref(&x)).expect("it can be interpreted");
            let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
            let off = apart(&found[0], &exact[0]);
            assert!(off <= bound, "{precision}, {tokens} tokens: off by {off}");
        }
    }
}

/// Convolutions of images whose size only a run tells: tensor cores multiply rows and columns counted as one.
#[test]
fn images_of_any_size_are_multiplied_by_tensor_cores() {
    let net = || {
        let weights = |shape: &[usize], seed: u64| random_tensor(DType::F16, shape.to_vec(), seed);
        let padded = [("pads", Attr::Ints(&[1, 1, 1, 1])), ("strides", Attr::Ints(&[2, 2]))];
        Net::new(17)
            .input("x", DType::F16, &["N", "16", "H", "W"])
            .constant("w1", &weights(&[32, 16, 3, 3], 1))
            .constant("w2", &weights(&[48, 32, 1, 1], 2))
            .constant("w3", &weights(&[16, 48, 3, 3], 3))
            .node("Conv", &["x", "w1"], &["a"], &[("pads", Attr::Ints(&[1, 1, 1, 1]))])
            .node("Conv", &["a", "w2"], &["b"], &[])
            .node("Conv", &["b", "w3"], &["y"], &padded)
            .output("y")
    };
    let onnx = OnnxModel::from_bytes(net().into_bytes(), None).expect("the model is well formed");
    let graph = import(&onnx, &ImportOptions::default()).expect("the model can be imported");
    let compilation = net().compile(&options(&["cuda"])).unwrap_or_else(|e| panic!("{e}"));
    let kernels = &compilation.report.variants[0].kernels;
    let multiply = kernels.iter().filter(|kernel| kernel.schedule.contains("to mma16"));
    assert_eq!(multiply.map(|kernel| kernel.launches).sum::<usize>(), 3);
    let bytes = compilation.to_bytes().expect("an artifact");
    for (seed, [n, h, w]) in
        [[1, 7, 5], [2, 9, 16], [1, 1, 1], [1, 13, 3], [1, 0, 4], [2, 4, 0]].into_iter().enumerate()
    {
        let gpu = Arc::new(Simulator::new(seed as u64));
        let model = Model::from_vec_with(bytes.clone(), &on(&gpu)).unwrap_or_else(|e| panic!("{e}"));
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let x = random_tensor(DType::F16, vec![n, 16, h, w], seed as u64);
        let symbols = [n, h, w].map(|extent| extent as i64);
        let exact = run_graph(&graph, &symbols, std::slice::from_ref(&x)).expect("it can be interpreted");
        let found = session.run_owned(&[&x]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found[0].shape(), exact[0].shape());
        let off = apart(&found[0], &exact[0]);
        assert!(off <= 4e-3, "{n}×{h}×{w}: off by {off}");
    }
}
