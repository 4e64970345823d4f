//! What became of a case.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Of one case on one target. As text it is one word, since it stands in the columns of lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub(super) enum Outcome {
    /// All outputs of all data sets agree.
    Pass,
    /// This machine does not run the target.
    NotRun,
    /// Why not: an error's code with the operators concerned, or what disagrees.
    Fail(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::NotRun => "not-run",
            Self::Fail(reason) => reason,
        })
    }
}

impl From<Outcome> for String {
    fn from(outcome: Outcome) -> Self {
        outcome.to_string()
    }
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        match text.as_str() {
            "pass" => Self::Pass,
            "not-run" => Self::NotRun,
            _ => Self::Fail(text.replace(char::is_whitespace, "-")),
        }
    }
}

/// Of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CaseResult {
    pub(super) targets: BTreeMap<String, Outcome>,
    /// `native`, `mixed` or `host`: what computes the model's nodes; `None` if it was not compiled.
    pub(super) runs: Option<String>,
    /// True if kernels could compute it: see [`super::case::is_numeric`].
    #[serde(default)]
    pub(super) numeric: bool,
    /// Why the first node that runs on the host does.
    pub(super) why: Option<String>,
    /// What the model is, if it is one node.
    #[serde(default)]
    pub(super) node: Option<SingleNode>,
    pub(super) ms: f64,
}

/// A model of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SingleNode {
    /// Of its operator; empty for ONNX's own.
    pub(super) domain: String,
    pub(super) operator: String,
    /// The version of the domain that the model imports.
    pub(super) opset: i64,
    /// The type of its elements; `None` if that of a value that is no tensor.
    pub(super) dtype: Option<String>,
}

impl CaseResult {
    /// Passes on all targets that this machine runs, and on one at least.
    pub(super) fn passes(&self) -> bool {
        self.summary() == "pass"
    }

    /// `pass`, or the first reason why not.
    pub(super) fn summary(&self) -> String {
        let ran = || self.targets.values().filter(|outcome| **outcome != Outcome::NotRun);
        let worst = ran().find(|outcome| **outcome != Outcome::Pass).or_else(|| ran().next());
        worst.unwrap_or(&Outcome::NotRun).to_string()
    }
}

/// What a worker says, one line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// What became of the case on a target.
    Outcome {
        /// The target.
        target: String,
        /// What became of it.
        outcome: Outcome,
        /// As in [`CaseResult::runs`].
        runs: Option<String>,
        /// As in [`CaseResult::why`].
        why: Option<String>,
    },
    /// The case is over.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_passes_where_it_ran() {
        let result = |outcomes: &[Outcome]| CaseResult {
            targets: outcomes.iter().enumerate().map(|(n, o)| (n.to_string(), o.clone())).collect(),
            ..CaseResult::default()
        };
        assert!(result(&[Outcome::Pass, Outcome::NotRun]).passes());
        assert!(!result(&[Outcome::NotRun]).passes() && !result(&[]).passes());
        let failed = result(&[Outcome::Pass, Outcome::Fail("wrong-values".to_owned())]);
        assert_eq!((failed.passes(), failed.summary().as_str()), (false, "wrong-values"));
    }

    #[test]
    fn outcomes_are_words() {
        for outcome in [Outcome::Pass, Outcome::NotRun, Outcome::Fail("onnx::cycle".to_owned())] {
            assert_eq!(Outcome::from(outcome.to_string()), outcome);
        }
        assert_eq!(Outcome::from("two words".to_owned()).to_string(), "two-words");
    }
}
