//! The operators of `com.microsoft`, each compared with a model that spells it out in standard operators.

use crate::support::{Builder, Value, node};
use crate::values::{compare, floats};
use infc_frontend_onnx::proto::{NodeProto, OperatorSetIdProto};
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_tensor::Tensor;

pub(crate) const MICROSOFT: &str = "com.microsoft";

pub(crate) fn microsoft(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> NodeProto {
    NodeProto { domain: Some(MICROSOFT.to_owned()), ..node(op, inputs, outputs, attributes) }
}

fn run(inputs: &[(&str, Tensor)], nodes: Vec<NodeProto>, outputs: &[&str]) -> Vec<Tensor> {
    let mut model = Builder::new(23);
    let version = OperatorSetIdProto { domain: Some(MICROSOFT.to_owned()), version: Some(1) };
    model.model.opset_import.push(version);
    for (name, tensor) in inputs {
        let shape: Vec<_> = tensor.shape().iter().map(|&d| crate::support::Extent::Number(d as i64)).collect();
        model = model.input(name, tensor.dtype(), &shape);
    }
    model = nodes.into_iter().fold(model, Builder::node);
    model = outputs.iter().fold(model, |model, name| model.output(name));
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let data: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    run_graph(&graph, &[], &data).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
pub(crate) fn same(inputs: &[(&str, Tensor)], outputs: &[&str], fused: NodeProto, spelled_out: Vec<NodeProto>) {
    same_with(inputs, outputs, vec![fused], spelled_out);
}

#[track_caller]
fn same_with(inputs: &[(&str, Tensor)], outputs: &[&str], fused: Vec<NodeProto>, spelled_out: Vec<NodeProto>) {
    let what = fused.last().map_or_else(String::new, |node| node.op_type().to_owned());
    let found = run(inputs, fused, outputs);
    let expected = run(inputs, spelled_out, outputs);
    for (found, expected) in found.iter().zip(&expected) {
        compare(&what, found, expected, 1e-5);
    }
}

#[test]
fn gelus() {
    let inputs = [("x", floats(&[3, 4])), ("b", floats(&[4]))];
    let tanh = || vec![("approximate", Value::Text("tanh".to_owned()))];
    let sum = || node("Add", &["x", "b"], &["s"], &[]);
    let gelu = |attributes: &[(&str, Value)]| vec![sum(), node("Gelu", &["s"], &["y"], attributes)];
    same(&inputs, &["y"], microsoft("BiasGelu", &["x", "b"], &["y"], &[]), gelu(&[]));
    same(&inputs, &["y"], microsoft("FastGelu", &["x", "b"], &["y"], &[]), gelu(&tanh()));
    let plain = |attributes: &[(&str, Value)]| vec![node("Gelu", &["x"], &["y"], attributes)];
    same(&inputs, &["y"], microsoft("Gelu", &["x"], &["y"], &[]), plain(&[]));
    same(&inputs, &["y"], microsoft("FastGelu", &["x"], &["y"], &[]), plain(&tanh()));
    let swish = vec![
        node("Constant", &[], &["a"], &[("value_float", Value::Float(1.702))]),
        node("Mul", &["x", "a"], &["ax"], &[]),
        node("Sigmoid", &["ax"], &["gate"], &[]),
        node("Mul", &["x", "gate"], &["y"], &[]),
    ];
    same(&inputs, &["y"], microsoft("QuickGelu", &["x"], &["y"], &[]), swish);
}

#[test]
fn matrix_products() {
    let swapped = Value::Ints(vec![0, 2, 1]);
    let inputs = [("a", floats(&[2, 4, 3])), ("b", floats(&[2, 4, 5]))];
    let attributes = [("transA", Value::Int(1)), ("alpha", Value::Float(0.5))];
    let fused = microsoft("FusedMatMul", &["a", "b"], &["y"], &attributes);
    let spelled_out = vec![
        node("Constant", &[], &["half"], &[("value_float", Value::Float(0.5))]),
        node("Transpose", &["a"], &["t"], &[("perm", swapped)]),
        node("MatMul", &["t", "b"], &["p"], &[]),
        node("Mul", &["p", "half"], &["y"], &[]),
    ];
    same(&inputs, &["y"], fused, spelled_out);
}

#[test]
fn skipped_normalisations() {
    let inputs = [
        ("x", floats(&[2, 3, 4])),
        ("skip", floats(&[2, 3, 4])),
        ("scale", floats(&[4])),
        ("shift", floats(&[4])),
        ("bias", floats(&[4])),
    ];
    let epsilon = || [("epsilon", Value::Float(1e-6))];
    let sum = || vec![node("Add", &["x", "skip"], &["xs"], &[]), node("Add", &["xs", "bias"], &["sum"], &[])];
    let fused = ["x", "skip", "scale", "shift", "bias"];
    let fused = microsoft("SkipLayerNormalization", &fused, &["y", "", "", "sum"], &epsilon());
    let mut spelled_out = sum();
    spelled_out.push(node("LayerNormalization", &["sum", "scale", "shift"], &["y"], &epsilon()));
    same(&inputs, &["y", "sum"], fused, spelled_out);
    let fused = ["x", "skip", "scale", "bias"];
    let fused = microsoft("SkipSimplifiedLayerNormalization", &fused, &["y", "", "", "sum"], &epsilon());
    let mut spelled_out = sum();
    spelled_out.push(node("RMSNormalization", &["sum", "scale"], &["y"], &epsilon()));
    same(&inputs, &["y", "sum"], fused, spelled_out);
}

#[test]
fn rotations() {
    let positions = Tensor::from_elements(&[2, 3], &[4i64, 0, 6, 1, 1, 5]).expect("six");
    let inputs = [("x", floats(&[2, 3, 16])), ("p", positions), ("cos", floats(&[7, 4])), ("sin", floats(&[7, 4]))];
    let heads = [("num_heads", Value::Int(2))];
    let standard = vec![node("RotaryEmbedding", &["x", "cos", "sin", "p"], &["y"], &heads)];
    // The caches say how wide a head is.
    same(&inputs, &["y"], microsoft("RotaryEmbedding", &["x", "p", "cos", "sin"], &["y"], &[]), standard);
    let mut first = inputs.clone();
    first[1].1 = Tensor::from_elements(&[1], &[2i64]).expect("one");
    let standard = vec![
        node(
            "Constant",
            &[],
            &["at"],
            &[("value", Value::Tensor(Tensor::from_elements(&[2, 3], &[2i64, 3, 4, 2, 3, 4]).expect("six")))],
        ),
        node("RotaryEmbedding", &["x", "cos", "sin", "at"], &["y"], &heads),
    ];
    same(&first, &["y"], microsoft("RotaryEmbedding", &["x", "p", "cos", "sin"], &["y"], &[]), standard);
}

#[test]
fn multi_head_attention() {
    let padding = Tensor::from_elements(&[2, 5], &[1i32, 1, 0, 1, 1, 1, 1, 1, 1, 0]).expect("ten");
    let inputs = [
        ("q", floats(&[2, 3, 8])),
        ("k", floats(&[2, 5, 8])),
        ("v", floats(&[2, 5, 8])),
        ("bias", floats(&[24])),
        ("padding", padding),
        ("added", floats(&[1, 2, 3, 5])),
    ];
    let fused = ["q", "k", "v", "bias", "padding", "added"];
    let fused = microsoft("MultiHeadAttention", &fused, &["y", "pk", "pv"], &[("num_heads", Value::Int(2))]);
    let shape = |n: &[i64]| vec![("value_ints", Value::Ints(n.to_vec()))];
    let heads = [("q_num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(2))];
    let spelled_out = vec![
        node("Split", &["bias"], &["bq", "bk", "bv"], &[("num_outputs", Value::Int(3)), ("axis", Value::Int(0))]),
        node("Add", &["q", "bq"], &["qb"], &[]),
        node("Add", &["k", "bk"], &["kb"], &[]),
        node("Add", &["v", "bv"], &["vb"], &[]),
        node("Constant", &[], &["shape"], &shape(&[2, 1, 1, 5])),
        node("Reshape", &["padding", "shape"], &["mask"], &[]),
        node("Cast", &["mask"], &["seen"], &[("to", Value::Int(1))]),
        node("Constant", &[], &["one"], &[("value_float", Value::Float(1.0))]),
        node("Constant", &[], &["far"], &[("value_float", Value::Float(10000.0))]),
        node("Sub", &["seen", "one"], &["unseen"], &[]),
        node("Mul", &["unseen", "far"], &["hidden"], &[]),
        node("Add", &["hidden", "added"], &["sum"], &[]),
        node("Attention", &["qb", "kb", "vb", "sum"], &["y", "pk", "pv"], &heads),
    ];
    same(&inputs, &["y", "pk", "pv"], fused, spelled_out);
}

#[test]
fn split_gelus_and_batches_behind_rows() {
    let inputs = [("x", floats(&[2, 3, 8])), ("b", floats(&[8]))];
    let spelled_out = vec![
        node("Add", &["x", "b"], &["s"], &[]),
        node("Split", &["s"], &["left", "right"], &[("num_outputs", Value::Int(2)), ("axis", Value::Int(2))]),
        node("Gelu", &["right"], &["gate"], &[]),
        node("Mul", &["left", "gate"], &["y"], &[]),
    ];
    same(&inputs, &["y"], microsoft("BiasSplitGelu", &["x", "b"], &["y"], &[]), spelled_out);
    let inputs = [("a", floats(&[3, 2, 4])), ("b", floats(&[2, 4, 5]))];
    let fused = microsoft("FusedMatMul", &["a", "b"], &["y"], &[("transBatchA", Value::Int(1))]);
    let spelled_out = vec![
        node("Transpose", &["a"], &["t"], &[("perm", Value::Ints(vec![1, 0, 2]))]),
        node("MatMul", &["t", "b"], &["y"], &[]),
    ];
    same(&inputs, &["y"], fused, spelled_out);
}

#[test]
fn embeddings() {
    let words = Tensor::from_elements(&[2, 3], &[4i32, 0, 6, 1, 1, 5]).expect("six");
    let segments = Tensor::from_elements(&[2, 3], &[0i32, 0, 1, 1, 0, 1]).expect("six");
    let mask = Tensor::from_elements(&[2, 3], &[1i32, 1, 0, 1, 1, 1]).expect("six");
    let inputs = [
        ("words", words),
        ("segments", segments),
        ("w", floats(&[7, 4])),
        ("p", floats(&[5, 4])),
        ("s", floats(&[2, 4])),
        ("gamma", floats(&[4])),
        ("beta", floats(&[4])),
        ("mask", mask),
    ];
    let epsilon = [("epsilon", Value::Float(1e-6))];
    let names = ["words", "segments", "w", "p", "s", "gamma", "beta", "mask"];
    let fused = microsoft("EmbedLayerNormalization", &names, &["y", "count", "sum"], &epsilon);
    let at = Tensor::from_elements(&[3], &[0i64, 1, 2]).expect("three");
    let axes = Tensor::from_elements(&[1], &[1i64]).expect("one");
    let spelled_out = vec![
        node("Gather", &["w", "words"], &["ww"], &[]),
        node("Constant", &[], &["at"], &[("value", Value::Tensor(at))]),
        node("Gather", &["p", "at"], &["pp"], &[]),
        node("Gather", &["s", "segments"], &["ss"], &[]),
        node("Sum", &["ww", "pp", "ss"], &["sum"], &[]),
        node("LayerNormalization", &["sum", "gamma", "beta"], &["y"], &epsilon),
        node("Constant", &[], &["axes"], &[("value", Value::Tensor(axes))]),
        node("ReduceSum", &["mask", "axes"], &["count"], &[("keepdims", Value::Int(0))]),
    ];
    same(&inputs, &["y", "count", "sum"], fused, spelled_out);
}

#[test]
fn projected_attention() {
    let lengths = Tensor::from_elements(&[2], &[3i32, 2]).expect("two");
    let inputs = [
        ("x", floats(&[2, 3, 6])),
        ("w", floats(&[6, 24])),
        ("b", floats(&[24])),
        ("lengths", lengths),
        ("past", floats(&[2, 2, 2, 1, 4])),
    ];
    let heads = || vec![("q_num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(2))];
    let project = || {
        vec![
            node("MatMul", &["x", "w"], &["xw"], &[]),
            node("Add", &["xw", "b"], &["qkv"], &[]),
            node("Split", &["qkv"], &["q", "k", "v"], &[("num_outputs", Value::Int(3)), ("axis", Value::Int(2))]),
        ]
    };
    // Keys from the end of each sequence on are hidden.
    let hidden = [0.0f32, 0.0, 0.0, 0.0, 0.0, -10000.0];
    let hidden = Tensor::from_elements(&[2, 1, 1, 3], &hidden).expect("six");
    let fused = microsoft("Attention", &["x", "w", "b", "lengths"], &["y"], &[("num_heads", Value::Int(2))]);
    let mut spelled_out = project();
    spelled_out.push(node("Constant", &[], &["mask"], &[("value", Value::Tensor(hidden))]));
    spelled_out.push(node("Attention", &["q", "k", "v", "mask"], &["y"], &heads()));
    same(&inputs, &["y"], fused, spelled_out);

    let attributes = [("num_heads", Value::Int(2)), ("unidirectional", Value::Int(1))];
    let fused = microsoft("Attention", &["x", "w", "b", "", "past"], &["y", "present"], &attributes);
    let mut spelled_out = project();
    let split = [("num_outputs", Value::Int(2)), ("axis", Value::Int(0))];
    let causal: Vec<_> = heads().into_iter().chain([("is_causal", Value::Int(1))]).collect();
    let stacked = Tensor::from_elements(&[1], &[0i64]).expect("one");
    spelled_out.extend([
        node("Split", &["past"], &["pk1", "pv1"], &split),
        node("Constant", &[], &["zero"], &[("value", Value::Tensor(stacked))]),
        node("Squeeze", &["pk1", "zero"], &["pk"], &[]),
        node("Squeeze", &["pv1", "zero"], &["pv"], &[]),
        node("Attention", &["q", "k", "v", "", "pk", "pv"], &["y", "nk", "nv"], &causal),
        node("Unsqueeze", &["nk", "zero"], &["nk1"], &[]),
        node("Unsqueeze", &["nv", "zero"], &["nv1"], &[]),
        node("Concat", &["nk1", "nv1"], &["present"], &[("axis", Value::Int(0))]),
    ]);
    same(&inputs, &["y", "present"], fused, spelled_out);
}

/// The last of one position after caches that are full; rotated, and with a window.
#[test]
fn grouped_queries_with_caches() {
    let lengths = Tensor::from_elements(&[2], &[3i32, 3]).expect("two");
    let at = Tensor::from_elements(&[2, 1], &[3i64, 3]).expect("two");
    let inputs = [
        ("q", floats(&[2, 1, 16])),
        ("k", floats(&[2, 1, 8])),
        ("v", floats(&[2, 1, 8])),
        ("pk", floats(&[2, 2, 3, 4])),
        ("pv", floats(&[2, 2, 3, 4])),
        ("lengths", lengths),
        ("cos", floats(&[9, 2])),
        ("sin", floats(&[9, 2])),
        ("at", at),
    ];
    let total = || {
        let total = Tensor::from_elements(&[], &[4i32]).expect("one");
        node("Constant", &[], &["total"], &[("value", Value::Tensor(total))])
    };
    let grouped = |rotates: i64, window: i64| {
        let attributes = [
            ("num_heads", Value::Int(4)),
            ("kv_num_heads", Value::Int(2)),
            ("do_rotary", Value::Int(rotates)),
            ("local_window_size", Value::Int(window)),
        ];
        let names = ["q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"];
        microsoft("GroupQueryAttention", &names, &["y", "nk", "nv"], &attributes)
    };
    let heads = |window: i64| {
        vec![
            ("q_num_heads", Value::Int(4)),
            ("kv_num_heads", Value::Int(2)),
            ("is_causal", Value::Int(1)),
            ("left_window_size", Value::Int(window)),
        ]
    };
    let outputs = ["y", "nk", "nv"];
    for (window, left) in [(-1, -1), (2, 1)] {
        let plain = vec![node("Attention", &["q", "k", "v", "", "pk", "pv"], &outputs, &heads(left))];
        same_with(&inputs, &outputs, vec![total(), grouped(0, window)], plain);
    }
    let rotated = vec![
        node("RotaryEmbedding", &["q", "cos", "sin", "at"], &["qr"], &[("num_heads", Value::Int(4))]),
        node("RotaryEmbedding", &["k", "cos", "sin", "at"], &["kr"], &[("num_heads", Value::Int(2))]),
        node("Attention", &["qr", "kr", "v", "", "pk", "pv"], &outputs, &heads(-1)),
    ];
    same_with(&inputs, &outputs, vec![total(), grouped(1, -1)], rotated);
}

/// Caches of seven rows of which three are full: the new row is the fourth, and what is behind it, which may be no numbers, nobody
/// sees.
#[test]
fn caches_with_room_are_read_as_far_as_they_are_full() {
    let room = |shape: [usize; 4]| {
        let full = floats(&shape);
        let (rows, size) = (shape[2], shape[3]);
        let of = |(n, &x): (usize, &f32)| if n / size % rows < 3 { x } else { f32::NAN };
        let elements: Vec<f32> = full.elements::<f32>().expect("floats").iter().enumerate().map(of).collect();
        Tensor::from_elements(&shape, &elements).expect("as many")
    };
    let inputs = [
        ("q", floats(&[2, 1, 16])),
        ("k", floats(&[2, 1, 8])),
        ("v", floats(&[2, 1, 8])),
        ("pk", room([2, 2, 7, 4])),
        ("pv", room([2, 2, 7, 4])),
        ("lengths", Tensor::from_elements(&[2], &[3i32, 3]).expect("two")),
    ];
    let constant = |name: &str, value: Tensor| node("Constant", &[], &[name], &[("value", Value::Tensor(value))]);
    let number = |n: i64| Tensor::from_elements(&[1], &[n]).expect("one");
    let part = |of: &str, end: &str, name: &str| node("Slice", &[of, "from", end, "axis"], &[name], &[]);
    let ends = || {
        let axis = [constant("from", number(0)), constant("axis", number(2))];
        axis.into_iter().chain([constant("three", number(3)), constant("four", number(4))]).collect::<Vec<_>>()
    };
    let total = constant("total", Tensor::from_elements(&[], &[4i32]).expect("one"));
    let attributes = [("num_heads", Value::Int(4)), ("kv_num_heads", Value::Int(2))];
    let names = ["q", "k", "v", "pk", "pv", "lengths", "total"];
    let mut fused = ends();
    fused.extend([total, microsoft("GroupQueryAttention", &names, &["y", "ck", "cv"], &attributes)]);
    fused.extend([part("ck", "four", "nk"), part("cv", "four", "nv")]);
    let heads = [("q_num_heads", Value::Int(4)), ("kv_num_heads", Value::Int(2)), ("is_causal", Value::Int(1))];
    let mut plain = ends();
    plain.extend([part("pk", "three", "hk"), part("pv", "three", "hv")]);
    plain.push(node("Attention", &["q", "k", "v", "", "hk", "hv"], &["y", "nk", "nv"], &heads));
    same_with(&inputs, &["y", "nk", "nv"], fused, plain);
}

/// Two more positions after five, in caches of five rows that hold a window of three: they drop three positions at once, so that
/// afterwards they hold the last four, and queries see what was there before.
#[test]
fn caches_that_hold_a_window() {
    let inputs = [
        ("q", floats(&[1, 2, 16])),
        ("k", floats(&[1, 2, 8])),
        ("v", floats(&[1, 2, 8])),
        ("pk", floats(&[1, 2, 5, 4])),
        ("pv", floats(&[1, 2, 5, 4])),
        ("lengths", Tensor::from_elements(&[1], &[6i32]).expect("one")),
    ];
    let constant = |name: &str, value: Tensor| node("Constant", &[], &[name], &[("value", Value::Tensor(value))]);
    let number = |n: i64| Tensor::from_elements(&[1], &[n]).expect("one");
    let ends =
        |from: i64, to: i64| [constant("from", number(from)), constant("to", number(to)), constant("axis", number(2))];
    let part = |of: &str, name: &str| node("Slice", &[of, "from", "to", "axis"], &[name], &[]);
    let heads = [("num_heads", Value::Int(4)), ("kv_num_heads", Value::Int(2))];
    let windowed = [("local_window_size", Value::Int(3)), ("sliding_window_cache", Value::Int(1))];
    let attributes: Vec<_> = heads.into_iter().chain(windowed).collect();
    let names = ["q", "k", "v", "pk", "pv", "lengths", "total"];
    let mut fused = vec![
        constant("total", Tensor::from_elements(&[], &[7i32]).expect("one")),
        microsoft("GroupQueryAttention", &names, &["y", "ck", "cv"], &attributes),
    ];
    fused.extend(ends(0, 4));
    fused.extend([part("ck", "nk"), part("cv", "nv")]);
    // Queries at positions 5 and 6.
    let seen: Vec<bool> = (5..7).flat_map(|query| (0..7).map(move |key| key <= query && key > query - 3)).collect();
    let mut spelled_out = vec![constant("mask", Tensor::from_bools(&[2, 7], &seen).expect("two rows"))];
    let heads = [("q_num_heads", Value::Int(4)), ("kv_num_heads", Value::Int(2))];
    spelled_out.push(node("Attention", &["q", "k", "v", "mask", "pk", "pv"], &["y", "ck", "cv"], &heads));
    spelled_out.extend(ends(3, 7));
    spelled_out.extend([part("ck", "nk"), part("cv", "nv")]);
    same_with(&inputs, &["y", "nk", "nv"], fused, spelled_out);
}

/// Operators that ONNX took over: the same, and taps that lie apart, which are those of a filter with zeros between them.
#[test]
fn states_of_fixed_size() {
    let inputs = [("x", floats(&[2, 3, 5])), ("w", floats(&[3, 1, 3])), ("b", floats(&[3])), ("s", floats(&[2, 3, 4]))];
    let taps = inputs[1].1.elements::<f32>().expect("floats");
    let apart: Vec<f32> = taps.chunks(3).flat_map(|t| [t[0], 0.0, t[1], 0.0, t[2]]).collect();
    let apart = Tensor::from_elements(&[3, 1, 5], &apart).expect("five taps");
    let silu = ("activation", Value::Text("silu".to_owned()));
    let attributes = [silu.clone(), ("dilation", Value::Int(2)), ("ndim", Value::Int(1))];
    let dilated = microsoft("CausalConvWithState", &["x", "w", "b", "s"], &["y", "n"], &attributes);
    let mut model = Builder::new(27);
    for (name, tensor) in &inputs {
        let shape: Vec<_> = tensor.shape().iter().map(|&d| crate::support::Extent::Number(d as i64)).collect();
        model = model.input(name, tensor.dtype(), &shape);
    }
    model = model.node(node("Constant", &[], &["z"], &[("value", Value::Tensor(apart))]));
    model = model.node(node("CausalConvWithState", &["x", "z", "b", "s"], &["y", "n"], &[silu]));
    let graph = model.output("y").output("n").import().unwrap_or_else(|e| panic!("{e}"));
    let data: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    let expected = run_graph(&graph, &[], &data).unwrap_or_else(|e| panic!("{e}"));
    for (found, expected) in run(&inputs, vec![dilated], &["y", "n"]).iter().zip(&expected) {
        compare("CausalConvWithState", found, expected, 1e-5);
    }
}

/// Norms by the names that ONNX Runtime's optimisers give them, in ONNX's own domain, whatever the opset.
#[test]
fn norms_of_onnx_runtime() {
    let inputs = [("x", floats(&[2, 3, 8])), ("scale", floats(&[8])), ("shift", floats(&[8]))];
    let epsilon = || vec![("epsilon", Value::Float(1e-6)), ("axis", Value::Int(-1))];
    let simplified = node("SimplifiedLayerNormalization", &["x", "scale"], &["y"], &epsilon());
    same(&inputs, &["y"], simplified, vec![node("RMSNormalization", &["x", "scale"], &["y"], &epsilon())]);
    let norm = || node("LayerNormalization", &["x", "scale", "shift"], &["y"], &epsilon());
    let mut old = Builder::new(12);
    for (name, tensor) in &inputs {
        let shape: Vec<_> = tensor.shape().iter().map(|&d| crate::support::Extent::Number(d as i64)).collect();
        old = old.input(name, tensor.dtype(), &shape);
    }
    let graph = old.node(norm()).output("y").import().unwrap_or_else(|e| panic!("{e}"));
    let data: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    let found = run_graph(&graph, &[], &data).unwrap_or_else(|e| panic!("{e}"));
    compare("LayerNormalization", &found[0], &run(&inputs, vec![norm()], &["y"])[0], 1e-6);
}

#[test]
fn quantised_softmax_and_pools_of_channels_last() {
    let bytes =
        Tensor::from_elements(&[1, 2, 3, 2], &[9u8, 200, 31, 4, 0, 255, 77, 120, 13, 14, 15, 16]).expect("twelve");
    let scalar = |value: f32| Tensor::scalar(value);
    let inputs = [
        ("x", bytes),
        ("xs", scalar(0.02)),
        ("xz", Tensor::scalar(120u8)),
        ("ys", scalar(0.004)),
        ("yz", Tensor::scalar(3u8)),
    ];
    let names = ["x", "xs", "xz", "ys", "yz"];
    let real = || node("DequantizeLinear", &["x", "xs", "xz"], &["r"], &[]);
    let back = |from: &str| node("QuantizeLinear", &[from, "ys", "yz"], &["y"], &[]);
    let fused = microsoft("QLinearSoftmax", &names, &["y"], &[("opset", Value::Int(13)), ("axis", Value::Int(2))]);
    let softmax = node("Softmax", &["r"], &["s"], &[("axis", Value::Int(2))]);
    same(&inputs, &["y"], fused, vec![real(), softmax, back("s")]);
    let fused = microsoft("QLinearGlobalAveragePool", &names, &["y"], &[("channels_last", Value::Int(1))]);
    let spelled_out = vec![
        real(),
        node("Transpose", &["r"], &["t"], &[("perm", Value::Ints(vec![0, 3, 1, 2]))]),
        node("GlobalAveragePool", &["t"], &["p"], &[]),
        node("Transpose", &["p"], &["q"], &[("perm", Value::Ints(vec![0, 2, 3, 1]))]),
        back("q"),
    ];
    same(&inputs, &["y"], fused, spelled_out);
}

#[test]
fn quantised_means_and_attention() {
    let bytes = |shape: &[usize], step: usize| {
        let elements: Vec<u8> = (0..shape.iter().product()).map(|n| (n * step + 7) as u8).collect();
        Tensor::from_elements(shape, &elements).expect("as many as the shape has")
    };
    let inputs = [
        ("x", bytes(&[2, 3, 4], 37)),
        ("xs", Tensor::scalar(0.02f32)),
        ("xz", Tensor::scalar(120u8)),
        ("ys", Tensor::scalar(0.004f32)),
        ("yz", Tensor::scalar(3u8)),
    ];
    for (axes, keep) in [(vec![1], 1), (vec![-1, 0], 0)] {
        let attributes = [("axes", Value::Ints(axes.clone())), ("keepdims", Value::Int(keep))];
        let fused = microsoft("QLinearReduceMean", &["x", "xs", "xz", "ys", "yz"], &["y"], &attributes);
        let of = Tensor::from_elements(&[axes.len()], &axes).expect("as many");
        let spelled_out = vec![
            node("DequantizeLinear", &["x", "xs", "xz"], &["r"], &[]),
            node("Constant", &[], &["axes"], &[("value", Value::Tensor(of))]),
            node("ReduceMean", &["r", "axes"], &["m"], &[("keepdims", Value::Int(keep))]),
            node("QuantizeLinear", &["m", "ys", "yz"], &["y"], &[]),
        ];
        same(&inputs, &["y"], fused, spelled_out);
    }

    let scales: Vec<f32> = (0..24u8).map(|n| 0.001 + 0.0005 * f32::from(n)).collect();
    let inputs = [
        ("x", bytes(&[2, 3, 6], 41)),
        ("w", bytes(&[6, 24], 29)),
        ("b", floats(&[24])),
        ("xs", Tensor::scalar(0.02f32)),
        ("ws", Tensor::from_elements(&[24], &scales).expect("one per column")),
        ("xz", Tensor::scalar(120u8)),
        ("wz", Tensor::scalar(128u8)),
        ("past", floats(&[2, 2, 2, 1, 4])),
    ];
    let names = ["x", "w", "b", "xs", "ws", "", "xz", "wz", "past"];
    let attributes = [("num_heads", Value::Int(2)), ("unidirectional", Value::Int(1))];
    let fused = microsoft("QAttention", &names, &["y", "present"], &attributes);
    let zero = Tensor::from_elements(&[1], &[0i64]).expect("one");
    let mut spelled_out = vec![
        node("Constant", &[], &["zero"], &[("value", Value::Tensor(zero))]),
        node("MatMulInteger", &["x", "w", "xz", "wz"], &["sums"], &[]),
        node("Cast", &["sums"], &["sumsr"], &[("to", Value::Int(1))]),
        node("Mul", &["xs", "ws"], &["scales"], &[]),
        node("Mul", &["sumsr", "scales"], &["real"], &[]),
        node("Add", &["real", "b"], &["qkv"], &[]),
        node("Split", &["qkv"], &["q", "k", "v"], &[("num_outputs", Value::Int(3)), ("axis", Value::Int(2))]),
        node("Split", &["past"], &["pks", "pvs"], &[("num_outputs", Value::Int(2)), ("axis", Value::Int(0))]),
        node("Squeeze", &["pks", "zero"], &["pk"], &[]),
        node("Squeeze", &["pvs", "zero"], &["pv"], &[]),
    ];
    let heads = [("q_num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(2)), ("is_causal", Value::Int(1))];
    spelled_out.push(node("Attention", &["q", "k", "v", "", "pk", "pv"], &["y", "nk", "nv"], &heads));
    spelled_out.push(node("Unsqueeze", &["nk", "zero"], &["uk"], &[]));
    spelled_out.push(node("Unsqueeze", &["nv", "zero"], &["uv"], &[]));
    spelled_out.push(node("Concat", &["uk", "uv"], &["present"], &[("axis", Value::Int(0))]));
    same(&inputs, &["y", "present"], fused, spelled_out);
}

/// What the standard has by now.
#[test]
fn what_was_there_before_the_standard() {
    let integers = |shape: &[usize], values: &[i64]| Tensor::from_elements(shape, values).expect("as many");
    let constant = |name: &str, value: Tensor| node("Constant", &[], &[name], &[("value", Value::Tensor(value))]);
    let constants = || {
        vec![
            constant("k", integers(&[], &[1])),
            constant("axes", integers(&[1], &[1])),
            constant("pads", integers(&[4], &[1, 0, 2, 3])),
        ]
    };
    let inputs = [
        ("x", floats(&[3, 5])),
        ("value", Tensor::scalar(0.5f32)),
        ("z", floats(&[3, 4])),
        ("i", floats(&[1, 2, 4, 5])),
    ];
    let inputs = [&inputs[..], &[("grid", floats(&[1, 2, 3, 2]))]].concat();
    let is_same = |older: NodeProto, newer: Vec<NodeProto>| {
        let of = |nodes: Vec<NodeProto>| run(&inputs, [constants(), nodes].concat(), &["y"]);
        let name = older.op_type().to_owned();
        compare(&name, &of(vec![older])[0], &of(newer)[0], 0.0);
    };
    let lower = [("upper", Value::Int(0))];
    is_same(microsoft("Trilu", &["x", "k"], &["y"], &lower), vec![node("Trilu", &["x", "k"], &["y"], &lower)]);
    let names = ["x", "pads", "value"];
    is_same(microsoft("Pad", &names, &["y"], &[]), vec![node("Pad", &names, &["y"], &[])]);
    let newer = vec![node("Unsqueeze", &["x", "axes"], &["y"], &[])];
    is_same(microsoft("ExpandDims", &["x", "k"], &["y"], &[]), newer);
    let padding = ("padding_mode", Value::Text("border".to_owned()));
    let plain = [("mode", Value::Text("linear".to_owned())), padding.clone()];
    let newer = vec![node("GridSample", &["i", "grid"], &["y"], &plain)];
    is_same(microsoft("GridSample", &["i", "grid"], &["y"], &[padding]), newer);
    let newer = vec![
        node("Transpose", &["x"], &["t"], &[("perm", Value::Ints(vec![1, 0]))]),
        node("MatMul", &["t", "z"], &["y"], &[]),
    ];
    is_same(microsoft("TransposeMatMul", &["x", "z"], &["y"], &[("transA", Value::Int(1))]), newer);
}

#[test]
fn convolutions_and_maxima_of_channels_last() {
    let bytes = |len: usize, step: usize| (0..len).map(|n| (n * step + 11) as u8).collect::<Vec<u8>>();
    let signed = |len: usize| (0..len).map(|n| (n * 83 + 5) as u8 as i8).collect::<Vec<i8>>();
    // Channels before spatial axes would have other groups, and another kernel would fit.
    let x = Tensor::from_elements(&[2, 4, 5, 6], &bytes(240, 37)).expect("as many");
    let weights = |shape: &[usize]| Tensor::from_elements(shape, &signed(shape.iter().product())).expect("as many");
    let order = |from: &str, to: &str, order: [i64; 4]| {
        node("Transpose", &[from], &[to], &[("perm", Value::Ints(order.to_vec()))])
    };
    let spelled_out = |inner: NodeProto| vec![order("x", "t", [0, 3, 1, 2]), inner, order("r", "y", [0, 2, 3, 1])];
    for (group, w) in [(1, weights(&[3, 6, 2, 3])), (6, weights(&[12, 1, 2, 3]))] {
        let outputs = w.shape()[0];
        let inputs = [
            ("x", x.clone()),
            ("xs", Tensor::scalar(0.02f32)),
            ("xz", Tensor::scalar(120u8)),
            ("w", w),
            ("ws", Tensor::from_elements(&[outputs], &vec![0.01f32; outputs]).expect("as many")),
            ("wz", Tensor::zeros(infc_tensor::DType::I8, &[outputs]).expect("small")),
            ("ys", Tensor::scalar(0.11f32)),
            ("yz", Tensor::scalar(100u8)),
            ("b", Tensor::from_elements(&[outputs], &vec![700i32; outputs]).expect("as many")),
        ];
        let rest = ["xs", "xz", "w", "ws", "wz", "ys", "yz", "b"];
        let of = |x: &'static str| std::iter::once(x).chain(rest).collect::<Vec<&str>>();
        let attributes = vec![
            ("group", Value::Int(group)),
            ("pads", Value::Ints(vec![1, 0, 0, 2])),
            ("strides", Value::Ints(vec![1, 2])),
        ];
        let last = [&attributes[..], &[("channels_last", Value::Int(1))]].concat();
        let fused = microsoft("QLinearConv", &of("x"), &["y"], &last);
        same(&inputs, &["y"], fused, spelled_out(node("QLinearConv", &of("t"), &["r"], &attributes)));
        let first = microsoft("QLinearConv", &of("t"), &["r"], &attributes);
        same(&inputs, &["y"], microsoft("QLinearConv", &of("x"), &["y"], &last), spelled_out(first));
    }
    let window = [("kernel_shape", Value::Ints(vec![2, 3])), ("pads", Value::Ints(vec![1, 0, 0, 1]))];
    let fused = microsoft("NhwcMaxPool", &["x"], &["y"], &window);
    same(&[("x", x)], &["y"], fused, spelled_out(node("MaxPool", &["t"], &["r"], &window)));
}

/// What `DynamicQuantizeLSTM` gives for these inputs after the first, which is of `[3, 1, 3]`.
fn quantised_lstm(x: &[f32], weights: &[(&str, Tensor)], direction: &str) -> Vec<Tensor> {
    let of = |name: &str| weights.iter().find(|(n, _)| *n == name).expect("one of them").1.clone();
    let mut inputs = vec![("x", Tensor::from_elements(&[3, 1, 3], x).expect("nine"))];
    let mut nodes = Vec::new();
    for name in ["w", "r", "b", "ws", "wz", "rs", "rz"] {
        // Weights are constants, as they are where a model was quantised.
        nodes.push(node("Constant", &[], &[name], &[("value", Value::Tensor(of(name)))]));
    }
    let names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"];
    let attributes = [("hidden_size", Value::Int(2)), ("direction", Value::Text(direction.to_owned()))];
    let lstm = microsoft("DynamicQuantizeLSTM", &names, &["y", "h", "c"], &attributes);
    let folded = run(&inputs, nodes.into_iter().chain([lstm.clone()]).collect(), &["y", "h", "c"]);
    inputs.extend(weights.iter().cloned());
    let found = run(&inputs, vec![lstm], &["y", "h", "c"]);
    for (a, b) in found.iter().zip(&folded) {
        compare("weights that are constants", a, b, 1e-6);
    }
    found
}

/// Expected is what ONNX Runtime 1.32 gives.
#[test]
fn an_lstm_of_quantised_weights() {
    let signed = |shape: &[usize], list: &[i8]| Tensor::from_elements(shape, list).expect("as many");
    let real = |shape: &[usize], list: &[f32]| Tensor::from_elements(shape, list).expect("as many");
    let weights = [
        (
            "w",
            signed(
                &[1, 3, 8],
                &[
                    -94, -78, -10, -22, 77, 3, -16, -14, 33, 17, -66, 47, 51, 91, 57, -44, -37, 29, 30, 39, 73, -42,
                    87, -100,
                ],
            ),
        ),
        ("r", signed(&[1, 2, 8], &[-85, 94, 88, -41, -73, -38, -92, 78, 32, 17, -52, -6, -62, 54, -6, -94])),
        (
            "b",
            real(
                &[1, 16],
                &[-0.41, 0.16, 0.43, -0.29, 0.13, -0.2, 0.24, 0.22, -0.28, 0.33, 0.16, 0.18, 0.32, -0.07, 0.26, 0.38],
            ),
        ),
        ("ws", real(&[1], &[0.0156])),
        ("wz", signed(&[1], &[0])),
        ("rs", real(&[1], &[0.0106])),
        ("rz", signed(&[1], &[0])),
    ];
    let found = quantised_lstm(&[-1.66, -1.05, 1.21, 0.33, -1.62, -0.27, -0.08, -1.36, 0.94], &weights, "forward");
    let y = [0.479_902_68, -0.119_935_52, 0.059_804_544, 0.064_669_4, 0.093_728_46, 0.025_423_717];
    let c = [0.102_032_274, 0.069_003_53];
    let expected = [real(&[3, 1, 1, 2], &y), real(&[1, 1, 2], &y[4..]), real(&[1, 1, 2], &c)];
    for (found, expected) in found.iter().zip(&expected) {
        compare("DynamicQuantizeLSTM", found, expected, 1e-6);
    }
}

/// Both directions, a scale and a zero point per row, bytes without sign. Expected is what ONNX Runtime 1.32 gives.
#[test]
fn an_lstm_of_weights_quantised_by_rows() {
    let bytes = |shape: &[usize], list: &[u8]| Tensor::from_elements(shape, list).expect("as many");
    let real = |shape: &[usize], list: &[f32]| Tensor::from_elements(shape, list).expect("as many");
    let w = [
        130, 139, 101, 101, 39, 150, 224, 55, 193, 51, 20, 181, 51, 183, 86, 140, 226, 221, 119, 57, 67, 205, 145, 48,
        213, 231, 232, 153, 234, 149, 125, 233, 149, 191, 88, 191, 233, 22, 133, 94, 21, 29, 71, 54, 174, 59, 154, 207,
    ];
    let r = [
        123, 39, 25, 78, 104, 123, 80, 205, 140, 232, 225, 172, 16, 59, 182, 135, 227, 172, 198, 21, 77, 166, 155, 94,
        46, 145, 30, 163, 194, 163, 24, 130,
    ];
    let b = [
        -0.24, 0.07, -0.18, 0.12, 0.08, -0.4, -0.06, -0.11, 0.21, -0.41, -0.33, 0.01, -0.1, 0.17, -0.17, -0.3, 0.43,
        -0.26, -0.35, -0.22, -0.16, -0.27, 0.04, 0.44, -0.37, -0.08, 0.17, 0.38, 0.5, -0.36, 0.04, 0.38,
    ];
    let ws = [
        0.0133, 0.008, 0.0124, 0.0069, 0.0122, 0.013, 0.0166, 0.0109, 0.0053, 0.0129, 0.0081, 0.0161, 0.0108, 0.0107,
        0.0186, 0.0109,
    ];
    let rs = [
        0.0102, 0.0102, 0.0122, 0.0064, 0.0132, 0.0188, 0.0134, 0.0162, 0.0192, 0.0176, 0.0162, 0.0172, 0.0173, 0.0088,
        0.0122, 0.0101,
    ];
    let weights = [
        ("w", bytes(&[2, 3, 8], &w)),
        ("r", bytes(&[2, 2, 8], &r)),
        ("b", real(&[2, 16], &b)),
        ("ws", real(&[2, 8], &ws)),
        ("wz", bytes(&[2, 8], &[128; 16])),
        ("rs", real(&[2, 8], &rs)),
        ("rz", bytes(&[2, 8], &[125; 16])),
    ];
    let x = [-1.59, 1.4, -0.42, -0.08, -1.41, 0.79, -0.83, 1.48, -0.9];
    let found = quantised_lstm(&x, &weights, "bidirectional");
    let y = [
        -0.080_227_24,
        0.107_227_184,
        0.050_252_024,
        -0.260_474_56,
        -0.071_154_01,
        -0.184_368_73,
        0.235_998_4,
        -0.020_988_505,
        -0.048_039_664,
        -0.164_898_23,
        -0.028_157_985,
        -0.518_150_1,
    ];
    let h = [-0.048_039_664, -0.164_898_23, 0.050_252_024, -0.260_474_56];
    let c = [-0.556_085_65, -0.216_186_31, 0.274_453_1, -0.372_285_43];
    let expected = [real(&[3, 2, 1, 2], &y), real(&[2, 1, 2], &h), real(&[2, 1, 2], &c)];
    for (found, expected) in found.iter().zip(&expected) {
        compare("DynamicQuantizeLSTM", found, expected, 1e-6);
    }
}

#[test]
fn products_with_their_activations() {
    let inputs =
        [("x", floats(&[1, 3, 5, 5])), ("w", floats(&[4, 3, 3, 3])), ("b", floats(&[4])), ("z", floats(&[1, 4, 3, 3]))];
    let named = |name: &str| ("activation", Value::Text(name.to_owned()));
    let conv = || node("Conv", &["x", "w", "b"], &["c"], &[]);
    let list = |list: &[f32]| ("activation_params", Value::Floats(list.to_vec()));
    let fused = microsoft("FusedConv", &["x", "w", "b", "z"], &["y"], &[named("Relu")]);
    let relu = vec![conv(), node("Add", &["c", "z"], &["s"], &[]), node("Relu", &["s"], &["y"], &[])];
    same(&inputs, &["y"], fused, relu);
    let fused = microsoft("FusedConv", &["x", "w", "b"], &["y"], &[named("LeakyRelu"), list(&[0.3])]);
    let leaky = vec![conv(), node("LeakyRelu", &["c"], &["y"], &[("alpha", Value::Float(0.3))])];
    same(&inputs[..3], &["y"], fused, leaky);
    let fused = microsoft("FusedConv", &["x", "w", "b"], &["y"], &[named("HardSigmoid"), list(&[0.25, 0.4])]);
    let attributes = [("alpha", Value::Float(0.25)), ("beta", Value::Float(0.4))];
    same(&inputs[..3], &["y"], fused, vec![conv(), node("HardSigmoid", &["c"], &["y"], &attributes)]);
    let fused = microsoft("FusedConv", &["x", "w", "b"], &["y"], &[named("Clip"), list(&[-0.5, 0.75])]);
    let bound = |name: &str, value: f32| node("Constant", &[], &[name], &[("value_float", Value::Float(value))]);
    let clip = vec![conv(), bound("lo", -0.5), bound("hi", 0.75), node("Clip", &["c", "lo", "hi"], &["y"], &[])];
    same(&inputs[..3], &["y"], fused, clip);
    let inputs = [("a", floats(&[3, 4])), ("b", floats(&[4, 5])), ("c", floats(&[5]))];
    let alpha = ("activation_alpha", Value::Float(0.3));
    let fused =
        microsoft("FusedGemm", &["a", "b", "c"], &["y"], &[named("LeakyRelu"), alpha, ("alpha", Value::Float(0.5))]);
    let gemm = node("Gemm", &["a", "b", "c"], &["g"], &[("alpha", Value::Float(0.5))]);
    same(&inputs, &["y"], fused, vec![gemm, node("LeakyRelu", &["g"], &["y"], &[("alpha", Value::Float(0.3))])]);
}
