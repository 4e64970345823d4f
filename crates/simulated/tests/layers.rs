//! `infc compare --layers` on a GPU: what kernels have written is there and nowhere else.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

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

#[test]
fn kernels_are_compared_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    let model = model.to_str().expect("a path in UTF-8");
    for (target, dims) in [("cuda", &["--dim", "N=2"][..]), ("cpu,cuda", &[])] {
        let compile = ["compile", model, "--target", target, "-o", "digits.infa"];
        assert_eq!(run(&[&compile[..], dims].concat(), folder.path()).0, Some(0));
        let (code, report) = run(&["compare", "digits.infa", "--model", model, "--layers"], folder.path());
        assert_eq!((code, &report["agrees"]), (Some(0), &Value::Bool(true)), "{report}");
        assert_eq!(report["variant"], "cuda:sm_80");
        assert!(report["layers"].as_array().is_some_and(|layers| layers.len() > 3), "{report}");
    }
}
