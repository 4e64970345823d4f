//! ONNX graph to infc's graph: a walk over the nodes in order, each expanded by its operator's import.

mod body;
mod branch;
mod counted;
mod demand;
mod flex;
mod held;
mod inputs;
mod loops;
mod ranks;
mod scans;
mod scope;
mod settled;
mod steps;
mod unranked;
mod wider;

pub use inputs::{DimChoice, ImportOptions, ShapeDim};
pub use ranks::with_ranks;

use crate::build::{Contradiction, check_storable};
use crate::call::Call;
use crate::custom::CustomOps;
use crate::error::{ImportError, NodeRef, Problem, UnsupportedOperator};
use crate::host;
use crate::model::{Model, node_ref};
use crate::ops;
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use branch::{Assumptions, MAX_ANSWERS};
use demand::{Demand, Producers};
use held::Held;
use infc_ir::graph::Graph;
use infc_ir::symbol::Symbols;
use scope::Scopes;
use settled::Settled;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Imports a model.
///
/// Nodes that no output depends on are left out, whatever they are.
///
/// # Errors
/// [`ImportError`]; operators that are not supported are reported all at once.
pub fn import(model: &Model, options: &ImportOptions) -> Result<Graph, ImportError> {
    Ok(import_values(model, options)?.0)
}

/// What names of the model's main graph stand for.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// By name, of all that was read or computed.
    pub(crate) names: HashMap<String, Tracked>,
    /// The symbols that their dims mean; the finished graph may have fewer, of other numbers.
    pub(crate) symbols: Symbols,
}

/// As [`import`], with what is known of the model's values.
///
/// # Errors
/// As [`import`].
pub(crate) fn import_values(model: &Model, options: &ImportOptions) -> Result<(Graph, Values), ImportError> {
    options.custom_ops.check_unknown()?;
    let mut demand = Demand::default();
    attempts(model, options, &mut demand, MAX_ANSWERS).map_err(|error| with_others(error, model, options, &mut demand))
}

/// Imports a model, beginning anew as long as that may help, with at most so many answers to questions about dims.
fn attempts(
    model: &Model,
    options: &ImportOptions,
    demand: &mut Demand,
    answers: usize,
) -> Result<(Graph, Values), ImportError> {
    let mut assumptions = Assumptions::new(answers);
    let mut settled = Settled::new(options);
    let (mut first, mut fallback) = (None, None);
    loop {
        match attempt(model, &options.custom_ops, &mut settled, &mut assumptions, demand, None) {
            Ok(found) if assumptions.is_empty() || branch::may_be_as_declared(&found.0, model.outputs()) => {
                return Ok(found);
            }
            // Other answers may fit what is declared. If none does, it is the declaration that is wrong.
            Ok(found) => {
                let found = fallback.take().unwrap_or(found);
                if !assumptions.next() {
                    return Ok(found);
                }
                fallback = Some(found);
            }
            // What follows from a dim may make sense where it is known from the start.
            Err(_) if settled.next() => {
                assumptions.again();
                first = None;
            }
            // With the numbers that shapes follow from the model may make sense, and does not without.
            Err(_) if demand.next() => {
                assumptions.again();
                first = None;
            }
            // With other assumptions about dims the model may make sense; if it never does, what was wrong first counts.
            Err(error) => {
                let error = first.get_or_insert(error);
                if !assumptions.next() {
                    if let Some(found) = fallback {
                        return Ok(found);
                    }
                    return Err(std::mem::replace(error, ImportError::NotAModel { reason: "" }));
                }
            }
        }
    }
}

