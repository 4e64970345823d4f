//! The search over ways to form kernels, which comes before that over their schedules: which convolutions are filtered, what
//! shares a kernel, how values lie ([`infc::Choice`]).
//!
//! What one choice does to its neighbours shows in a whole run alone, so whole artifacts take turns, in a process of its own.
//! A choice made otherwise has to be quicker beyond the noise twice, and its outputs those of the plan before. Choices are tried
//! by what is to be expected of them: their share of the time, and what others of their kind have gained.

use super::rig::finished;
use super::{Keeper, TuneArgs, model_options};
use crate::console::Console;
use crate::error::CliError;
use crate::failure::Failure;
use crate::{host, process};
use indicatif::ProgressBar;
use infc::{Choice, Compilation, CompileOptions, KernelKey, Records, Source, VariantTarget, Way};
use infc_tune::{ChoiceRecord, Proof, RecordFile, builtin_records};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Of the budget, what this search takes at most.
const SHARE_OF_BUDGET: f64 = 0.25;
/// Of all schedules to try, how many ways to form kernels are tried beside.
const TRIALS_PER_WAY: u64 = 8;
/// Turns that tell whether more are worth it, and turns that tell whether it is quicker.
const FIRST_TURNS: usize = 6;
const TURNS: usize = 20;
/// Runs of large models take their time.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What is quicker by less is not worth a record.
const LEAST_GAIN: f64 = 0.01;
/// Ways of which less is to be expected, of the time of a run, are not tried.
const LEAST_EXPECTED: f64 = 2e-4;
/// What a way is expected to gain, of the time of the kernels that it is about, before any of its kind was tried, and how many
/// trials that counts for.
const EXPECTED: (f64, f64) = (0.05, 4.0);
/// Sizes of dynamic dims that are no batch.
const TYPICAL: i64 = 64;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Formed {
    pub(super) trials: u64,
    /// Of a run of the model, by the estimated choices and by the best; `None` if that was not measured.
    pub(super) default_ms: Option<f64>,
    pub(super) best_ms: Option<f64>,
    pub(super) choices: Vec<Found>,
}

/// A choice that was made otherwise.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) kind: String,
    pub(super) origins: Vec<String>,
    pub(super) way: String,
    pub(super) instead_of: String,
    /// Of the time of a run before.
    pub(super) ratio: f64,
}

/// What a process that compares says, as far as it matters.
#[derive(Deserialize)]
struct Compared {
    comparison: Comparison,
}

#[derive(Deserialize)]
struct Comparison {
    old_median_ms: f64,
    slowdown: Slowdown,
    outputs: Outputs,
}

#[derive(Deserialize)]
struct Slowdown {
    median: f64,
    upper: f64,
}

#[derive(Deserialize)]
struct Outputs {
    agrees: bool,
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
struct TimedKernel {
    share: f64,
    origins: Vec<String>,
}

/// A way that was not tried yet.
struct Open {
    choice: Choice,
    way: Way,
    /// Of the time of a run, that of the kernels that it is about.
    share: f64,
    /// The file of records says that it is quicker, which is measured again.
    is_known: bool,
}

/// See the module.
pub(super) struct Formation<'a> {
    arguments: &'a TuneArgs,
    model: &'a Path,
    target: &'a VariantTarget,
    folder: &'a Path,
    /// What is settled: by the file of records, unless that is measured again, and by this search.
    pub(super) settled: Records,
    /// What is measured again.
    known: BTreeMap<KernelKey, Way>,
    /// The plan that is the best so far.
    plan: String,
    /// Its artifact, and how many were written.
    incumbent: PathBuf,
    written: usize,
    /// Words that give dynamic dims their sizes.
    sizes: Vec<String>,
}

