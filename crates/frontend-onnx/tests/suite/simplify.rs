//! ONNX to simpler ONNX: what is left out, what has to stay, and that the meaning does.

use crate::support::{Builder, Extent, Value, ints, named, node, value_info};
use infc_frontend_onnx::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use infc_frontend_onnx::{DimChoice, ImportOptions, LoadOptions, Model, encode, import, simplify};
use infc_ir::interp::run_graph;
use infc_tensor::{DType, Tensor};
use prost::Message;
use std::collections::HashSet;
use std::fs;

#[track_caller]
fn simple_with(model: &Builder, options: &ImportOptions) -> ModelProto {
    let loaded = model.load().unwrap_or_else(|e| panic!("{e}"));
    let simplified = simplify(&loaded, options).unwrap_or_else(|e| panic!("{e}"));
    // It is a model again, and nothing is left to do.
    let again = Model::from_bytes(simplified.model.encode_to_vec(), None).unwrap_or_else(|e| panic!("{e}"));
    let twice = simplify(&again, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(operators(&twice.model), operators(&simplified.model));
    simplified.model
}

#[track_caller]
fn simple(model: &Builder) -> ModelProto {
    simple_with(model, &ImportOptions::default())
}

fn graph(model: &ModelProto) -> &GraphProto {
    model.graph.as_ref().expect("a graph")
}

fn operators(model: &ModelProto) -> Vec<&str> {
    graph(model).node.iter().map(NodeProto::op_type).collect()
}

/// Both models compute the same from `x`; dims are those of the only symbol.
#[track_caller]
fn same(before: &Builder, after: &ModelProto, symbols: &[i64], x: &Tensor) {
    let before = before.import().unwrap_or_else(|e| panic!("{e}"));
    let after = Model::from_bytes(after.encode_to_vec(), None).expect("it loads");
    let after = import(&after, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let run = |graph| run_graph(graph, symbols, std::slice::from_ref(x)).expect("it runs");
    assert_eq!(run(&before), run(&after));
}

fn count(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|n| n as f32 - 3.0).collect();
    Tensor::from_elements(shape, &elements).expect("fits")
}

/// `[N, 3, 4]` reshaped to what `Shape → Gather → Concat` make of the first extent and -1.
fn flattened(opset: i64) -> Builder {
    Builder::new(opset)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3), Extent::Number(4)])
        .initializer("zero", &ints(&[0]))
        .initializer("rest", &ints(&[-1]))
        .node(node("Shape", &["x"], &["shape"], &[]))
        .node(node("Gather", &["shape", "zero"], &["first"], &[]))
        .node(node("Concat", &["first", "rest"], &["wanted"], &[("axis", Value::Int(0))]))
        .node(named("/flatten", node("Reshape", &["x", "wanted"], &["y"], &[])))
        .output("y")
}

#[test]
fn shapes_that_follow_from_dims_become_constants() {
    let model = flattened(17);
    let simple = simple(&model);
    assert_eq!(operators(&simple), ["Reshape"]);
    assert_eq!(graph(&simple).node[0].name(), "/flatten");
    assert_eq!(graph(&simple).initializer.len(), 1);
    for n in [1, 2, 5] {
        same(&model, &simple, &[n as i64], &count(&[n, 3, 4]));
    }
}

