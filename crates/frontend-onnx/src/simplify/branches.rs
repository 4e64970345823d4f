//! Branches whose condition is known take the place of their `If`.

use super::{Known, names};
use crate::model::canonical_domain;
use crate::proto::{GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// Replaces each `If` of which the condition is known; returns whether there was one.
pub(super) fn take_known(graph: &mut GraphProto, known: &Known) -> bool {
    if !graph.node.iter().any(|node| branch(node, known).is_some()) {
        return false;
    }
    let mut taken = names::taken(graph);
    for node in std::mem::take(&mut graph.node) {
        match branch(&node, known) {
            Some(branch) => put(branch.clone(), &node, graph, &mut taken),
            None => graph.node.push(node),
        }
    }
    true
}

/// The branch that is taken, if that is known.
fn branch<'a>(node: &'a NodeProto, known: &Known) -> Option<&'a GraphProto> {
    let is_if = node.op_type() == "If" && canonical_domain(node.domain()).is_empty();
    let condition = node.input.first().filter(|_| is_if)?;
    let answer = known.constant(condition)?.get_f64(0)? != 0.0;
    let name = if answer { "then_branch" } else { "else_branch" };
    node.attribute.iter().find(|a| a.name() == name)?.g.as_ref()
}

/// Adds the branch's constants and nodes, its outputs under the names of the node's.
fn put(mut branch: GraphProto, node: &NodeProto, into: &mut GraphProto, taken: &mut HashSet<String>) {
    let label = if node.name().is_empty() { node.op_type() } else { node.name() };
    let own: Vec<String> = (branch.initializer.iter().map(|t| t.name().to_owned()))
        .chain(branch.node.iter().flat_map(|n| n.output.iter().filter(|o| !o.is_empty()).cloned()))
        .collect();
    // Both branches of a node, and those of others, may use the same names.
    let map: HashMap<String, String> =
        own.into_iter().map(|name| (name.clone(), names::fresh(&format!("{label}/{name}"), taken))).collect();
    names::rename(&mut branch, &map);
    let mut outputs: HashMap<String, String> = HashMap::new();
    let mut copies = Vec::new();
    for (inner, outer) in branch.output.iter().zip(&node.output).filter(|(_, outer)| !outer.is_empty()) {
        let made_here = branch.node.iter().any(|n| n.output.iter().any(|o| o == inner.name()));
        if made_here && !outputs.contains_key(inner.name()) {
            outputs.insert(inner.name().to_owned(), outer.clone());
        } else {
            copies.push((inner.name().to_owned(), outer.clone()));
        }
    }
    names::rename(&mut branch, &outputs);
    into.initializer.append(&mut branch.initializer);
    into.node.append(&mut branch.node);
    into.node.extend(copies.into_iter().map(|(from, to)| NodeProto {
        op_type: Some("Identity".to_owned()),
        name: Some(format!("{label}/{to}")),
        input: vec![outputs.get(&from).cloned().unwrap_or(from)],
        output: vec![to],
        ..NodeProto::default()
    }));
}
