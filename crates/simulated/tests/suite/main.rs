//! The command on a machine with a GPU.

mod layers;
mod profiled;
mod tuned;

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs the command in a folder; its exit code, and its report.
fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_infc-simulated"))
        .args(arguments)
        .args(["--format", "json"])
        .current_dir(folder)
        .output()
        .expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{said}"));
    (output.status.code(), report)
}

/// Runs the command in a folder; its exit code, and what it says beside results.
fn said(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infc-simulated"));
    let output = command.args(arguments).current_dir(folder).output().expect("it can be started");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The demo's model.
fn digits() -> String {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    model.to_str().expect("a path in UTF-8").to_owned()
}
