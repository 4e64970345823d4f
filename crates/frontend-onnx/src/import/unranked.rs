//! Nodes whose inputs or outputs have as many axes as a run tells.
//!
//! What such a node gives shows by trial: it is imported with inputs of each number of axes there may be, and with lists of each
//! length where lists say how many axes a result has. If it makes sense with one number of axes alone, that is the number, which
//! the run checks, and the node is a kernel like any other. Else the host evaluates it ([`crate::host::unranked`]); what all trials
//! agree on is known of its results.

use super::Importer;
use crate::attributes::node_attributes;
use crate::check;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::host::unranked::Outcome;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::tracked::{Contents, Tracked};
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, Ranges};
use infc_ir::symbol::Symbol;
use infc_tensor::{Attributes, DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs};
use std::collections::HashMap;

/// A node is tried with up to so many axes, and lists of as many elements. What is found to be the only number of axes that makes
/// sense is checked when the model runs.
pub(super) const MOST_AXES: usize = 8;

/// Extents of stand-ins go up to this, which says nothing of those of results.
const MOST_EXTENT: i64 = 1 << 30;

/// What a node gives if its inputs are of some numbers of axes.
enum Trial {
    Gives(Vec<Outcome>),
    /// It is no valid node then.
    Impossible(Problem),
    /// It may be one that cannot be told.
    Untold(Problem),
}

impl Trial {
    fn of(outcome: Result<Vec<Tracked>, ImportError>, ranges: &Ranges) -> Result<Self, ImportError> {
        match outcome {
            Ok(outputs) => Ok(Self::Gives(outputs.iter().map(|output| outcome_of(output, ranges)).collect())),
            Err(ImportError::Node { problem, .. }) => Ok(match problem {
                Problem::ShapeMismatch { .. }
                | Problem::InvalidAttribute { .. }
                | Problem::MissingInput { .. }
                | Problem::TypeMismatch { .. } => Self::Impossible(problem),
                problem => Self::Untold(problem),
            }),
            Err(other) => Err(other),
        }
    }
}

