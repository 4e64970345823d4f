//! What formation settles by an estimate, and measuring may settle otherwise: choices between plans that compute the same.
//!
//! A choice has a *question*, a text that says what it is about and nothing of where it stands (of names only those of
//! dynamic dims): the same layer of two models, or twice in one, asks the same, and whoever has measured it once can answer it by the text's hash. What may be
//! answered is legal by itself; an answer that is not among the ways is not taken.
//!
//! Questions are only written down if somebody wants to know them.

use super::expand::Flat;
use super::options::FormOptions;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::{Graph, Port};
use infc_ir::op::Op;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One of the ways that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// A correlation sums products as it says.
    Direct,
    /// A correlation by minimal filtering, with so many results of each axis per application (Winograd).
    Filtered(u8),
    /// One kernel computes both.
    Together,
    /// A kernel for each, and memory between them.
    Apart,
    /// The axis of a value whose elements are neighbours in memory.
    Innermost(u8),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Filtered(outputs) => write!(f, "filtered {outputs}"),
            Self::Together => f.write_str("together"),
            Self::Apart => f.write_str("apart"),
            Self::Innermost(axis) => write!(f, "innermost {axis}"),
        }
    }
}

/// A text is no [`Way`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `direct`, `filtered N`, `together`, `apart` or `innermost N`")]
pub struct NoWay;

impl FromStr for Way {
    type Err = NoWay;

    fn from_str(text: &str) -> Result<Self, NoWay> {
        let way = match text.split_once(' ') {
            None => match text {
                "direct" => Self::Direct,
                "together" => Self::Together,
                "apart" => Self::Apart,
                _ => return Err(NoWay),
            },
            Some(("filtered", outputs)) => Self::Filtered(outputs.parse().map_err(|_| NoWay)?),
            Some(("innermost", axis)) => Self::Innermost(axis.parse().map_err(|_| NoWay)?),
            Some(_) => return Err(NoWay),
        };
        // One text for each.
        if way.to_string() == text { Ok(way) } else { Err(NoWay) }
    }
}

/// Who has measured.
pub trait Answers: fmt::Debug + Send + Sync {
    /// The way to take for a question, if that is known.
    fn way(&self, question: &str) -> Option<Way>;
}

/// A choice that formation has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What it is about: its kind in the first line, then the kernel, or the nodes.
    pub question: String,
    /// The ways that there are.
    pub ways: Vec<Way>,
    /// Which of them was taken.
    pub taken: Way,
    /// What measuring says. If that is another way than what was taken, it is none of the ways here, or could not be taken.
    pub answer: Option<Way>,
    /// The ONNX nodes that it is about, sorted, of all places where the question stands.
    pub origins: Vec<String>,
}

impl Choice {
    /// The first line of the question: what kind of choice it is.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.question.lines().next().unwrap_or_default()
    }
}

/// The choices of one plan as it is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    answers: Option<Arc<dyn Answers>>,
    lists: bool,
    /// By question.
    made: BTreeMap<String, Choice>,
}

impl Choices {
    pub(super) fn new(options: &FormOptions) -> Self {
        Self { answers: options.answers.clone(), lists: options.lists_choices, made: BTreeMap::new() }
    }

    /// Whether anybody wants to know of choices, or to make them: finding out which ways there are takes time.
    pub(super) fn are_asked(&self) -> bool {
        self.lists || self.answers.is_some()
    }

    /// What is answered to a question, if that is one of the ways. Notes the choice; `taken` is what is taken otherwise.
    pub(super) fn answer(
        &mut self,
        question: impl FnOnce() -> String,
        ways: &[Way],
        taken: Way,
        origins: &[String],
    ) -> Option<Way> {
        if !self.are_asked() {
            return None;
        }
        let question = question();
        let answered = self.answers.as_ref().and_then(|answers| answers.way(&question));
        if ways.len() < 2 && answered.is_none() {
            return None;
        }
        let way = answered.filter(|way| ways.contains(way));
        let choice = self.made.entry(question.clone()).or_insert_with(|| Choice {
            question,
            ways: ways.to_vec(),
            taken: way.unwrap_or(taken),
            answer: answered,
            origins: Vec::new(),
        });
        for origin in origins {
            if let Err(at) = choice.origins.binary_search(origin) {
                choice.origins.insert(at, origin.clone());
            }
        }
        way
    }

    /// Notes that this way was taken in the end. Of several places those count that did not take what was answered.
    pub(super) fn took(&mut self, question: &str, way: Way) {
        if let Some(choice) = self.made.get_mut(question)
            && choice.answer != Some(way)
        {
            choice.taken = way;
        }
    }

    /// All that were made if somebody wants to see them, or else those that were answered.
    pub(super) fn into_made(self) -> Vec<Choice> {
        let lists = self.lists;
        self.made.into_values().filter(|choice| lists || choice.answer.is_some()).collect()
    }
}

/// The text of some nodes, in an order in which they can be computed, as a graph of their own: what they read from elsewhere is
/// its inputs, constants included.
pub(super) fn text_of(flat: &Flat, nodes: &[NodeId]) -> String {
    let from = &flat.graph;
    let mut graph = Graph { symbols: from.symbols.clone(), ..Graph::default() };
    let origin = graph.origins.push(Vec::new());
    let mut values: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut read: Vec<ValueId> = Vec::new();
    for node in nodes.iter().map(|&id| &from.nodes[id]) {
        // Numbers that a model was trained to make no difference.
        if matches!(node.op, Op::Constant(_)) {
            continue;
        }
        for &input in &node.inputs {
            values.entry(input).or_insert_with(|| {
                let name = format!("x{}", graph.inputs.len());
                graph.add_input(&name, from.ty(input).clone())
            });
        }
        let inputs: Vec<ValueId> = node.inputs.iter().map(|input| values[input]).collect();
        read.extend(&node.inputs);
        let types = node.outputs.iter().map(|&output| from.ty(output).clone()).collect();
        let outputs = graph.add_node(node.op.clone(), &inputs, types, origin);
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let results = nodes.iter().flat_map(|&id| &from.nodes[id].outputs).filter(|output| !read.contains(output));
    let results: Vec<ValueId> = results.filter_map(|output| values.get(output).copied()).collect();
    graph.outputs = results.into_iter().enumerate().map(|(n, value)| Port::new(&format!("y{n}"), value)).collect();
    graph.to_string()
}

/// The ONNX nodes that nodes of the graph stand for.
pub(super) fn origins_of(flat: &Flat, nodes: &[NodeId]) -> Vec<String> {
    let graph = &flat.graph;
    nodes.iter().flat_map(|&node| graph.origins[graph.nodes[node].origin].iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_one_text_each() {
        for way in [Way::Direct, Way::Filtered(4), Way::Together, Way::Apart, Way::Innermost(1)] {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        for bad in ["", "direct ", "filtered", "filtered 04", "filtered -1", "innermost 256", "Together", "apart 1"] {
            assert_eq!(bad.parse::<Way>(), Err(NoWay), "{bad}");
        }
    }
}