impl<'a> Formation<'a> {
    /// Nothing was compiled yet; `known` is what the file of records says of choices here.
    pub(super) fn new(
        arguments: &'a TuneArgs,
        model: &'a Path,
        target: &'a VariantTarget,
        folder: &'a Path,
        known: RecordFile,
    ) -> Self {
        let (known, again) =
            if arguments.resume { (RecordFile::default(), known.choices) } else { (known, Vec::new()) };
        let again = again.iter().filter_map(|record| record.parts().ok()).map(|(question, _, way)| (question, way));
        Self {
            arguments,
            model,
            target,
            folder,
            settled: known.to_records(Some(arguments.threads)),
            known: again.collect(),
            plan: String::new(),
            incumbent: folder.join("plan.0.infa"),
            written: 0,
            sizes: Vec::new(),
        }
    }

    /// Searches until the budget for it is spent, or nothing is to be expected any more.
    pub(super) fn search(
        &mut self,
        keeper: &mut Keeper<'_>,
        bar: &ProgressBar,
        console: &Console,
    ) -> Result<Formed, Failure> {
        let most = match (self.arguments.plan_trials, self.arguments.trials) {
            (Some(most), _) => most,
            (None, Some(trials)) => trials / TRIALS_PER_WAY,
            (None, None) => u64::MAX,
        };
        let mut formed = Formed::default();
        // Where one kernel is asked for, plans stay; GPUs are measured kernel by kernel.
        if most == 0 || !self.arguments.kernel.is_empty() || self.target.cpu().is_none() {
            return Ok(formed);
        }
        let deadline = Instant::now() + self.arguments.budget.mul_f64(SHARE_OF_BUDGET);
        bar.set_message("the plan as it is estimated");
        let first = self.compile(None)?;
        self.sizes = sizes(&first);
        self.plan = plan_text(&first);
        write(&first, &self.incumbent)?;
        // A model that does not take such sizes is measured at the least that it takes.
        let timed = self.timed().or_else(|| {
            self.sizes.clear();
            self.timed()
        });
        let Some(timed) = timed else {
            bar.suspend(|| console.note("  plans are not searched: the model cannot be measured as it is"));
            return Ok(formed);
        };
        let mut open = self.open(&first, &timed);
        drop(first);
        let mut gains: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        while Instant::now() < deadline && formed.trials < most {
            let expected = |way: &Open| match way.is_known {
                true => f64::INFINITY,
                false => way.share * expected(gains.get(way.choice.kind())),
            };
            let best =
                (0..open.len()).max_by(|&a, &b| expected(&open[a]).total_cmp(&expected(&open[b])).then(b.cmp(&a)));
            let Some(best) = best.filter(|&best| expected(&open[best]) >= LEAST_EXPECTED) else { break };
            let tried = open.swap_remove(best);
            let gain = formed.best_ms.zip(formed.default_ms).map_or(0.0, |(best, default)| 1.0 - best / default);
            let about = format!("{} of {}", tried.choice.kind(), tried.choice.origins.first().map_or("-", |o| o));
            bar.set_message(format!(
                "{} ways to form kernels tried, {:.1} % quicker; now {about}: {}",
                formed.trials,
                100.0 * gain,
                tried.way
            ));
            let proof = self.trial(&tried, &mut formed)?;
            if tried.is_known && proof.flatten().is_none() {
                bar.suspend(|| console.note(format!("  no longer quicker  {about}: {}", tried.way)));
                keeper.drop_choice(KernelKey::of_text(&tried.choice.question))?;
            }
            let Some(proof) = proof else { continue };
            let gained = proof.map_or(0.0, |proof| 1.0 - proof.ratio);
            let of_kind = gains.entry(tried.choice.kind().to_owned()).or_default();
            *of_kind = (of_kind.0 + gained / tried.share.max(1e-3), of_kind.1 + 1.0);
            if let Some(proof) = proof {
                let Open { choice, way, .. } = &tried;
                formed.choices.push(Found {
                    kind: choice.kind().to_owned(),
                    origins: choice.origins.clone(),
                    way: way.to_string(),
                    instead_of: choice.taken.to_string(),
                    ratio: proof.ratio,
                });
                bar.suspend(|| keeper.keep_choice(ChoiceRecord::new(choice, *way, proof)))?;
                // Its other ways had the old one to beat.
                open.retain(|other| other.choice.question != choice.question);
            }
        }
        drop(std::fs::remove_file(&self.incumbent));
        Ok(formed)
    }

