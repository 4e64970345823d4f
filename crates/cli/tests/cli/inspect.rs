//! `infc inspect`.

use crate::support::{folder, identity_folder, infc, infc_with, names};
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use prost::Message;
use std::fs;

#[test]
fn what_an_artifact_holds() {
    let folder = identity_folder();
    let outcome = infc(folder.path(), "inspect id.infa -v").ok();
    for part in ["x  f32[N, 3]", "N in 1..=8, from x[0]", "weights", "Memory plan of main", "arena 64 B"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    let json = infc(folder.path(), "inspect id.infa --dim N=8 --verify --format json").ok().json();
    assert_eq!(json["schema"], "infc.inspect/1");
    assert_eq!(json["verified"], true);
    assert_eq!(json["variants"].as_array().unwrap().len(), 2);
    assert_eq!(json["variant"]["dims"]["N"], 8);
    assert_eq!(json["variant"]["programs"][0]["memory"]["arena_bytes"], 128);
    let sections: u64 = json["sections"].as_array().unwrap().iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
    assert!(sections <= json["bytes"].as_u64().unwrap());
}

#[test]
fn thin_artifacts_run() {
    let folder = identity_folder();
    let at = folder.path();
    infc(at, "inspect id.infa --thin x86-64 -o thin.infa").ok();
    let json = infc(at, "inspect thin.infa --format json").ok().json();
    assert_eq!(json["variants"].as_array().unwrap().len(), 1);
    assert_eq!(json["weights"]["count"], 1, "the unused weight is left out");
    if cfg!(target_arch = "x86_64") {
        let outputs = |artifact: &str| {
            let json = infc(at, &format!("run {artifact} --random --format json")).ok().json();
            json["data_sets"][0]["outputs"].clone()
        };
        assert_eq!(outputs("thin.infa"), outputs("id.infa"));
    }
    let piped = infc(at, "inspect id.infa --thin x86-64 -o -").ok();
    assert_eq!(piped.stdout_bytes, fs::read(at.join("thin.infa")).unwrap());
    infc_with(at, "inspect -".split(' '), &piped.stdout_bytes).ok();
}

#[test]
fn mistakes() {
    let folder = identity_folder();
    let at = folder.path();
    infc(at, "inspect id.infa --thin x86-64-v4 -o thin.infa").fails(1, "artifact::no-such-target");
    infc(at, "inspect id.infa --thin x86-64").fails(2, "cli::usage");
    infc(at, "inspect id.infa --dim M=1").fails(2, "cli::usage");
    infc(at, "inspect nothing.infa").fails(1, "cli::cannot-read");
    assert_eq!(names(at), ["id.infa"]);
    // Damage that loading would not see: the weights.
    let mut bytes = fs::read(at.join("id.infa")).unwrap();
    let json = infc(at, "inspect id.infa --format json").ok().json();
    let weights = json["sections"].as_array().unwrap().iter().find(|section| section["kind"] == "weights").unwrap();
    bytes[usize::try_from(weights["offset"].as_u64().unwrap()).unwrap()] ^= 1;
    fs::write(at.join("id.infa"), bytes).unwrap();
    infc(at, "inspect id.infa").ok();
    infc(at, "inspect id.infa --verify").fails(1, "artifact::hash-mismatch");
}

#[test]
fn kernels_are_drawn() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "compile digits.onnx --target x86-64-v3").ok();
    let json = infc(at, "inspect digits.infa --format json").ok().json();
    let kernels: Vec<&str> =
        json["variant"]["kernels"].as_array().unwrap().iter().map(|k| k["name"].as_str().unwrap()).collect();
    for file in ["g.svg", "g.dot", "g.onnx"] {
        let told = infc(at, &format!("inspect digits.infa --graph {file} --format json")).ok().json();
        assert_eq!((&told["schema"], &told["graph"]), (&"infc.inspect/1".into(), &file.into()));
        let text = String::from_utf8_lossy(&fs::read(at.join(file)).unwrap()).into_owned();
        assert!(kernels.iter().all(|name| text.contains(name)), "{file}");
        assert!(text.contains("probabilities") || text.contains("f32"), "{file}");
    }
    let launches = json["variant"]["programs"][0]["launches"].as_u64().unwrap();
    assert_eq!(infc(at, "inspect digits.infa --graph g.dot --format json").ok().json()["nodes"], launches + 2);
    for (arguments, code) in [
        ("inspect digits.infa --graph g.png", 2),
        ("inspect digits.infa --graph g.svg --thin x86-64-v3 -o t.infa", 2),
        ("inspect digits.infa --graph nowhere/g.svg", 1),
    ] {
        assert_eq!(infc(at, arguments).code, code, "{arguments}");
    }
}

/// A signal of any length, mirrored by five elements on both sides: it has to have six.
fn mirrored() -> ModelProto {
    let dim = Dimension { value: Some(dimension::Value::DimParam("L".to_owned())), ..Dimension::default() };
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(TensorShapeProto { dim: vec![dim] }) };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    let value = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    let attribute = |name: &str, r#type: AttributeType| AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(r#type as i32),
        ..AttributeProto::default()
    };
    let mode = AttributeProto { s: Some("reflect".into()), ..attribute("mode", AttributeType::String) };
    let pads = AttributeProto { ints: vec![5, 5], ..attribute("pads", AttributeType::Ints) };
    let node = NodeProto {
        op_type: Some("Pad".to_owned()),
        name: Some("/y".to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        attribute: vec![mode, pads],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("graph".to_owned()),
        node: vec![node],
        input: vec![ValueInfoProto { r#type: Some(ty), ..value("x") }],
        output: vec![value("y")],
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(10) }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// What nobody says of dynamic dims is as small as the model takes, not as small as its declaration.
#[test]
fn dims_have_sizes_that_the_model_takes() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("m.onnx"), mirrored().encode_to_vec()).unwrap();
    infc(at, "compile m.onnx --target x86-64-v2").ok();
    let dims =
        |words: &str| infc(at, &format!("inspect m.infa --format json{words}")).ok().json()["variant"]["dims"].clone();
    assert_eq!((dims(""), dims(" --dim L=7")), (serde_json::json!({"L": 8}), serde_json::json!({"L": 7})));
    infc(at, "run m.infa --random").ok();
    infc(at, "bench m.infa --runs 1").ok();
    infc(at, "run m.infa --random --dim L=5").fails_after_notes(1, "runtime::assumption-failed");
}