/// What a trial shows of an output.
fn outcome_of(output: &Tracked, ranges: &Ranges) -> Outcome {
    let bounds = |extent: &Dim| {
        let interval = ranges.interval(extent);
        (interval.min.unwrap_or(0).max(0), interval.max.filter(|&max| max < MOST_EXTENT))
    };
    let bounds = if output.is_unranked() { Vec::new() } else { output.shape().iter().map(bounds).collect() };
    Outcome { of: Element::of_value(output), bounds }
}

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
        let open = open(&inputs);
        let trials = self.trials(graph, index, node_ref, &inputs, &open)?;
        if self.demand.has_grown() {
            // The import begins anew.
            return Err(in_node(problem));
        }
        let ranks = only_ranks(&trials, &open, &inputs);
        for &(position, rank) in &ranks {
            if let (Some(name), Some(input)) = (node.input.get(position), inputs[position].take()) {
                inputs[position] = Some(self.take_rank(name, node_ref, &input, rank)?);
            }
        }
        if !ranks.is_empty() {
            return self.operator(graph, index, node_ref, inputs);
        }
        let wanted: Vec<usize> = (0..node.output.len()).filter(|&n| !node.output[n].is_empty()).collect();
        let mut outputs = Vec::with_capacity(wanted.len());
        for &output in &wanted {
            let known = agreed(&trials, &open, output);
            let told = || declared(graph, &node.output[output]).or_else(|| within(inputs.first()?.as_ref()?));
            let known = known.or_else(|| told().map(Outcome::new));
            outputs.push(known.ok_or_else(|| in_node(first_problem(&trials).unwrap_or(problem.clone())))?);
        }
        let Some(attributes) = node_attributes(node)? else { return Err(in_node(problem)) };
        let values = names_of(node, inputs);
        let body = self.body(node, node_ref, (attributes, &[]), &values, &outputs);
        let values: Vec<Tracked> = values.into_iter().map(|(_, value)| value).collect();
        let build = self.scopes.build();
        let made = host::unranked::evaluated(build, vec![body], &values, &outputs).map_err(in_node)?;
        let mut made = made.into_iter();
        let unread = self.scopes.build().scalar(DType::I64, 0.0);
        let of = |n: usize| if wanted.contains(&n) { made.next() } else { None }.unwrap_or_else(|| unread.clone());
        Ok((0..node.output.len()).map(of).collect())
    }

    /// The outputs of a node that holds graphs and that the host evaluates, of whose values some have as many axes as a run tells.
    pub(super) fn held_of_any_rank(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
        (attributes, held): (Attributes, Subgraphs),
        outputs: &[Element],
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let mut values = names_of(node, inputs);
        let wanted: Vec<usize> = (0..node.output.len()).filter(|&n| !node.output[n].is_empty()).collect();
        for name in check::reads(node) {
            if held.captures.iter().any(|captured| captured == name) && values.iter().all(|(known, _)| *known != name) {
                values.push((name, self.scopes.value(name)?.ok_or_else(|| super::dangling(name))?));
            }
        }
        let known: Vec<Outcome> = wanted.iter().filter_map(|&n| outputs.get(n).cloned().map(Outcome::new)).collect();
        let roots: Vec<(String, u32)> = held.roots.into_iter().map(|(name, graph)| (name, graph + 1)).collect();
        let mut graphs = vec![self.body(node, node_ref, (attributes, &roots), &values, &known)];
        graphs.extend(held.graphs);
        for node in graphs.iter_mut().skip(1).flat_map(|graph| &mut graph.nodes) {
            node.graphs.iter_mut().for_each(|(_, graph)| *graph += 1);
        }
        let values: Vec<Tracked> = values.into_iter().map(|(_, value)| value).collect();
        let build = self.scopes.build();
        let mut made = host::unranked::evaluated(build, graphs, &values, &known).map_err(in_node)?.into_iter();
        let unread = self.scopes.build().scalar(DType::I64, 0.0);
        let of = |n: usize| if wanted.contains(&n) { made.next() } else { None }.unwrap_or_else(|| unread.clone());
        Ok((0..node.output.len()).map(of).collect())
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
        let declared = output.r#type.as_ref().and_then(Element::declared).and_then(|of| of.shape);
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

    /// The graph of a node alone.
    fn body(
        &self,
        node: &NodeProto,
        node_ref: &NodeRef,
        (attributes, roots): (Attributes, &[(String, u32)]),
        values: &[(&str, Tracked)],
        outputs: &[Outcome],
    ) -> Subgraph {
        let of = |(name, known): (&String, &Outcome)| SubgraphOutput {
            name: name.clone(),
            dtype: known.of.dtype,
            shape: Vec::new(),
        };
        Subgraph {
            inputs: values.iter().map(|(name, _)| (*name).to_owned()).collect(),
            constants: Vec::new(),
            nodes: vec![SubgraphNode {
                op_type: node_ref.op_type.clone(),
                domain: node_ref.domain.clone(),
                opset: node_ref.opset,
                attributes,
                graphs: roots.to_vec(),
                inputs: node.input.clone(),
                outputs: node.output.clone(),
            }],
            outputs: node.output.iter().filter(|name| !name.is_empty()).zip(outputs).map(of).collect(),
        }
    }

    /// What comes of a node with each number of axes, and each length, that open inputs may have; with more than two of them,
    /// only where all have the same.
    fn trials(
        &mut self,
        graph: &'m GraphProto,
        index: usize,
        node_ref: &NodeRef,
        inputs: &[Option<Tracked>],
        open: &[usize],
    ) -> Result<Vec<(Vec<usize>, Trial)>, ImportError> {
        let counts: Vec<Vec<usize>> = match open.len() {
            0 => Vec::new(),
            2 => (0..=MOST_AXES).flat_map(|a| (0..=MOST_AXES).map(move |b| vec![a, b])).collect(),
            n => (0..=MOST_AXES).map(|count| vec![count; n]).collect(),
        };
        let mut trials = Vec::with_capacity(counts.len());
        for counts in counts {
            self.scopes.begin_trial();
            let stand_ins = self.stand_ins(inputs, open, &counts);
            let outcome = stand_ins
                .map_err(|problem| ImportError::Node { node: Box::new(node_ref.clone()), problem })
                .and_then(|stand_ins| self.operator(graph, index, node_ref, stand_ins));
            let trial = Trial::of(outcome, &self.scopes.build().ranges());
            self.scopes.end_trial();
            trials.push((counts, trial?));
        }
        Ok(trials)
    }

    /// Inputs of a graph that is thrown away, for those of a node.
    fn stand_ins(
        &mut self,
        inputs: &[Option<Tracked>],
        open: &[usize],
        counts: &[usize],
    ) -> Result<Vec<Option<Tracked>>, Problem> {
        let build = self.scopes.build();
        let mut stand_ins = Vec::with_capacity(inputs.len());
        for (n, input) in inputs.iter().enumerate() {
            let count = open.iter().position(|&position| position == n).and_then(|at| counts.get(at)).copied();
            stand_ins.push(match (input, count) {
                (None, _) => None,
                (Some(input), Some(rank)) if input.is_unranked() => {
                    let unnamed = |_| Symbol { name: "?".to_owned(), min: 0, max: Some(MOST_EXTENT) };
                    let extents: Vec<Dim> =
                        (0..rank).map(|axis| Dim::symbol(build.graph.symbols.push(unnamed(axis)))).collect();
                    let ty = TensorType::new(Element::of_value(input).dtype, extents);
                    Some(build.input(&format!("x{n}"), ty)?)
                }
                (Some(input), Some(len)) => {
                    let ty = TensorType::new(input.dtype(), vec![Dim::constant(len as i64)]);
                    Some(build.input(&format!("x{n}"), ty)?)
                }
                (Some(input), None) => Some(match input.in_another_graph() {
                    Some(known) => known,
                    None => build.input(&format!("x{n}"), input.ty().clone())?.standing_for(input),
                }),
            });
        }
        Ok(stand_ins)
    }
}