    /// Tries a way: `None` if that is the plan which there is, or cannot be compiled or measured; what it is quicker by, if it is
    /// and computes the same. It is the plan to beat then.
    fn trial(&mut self, tried: &Open, formed: &mut Formed) -> Result<Option<Option<Proof>>, Failure> {
        let question = KernelKey::of_text(&tried.choice.question);
        let Ok(compilation) = self.compile(Some((question, tried.way))) else { return Ok(None) };
        let plan = plan_text(&compilation);
        if plan == self.plan {
            return Ok(None);
        }
        self.written += 1;
        let candidate = self.folder.join(format!("plan.{}.infa", self.written));
        write(&compilation, &candidate)?;
        drop(compilation);
        formed.trials += 1;
        let proof = self.proof(&candidate, formed);
        if proof.flatten().is_some() {
            self.settled.settle(question, self.target, self.arguments.strict, tried.way);
            self.plan = plan;
            drop(std::fs::remove_file(std::mem::replace(&mut self.incumbent, candidate)));
        } else {
            drop(std::fs::remove_file(candidate));
        }
        Ok(proof)
    }

    /// What comparisons say of an artifact: a short one, and two long ones if it is not slower by that.
    fn proof(&self, candidate: &Path, formed: &mut Formed) -> Option<Option<Proof>> {
        let mut last = None;
        for turns in [FIRST_TURNS, TURNS, TURNS] {
            let Comparison { old_median_ms, slowdown, outputs } = self.compare(candidate, turns)?;
            formed.default_ms.get_or_insert(old_median_ms);
            formed.best_ms.get_or_insert(old_median_ms);
            let proof = Proof {
                default_seconds: old_median_ms / 1e3,
                ratio: 1.0 + slowdown.median,
                ratio_at_most: 1.0 + slowdown.upper,
            };
            let is_sure = turns < TURNS || proof.ratio_at_most < 1.0;
            if !outputs.agrees || proof.ratio > 1.0 - LEAST_GAIN || !is_sure {
                return Some(None);
            }
            last = Some(proof);
        }
        formed.best_ms = formed.best_ms.zip(last).map(|(best, proof)| best * proof.ratio);
        Some(last)
    }

    fn compare(&self, candidate: &Path, turns: usize) -> Option<Comparison> {
        let turns = turns.to_string();
        let words = ["--against".as_ref(), self.incumbent.as_os_str(), "--runs".as_ref(), "1".as_ref()];
        let mut command = self.bench(candidate)?;
        command.args(words).args(["--turns", &turns]);
        let (status, text) = finished(command, TIMEOUT)?;
        let compared: Compared = serde_json::from_str(&text).ok().filter(|_| status.success())?;
        Some(compared.comparison)
    }

    /// How the time of a run divides among kernels.
    fn timed(&self) -> Option<Vec<TimedKernel>> {
        let mut command = self.bench(&self.incumbent)?;
        command.args(["--kernels", "--runs", "3"]);
        let (status, text) = finished(command, TIMEOUT)?;
        let timed: Timed = serde_json::from_str(&text).ok().filter(|_| status.success())?;
        timed.artifacts.into_iter().next().map(|artifact| artifact.kernels)
    }

