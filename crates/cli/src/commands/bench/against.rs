//! `infc bench NEW --against OLD --fail-if 3%`, `--baseline old.json`: whether a change has made a model slower.

use super::{Goal, Lane, TURN};
use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::Failure;
use crate::interval::Slowdown;
use crate::process::Start;
use crate::stats::millis;
use infc_runtime::SessionOptions;
use infc_tune::median;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Turns of each artifact, at least, unless somebody says otherwise: enough for an interval that leaves out some of both ends.
pub(super) const MIN_TURNS: usize = 20;
/// Runs of a turn, at most: of a run of a microsecond more say nothing new.
const MAX_TURN_RUNS: usize = 2000;

/// What came of a comparison.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    /// The artifact, or file of stored timings.
    pub(super) against: String,
    /// `turns`, or `stored`.
    pub(super) by: &'static str,
    pub(super) turns: Option<usize>,
    pub(super) old_median_ms: f64,
    pub(super) slowdown: Slowdown,
    pub(super) fail_if: Option<f64>,
    /// Whether the slowdown exceeds what is accepted, for sure.
    pub(super) fails: bool,
    /// Of artifacts.
    pub(super) outputs: Option<Outputs>,
}

/// How far the same elements may be apart in two artifacts of a model, as of `infc compare`.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-4 };

/// Whether both compute the same.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Outputs {
    pub(super) agrees: bool,
    /// The largest difference of two elements, if any differ.
    pub(super) worst_abs: Option<f64>,
}

impl Outputs {
    fn of(lanes: &mut [Lane; 2]) -> Result<Self, Failure> {
        let [new, old] = lanes;
        let (new, old) = (new.outputs()?, old.outputs()?);
        let agreements: Vec<Agreement> =
            new.iter().zip(&old).map(|(new, old)| Agreement::of(new, old, TOLERANCE)).collect();
        let worst = agreements.iter().filter_map(|agreement| Some(agreement.worst_abs.as_ref()?.error));
        Ok(Self {
            agrees: new.len() == old.len() && agreements.iter().all(|agreement| agreement.agrees),
            worst_abs: worst.reduce(f64::max),
        })
    }

    /// `outputs agree`, or how far they are apart.
    pub(super) fn text(&self) -> String {
        match self.worst_abs {
            Some(worst) if !self.agrees => format!("outputs differ by up to {worst:.2e}"),
            None if !self.agrees => "outputs differ".to_owned(),
            _ => "outputs agree".to_owned(),
        }
    }
}

impl Comparison {
    fn new(against: String, turns: Option<usize>, old: &[f64], slowdown: Slowdown, fail_if: Option<f64>) -> Self {
        Self {
            against,
            by: if turns.is_some() { "turns" } else { "stored" },
            turns,
            old_median_ms: median(old).unwrap_or_default(),
            slowdown,
            fail_if,
            fails: fail_if.is_some_and(|limit| slowdown.exceeds(limit)),
            outputs: None,
        }
    }

    /// `+1.2 % (−0.4 to +2.9 %)`.
    pub(super) fn text(&self) -> String {
        let percent = |part: f64| format!("{:+.1}", part * 100.0);
        let Slowdown { median, lower, upper } = self.slowdown;
        format!("{} % ({} to {} %)", percent(median), percent(lower), percent(upper))
    }

    /// What follows from it, in a word or two.
    pub(super) fn verdict(&self) -> &'static str {
        match self {
            Self { fails: true, .. } => "too slow",
            Self { slowdown: Slowdown { lower, .. }, .. } if *lower > 0.0 => "slower",
            Self { slowdown: Slowdown { upper, .. }, .. } if *upper < 0.0 => "faster",
            _ => "no difference shown",
        }
    }
}

/// `3%` or `0.03`.
pub(super) fn limit(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let value = number.trim().parse::<f64>().ok().map(|value| value * scale);
    value.filter(|value| (0.0..=10.0).contains(value)).ok_or_else(|| "expected a part as in 3%".to_owned())
}

/// Times two artifacts in turns, the new one first in every other.
///
/// Where a session's memory lies is chance, and may make a run some percent slower for as long as the session lives. So
/// each turn has a session of its own.
pub(super) fn measure(
    lanes: &mut [Lane; 2],
    goal: &Goal,
    fail_if: Option<f64>,
    started: Start,
) -> Result<Comparison, Failure> {
    let mut ratios = Vec::new();
    while ratios.len() < goal.turns || !lanes.iter().all(|lane| lane.is_done(goal)) {
        let first = ratios.len() % 2;
        let mut medians = [0.0; 2];
        for n in [first, 1 - first] {
            medians[n] = turn(&mut lanes[n], started)?;
        }
        ratios.push(medians[0] / medians[1]);
    }
    let old = &lanes[1];
    let slowdown = Slowdown::of_turns(&ratios).ok_or_else(|| too_few("--against", ratios.len()))?;
    let against = old.path.display().to_string();
    let comparison = Comparison::new(against, Some(ratios.len()), &old.latencies_ms, slowdown, fail_if);
    Ok(Comparison { outputs: Some(Outputs::of(lanes)?), ..comparison })
}

