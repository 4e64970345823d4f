//! The command itself, with the simulator as the GPU.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn hardware(out: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infc-hardware"));
    command.args(["--simulated", "--out"]).arg(out).args(arguments);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn report(out: &Path) -> Value {
    let text = std::fs::read_to_string(out.join("report.json")).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn all_that_needs_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--only", "instructions,kernels,speed,library,sanitizer", "--random", "20", "--python", "off"];
    let (success, said) = hardware(folder.path(), &arguments);
    assert!(success, "{said}");
    let report = report(folder.path());
    assert_eq!(report["failed"], Value::Array(Vec::new()), "{said}");
    let runs = report["runs"].as_array().expect("parts");
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert!(runs.iter().all(|part| part[1].as_u64().is_some_and(|runs| runs >= 20)), "{runs:?}");
    assert!(report["speeds"].as_array().is_some_and(|speeds| speeds.len() >= 9), "{report}");
    assert!(report["launches"]["graph_us"].as_f64().is_some_and(|us| us > 0.0), "{report}");
    assert_eq!(report["skipped"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(said.contains("softmax 8×64 f32") && said.contains("skipped: "), "{said}");
    assert!(folder.path().join("instructions.json").is_file());
}

/// What cannot be done is told, and the rest is done.
#[test]
fn what_fails_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing =
        ["--only", "kernels,speed,models", "--kernel-files", "none", "--models", "none.onnx", "--infc", "none"];
    let (success, said) = hardware(folder.path(), &missing);
    assert!(!success && said.contains("none is no folder") && said.contains("none.onnx: none"), "{said}");
    let report = report(folder.path());
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(report["speeds"].as_array().is_some_and(|speeds| !speeds.is_empty()), "{report}");
    let (success, said) = hardware(folder.path(), &["--seconds", "0"]);
    assert!(!success && said.contains("no time was left"), "{said}");
}
