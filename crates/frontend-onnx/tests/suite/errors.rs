//! One test per error code: bad models are refused with the right code, the node and what was expected.

use crate::contrib::microsoft;
use crate::support::{Builder, Extent, Value, ints, named, node, value_info};
use infc_frontend_onnx::proto::{
    NodeProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto,
    tensor_proto::DataLocation, type_proto,
};
use infc_frontend_onnx::{
    DimChoice, ImportError, ImportOptions, LoadOptions, Model, NEWEST_IR_VERSION, NEWEST_OPSET, ShapeDim, import,
    to_proto,
};
use infc_ir::op::Op;
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};
use std::path::Path;

/// `y = Relu(x)`, f32 of 2×3.
fn relu() -> Builder {
    Builder::new(17).f32("x", &[2, 3]).node(named("act", node("Relu", &["x"], &["y"], &[]))).output("y")
}

/// One node `y = Op(x)` over f32 of the given shape.
fn one(opset: i64, shape: &[i64], node: NodeProto) -> Builder {
    Builder::new(opset).f32("x", shape).node(node).output("y")
}

#[track_caller]
fn check(result: Result<impl Sized, ImportError>, code: &str) -> ImportError {
    let error = result.err().unwrap_or_else(|| panic!("expected {code}"));
    assert_eq!(error.code(), code, "{error}");
    assert!(error.help().is_some(), "{code} has help");
    error
}

/// As `check`, for errors that must name the node `name`.
#[track_caller]
fn check_node(result: Result<impl Sized, ImportError>, code: &str, name: &str) -> ImportError {
    let error = check(result, code);
    let nodes = error.nodes();
    assert!(nodes.iter().any(|n| n.name == name), "{error} names {name}: {nodes:?}");
    error
}

/// Messages call dims what the model calls them.
#[test]
fn dims_have_their_names() {
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("H"), Extent::Number(4)])
        .input("z", DType::F32, &[Extent::Named("W"), Extent::Number(4), Extent::Number(7)])
        .node(node("Concat", &["x", "z"], &["y"], &[("axis", Value::Int(0))]))
        .output("y");
    let error = model.import().expect_err("they do not fit").to_string();
    assert!(error.contains("found shape [W, 4, 7]"), "{error}");
}

#[test]
fn a_good_model_is_imported() {
    assert_eq!(relu().import().expect("it is valid").order.len(), 1);
}

#[test]
fn a_missing_file_cannot_be_read() {
    check(Model::load(Path::new("no such file.onnx"), &LoadOptions::default()), "onnx::cannot-read");
}

#[test]
fn a_truncated_file_is_malformed() {
    let bytes = relu().bytes();
    check(Model::from_bytes(bytes[..bytes.len() - 3].to_vec(), None), "onnx::malformed");
}

#[test]
fn no_truncation_or_changed_byte_panics() {
    let bytes = relu().bytes();
    for len in 0..bytes.len() {
        assert!(Model::from_bytes(bytes[..len].to_vec(), None).is_err(), "{len} of {} bytes", bytes.len());
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            if let Ok(model) = Model::from_bytes(changed, None) {
                let _ = import(&model, &ImportOptions::default());
            }
        }
    }
}

#[test]
fn nothing_is_no_model() {
    check(Model::from_bytes(Vec::new(), None), "onnx::not-a-model");
}

#[test]
fn another_protobuf_is_no_model() {
    use prost::Message;
    let tensor = to_proto("x", &ints(&[1, 2, 3])).encode_to_vec();
    let error = Model::from_bytes(tensor, None).expect_err("a tensor is no model");
    assert!(["onnx::not-a-model", "onnx::malformed"].contains(&error.code()), "{error}");
    let entry = StringStringEntryProto { key: Some("a".into()), value: None };
    let unknown = [&[0xa2, 0x06, 0x03][..], &entry.encode_to_vec()].concat();
    check(Model::from_bytes(unknown, None), "onnx::not-a-model");
}

