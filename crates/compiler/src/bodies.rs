//! Bodies of loops that the host drives: graphs of their own, each with an entry of the artifact.

use crate::CompileError;
use crate::entry;
use infc_artifact::Entry;
use infc_ir::graph::Graph;
use infc_ir::op::{HostBody, HostOp, Op};
use infc_passes::form::{GraphPlan, OperandSource, PlannedHost};
use std::sync::Arc;

/// Loops beyond so many are evaluated if they can be: each body is compiled for every target.
const MAX_BODIES: usize = 32;

/// The plan of a body.
#[derive(Clone, Debug)]
pub(crate) struct BodyPlan {
    /// What it is of.
    pub(crate) body: Arc<HostBody>,
    pub(crate) plan: GraphPlan,
}

/// The bodies of loops in these graphs, each once, those within others behind them.
pub(crate) fn of_graphs(graphs: &[Graph]) -> Vec<Arc<HostBody>> {
    let mut found: Vec<Arc<HostBody>> = Vec::new();
    graphs.iter().for_each(|graph| collect(graph, &mut found));
    let mut at = 0;
    while at < found.len() {
        let body = Arc::clone(&found[at]);
        collect(&body.graph, &mut found);
        at += 1;
    }
    found
}

fn collect(graph: &Graph, found: &mut Vec<Arc<HostBody>>) {
    for &id in &graph.order {
        match &graph.nodes[id].op {
            Op::Host(host) => {
                let has_room = found.len() < MAX_BODIES || host.graphs.is_empty();
                let is_new = |body: &&Arc<HostBody>| has_room && position(found, body).is_none();
                let body = host.body.as_ref().filter(is_new).cloned();
                found.extend(body);
            }
            Op::If(branches) => [&branches.then, &branches.otherwise].into_iter().for_each(|g| collect(g, found)),
            _ => {}
        }
    }
}

/// Which of the bodies this is.
fn position(bodies: &[Arc<HostBody>], body: &Arc<HostBody>) -> Option<usize> {
    bodies.iter().position(|known| Arc::ptr_eq(known, body))
}

/// Which of the bodies is that of an operation that the host evaluates.
pub(crate) fn body_of(bodies: &[Arc<HostBody>], op: &HostOp) -> Option<usize> {
    position(bodies, op.body.as_ref()?)
}

/// Whether a runtime reads an input of an operation that the host evaluates. What only the graph of a loop reads that nobody
/// evaluates is not kept: constants have their place in what the entry's kernels read.
pub(crate) fn is_read(bodies: &[Arc<HostBody>], op: &HostOp, input: usize) -> bool {
    match &op.body {
        Some(body) if body.is_whole() && position(bodies, body).is_some() => {
            input < HostBody::BEFORE_STATES + body.states() || body.captures.contains(&(input as u32))
        }
        _ => true,
    }
}

/// What a runtime reads of the inputs of an operation that the host evaluates.
pub(crate) fn operands<'p>(bodies: &[Arc<HostBody>], host: &'p PlannedHost) -> impl Iterator<Item = &'p OperandSource> {
    let given = (0..host.op.inputs.len()).filter(|&input| host.op.inputs[input]);
    given.zip(&host.inputs).filter(|(input, _)| is_read(bodies, &host.op, *input)).map(|(_, operand)| operand)
}

/// The entry of a body, which is one of several.
pub(crate) fn entry(plan: &GraphPlan, number: usize) -> Result<Entry, CompileError> {
    Ok(Entry { name: format!("main.loop{number}"), slices: None, ..entry::entry(plan)? })
}
