//! From a model that fails to one with few nodes that still fails.

use crate::check::{Outcome, check};
use crate::draft::{Draft, Extent, Node, Origin};

fn fails(draft: &Draft) -> bool {
    matches!(check(draft), Outcome::Fails(_))
}

/// Leaves out what can be left out, one thing after the other: outputs, then nodes, whose results become inputs.
pub(crate) fn smallest(mut draft: Draft) -> Draft {
    if draft.outputs.len() > 1 {
        let one = draft.outputs.iter().map(|&id| Draft { outputs: vec![id], ..draft.clone() }).find(fails);
        draft = one.unwrap_or(draft);
    }
    drop_dead(&mut draft);
    let mut at = 0;
    while at < draft.nodes.len() {
        let smaller = without(&draft, at);
        if !smaller.outputs.is_empty() && fails(&smaller) {
            draft = smaller;
            at = 0;
        } else {
            at += 1;
        }
    }
    draft
}

/// Without a node: its results are inputs.
fn without(draft: &Draft, at: usize) -> Draft {
    let mut smaller = draft.clone();
    let node = smaller.nodes.remove(at);
    let results = node.first..node.first + node.operation.outputs;
    for id in results.clone() {
        let extent = |&size: &usize| Extent { name: None, size };
        let value = &mut smaller.values[id];
        value.origin = Origin::Input(value.samples[0].shape().iter().map(extent).collect());
        let nominal = value.samples[0].clone();
        value.samples.fill(nominal);
    }
    smaller.outputs.retain(|id| !results.contains(id));
    drop_dead(&mut smaller);
    smaller
}

/// Nodes that no output depends on.
fn drop_dead(draft: &mut Draft) {
    let mut wanted: Vec<usize> = draft.outputs.clone();
    let mut kept: Vec<Node> = Vec::new();
    for node in draft.nodes.drain(..).rev() {
        let results = node.first..node.first + node.operation.outputs;
        if wanted.iter().any(|id| results.contains(id)) {
            wanted.extend(node.inputs.iter().flatten());
            kept.push(node);
        }
    }
    kept.reverse();
    draft.nodes = kept;
}
