//! Concatenations within others: one that has all parts of another, side by side, has that one as a part instead.
//!
//! A value lies in one place, so what is a part of two concatenations is written into one and copied into the other. Where
//! the first is itself a part of the second, both are one memory and nothing is copied: networks whose layers read what all
//! layers before have made (DenseNet, arXiv:1608.06993) write each result once.

use super::append::has_late_extent;
use super::expand::Flat;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::op::Op;
use std::collections::{BTreeMap, BTreeSet};

/// A concatenation as the graph has it.
struct Earlier {
    node: NodeId,
    axis: usize,
    parts: Vec<ValueId>,
}

/// Makes concatenations parts of those behind them.
pub(super) fn nest(flat: &mut Flat) {
    let mut by_first_part: BTreeMap<ValueId, Vec<Earlier>> = BTreeMap::new();
    for id in flat.graph.order.clone() {
        let node = &flat.graph.nodes[id];
        let Op::Concat(concat) = &node.op else { continue };
        let (axis, whole, parts) = (concat.axis, node.outputs[0], node.inputs.clone());
        // An output lies as ONNX says, which is not how those who read its first parts want them.
        let is_output = flat.graph.outputs.iter().any(|port| port.value == whole);
        // Memory whose size the run tells gets copies of its parts; see `prepare`.
        if is_output || flat.region(id).is_some() || has_late_extent(&flat.graph, whole) {
            continue;
        }
        let mut nested = Vec::new();
        let mut rest = &parts[..];
        while let Some((&first, behind)) = rest.split_first() {
            let earlier = by_first_part.get(&first).into_iter().flatten();
            // What is computed on the same condition, or always.
            let fits = |e: &&Earlier| {
                let guard = flat.guard(e.node);
                e.axis == axis && rest.starts_with(&e.parts) && (guard.is_none() || guard == flat.guard(id))
            };
            let (part, others) = match earlier.filter(fits).max_by_key(|e| e.parts.len()) {
                Some(e) => (flat.graph.nodes[e.node].outputs[0], &rest[e.parts.len()..]),
                None => (first, behind),
            };
            nested.push(part);
            rest = others;
        }
        flat.graph.nodes[id].inputs = nested;
        // Of parts that repeat nothing is gained, and comparing them at every place would take a hostile model long.
        let is_distinct = parts.iter().collect::<BTreeSet<_>>().len() == parts.len();
        if parts.len() > 1 && is_distinct {
            by_first_part.entry(parts[0]).or_default().push(Earlier { node: id, axis, parts });
        }
    }
}
