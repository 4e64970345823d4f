//! `infc simplify`.

use crate::support::{folder, infc, infc_with, names};
use std::fs;

#[test]
fn the_simplified_model_gives_the_same_outputs() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let outputs = |model: &str| {
        infc(at, &format!("compile {model} --target x86-64-v2 --dim N=4 -o m.infa")).ok();
        infc(at, "run m.infa --random --format json").ok().json()["data_sets"][0]["outputs"].clone()
    };
    let text = infc(at, "simplify digits.onnx -o simple.onnx").ok().stdout;
    assert!(text.contains("nodes") && text.contains("infc compile simple.onnx"), "{text}");
    assert_eq!(outputs("simple.onnx"), outputs("digits.onnx"));
    let json = infc(at, "simplify digits.onnx -o one.onnx --dim N=1 --format json").ok().json();
    assert_eq!(json["schema"], "infc.simplify/1");
    assert_eq!(json["data_file"], serde_json::Value::Null);
    assert_eq!(json["bytes"].as_u64().unwrap(), fs::metadata(at.join("one.onnx")).unwrap().len());
    let checked = infc(at, "check one.onnx --format json").ok().json();
    assert_eq!(checked["dims"].as_array().unwrap().len(), 0, "the dim is fixed");
}

#[test]
fn constants_beside_the_model() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let json = infc(at, "simplify digits.onnx -o out.onnx --external-data --format json").ok().json();
    assert_eq!(json["data_file"], "out.onnx.data");
    assert_eq!(json["data_bytes"].as_u64().unwrap(), fs::metadata(at.join("out.onnx.data")).unwrap().len());
    assert!(json["bytes"].as_u64() < json["data_bytes"].as_u64());
    // Over itself: what it was made of is mapped, and stays as it was until then.
    infc(at, "simplify out.onnx -o out.onnx").ok();
    infc(at, "check out.onnx").ok();
    infc(at, "simplify out.onnx -o back.onnx --format json").ok();
    assert!(names(at).contains(&"back.onnx.data".to_owned()), "it stays in two files");
}

#[test]
fn streams_and_refusals() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let model = fs::read(at.join("digits.onnx")).unwrap();
    let piped = infc_with(at, "simplify - -o -".split(' '), &model).ok();
    infc(at, "simplify digits.onnx -o simple.onnx").ok();
    assert_eq!(piped.stdout_bytes, fs::read(at.join("simple.onnx")).unwrap());
    for (arguments, code, error) in [
        ("simplify digits.onnx -o - --format json", 2, "cli::usage"),
        ("simplify digits.onnx -o - --external-data", 2, "cli::usage"),
        ("simplify digits.onnx -o x.onnx --dim M=1", 2, "dim::unknown-name"),
        ("simplify nothing.onnx -o x.onnx", 1, "onnx::cannot-read"),
        ("simplify digits.onnx -o nowhere/x.onnx", 1, "cli::cannot-write"),
    ] {
        let outcome = infc(at, arguments);
        assert_eq!(outcome.code, code, "{arguments}");
        let told = if outcome.stderr.is_empty() { &outcome.stdout } else { &outcome.stderr };
        assert!(told.contains(error), "{arguments}: {told}");
        assert!(!names(at).contains(&"x.onnx".to_owned()), "{arguments}");
    }
}
