//! Whatever is changed in a model, compiling it ends in an artifact that loads, or in an error.
//!
//! Bytes at random rarely decode. So what is changed is the model as protobuf describes it: operators, attributes,
//! types, extents, names, constants, opsets, in the graph and in graphs within. Seeds are models of one operator, of
//! which ONNX has some two thousand as test cases (`cargo xtask conformance` writes them).

#![no_main]

#[path = "../../crates/compiler/tests/mutated/mutation.rs"]
mod mutation;

use infc::{CompileOptions, Source};
use infc_runtime::{LoadOptions, Model};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = mutation::Random::new(seed);
    if random.one_in(16) {
        return fuzzer_mutate(data, size, max_size);
    }
    match mutation::mutated(&data[..size], &mut random) {
        Some(bytes) if bytes.len() <= max_size => {
            data[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});

fuzz_target!(|bytes: &[u8]| {
    let options =
        CompileOptions { targets: vec!["x86-64-v3".to_owned()], byte_targets: Vec::new(), ..CompileOptions::default() };
    let compilation = match infc::compile(&Source::bytes(bytes.to_vec()), &options, &mut ()) {
        Ok(compilation) => compilation,
        // Violations that verifiers find are bugs.
        Err(error) if error.code() == "compile::internal" => panic!("{error}"),
        Err(_) => return,
    };
    let artifact = compilation.to_bytes().expect("an artifact");
    let loaded = Model::from_vec_with(artifact, &LoadOptions::default());
    if let Err(error) = loaded {
        // This build evaluates no operators on the host.
        assert!(matches!(error.code(), "runtime::no-matching-variant" | "runtime::no-host-op"), "{error}");
    }
});
