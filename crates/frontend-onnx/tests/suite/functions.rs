//! Model-local functions are written out where they are called.

use crate::hostile::survives;
use crate::support::{Builder, Value, attribute, node};
use infc_frontend_onnx::ImportError;
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
};
use infc_ir::interp::run_graph;
use infc_tensor::Tensor;

fn function(name: &str, opset: i64, inputs: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> FunctionProto {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    let import = |domain: &str, version| OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) };
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("my".to_owned()),
        input: owned(inputs),
        output: owned(outputs),
        node: nodes,
        opset_import: vec![import("", opset), import("my", 1)],
        ..FunctionProto::default()
    }
}

fn call(name: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> NodeProto {
    NodeProto { domain: Some("my".to_owned()), ..node(name, inputs, outputs, attributes) }
}

/// The node with an attribute whose value the call gives.
fn referring(mut node: NodeProto, name: &str, to: &str, ty: AttributeType) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        ref_attr_name: Some(to.to_owned()),
        r#type: Some(ty as i32),
        ..AttributeProto::default()
    });
    node
}

fn model(functions: Vec<FunctionProto>, nodes: Vec<NodeProto>) -> Builder {
    let mut model = Builder::new(21).import_opset("my", 1).f32("x", &[3]);
    model.model.functions = functions;
    nodes.into_iter().fold(model, Builder::node).output("y")
}

#[track_caller]
fn computes(model: &Builder, expected: &[f32]) {
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    let x = Tensor::from_elements(&[3], &[1.0f32, -2.0, 4.0]).expect("fits");
    let found = run_graph(&graph, &[], &[x]).expect("it runs");
    assert_eq!(found[0].elements::<f32>().expect("floats"), expected);
    survives(model, 200);
}

#[track_caller]
fn refused(model: &Builder, code: &str) -> ImportError {
    let error = model.import().expect_err("it is refused");
    assert_eq!(error.code(), code, "{error}");
    survives(model, 20);
    error
}

#[test]
fn names_inside_are_those_of_one_call() {
    let square = function(
        "Square",
        21,
        &["a"],
        &["r"],
        vec![node("Identity", &["a"], &["x"], &[]), node("Mul", &["x", "a"], &["r"], &[])],
    );
    let calls = vec![call("Square", &["x"], &["s"], &[]), call("Square", &["s"], &["y"], &[])];
    computes(&model(vec![square], calls), &[1.0, 16.0, 256.0]);
}

#[test]
fn functions_call_functions() {
    let twice = function("Twice", 21, &["a"], &["r"], vec![node("Add", &["a", "a"], &["r"], &[])]);
    let four = function(
        "Four",
        21,
        &["a"],
        &["r"],
        vec![call("Twice", &["a"], &["b"], &[]), call("Twice", &["b"], &["r"], &[])],
    );
    computes(&model(vec![four, twice], vec![call("Four", &["x"], &["y"], &[])]), &[4.0, -8.0, 16.0]);
}

#[test]
fn attributes_are_given_defaulted_or_left_out() {
    let body = vec![referring(node("LeakyRelu", &["a"], &["r"], &[]), "alpha", "slope", AttributeType::Float)];
    let mut leaky = function("Leaky", 21, &["a"], &["r"], body);
    leaky.attribute = vec!["slope".to_owned()];
    let given = [("slope", Value::Float(0.5))];
    computes(&model(vec![leaky.clone()], vec![call("Leaky", &["x"], &["y"], &given)]), &[1.0, -1.0, 4.0]);
    computes(&model(vec![leaky.clone()], vec![call("Leaky", &["x"], &["y"], &[])]), &[1.0, -0.02, 4.0]);
    leaky.attribute_proto = vec![attribute("slope", Value::Float(0.25))];
    computes(&model(vec![leaky.clone()], vec![call("Leaky", &["x"], &["y"], &[])]), &[1.0, -0.5, 4.0]);
    // Through another function, whose attribute has another name.
    let outer = vec![referring(call("Leaky", &["a"], &["r"], &[]), "slope", "steepness", AttributeType::Float)];
    let outer = function("Outer", 21, &["a"], &["r"], outer);
    let given = [("steepness", Value::Float(2.0))];
    computes(&model(vec![leaky, outer], vec![call("Outer", &["x"], &["y"], &given)]), &[1.0, -4.0, 4.0]);
}

#[test]
fn optional_inputs_and_outputs_may_be_left_out() {
    let body = vec![node("Clip", &["a", "lo", "hi"], &["r"], &[]), node("Neg", &["a"], &["other"], &[])];
    let clip = function("Limit", 21, &["a", "lo", "hi"], &["other", "r"], body);
    let mut limited = model(vec![clip], vec![call("Limit", &["x", "", "two"], &["", "y"], &[])]);
    limited = limited.initializer("two", &Tensor::scalar(2.0f32));
    computes(&limited, &[1.0, -2.0, 2.0]);
}

