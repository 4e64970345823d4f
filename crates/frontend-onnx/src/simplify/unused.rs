//! Nodes and constants that no output depends on.

use super::names;
use crate::check;
use crate::proto::GraphProto;
use std::collections::HashSet;

/// Removes them, in the graph and in those that its nodes hold; returns whether there were any.
pub(super) fn remove(graph: &mut GraphProto) -> bool {
    let before = graph.node.len() + graph.initializer.len();
    let mut wanted = names::outputs(graph);
    let mut nodes = std::mem::take(&mut graph.node);
    nodes.reverse();
    nodes.retain(|node| {
        let live = node.output.iter().any(|o| wanted.contains(o));
        if live {
            wanted.extend(check::reads(node).into_iter().map(str::to_owned));
        }
        live
    });
    nodes.reverse();
    graph.node = nodes;
    let mut changed = false;
    for node in &mut graph.node {
        for attribute in &mut node.attribute {
            for held in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                changed |= remove(held);
            }
        }
    }
    let read: HashSet<String> = names::reads(graph);
    graph.initializer.retain(|tensor| read.contains(tensor.name()));
    changed | (graph.node.len() + graph.initializer.len() != before)
}
