//! Attention: `softmax(f(Q·Kᵀ, …))·V`, where `f` is any map: scale, mask, bias.
//!
//! Transposes are labels of the contractions by now ([`crate::graph::contract`]), so heads may lie on any axis.

use crate::graph::composites::{outline, reduced_axes};
use crate::graph::map::as_map;
use crate::graph::movement::constant;
use crate::graph::rewrite::{Replacement, Site};
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::op::{CompositeKind, ContractOp, Op};

// contract(softmax(map(contract(q, k), m…)), v) = attention(q, k, m…, v)
pub(super) fn attention(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let weights = site.node().inputs[side];
        let (softmax_id, softmax) = site.graph.producer(weights)?;
        let Op::Composite(composite) = &softmax.op else { return None };
        if composite.kind != CompositeKind::Softmax || !fits(op, side, reduced_axes(composite)?) {
            return None;
        }
        if !site.is_only_use(weights) {
            site.cx.note(site.id, "no attention: the softmax has other readers");
            return None;
        }
        let mut nodes = vec![softmax_id, site.id];
        let contract = scores(site, softmax.inputs[0], &mut nodes)?;
        if contract.inputs.iter().any(|&v| constant(site.graph, v).is_some()) {
            return None;
        }
        let absorbed: Vec<_> = nodes.iter().filter(|&&n| n != site.id).map(|&n| &site.graph.nodes[n]).collect();
        let (attention, inputs) = outline(site.graph, CompositeKind::Attention, &nodes)?;
        let new = Replacement::node(Op::Composite(attention), &inputs, site.output_types());
        Some(absorbed.into_iter().fold(new, Replacement::absorbing))
    })
}

/// The softmax is over the one label that the second contraction sums.
fn fits(op: &ContractOp, side: usize, axes: &[usize]) -> bool {
    let (labels, values) = if side == 0 { (&op.lhs, &op.rhs) } else { (&op.rhs, &op.lhs) };
    let [axis] = axes else { return false };
    let summed: Vec<&u8> = labels.iter().filter(|l| !op.output.contains(l)).collect();
    summed == [&labels[*axis]] && values.contains(&labels[*axis])
}

/// The contraction that makes the scores, directly or through one map, whose nodes are put before `nodes`.
fn scores<'a>(site: &Site<'a>, scores: ValueId, nodes: &mut Vec<NodeId>) -> Option<&'a infc_ir::graph::Node> {
    let (id, node) = site.graph.producer(scores)?;
    if !site.is_only_use(scores) {
        site.cx.note(site.id, "no attention: the scores have other readers");
        return None;
    }
    nodes.insert(0, id);
    if matches!(node.op, Op::Contract(_)) {
        return Some(node);
    }
    as_map(node).filter(|m| m.results.len() == 1)?;
    let mut contracts = node.inputs.iter().filter_map(|&v| {
        let (id, producer) = site.graph.producer(v)?;
        (matches!(producer.op, Op::Contract(_)) && site.is_only_use(v)).then_some((id, producer))
    });
    let (Some((id, contract)), None) = (contracts.next(), contracts.next()) else { return None };
    nodes.insert(0, id);
    Some(contract)
}
