//! Artifacts for GPUs, as users see them: what `compile`, `inspect` and `targets` say, and what becomes of a run where there
//! is no GPU.

use crate::support::{digits_folder, infc};
use std::fs;

#[test]
fn an_artifact_for_gpus_and_processors() {
    let folder = digits_folder();
    let at = folder.path();
    infc(at, "compile digits/digits.onnx --target x86-64-v2,cuda --dump-phases dump").ok();
    let json = infc(at, "inspect digits.infa --verify --format json").ok().json();
    // The GPU first, wherever it stands in the list.
    let targets: Vec<&str> =
        json["variants"].as_array().unwrap().iter().map(|variant| variant["target"].as_str().unwrap()).collect();
    assert_eq!(targets, ["cuda:sm_80", "x86-64-v2"]);
    let sections = json["sections"].as_array().unwrap();
    assert!(sections.iter().any(|s| s["kind"] == "ptx" && s["target"] == "cuda:sm_80"), "{json}");
    let text = infc(at, "inspect digits.infa --target cuda:sm_80").ok().stdout;
    assert!(text.contains("Kernels of cuda:sm_80") && text.contains(" ptx "), "{text}");

    let folder = fs::read_dir(at.join("dump")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folder.filter(|path| path.is_dir()).find(|path| path.join("cuda-sm_80").is_dir()).expect("listings");
    let kernels: Vec<_> = fs::read_dir(folder.join("cuda-sm_80")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(
        kernels.len() > 3 && kernels.iter().all(|path| path.extension().is_some_and(|e| e == "ptx")),
        "{kernels:?}"
    );
    assert!(fs::read_to_string(&kernels[0]).unwrap().contains(".target sm_80"));
    assert!(folder.join("x86-64-v2").is_dir());

    // On a machine with a GPU it would run.
    let outcome = infc(at, "run digits.infa --random --dim N=1");
    if outcome.code != 0 {
        let refused = outcome.fails(1, "runtime::no-gpu");
        assert!(refused.stderr.contains("driver 450 or newer") && refused.stderr.contains("--allow-cpu"));
        let outcome = infc(at, "run digits.infa --random --dim N=1 --allow-cpu").ok();
        assert!(outcome.stderr.contains("on x86-64-v2 instead of cuda:sm_80"), "{}", outcome.stderr);
        infc(at, "run digits.infa --random --dim N=1 --target cuda:sm_80").fails(1, "runtime::no-gpu");
    }
    infc(at, "run digits.infa --random --dim N=1 --target x86-64-v2").ok();
}

#[test]
fn an_artifact_for_gpus_alone() {
    let folder = digits_folder();
    let at = folder.path();
    infc(at, "compile digits/digits.onnx --target cuda").ok();
    let bytes = fs::read(at.join("digits.infa")).unwrap();
    infc(at, "compile digits/digits.onnx --target cuda").ok();
    assert!(fs::read(at.join("digits.infa")).unwrap() == bytes, "the same flags give the same bytes");
    let outcome = infc(at, "run digits.infa --random --dim N=1 --allow-cpu");
    if outcome.code != 0 {
        outcome.fails(1, "artifact::wrong-target");
        let refused = infc(at, "run digits.infa --random --dim N=1").fails(1, "runtime::no-gpu");
        assert!(refused.stderr.contains("--target cpu,cuda"), "{}", refused.stderr);
    }
}

/// An assembler that gives its input back stands for one: what there is of machine code is told.
#[cfg(unix)]
#[test]
fn machine_code_beside_ptx() {
    use std::os::unix::fs::PermissionsExt;

    let folder = digits_folder();
    let at = folder.path();
    let script = "#!/bin/sh\n[ $1 = --version ] && echo 'Cuda compilation tools, release 9.9, V9.9.1' || cp $6 $5\n";
    fs::create_dir(at.join("bin")).unwrap();
    fs::write(at.join("bin/ptxas"), script).unwrap();
    fs::set_permissions(at.join("bin/ptxas"), fs::Permissions::from_mode(0o755)).unwrap();
    let told = infc(at, "compile digits/digits.onnx --target cuda,x86-64-v2 --ptxas bin/ptxas").ok().stderr;
    assert!(told.contains("machine code  for cuda:sm_80: sm_80 "), "{told}");
    let json = infc(at, "inspect digits.infa --verify --format json").ok().json();
    let cubins: Vec<&str> = json["sections"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|section| section["kind"] == "cubin" && section["target"] == "cuda:sm_80")
        .map(|section| section["generation"].as_str().unwrap())
        .collect();
    assert_eq!(cubins, ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]);
    assert_eq!(json["provenance"]["assembler"], "ptxas 9.9.1");
    let text = infc(at, "inspect digits.infa").ok().stdout;
    assert!(text.contains("cubin sm_90"), "{text}");
    infc(at, "inspect digits.infa --thin cuda:sm_80 -o thin.infa").ok();
    assert!(infc(at, "inspect thin.infa").ok().stdout.contains("cubin sm_120"));
    infc(at, "run digits.infa --random --dim N=1 --target x86-64-v2").ok();

    let told = infc(at, "compile digits/digits.onnx --target x86-64-v2 --ptxas bin/ptxas").ok().stderr;
    assert!(told.contains("no target is a GPU"), "{told}");
    infc(at, "compile digits/digits.onnx --target cuda --ptxas bin/none").fails(1, "compile::ptxas");
}

#[test]
fn names_of_gpus() {
    let folder = digits_folder();
    let at = folder.path();
    let json = infc(at, "targets --format json").ok().json();
    let gpus = json["gpus"].as_array().unwrap();
    assert_eq!(gpus.iter().filter(|gpu| gpu["default"] == true).count(), 1);
    for gpu in gpus {
        let name = gpu["name"].as_str().unwrap();
        infc(at, &format!("compile digits/digits.onnx --stop-after codegen --target {name}")).ok();
    }
    infc(at, "compile digits/digits.onnx --target cuda:sm_35").fails(2, "compile::unknown-target");
}
