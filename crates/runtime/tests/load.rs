//! Loading: where artifacts come from, which variant is taken, and what is refused.

#![cfg(target_arch = "x86_64")]

mod support;

use infc_runtime::artifact::container::{Container, SectionKind};
use infc_runtime::artifact::{Arg, ArtifactBuilder, ArtifactError, MemoryPlan, Program, Provenance, SizeExpr, Step};
use infc_runtime::{LoadOptions, Model, RuntimeError, SessionOptions, Tensor};
use std::io::Write;
use support::{add_twice, artifact, fixed, variant};

fn code(result: Result<Model, RuntimeError>) -> &'static str {
    result.map_or_else(|error| error.code(), |_| "loaded")
}

/// An artifact without inputs and outputs, for the given targets with their features.
fn for_targets(targets: &[(&str, &[&str])]) -> Vec<u8> {
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    artifact.entry(fixed(vec![], vec![]));
    for (target, features) in targets {
        artifact.variant(variant(target, features, Program::default()));
    }
    artifact.finish().unwrap().to_vec().unwrap()
}

#[test]
fn from_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&add_twice()).unwrap();
    let model = Model::open(file.path()).unwrap();
    drop(file);
    // The mapping outlives the name.
    let one = Tensor::from_elements(&[1], &[1f32]).unwrap();
    let outputs = model.session(&SessionOptions::default()).unwrap().run_owned(&[&one, &one]).unwrap();
    assert_eq!(outputs[0].elements::<f32>().unwrap(), [3.]);
}

#[test]
fn files_that_cannot_be_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no.infa");
    assert_eq!(code(Model::open(&missing)), "runtime::cannot-open");
    assert_eq!(code(Model::open(folder.path())), "runtime::cannot-open");
    std::fs::write(&missing, []).unwrap();
    let empty = code(Model::open(&missing));
    assert!(["runtime::cannot-open", "artifact::not-an-artifact"].contains(&empty), "{empty}");
    std::fs::write(&missing, "#!/bin/sh\n").unwrap();
    assert_eq!(code(Model::open(&missing)), "artifact::not-an-artifact");
}

#[test]
fn static_bytes_must_be_aligned() {
    let golden = infc_runtime::include_artifact!("../../artifact/tests/golden/format-1.0.infa");
    assert_eq!(golden.as_ptr().addr() % 64, 0);
    assert_eq!(code(Model::from_static(golden)), "loaded");
    let error = Model::from_static(&golden[8..]).unwrap_err();
    assert_eq!(error.code(), "runtime::misaligned-static");
    assert!(error.to_string().contains("multiple of 8 only"), "{error}");
}

#[test]
fn damaged_artifacts() {
    let bytes = add_twice();
    let container = Container::read(&bytes).unwrap();
    let head = 64 + 64 * container.sections().len();
    for at in 0..head {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        assert!(code(Model::from_vec(damaged)).starts_with("artifact::"), "byte {at}");
    }
    for section in container.sections() {
        for len in [section.range.start, section.range.start + 1, section.range.end - 1] {
            if len < bytes.len() {
                assert_eq!(code(Model::from_vec(bytes[..len].to_vec())), "artifact::truncated", "{len}");
            }
        }
    }
}

#[test]
fn damaged_sections() {
    let bytes = artifact(fixed(vec![], vec![]), vec![], vec![], &[&[1., 2.]]);
    let verify = LoadOptions { verify_weights: true, ..LoadOptions::default() };
    assert_eq!(code(Model::from_vec_with(bytes.clone(), &verify)), "loaded");
    let container = Container::read(&bytes).unwrap();
    for section in container.sections() {
        let mut damaged = bytes.clone();
        damaged[section.range.start] ^= 1;
        assert_eq!(code(Model::from_vec_with(damaged.clone(), &verify)), "artifact::hash-mismatch");
        // Weights are not read by a plain load.
        let plain = if section.kind == SectionKind::WEIGHTS { "loaded" } else { "artifact::hash-mismatch" };
        assert_eq!(code(Model::from_vec(damaged)), plain);
    }
}

