//! Nodes whose inputs or outputs have as many axes as a run tells.
//!
//! What such a node gives shows by trial ([`trials`]): it is imported with inputs of each number of axes there may be, with lists
//! of each length where lists say how many axes a result has, and with several extents where those do. If it makes sense with
//! one number of axes alone, that is the number, which the run checks, and the node is a kernel like any other. Else the host
//! evaluates it ([`crate::host::unranked`]); what all trials agree on is known of its results.

mod trials;

use super::Importer;
use crate::attributes::node_attributes;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::host::unranked::Outcome;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::tracked::Tracked;
use infc_tensor::{Attributes, DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs};
pub(super) use trials::MOST_AXES;

impl<'m> Importer<'m, '_> {
    /// The outputs of an operator of which some input, or what it gives, has as many axes as a run tells. `problem` is what is
    /// wrong with it otherwise.
    pub(super) fn of_any_rank(
        &mut self,
        graph: &'m GraphProto,
        index: usize,
        node_ref: &NodeRef,
        mut inputs: Vec<Option<Tracked>>,
        problem: Problem,
    ) -> Result<Vec<Tracked>, ImportError> {
        let node: &'m NodeProto = &graph.node[index];
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let is_defined = host::defines(&node_ref.op_type, &node_ref.domain, node_ref.opset);
        if !self.scopes.build().may_use_host || !is_defined {
            return Err(in_node(problem));
        }
        let trials = self.trials(graph, index, node_ref, &inputs)?;
        if self.demand.has_grown() {
            // The import begins anew.
            return Err(in_node(problem));
        }
        let ranks = trials.only_ranks(&inputs);
        for &(position, rank) in &ranks {
            if let (Some(name), Some(input)) = (node.input.get(position), inputs[position].clone()) {
                let known = self.take_rank(name, node_ref, &input, rank)?;
                let same = node.input.iter().zip(&mut inputs).filter(|(other, _)| *other == name);
                same.for_each(|(_, input)| *input = Some(known.clone()));
            }
        }
        if !ranks.is_empty() {
            return self.operator(graph, index, node_ref, inputs);
        }
        let mut outputs = Vec::with_capacity(node.output.len());
        for (output, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let known = trials.agreed(output);
            let told = || Element::declared_in(graph, name).or_else(|| within(inputs.first()?.as_ref()?));
            let known = known.or_else(|| told().map(Outcome::new));
            outputs.push(known.ok_or_else(|| in_node(trials.first_problem().unwrap_or(problem.clone())))?);
        }
        let Some(attributes) = node_attributes(node)? else { return Err(in_node(problem)) };
        let values = names_of(node, inputs);
        self.evaluated(node, node_ref, (attributes, Subgraphs::default()), values, &outputs)
    }

    /// The outputs of a node that the host evaluates, of whose values, by name, some have as many axes as a run tells. `known`
    /// says what is known of the outputs that have a name.
    pub(super) fn evaluated(
        &mut self,
        node: &NodeProto,
        node_ref: &NodeRef,
        (attributes, held): (Attributes, Subgraphs),
        values: Vec<(&str, Tracked)>,
        known: &[Outcome],
    ) -> Result<Vec<Tracked>, ImportError> {
        let output = |(name, known): (&String, &Outcome)| SubgraphOutput {
            name: name.clone(),
            dtype: known.of.dtype,
            shape: Vec::new(),
        };
        // The graph of the node alone comes first, those that it holds behind it.
        let mut graphs = vec![Subgraph {
            inputs: values.iter().map(|(name, _)| (*name).to_owned()).collect(),
            constants: Vec::new(),
            nodes: vec![SubgraphNode {
                op_type: node_ref.op_type.clone(),
                domain: node_ref.domain.clone(),
                opset: node_ref.opset,
                attributes,
                graphs: held.roots,
                inputs: node.input.clone(),
                outputs: node.output.clone(),
            }],
            outputs: node.output.iter().filter(|name| !name.is_empty()).zip(known).map(output).collect(),
        }];
        graphs.extend(held.graphs);
        for (_, graph) in graphs.iter_mut().flat_map(|graph| &mut graph.nodes).flat_map(|node| &mut node.graphs) {
            *graph += 1;
        }
        let values: Vec<Tracked> = values.into_iter().map(|(_, value)| value).collect();
        let build = self.scopes.build();
        let unread = build.scalar(DType::I64, 0.0);
        let made = host::unranked::evaluated(build, graphs, &values, known);
        let made = made.map_err(|problem| ImportError::Node { node: Box::new(node_ref.clone()), problem })?;
        let mut made = made.into_iter();
        let mut of = |name: &String| if name.is_empty() { None } else { made.next() }.unwrap_or_else(|| unread.clone());
        Ok(node.output.iter().map(&mut of).collect())
    }

    /// The inputs of a node that takes no other number of axes than this.
    pub(super) fn of_rank(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        mut inputs: Vec<Option<Tracked>>,
        rank: usize,
    ) -> Result<Vec<Option<Tracked>>, ImportError> {
        for (name, input) in node.input.iter().zip(&mut inputs) {
            if let Some(found) = input.as_ref().filter(|input| input.is_unranked()) {
                *input = Some(self.take_rank(name, node_ref, found, rank)?);
            }
        }
        Ok(inputs)
    }

    /// A value of any number of axes as one of this number. Whoever else reads it may know as well.
    fn take_rank(
        &mut self,
        name: &'m str,
        node_ref: &NodeRef,
        value: &Tracked,
        rank: usize,
    ) -> Result<Tracked, ImportError> {
        let of = Element { shape: Some(vec![None; rank]), ..Element::of_value(value) };
        let known = host::unranked::ranked(self.scopes.build(), name, value, &Outcome::new(of));
        let known = known.map_err(|problem| ImportError::Node { node: Box::new(node_ref.clone()), problem })?;
        self.scopes.define(name, known.clone());
        Ok(known)
    }

    /// A value as an output of the model, of as many axes as that says it has.
    pub(super) fn as_declared(&mut self, output: &ValueInfoProto, value: Tracked) -> Result<Tracked, ImportError> {
        let declared = Element::of_declaration(output).and_then(|of| of.shape);
        let Some(declared) = declared.filter(|_| value.is_unranked()) else { return Ok(value) };
        let of = Element { shape: Some(vec![None; declared.len()]), ..Element::of_value(&value) };
        let known = host::unranked::ranked(self.scopes.build(), output.name(), &value, &Outcome::new(of));
        known.map_err(ImportError::value(output.name()))
    }

    /// Counts and conditions are of one element, whatever number of axes they have.
    pub(super) fn take_as_scalars(
        &mut self,
        node: &NodeProto,
        node_ref: &NodeRef,
        inputs: &mut [Option<Tracked>],
    ) -> Result<(), ImportError> {
        let scalars = match node.op_type() {
            "If" => 1,
            "Loop" => 2,
            _ => 0,
        };
        for input in inputs.iter_mut().take(scalars).flatten().filter(|input| input.is_unranked()) {
            let scalar = host::unranked::scalar(self.scopes.build(), input);
            *input = scalar.map_err(|problem| ImportError::Node { node: Box::new(node_ref.clone()), problem })?;
        }
        Ok(())
    }
}

/// The inputs of a node by the names that it calls them.
pub(super) fn names_of<'m>(node: &'m NodeProto, inputs: Vec<Option<Tracked>>) -> Vec<(&'m str, Tracked)> {
    let mut values: Vec<(&'m str, Tracked)> = Vec::new();
    for (name, input) in node.input.iter().zip(inputs) {
        if let Some(input) = input
            && values.iter().all(|(known, _)| known != name)
        {
            values.push((name, input));
        }
    }
    values
}

/// What is known of the values in a sequence or an optional.
fn within(input: &Tracked) -> Option<Element> {
    let is_holder = matches!(input.dtype(), DType::Sequence | DType::Optional) && !input.is_unranked();
    input.element().filter(|_| is_holder).map(|element| (**element).clone())
}
