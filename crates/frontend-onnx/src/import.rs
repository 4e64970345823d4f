//! ONNX graph to infc's graph: a walk over the nodes in order, each expanded by its operator's import.

mod inputs;

pub use inputs::{DimChoice, ImportOptions, ShapeDim};

use crate::build::{Builder, check_storable};
use crate::call::Call;
use crate::error::{ImportError, Problem, UnsupportedOperator};
use crate::model::Model;
use crate::ops;
use crate::proto::{NodeProto, TensorProto};
use crate::tensor_proto;
use crate::tracked::Tracked;
use infc_ir::graph::Graph;
use std::collections::{HashMap, HashSet};

/// Imports a model.
///
/// Nodes that no output depends on are left out, whatever they are.
///
/// # Errors
/// [`ImportError`]; operators that are not supported are reported all at once.
pub fn import(model: &Model, options: &ImportOptions) -> Result<Graph, ImportError> {
    let graph = model.graph();
    if let Some(sparse) = graph.sparse_initializer.first() {
        let value = sparse.values.as_ref().map_or_else(String::new, |v| v.name().to_owned());
        return Err(ImportError::UnsupportedValueType { value, found: "a sparse tensor" });
    }
    let mut importer = Importer {
        build: Builder::new(Graph { name: graph.name().to_owned(), ..Graph::default() }),
        initializers: graph.initializer.iter().map(|t| (t.name(), t)).collect(),
        values: HashMap::new(),
        restated: 0,
    };
    inputs::add(model, options, &mut importer)?;

    let live = live_nodes(model);
    let order: Vec<usize> = model.order().iter().copied().filter(|&n| live[n]).collect();
    let unsupported = unsupported_operators(model, &order);
    if !unsupported.is_empty() {
        return Err(ImportError::UnsupportedOperators { operators: unsupported });
    }
    for &index in &order {
        importer.node(model, index)?;
        importer.restate();
    }
    for output in &graph.output {
        let tracked = importer.value(output.name())?.ok_or_else(|| dangling(output.name()))?;
        let name = output.name();
        let problem = importer.build.output(name, &tracked);
        problem.map_err(|problem| ImportError::Value { value: name.to_owned(), problem })?;
    }
    Ok(importer.build.finish())
}

fn dangling(name: &str) -> ImportError {
    ImportError::DanglingOutput { name: name.to_owned() }
}

/// The state of one import.
struct Importer<'m> {
    build: Builder,
    initializers: HashMap<&'m str, &'m TensorProto>,
    /// Everything defined so far, by name. Initializers enter when first read.
    values: HashMap<&'m str, Tracked>,
    /// How many replacements of dims the values know of.
    restated: usize,
}

impl<'m> Importer<'m> {
    /// The value of a name; `None` if nothing defined it (an output that its operator does not have).
    fn value(&mut self, name: &'m str) -> Result<Option<Tracked>, ImportError> {
        if let Some(tracked) = self.values.get(name) {
            return Ok(Some(tracked.clone()));
        }
        let Some(proto) = self.initializers.get(name) else { return Ok(None) };
        let tracked = Tracked::of_constant(name, tensor_proto::read(proto)?);
        self.values.insert(name, tracked.clone());
        Ok(Some(tracked))
    }

    /// Lets all values know what has been taken for granted since the last time, so that it need not be taken twice.
    fn restate(&mut self) {
        let known = self.build.facts.replaced_atoms();
        if std::mem::replace(&mut self.restated, known) == known {
            return;
        }
        let facts = &self.build.facts;
        self.values.values_mut().for_each(|tracked| *tracked = tracked.restated(&|dim| facts.apply(dim)));
    }

    fn node(&mut self, model: &'m Model, index: usize) -> Result<(), ImportError> {
        let node: &'m NodeProto = &model.graph().node[index];
        let node_ref = model.node_ref(index);
        self.build.set_origin(&node_ref.name);
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(model.node_ref(index)), problem };
        let mut inputs = Vec::with_capacity(node.input.len());
        for (position, name) in node.input.iter().enumerate() {
            inputs.push(match name.as_str() {
                "" => None,
                name => Some(self.value(name)?.ok_or_else(|| in_node(Problem::MissingInput { index: position }))?),
            });
        }
        // Constants have not been looked at so far; those of narrow floats are fine where they are widened.
        let is_narrow = |t: &Tracked| t.constant().is_some() && t.dtype().widened() != t.dtype();
        let mut read = inputs.iter().flatten().filter(|t| !is_narrow(t));
        read.try_for_each(|t: &Tracked| check_storable(t.dtype())).map_err(in_node)?;
        let operator = ops::find(node.op_type(), &node_ref.domain, node_ref.opset)
            .ok_or_else(|| ImportError::UnsupportedOperators { operators: unsupported_operators(model, &[index]) })?;
        let mut call = Call { node, opset: node_ref.opset, inputs, build: &mut self.build };
        let outputs = (operator.import)(&mut call).map_err(in_node)?;
        for (position, name) in node.output.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
            let Some(output) = outputs.get(position) else {
                return Err(in_node(Problem::UnsupportedOutput { index: position, supported: outputs.len() }));
            };
            self.values.insert(name, output.clone());
        }
        Ok(())
    }
}

/// Which nodes an output of the graph depends on.
fn live_nodes(model: &Model) -> Vec<bool> {
    let graph = model.graph();
    let mut wanted: HashSet<&str> = graph.output.iter().map(|o| o.name()).collect();
    let mut live = vec![false; graph.node.len()];
    for &index in model.order().iter().rev() {
        let node = &graph.node[index];
        if node.output.iter().any(|o| wanted.contains(o.as_str())) {
            live[index] = true;
            wanted.extend(crate::check::reads(node));
        }
    }
    live
}

/// The operators among the nodes that cannot be imported, grouped, in the order of their first use.
fn unsupported_operators(model: &Model, order: &[usize]) -> Vec<UnsupportedOperator> {
    let mut groups: Vec<UnsupportedOperator> = Vec::new();
    for &index in order {
        let node = model.node_ref(index);
        if ops::find(&node.op_type, &node.domain, node.opset).is_some() {
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
