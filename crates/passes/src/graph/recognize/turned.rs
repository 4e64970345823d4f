//! Softmax over rows, whatever axis it is written along.
//!
//! Attention that was an `Einsum` comes as matrix products of heads put together, with the softmax between them over heads
//! taken apart and turned round: `[B, H, keys, queries]`, while the second product reads `[B·H, queries, keys]`. What is only
//! moved may be moved before: then rows are folded along neighbours, and the products see the softmax that they belong to.

use crate::graph::composites::{reduced_axes, softmax};
use crate::graph::map::as_map;
use crate::graph::movement::view;
use crate::graph::rewrite::{Operand, Replacement, Site};
use infc_ir::entity::{EntityId, ValueId, VarId};
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{CompositeKind, CompositeOp, Op, ViewOp};
use infc_ir::scalar::{BinaryOp, Const, ScalarOp, UnaryOp};

// view(softmax_k(f(x…))) = softmax_last(f(view(x)…)) where the view's last axis is k; rows stay whole, and there are as many
pub(super) fn turned(site: &Site<'_>) -> Option<Replacement> {
    let Op::View(moved) = &site.node().op else { return None };
    let weights = site.node().inputs[0];
    let softmax_node = site.producer(weights)?;
    let Op::Composite(composite) = &softmax_node.op else { return None };
    let &[axis] = reduced_axes(composite).filter(|_| is_plain(composite))? else { return None };
    let ty = site.graph.ty(weights);
    if !site.is_only_use(weights) || !moves_row(moved, axis, &ty.shape) {
        return None;
    }
    let mut new = Replacement::new();
    let shape = &moved.shape;
    let of = |value: ValueId, new: &mut Replacement| {
        let ty = TensorType::new(site.graph.ty(value).dtype, shape.clone());
        new.add(view(moved.map.clone(), shape, Const::zero(ty.dtype)), &[value.into()], ty)
    };
    let scores = softmax_node.inputs[0];
    let all = TensorType::new(ty.dtype, shape.clone());
    let map = site.producer(scores).filter(|_| site.is_only_use(scores));
    let map = map.and_then(|node| Some((node, as_map(node).filter(|map| map.results.len() == 1)?)));
    let is_anywhere = |op: &ScalarOp| !matches!(op, ScalarOp::Index(_) | ScalarOp::InBounds(_) | ScalarOp::Load(_));
    let argument = match map.filter(|(_, map)| map.body.ops.iter().all(is_anywhere)) {
        Some((node, map)) => {
            let inputs: Vec<Operand> = node.inputs.iter().map(|&input| of(input, &mut new)).collect();
            new.add(Op::Map(map.clone()), &inputs, all.clone())
        }
        None => of(scores, &mut new),
    };
    let last = shape.len() - 1;
    let result = new.add(Op::Composite(softmax(&site.graph.symbols, &all, &[last])), &[argument], all);
    new.set_outputs(vec![result]);
    Some(new.absorbing(softmax_node))
}

/// Whether a view's last axis is this axis of what it reads, which has as many elements, and whether that is worth it: the
/// axis was none of neighbours, or axes are put together that products had apart.
fn moves_row(moved: &ViewOp, axis: usize, shape: &[Dim]) -> bool {
    let Some(last) = moved.shape.len().checked_sub(1) else { return false };
    let var = VarId::from_index(last);
    let is_row = |(n, e): (usize, &infc_ir::index::IndexExpr)| {
        if n == axis { e.as_var() == Some(var) } else { !e.uses_var(var) }
    };
    let count = |shape: &[Dim]| shape.iter().cloned().product::<Dim>();
    moved.map.valid.is_empty()
        && moved.map.index.iter().enumerate().all(is_row)
        && moved.shape[last] == shape[axis]
        && count(&moved.shape) == count(shape)
        && (axis + 1 < shape.len() || moved.shape.len() < shape.len())
}

/// Whether a softmax is computed as [`softmax`] does: rows without a number in them are nothing special, nothing is rounded.
fn is_plain(composite: &CompositeOp) -> bool {
    operations(composite).is_some_and(|ops| is_softmax(&ops))
}

/// Whether these are what [`softmax`] computes.
pub(super) fn is_softmax(ops: &[&ScalarOp]) -> bool {
    matches!(
        ops,
        [ScalarOp::Binary(BinaryOp::Sub, ..), ScalarOp::Unary(UnaryOp::Exp, _), ScalarOp::Binary(BinaryOp::Div, ..)]
    )
}

/// What a softmax of one value computes with elements, in order; `None` if it is something else.
pub(super) fn operations(composite: &CompositeOp) -> Option<Vec<&ScalarOp>> {
    if composite.kind != CompositeKind::Softmax || composite.body.inputs.len() != 1 {
        return None;
    }
    let mut found = Vec::new();
    for &id in &composite.body.order {
        let body = match &composite.body.nodes[id].op {
            Op::Map(map) => &map.body,
            Op::Reduce(reduce) => &reduce.body,
            Op::View(_) => continue,
            _ => return None,
        };
        found.extend(body.ops.iter().filter(|op| !matches!(op, ScalarOp::Param(..))));
    }
    Some(found)
}