#[test]
fn deeply_nested_graphs_are_malformed_not_a_stack_overflow() {
    let mut inner = relu();
    for _ in 0..200 {
        let graph = inner.graph().clone();
        inner = Builder::new(17).node(node("If", &[], &["y"], &[("then_branch", Value::Graph(graph))])).output("y");
    }
    check(inner.load(), "onnx::malformed");
}

#[test]
fn ir_versions_are_limited() {
    let mut model = relu();
    model.model.ir_version = Some(NEWEST_IR_VERSION + 1);
    check(model.load(), "onnx::unsupported-ir-version");
}

#[test]
fn opset_99_is_too_new() {
    let error = check(one(99, &[1], node("Relu", &["x"], &["y"], &[])).load(), "onnx::opset-too-new");
    assert!(error.to_string().contains("99") && error.to_string().contains(&NEWEST_OPSET.to_string()), "{error}");
}

#[test]
fn opset_0_is_too_old() {
    check(one(0, &[1], node("Relu", &["x"], &["y"], &[])).load(), "onnx::opset-too-old");
}

#[test]
fn a_domain_must_be_imported() {
    let foreign = NodeProto { domain: Some("my.ops".into()), ..node("Relu", &["x"], &["y"], &[]) };
    check_node(one(17, &[1], foreign).load(), "onnx::opset-missing", "y");
}

#[test]
fn names_must_be_defined() {
    check_node(one(17, &[1], node("Add", &["x", "ghost"], &["y"], &[])).load(), "onnx::dangling-name", "y");
    check(Builder::new(17).f32("x", &[1]).output("y").load(), "onnx::dangling-name");
}

#[test]
fn names_are_defined_once() {
    let twice = one(17, &[1], node("Relu", &["x"], &["y"], &[])).node(named("again", node("Abs", &["x"], &["y"], &[])));
    check_node(twice.load(), "onnx::duplicate-name", "again");
    check(relu().f32("x", &[1]).load(), "onnx::duplicate-name");
    // An output may be listed twice; it is one.
    let model = relu().output("y").load().unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = model.outputs().map(|output| output.name()).collect();
    assert_eq!(names, ["y"]);
    let graph = infc_frontend_onnx::import(&model, &ImportOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.outputs.len(), 1);
}

#[test]
fn a_cycle_is_named() {
    let model = Builder::new(17)
        .f32("x", &[1])
        .node(node("Add", &["x", "c"], &["a"], &[]))
        .node(node("Relu", &["a"], &["b"], &[]))
        .node(node("Relu", &["b"], &["c"], &[]))
        .node(node("Relu", &["c"], &["y"], &[]))
        .output("y");
    let error = check(model.load(), "onnx::cycle");
    let names: Vec<&str> = error.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(["a", "b", "c"].iter().all(|n| names.contains(n)), "{names:?}");
}

#[test]
fn nodes_may_come_in_any_order() {
    let model = Builder::new(17)
        .f32("x", &[1])
        .node(node("Relu", &["a"], &["y"], &[]))
        .node(node("Abs", &["x"], &["a"], &[]))
        .output("y");
    assert_eq!(model.load().expect("there is an order").order(), [1, 0]);
}

#[test]
fn initializers_must_have_their_elements() {
    let short = TensorProto { dims: vec![4], ..to_proto("w", &ints(&[1, 2, 3])) };
    let error = check(relu().raw_initializer(short).load(), "onnx::invalid-tensor");
    assert!(error.to_string().contains("`w`"), "{error}");
    let untyped = TensorProto { data_type: Some(0), ..to_proto("w", &ints(&[1])) };
    check(relu().raw_initializer(untyped).load(), "onnx::invalid-tensor");
    let negative = TensorProto { dims: vec![-1], ..to_proto("w", &ints(&[1])) };
    check(relu().raw_initializer(negative).load(), "onnx::invalid-tensor");
}

