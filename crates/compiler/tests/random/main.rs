//! Random ONNX models, compiled and run, against the definitions of their operators in `infc_reference`.
//!
//! A model has up to 30 nodes over a few inputs of all element types, some of whose extents are named. It is drawn node
//! by node, and each node is evaluated at once ([`draft`]), so that what is drawn always makes sense. Every model is run
//! for the extents that it was drawn with and for others. How far a result may be off follows from evaluating the model
//! again with operands that are off by a rounding ([`evaluate`]).
//!
//! Model number N is drawn from seed N alone, so a failure is repeated by `INFC_RANDOM_SEED=N INFC_RANDOM_MODELS=1`. The
//! defaults are for everyday tests; `cargo xtask random-models` runs many. A failure is shown with as few nodes as still
//! fail ([`shrink`]); `INFC_RANDOM_TARGET=cuda` tries one target; `INFC_RANDOM_SHOW=1` shows every model before it is tried, for those that end the process.

mod check;
mod definition;
mod draft;
mod evaluate;
#[path = "../here/mod.rs"]
mod here;
mod model;
#[path = "../net/mod.rs"]
mod net;
mod operators;
mod random;
mod shrink;

use check::{Outcome, check};
use draft::Draft;
use std::collections::BTreeMap;

/// How many models are tried unless somebody says otherwise: some seconds' worth.
const MODELS: u64 = 200;

/// Models that infc refuses, in percent, above which the test is about nothing.
const REFUSED_PERCENT: u64 = 25;

/// Those of them, in percent, that take longer than the simulator of GPUs may: a fraction of the quarter that it runs.
const TOO_LONG_PERCENT: u64 = 5;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, found {text}")))
}

#[test]
#[expect(clippy::print_stderr, reason = "what fails is shown as it is found")]
fn random_models_do_what_their_operators_say() {
    let (first, models) = (setting("INFC_RANDOM_SEED", 0), setting("INFC_RANDOM_MODELS", MODELS));
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut elsewhere: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + models {
        let draft = Draft::random(seed);
        if std::env::var_os("INFC_RANDOM_SHOW").is_some() {
            eprintln!("seed {seed}, {draft}");
        }
        match check(&draft) {
            Outcome::Agrees => {}
            Outcome::Refused(why) => *refused.entry(why).or_default() += 1,
            Outcome::RefusedElsewhere(code) => *elsewhere.entry(code).or_default() += 1,
            Outcome::Fails(what) => {
                let smallest = shrink::smallest(draft);
                let again = match check(&smallest) {
                    Outcome::Fails(what) => what,
                    _ => what,
                };
                eprintln!("seed {seed}: {again}\n{smallest}");
                failures.push(seed);
            }
        }
    }
    for (why, count) in &refused {
        eprintln!("refused {count}: {why}");
    }
    for (code, count) in &elsewhere {
        eprintln!("refused {count} for other extents than they were drawn with: {code}");
    }
    assert!(failures.is_empty(), "{} of {models} models fail: seeds {failures:?}", failures.len());
    let refusals: u64 = refused.values().sum();
    assert!(models < 20 || refusals * 100 <= models * REFUSED_PERCENT, "{refusals} of {models} models are refused");
    let too_long = |of: &BTreeMap<String, u64>| -> u64 {
        of.iter().filter(|(why, _)| why.starts_with(check::TOO_LONG)).map(|(_, count)| count).sum()
    };
    let too_long = too_long(&refused) + too_long(&elsewhere);
    assert!(models < 20 || too_long * 100 <= models * TOO_LONG_PERCENT, "{too_long} of {models} models take too long");
}
