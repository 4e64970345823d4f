//! `infc run`.

use crate::support::{identity_folder, infc, infc_with, names, npy, pb};
use std::fs;

#[test]
fn outputs_of_given_inputs() {
    let folder = identity_folder();
    let at = folder.path();
    fs::write(at.join("x.npy"), npy(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).unwrap();
    let json = infc(at, "run id.infa --input x=x.npy --save-output out.npz --format json").ok().json();
    assert_eq!(json["schema"], "infc.run/1");
    let outputs = &json["data_sets"][0]["outputs"];
    assert_eq!(outputs[0]["name"], "y");
    assert_eq!(outputs[0]["shape"], serde_json::json!([2, 3]));
    assert_eq!(outputs[0]["mean"], 3.5);
    assert_eq!(outputs[1]["first"], serde_json::json!([1.5, -1.5]));
    // What was saved can be given again.
    let json =
        infc(at, "compare id.infa --inputs out.npz --input x=x.npy --expected out.npz --format json").ok().json();
    assert_eq!(json["agrees"], true);
    assert_eq!(names(at), ["id.infa", "out.npz", "x.npy"]);
}

#[test]
fn text_for_people() {
    let folder = identity_folder();
    let outcome = infc(folder.path(), "run id.infa --input x=2.5").ok();
    assert!(outcome.stdout.contains("y f32[1, 3]  2.500000, 2.500000, 2.500000"), "{}", outcome.stdout);
}

#[test]
fn test_data_of_onnx() {
    let folder = identity_folder();
    let at = folder.path();
    for (set, rows) in [("test_data_set_0", 1), ("test_data_set_10", 2), ("test_data_set_2", 3)] {
        fs::create_dir_all(at.join("data").join(set)).unwrap();
        fs::write(at.join("data").join(set).join("input_0.pb"), pb(&[rows, 3], &vec![0.5; rows * 3])).unwrap();
    }
    let json = infc(at, "run id.infa --data data --format json").ok().json();
    let sets: Vec<_> = json["data_sets"].as_array().unwrap().iter().map(|set| set["name"].clone()).collect();
    assert_eq!(sets, ["test_data_set_0", "test_data_set_2", "test_data_set_10"]);
    let json = infc(at, "run id.infa --data data/test_data_set_2 --format json").ok().json();
    assert_eq!(json["data_sets"][0]["outputs"][0]["shape"], serde_json::json!([3, 3]));
    fs::write(at.join("data/test_data_set_2/input_1.pb"), pb(&[1], &[0.0])).unwrap();
    infc(at, "run id.infa --data data/test_data_set_2").fails(1, "input::bad-data-folder");
}

#[test]
fn made_up_data_only_when_asked_for() {
    let folder = identity_folder();
    let at = folder.path();
    let refused = infc(at, "run id.infa").fails(2, "input::missing");
    assert!(refused.stderr.contains("input `x` (f32[N, 3])"), "{}", refused.stderr);
    let run = |seed: &str| infc(at, &format!("run id.infa --random --dim N=2 --format json --seed {seed}")).ok().json();
    assert_eq!(run("0")["data_sets"][0]["outputs"], run("0")["data_sets"][0]["outputs"]);
    assert_ne!(run("0")["data_sets"][0]["outputs"], run("1")["data_sets"][0]["outputs"]);
    assert_eq!(run("0")["data_sets"][0]["outputs"][0]["shape"], serde_json::json!([2, 3]));
}

#[test]
fn an_artifact_from_standard_input() {
    let folder = identity_folder();
    let bytes = fs::read(folder.path().join("id.infa")).unwrap();
    infc_with(folder.path(), "run - --random".split(' '), &bytes).ok();
    let outcome = infc_with(folder.path(), "run - --random".split(' '), b"").fails(1, "artifact::not-an-artifact");
    assert!(outcome.stderr.contains("infc compile"), "{}", outcome.stderr);
}

#[test]
fn wrong_inputs() {
    let folder = identity_folder();
    let at = folder.path();
    fs::write(at.join("x.npy"), npy(&[2, 4], &[0.0; 8])).unwrap();
    fs::write(at.join("many.npy"), npy(&[9, 3], &[0.0; 27])).unwrap();
    fs::write(at.join("int.pb"), {
        let tensor = infc_tensor::Tensor::from_elements(&[1, 3], &[1i32, 2, 3]).unwrap();
        infc_frontend_onnx::encode_tensor("", &tensor)
    })
    .unwrap();
    let outcome = infc(at, "run id.infa --input image=zeros").fails(1, "runtime::unknown-input");
    assert!(outcome.stderr.contains("it has `x`"), "{}", outcome.stderr);
    infc(at, "run id.infa --input x=x.npy").fails(1, "runtime::wrong-shape");
    infc(at, "run id.infa --input x=int.pb").fails(1, "runtime::wrong-type");
    infc(at, "run id.infa --input x=many.npy").fails(1, "runtime::dim-out-of-range");
    infc(at, "run id.infa --input x=missing.npy").fails(1, "cli::cannot-read");
    infc(at, "run id.infa --input x").fails(2, "input::bad-spec");
    infc(at, "run id.infa --input x=zeros --input x=zeros").fails(2, "cli::usage");
    infc(at, "run id.infa --inputs id.infa").fails(1, "input::bad-archive");
    infc(at, "run id.infa --random --dim M=2").fails(2, "cli::usage");
    infc(at, "run id.infa --random --dim N=9").fails(1, "runtime::dim-out-of-range");
    infc(at, "run id.infa --random --entry other").fails(1, "runtime::unknown-entry");
    infc(at, "run other.infa --random").fails(1, "runtime::cannot-open");
    infc(at, "run id.infa --random --target x86-64-v9").fails(1, "artifact::no-such-target");
    infc(at, "run id.infa --random --save-output no/where.npz").fails(1, "cli::cannot-write");
    assert_eq!(names(at), ["id.infa", "int.pb", "many.npy", "x.npy"]);
}

#[test]
fn damaged_artifacts() {
    let folder = identity_folder();
    let at = folder.path();
    let whole = fs::read(at.join("id.infa")).unwrap();
    let run = |bytes: &[u8]| {
        fs::write(at.join("bad.infa"), bytes).unwrap();
        infc(at, "run bad.infa --random")
    };
    for len in [0, 1, 8, 63, 64, 4095, 4096, whole.len() - 1] {
        let outcome = run(&whole[..len]);
        assert_eq!(outcome.code, 1, "{len}: {outcome:?}");
        assert!(outcome.stderr.contains("error[artifact::"), "{len}: {outcome:?}");
    }
    for at in 0..64 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let outcome = run(&bytes);
        assert_eq!(outcome.code, 1, "byte {at}: {outcome:?}");
        assert!(outcome.stderr.contains("error[artifact::"), "byte {at}: {outcome:?}");
    }
}

