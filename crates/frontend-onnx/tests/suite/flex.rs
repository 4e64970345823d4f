//! `FlexAttention`, compared with a model that spells it out.

use crate::support::{Builder, Extent, Value, node, value_info};
use crate::values::{compare, floats};
use infc_frontend_onnx::proto::{GraphProto, NodeProto};
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

/// A graph of one node over `x` and values from outside.
fn graph(node: NodeProto) -> Value {
    let shape = ["B", "H", "L", "S"].map(Extent::Named);
    Value::Graph(GraphProto {
        name: Some("modifier".to_owned()),
        input: vec![value_info("x", DType::F32, Some(&shape))],
        output: vec![value_info("z", DType::F32, Some(&shape))],
        node: vec![node],
        ..GraphProto::default()
    })
}

fn run(inputs: &[(&str, Tensor)], nodes: Vec<NodeProto>) -> Tensor {
    let mut model = Builder::new(23).import_opset("ai.onnx.preview", 1);
    for (name, tensor) in inputs {
        let shape: Vec<_> = tensor.shape().iter().map(|&d| Extent::Number(d as i64)).collect();
        model = model.input(name, tensor.dtype(), &shape);
    }
    let model = nodes.into_iter().fold(model, Builder::node).output("y");
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let data: Vec<Tensor> = inputs.iter().map(|(_, t)| t.clone()).collect();
    run_graph(&graph, &[], &data).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

#[test]
fn graphs_change_scores_and_weights() {
    // Query heads 2n and 2n + 1 share head n of the keys.
    let inputs = [
        ("q", floats(&[2, 4, 3, 5])),
        ("k", floats(&[2, 2, 6, 5])),
        ("v", floats(&[2, 2, 6, 7])),
        ("bias", floats(&[3, 6])),
        ("share", floats(&[6])),
    ];
    let attributes = [
        ("score_mod", graph(node("Add", &["x", "bias"], &["z"], &[]))),
        ("prob_mod", graph(node("Mul", &["x", "share"], &["z"], &[]))),
        ("scale", Value::Float(0.3)),
    ];
    let flex = node("FlexAttention", &["q", "k", "v"], &["y"], &attributes);
    let flex = NodeProto { domain: Some("ai.onnx.preview".to_owned()), ..flex };
    let repeats = || ("value_ints", Value::Ints(vec![1, 1, 2, 1, 1]));
    let spread = |x: &'static str, n: i64| {
        let [split, tiled, shape, one, times, y] =
            ["split", "tiled", "shape", "one", "times", "all"].map(|s| format!("{x}_{s}"));
        let whole = Value::Ints(vec![2, 4, 6, n]);
        vec![
            node("Constant", &[], &[&one], &[("value_ints", Value::Ints(vec![2]))]),
            node("Unsqueeze", &[x, &one], &[&split], &[]),
            node("Constant", &[], &[&times], &[repeats()]),
            node("Tile", &[&split, &times], &[&tiled], &[]),
            node("Constant", &[], &[&shape], &[("value_ints", whole)]),
            node("Reshape", &[&tiled, &shape], &[&y], &[]),
        ]
    };
    let mut spelled_out = [spread("k", 5), spread("v", 7)].concat();
    spelled_out.extend([
        node("Transpose", &["k_all"], &["kt"], &[("perm", Value::Ints(vec![0, 1, 3, 2]))]),
        node("MatMul", &["q", "kt"], &["qk"], &[]),
        node("Constant", &[], &["scale"], &[("value_float", Value::Float(0.3))]),
        node("Mul", &["qk", "scale"], &["scaled"], &[]),
        node("Add", &["scaled", "bias"], &["changed"], &[]),
        node("Softmax", &["changed"], &["weights"], &[]),
        node("Mul", &["weights", "share"], &["shared"], &[]),
        node("MatMul", &["shared", "v_all"], &["y"], &[]),
    ]);
    compare("FlexAttention", &run(&inputs, vec![flex]), &run(&inputs, spelled_out), 1e-5);
}

#[test]
fn graphs_must_keep_the_shape() {
    let attributes = [("score_mod", graph(node("Flatten", &["x"], &["z"], &[])))];
    let flex = node("FlexAttention", &["q", "q", "q"], &["y"], &attributes);
    let flex = NodeProto { domain: Some("ai.onnx.preview".to_owned()), ..flex };
    let model = Builder::new(23).import_opset("ai.onnx.preview", 1).f32("q", &[1, 2, 3, 4]).node(flex).output("y");
    let error = model.import().expect_err("the graph changes the shape");
    assert_eq!(error.code(), "onnx::shape-mismatch", "{error}");
}
