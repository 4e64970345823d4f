//! Models that are changed at random, but decode: compiling them ends in an artifact that loads, or in an error, soon and
//! in little memory.
//!
//! The models are those that fuzzing starts from, and all in the folder that `INFC_MUTATED_MODELS` names (ONNX's test
//! cases, which `cargo xtask conformance` writes). Change number N of a model is drawn from N alone; a failure names both.
//! `INFC_MUTATED_SEED` and `INFC_MUTATED_CHANGES` say which changes are tried; `INFC_MUTATED_SHOW=1` names each before it
//! is tried, for those that end the process. The fuzz target `onnx_mutate` makes the same changes where coverage grows.

mod mutation;

use infc::{CompileOptions, Source};
use infc_runtime::{LoadOptions, Model};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Changes per model unless somebody says otherwise: some seconds' worth.
const CHANGES: u32 = 40;

/// No model that is tried takes a tenth of that, unoptimised.
const LONGEST: Duration = Duration::from_secs(20);

/// Larger models are left out: they take their time for good reason.
const MAX_MODEL_BYTES: u64 = 16 << 10;

/// What all models together may take of memory at a time.
const MAX_MEMORY_KIB: u64 = 2 << 20;

fn setting(name: &str, default: u32) -> u32 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, found {text}")))
}

/// The files below a folder, in order.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_none_or(|e| e == "onnx")
            && path.metadata().is_ok_and(|m| m.len() <= MAX_MODEL_BYTES)
        {
            found.push(path);
        }
    }
}

/// What is wrong with how a model is compiled, if anything is.
fn fault(bytes: Vec<u8>) -> Option<String> {
    let options =
        CompileOptions { targets: vec!["x86-64-v3".to_owned()], byte_targets: Vec::new(), ..CompileOptions::default() };
    let compilation = match infc::compile(&Source::bytes(bytes), &options, &mut ()) {
        Ok(compilation) => compilation,
        // What the phases before it made was wrong.
        Err(error) if ["compile::internal", "compile::pass", "compile::weight"].contains(&error.code()) => {
            return Some(format!("{}: {error}", error.code()));
        }
        Err(_) => return None,
    };
    let bytes = match compilation.to_bytes() {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("{}: {error}", error.code())),
    };
    let error = Model::from_vec_with(bytes, &LoadOptions::default()).err()?;
    (error.code() != "runtime::no-matching-variant").then(|| format!("{}: {error}", error.code()))
}

/// The most memory that this process has had; `None` where nobody tells.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

#[test]
#[expect(clippy::print_stderr, reason = "what fails is shown as it is found")]
fn changed_models_are_compiled_or_refused() {
    let mut models = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/onnx_import"), &mut models);
    assert!(!models.is_empty(), "fuzzing starts from some models");
    if let Some(folder) = std::env::var_os("INFC_MUTATED_MODELS") {
        files(Path::new(&folder), &mut models);
    }
    let (first, changes) = (setting("INFC_MUTATED_SEED", 0), setting("INFC_MUTATED_CHANGES", CHANGES));
    let show = std::env::var_os("INFC_MUTATED_SHOW").is_some();
    let mut failures = 0;
    let mut peak = peak_memory_kib().unwrap_or(0).max(MAX_MEMORY_KIB);
    for seed in first..first + changes {
        for path in &models {
            let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let Some(changed) = mutation::mutated(&bytes, &mut mutation::Random::new(seed)) else { continue };
            if show {
                eprintln!("{} {seed}", path.display());
            }
            let begin = Instant::now();
            let tried = catch_unwind(AssertUnwindSafe(|| fault(changed)));
            let elapsed = begin.elapsed();
            let memory = peak_memory_kib().unwrap_or(0);
            let fault = match tried {
                Ok(Some(fault)) => fault,
                Ok(None) if elapsed > LONGEST => format!("it takes {elapsed:?}"),
                Ok(None) if memory > peak => format!("it takes {memory} KiB"),
                Ok(None) => continue,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                    format!("it panics: {}", text.unwrap_or_default())
                }
            };
            // Memory only counts where it grows.
            peak = peak.max(memory);
            eprintln!("{} changed by {seed}: {fault}", path.display());
            failures += 1;
        }
    }
    assert_eq!(failures, 0, "of {} models, {changes} changes each", models.len());
}