#[test]
fn sections_of_other_variants_are_not_read() {
    let mut bytes = for_targets(&[("x86-64-v3", &["warp9"]), ("x86-64", &[])]);
    let start = Container::read(&bytes).unwrap().sections()[2].range.start;
    bytes[start] ^= 1;
    assert_eq!(code(Model::from_vec(bytes)), "loaded");
}

#[test]
fn the_best_variant_that_runs() {
    let bytes = for_targets(&[("x86-64-v4", &["warp9", "fma"]), ("aarch64", &[]), ("x86-64", &[])]);
    let model = Model::from_vec(bytes.clone()).unwrap();
    let selection = model.selection();
    assert_eq!((selection.variant, selection.target.as_str()), (2, "x86-64"));
    assert!(selection.skipped[0].reason.contains("warp9"), "{selection:?}");
    assert!(selection.skipped[1].reason.contains("architecture"), "{selection:?}");
    let wanting = |target: &str| LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
    assert_eq!(code(Model::from_vec_with(bytes.clone(), &wanting("x86-64"))), "loaded");
    assert_eq!(code(Model::from_vec_with(bytes.clone(), &wanting("x86-64-v4"))), "artifact::wrong-target");
    assert_eq!(code(Model::from_vec_with(bytes, &wanting("x86-64-v3"))), "artifact::no-such-target");
}

#[test]
fn built_for_another_target() {
    let error = Model::from_vec(for_targets(&[("aarch64", &[])])).unwrap_err();
    assert_eq!(error.code(), "artifact::wrong-target");
    let text = error.to_string();
    assert!(text.contains("built for aarch64") && text.contains("--target x86-64"), "{text}");
    assert_eq!(code(Model::from_vec(for_targets(&[]))), "artifact::wrong-target");
}

#[test]
fn an_impossible_memory_plan_is_an_error() {
    let slots = vec![support::arena(SizeExpr::constant(64), 0, 0)];
    let touch = support::launch(0, vec![Arg::read(0), Arg::read(0), Arg::write(0)], SizeExpr::constant(0));
    for arena_bytes in [1 << 60, u64::MAX, 1 << 47] {
        let plan = MemoryPlan { arena_bytes, offsets: vec![Some(0)] };
        let steps = vec![Step::Launch(touch.clone())];
        let program = Program { slots: slots.clone(), steps, static_plan: Some(plan) };
        let mut artifact = ArtifactBuilder::new(Provenance::default());
        artifact.entry(fixed(vec![], vec![]));
        artifact.variant(variant("x86-64", &[], program));
        let model = Model::from_vec(artifact.finish().unwrap().to_vec().unwrap()).unwrap();
        let error = model.session(&SessionOptions::default()).unwrap_err();
        assert_eq!(error.code(), "runtime::out-of-memory", "{arena_bytes}");
    }
}

#[test]
fn every_code_is_in_the_list() {
    let listed = |code: &str| ArtifactError::CODES.contains(&code) || RuntimeError::CODES.contains(&code);
    for bytes in [vec![], for_targets(&[]), for_targets(&[("x86-64", &["warp9"])]), b"no".to_vec()] {
        assert!(listed(code(Model::from_vec(bytes))));
    }
    let all: std::collections::BTreeSet<_> = ArtifactError::CODES.iter().chain(RuntimeError::CODES).collect();
    assert_eq!(all.len(), ArtifactError::CODES.len() + RuntimeError::CODES.len());
}

#[test]
fn custom_operators_are_asked_for() {
    let mut artifact = ArtifactBuilder::new(Provenance::default());
    artifact.entry(fixed(vec![], vec![]));
    artifact.variant(variant("x86-64", &[], Program::default()));
    artifact.custom_op("my.domain::Op@1".to_owned());
    let bytes = artifact.finish().unwrap().to_vec().unwrap();
    assert_eq!(code(Model::from_vec(bytes)), "runtime::custom-ops");
}

#[test]
fn an_entry_of_nothing_runs() {
    let model = Model::from_vec(for_targets(&[("x86-64", &[])])).unwrap();
    assert_eq!(model.session(&SessionOptions::default()).unwrap().run_owned(&[]).unwrap(), []);
}