/// The median of a turn's runs.
fn turn(lane: &mut Lane, started: Start) -> Result<f64, Failure> {
    lane.session = lane.model.session(&SessionOptions::default())?;
    // Finds its memory, and fills the caches that the other has emptied.
    lane.run_once(started)?;
    let begun = Instant::now();
    let from = lane.latencies_ms.len();
    while lane.latencies_ms.len() == from || (begun.elapsed() < TURN && lane.latencies_ms.len() - from < MAX_TURN_RUNS)
    {
        let took = lane.run_once(started)?;
        lane.latencies_ms.push(millis(took));
        lane.spent += took;
    }
    Ok(median(&lane.latencies_ms[from..]).unwrap_or_default())
}

/// What `infc bench --format json` has stored, as far as it is compared.
#[derive(Deserialize)]
struct Stored {
    schema: String,
    machine: String,
    threads: usize,
    artifacts: Vec<StoredLane>,
}

#[derive(Deserialize)]
struct StoredLane {
    variant: String,
    #[serde(default)]
    inputs: Vec<String>,
    latencies_ms: Vec<f64>,
}

/// The conditions of a measurement.
pub(super) struct Conditions<'a> {
    pub(super) machine: &'a str,
    pub(super) threads: usize,
    pub(super) variant: &'a str,
    pub(super) inputs: &'a [String],
}

/// Compares with timings of another occasion, if that was of the same kind.
pub(super) fn with_stored(
    path: &Path,
    new: &[f64],
    now: &Conditions<'_>,
    fail_if: Option<f64>,
) -> Result<Comparison, Failure> {
    let text = std::fs::read(path).map_err(|source| CliError::CannotRead { path: path.to_owned(), source })?;
    let bad = |reason: String| CliError::BadBaseline { path: path.to_owned(), reason };
    let stored: Stored = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    if stored.schema != "infc.bench/1" {
        return Err(bad(format!("its schema is `{}`", stored.schema)).into());
    }
    let [old] = &stored.artifacts[..] else {
        return Err(bad(format!("it is about {} artifacts, not one", stored.artifacts.len())).into());
    };
    let other = |what: &'static str, now: &str, then: &str| CliError::OtherConditions {
        path: path.to_owned(),
        what,
        now: now.to_owned(),
        then: then.to_owned(),
    };
    let (threads, then) = (now.threads.to_string(), stored.threads.to_string());
    let (inputs, old_inputs) = (now.inputs.join(", "), old.inputs.join(", "));
    for (what, now, then) in [
        ("machine", now.machine, &stored.machine[..]),
        ("number of threads", &threads, &then),
        ("variant", now.variant, &old.variant),
        ("inputs", &inputs, &old_inputs),
    ] {
        if now != then {
            return Err(other(what, now, then).into());
        }
    }
    if old.latencies_ms.iter().any(|ms| !ms.is_finite() || *ms <= 0.0) {
        return Err(bad("it has a time that is none".to_owned()).into());
    }
    let slowdown = Slowdown::of_occasions(new, &old.latencies_ms);
    let slowdown = slowdown.ok_or_else(|| too_few("--baseline", new.len().min(old.latencies_ms.len())))?;
    Ok(Comparison::new(path.display().to_string(), None, &old.latencies_ms, slowdown, fail_if))
}

fn too_few(option: &str, runs: usize) -> CliError {
    CliError::usage(format!(
        "{option}: {runs} runs are too few to tell anything; give more --runs or a longer --duration"
    ))
}

/// A table for a pull request.
pub(super) fn markdown(
    artifact: &Path,
    new_median_ms: f64,
    comparison: &Comparison,
    conditions: &Conditions<'_>,
) -> String {
    // A line or a bar in a name would end the cell.
    let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
    let limit = comparison.fail_if.map_or_else(|| "-".to_owned(), |limit| format!("{:.1} %", limit * 100.0));
    let threads = conditions.threads;
    format!(
        "| artifact | against | old | new | slowdown (95 %) | accepted | verdict |\n\
         | --- | --- | ---: | ---: | --- | ---: | --- |\n\
         | {} | {} | {} | {} | {} | {limit} | {} |\n\n\
         {} on {} {}, {}. Medians; the interval encloses the true one in 95 of 100 cases.\n",
        cell(&artifact.display().to_string()),
        cell(&comparison.against),
        crate::tables::millis(comparison.old_median_ms),
        crate::tables::millis(new_median_ms),
        comparison.text(),
        comparison.verdict(),
        conditions.variant,
        threads,
        if threads == 1 { "thread" } else { "threads" },
        conditions.machine,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit("3%"), Ok(0.03));
        assert_eq!(limit("0.03"), Ok(0.03));
        for bad in ["", "%", "-1%", "x", "nan", "2000%"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
