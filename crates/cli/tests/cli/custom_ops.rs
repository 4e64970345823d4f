//! `--custom-ops`: from a model with an operator of nobody's to an artifact that a program can run.

use crate::support::{folder, infc, workspace};
use infc_artifact::Artifact;
use infc_runtime::{LoadOptions, Model, Runtime, SessionOptions, Tensor};
use std::fs;
use std::path::Path;

/// The example's model and declarations, in a folder.
fn example(at: &Path) {
    for file in ["model.onnx", "operators.toml"] {
        fs::copy(workspace().join("examples/custom-op").join(file), at.join(file)).unwrap();
    }
}

#[test]
fn an_operator_of_the_program() {
    let folder = folder();
    let at = folder.path();
    example(at);
    infc(at, "compile model.onnx").fails_after_notes(4, "onnx::unsupported-operator");
    // A custom operator is asked for, and no fallback.
    let report = infc(at, "compile model.onnx --custom-ops operators.toml --deny-fallback --format json").ok().json();
    assert_eq!(report["custom_ops"][0], "my.domain::Interleave@1");
    let checked = infc(at, "check model.onnx --custom-ops operators.toml --format json").ok().json();
    assert_eq!(checked["on_host"][0], "/interleave");
    let inspected = infc(at, "inspect model.infa --format json").ok().json();
    assert_eq!(inspected["custom_ops"][0], "my.domain::Interleave@1");
    assert!(infc(at, "inspect model.infa").ok().stdout.contains("my.domain::Interleave@1"));
    // The command has no such operator, and says which.
    for command in ["run model.infa --random", "bench model.infa", "compare model.infa --model model.onnx --random"] {
        let failed = infc(at, command).fails_after_notes(1, "runtime::custom-ops");
        assert!(failed.stderr.contains("my.domain::Interleave@1"), "{failed:?}");
    }

    let bytes = fs::read(at.join("model.infa")).unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    assert_eq!(artifact.manifest().custom_ops, ["my.domain::Interleave@1"]);
    let load =
        |runtime: Runtime| Model::from_vec_with(bytes.clone(), &LoadOptions { runtime, ..LoadOptions::default() });
    assert_eq!(load(Runtime::new()).unwrap_err().code(), "runtime::custom-ops");
    let x = Tensor::from_elements(&[1, 2], &[1.0f32, 3.0]).unwrap();
    let run = |runtime: Runtime| load(runtime).unwrap().session(&SessionOptions::default()).unwrap().run_owned(&[&x]);
    let mut runtime = Runtime::new();
    let registered = runtime.register("my.domain::Interleave@1", |call| {
        let (a, b) = (call.input(0)?.elements::<f32>()?, call.input(1)?.elements::<f32>()?);
        Ok(vec![Tensor::from_elements(&[1, 4], &[a[0], b[0], a[1], b[1]])?])
    });
    registered.unwrap();
    assert_eq!(run(runtime).unwrap(), [Tensor::from_elements(&[1, 4], &[2.0f32, 1.0, 6.0, 9.0]).unwrap()]);

    // What a function gives is held to the declaration.
    let mut runtime = Runtime::new();
    runtime.register("my.domain::Interleave@1", |call| Ok(vec![call.input(0)?.clone()])).unwrap();
    assert_eq!(run(runtime).unwrap_err().code(), "runtime::unexpected-result");
    let mut runtime = Runtime::new();
    runtime.register("my.domain::Interleave@1", |_| panic!("a bug of the program")).unwrap();
    let error = run(runtime).unwrap_err();
    assert_eq!(error.code(), "runtime::host-step-failed");
    assert!(error.to_string().contains("/interleave") && error.to_string().contains("panicked"), "{error}");
}

#[test]
fn names_of_operators() {
    let mut runtime = Runtime::new();
    for name in ["", "Op", "Op@1", "::Op@1", "a::@1", "a::Op", "a::Op@", "a::Op@0", "a::Op@x"] {
        let error = runtime.register(name, |_| Ok(Vec::new())).unwrap_err();
        assert_eq!(error.code(), "runtime::operator-name", "{name}");
    }
    runtime.register("a.b::Op@1", |_| Ok(Vec::new())).unwrap().register("a.b::Op@2", |_| Ok(Vec::new())).unwrap();
    assert_eq!(runtime.register("a.b::Op@1", |_| Ok(Vec::new())).unwrap_err().code(), "runtime::operator-name");
}

#[test]
fn declarations_that_cannot_be_read() {
    let folder = folder();
    let at = folder.path();
    example(at);
    let compile = |file: &str| infc(at, &format!("compile model.onnx --custom-ops {file}"));
    compile("missing.toml").fails(1, "cli::cannot-read");
    fs::write(at.join("bad.toml"), "operator = 3").unwrap();
    let failed = compile("bad.toml").fails(1, "onnx::custom-ops-syntax");
    assert!(failed.stderr.contains("bad.toml"), "{failed:?}");
    let text = fs::read_to_string(at.join("operators.toml")).unwrap();
    fs::write(at.join("bad.toml"), text.replace("2 * C", "2 * D")).unwrap();
    compile("bad.toml").fails(1, "onnx::invalid-custom-op");
    compile("operators.toml --custom-ops operators.toml").fails(1, "onnx::invalid-custom-op");
}
