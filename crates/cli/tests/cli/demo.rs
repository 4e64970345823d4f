//! `infc demo`.

use crate::support::{folder, infc, names, workspace};
use std::fs;

#[test]
fn the_network_reads_digits() {
    let folder = folder();
    let json = infc(folder.path(), "demo --format json").ok().json();
    assert_eq!(json["schema"], "infc.demo/1");
    assert_eq!(json["images"], 360);
    assert!(json["right"].as_u64().unwrap() >= 358, "{json}");
    assert!(json["latency_ms"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(names(folder.path()), Vec::<String>::new(), "no files");
}

#[test]
fn text_for_people() {
    let folder = folder();
    let outcome = infc(folder.path(), "demo").ok();
    for part in ["compiled", "of 360 images", "latency", "read as"] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("codegen"), "{}", outcome.stderr);
}

#[test]
fn what_is_saved() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save new/folder").ok();
    let saved = at.join("new/folder");
    assert_eq!(names(&saved), ["digits.onnx", "labels.npy", "test_data_set_0"]);
    assert_eq!(names(&saved.join("test_data_set_0")), ["input_0.pb", "output_0.pb"]);
    let original = fs::read(workspace().join("demo/digits.onnx")).unwrap();
    assert!(fs::read(saved.join("digits.onnx")).unwrap() == original);
    fs::write(at.join("file"), "").unwrap();
    infc(at, "demo --save file/below").fails(1, "cli::cannot-write");
}
