//! How many bytes come from beyond a cache of a given size.
//!
//! The usual estimate of reuse: where one turn of a loop touches no more than the cache holds, what does not move with the
//! loop is still there in the next turn, so all turns together bring in what they touch, each byte once; else every turn
//! begins anew.

use super::walk::{Access, Home, Node, Tree};
use std::collections::BTreeMap;

/// Bytes that come at a time.
const LINE_BYTES: f64 = 64.0;

/// Bytes from beyond a cache of `cache_bytes`.
pub(super) fn beyond(tree: &Tree, cache_bytes: f64) -> f64 {
    tree.roots.iter().map(|node| of_node(tree, node, cache_bytes)).sum()
}

fn of_node(tree: &Tree, node: &Node, cache_bytes: f64) -> f64 {
    match node {
        Node::Leaf(_) => touched(tree, node, usize::MAX),
        Node::Branch(part, inside) => part * inside.iter().map(|inner| of_node(tree, inner, cache_bytes)).sum::<f64>(),
        Node::Loop(depth, turns, inside) => {
            let one_turn: f64 = inside.iter().map(|inner| touched(tree, inner, depth + 1)).sum();
            if one_turn <= cache_bytes {
                touched(tree, node, *depth)
            } else {
                turns * inside.iter().map(|inner| of_node(tree, inner, cache_bytes)).sum::<f64>()
            }
        }
    }
}

/// Bytes, in whole lines, that the loops from `depth` inwards touch.
pub(super) fn touched(tree: &Tree, node: &Node, depth: usize) -> f64 {
    let mut of_buffer = BTreeMap::new();
    collect(tree, node, depth, &mut of_buffer);
    of_buffer.into_values().sum()
}

fn collect(tree: &Tree, node: &Node, depth: usize, of_buffer: &mut BTreeMap<infc_ir::entity::BufferId, f64>) {
    match node {
        Node::Loop(.., inside) | Node::Branch(_, inside) => {
            inside.iter().for_each(|inner| collect(tree, inner, depth, of_buffer))
        }
        Node::Leaf(n) => {
            let leaf = &tree.leaves[*n];
            for access in leaf.accesses.iter().filter(|access| access.home != Home::Register) {
                let turns: Vec<f64> = leaf.loops.iter().map(|l| l.turns).collect();
                let bytes = footprint(access, &turns, depth);
                // Accesses of one buffer are mostly neighbours, and the largest tells of all.
                let most = of_buffer.entry(access.buffer).or_insert(0.0f64);
                *most = most.max(bytes);
            }
        }
    }
}

/// Bytes, in whole lines, that an access touches in the loops from `depth` inwards.
fn footprint(access: &Access, turns: &[f64], depth: usize) -> f64 {
    let (mut points, mut span, mut least) = (1.0f64, 1.0f64, f64::INFINITY);
    for (stride, turns) in access.strides.iter().zip(turns).skip(depth) {
        if let Some(stride) = stride
            && *turns > 1.0
        {
            points *= turns;
            span += stride.abs() * (turns - 1.0);
            least = least.min(stride.abs().max(1.0));
        }
    }
    let elements = points.min(span).min(access.len_elems);
    // Elements that lie apart bring a line each.
    let bytes_each = if least.is_finite() { (least * access.elem_bytes).min(LINE_BYTES) } else { LINE_BYTES };
    (elements * bytes_each).min(access.len_elems * access.elem_bytes).max(LINE_BYTES)
}