#[test]
fn sizes_must_not_overflow() {
    let huge = TensorProto { dims: vec![1 << 40, 1 << 40], ..to_proto("w", &ints(&[1])) };
    check(relu().raw_initializer(huge).load(), "dim::overflow");
    // Empty, but its other extents overflow when they are multiplied first.
    let empty = TensorProto { dims: vec![1 << 40, 1 << 40, 0], ..to_proto("w", &ints(&[])) };
    check(relu().raw_initializer(empty).load(), "dim::overflow");
    check(one(17, &[1 << 40, 1 << 40], node("Relu", &["x"], &["y"], &[])).import(), "dim::overflow");
    let grown =
        one(17, &[1 << 20, 1], node("Expand", &["x", "s"], &["y"], &[])).initializer("s", &ints(&[1 << 20, 1 << 30]));
    check_node(grown.import(), "dim::overflow", "y");
}

/// A model with one external tensor of four floats.
fn external(location: &str, offset: u64, length: Option<u64>) -> Builder {
    let entry = |key: &str, value: String| StringStringEntryProto { key: Some(key.into()), value: Some(value) };
    let mut entries = vec![entry("location", location.into()), entry("offset", offset.to_string())];
    entries.extend(length.map(|l| entry("length", l.to_string())));
    let tensor = TensorProto {
        name: Some("w".into()),
        dims: vec![4],
        data_type: Some(1),
        data_location: Some(DataLocation::External as i32),
        external_data: entries,
        ..TensorProto::default()
    };
    Builder::new(17).f32("x", &[4]).raw_initializer(tensor).node(node("Add", &["x", "w"], &["y"], &[])).output("y")
}

fn load_in(folder: &Path, model: &Builder) -> Result<Model, ImportError> {
    let path = folder.join("model.onnx");
    std::fs::write(&path, model.bytes()).expect("the folder is writable");
    Model::load(&path, &LoadOptions::default())
}

#[test]
fn external_data_is_found_beside_the_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("weights")).expect("a new folder");
    let floats: Vec<u8> = [0.0f32, 1.0, 2.0, 3.0, 4.0].iter().flat_map(|f| f.to_le_bytes()).collect();
    std::fs::write(folder.path().join("weights/w.bin"), floats).expect("a new file");
    let model = load_in(folder.path(), &external("weights/w.bin", 4, Some(16))).expect("the data is there");
    assert_eq!(model.data_files().len(), 1);
    let raw = model.graph().initializer[0].raw_data.clone().expect("it is resolved");
    assert_eq!(raw[..4], 1.0f32.to_le_bytes());
}

#[test]
fn external_data_may_be_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    check(load_in(folder.path(), &external("w.bin", 0, None)), "onnx::external-data-missing");
    // A model from memory has no folder.
    check(external("w.bin", 0, None).load(), "onnx::external-data-missing");
}

#[test]
fn external_data_may_be_too_short() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("w.bin"), [0; 16]).expect("a new file");
    let error = check(load_in(folder.path(), &external("w.bin", 8, None)), "onnx::external-data-too-short");
    assert!(error.to_string().contains("24") && error.to_string().contains("16"), "{error}");
    check(load_in(folder.path(), &external("w.bin", u64::MAX, None)), "onnx::external-data-too-short");
}

#[test]
fn external_data_stays_within_the_folder() {
    let outer = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(outer.path().join("secret.bin"), [0; 16]).expect("a new file");
    let folder = outer.path().join("model");
    std::fs::create_dir(&folder).expect("a new folder");
    let absolute = outer.path().join("secret.bin").display().to_string();
    for location in ["../secret.bin", "a/../../secret.bin", &absolute, ""] {
        check(load_in(&folder, &external(location, 0, None)), "onnx::external-data-outside");
    }
}

#[cfg(unix)]
#[test]
fn external_data_does_not_follow_links_out_of_the_folder() {
    let outer = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(outer.path().join("secret.bin"), [0; 16]).expect("a new file");
    let folder = outer.path().join("model");
    std::fs::create_dir(&folder).expect("a new folder");
    std::os::unix::fs::symlink(outer.path().join("secret.bin"), folder.join("link.bin")).expect("a new link");
    std::os::unix::fs::symlink(outer.path(), folder.join("up")).expect("a new link");
    for location in ["link.bin", "up/secret.bin"] {
        check(load_in(&folder, &external(location, 0, None)), "onnx::external-data-outside");
    }
}

