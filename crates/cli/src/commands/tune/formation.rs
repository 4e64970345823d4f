//! The search over ways to form kernels, which comes before that over their schedules: which convolutions are filtered, what
//! shares a kernel, how values lie ([`infc::Choice`]).
//!
//! What one choice does to its neighbours shows in a whole run alone, so whole artifacts take turns, in a process of its own.
//! A choice made otherwise has to be quicker beyond the noise twice, and its outputs those of the plan before. Choices are tried
//! by what is to be expected of them: their share of the time, and what others of their kind have gained.

mod runs;

use super::subject::model_options;
use super::{Keeper, TuneArgs};
use crate::console::Console;
use crate::error::CliError;
use crate::failure::Failure;
use crate::{host, process};
use indicatif::ProgressBar;
use infc::{Choice, Compilation, CompileOptions, KernelKey, Records, Source, VariantTarget, Way};
use infc_tune::{ChoiceRecord, Proof, RecordFile, builtin_records};
use runs::{Comparison, Runs, TimedKernel, sizes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Of the budget, what this search takes at most.
const SHARE_OF_BUDGET: f64 = 0.25;
/// Of all schedules to try, how many ways to form kernels are tried beside.
const TRIALS_PER_WAY: u64 = 8;
/// Turns that tell whether more are worth it, and turns that tell whether it is quicker.
const FIRST_TURNS: usize = 6;
const TURNS: usize = 20;
/// What is quicker by less is not worth a record.
const LEAST_GAIN: f64 = 0.01;
/// Ways of which less is to be expected, of the time of a run, are not tried.
const LEAST_EXPECTED: f64 = 2e-4;
/// What a way is expected to gain, of the time of the kernels that it is about, before any of its kind was tried, and how many
/// trials that counts for.
const EXPECTED: (f64, f64) = (0.05, 4.0);

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Formed {
    pub(super) trials: u64,
    /// Of a run of the model, as the search began and by the best plan; `None` if that was not measured.
    pub(super) default_ms: Option<f64>,
    pub(super) best_ms: Option<f64>,
    pub(super) choices: Vec<Found>,
}

impl Formed {
    /// How much less time a run takes.
    pub(super) fn gain(&self) -> f64 {
        self.best_ms.zip(self.default_ms).map_or(0.0, |(best, default)| 1.0 - best / default)
    }
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

/// A way that was not tried yet.
struct Open {
    choice: Choice,
    way: Way,
    /// Of the time of a run, that of the kernels that it is about.
    share: f64,
    /// The file of records says that another way is quicker, which is measured again.
    is_known: bool,
}

/// What became of a way.
enum Trial {
    /// The plan is the one that there is.
    SamePlan,
    /// It cannot be compiled, written or measured.
    NotMeasured,
    NotQuicker,
    /// Outputs differ from those of the plan before.
    Differs,
    Quicker(Proof),
}

/// What has been gained by ways of each kind.
#[derive(Default)]
struct Gains(BTreeMap<String, (f64, f64)>);

impl Gains {
    /// What a way is expected to gain, of the time of a run.
    fn expected(&self, way: &Open) -> f64 {
        let (sum, trials) = self.0.get(way.choice.kind()).copied().unwrap_or_default();
        way.share * (EXPECTED.0 * EXPECTED.1 + sum) / (EXPECTED.1 + trials)
    }

    fn note(&mut self, way: &Open, gained: f64) {
        let of_kind = self.0.entry(way.choice.kind().to_owned()).or_default();
        *of_kind = (of_kind.0 + gained / way.share.max(1e-3), of_kind.1 + 1.0);
    }
}

/// See the module.
pub(super) struct Formation<'a> {
    arguments: &'a TuneArgs,
    model: &'a Path,
    target: &'a VariantTarget,
    folder: &'a Path,
    /// What is settled: by the file of records, and by this search.
    pub(super) settled: Records,
    /// The questions that are settled by the file, and the ways that were estimated to be better.
    known: BTreeMap<KernelKey, Way>,
    /// Questions and ways that were tried.
    tried: BTreeSet<(String, Way)>,
    runs: Runs,
    /// The plan that is the best so far.
    plan: String,
    /// Its artifact, and how many were written.
    incumbent: PathBuf,
    written: usize,
}

impl Drop for Formation<'_> {
    /// Artifacts are as large as the model.
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.incumbent));
    }
}

