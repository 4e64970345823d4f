//! Models that must be refused: a coded error that names the node, no panic, nothing left behind.

use crate::support::{Outcome, folder, infc, names};
use bytes::Bytes;
use infc_frontend_onnx::proto::tensor_proto::DataLocation;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};
use prost::Message;
use std::fs;
use std::path::Path;

/// `f32` with these extents.
fn value(name: &str, extents: &[i64]) -> ValueInfoProto {
    let dim = extents
        .iter()
        .map(|&extent| Dimension { value: Some(dimension::Value::DimValue(extent)), ..Dimension::default() })
        .collect();
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(TensorShapeProto { dim }) };
    let r#type = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(r#type), ..ValueInfoProto::default() }
}

/// A node named after its output.
fn node(op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op_type.to_owned()),
        name: Some(format!("/{output}")),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// A model of opset 17 from `x` to `y`.
fn model(nodes: Vec<NodeProto>, x: &[i64]) -> ModelProto {
    let graph = GraphProto {
        name: Some("graph".to_owned()),
        node: nodes,
        input: vec![value("x", x)],
        output: vec![value("y", &[])],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(17) }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// Compiles a model in a folder that must hold nothing else afterwards than it did before.
fn compile(folder: &Path, model: &ModelProto) -> Outcome {
    fs::write(folder.join("m.onnx"), model.encode_to_vec()).unwrap();
    let before = names(folder);
    let outcome = infc(folder, "compile m.onnx --target x86-64-v3");
    assert_eq!(names(folder), before, "{outcome:?}");
    outcome
}

fn refused(model: &ModelProto, exit: i32, code: &str) -> Outcome {
    compile(folder().path(), model).fails_after_notes(exit, code)
}

#[test]
fn all_unsupported_operators_at_once() {
    let nodes = vec![node("Frobnicate", &["x"], "a"), node("Mystify", &["a"], "b"), node("Frobnicate", &["b"], "y")];
    let outcome = refused(&model(nodes, &[2]), 4, "onnx::unsupported-operator");
    assert!(outcome.stderr.contains("Frobnicate (opset 17, 2×)"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Mystify"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("node: Mystify `/b`"), "{}", outcome.stderr);
}

#[test]
fn opsets() {
    let mut new = model(vec![node("Relu", &["x"], "y")], &[2]);
    new.opset_import[0].version = Some(99);
    refused(&new, 4, "onnx::opset-too-new");
    new.opset_import[0].version = Some(0);
    refused(&new, 4, "onnx::opset-too-old");
}

#[test]
fn graphs_that_are_none() {
    let cycle = vec![node("Add", &["x", "b"], "a"), node("Relu", &["a"], "b"), node("Relu", &["b"], "y")];
    refused(&model(cycle, &[2]), 1, "onnx::cycle");
    let dangling = vec![node("Add", &["x", "nobody"], "y")];
    let outcome = refused(&model(dangling, &[2]), 1, "onnx::dangling-name");
    assert!(outcome.stderr.contains("nobody"), "{}", outcome.stderr);
    refused(&model(vec![node("Relu", &["x"], "z")], &[2]), 1, "onnx::dangling-name");
    let twice = vec![node("Relu", &["x"], "y"), node("Neg", &["x"], "y")];
    refused(&model(twice, &[2]), 1, "onnx::duplicate-name");
}

#[test]
fn shapes_that_do_not_fit() {
    let mut matmul = model(vec![node("MatMul", &["x", "w"], "y")], &[2, 3]);
    let tensor = infc_tensor::Tensor::from_elements(&[4, 5], &[0.0f32; 20]).unwrap();
    matmul.graph.as_mut().unwrap().initializer = vec![infc_frontend_onnx::to_proto("w", &tensor)];
    let outcome = refused(&matmul, 4, "onnx::shape-mismatch");
    assert!(outcome.stderr.contains("MatMul node `/y`"), "{}", outcome.stderr);
    refused(&model(vec![node("Relu", &["x"], "y")], &[1 << 40, 1 << 40]), 4, "dim::overflow");
}

#[test]
fn external_data() {
    let with_location = |location: &str, length: &str| {
        let mut proto = model(vec![node("Add", &["x", "w"], "y")], &[2]);
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        proto.graph.as_mut().unwrap().initializer = vec![TensorProto {
            name: Some("w".to_owned()),
            dims: vec![2],
            data_type: Some(1),
            data_location: Some(DataLocation::External as i32),
            external_data: vec![entry("location", location), entry("offset", "0"), entry("length", length)],
            ..TensorProto::default()
        }];
        proto
    };
    refused(&with_location("weights.bin", "8"), 1, "onnx::external-data-missing");
    refused(&with_location("../weights.bin", "8"), 1, "onnx::external-data-outside");
    refused(&with_location("/etc/passwd", "8"), 1, "onnx::external-data-outside");
    refused(&with_location("weights.bin", "many"), 1, "onnx::external-data-invalid");

    let folder = folder();
    fs::write(folder.path().join("weights.bin"), [0; 4]).unwrap();
    compile(folder.path(), &with_location("weights.bin", "8")).fails_after_notes(1, "onnx::external-data-too-short");
    fs::write(folder.path().join("weights.bin"), [1; 8]).unwrap();
    fs::write(folder.path().join("m.onnx"), with_location("weights.bin", "8").encode_to_vec()).unwrap();
    infc(folder.path(), "compile m.onnx --target x86-64-v3").ok();
    #[cfg(unix)]
    {
        let outside = crate::support::folder();
        fs::write(outside.path().join("secret"), [0; 8]).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        fs::remove_file(folder.path().join("m.infa")).unwrap();
        compile(folder.path(), &with_location("link", "8")).fails_after_notes(1, "onnx::external-data-outside");
    }
}

#[test]
fn valid_protobuf_that_is_no_model() {
    refused(&ModelProto::default(), 1, "onnx::not-a-model");
    let mut short = model(vec![node("Add", &["x", "w"], "y")], &[2]);
    short.graph.as_mut().unwrap().initializer = vec![TensorProto {
        name: Some("w".to_owned()),
        dims: vec![2],
        data_type: Some(1),
        raw_data: Some(Bytes::from_static(&[0; 4])),
        ..TensorProto::default()
    }];
    refused(&short, 1, "onnx::invalid-tensor");
}
