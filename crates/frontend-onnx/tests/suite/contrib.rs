//! The operators of `com.microsoft`, each compared with a model that spells it out in standard operators.

use crate::support::{Builder, Value, node};
use crate::values::{compare, floats};
use infc_frontend_onnx::proto::{NodeProto, OperatorSetIdProto};
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_tensor::Tensor;

const MICROSOFT: &str = "com.microsoft";

fn microsoft(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> NodeProto {
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
fn same(inputs: &[(&str, Tensor)], outputs: &[&str], fused: NodeProto, spelled_out: Vec<NodeProto>) {
    let what = fused.op_type().to_owned();
    let found = run(inputs, vec![fused], outputs);
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