/// The inputs that have any number of axes; if there are none, lists of integers of which not even the length is known.
fn open(inputs: &[Option<Tracked>]) -> Vec<usize> {
    let all = |holds: &dyn Fn(&Tracked) -> bool| -> Vec<usize> {
        (0..inputs.len()).filter(|&n| inputs[n].as_ref().is_some_and(holds)).collect()
    };
    let is_list = |input: &Tracked| match input.shape() {
        [len] => input.dtype().is_int() && len.as_const().is_none() && *input.contents() == Contents::Unknown,
        _ => false,
    };
    let unranked = all(&Tracked::is_unranked);
    if unranked.is_empty() { all(&is_list) } else { unranked }
}

/// The inputs of a node by the names that it calls them.
fn names_of<'m>(node: &'m NodeProto, inputs: Vec<Option<Tracked>>) -> Vec<(&'m str, Tracked)> {
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

/// The inputs that have one number of axes alone for which a node makes sense, of those that have any.
fn only_ranks(trials: &[(Vec<usize>, Trial)], open: &[usize], inputs: &[Option<Tracked>]) -> Vec<(usize, usize)> {
    // Of more, most numbers have not been tried.
    if open.len() > 2 {
        return Vec::new();
    }
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    for (counts, _) in trials.iter().filter(|(_, trial)| !matches!(trial, Trial::Impossible(_))) {
        for (&position, &count) in open.iter().zip(counts) {
            let possible = found.entry(position).or_default();
            if !possible.contains(&count) {
                possible.push(count);
            }
        }
    }
    let is_unranked = |position: usize| inputs[position].as_ref().is_some_and(Tracked::is_unranked);
    let only = |&position: &usize| match found.get(&position).map(Vec::as_slice) {
        Some(&[rank]) if is_unranked(position) => Some((position, rank)),
        _ => None,
    };
    open.iter().filter_map(only).collect()
}

/// What all trials agree on of an output; `None` if none says anything.
fn agreed(trials: &[(Vec<usize>, Trial)], open: &[usize], output: usize) -> Option<Outcome> {
    let mut known: Option<Outcome> = None;
    // Of more, most numbers have not been tried.
    let mut is_told = open.len() <= 2;
    for (_, trial) in trials {
        match trial {
            Trial::Impossible(_) => {}
            Trial::Untold(_) => is_told = false,
            Trial::Gives(outputs) => {
                let found = outputs.get(output)?;
                known = Some(match known {
                    Some(known) => joined(&known, found)?,
                    None => found.clone(),
                });
            }
        }
    }
    let mut known = known?;
    known.of.shape = known.of.shape.filter(|_| is_told);
    Some(known)
}

/// What is true of both; `None` if nothing is.
fn joined(a: &Outcome, b: &Outcome) -> Option<Outcome> {
    let both = a.bounds.iter().zip(&b.bounds);
    let bounds = both.map(|(a, b)| (a.0.min(b.0), a.1.zip(b.1).map(|(a, b)| a.max(b)))).collect();
    Some(Outcome { of: a.of.join(&b.of).ok()?, bounds })
}

/// What the model declares of a value.
fn declared(graph: &GraphProto, name: &str) -> Option<Element> {
    let info = graph.value_info.iter().chain(&graph.output).find(|info| info.name() == name)?;
    info.r#type.as_ref().and_then(Element::declared)
}

/// What is known of the values in a sequence or an optional.
fn within(input: &Tracked) -> Option<Element> {
    let is_holder = matches!(input.dtype(), DType::Sequence | DType::Optional) && !input.is_unranked();
    input.element().filter(|_| is_holder).map(|element| (**element).clone())
}

/// The first thing that was wrong in a trial.
fn first_problem(trials: &[(Vec<usize>, Trial)]) -> Option<Problem> {
    trials.iter().find_map(|(_, trial)| match trial {
        Trial::Gives(_) => None,
        Trial::Impossible(problem) | Trial::Untold(problem) => Some(problem.clone()),
    })
}
