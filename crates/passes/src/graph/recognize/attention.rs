//! Attention: `softmax(f(Q·Kᵀ, …))·V`, where `f` is any map: scale, mask, bias.
//!
//! Transposes are labels of the contractions by now ([`crate::graph::contract`]), so heads may lie on any axis.
//!
//! In graphs of half types the weights are rounded before they weigh. Attention that goes through keys in blocks does not know
//! them then, but only exponentials that are divided later: unless results may not move, these are rounded instead, which is
//! as much of each of them.
//!
//! Of f32, weights that are no normal numbers are 0 ([`softmax_of_normal`]).

use super::turned::{is_softmax, operations};
use crate::graph::composites::{outline, reduced_axes, softmax_of_normal, softmax_of_rounded};
use crate::graph::map::as_map;
use crate::graph::movement::constant;
use crate::graph::rewrite::{Operand, Replacement, Site};
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::{Node, TensorType};
use infc_ir::op::{CompositeKind, CompositeOp, ContractOp, MapOp, Op};
use infc_ir::scalar::{Body, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// Maps between a product and the softmax of it.
const MAX_MAPS: usize = 8;

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

/// The contraction that makes the scores, directly or through maps, one after the other, whose nodes are put before `nodes`.
fn scores<'a>(site: &Site<'a>, scores: ValueId, nodes: &mut Vec<NodeId>) -> Option<&'a Node> {
    let mut value = scores;
    loop {
        let (id, node) = site.graph.producer(value)?;
        if !site.is_only_use(value) {
            site.cx.note(site.id, "no attention: the scores have other readers");
            return None;
        }
        nodes.insert(0, id);
        if matches!(node.op, Op::Contract(_)) {
            return Some(node);
        }
        as_map(node).filter(|m| m.results.len() == 1)?;
        value = product_behind(site, node)?;
    }
}

/// The one operand of a map that is a product, directly or through other maps.
fn product_behind(site: &Site<'_>, map: &Node) -> Option<ValueId> {
    let is_product = |&value: &ValueId| {
        let mut value = value;
        // Maps are fused with all that they can be: what is left of a chain is short.
        for _ in 0..MAX_MAPS {
            // What others read as well, such as a bias of all layers, is no part of this.
            if !site.is_only_use(value) {
                return false;
            }
            match site.graph.producer(value).map(|(_, node)| node) {
                Some(Node { op: Op::Contract(_), .. }) => return true,
                Some(node) if as_map(node).is_some() && node.inputs.len() == 1 => value = node.inputs[0],
                _ => return false,
            }
        }
        false
    };
    let mut products = map.inputs.iter().copied().filter(is_product);
    let found = products.next()?;
    products.next().is_none().then_some(found)
}

// contract(f32(half(softmax(x))), v) = contract(softmax'(f32(x)), v) with exponentials that are rounded instead
pub(super) fn rounded(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let weights = site.node().inputs[side];
        let rounding = site.producer(weights).filter(|_| site.is_only_use(weights))?;
        let half = widened(site, rounding)?;
        let rounded = rounding.inputs[0];
        let softmax_node = site.producer(rounded).filter(|_| site.is_only_use(rounded))?;
        let Op::Composite(composite) = &softmax_node.op else { return None };
        let axes = reduced_axes(composite).filter(|_| is_softmax_in_f32(composite))?;
        if !fits(op, side, axes) {
            return None;
        }
        let scores = softmax_node.inputs[0];
        let ty = TensorType::new(DType::F32, site.graph.ty(rounded).shape.clone());
        let mut new = Replacement::new();
        let mut argument = Operand::Old(scores);
        if site.graph.ty(scores).dtype != DType::F32 {
            let mut body = Body::default();
            let score = body.param(0, site.graph.ty(scores).dtype);
            let results = vec![body.cast(DType::F32, score)];
            argument = new.add(Op::Map(MapOp { body, results }), &[argument], ty.clone());
        }
        let softmax = softmax_of_rounded(&site.graph.symbols, &ty, axes, half);
        let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&input| input.into()).collect();
        inputs[side] = new.add(Op::Composite(softmax), &[argument], ty);
        let node = new.add_node(site.node().op.clone(), &inputs, site.output_types());
        new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
        Some(new.absorbing(softmax_node).absorbing(rounding))
    })
}

// contract(softmax(x), v) = contract(softmax'(x), v) with 0 for exponentials that are no normal numbers
pub(super) fn normal(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let weights = site.node().inputs[side];
        let softmax_node = site.producer(weights).filter(|_| site.is_only_use(weights))?;
        let Op::Composite(composite) = &softmax_node.op else { return None };
        let axes = reduced_axes(composite).filter(|_| operations(composite).is_some_and(|ops| is_softmax(&ops)))?;
        let ty = site.graph.ty(weights);
        // Constants may be there to pick single weights, of which a logarithm is taken then.
        let picks = constant(site.graph, site.node().inputs[1 - side]).is_some();
        if ty.dtype != DType::F32 || !fits(op, side, axes) || picks {
            return None;
        }
        let mut new = Replacement::new();
        let softmax = softmax_of_normal(&site.graph.symbols, ty, axes);
        let mut inputs: Vec<Operand> = site.node().inputs.iter().map(|&input| input.into()).collect();
        inputs[side] = new.add(Op::Composite(softmax), &[softmax_node.inputs[0].into()], ty.clone());
        let node = new.add_node(site.node().op.clone(), &inputs, site.output_types());
        new.set_outputs((0..site.node().outputs.len()).map(|n| Operand::New(node, n)).collect());
        Some(new.absorbing(softmax_node))
    })
}

/// The half type from which a node makes f32 of one value by conversions alone.
fn widened(site: &Site<'_>, node: &Node) -> Option<DType> {
    let map = as_map(node)?;
    let (&[result], &[input]) = (&map.results[..], &node.inputs[..]) else { return None };
    let mut halves = is_half(site.graph.ty(input).dtype).then_some(site.graph.ty(input).dtype);
    for op in map.body.ops.iter() {
        match *op {
            ScalarOp::Cast(half, _) if is_half(half) && halves.is_none_or(|known| known == half) => halves = Some(half),
            ScalarOp::Cast(DType::F32, _) | ScalarOp::Param(..) => {}
            _ => return None,
        }
    }
    halves.filter(|_| map.body.dtype(result) == DType::F32)
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Whether a softmax is that of f32, converted before and behind if at all.
fn is_softmax_in_f32(composite: &CompositeOp) -> bool {
    let Some(mut ops) = operations(composite) else { return false };
    if let [ScalarOp::Cast(DType::F32, _), ..] = ops[..] {
        ops.remove(0);
    }
    if let [.., ScalarOp::Cast(half, _)] = ops[..]
        && is_half(*half)
    {
        ops.pop();
    }
    let body = &composite.body;
    let exponentials = body.order.iter().map(|&id| &body.nodes[id]).find_map(|node| {
        let map = as_map(node)?;
        map.body.ops.iter().any(|op| matches!(op, ScalarOp::Unary(UnaryOp::Exp, _))).then_some(node.outputs[0])
    });
    is_softmax(&ops) && exponentials.is_some_and(|value| body.ty(value).dtype == DType::F32)
}
