//! `infc compile`: the way from a model to numbers, and what must not be compiled.

use crate::support::{digits_folder, folder, infc, infc_with, names, workspace};
use std::fs;
use std::path::Path;

#[test]
fn from_a_model_to_numbers() {
    let folder = digits_folder();
    let at = folder.path();
    let outcome = infc(at, "compile digits/digits.onnx").ok();
    for stage in ["load", "import", "plan", "codegen", "artifact"] {
        assert!(outcome.stderr.contains(&format!("  {stage}")), "{stage}: {}", outcome.stderr);
    }
    assert!(outcome.stdout.contains("digits.infa"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("x86-64-v4, x86-64-v3, x86-64-v2"), "{}", outcome.stdout);
    assert_eq!(names(at), ["digits", "digits.infa"]);

    infc(at, "compare digits.infa --data digits --threads 1").ok();
    infc(at, "compare digits.infa --data digits --threads 2").ok();
    for target in ["x86-64-v2", "x86-64-v3"] {
        infc(at, &format!("compare digits.infa --data digits --target {target}")).ok();
    }
    infc(at, "compare digits.infa --model digits/digits.onnx --dim N=3").ok();
    let json = infc(at, "compare digits.infa --model digits/digits.onnx --layers --format json").ok().json();
    let kernels = json["layers"].as_array().unwrap();
    assert!(kernels.len() >= 4, "{json}");
    let inspected = infc(at, "inspect digits.infa --format json").ok().json();
    assert_eq!(inspected["variant"]["programs"][0]["launches"], kernels.len());
    // Work is described once, in the artifact: the same for all levels, wide on those that have the emitter.
    for variant in inspected["variants"].as_array().unwrap() {
        let number = |field: &str| variant[field].as_u64().unwrap();
        assert!(number("all_macs") > 0 && number("all_bytes") > 0, "{variant}");
        assert_eq!(number("all_macs"), inspected["variants"][0]["all_macs"].as_u64().unwrap());
        let wide = if variant["target"] == "x86-64-v2" { 0 } else { number("all_macs") };
        assert_eq!(number("wide_macs"), wide, "{variant}");
    }
    let shares = inspected["variant"]["kernels"].as_array().unwrap().iter();
    let sum: f64 = shares.map(|kernel| kernel["macs_share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{inspected}");

    let json = infc(at, "bench digits.infa --runs 3 --threads 1 --kernels --format json").ok().json();
    let timed = json["kernels"].as_array().unwrap();
    assert_eq!(timed.iter().map(|kernel| kernel["launches"].as_u64().unwrap()).sum::<u64>(), kernels.len() as u64);
    assert!(timed.iter().all(|kernel| kernel["gflops"].as_f64().unwrap() > 0.0), "{json}");
    let table = infc(at, "bench digits.infa --runs 3 --kernels").ok().stdout;
    assert!(table.contains("GFLOP/s") && table.contains(timed[0]["name"].as_str().unwrap()), "{table}");
}

#[test]
fn what_is_told_to_scripts() {
    let folder = digits_folder();
    let json = infc(folder.path(), "compile digits/digits.onnx --format json --target x86-64-v3").ok().json();
    assert_eq!(json["schema"], "infc.compile/1");
    assert_eq!(json["artifact"], "digits.infa");
    assert_eq!(json["bytes"], fs::metadata(folder.path().join("digits.infa")).unwrap().len());
    assert_eq!(json["onnx_nodes"], 16);
    assert_eq!(json["targets"], serde_json::json!(["x86-64-v3"]));
    assert!(json["kernels"].as_u64().unwrap() < 16, "nodes are fused");
    assert_eq!(json["phases"].as_array().unwrap().len(), 9);
}

#[test]
fn standard_streams() {
    let folder = digits_folder();
    let at = folder.path();
    let model = fs::read(at.join("digits/digits.onnx")).unwrap();
    let piped = infc_with(at, "compile - -o - --target x86-64-v3 -q".split(' '), &model).ok();
    assert_eq!(piped.stderr, "");
    infc(at, "compile digits/digits.onnx -o file.infa --target x86-64-v3").ok();
    assert!(piped.stdout_bytes == fs::read(at.join("file.infa")).unwrap(), "the same bytes, however they get out");
    infc_with(at, "compile -".split(' '), &model).fails(2, "cli::usage");
    let both = infc(at, "compile digits/digits.onnx -o - --format json");
    assert_eq!((both.code, &both.json()["code"]), (2, &"cli::usage".into()));
}

#[test]
fn dims_become_part_of_the_artifact() {
    let folder = digits_folder();
    let at = folder.path();
    infc(at, "compile digits/digits.onnx --dim N=2..4 --target x86-64-v3 -o range.infa").ok();
    infc(at, "run range.infa --random --dim N=5").fails(1, "runtime::dim-out-of-range");
    infc(at, "compile digits/digits.onnx --shape image=1x1x8x8 --target x86-64-v3 -o one.infa").ok();
    let json = infc(at, "inspect one.infa --format json").ok().json();
    assert_eq!(json["entries"][0]["inputs"][0]["type"], "f32[1, 1, 8, 8]");
    infc(at, "compile digits/digits.onnx --dim M=2").fails_after_notes(2, "dim::unknown-name");
    infc(at, "compile digits/digits.onnx --dim N=4..2").fails_after_notes(2, "dim::invalid-range");
    infc(at, "compile digits/digits.onnx --shape image=1x3x8x8").fails_after_notes(4, "dim::contradiction");
    infc(at, "compile digits/digits.onnx --shape picture=1x1x8x8").fails_after_notes(2, "onnx::unknown-input");
    infc(at, "compile digits/digits.onnx --start-from plan --stop-after plan")
        .fails_after_notes(1, "compile::bad-dump");
    infc(at, "compile digits/digits.onnx --start-from codegen").fails_after_notes(2, "compile::cannot-start");
    infc(at, "compile digits/digits.onnx --deny-fallback --max-weight-growth 1.0 --target x86-64-v2 -o all.infa").ok();
    infc(at, "compile digits/digits.onnx --target x86-64-v9").fails_after_notes(2, "compile::unknown-target");
    infc(at, "compile digits/digits.onnx --target cpu,x86-64-v3").fails_after_notes(2, "compile::duplicate-target");
    assert_eq!(names(at), ["all.infa", "digits", "one.infa", "range.infa"]);
}

#[test]
fn phases_can_be_looked_at() {
    let folder = digits_folder();
    let at = folder.path();
    let phases = infc(at, "compile --list-phases").ok().stdout;
    assert!(phases.starts_with("load "), "{phases}");
    infc(at, "compile digits/digits.onnx --stop-after plan --dump-phases dump").ok();
    assert_eq!(names(at), ["digits", "dump"], "no artifact");
    let dumps = names(&at.join("dump"));
    assert!(dumps.iter().any(|name| name.ends_with("import.txt")), "{dumps:?}");
    infc(at, "compile digits/digits.onnx --stop-after nothing").fails(2, "cli::usage");
}

#[test]
fn the_same_bytes_everywhere() {
    let one = digits_folder();
    let two = folder();
    let model = one.path().join("digits/digits.onnx");
    infc(one.path(), "compile digits/digits.onnx").ok();
    fs::copy(&model, two.path().join("digits.onnx")).unwrap();
    infc(two.path(), "compile digits.onnx").ok();
    let read = |folder: &Path| fs::read(folder.join("digits.infa")).unwrap();
    assert!(read(one.path()) == read(two.path()));
}

/// `native` expands to a target that can be stored, and is said to be for this machine.
#[test]
fn native_is_a_target_with_a_name() {
    let folder = digits_folder();
    let at = folder.path();
    let outcome = infc(at, "compile digits/digits.onnx --target native").ok();
    assert!(outcome.stderr.contains("may not run on other machines"), "{}", outcome.stderr);
    let native = infc(at, "targets --format json").ok().json()["native"].as_str().unwrap().to_owned();
    let json = infc(at, "inspect digits.infa --format json").ok().json();
    assert_eq!(json["variants"][0]["target"], native.as_str());
    infc(at, "compare digits.infa --data digits").ok();
    // The same by its name.
    let bytes = fs::read(at.join("digits.infa")).unwrap();
    infc(at, &format!("compile digits/digits.onnx --target {native}")).ok();
    assert!(fs::read(at.join("digits.infa")).unwrap() == bytes);
}

/// Every fusion that did not happen says why, to people who ask and to scripts.
#[test]
fn refused_fusions_have_reasons() {
    let folder = digits_folder();
    let at = folder.path();
    let told = infc(at, "compile digits/digits.onnx -v --target x86-64-v2").ok().stderr;
    assert!(told.contains("not fused  n13 (/MaxPool): "), "{told}");
    let json = infc(at, "compile digits/digits.onnx --target x86-64-v2 --format json").ok().json();
    let refusals: Vec<&str> = json["refusals"].as_array().unwrap().iter().filter_map(|r| r.as_str()).collect();
    assert!(refusals.iter().any(|r| r.contains("/MaxPool")), "{refusals:?}");
    assert_eq!(told.matches("not fused").count(), refusals.len());
    assert!(!infc(at, "compile digits/digits.onnx --target x86-64-v2").ok().stderr.contains("not fused"));
}

/// No file may grow beyond 4 KiB, as if the disk were full: the error says so, and nothing is left behind.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_no_artifact() {
    let folder = digits_folder();
    let script = "ulimit -f 8; trap '' XFSZ; exec \"$0\" compile digits/digits.onnx --target x86-64-v2";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_infc")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error[cli::cannot-write]"), "{stderr}");
    assert_eq!(names(folder.path()), ["digits"]);
}