#[test]
fn external_data_entries_are_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("w.bin"), [0; 16]).expect("a new file");
    check(load_in(folder.path(), &external("w.bin", 0, Some(12))), "onnx::external-data-invalid");
    let mut model = external("w.bin", 0, None);
    model.graph().initializer[0].external_data[1].value = Some("-1".into());
    check(load_in(folder.path(), &model), "onnx::external-data-invalid");
}

#[test]
fn unsupported_operators_are_reported_all_at_once() {
    let mut model = Builder::new(17)
        .f32("x", &[1])
        .node(named("n1", node("Frobnicate", &["x"], &["a"], &[])))
        .node(named("n2", node("Relu", &["a"], &["b"], &[])))
        .node(named("n3", node("Frobnicate", &["b"], &["c"], &[])))
        .node(NodeProto { domain: Some("my.ops".into()), ..named("n4", node("Relu", &["c"], &["y"], &[])) })
        .node(named("dead", node("NeverUsed", &["x"], &["z"], &[])))
        .output("y");
    model.model.opset_import.push(OperatorSetIdProto { domain: Some("my.ops".into()), version: Some(3) });
    let error = check_node(model.import(), "onnx::unsupported-operator", "n4");
    let ImportError::UnsupportedOperators { operators } = &error else { panic!("{error}") };
    let found: Vec<(String, usize)> = operators.iter().map(|o| (o.to_string(), o.nodes.len())).collect();
    assert_eq!(found, [("Frobnicate (opset 17, 2×)".into(), 2), ("my.ops.Relu (opset 3, 1×)".into(), 1)]);
}

/// What is wrong with nodes that do not follow from each other is told at once; what follows from a node that cannot be imported
/// is not.
#[test]
fn problems_are_reported_all_at_once() {
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .node(named("n1", node("Softmax", &["x"], &["a"], &[("axis", Value::Float(1.0))])))
        .node(named("n2", node("DepthToSpace", &["a"], &["b"], &[("blocksize", Value::Int(0))])))
        .node(named("n3", node("Frobnicate", &["x"], &["c"], &[])))
        .node(named("n4", node("Elu", &["x"], &["d"], &[("alpha", Value::Int(1))])))
        .node(named("n5", node("Concat", &["b", "c", "d"], &["y"], &[])))
        .output("y");
    let error = model.import().expect_err("it cannot be imported");
    let ImportError::Several { first, others } = &error else { panic!("{error}") };
    assert_eq!((first.code(), error.code()), ("onnx::unsupported-operator", "onnx::unsupported-operator"));
    let nodes: Vec<&str> = error.nodes().into_iter().map(|node| &*node.name).collect();
    assert_eq!(nodes, ["n3", "n1", "n4"]);
    let text = error.to_string();
    assert!(others.len() == 2 && text.matches("\n  also: ").count() == 2 && text.contains("Frobnicate"), "{text}");
    // One that follows from none is told alone.
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .node(named("n1", node("Softmax", &["x"], &["a"], &[("axis", Value::Float(1.0))])))
        .node(named("n2", node("Softmax", &["a"], &["y"], &[("axis", Value::Float(1.0))])))
        .output("y");
    check_node(model.import(), "onnx::invalid-attribute", "n1");
}

#[test]
fn an_operator_of_a_later_opset_is_not_known_yet() {
    check(one(17, &[1], node("Gelu", &["x"], &["y"], &[])).import(), "onnx::unsupported-operator");
}

#[test]
fn unsupported_attributes_say_what_is_supported() {
    // A node without a value says nothing that a constant could be.
    let nothing = node("Constant", &[], &["y"], &[("sparse_value", Value::Int(0))]);
    let error = check_node(one(22, &[1], nothing).import(), "onnx::unsupported-attribute", "y");
    assert!(error.to_string().contains("sparse_value"), "{error}");
}