impl<'a> Formation<'a> {
    /// Nothing was compiled yet; `known` is what the file of records says of choices here.
    pub(super) fn new(
        arguments: &'a TuneArgs,
        model: &'a Path,
        target: &'a VariantTarget,
        folder: &'a Path,
        known: &RecordFile,
    ) -> Self {
        let estimated = |record: &ChoiceRecord| {
            let (question, ..) = record.parts().ok()?;
            Some((question, record.instead_of.parse().ok()?))
        };
        Self {
            arguments,
            model,
            target,
            folder,
            settled: known.to_records(Some(arguments.threads)),
            known: known.choices.iter().filter_map(estimated).collect(),
            tried: BTreeSet::new(),
            runs: Runs {
                threads: arguments.threads,
                deadline: Instant::now() + arguments.budget.mul_f64(SHARE_OF_BUDGET),
                sizes: Vec::new(),
            },
            plan: String::new(),
            incumbent: folder.join("plan.0.infa"),
            written: 0,
        }
    }

    /// How many ways are tried at most. Where one kernel is asked for plans stay, and GPUs are measured kernel by kernel.
    fn most_trials(&self) -> u64 {
        match (self.arguments.plan_trials, self.arguments.trials) {
            _ if !self.arguments.kernel.is_empty() || self.target.cpu().is_none() => 0,
            (Some(most), _) => most,
            (None, Some(trials)) => trials / TRIALS_PER_WAY,
            (None, None) => u64::MAX,
        }
    }

    /// Searches until the budget for it is spent, or nothing is to be expected any more.
    pub(super) fn search(
        &mut self,
        keeper: &mut Keeper<'_>,
        bar: &ProgressBar,
        console: &Console,
    ) -> Result<Formed, Failure> {
        let most = self.most_trials();
        let mut formed = Formed::default();
        if most == 0 {
            return Ok(formed);
        }
        bar.set_message("the plan as it is estimated");
        let first = self.compile(None)?;
        self.runs.sizes = sizes(&first);
        self.plan = plan_text(&first);
        let timed = write(&first, &self.incumbent).ok().and_then(|()| self.runs.timed(&self.incumbent));
        let Some(timed) = timed else {
            bar.suspend(|| console.note("  plans are not searched: the model cannot be measured as it is"));
            return Ok(formed);
        };
        let mut open = self.open(&first, &timed);
        drop(first);
        let mut gains = Gains::default();
        while Instant::now() < self.runs.deadline && formed.trials < most {
            let priority = |way: &Open| if way.is_known { f64::INFINITY } else { gains.expected(way) };
            let order = |&a: &usize, &b: &usize| priority(&open[a]).total_cmp(&priority(&open[b])).then(b.cmp(&a));
            let best = (0..open.len()).max_by(order).filter(|&best| priority(&open[best]) >= LEAST_EXPECTED);
            let Some(tried) = best.map(|best| open.swap_remove(best)) else { break };
            self.tried.insert((tried.choice.question.clone(), tried.way));
            let about = format!("{} of {}", tried.choice.kind(), tried.choice.origins.first().map_or("-", |o| o));
            bar.set_message(format!(
                "{} ways to form kernels tried, {:.1} % quicker; now {about}: {}",
                formed.trials,
                100.0 * formed.gain(),
                tried.way
            ));
            let (trial, compilation) = self.trial(&tried, &mut formed)?;
            match trial {
                Trial::SamePlan | Trial::NotMeasured => {}
                Trial::NotQuicker => gains.note(&tried, 0.0),
                Trial::Differs => {
                    gains.note(&tried, 0.0);
                    bar.suspend(|| {
                        console.note(format!("  not taken  {about}: {} computes something else", tried.way));
                    });
                }
                Trial::Quicker(proof) => {
                    gains.note(&tried, 1.0 - proof.ratio);
                    self.keep(&tried, proof, &mut formed, keeper)?;
                    // Another plan may ask other questions.
                    open = compilation.map_or(open, |compilation| self.open(&compilation, &timed));
                }
            }
        }
        Ok(formed)
    }

    /// Notes what was found: a way that is quicker than what was estimated, or that what the file says no longer is.
    fn keep(
        &self,
        Open { choice, way, is_known, .. }: &Open,
        proof: Proof,
        formed: &mut Formed,
        keeper: &mut Keeper<'_>,
    ) -> Result<(), Failure> {
        formed.choices.push(Found {
            kind: choice.kind().to_owned(),
            origins: choice.origins.clone(),
            way: way.to_string(),
            instead_of: choice.taken.to_string(),
            ratio: proof.ratio,
        });
        if *is_known {
            keeper.drop_choice(KernelKey::of_text(&choice.question))
        } else {
            keeper.keep_choice(ChoiceRecord::new(choice, *way, proof))
        }
    }

