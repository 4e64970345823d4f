//! Whole runs of artifacts, measured in processes of their own: `infc bench`, and what it says.

use crate::commands::tune::extents::TYPICAL;
use crate::commands::tune::rig::finished;
use infc::Compilation;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs of large models take their time.
const TIMEOUT: Duration = Duration::from_secs(120);
const LEAST_TIMEOUT: Duration = Duration::from_secs(5);

/// What a process that compares says, as far as it matters.
#[derive(Deserialize)]
struct Compared {
    comparison: Comparison,
}

#[derive(Deserialize)]
pub(super) struct Comparison {
    pub(super) old_median_ms: f64,
    pub(super) slowdown: Slowdown,
    pub(super) outputs: Outputs,
}

#[derive(Deserialize)]
pub(super) struct Slowdown {
    pub(super) median: f64,
    pub(super) upper: f64,
}

#[derive(Deserialize)]
pub(super) struct Outputs {
    pub(super) agrees: bool,
}

/// What a process that tells of kernels says.
#[derive(Deserialize)]
struct Timed {
    artifacts: Vec<TimedArtifact>,
}

#[derive(Deserialize)]
struct TimedArtifact {
    kernels: Vec<TimedKernel>,
}

#[derive(Deserialize)]
pub(super) struct TimedKernel {
    /// Of the time of a run.
    pub(super) share: f64,
    pub(super) origins: Vec<String>,
}

/// How runs are measured.
pub(super) struct Runs {
    pub(super) threads: usize,
    /// When the budget is spent.
    pub(super) deadline: Instant,
    /// Words that give dynamic dims their sizes.
    pub(super) sizes: Vec<String>,
}

impl Runs {
    /// An artifact in turns with another one.
    pub(super) fn compare(&self, candidate: &Path, incumbent: &Path, turns: usize) -> Option<Comparison> {
        let turns = turns.to_string();
        let words = ["--against".as_ref(), incumbent.as_os_str(), "--runs".as_ref(), "1".as_ref()];
        let mut command = self.bench(candidate, &self.sizes)?;
        command.args(words).args(["--turns", &turns]);
        let (status, text) = finished(command, self.timeout())?;
        let compared: Compared = serde_json::from_str(&text).ok().filter(|_| status.success())?;
        Some(compared.comparison)
    }

    /// How the time of a run divides among kernels. A model that does not take the sizes is measured at the least that it takes
    /// from then on.
    pub(super) fn timed(&mut self, artifact: &Path) -> Option<Vec<TimedKernel>> {
        let timed = self.timed_at(artifact, &self.sizes);
        if timed.is_some() || self.sizes.is_empty() {
            return timed;
        }
        self.sizes.clear();
        self.timed_at(artifact, &[])
    }

    fn timed_at(&self, artifact: &Path, sizes: &[String]) -> Option<Vec<TimedKernel>> {
        let mut command = self.bench(artifact, sizes)?;
        command.args(["--kernels", "--runs", "3"]);
        let (status, text) = finished(command, self.timeout())?;
        let timed: Timed = serde_json::from_str(&text).ok().filter(|_| status.success())?;
        timed.artifacts.into_iter().next().map(|artifact| artifact.kernels)
    }

    /// A process that takes longer than what is left of the budget is given up, but none at once.
    fn timeout(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).clamp(LEAST_TIMEOUT, TIMEOUT)
    }

    fn bench(&self, artifact: &Path, sizes: &[String]) -> Option<Command> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("bench").arg(artifact).args(["--format", "json", "--warmup", "1"]).args(sizes);
        command.args(["--threads", &self.threads.to_string()]);
        Some(command)
    }
}

/// Sizes of the dynamic dims of inputs, as words of `infc bench`: the first one of an input with several axes is taken for a
/// batch of one.
pub(super) fn sizes(compilation: &Compilation) -> Vec<String> {
    let Some(plan) = &compilation.plan else { return Vec::new() };
    let graph = &plan.graph;
    let mut sizes = BTreeMap::new();
    for port in &graph.inputs {
        let shape = &graph.ty(port.value).shape;
        for (axis, symbol) in shape.iter().enumerate().filter_map(|(axis, extent)| Some((axis, extent.as_symbol()?))) {
            let is_batch = axis == 0 && shape.len() > 1;
            sizes.entry(symbol).or_insert(if is_batch { 1 } else { TYPICAL[0] });
        }
    }
    let word = |(symbol, size): (_, i64)| {
        let symbol = &graph.symbols[symbol];
        let size = symbol.max.map_or(size, |max| max.min(size)).max(symbol.min).max(1);
        ["--dim".to_owned(), format!("{}={size}", symbol.name)]
    };
    sizes.into_iter().flat_map(word).collect()
}