/// What else is wrong with a model whose import has failed for good, of nodes that do not follow from the one that has.
fn with_others(error: ImportError, model: &Model, options: &ImportOptions, demand: &mut Demand) -> ImportError {
    // Numbers that nodes behind the first problem want of inputs are learned on the way.
    const ROUNDS: usize = 4;
    if error.nodes().is_empty() {
        return error;
    }
    for _ in 0..ROUNDS {
        let (mut settled, mut assumptions) = (Settled::new(options), Assumptions::new(MAX_ANSWERS));
        let mut lost = Lost::default();
        let _ = attempt(model, &options.custom_ops, &mut settled, &mut assumptions, demand, Some(&mut lost));
        if demand.next() {
            continue;
        }
        let known: HashSet<usize> = error.nodes().into_iter().map(|node| node.index).collect();
        let mut others = lost.problems;
        others.retain(|other| other.nodes().into_iter().all(|node| !known.contains(&node.index)));
        if !others.is_empty() {
            return ImportError::Several { first: Box::new(error), others };
        }
        break;
    }
    error
}

/// Nodes that cannot be imported, for which an import goes on to find more.
#[derive(Default)]
struct Lost<'m> {
    problems: Vec<ImportError>,
    /// Values that are not known for that.
    values: HashSet<&'m str>,
}

fn attempt<'m>(
    model: &'m Model,
    custom_ops: &CustomOps,
    settled: &mut Settled,
    assumptions: &mut Assumptions,
    demand: &mut Demand,
    lost: Option<&mut Lost<'m>>,
) -> Result<(Graph, Values), ImportError> {
    let options = settled.options();
    let graph = model.graph();
    if let Some(sparse) = graph.sparse_initializer.first() {
        let value = sparse.values.as_ref().map_or_else(String::new, |v| v.name().to_owned());
        return Err(ImportError::UnsupportedValueType { value, found: "a sparse tensor" });
    }
    let mut scopes = Scopes::new(Graph { name: graph.name().to_owned(), ..Graph::default() }, graph);
    scopes.build().strict = options.strict;
    scopes.build().extents_differ = options.extents_differ;
    let mut importer = Importer::new(model, custom_ops, scopes, assumptions, demand, 0);
    inputs::add(model, options, importer.demand, &mut importer.scopes)?;
    match lost {
        Some(lost) => importer.all_problems(graph, model.order(), lost),
        None => importer.nodes(graph, model.order()).inspect_err(|_| importer.note_assumptions())?,
    }
    for output in model.outputs() {
        let name = output.name();
        let tracked = importer.scopes.value(name)?.ok_or_else(|| dangling(name))?;
        let tracked = importer.as_declared(output, tracked)?;
        let problem = importer.scopes.build().model_output(name, &tracked);
        problem.map_err(|problem| ImportError::Value { value: name.to_owned(), problem })?;
    }
    let Importer { scopes, assumptions, .. } = importer;
    scopes.finish().map_err(|contradiction| {
        // What follows from an answer that was assumed may be wrong with it.
        if assumptions.is_empty() {
            settled.settle(&contradiction.fixed);
        }
        contradiction_in(model, contradiction)
    })
}

/// The error of a contradiction, at its node.
fn contradiction_in(model: &Model, contradiction: Contradiction) -> ImportError {
    let Contradiction { node, problem, .. } = contradiction;
    let nodes = model.graph().node.iter().enumerate().map(|(index, node)| node_ref(model.proto(), node, index));
    match nodes.into_iter().find(|found| found.name == node) {
        Some(node) => ImportError::Node { node: Box::new(node), problem },
        None => ImportError::Value { value: node, problem },
    }
}

fn dangling(name: &str) -> ImportError {
    ImportError::DanglingOutput { name: name.to_owned() }
}

/// The state of one import.
struct Importer<'m, 'a> {
    model: &'m Model,
    custom_ops: &'a CustomOps,
    scopes: Scopes<'m>,
    assumptions: &'a mut Assumptions,
    demand: &'a mut Demand,
    /// Of the values computed so far.
    producers: Producers<'m>,
    /// Whether states of a `Loop` keep their extents where that cannot be proven: else they may grow or shrink, and the host
    /// evaluates the loop.
    takes_states_to_stay: bool,
    /// Whether what a branch of an `If` takes for granted is taken of all runs.
    shares_assumptions: bool,
    /// How many bodies of loops, each a graph of its own, are around this one.
    depth: usize,
}