#[test]
fn attributes_have_their_type_and_values() {
    let wrong_type = node("Softmax", &["x"], &["y"], &[("axis", Value::Float(1.0))]);
    check_node(one(17, &[2, 3], wrong_type).import(), "onnx::invalid-attribute", "y");
    let wrong_value = node("DepthToSpace", &["x"], &["y"], &[("blocksize", Value::Int(0))]);
    check_node(one(17, &[1, 4, 2, 2], wrong_value).import(), "onnx::invalid-attribute", "y");
}

#[test]
fn inputs_must_be_there() {
    check_node(one(17, &[1], node("Add", &["x"], &["y"], &[])).import(), "onnx::missing-input", "y");
}

/// Keys of a cache without its values would be as long as the longest sequence, and values as long as the prompt.
#[test]
fn caches_have_keys_and_values() {
    let heads = [("num_heads", Value::Int(2)), ("kv_num_heads", Value::Int(1))];
    for (key, value) in [("past", ""), ("", "past")] {
        let inputs = ["x", "x1", "x1", key, value, "lengths", "total"];
        let mut model = Builder::new(23);
        let version = OperatorSetIdProto { domain: Some("com.microsoft".to_owned()), version: Some(1) };
        model.model.opset_import.push(version);
        let model = model
            .f32("x", &[1, 2, 8])
            .f32("x1", &[1, 2, 4])
            .f32("past", &[1, 1, 6, 4])
            .input("lengths", DType::I32, &[Extent::Number(1)])
            .input("total", DType::I32, &[])
            .node(microsoft("GroupQueryAttention", &inputs, &["y"], &heads))
            .output("y");
        check_node(model.import(), "onnx::missing-input", "y");
    }
}

#[test]
fn outputs_must_exist() {
    let model = one(17, &[4], node("Relu", &["x"], &["y", "i"], &[]));
    check_node(model.import(), "onnx::unsupported-output", "y");
}

#[test]
fn element_types_must_suit_the_operator() {
    let model = Builder::new(17)
        .input("x", DType::I64, &[Extent::Number(2)])
        .node(node("Exp", &["x"], &["y"], &[]))
        .output("y");
    check_node(model.import(), "onnx::unsupported-type", "y");
}

#[test]
fn element_types_must_agree() {
    let model = one(17, &[3], node("Add", &["x", "w"], &["y"], &[])).initializer("w", &ints(&[1, 2, 3]));
    check_node(model.import(), "onnx::type-mismatch", "y");
}

#[test]
fn shapes_must_fit() {
    let sum =
        Builder::new(17).f32("x", &[2, 3]).f32("z", &[2, 4]).node(node("Add", &["x", "z"], &["y"], &[])).output("y");
    check_node(sum.import(), "onnx::shape-mismatch", "y");
    let product =
        Builder::new(17).f32("x", &[2, 3]).f32("z", &[4, 5]).node(node("MatMul", &["x", "z"], &["y"], &[])).output("y");
    check_node(product.import(), "onnx::shape-mismatch", "y");
    let axis = node("Softmax", &["x"], &["y"], &[("axis", Value::Int(5))]);
    check_node(one(17, &[2, 3], axis).import(), "onnx::shape-mismatch", "y");
    let reshape = one(17, &[2, 3], node("Reshape", &["x", "s"], &["y"], &[])).initializer("s", &ints(&[4, -1]));
    check_node(reshape.import(), "onnx::shape-mismatch", "y");
}

#[test]
fn numbers_of_axes_need_not_be_known() {
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .input("s", DType::I64, &[Extent::Named("R")])
        .node(node("Reshape", &["x", "s"], &["y"], &[]))
        .output("y");
    let graph = model.import().expect("the host computes it");
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    assert!(graph.is_unranked(&graph.outputs[0]) && !graph.is_unranked(&graph.inputs[0]));
}

#[test]
fn dims_that_cannot_be_equal_are_refused() {
    let dims = |n: i64, m: i64| ImportOptions {
        dims: vec![("N".into(), DimChoice::Range(n, Some(n + 2))), ("M".into(), DimChoice::Range(m, Some(m + 2)))],
        ..ImportOptions::default()
    };
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N")])
        .input("z", DType::F32, &[Extent::Named("M")])
        .node(node("Add", &["x", "z"], &["y"], &[]))
        .output("y");
    check_node(model.import_with(&dims(4, 7)), "onnx::shape-mismatch", "y");
    model.import_with(&dims(4, 6)).expect("both may be 6");
}