#[test]
fn dims_that_are_given_are_fixed_in_inputs_and_outputs() {
    let model = flattened(17);
    let options = ImportOptions { dims: vec![("N".to_owned(), DimChoice::Fixed(2))], ..ImportOptions::default() };
    let simple = simple_with(&model, &options);
    let fixed = |port: &ValueInfoProto, shape: &[i64]| {
        let shape: Vec<Extent<'_>> = shape.iter().map(|&n| Extent::Number(n)).collect();
        assert_eq!(port.r#type, value_info("", DType::F32, Some(&shape)).r#type);
    };
    fixed(&graph(&simple).input[0], &[2, 3, 4]);
    fixed(&graph(&simple).output[0], &[2, 12]);
}

#[test]
fn what_changes_nothing_is_left_out_and_outputs_keep_their_names() {
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .initializer("shape", &ints(&[2, 3]))
        .node(node("Identity", &["x"], &["a"], &[]))
        .node(node("Relu", &["a"], &["b"], &[]))
        .node(node("Dropout", &["b"], &["c"], &[]))
        .node(node("Reshape", &["c", "shape"], &["d"], &[]))
        .node(node("Cast", &["d"], &["y"], &[("to", Value::Int(1))]))
        .output("y");
    let simple = simple(&model);
    assert_eq!(operators(&simple), ["Relu"]);
    assert_eq!((&graph(&simple).node[0].input[0][..], &graph(&simple).node[0].output[0][..]), ("x", "y"));
    same(&model, &simple, &[], &count(&[2, 3]));
}

#[test]
fn an_output_that_is_an_input_stays_a_copy() {
    let model = Builder::new(17).f32("x", &[2]).node(node("Identity", &["x"], &["y"], &[])).output("y");
    assert_eq!(operators(&simple(&model)), ["Identity"]);
}

#[test]
fn constants_are_folded_where_that_makes_no_file_much_larger() {
    let large = Tensor::from_elements(&[64, 64], &vec![0.5f32; 4096]).expect("fits");
    let model = |tail: NodeProto| {
        Builder::new(17)
            .f32("x", &[64, 64])
            .initializer("w", &large)
            .node(node("Constant", &[], &["two"], &[("value", Value::Tensor(Tensor::scalar(2.0f32)))]))
            .node(node("Mul", &["w", "two"], &["scaled"], &[]))
            .node(tail)
            .node(node("MatMul", &["x", "v"], &["y"], &[]))
            .output("y")
    };
    let transposed = model(node("Transpose", &["scaled"], &["v"], &[]));
    let simple_model = simple(&transposed);
    assert_eq!(operators(&simple_model), ["MatMul"]);
    assert_eq!(graph(&simple_model).initializer.len(), 1);
    same(&transposed, &simple_model, &[], &count(&[64, 64]));
    let tiled = Builder::new(17)
        .f32("x", &[64, 640])
        .initializer("w", &large)
        .initializer("times", &ints(&[1, 10]))
        .node(node("Tile", &["w", "times"], &["v"], &[]))
        .node(node("Add", &["x", "v"], &["y"], &[]))
        .output("y");
    assert_eq!(operators(&simple(&tiled)), ["Tile", "Add"]);
}

#[test]
fn an_output_that_is_known_comes_from_a_constant() {
    let model = Builder::new(17).f32("x", &[2, 3]).node(node("Shape", &["x"], &["y"], &[])).output("y");
    let simple = simple(&model);
    assert_eq!(operators(&simple), ["Constant"]);
    same(&model, &simple, &[], &count(&[2, 3]));
}

#[test]
fn integers_stay_integers() {
    let weights = Tensor::from_elements(&[3], &[1i8, -2, 3]).expect("fits");
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .initializer("w", &weights)
        .initializer("scale", &Tensor::scalar(0.5f32))
        .node(node("DequantizeLinear", &["w", "scale"], &["v"], &[]))
        .node(node("Neg", &["v"], &["u"], &[]))
        .node(node("Add", &["x", "u"], &["y"], &[]))
        .output("y");
    assert_eq!(operators(&simple(&model)), ["DequantizeLinear", "Neg", "Add"]);
}

#[test]
fn the_same_is_computed_once_and_chance_as_often_as_it_is_asked() {
    let model = Builder::new(17)
        .f32("x", &[4])
        .node(node("Exp", &["x"], &["a"], &[]))
        .node(node("Exp", &["x"], &["b"], &[]))
        .node(node("Neg", &["a"], &["c"], &[]))
        .node(node("Neg", &["b"], &["d"], &[]))
        .node(node("Mul", &["c", "d"], &["y"], &[]))
        .output("y");
    let simple_model = simple(&model);
    assert_eq!(operators(&simple_model), ["Exp", "Neg", "Mul"]);
    same(&model, &simple_model, &[], &count(&[4]));
    let random = Builder::new(17)
        .f32("x", &[4])
        .node(node("RandomNormalLike", &["x"], &["a"], &[]))
        .node(node("RandomNormalLike", &["x"], &["b"], &[]))
        .node(node("Sub", &["a", "b"], &["y"], &[]))
        .output("y");
    assert_eq!(operators(&simple(&random)).len(), 3);
}

fn branch(nodes: Vec<NodeProto>, output: &str) -> Value {
    Value::Graph(GraphProto {
        name: Some("branch".to_owned()),
        node: nodes,
        output: vec![value_info(output, DType::F32, None)],
        ..GraphProto::default()
    })
}

/// Three choices that the rank of the input decides; both branches use the same names inside.
fn decided() -> Builder {
    // Exporters ask for the rank of what is squeezed.
    let choice = |condition: &str, input: &str, output: &str| {
        let then = branch(vec![node("Neg", &[input], &["inner"], &[]), node("Exp", &["inner"], &["out"], &[])], "out");
        let other = branch(vec![node("Abs", &[input], &["out"], &[])], "out");
        node("If", &[condition], &[output], &[("then_branch", then), ("else_branch", other)])
    };
    Builder::new(17)
        .f32("x", &[2, 3])
        .initializer("two", &ints(&[2]))
        .node(node("Shape", &["x"], &["shape"], &[]))
        .node(node("Shape", &["shape"], &["rank"], &[]))
        .node(node("Equal", &["rank", "two"], &["is_two"], &[]))
        .node(node("Not", &["is_two"], &["is_other"], &[]))
        .node(choice("is_two", "x", "a"))
        .node(choice("is_two", "a", "b"))
        .node(choice("is_other", "b", "y"))
        .output("y")
}

#[test]
fn known_branches_take_the_place_of_their_if() {
    let model = decided();
    let simple = simple(&model);
    assert_eq!(operators(&simple), ["Neg", "Exp", "Neg", "Exp", "Abs"]);
    same(&model, &simple, &[], &count(&[2, 3]));
}

#[test]
fn a_choice_of_the_run_keeps_both_branches_without_what_they_do_not_need() {
    let then = branch(vec![node("Neg", &["c"], &["out"], &[]), node("Exp", &["c"], &["unread"], &[])], "out");
    let other = branch(vec![node("Abs", &["c"], &["out"], &[])], "out");
    let model = Builder::new(17)
        .input("go", DType::Bool, &[])
        .f32("x", &[3])
        .node(node("Identity", &["x"], &["c"], &[]))
        .node(node("If", &["go"], &["y"], &[("then_branch", then), ("else_branch", other)]))
        .output("y");
    let simple = simple(&model);
    assert_eq!(operators(&simple), ["If"]);
    let branches = &graph(&simple).node[0].attribute;
    let nodes = |n: usize| branches[n].g.as_ref().map(|g| g.node.clone()).expect("a graph");
    assert_eq!((nodes(0).len(), nodes(1).len()), (1, 1));
    assert_eq!(nodes(0)[0].input, ["x"], "branches read what is left around them");
}

#[test]
fn sizes_that_have_to_be_taken_for_granted_fold_nothing() {
    // Whether [N] and [M] can be added is for the run to say, and so is whether the sum has as many elements as x.
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N")])
        .input("z", DType::F32, &[Extent::Named("M")])
        .node(node("Add", &["x", "z"], &["sum"], &[]))
        .node(node("Shape", &["sum"], &["a"], &[]))
        .node(node("Shape", &["x"], &["b"], &[]))
        .node(node("Equal", &["a", "b"], &["y"], &[]))
        .output("y");
    let simplified = simplify(&model.load().expect("it loads"), &ImportOptions::default()).expect("it simplifies");
    assert!(simplified.supposes);
    assert_eq!(operators(&simplified.model), ["Add", "Shape", "Shape", "Equal"]);
}

#[test]
fn calls_are_written_out_unless_they_mean_other_opsets() {
    let function = |opset| FunctionProto {
        name: Some("F".to_owned()),
        domain: Some("my".to_owned()),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("Neg", &["a"], &["t"], &[]), node("Identity", &["t"], &["b"], &[])],
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }],
        ..FunctionProto::default()
    };
    let model = |opset| {
        let call = NodeProto { domain: Some("my".to_owned()), ..node("F", &["c"], &["y"], &[]) };
        let mut model = Builder::new(17).import_opset("my", 1).f32("x", &[3]);
        model.model.functions = vec![function(opset)];
        model.node(node("Identity", &["x"], &["c"], &[])).node(call).output("y")
    };
    let (same_opset, other_opset) = (simple(&model(17)), simple(&model(13)));
    assert_eq!(operators(&same_opset), ["Neg"]);
    assert!(same_opset.functions.is_empty());
    assert_eq!(operators(&other_opset), ["F"]);
    same(&model(17), &same_opset, &[], &count(&[3]));
    same(&model(13), &other_opset, &[], &count(&[3]));
    // Nodes of a function that is called twice have names of their own.
    let mut twice = Builder::new(17).import_opset("my", 1).f32("x", &[3]);
    let nodes = vec![named("n", node("Neg", &["a"], &["t"], &[])), named("n", node("Exp", &["t"], &["b"], &[]))];
    twice.model.functions = vec![FunctionProto { node: nodes, ..function(17) }];
    let call = |from: &str, to: &str| NodeProto { domain: Some("my".to_owned()), ..node("F", &[from], &[to], &[]) };
    let simplified = simple(&twice.node(call("x", "c")).node(call("c", "y")).output("y"));
    let names: HashSet<&str> = graph(&simplified).node.iter().map(|node| node.name()).collect();
    assert_eq!((operators(&simplified).len(), names.len()), (4, 4), "{names:?}");
}

