//! Compiling a draft, running it, and comparing.

use crate::draft::{Draft, Id};
use crate::evaluate::difference;
use crate::{here, model};
use infc::{CompileOptions, Source};
use infc_runtime::{LoadOptions, Model, Session, SessionOptions};
use infc_simgpu::Simulator;
use infc_tensor::Tensor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What is compiled for, one per model unless `INFC_RANDOM_TARGET` names one of them for all; what this machine does not have
/// is left out. The GPU is the simulator.
const TARGETS: [&str; 4] = ["x86-64-v4", "x86-64-v3", "x86-64-v2", GPU];
const GPU: &str = "cuda";

/// Instructions that the simulator executes of all runs of a model, counted per thread: under a second.
const STEP_LIMIT: u64 = 20_000_000;

/// The code of a run that is over that limit.
pub(crate) const TOO_LONG: &str = "runtime::gpu-time-limit";

/// For how many other choices of extents a model is run, of which half the later ones are 0 or 1.
const OTHER_EXTENTS: u64 = 3;

/// What became of a model.
pub(crate) enum Outcome {
    Agrees,
    /// It agrees for the extents that it was drawn with, and cannot be run for others; the error's code.
    RefusedElsewhere(String),
    /// infc says that it cannot compile it; why.
    Refused(String),
    Fails(String),
}

/// Compiles a model for one of the targets, strictly or not, and runs it for some choices of extents.
pub(crate) fn check(draft: &Draft) -> Outcome {
    if draft.outputs.is_empty() {
        return Outcome::Agrees;
    }
    let tried = catch_unwind(AssertUnwindSafe(|| run(draft)));
    tried.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Outcome::Fails(format!("it panics: {}", text.unwrap_or_default()))
    })
}

/// One model in four, whatever its target is.
fn is_strict(seed: usize) -> bool {
    seed / TARGETS.len() % 4 == 3
}

#[test]
fn all_targets_meet_both_kinds_of_sums() {
    let met: std::collections::BTreeSet<(usize, bool)> =
        (0..64).map(|seed| (seed % TARGETS.len(), is_strict(seed))).collect();
    assert_eq!(met.len(), 2 * TARGETS.len());
}

fn run(draft: &Draft) -> Outcome {
    let source = Source::bytes(model::bytes(draft));
    let seed = draft.seed as usize;
    // One target by name, which may have further features, or the next of those that all have.
    let targets = match std::env::var("INFC_RANDOM_TARGET") {
        Ok(wanted) => vec![wanted],
        Err(_) => (0..TARGETS.len()).map(|n| TARGETS[(seed + n) % TARGETS.len()].to_owned()).collect(),
    };
    for target in targets {
        let options = CompileOptions {
            targets: vec![target.clone()],
            byte_targets: Vec::new(),
            strict: is_strict(seed),
            ..CompileOptions::default()
        };
        let compilation = match infc::compile(&source, &options, &mut ()) {
            Ok(compilation) => compilation,
            Err(error) if error.code().starts_with("onnx::") => {
                return Outcome::Refused(format!("{}: {error}", error.code()));
            }
            Err(error) => return Outcome::Fails(format!("{target}: {}: {error}", error.code())),
        };
        let bytes = compilation.to_bytes().expect("an artifact");
        let Some(model) = load(bytes, &target, draft.seed) else { continue };
        let mut session = model.session(&SessionOptions::default()).expect("a session");
        let nominal: Vec<Vec<Tensor>> = draft.values.iter().map(|value| value.samples.clone()).collect();
        let mut outcome = Outcome::Agrees;
        let others = (0..OTHER_EXTENTS).filter_map(|turn| draft.elsewhere(turn));
        for (n, samples) in std::iter::once(nominal).chain(others).enumerate() {
            match compare(draft, &mut session, &samples) {
                Outcome::Fails(what) => return Outcome::Fails(format!("{target}: {what}")),
                // What follows from a dim may leave it one size, but that is the one it was drawn with.
                Outcome::Refused(why) if n == 0 && why.starts_with("runtime::wrong-shape") => {
                    return Outcome::Fails(format!("{target}: {why}"));
                }
                Outcome::Refused(why) if n == 0 => return Outcome::Refused(why),
                Outcome::Refused(why) => {
                    let code = why.split(": ").next().unwrap_or_default();
                    outcome = Outcome::RefusedElsewhere(code.to_owned());
                }
                Outcome::Agrees | Outcome::RefusedElsewhere(_) => {}
            }
        }
        return outcome;
    }
    Outcome::Refused("this machine runs none of the targets".to_owned())
}

/// The model on this machine, if it runs code for the target.
fn load(bytes: Vec<u8>, target: &str, seed: u64) -> Option<Model> {
    if target != GPU {
        return here::load(&bytes, target, 1);
    }
    let gpu = Arc::new(Simulator::new(seed).with_step_limit(STEP_LIMIT));
    let options = LoadOptions { gpu: Some(gpu), ..LoadOptions::default() };
    Some(Model::from_vec_with(bytes, &options).unwrap_or_else(|error| panic!("{}: {error}", error.code())))
}

/// One run.
fn compare(draft: &Draft, session: &mut Session, samples: &[Vec<Tensor>]) -> Outcome {
    let inputs: Vec<Id> = model::inputs(draft);
    let tensors: Vec<&Tensor> = inputs.iter().map(|&id| &samples[id][0]).collect();
    let found = match session.run_owned(&tensors) {
        Ok(found) => found,
        // Two symbols that meet are taken to be equal, which the numbers need not know, and windows to fit in.
        Err(error)
            if matches!(
                error.code(),
                "runtime::assumption-failed"
                    | "runtime::wrong-shape"
                    | "runtime::unmet-requirement"
                    | "runtime::unexpected-result"
                    | "runtime::bad-size"
                    | TOO_LONG
                    | "artifact::bad-size"
            ) =>
        {
            return Outcome::Refused(format!("{}: {error}", error.code()));
        }
        Err(error) => return Outcome::Fails(format!("{}: {error}", error.code())),
    };
    for (&id, found) in draft.outputs.iter().zip(&found) {
        if let Some(what) = difference(found, &samples[id]) {
            return Outcome::Fails(format!("v{id}: {what}"));
        }
    }
    Outcome::Agrees
}