impl<'m, 'a> Importer<'m, 'a> {
    /// An importer that has seen nothing yet.
    fn new(
        model: &'m Model,
        custom_ops: &'a CustomOps,
        scopes: Scopes<'m>,
        assumptions: &'a mut Assumptions,
        demand: &'a mut Demand,
        depth: usize,
    ) -> Self {
        Self {
            model,
            custom_ops,
            scopes,
            assumptions,
            demand,
            producers: Producers::new(),
            takes_states_to_stay: false,
            shares_assumptions: false,
            depth,
        }
    }
}

impl<'m> Importer<'m, '_> {
    /// Notes whether something has been taken for granted.
    fn note_assumptions(&mut self) {
        let graph = &self.scopes.build().graph;
        self.demand.has_assumed |= !graph.assumptions.is_empty() || !graph.requires.is_empty();
    }

    /// The nodes of a graph that its outputs depend on.
    fn nodes(&mut self, graph: &'m GraphProto, order: &[usize]) -> Result<(), ImportError> {
        let live = live_nodes(graph, order);
        let order: Vec<usize> = order.iter().copied().filter(|&n| live[n]).collect();
        let unsupported = unsupported_operators(self.model, self.custom_ops, graph, &order, false);
        if !unsupported.is_empty() {
            return Err(ImportError::UnsupportedOperators { operators: unsupported });
        }
        for (at, &index) in order.iter().enumerate() {
            loop {
                let missing = self.demand.missing();
                let Err(error) = self.node(graph, index) else { break };
                let asks = with_graphs(&graph.node[index]).is_none() && self.demand.missing() > missing;
                if !asks || !self.compute_added(graph, &order[..at]) {
                    return Err(self.named(error));
                }
            }
        }
        Ok(())
    }

    /// The error with dims as the model calls them.
    fn named(&mut self, error: ImportError) -> ImportError {
        let symbols = &self.scopes.build().graph.symbols;
        match error {
            ImportError::Node { node, problem } => ImportError::Node { node, problem: problem.named(symbols) },
            other => other,
        }
    }

    /// What is wrong with the nodes that the outputs of a graph depend on, but for those that follow from others of the kind.
    fn all_problems(&mut self, graph: &'m GraphProto, order: &[usize], lost: &mut Lost<'m>) {
        let live = live_nodes(graph, order);
        let order: Vec<usize> = order.iter().copied().filter(|&n| live[n]).collect();
        let operators = unsupported_operators(self.model, self.custom_ops, graph, &order, false);
        let is_unsupported = |index: usize| {
            let node = node_ref(self.model.proto(), &graph.node[index], index);
            operators.iter().any(|operator| operator.op_type == node.op_type && operator.domain == node.domain)
        };
        let unsupported: HashSet<usize> = order.iter().copied().filter(|&index| is_unsupported(index)).collect();
        for index in order {
            let node = &graph.node[index];
            let follows = crate::check::reads(node).iter().any(|name| lost.values.contains(name));
            let before = self.scopes.build().state();
            let problem = if follows || unsupported.contains(&index) { None } else { self.node(graph, index).err() };
            // With another answer what comes from here on may be right.
            if !self.assumptions.is_empty() {
                break;
            }
            if problem.is_some() {
                self.scopes.build().return_to(before);
            }
            if follows || unsupported.contains(&index) || problem.is_some() {
                lost.values.extend(node.output.iter().map(String::as_str).filter(|name| !name.is_empty()));
            }
            lost.problems.extend(problem.map(|problem| self.named(problem)));
        }
        if !operators.is_empty() {
            lost.problems.insert(0, ImportError::UnsupportedOperators { operators });
        }
    }

    fn node(&mut self, graph: &'m GraphProto, index: usize) -> Result<(), ImportError> {
        let node: &'m NodeProto = &graph.node[index];
        let node_ref = node_ref(self.model.proto(), node, index);
        self.scopes.build().set_origin(&node_ref.name);
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let mut inputs = Vec::with_capacity(node.input.len());
        for (position, name) in node.input.iter().enumerate() {
            inputs.push(match name.as_str() {
                "" => None,
                name => {
                    let value = self.scopes.value(name)?;
                    Some(value.ok_or_else(|| in_node(Problem::MissingInput { index: position }))?)
                }
            });
        }
        let outputs = if let Some(import) = with_graphs(node) {
            self.holder(import, node, &node_ref, inputs)?
        } else if flex::is_flex_attention(node) {
            let inputs = self.of_rank(node, &node_ref, inputs, flex::RANK)?;
            self.flex_attention(node, &node_ref, inputs)?
        } else {
            self.operator(graph, index, &node_ref, inputs)?
        };
        let reads: Rc<[&'m str]> = crate::check::reads(node).into();
        for (position, name) in node.output.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let Some(output) = outputs.get(position) else {
                return Err(in_node(Problem::UnsupportedOutput { index: position, supported: outputs.len() }));
            };
            self.scopes.define(name, output.clone());
            self.producers.insert(name, Rc::clone(&reads));
        }
        self.scopes.restate();
        Ok(())
    }

    /// The outputs of an operator: expanded into core ops, or, where that is not possible, left to the host.
    fn operator(
        &mut self,
        graph: &'m GraphProto,
        index: usize,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let node: &'m NodeProto = &graph.node[index];
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        if inputs.iter().flatten().any(Tracked::is_unranked) {
            let problem = Problem::DynamicValue { what: "the number of axes of an input" };
            return self.of_any_rank(graph, index, node_ref, inputs, problem);
        }
        let exact = self.demand.is_exact(&node.output);
        let build = self.scopes.build();
        let mut call = Call { node, opset: node_ref.opset, inputs, build, wanted: Cell::default() };
        let Some(operator) = ops::find(node.op_type(), &node_ref.domain, node_ref.opset) else {
            let outputs = match self.custom_ops.find(node.op_type(), &node_ref.domain, node_ref.opset) {
                Some(custom) => host::import_custom(&mut call, node_ref, custom)?,
                None => match host::import(&mut call, node_ref, graph, None) {
                    Err(ImportError::Node { problem: problem @ Problem::DynamicValue { .. }, .. }) => {
                        let inputs = call.inputs;
                        return self.of_any_rank(graph, index, node_ref, inputs, problem);
                    }
                    outputs => outputs?,
                },
            };
            return outputs.ok_or_else(|| ImportError::UnsupportedOperators {
                operators: unsupported_operators(self.model, self.custom_ops, graph, &[index], true),
            });
        };
        let before = call.build.state();
        call.build.exact = exact;
        let expanded = check_readable(&call.inputs).and_then(|()| (operator.import)(&mut call));
        call.build.exact = false;
        let problem = match expanded {
            Ok(outputs) => return Ok(outputs),
            Err(problem) => problem,
        };
        let (wanted, inputs) = (call.wanted(), call.inputs);
        let mut learned = false;
        for name in wanted.iter().filter_map(|&n| node.input.get(n)) {
            learned |= self.want(name);
        }
        // Where a number can be traced to an input, the import begins anew with that.
        if learned {
            self.scopes.build().return_to(before);
            return Err(in_node(problem));
        }
        if !host::may_help(&problem) {
            return Err(in_node(problem));
        }
        let build = self.scopes.build();
        // What the attempt took for granted is not needed.
        build.return_to(before);
        let state = build.state();
        let mut numbers = Call { node, opset: node_ref.opset, inputs: inputs.clone(), build, wanted: Cell::default() };
        if let Some(outputs) = with_numbers(&mut numbers, &wanted, operator.import, &problem) {
            return Ok(outputs);
        }
        let build = self.scopes.build();
        build.return_to(state);
        let state = build.state();
        let mut call = Call { node, opset: node_ref.opset, inputs: inputs.clone(), build, wanted: Cell::default() };
        if let Some(outputs) = wider::import(&mut call, node_ref, graph, operator, &problem)? {
            return Ok(outputs);
        }
        let build = self.scopes.build();
        build.return_to(state);
        let mut call = Call { node, opset: node_ref.opset, inputs, build, wanted: Cell::default() };
        match host::import(&mut call, node_ref, graph, Some(&problem)) {
            Ok(Some(outputs)) => Ok(outputs),
            Err(ImportError::Node { problem: problem @ Problem::DynamicValue { .. }, .. }) => {
                let inputs = call.inputs;
                self.of_any_rank(graph, index, node_ref, inputs, problem)
            }
            // No rule says of what type its results are.
            Ok(None) if matches!(problem, Problem::DynamicValue { .. }) => {
                let inputs = call.inputs;
                self.of_any_rank(graph, index, node_ref, inputs, problem)
            }
            outputs => outputs?.ok_or_else(|| in_node(problem)),
        }
    }
}