#[test]
fn ranks_are_limited() {
    let axes: Vec<i64> = (0..40).collect();
    let model = one(17, &[2], node("Unsqueeze", &["x", "a"], &["y"], &[])).initializer("a", &ints(&axes));
    check_node(model.import(), "dim::rank-too-large", "y");
}

#[test]
fn size_expressions_cannot_explode() {
    // Each step squares the number of terms.
    let mut model = Builder::new(17).input("x", DType::F32, &[Extent::Named("N"), Extent::Named("M")]);
    model = model.node(node("Shape", &["x"], &["s0"], &[])).node(node("ReduceSum", &["s0"], &["t0"], &[]));
    for n in 0..20 {
        let (from, to) = (format!("t{n}"), format!("t{}", n + 1));
        model = model.node(node("Mul", &[&from, &from], &[&to], &[]));
    }
    model = model.node(node("Expand", &["x", "t20"], &["y"], &[])).output("y");
    // Too long to be a dim: it is computed, and the extents follow from what the host makes.
    let graph = model.import().expect("the host expands it");
    let on_host = graph.order.iter().filter(|&&id| matches!(graph.nodes[id].op, Op::Host(_))).count();
    assert_eq!(on_host, 1);

    // A sum of eight symbols, cubed.
    let names: Vec<String> = (0..8).map(|n| format!("N{n}")).collect();
    let extents: Vec<Extent<'_>> = names.iter().map(|n| Extent::Named(n)).collect();
    let model = Builder::new(17)
        .input("x", DType::F32, &extents)
        .initializer("one", &Tensor::scalar(1.0f32))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("ReduceSum", &["s"], &["t"], &[]))
        .node(node("Concat", &["t", "t", "t"], &["c"], &[("axis", Value::Int(0))]))
        .node(node("Expand", &["one", "c"], &["e"], &[]))
        .node(node("Flatten", &["e"], &["y"], &[("axis", Value::Int(0))]))
        .output("y");
    check_node(model.import(), "dim::too-complex", "y");
}

fn with_input_type(value: Option<type_proto::Value>) -> Builder {
    let mut model = relu();
    let ty = Some(TypeProto { denotation: None, value });
    model.graph().input[0] = ValueInfoProto { name: Some("x".into()), r#type: ty, ..ValueInfoProto::default() };
    model
}

#[test]
fn only_tensors_are_values() {
    let sequence = type_proto::Value::SequenceType(Box::default());
    check(with_input_type(Some(sequence)).import(), "onnx::unsupported-value-type");
    check(with_input_type(None).import(), "onnx::unsupported-value-type");
    let map = type_proto::Value::MapType(Box::default());
    check(with_input_type(Some(map)).import(), "onnx::unsupported-value-type");
    // A sequence is a value, but not one for operators on tensors.
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: None };
    let element = Some(Box::new(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }));
    let sequence = type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: element }));
    check_node(with_input_type(Some(sequence)).import(), "onnx::unsupported-type", "act");
    let mut sparse = relu();
    sparse
        .graph()
        .sparse_initializer
        .push(SparseTensorProto { values: Some(to_proto("w", &ints(&[1]))), ..SparseTensorProto::default() });
    check(sparse.import(), "onnx::unsupported-value-type");
}

#[test]
fn inputs_may_have_any_rank() {
    let mut model = relu();
    model.graph().input[0] = value_info("x", DType::F32, None);
    let graph = model.import().expect("the host computes it");
    assert!(graph.is_unranked(&graph.inputs[0]) && graph.port_type(&graph.inputs[0]).dtype == DType::F32);
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let given = ImportOptions {
        shapes: vec![("x".into(), vec![ShapeDim::Fixed(2), ShapeDim::Dynamic])],
        ..ImportOptions::default()
    };
    let graph = model.import_with(&given).expect("the user says the shape");
    assert_eq!(graph.symbols.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["x[1]"]);
}

