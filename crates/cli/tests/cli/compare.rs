//! `infc compare`.

use crate::support::{identity_folder, infc, pb};
use std::fs;

#[test]
fn exit_code_three_if_anything_disagrees() {
    let folder = identity_folder();
    let at = folder.path();
    let data = at.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("input_0.pb"), pb(&[1, 3], &[1.0, 2.0, 3.0])).unwrap();
    fs::write(data.join("output_0.pb"), pb(&[1, 3], &[1.0, 2.0, 3.0001])).unwrap();
    fs::write(data.join("output_1.pb"), pb(&[2], &[1.5, -1.5])).unwrap();
    let outcome = infc(at, "compare id.infa --data data").ok();
    assert!(outcome.stdout.contains("all outputs agree"), "{}", outcome.stdout);

    let outcome = infc(at, "compare id.infa --data data --rtol 0 --atol 1e-5");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (3, ""), "{outcome:?}");
    assert!(outcome.stdout.contains("1 of 3 elements disagree, the first at [0, 2]"), "{}", outcome.stdout);
    let outcome = infc(at, "compare id.infa --data data --rtol 0 --atol 1e-5 --format json");
    assert_eq!(outcome.code, 3);
    let json = outcome.json();
    assert_eq!((&json["schema"], &json["agrees"]), (&"infc.compare/1".into(), &false.into()));
    let outputs = &json["data_sets"][0]["outputs"];
    assert_eq!((&outputs[0]["agrees"], &outputs[1]["agrees"]), (&false.into(), &true.into()));
    assert_eq!(outputs[0]["worst_abs"]["index"], serde_json::json!([0, 2]));
}

#[test]
fn another_shape_disagrees() {
    let folder = identity_folder();
    let at = folder.path();
    fs::create_dir(at.join("data")).unwrap();
    fs::write(at.join("data/input_0.pb"), pb(&[1, 3], &[1.0, 2.0, 3.0])).unwrap();
    fs::write(at.join("data/output_0.pb"), pb(&[3], &[1.0, 2.0, 3.0])).unwrap();
    let outcome = infc(at, "compare id.infa --data data");
    assert_eq!(outcome.code, 3);
    assert!(outcome.stdout.contains("expected shape [3], found [1, 3]"), "{}", outcome.stdout);
}

/// Of a model that lists an output twice, say: what comes behind would be compared with something else.
#[test]
fn more_is_expected_than_there_are_outputs() {
    let folder = identity_folder();
    let at = folder.path();
    fs::create_dir(at.join("data")).unwrap();
    fs::write(at.join("data/input_0.pb"), pb(&[1, 3], &[1.0, 2.0, 3.0])).unwrap();
    fs::write(at.join("data/output_2.pb"), pb(&[2], &[1.5, -1.5])).unwrap();
    let error = infc(at, "compare id.infa --data data").fails(1, "input::bad-data-folder");
    assert!(error.stderr.contains("it holds output_2.pb, the model has 2 outputs"), "{}", error.stderr);
}

#[test]
fn something_must_be_expected() {
    let folder = identity_folder();
    infc(folder.path(), "compare id.infa --random").fails(2, "compare::nothing-expected");
    infc(folder.path(), "compare id.infa").fails(2, "input::missing");
    infc(folder.path(), "compare id.infa --random --rtol -1").fails(2, "cli::usage");
}

#[test]
fn the_model_must_be_that_of_the_artifact() {
    let folder = identity_folder();
    let model = crate::support::workspace().join("demo/digits.onnx");
    let arguments = format!("compare id.infa --model {}", model.display());
    infc(folder.path(), &arguments).fails_after_notes(1, "compare::other-model");
}
