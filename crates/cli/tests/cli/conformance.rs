//! `infc conformance`: cases through the whole line.

use crate::support::{folder, infc};
use std::fs;
use std::path::Path;

/// Makes a case of the demo's model and data.
pub(crate) fn case(at: &Path) {
    fs::create_dir_all(at).unwrap();
    infc(at, "demo --save .").ok();
    fs::rename(at.join("digits.onnx"), at.join("model.onnx")).unwrap();
    fs::write(at.join("tolerance.json"), r#"{"rtol": 0.001, "atol": 0.0001}"#).unwrap();
}

#[test]
fn every_case_has_an_outcome() {
    let folder = folder();
    let at = folder.path();
    for name in ["good", "sub/strict", "sub/damaged", "sub/wrong"] {
        case(&at.join("cases").join(name));
    }
    let cases = at.join("cases/sub");
    // Tolerances are those of the case, and nothing is that exact.
    fs::write(cases.join("strict/tolerance.json"), r#"{"rtol": 0.0, "atol": 0.0}"#).unwrap();
    fs::write(cases.join("damaged/model.onnx"), b"not a model").unwrap();
    // Ten images where probabilities are expected.
    let data = cases.join("wrong/test_data_set_0");
    fs::copy(data.join("input_0.pb"), data.join("output_0.pb")).unwrap();

    let outcome = infc(at, "conformance cases --target x86-64-v2,reference --jobs 2 --format json");
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let json = outcome.json();
    assert_eq!((&json["total"], &json["schema"]), (&4.into(), &"infc.conformance/1".into()));
    assert_eq!(json["cases"]["good"], "pass", "{json}");
    assert_eq!(json["details"]["good"]["runs"], "native");
    assert_eq!(json["details"]["good"]["targets"]["reference"], "pass");
    assert_eq!(json["cases"]["sub/strict"], "wrong-values");
    assert_eq!(json["cases"]["sub/damaged"], "onnx::malformed");
    assert_eq!(json["cases"]["sub/wrong"], "wrong-shape");

    let outcome = infc(at, "conformance cases --filter sub/*");
    assert_eq!(outcome.code, 3);
    assert!(outcome.stdout.contains("0 of 3 pass") && outcome.stdout.contains("onnx::malformed"), "{}", outcome.stdout);
    infc(at, "conformance cases --filter good").ok();
    infc(at, "conformance cases --filter nothing").fails(1, "input::bad-data-folder");
    infc(at, "conformance cases --target x86-64-v9").fails(2, "compile::unknown-target");
}