#[test]
fn artifacts_for_others() {
    let folder = identity_folder();
    let at = folder.path();
    let mut newer = fs::read(at.join("id.infa")).unwrap();
    // The format's minor version.
    newer[10] += 1;
    fs::write(at.join("newer.infa"), newer).unwrap();
    let outcome = infc(at, "run newer.infa --random").fails(1, "artifact::newer-format");
    assert!(outcome.stderr.contains("1.0") && outcome.stderr.contains("1.1"), "both versions: {}", outcome.stderr);

    let elsewhere = if cfg!(target_arch = "aarch64") { "x86-64-v3" } else { "aarch64" };
    infc(at, "demo --save .").ok();
    infc(at, &format!("compile digits.onnx --target {elsewhere}")).ok();
    let outcome = infc(at, "run digits.infa --random").fails(1, "artifact::wrong-target");
    assert!(outcome.stderr.contains(elsewhere), "{}", outcome.stderr);
}

#[test]
fn a_full_disk() {
    let folder = identity_folder();
    if cfg!(target_os = "linux") {
        let outcome = infc(folder.path(), "run id.infa --random --save-output /dev/full").fails(1, "cli::cannot-write");
        assert!(outcome.stderr.contains("the disk is full"), "{}", outcome.stderr);
    }
}
