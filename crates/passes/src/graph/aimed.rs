//! Reductions of which every point is meant for one place of the result, as scatters ask every update about every place.
//!
//! `out[…, k, …] = fold over r of (x[…, r] = k ? a[…, r] : neutral)`, where neither `x` nor `a` knows `k`: point by point that
//! is as much work as there are places and updates, multiplied. Read from the other side every point of `r` says which `k`
//! it is folded into, and everywhere else it would be the neutral element, which changes nothing.

use super::fold::Source;
use super::{PassError, evaluate};
use infc_ir::entity::{EntityId, NodeId, ScalarId, VarId};
use infc_ir::graph::Graph;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{MapOp, ReduceOp, ViewOp};
use infc_ir::scalar::{Body, CompareOp, Const, Scalar, ScalarOp, eval_binary};
use infc_tensor::{AlignedBytes, Tensor};

/// The most points that are folded.
const MAX_POINTS: usize = 1 << 28;

/// What a reduction of constants folds to, if its points are aimed at places; `None` if they are not.
///
/// # Errors
/// As [`evaluate::view`].
pub(super) fn reduce(
    graph: &Graph,
    id: NodeId,
    op: &ReduceOp,
    sources: &[Source<'_>],
) -> Result<Option<Vec<Tensor>>, PassError> {
    let shape = &graph.ty(graph.nodes[id].inputs[0]).shape;
    let (Some(aim), Some(combine)) = (Aim::of(op, shape.len()), op.reducer.as_binary()) else { return Ok(None) };
    let Some(extents) = shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut points = extents.clone();
    points[aim.axis] = 1;
    if points.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none_or(|n| n > MAX_POINTS) {
        return Ok(None);
    }
    let mut inputs = Vec::with_capacity(sources.len());
    for (constant, view) in sources {
        let Some((view_id, view)) = view else { return Ok(None) };
        let Some(view) = along_one(view, aim.axis) else { return Ok(None) };
        let Some(tensor) = evaluate::view(*view_id, &view, &constant.tensor)? else { return Ok(None) };
        inputs.push(tensor);
    }
    let map = MapOp { body: op.body.clone(), results: vec![aim.place, aim.element] };
    let computed = evaluate::map(id, &map, &points, &inputs.iter().collect::<Vec<_>>())?;
    let Some([places, elements]) = computed.and_then(|found| <[Tensor; 2]>::try_from(found).ok()) else {
        return Ok(None);
    };
    let kept: Vec<usize> = (0..extents.len()).filter(|axis| !op.axes.contains(axis)).collect();
    let out_shape: Vec<usize> = kept.iter().map(|&axis| extents[axis]).collect();
    let dtype = elements.dtype();
    let neutral = Scalar::from_const(op.reducer.init[0]);
    let mut folded = vec![neutral; out_shape.iter().product()];
    let mut number = 0;
    // In row-major order, so that what is folded into one place is so in the order of its points.
    evaluate::for_each_point(&points, &mut |point| {
        let at = |tensor: &Tensor| evaluate::element(tensor, number);
        if let (Some(place), Some(element)) = (at(&places), at(&elements))
            && let Some(place) = usize::try_from(place.to_i64()).ok().filter(|&place| place < extents[aim.axis])
        {
            let coordinate = |axis: usize| if axis == aim.axis { place } else { point[axis] as usize };
            let flat = kept.iter().fold(0, |flat, &axis| flat * extents[axis] + coordinate(axis));
            folded[flat] = eval_binary(combine, dtype, folded[flat], element);
        }
        number += 1;
    });
    let Some(size) = dtype.size_bytes() else { return Ok(None) };
    let mut bytes = AlignedBytes::zeroed(folded.len() * size);
    for (to, value) in bytes.chunks_exact_mut(size).zip(&folded) {
        to.copy_from_slice(&value.to_const(dtype).bits.to_le_bytes()[..size]);
    }
    Ok(Tensor::from_bytes(dtype, out_shape, bytes).ok().map(|tensor| vec![tensor]))
}

/// Where the points of a reduction go, and what is folded there.
struct Aim {
    /// The axis of the result along which a point has one place.
    axis: usize,
    place: ScalarId,
    element: ScalarId,
}

impl Aim {
    fn of(op: &ReduceOp, rank: usize) -> Option<Self> {
        let [result] = op.elements[..] else { return None };
        let ScalarOp::Select(condition, then, otherwise) = op.body.ops[result] else { return None };
        let ScalarOp::Compare(compare, left, right) = op.body.ops[condition] else { return None };
        let (element, nothing) = match compare {
            CompareOp::Eq => (then, otherwise),
            CompareOp::Ne => (otherwise, then),
            _ => return None,
        };
        let is_neutral = |c: &Const| op.reducer.init[..] == [*c];
        if !matches!(&op.body.ops[nothing], ScalarOp::Const(c) if is_neutral(c)) {
            return None;
        }
        [(left, right), (right, left)].into_iter().find_map(|(place, coordinate)| {
            let ScalarOp::Index(coordinate) = &op.body.ops[coordinate] else { return None };
            let is_coordinate = |axis: &usize| *coordinate == IndexExpr::var(VarId(*axis as u32));
            let axis = (0..rank).find(is_coordinate)?;
            let is_integer = !op.body.dtype(place).is_float();
            let free = !op.axes.contains(&axis) && is_integer && !knows(&op.body, &[place, element], axis);
            free.then_some(Self { axis, place, element })
        })
    }
}

/// Whether values of a body follow from a coordinate.
fn knows(body: &Body, roots: &[ScalarId], axis: usize) -> bool {
    let var = VarId(axis as u32);
    let mut needed = vec![false; body.ops.len()];
    roots.iter().for_each(|root| needed[root.index()] = true);
    body.ops.iter_enumerated().rev().any(|(id, op)| {
        if !needed[id.index()] {
            return false;
        }
        op.for_each_operand(&mut |operand| needed[operand.index()] = true);
        match op {
            ScalarOp::Index(e) => e.uses_var(var),
            ScalarOp::InBounds(bounds) => {
                bounds.iter().any(|b| [&b.expr, &b.lo, &b.hi].into_iter().any(|e| e.uses_var(var)))
            }
            ScalarOp::Load(_) => true,
            _ => false,
        }
    })
}

/// A view without one of its axes, which is left with an extent of 1; `None` if it is not the same all along it.
fn along_one(view: &ViewOp, axis: usize) -> Option<ViewOp> {
    let var = VarId(axis as u32);
    let bounds = view.map.valid.iter().flat_map(|b| [&b.expr, &b.lo, &b.hi]);
    if view.map.index.iter().chain(bounds).any(|e| e.uses_var(var)) {
        return None;
    }
    let mut view = view.clone();
    view.shape[axis] = Dim::constant(1);
    Some(view)
}