impl<'m, 'a> Importer<'m, 'a> {
    /// The outputs of an operator that holds graphs: theirs become part of ours; or, where that is not possible, the host
    /// evaluates the node as it is, or runs its steps.
    fn holder(
        &mut self,
        import: Import<'m, 'a>,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        mut inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        self.take_as_scalars(node, node_ref, &mut inputs)?;
        let (is_loop, asked) = (node.op_type() == "Loop", self.assumptions.asked());
        let has_values = inputs.iter().flatten().any(|input| held::is_value(input.dtype()));
        let has_unranked = node.op_type() != "If" && inputs.iter().flatten().any(Tracked::is_unranked);
        if (is_loop && has_values) || has_unranked {
            let reason = "its states are sequences or optionals";
            let on_host = self.held(node, node_ref, inputs.clone(), Held::Any, reason)?;
            if let Some(outputs) = on_host {
                return Ok(outputs);
            }
        }
        if has_unranked {
            let problem = Problem::DynamicValue { what: "the number of axes of an input" };
            return Err(ImportError::Node { node: Box::new(node_ref.clone()), problem });
        }
        let may_be_held = matches!(node.op_type(), "Loop" | "Scan");
        if may_be_held {
            // What its graphs read is known by its names before, so that it is not brought in a second time.
            crate::check::reads(node).into_iter().try_for_each(|name| self.scopes.value(name).map(drop))?;
        }
        let before = may_be_held.then(|| (self.scopes.build().state(), self.scopes.names()));
        let error = match import(self, node, node_ref, inputs.clone()) {
            Ok(outputs) => return Ok(outputs),
            Err(error) => error,
        };
        // With what was learned, or with another answer to a question, it may be expanded.
        let may_differ = self.demand.has_grown() || self.assumptions.asked() != asked;
        // States that grow do not fit what they were, nor branches each other; whoever evaluates the loop does not mind.
        let is_of_state = |node: &NodeRef, problem: &Problem| {
            let is_own = if is_loop { *node == *node_ref } else { matches!(&*node.op_type, "Loop" | "If") };
            is_own && matches!(problem, Problem::ShapeMismatch { .. })
        };
        let Some((state, names)) = before.filter(|_| !may_differ) else { return Err(error) };
        // What is wrong with a node within may be so for kernels alone; if its steps can be compiled by themselves, it is.
        let (reason, how) = match &error {
            ImportError::Node { node, problem } if host::may_help(problem) || is_of_state(node, problem) => {
                (problem.to_string(), Held::Any)
            }
            ImportError::Node { problem, .. } if is_loop => (problem.to_string(), Held::Compiled),
            ImportError::UnsupportedOperators { .. } => {
                let how = if is_loop { Held::Compiled } else { Held::Any };
                ("kernels do not compute all that its steps do".to_owned(), how)
            }
            _ => return Err(error),
        };
        // What its nodes took for granted is not needed.
        self.scopes.return_to(names);
        self.scopes.build().return_to(state);
        self.scopes.build().set_origin(&node_ref.name);
        if let Some(outputs) = self.held(node, node_ref, inputs.clone(), how, &reason).ok().flatten() {
            return Ok(outputs);
        }
        if !matches!(&error, ImportError::Node { node, problem } if is_of_state(node, problem)) {
            return Err(error);
        }
        // Nobody else can: what has to be so for kernels is checked when the model runs.
        self.takes_states_to_stay = true;
        let outputs = import(self, node, node_ref, inputs);
        self.takes_states_to_stay = false;
        outputs.map_err(|_| error)
    }
}

