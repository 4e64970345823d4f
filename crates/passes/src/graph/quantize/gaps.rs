//! Bytes that lie apart are summed with what lies between, times zero: dot products take neighbours.
//!
//! Behind a shuffle of channels (ShuffleNet) a convolution reads every second one. Summed alone they are picked byte by byte
//! and multiplied one by one; with zeros between its weights, a dot product takes four neighbours at once, two of them for
//! nothing.

use super::super::movement::{constant, var};
use super::super::rewrite::{Operand, Replacement, Site};
use super::group::{FEWEST, dot};
use infc_ir::access::AccessMap;
use infc_ir::entity::VarId;
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{ConstantOp, Op, ViewOp};
use infc_tensor::{AlignedBytes, Tensor};
use std::sync::Arc;

/// How the data of a sum lies: elements `apart·k + offset` of an axis, `points` of them.
struct Gaps {
    apart: i64,
    offset: i64,
    points: i64,
}

// Σₖ x[a·k + o]·w[k] over k < n = Σⱼ x[j]·w'[j] over j < a·n, where w'[a·k + o] = w[k] and all else of w' is zero
pub(super) fn filled(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    let inputs = &site.node().inputs;
    // Zero times infinity is no number.
    let is_float = inputs.iter().any(|&input| site.graph.ty(input).dtype.is_float());
    let group = dot(site).filter(|_| !is_float)?.turns();
    let side = (0..2).find(|&side| constant(site.graph, inputs[side]).is_some())?;
    let labels = [&op.lhs, &op.rhs];
    let data = inputs[1 - side];
    let producer = site.producer(data)?;
    let Op::View(window) = &producer.op else { return None };
    let source = &site.graph.ty(producer.inputs[0]).shape;
    let columns = labels[side].iter().zip(&site.graph.ty(inputs[side]).shape);
    let columns = columns.filter(|(label, _)| op.output.contains(label) && !labels[1 - side].contains(label));
    let columns = columns.map(|(_, extent)| extent.as_const()).try_fold(1i64, |n, extent| n.checked_mul(extent?))?;
    if columns < FEWEST {
        return None;
    }
    let summed = labels[1 - side].iter().enumerate().filter(|(_, label)| !op.output.contains(label));
    let (axis, label, gaps) = summed
        .filter(|(_, label)| labels[side].contains(label))
        .find_map(|(axis, &label)| Some((axis, label, gaps(window, source, axis).filter(|g| g.apart < group)?)))?;
    let span = gaps.apart * gaps.points;

    let mut new = Replacement::new();
    let mut operands: [Operand; 2] = [inputs[0].into(), inputs[1].into()];
    let shift = |e: &IndexExpr| if e.uses_var(VarId(axis as u32)) { var(axis) } else { e.clone() };
    let mut shape = window.shape.clone();
    shape[axis] = Dim::constant(span);
    let map = AccessMap { index: window.map.index.iter().map(shift).collect(), ..window.map.clone() };
    let ty = TensorType::new(site.graph.ty(data).dtype, shape.clone());
    let view = ViewOp { map, shape, otherwise: window.otherwise };
    operands[1 - side] = new.add(Op::View(view), &[producer.inputs[0].into()], ty);

    let weights = constant(site.graph, inputs[side])?;
    let axis = labels[side].iter().position(|&l| l == label)?;
    let tensor = with_zeros_between(&weights.tensor, axis, &gaps)?;
    let mut ty = site.graph.ty(inputs[side]).clone();
    ty.shape[axis] = Dim::constant(span);
    operands[side] = new.add(Op::Constant(Arc::new(ConstantOp { name: weights.name.clone(), tensor })), &[], ty);

    let sum = new.add(Op::Contract(op.clone()), &operands, site.output_type(0).clone());
    new.set_outputs(vec![sum]);
    Some(new.absorbing(producer))
}

/// How far apart a view reads an axis of its operand along one of its own, if it is not neighbours, and all that lies
/// between is there.
fn gaps(window: &ViewOp, source: &[Dim], axis: usize) -> Option<Gaps> {
    let at = VarId(u32::try_from(axis).ok()?);
    let points = window.shape[axis].as_const()?;
    let bounds = window.map.valid.iter().flat_map(|bound| [&bound.expr, &bound.lo, &bound.hi]);
    if bounds.into_iter().any(|e| e.uses_var(at)) {
        return None;
    }
    let mut users = window.map.index.iter().zip(source).filter(|(index, _)| index.uses_var(at));
    let (Some((index, extent)), None) = (users.next(), users.next()) else { return None };
    let (apart, offset) = index.linear_in(at)?;
    let (apart, offset) = (apart.as_const()?, offset.as_const()?);
    let is_within = apart.checked_mul(points)? <= extent.as_const()?;
    (apart > 1 && (0..apart).contains(&offset) && is_within).then_some(Gaps { apart, offset, points })
}

/// Weights along an axis at the places where their factors lie, and zeros at all others.
fn with_zeros_between(weights: &Tensor, axis: usize, gaps: &Gaps) -> Option<Tensor> {
    let mut shape = weights.shape().to_vec();
    let (apart, offset) = (usize::try_from(gaps.apart).ok()?, usize::try_from(gaps.offset).ok()?);
    let run: usize = shape[axis + 1..].iter().product::<usize>().checked_mul(weights.dtype().size_bytes()?)?;
    shape[axis] = shape[axis].checked_mul(apart)?;
    let mut bytes = AlignedBytes::zeroed(weights.bytes().len().checked_mul(apart)?);
    if run > 0 {
        for (n, element) in weights.bytes().chunks_exact(run).enumerate() {
            let at = (n * apart + offset) * run;
            bytes[at..at + run].copy_from_slice(element);
        }
    }
    Tensor::from_bytes(weights.dtype(), shape, bytes).ok()
}