#[test]
fn an_input_may_be_an_output() {
    let same = function("Same", 21, &["a"], &["a", "n"], vec![node("Neg", &["a"], &["n"], &[])]);
    let calls = vec![call("Same", &["x"], &["s", "t"], &[]), node("Sub", &["s", "t"], &["y"], &[])];
    computes(&model(vec![same], calls), &[2.0, -4.0, 8.0]);
}

#[test]
fn a_function_has_its_own_opsets() {
    // Axes were an attribute up to opset 12; the model itself has opset 21.
    let body = vec![
        node("Unsqueeze", &["a"], &["b"], &[("axes", Value::Ints(vec![0]))]),
        node("ReduceSum", &["b"], &["c"], &[("axes", Value::Ints(vec![1])), ("keepdims", Value::Int(0))]),
        node("Add", &["a", "c"], &["r"], &[]),
    ];
    let old = function("Old", 11, &["a"], &["r"], body);
    let both = vec![call("Old", &["x"], &["o"], &[]), node("Neg", &["o"], &["y"], &[])];
    computes(&model(vec![old.clone()], both.clone()), &[-4.0, -1.0, -7.0]);
    refused(
        &model(vec![FunctionProto { opset_import: old.opset_import[1..].to_vec(), ..old.clone() }], both.clone()),
        "onnx::opset-missing",
    );
    let mut new = old;
    new.opset_import[0].version = Some(99);
    refused(&model(vec![new], both), "onnx::opset-too-new");
}

#[test]
fn graphs_inside_are_renamed_too() {
    let output = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    let branch = |op: &str| GraphProto {
        node: vec![call("Twice", &["a"], &["t"], &[]), node(op, &["t"], &["u"], &[])],
        output: vec![output("u")],
        ..GraphProto::default()
    };
    let choose = node(
        "If",
        &["c"],
        &["r"],
        &[("then_branch", Value::Graph(branch("Neg"))), ("else_branch", Value::Graph(branch("Abs")))],
    );
    let sum = node("ReduceSum", &["a"], &["s"], &[("keepdims", Value::Int(0))]);
    let zero = node("Constant", &[], &["z"], &[("value", Value::Tensor(Tensor::scalar(0.0f32)))]);
    let compare = node("Greater", &["s", "z"], &["c"], &[]);
    let signed = function("Signed", 21, &["a"], &["r"], vec![sum, zero, compare, choose]);
    let twice = function("Twice", 21, &["a"], &["r"], vec![node("Add", &["a", "a"], &["r"], &[])]);
    computes(&model(vec![signed, twice], vec![call("Signed", &["x"], &["y"], &[])]), &[-2.0, 4.0, -8.0]);
}

#[test]
fn what_never_ends_is_refused() {
    let first = function("First", 21, &["a"], &["r"], vec![call("Second", &["a"], &["r"], &[])]);
    let second = function("Second", 21, &["a"], &["r"], vec![call("First", &["a"], &["r"], &[])]);
    let error =
        refused(&model(vec![first, second], vec![call("First", &["x"], &["y"], &[])]), "onnx::recursive-function");
    assert!(error.to_string().contains("First → Second → First"), "{error}");
}

#[test]
fn what_grows_beyond_measure_is_refused() {
    // Each calls the next one four times.
    let name = |n: usize| format!("F{n}");
    let functions = (0..40).map(|n| {
        let next = name(n + 1);
        let calls = ["b", "c", "d", "r"].map(|out| call(&next, &["a"], &[out], &[]));
        function(&name(n), 21, &["a"], &["r"], calls.to_vec())
    });
    let last = function(&name(40), 21, &["a"], &["r"], vec![node("Neg", &["a"], &["r"], &[])]);
    let model = model(functions.chain([last]).collect(), vec![call("F0", &["x"], &["y"], &[])]);
    let error = model.import().expect_err("it is refused");
    assert_eq!(error.code(), "onnx::functions-too-large", "{error}");
}

#[test]
fn errors_name_the_calls() {
    let inner = function(
        "Inner",
        21,
        &["a"],
        &["r"],
        vec![crate::support::named("odd", node("Frobnicate", &["a"], &["r"], &[]))],
    );
    let outer =
        function("Outer", 21, &["a"], &["r"], vec![crate::support::named("in", call("Inner", &["a"], &["r"], &[]))]);
    let top = crate::support::named("/block", call("Outer", &["x"], &["y"], &[]));
    let error = refused(&model(vec![inner.clone(), outer], vec![top]), "onnx::unsupported-operator");
    assert_eq!(error.nodes()[0].name, "/block/in/odd");
    let error =
        refused(&model(vec![inner.clone()], vec![call("Inner", &["x", "x"], &["y"], &[])]), "onnx::invalid-call");
    assert!(error.to_string().contains("2 inputs, expected at most 1"), "{error}");
    refused(&model(vec![inner.clone(), inner], vec![call("Inner", &["x"], &["y"], &[])]), "onnx::duplicate-name");
}
