//! Who measures schedules: the machine, or what was measured once.

use crate::verdict::Verdict;
use infc::Task;
use infc_ir::schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet, VecDeque};

/// Measures schedules of kernels, which live as long as `'t`.
pub trait Measure<'t> {
    /// Why nothing can be measured any more.
    type Error;

    /// Seconds per launch of a kernel by the default choice; `None` if that cannot be measured.
    ///
    /// # Errors
    /// When measuring has to end.
    fn default_seconds(&mut self, task: &'t Task) -> Result<Option<f64>, Self::Error>;

    /// How a schedule of a kernel does beside another one, or beside the default choice; `None` if it cannot be compiled,
    /// does not finish, or computes something else.
    ///
    /// # Errors
    /// When measuring has to end.
    fn compare(
        &mut self,
        task: &'t Task,
        candidate: &Schedule,
        incumbent: Option<&Schedule>,
    ) -> Result<Option<Verdict>, Self::Error>;

    /// Whether a schedule of a kernel computes what the default choice does, for other values of the kernel's symbols than
    /// those that it was compared with; true if it has none.
    ///
    /// # Errors
    /// When measuring has to end.
    fn proves(&mut self, task: &'t Task, candidate: &Schedule) -> Result<bool, Self::Error>;
}

/// How a log begins: with the line of a kernel.
pub const LOG_HEAD: &str = r#"{"schema":"infc.tuned-kernel/"#;

/// A line of a log: what was asked, and what was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schema")]
pub enum Logged {
    /// A kernel by the default choice.
    #[serde(rename = "infc.tuned-kernel/1")]
    Kernel {
        /// The [`infc::KernelKey`] as text.
        kernel: String,
        /// What the kernel was called.
        name: String,
        /// The target that code was made for.
        target: String,
        /// Launches in a run of the model.
        launches: usize,
        /// How many threads ran it.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        threads: usize,
        /// The text that `kernel` is the hash of.
        text: String,
        /// `None`: it could not be measured.
        default_seconds: Option<f64>,
    },
    /// A schedule beside another one.
    #[serde(rename = "infc.trial/1")]
    Trial {
        /// The [`infc::KernelKey`] as text.
        kernel: String,
        /// Its steps.
        schedule: String,
        /// The steps of the other one; `None` of the default choice.
        beside: Option<String>,
        /// The median of the one's time over the other's, and the upper end of its 95 % interval; `None`: it failed.
        ratio: Option<(f64, f64)>,
    },
    /// A schedule for other values of the kernel's symbols.
    #[serde(rename = "infc.proof/1")]
    Proof {
        /// The [`infc::KernelKey`] as text.
        kernel: String,
        /// Its steps.
        schedule: String,
        /// Whether it computes what the default choice does.
        holds: bool,
    },
}

/// Logs do not say so of one thread.
fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(threads: &usize) -> bool {
    *threads == 1
}

impl Logged {
    /// A trial's line.
    #[must_use]
    pub fn trial(task: &Task, candidate: &Schedule, incumbent: Option<&Schedule>, verdict: Option<Verdict>) -> Self {
        Self::Trial {
            kernel: task.key.to_string(),
            schedule: candidate.to_string(),
            beside: incumbent.map(ToString::to_string),
            ratio: verdict.map(|verdict| (verdict.ratio, verdict.at_most)),
        }
    }

    /// A proof's line.
    #[must_use]
    pub fn proof(task: &Task, candidate: &Schedule, holds: bool) -> Self {
        Self::Proof { kernel: task.key.to_string(), schedule: candidate.to_string(), holds }
    }

    /// The line of a kernel's default choice.
    #[must_use]
    pub fn kernel(task: &Task, target: &str, threads: usize, default_seconds: Option<f64>) -> Self {
        Self::Kernel {
            kernel: task.key.to_string(),
            name: task.kernel.name.clone(),
            target: target.to_owned(),
            launches: task.launches,
            threads,
            text: task.text.clone(),
            default_seconds,
        }
    }

    /// The line, with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// A kernel, a schedule, and the one beside it.
type Question = (String, String, Option<String>);

/// Answers with what a log says: a search that was logged is repeated without measuring.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    defaults: HashMap<String, Option<f64>>,
    /// Whoever asked twice was answered twice.
    answers: HashMap<Question, VecDeque<Option<Verdict>>>,
    /// Kernel and schedule of what was found to compute something else.
    disproven: HashSet<(String, String)>,
}

/// A search asks what the log does not tell, so it is another search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A line that cannot be read.
    #[error("line {line}: {reason}")]
    BadLine {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody measured this then.
    #[error("kernel {kernel}: `{schedule}` was not measured")]
    NotLogged {
        /// The kernel's key.
        kernel: String,
        /// The schedule, or `default`.
        schedule: String,
    },
}

impl Replay {
    /// Reads a log.
    ///
    /// # Errors
    /// [`ReplayError::BadLine`].
    pub fn parse(log: &str) -> Result<Self, ReplayError> {
        let mut replay = Self::default();
        for (n, line) in log.lines().enumerate() {
            let bad = |error: serde_json::Error| ReplayError::BadLine { line: n + 1, reason: error.to_string() };
            match serde_json::from_str(line).map_err(bad)? {
                Logged::Kernel { kernel, default_seconds, .. } => {
                    replay.defaults.insert(kernel, default_seconds);
                }
                Logged::Trial { kernel, schedule, beside, ratio } => {
                    let verdict = ratio.map(|(ratio, at_most)| Verdict { ratio, at_most });
                    replay.answers.entry((kernel, schedule, beside)).or_default().push_back(verdict);
                }
                Logged::Proof { kernel, schedule, holds } => {
                    if !holds {
                        replay.disproven.insert((kernel, schedule));
                    }
                }
            }
        }
        Ok(replay)
    }

    /// Answers that nobody asked for yet.
    #[must_use]
    pub fn unasked(&self) -> usize {
        self.answers.values().map(VecDeque::len).sum()
    }
}

impl Measure<'_> for Replay {
    type Error = ReplayError;

    fn default_seconds(&mut self, task: &Task) -> Result<Option<f64>, ReplayError> {
        let kernel = task.key.to_string();
        self.defaults.get(&kernel).copied().ok_or(ReplayError::NotLogged { kernel, schedule: "default".to_owned() })
    }

    fn compare(
        &mut self,
        task: &Task,
        candidate: &Schedule,
        incumbent: Option<&Schedule>,
    ) -> Result<Option<Verdict>, ReplayError> {
        let (kernel, schedule) = (task.key.to_string(), candidate.to_string());
        let question = (kernel.clone(), schedule.clone(), incumbent.map(ToString::to_string));
        let answer = self.answers.get_mut(&question).and_then(VecDeque::pop_front);
        answer.ok_or(ReplayError::NotLogged { kernel, schedule })
    }

    fn proves(&mut self, task: &Task, candidate: &Schedule) -> Result<bool, ReplayError> {
        Ok(!self.disproven.contains(&(task.key.to_string(), candidate.to_string())))
    }
}
