//! Contractions of one input with several constant operands become one: the Q, K and V projections of attention.
//!
//! The constants are concatenated along the label that only they have, and views take the result apart; readers that
//! fuse views read it in place. Off unless [`PassOptions::horizontal`](super::PassOptions::horizontal) says so: wide
//! enough products gain nothing.

use super::movement::{constant, var, view};
use super::rewrite::Forward;
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{ConcatOp, ContractOp, Op};
use infc_ir::scalar::Const;

/// Contractions with more columns than this are wide enough on their own.
const WIDE: i64 = 4096;

/// Merges contractions.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    if !cx.options.horizontal {
        return Ok(Changed::No);
    }
    let mut groups: Vec<Vec<Candidate>> = Vec::new();
    for &id in &graph.order {
        let Some(candidate) = Candidate::new(graph, id, cx) else { continue };
        match groups.iter_mut().find(|g| g[0].joins(graph, &candidate)) {
            Some(group) => group.push(candidate),
            None => groups.push(vec![candidate]),
        }
    }
    groups.retain(|g| g.len() > 1);
    if groups.is_empty() {
        return Ok(Changed::No);
    }
    let mut forward = Forward::new(graph);
    for id in std::mem::take(&mut graph.order) {
        forward.resolve_inputs(graph, id);
        if let Some(group) = groups.iter().find(|g| g[0].id == id) {
            merge(graph, group, &mut forward);
        }
        let member = groups.iter().flatten().any(|c| c.id == id);
        if !member {
            graph.order.push(id);
        }
    }
    forward.resolve_outputs(graph);
    Ok(Changed::Yes)
}

/// A contraction whose second operand is constant and has one label of its own.
struct Candidate {
    id: NodeId,
    lhs: ValueId,
    rhs: ValueId,
    op: ContractOp,
    /// The axis of the constant, and of the result, along which the constants are put together.
    axis: usize,
    result_axis: usize,
    extent: i64,
}

impl Candidate {
    fn new(graph: &Graph, id: NodeId, cx: &PassContext) -> Option<Self> {
        let node = &graph.nodes[id];
        let Op::Contract(op) = &node.op else { return None };
        let [lhs, rhs] = node.inputs[..] else { return None };
        constant(graph, rhs)?;
        let mut own = op.rhs.iter().enumerate().filter(|(_, l)| !op.lhs.contains(l));
        let (Some((axis, label)), None) = (own.next(), own.next()) else { return None };
        let result_axis = op.output.iter().position(|l| l == label)?;
        let extent = graph.ty(rhs).shape[axis].as_const()?;
        if extent > WIDE {
            cx.note(id, "not merged with its neighbours: wide enough on its own");
            return None;
        }
        Some(Self { id, lhs, rhs, op: op.clone(), axis, result_axis, extent })
    }

    fn joins(&self, graph: &Graph, other: &Self) -> bool {
        self.lhs == other.lhs && self.op == other.op && graph.ty(self.rhs).dtype == graph.ty(other.rhs).dtype
    }
}

fn merge(graph: &mut Graph, group: &[Candidate], forward: &mut Forward) {
    let first = &group[0];
    let origin = group
        .iter()
        .fold(graph.nodes[first.id].origin, |origin, c| graph.merge_origins(origin, graph.nodes[c.id].origin));
    let lhs = forward.resolve(first.lhs);
    // The constants may stand later in the order than the first contraction, so they are put here again.
    let mut parts = Vec::new();
    for candidate in group {
        if let Some((_, node)) = graph.producer(candidate.rhs) {
            let op = node.op.clone();
            let ty = graph.ty(candidate.rhs).clone();
            parts.push(graph.add(op, &[], ty, origin));
        }
    }
    let total: i64 = group.iter().map(|c| c.extent).sum();
    let widened = |ty: &TensorType, axis: usize| {
        let mut ty = ty.clone();
        ty.shape[axis] = Dim::constant(total);
        ty
    };
    let weights_type = widened(graph.ty(first.rhs), first.axis);
    let weights = graph.add(Op::Concat(ConcatOp { axis: first.axis }), &parts, weights_type, origin);
    let result = graph.nodes[first.id].outputs[0];
    let result_type = widened(graph.ty(result), first.result_axis);
    let product = graph.add(Op::Contract(first.op.clone()), &[lhs, weights], result_type, origin);
    let mut offset = 0;
    for candidate in group {
        let old = graph.nodes[candidate.id].outputs[0];
        let ty = graph.ty(old).clone();
        let index = (0..ty.shape.len())
            .map(|axis| if axis == candidate.result_axis { var(axis) + offset } else { var(axis) })
            .collect();
        let map = AccessMap { rank: ty.shape.len(), index, valid: Vec::new() };
        let slice = view(map, &ty.shape, Const::zero(ty.dtype));
        let new = graph.add(slice, &[product], ty, graph.nodes[candidate.id].origin);
        forward.set(old, new);
        offset += candidate.extent;
    }
}
