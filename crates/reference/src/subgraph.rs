//! Evaluating the graphs that nodes hold.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::{Node, evaluate_in};
use infc_tensor::{Subgraph, Subgraphs, Tensor};
use std::collections::HashMap;

/// The values that a graph sees: its own, then those around it.
#[derive(Debug)]
struct Scope<'a> {
    values: HashMap<&'a str, Tensor>,
    outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<&Tensor> {
        self.values.get(name).or_else(|| self.outer.and_then(|outer| outer.get(name)))
    }
}

/// Whether to go on, which is asked before each node of a graph, and of a graph without nodes once; always, if there is
/// nothing to ask.
#[derive(Clone, Copy, Default)]
struct Patience<'a>(Option<&'a dyn Fn() -> bool>);

impl Patience<'_> {
    fn check(self) -> Result<()> {
        if self.0.is_none_or(|goes_on| goes_on()) { Ok(()) } else { Err(EvalError::Interrupted) }
    }
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "limited" } else { "unlimited" })
    }
}

/// The graphs that a node holds, and what they see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held<'a> {
    roots: &'a [(String, u32)],
    graphs: &'a [Subgraph],
    scope: Option<&'a Scope<'a>>,
    patience: Patience<'a>,
}

/// Evaluates a node that holds graphs. Its last inputs are the values that these take from around it.
pub(crate) fn evaluate(
    node: &Node<'_>,
    of: &Subgraphs,
    inputs: &[Option<&Tensor>],
    goes_on: Option<&dyn Fn() -> bool>,
) -> Result<Vec<Tensor>> {
    if let Some(reason) = of.problem() {
        return Err(EvalError::InvalidAttribute { name: "body", reason });
    }
    let own = inputs.len().checked_sub(of.captures.len()).ok_or(EvalError::MissingInput { index: inputs.len() })?;
    let (inputs, captured) = inputs.split_at(own);
    let captured =
        of.captures.iter().zip(captured).filter_map(|(name, value)| Some((name.as_str(), (*value)?.clone())));
    let scope = Scope { values: captured.collect(), outer: None };
    evaluate_in(
        node,
        inputs,
        Held { roots: &of.roots, graphs: &of.graphs, scope: Some(&scope), patience: Patience(goes_on) },
    )
}

impl Call<'_> {
    /// True if an attribute holds a graph.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.held.roots.iter().any(|(root, _)| root == name)
    }

    /// The graph that an attribute holds.
    pub(crate) fn graph(&self, name: &'static str) -> Result<&Subgraph> {
        let index = self.held.roots.iter().find(|(root, _)| root == name).map(|&(_, index)| index as usize);
        let graph = index.and_then(|index| self.held.graphs.get(index));
        graph.ok_or(EvalError::InvalidAttribute { name, reason: "a graph is needed" })
    }

    /// The outputs of that graph for some inputs.
    pub(crate) fn run_graph(&self, name: &'static str, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let graph = self.graph(name)?;
        if inputs.len() != graph.inputs.len() {
            return Err(EvalError::InvalidAttribute { name, reason: "the graph has another number of inputs" });
        }
        let patience = self.held.patience;
        patience.check()?;
        let mut scope = Scope { values: HashMap::new(), outer: self.held.scope };
        scope.values.extend(graph.constants.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())));
        scope.values.extend(graph.inputs.iter().map(String::as_str).zip(inputs));
        for node in &graph.nodes {
            patience.check()?;
            let find = |name: &String| match name.as_str() {
                "" => Ok(None),
                name => scope
                    .get(name)
                    .map(Some)
                    .ok_or(EvalError::InvalidAttribute { name: "body", reason: "a node reads what nothing defines" }),
            };
            let inputs = node.inputs.iter().map(find).collect::<Result<Vec<_>>>()?;
            let definition = Node {
                op_type: &node.op_type,
                domain: &node.domain,
                opset: node.opset,
                attributes: &node.attributes,
                num_outputs: node.outputs.len(),
            };
            let held = Held { roots: &node.graphs, graphs: self.held.graphs, scope: Some(&scope), patience };
            let outputs = evaluate_in(&definition, &inputs, held)?;
            let named = node.outputs.iter().map(String::as_str).zip(outputs);
            scope.values.extend(named.filter(|(name, _)| !name.is_empty()));
        }
        let output = |name: &str| {
            let undefined = EvalError::InvalidAttribute { name: "body", reason: "nothing defines an output" };
            scope.get(name).cloned().ok_or(undefined)
        };
        graph.outputs.iter().map(|o| output(&o.name)).collect()
    }
}