    fn bench(&self, artifact: &Path) -> Option<Command> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("bench").arg(artifact).args(["--format", "json", "--warmup", "1"]).args(&self.sizes);
        command.args(["--threads", &self.arguments.threads.to_string()]);
        Some(command)
    }

    /// All ways but those that were taken.
    fn open(&self, compilation: &Compilation, timed: &[TimedKernel]) -> Vec<Open> {
        let share = |choice: &Choice| {
            let is_about =
                |kernel: &&TimedKernel| kernel.origins.iter().any(|o| choice.origins.binary_search(o).is_ok());
            timed.iter().filter(is_about).map(|kernel| kernel.share).sum()
        };
        let mut open: Vec<Open> = Vec::new();
        for choice in compilation.plans().iter().flat_map(|plan| &plan.log.choices) {
            let known = self.known.get(&KernelKey::of_text(&choice.question));
            for &way in choice.ways.iter().filter(|way| **way != choice.taken && choice.answer.is_none()) {
                if !open.iter().any(|other| other.choice.question == choice.question && other.way == way) {
                    let (share, is_known) = (share(choice), known == Some(&way));
                    open.push(Open { share, choice: choice.clone(), way, is_known });
                }
            }
        }
        open
    }

    /// Compiles the model as it is settled, and with one more choice.
    fn compile(&self, choice: Option<(KernelKey, Way)>) -> Result<Compilation, Failure> {
        let mut records = self.settled.clone();
        if let Some((question, way)) = choice {
            records.settle(question, self.target, self.arguments.strict, way);
        }
        let builtin = (self.arguments.target == "native").then(process::machine_kind).flatten();
        let builtin = builtin.and_then(|kind| builtin_records(&kind.to_string()));
        let machines = self.target.cpu().map(|target| (target.to_string(), target.machine));
        let options = CompileOptions {
            records,
            lists_choices: choice.is_none(),
            builtin_records: builtin.map(|file| file.to_records(None)).unwrap_or_default(),
            machines: machines.into_iter().collect(),
            ..model_options(self.target, self.arguments)?
        };
        Ok(infc::compile(&Source::file(self.model), &options, &mut ())?)
    }
}

/// What the file of records says of choices, for this target, machine, number of threads and strictness.
pub(super) fn known(file: &Path, target: &VariantTarget, arguments: &TuneArgs) -> Result<RecordFile, Failure> {
    let choices = super::read_known(file)?.choices;
    let mut known = RecordFile { choices, ..RecordFile::default() };
    known.keep_best();
    let (target_name, device) = (target.to_string(), host::device(target));
    known.choices.retain(|choice| {
        choice.target == target_name
            && choice.machine == device
            && choice.threads == arguments.threads
            && choice.strict == arguments.strict
    });
    Ok(known)
}

/// What a way of a kind that has gained so much in so many trials is expected to gain.
fn expected(gained: Option<&(f64, f64)>) -> f64 {
    let (sum, trials) = gained.copied().unwrap_or_default();
    (EXPECTED.0 * EXPECTED.1 + sum) / (EXPECTED.1 + trials)
}

/// Two plans with one text give the same artifact.
fn plan_text(compilation: &Compilation) -> String {
    compilation.plans().iter().map(|plan| plan.to_string()).collect()
}

/// Sizes of the dynamic dims of inputs, as words of `infc bench`: the first one of an input with several axes is taken for a
/// batch of one.
fn sizes(compilation: &Compilation) -> Vec<String> {
    let Some(plan) = &compilation.plan else { return Vec::new() };
    let graph = &plan.graph;
    let mut sizes = BTreeMap::new();
    for port in &graph.inputs {
        let shape = &graph.ty(port.value).shape;
        for (axis, symbol) in shape.iter().enumerate().filter_map(|(axis, extent)| Some((axis, extent.as_symbol()?))) {
            let is_batch = axis == 0 && shape.len() > 1;
            sizes.entry(symbol).or_insert(if is_batch { 1 } else { TYPICAL });
        }
    }
    let word = |(symbol, size): (_, i64)| {
        let symbol = &graph.symbols[symbol];
        let size = symbol.max.map_or(size, |max| max.min(size)).max(symbol.min).max(1);
        ["--dim".to_owned(), format!("{}={size}", symbol.name)]
    };
    sizes.into_iter().flat_map(word).collect()
}

fn write(compilation: &Compilation, path: &Path) -> Result<(), Failure> {
    let wrap = |source| CliError::CannotWrite { path: path.to_owned(), source };
    let mut file = BufWriter::new(File::create(path).map_err(wrap)?);
    compilation.write_to(&mut file)?;
    std::io::Write::flush(&mut file).map_err(wrap)?;
    Ok(())
}