/// `y = Relu(x)` over f32 of N×?×3.
fn dynamic() -> Builder {
    Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Named("?"), Extent::Number(3)])
        .node(node("Relu", &["x"], &["y"], &[]))
        .output("y")
}

fn dims(choices: &[(&str, DimChoice)]) -> ImportOptions {
    ImportOptions {
        dims: choices.iter().map(|(name, choice)| ((*name).to_owned(), *choice)).collect(),
        ..ImportOptions::default()
    }
}

fn shape(name: &str, shape: &[ShapeDim]) -> ImportOptions {
    ImportOptions { shapes: vec![(name.to_owned(), shape.to_vec())], ..ImportOptions::default() }
}

#[test]
fn dims_are_named_and_chosen() {
    let graph = dynamic().import_with(&dims(&[("x[1]", DimChoice::Range(0, Some(8)))])).expect("both dims exist");
    let symbols: Vec<_> = graph.symbols.iter().map(|s| (s.name.as_str(), s.min, s.max)).collect();
    assert_eq!(symbols, [("N", 0, Some(1_000_000_000)), ("x[1]", 0, Some(8))]);
    let fixed = dynamic().import_with(&dims(&[("N", DimChoice::Fixed(4)), ("x[1]", DimChoice::Fixed(2))]));
    assert!(fixed.expect("both dims exist").symbols.is_empty());
}

#[test]
fn unknown_inputs_and_dims_are_refused() {
    let error = check(dynamic().import_with(&dims(&[("Q", DimChoice::Fixed(1))])), "dim::unknown-name");
    assert!(error.to_string().contains("`N`, `x[1]`"), "{error}");
    check(dynamic().import_with(&shape("z", &[])), "onnx::unknown-input");
}

#[test]
fn ranges_must_hold_a_value() {
    for choice in [DimChoice::Range(3, Some(2)), DimChoice::Range(-1, None), DimChoice::Fixed(-5)] {
        check(dynamic().import_with(&dims(&[("N", choice)])), "dim::invalid-range");
    }
    check(dynamic().import_with(&dims(&[("N", DimChoice::Fixed(i64::MAX))])), "dim::overflow");
}

#[test]
fn contradictions_name_both_sides() {
    use ShapeDim::{Dynamic, Fixed};
    let error = check(dynamic().import_with(&shape("x", &[Dynamic, Dynamic, Fixed(4)])), "dim::contradiction");
    assert!(error.to_string().contains('3') && error.to_string().contains('4'), "{error}");
    check(dynamic().import_with(&shape("x", &[Dynamic, Dynamic])), "dim::contradiction");
    let twice = dims(&[("N", DimChoice::Fixed(1)), ("N", DimChoice::Fixed(2))]);
    check(dynamic().import_with(&twice), "dim::contradiction");
    let mut both = dims(&[("N", DimChoice::Range(1, Some(4)))]);
    both.shapes = vec![("x".into(), vec![Fixed(9), Dynamic, Fixed(3)])];
    check(dynamic().import_with(&both), "dim::contradiction");
}

#[test]
fn a_shape_fixes_a_dim_wherever_it_occurs() {
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N")])
        .input("z", DType::F32, &[Extent::Named("N")])
        .node(node("Add", &["x", "z"], &["y"], &[]))
        .output("y");
    let graph = model.import_with(&shape("x", &[ShapeDim::Fixed(7)])).expect("one dim");
    assert!(graph.symbols.is_empty());
    assert!(graph.inputs.iter().all(|p| graph.ty(p.value).static_shape() == Some(vec![7])));
}

#[test]
fn parts_without_a_name_are_not_made() {
    let split = |parts| named("split", node("Split", &["x"], &["y"], &[("num_outputs", Value::Int(parts))]));
    for parts in [-1, 0, 2, 1 << 40] {
        check_node(one(18, &[6], split(parts)).import(), "onnx::invalid-attribute", "split");
    }
    assert!(one(18, &[6], split(1)).import().is_ok());
}
