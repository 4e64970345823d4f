//! Why things were not fused, and what might have been done otherwise.

use super::choices::Choice;
use infc_ir::entity::NodeId;
use std::fmt;

/// A fusion that did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The node that was not taken in, in the expanded graph of the plan.
    pub node: NodeId,
    /// The ONNX nodes it stands for.
    pub origins: Vec<String>,
    /// Why.
    pub reason: &'static str,
}

/// What was refused, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanLog {
    /// See [`Refusal`].
    pub refusals: Vec<Refusal>,
    /// Choices between plans that compute the same, as far as they are listed ([`super::FormOptions::lists_choices`]).
    pub choices: Vec<Choice>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.node, self.origins.join(", "), self.reason)
    }
}

impl fmt::Display for PlanLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusals.iter().try_for_each(|r| writeln!(f, "{r}"))
    }
}