    /// Tries a way. What is quicker is the plan to beat then, which is returned, too.
    fn trial(&mut self, tried: &Open, formed: &mut Formed) -> Result<(Trial, Option<Compilation>), Failure> {
        let question = KernelKey::of_text(&tried.choice.question);
        let Ok(compilation) = self.compile(Some((question, tried.way))) else { return Ok((Trial::NotMeasured, None)) };
        let plan = plan_text(&compilation);
        if plan == self.plan {
            return Ok((Trial::SamePlan, None));
        }
        self.written += 1;
        let candidate = self.folder.join(format!("plan.{}.infa", self.written));
        let trial = match write(&compilation, &candidate) {
            Ok(()) => {
                formed.trials += 1;
                self.proof(&candidate, tried.is_known, formed).unwrap_or(Trial::NotMeasured)
            }
            Err(_) => Trial::NotMeasured,
        };
        if let Trial::Quicker(_) = trial {
            self.settled.settle(question, self.target, self.arguments.strict, tried.way);
            self.plan = plan;
            drop(std::fs::remove_file(std::mem::replace(&mut self.incumbent, candidate)));
        } else {
            drop(std::fs::remove_file(candidate));
        }
        Ok((trial, Some(compilation)))
    }

    /// What comparisons say of an artifact: a short one, and two long ones if it is not slower by that. What the file of records says
    /// that it is not is believed unless it is at least as quick each time. `None` if it cannot be measured.
    fn proof(&self, candidate: &Path, is_known: bool, formed: &mut Formed) -> Option<Trial> {
        let mut last = None;
        for turns in [FIRST_TURNS, TURNS, TURNS] {
            let Comparison { old_median_ms, slowdown, outputs } =
                self.runs.compare(candidate, &self.incumbent, turns)?;
            formed.default_ms.get_or_insert(old_median_ms);
            formed.best_ms.get_or_insert(old_median_ms);
            let proof = Proof {
                default_seconds: old_median_ms / 1e3,
                ratio: 1.0 + slowdown.median,
                ratio_at_most: 1.0 + slowdown.upper,
            };
            if !outputs.agrees {
                return Some(Trial::Differs);
            }
            let is_sure = turns < TURNS || proof.ratio_at_most < 1.0;
            let is_quicker = if is_known { proof.ratio <= 1.0 } else { proof.ratio < 1.0 - LEAST_GAIN && is_sure };
            if !is_quicker {
                return Some(Trial::NotQuicker);
            }
            last = Some(proof);
        }
        formed.best_ms = formed.best_ms.zip(last).map(|(best, proof)| best * proof.ratio);
        last.map(Trial::Quicker)
    }

    /// The ways of the general case that were neither taken nor tried. What the file settles has one, and only where that is to be
    /// measured again.
    fn open(&self, compilation: &Compilation, timed: &[TimedKernel]) -> Vec<Open> {
        let share = |choice: &Choice| {
            let is_about =
                |kernel: &&TimedKernel| kernel.origins.iter().any(|o| choice.origins.binary_search(o).is_ok());
            timed.iter().filter(is_about).map(|kernel| kernel.share).sum()
        };
        let mut open: Vec<Open> = Vec::new();
        for choice in compilation.plan.iter().flat_map(|plan| &plan.log.choices) {
            let known = self.known.get(&KernelKey::of_text(&choice.question));
            let share = share(choice);
            // Hardly more is gained than what there is.
            if share < LEAST_GAIN && known.is_none() {
                continue;
            }
            for &way in choice.ways.iter().filter(|way| **way != choice.taken) {
                let is_asked = match known {
                    Some(estimated) => self.arguments.resume && way == *estimated,
                    None => true,
                };
                if is_asked && !self.tried.contains(&(choice.question.clone(), way)) {
                    open.push(Open { share, choice: choice.clone(), way, is_known: known.is_some() });
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
            lists_choices: true,
            builtin_records: builtin.map(|file| file.to_records(None)).unwrap_or_default(),
            machines: machines.into_iter().collect(),
            ..model_options(self.target, self.arguments)?
        };
        Ok(infc::compile(&Source::file(self.model), &options, &mut ())?)
    }
}

/// What the file of records says of choices for this target: those that a compilation takes which is told of the threads, so that
/// schedules are searched for the kernels that it has.
pub(super) fn known(file: &Path, target: &VariantTarget, arguments: &TuneArgs) -> Result<RecordFile, Failure> {
    let (name, device) = (target.to_string(), host::device(target));
    let mut known = RecordFile { choices: super::read_known(file)?.choices, ..RecordFile::default() };
    known.choices.retain(|choice| {
        let is_native_elsewhere = arguments.target == "native" && choice.machine != device;
        choice.target == name && choice.strict == arguments.strict && !is_native_elsewhere
    });
    known.keep_taken(Some(arguments.threads));
    Ok(known)
}

/// Two plans with one text give the same artifact.
fn plan_text(compilation: &Compilation) -> String {
    compilation.plans().iter().map(|plan| plan.to_string()).collect()
}

fn write(compilation: &Compilation, path: &Path) -> Result<(), Failure> {
    let wrap = |source| CliError::CannotWrite { path: path.to_owned(), source };
    let mut file = BufWriter::new(File::create(path).map_err(wrap)?);
    compilation.write_to(&mut file)?;
    std::io::Write::flush(&mut file).map_err(wrap)?;
    Ok(())
}
