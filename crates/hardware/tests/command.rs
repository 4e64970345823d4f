//! The command itself, with the simulator as the GPU.

#![cfg(unix)]

use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
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
    let arguments = ["--random", "20", "--python", "off"];
    let (success, said) = hardware(folder.path(), &arguments);
    assert!(success, "{said}");
    let report = report(folder.path());
    assert_eq!(report["failed"], Value::Array(Vec::new()), "{said}");
    let runs = report["runs"].as_array().expect("parts");
    assert_eq!(runs.len(), 5, "{runs:?}");
    assert!(runs.iter().all(|part| part[1].as_u64().is_some_and(|runs| runs >= 20)), "{runs:?}");
    assert!(report["speeds"].as_array().is_some_and(|speeds| speeds.len() >= 9), "{report}");
    for each in ["graph_us", "single_us", "host_us", "change_us", "changed_us"] {
        assert!(report["launches"][each].as_f64().is_some_and(|us| us > 0.0), "{each}: {report}");
    }
    assert_eq!(report["skipped"].as_array().map(Vec::len), Some(3), "{report}");
    assert!(said.contains("softmax 8×64 f32") && said.contains("skipped: "), "{said}");
    assert!(folder.path().join("instructions.json").is_file());
}

/// Other choices of a kernel are timed beside the default's, which is told as such.
#[test]
fn choices_are_swept() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = ["--only", "sweep", "--filter", "product 32×32×32 bf16", "--choices", "4"];
    let (success, said) = hardware(folder.path(), &sweep);
    assert!(success, "{said}");
    let report = report(folder.path());
    let tried = report["sweeps"][0]["tried"].as_array().expect("choices");
    assert_eq!(tried.len(), 4, "{report}");
    let default = |tried: &&Value| tried["otherwise"].as_array().is_some_and(Vec::is_empty);
    assert_eq!(tried.iter().filter(default).count(), 1, "{report}");
    let times: Vec<f64> = tried.iter().filter_map(|tried| tried["us"].as_f64()).collect();
    assert!(times.len() == 4 && times.is_sorted() && said.contains("as it is"), "{said}");
}

/// What cannot be done is told, and the rest is done.
#[test]
fn what_fails_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut missing = vec!["--only", "kernels,speed,models", "--kernel-files", "none", "--models", "none.onnx"];
    missing.extend(["--infc", "none", "--python", "no-such-python"]);
    let (success, said) = hardware(folder.path(), &missing);
    assert!(!success && said.contains("none is no folder") && said.contains("none.onnx: there is no none"), "{said}");
    assert!(said.contains("skipped: there is no no-such-python"), "{said}");
    let report = report(folder.path());
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(report["speeds"].as_array().is_some_and(|speeds| !speeds.is_empty()), "{report}");
    let (success, said) = hardware(folder.path(), &["--seconds", "0"]);
    assert!(!success && said.contains("no time was left"), "{said}");
}

/// The command for developers whose GPU is the simulator, which is built with its own tests.
fn infc() -> Option<std::path::PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.ancestors().skip(1).take(2).map(|folder| folder.join("infc-simulated")).find(|path| path.is_file())
}

#[expect(clippy::print_stderr, reason = "a check that did not happen must be seen")]
#[test]
fn models_are_compared_and_timed() {
    let Some(infc) = infc() else {
        eprintln!("skipped: infc-simulated was not built; build the whole workspace");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let infc = infc.to_string_lossy();
    // In the place of a Python: what it is asked goes to a file, and one way of two works.
    let python = folder.path().join("python");
    let asked = folder.path().join("asked");
    let answer = |name: &str, ms: &str, error: &str| format!(r#"{{"name": "{name}", "ms": {ms}, "error": {error}}}"#);
    let lines = [answer("digits, one way", "0.5", "null"), answer("digits, another", "null", r#""no memory""#)];
    let script =
        format!("#!/bin/sh\ncat > {0}\necho \"$3 $5\" >> {0}\ncat <<'E'\n{1}\nE\n", asked.display(), lines.join("\n"));
    std::fs::write(&python, script).expect("it is written");
    std::fs::set_permissions(&python, Permissions::from_mode(0o755)).expect("it can be executed");
    let python = python.to_string_lossy();
    let model = ["--only", "models", "--models", "demo/digits.onnx", "--ptxas", "off", "--infc", &infc];
    let (success, said) = hardware(folder.path(), &[&model[..], &["--dim", "other=3", "--python", &python]].concat());
    assert!(success, "{said}");
    let asked = std::fs::read_to_string(asked).expect("it was asked");
    let (list, arguments) = asked.rsplit_once(']').expect("a list");
    let list: Value = serde_json::from_str(&format!("{list}]")).expect("JSON");
    let expected = serde_json::json!([{ "name": "digits", "path": "demo/digits.onnx", "dims": { "other": 3 } }]);
    assert_eq!((list, arguments.trim()), (expected, "cpu f32"));
    assert!(said.contains("by a library: digits, one way 0.500 ms"), "{said}");
    assert!(said.contains("skipped: digits, another by a library: no memory"), "{said}");
    let report = report(folder.path());
    let ran = &report["models"][0];
    assert!(ran["name"] == "digits" && ran["agrees"] == true && ran["on_host"] == 0, "{report}");
    for time in ["compile_ms", "load_ptx_ms", "first_ms", "run_ms", "device_ms", "kernels", "code_bytes"] {
        assert!(ran[time].as_f64().is_some_and(|time| time > 0.0), "{time}: {report}");
    }
    assert!(ran["load_cubin_ms"].is_null(), "{report}");
    let left: Vec<_> = folder.path().read_dir().expect("a folder").filter_map(Result::ok).collect();
    assert_eq!(left.len(), 4, "only the report is left, and what stands for Python: {left:?}");
}