#[test]
fn what_is_no_model() {
    let folder = folder();
    let at = folder.path();
    let model = fs::read(workspace().join("demo/digits.onnx")).unwrap();
    for len in [0, 1, 10, 1000, model.len() / 2, model.len() - 1] {
        fs::write(at.join("m.onnx"), &model[..len]).unwrap();
        let outcome = infc(at, "compile m.onnx");
        assert!(matches!(outcome.code, 1 | 4), "{len}: {outcome:?}");
        assert!(outcome.stderr.contains("error[onnx::"), "{len}: {outcome:?}");
    }
    let noise: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(at.join("m.onnx"), noise).unwrap();
    infc(at, "compile m.onnx").fails_after_notes(1, "onnx::malformed");
    fs::write(at.join("m.onnx"), crate::support::pb(&[2], &[1.0, 2.0])).unwrap();
    let outcome = infc(at, "compile m.onnx");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    infc(at, "compile none.onnx").fails_after_notes(1, "onnx::cannot-read");
    infc(at, "compile .").fails(2, "cli::usage");
    assert_eq!(names(at), ["m.onnx"], "nothing is left behind");
}

#[test]
fn a_full_disk() {
    let folder = digits_folder();
    if cfg!(target_os = "linux") {
        let outcome = infc(folder.path(), "compile digits/digits.onnx --target x86-64-v3 -o /dev/full");
        outcome.fails_after_notes(1, "cli::cannot-write");
    }
    infc(folder.path(), "compile digits/digits.onnx --target x86-64-v3 -o no/where.infa").fails(1, "cli::cannot-write");
    infc(folder.path(), "compile digits/digits.onnx --target x86-64-v3 -o digits").fails(1, "cli::cannot-write");
    assert_eq!(names(folder.path()), ["digits"]);
}