#[test]
fn large_constants_go_into_a_file_of_their_own() {
    let large = Tensor::from_elements(&[3, 200], &(0..600).map(|n| n as f32).collect::<Vec<_>>()).expect("fits");
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .initializer("small", &Tensor::scalar(2.0f32))
        .initializer("w", &large)
        .initializer("v", &large.clone())
        .node(node("MatMul", &["x", "w"], &["a"], &[]))
        .node(node("Mul", &["a", "small"], &["y"], &[]))
        .output("y");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.onnx");
    let encoded = encode(model.model.clone(), Some("m.onnx.data")).expect("it encodes");
    let data = encoded.data.expect("there is data");
    let mut bytes = Vec::new();
    data.write_to(&mut bytes).expect("memory takes it");
    assert_eq!(bytes.len() as u64, data.len_bytes());
    assert!(bytes.len() >= 4800 && encoded.model.len() < 1000, "{} and {}", bytes.len(), encoded.model.len());
    fs::write(&path, &encoded.model).expect("it can be written");
    fs::write(folder.path().join("m.onnx.data"), &bytes).expect("it can be written");
    let read = Model::load(&path, &LoadOptions::default()).expect("it loads");
    assert_eq!(read.graph().initializer, model.load().expect("it loads").graph().initializer);
}