/// The outputs of an operator that needs to know the numbers in some of its inputs, which kernels compute: they become
/// dims while the model runs. `None` if that does not help.
fn with_numbers(
    call: &mut Call<'_>,
    wanted: &[usize],
    import: fn(&mut Call<'_>) -> Result<Vec<Tracked>, Problem>,
    problem: &Problem,
) -> Option<Vec<Tracked>> {
    if wanted.is_empty() || !call.build.may_use_host {
        return None;
    }
    let reason = problem.to_string();
    for &index in wanted {
        let given = call.inputs.get(index)?.clone()?;
        call.inputs[index] = Some(host::with_numbers(call.build, &given, &reason).ok()??);
    }
    import(call).ok()
}

/// Fails if a value that is read is of a type that no kernel reads. Constants have not been looked at so far.
fn check_readable(inputs: &[Option<Tracked>]) -> Result<(), Problem> {
    inputs.iter().flatten().try_for_each(|t: &Tracked| check_storable(t.dtype()))
}

type Import<'m, 'a> =
    fn(&mut Importer<'m, 'a>, &'m NodeProto, &NodeRef, Vec<Option<Tracked>>) -> Result<Vec<Tracked>, ImportError>;

/// Operators that hold graphs are imported here, where the names are known.
fn with_graphs<'m, 'a>(node: &NodeProto) -> Option<Import<'m, 'a>> {
    if !crate::model::canonical_domain(node.domain()).is_empty() {
        return None;
    }
    Some(match node.op_type() {
        "If" => Importer::branches,
        "Loop" => Importer::iterate,
        "Scan" => Importer::scan,
        "SequenceMap" => Importer::map_sequence,
        _ => return None,
    })
}

/// Which nodes an output of the graph depends on.
fn live_nodes(graph: &GraphProto, order: &[usize]) -> Vec<bool> {
    let mut wanted: HashSet<&str> = graph.output.iter().map(|o| o.name()).collect();
    let mut live = vec![false; graph.node.len()];
    for &index in order.iter().rev() {
        let node = &graph.node[index];
        if node.output.iter().any(|o| wanted.contains(o.as_str())) {
            live[index] = true;
            wanted.extend(crate::check::reads(node));
        }
    }
    live
}

/// The operators among the nodes that cannot be imported, grouped, in the order of their first use. Those that the host
/// evaluates count if they cannot be typed.
fn unsupported_operators(
    model: &Model,
    custom_ops: &CustomOps,
    graph: &GraphProto,
    order: &[usize],
    untyped: bool,
) -> Vec<UnsupportedOperator> {
    let mut groups: Vec<UnsupportedOperator> = Vec::new();
    for &index in order {
        let node = node_ref(model.proto(), &graph.node[index], index);
        let holds_graphs = with_graphs(&graph.node[index]).is_some() || flex::is_flex_attention(&graph.node[index]);
        if holds_graphs || ops::find(&node.op_type, &node.domain, node.opset).is_some() {
            continue;
        }
        let is_evaluated = host::defines(&node.op_type, &node.domain, node.opset)
            || custom_ops.find(&node.op_type, &node.domain, node.opset).is_some();
        if !untyped && is_evaluated {
            continue;
        }
        match groups.iter_mut().find(|g| g.op_type == node.op_type && g.domain == node.domain) {
            Some(group) => group.nodes.push(node),
            None => groups.push(UnsupportedOperator {
                op_type: node.op_type.clone(),
                domain: node.domain.clone(),
                opset: node.opset,
                nodes: vec![node],
            }),
        }
    }
    groups
}
