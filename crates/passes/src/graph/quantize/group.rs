//! Sums of bytes get whole groups of four to sum, and sums of bfloat16 numbers pairs (ARCHITECTURE.md D11): dot products
//! take so many neighbours at once.

use super::super::movement::{self, constant};
use super::super::rewrite::{Replacement, Site};
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{ValueId, VarId};
use infc_ir::graph::TensorType;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{ConstantOp, ContractOp, Op, ViewOp};
use infc_ir::scalar::Const;
use infc_ir::schedule::Intrinsic;
use infc_tensor::{AlignedBytes, Tensor};
use std::sync::Arc;

/// The dot products that a contraction can be summed in.
pub(in crate::graph) fn dot(site: &Site<'_>) -> Option<Intrinsic> {
    let ty = |value| site.graph.ty(value).dtype;
    let [a, b] = site.node().inputs[..] else { return None };
    Intrinsic::of(site.output_type(0).dtype, [ty(a), ty(b)])
}

/// Fewer products per result, or results per sum, are not worth a padded operand.
pub(super) const FEWEST: i64 = 8;

// Σₖ a[k]·w[k] over k < n = Σₖ a'[k]·w'[k] over k < ⌈n/g⌉·g for groups of g, where w' is w followed by zeros, and a' goes on as a does, or
// with what pads a, where that ends. Floats end there: what is behind them may be infinite or no number, and zero times that is
// none.
pub(super) fn whole_groups(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    let inputs = &site.node().inputs;
    let types = [0, 1].map(|n| site.graph.ty(inputs[n]).dtype);
    let group = dot(site)?.turns();
    let side = (0..2).find(|&side| constant(site.graph, inputs[side]).is_some())?;
    let labels = [&op.lhs, &op.rhs];
    let (label, extent) = label_to_extend(site, op, side, group)?;
    let longer = (extent + group - 1) / group * group;
    let mut new = Replacement::new();
    let mut operands = [inputs[0].into(), inputs[1].into()];

    let weights = constant(site.graph, inputs[side])?;
    let axis = labels[side].iter().position(|&l| l == label)?;
    let mut shape = site.graph.ty(inputs[side]).shape.clone();
    shape[axis] = Dim::constant(longer);
    let padded = followed_by_zeros(&weights.tensor, axis, usize::try_from(longer).ok()?)?;
    let padded = ConstantOp { name: weights.name.clone(), tensor: padded };
    operands[side] = new.add(Op::Constant(Arc::new(padded)), &[], TensorType::new(types[side], shape));

    let data = inputs[1 - side];
    let axis = labels[1 - side].iter().position(|&l| l == label)?;
    let ty = site.graph.ty(data);
    let (root, map, otherwise) = match site.producer(data) {
        Some(node) if let Op::View(view) = &node.op => (node.inputs[0], view.map.clone(), view.otherwise),
        _ => (data, AccessMap::identity(ty.shape.len()), Const::zero(ty.dtype)),
    };
    let var = VarId(u32::try_from(axis).ok()?);
    let ends = map.index.iter().zip(&site.graph.ty(root).shape).filter(|(index, _)| index.uses_var(var));
    let ends: Vec<Bound> = ends
        .map(|(index, extent)| Bound { expr: index.clone(), lo: IndexExpr::constant(0), hi: extent.clone() })
        .collect();
    let mut shape = ty.shape.clone();
    shape[axis] = Dim::constant(longer);
    let mut valid = map.valid;
    valid.extend(ends.into_iter().filter(|end| !valid.contains(end)).collect::<Vec<_>>());
    let map = movement::canonical(&AccessMap { valid, ..map }, &shape, &site.graph.symbols);
    let view = ViewOp { map, shape: shape.clone(), otherwise };
    operands[1 - side] = new.add(Op::View(view), &[root.into()], TensorType::new(ty.dtype, shape));

    let product = new.add(Op::Contract(op.clone()), &operands, site.output_type(0).clone());
    new.set_outputs(vec![product]);
    Some(new)
}

/// What is summed and how often, if no summed label has whole groups: the one that grows least; of equals the last one of
/// the data, where neighbours are likeliest. `side` has the weights.
fn label_to_extend(site: &Site<'_>, op: &ContractOp, side: usize, group: i64) -> Option<(u8, i64)> {
    let labels = [&op.lhs, &op.rhs];
    let data = site.node().inputs[1 - side];
    let shape = &site.graph.ty(data).shape;
    let is_float = site.graph.ty(data).dtype.is_float();
    let (mut points, mut best): (i64, Option<(f64, u8, i64)>) = (1, None);
    let summed = labels[1 - side].iter().zip(shape).enumerate().filter(|(_, (label, _))| !op.output.contains(label));
    for (axis, (label, extent)) in summed {
        let extent = extent.as_const().filter(|_| labels[side].contains(label))?;
        if extent % group == 0 {
            return None;
        }
        points = points.checked_mul(extent)?;
        if is_float && !ends_with(site, data, axis, extent) {
            continue;
        }
        let growth = ((extent + group - 1) / group * group) as f64 / extent as f64;
        if best.is_none_or(|(least, ..)| growth <= least) {
            best = Some((growth, *label, extent));
        }
    }
    let of_weights = site.graph.ty(site.node().inputs[side]).shape.iter().zip(labels[side]);
    let mut columns = of_weights.filter(|(_, label)| op.output.contains(label) && !labels[1 - side].contains(label));
    let columns = columns.try_fold(1i64, |n, (extent, _)| n.checked_mul(extent.as_const()?))?;
    let (_, label, extent) = best.filter(|_| points >= FEWEST && columns >= FEWEST)?;
    Some((label, extent))
}

/// Whether nothing lies behind the last element along an axis of a value: what it is a view of has just as many.
fn ends_with(site: &Site<'_>, value: ValueId, axis: usize, extent: i64) -> bool {
    let Some(node) = site.producer(value) else { return true };
    let Op::View(view) = &node.op else { return true };
    let var = IndexExpr::var(VarId(axis as u32));
    view.map.index.iter().zip(&site.graph.ty(node.inputs[0]).shape).any(|(e, of)| *e == var && of.is_const(extent))
}

/// Numbers that go on with zeros along an axis, up to the given extent.
fn followed_by_zeros(numbers: &Tensor, axis: usize, extent: usize) -> Option<Tensor> {
    let mut shape = numbers.shape().to_vec();
    let run: usize = shape[axis + 1..].iter().product::<usize>().checked_mul(numbers.dtype().size_bytes()?)?;
    let (short, long) = (shape[axis].checked_mul(run)?, extent.checked_mul(run)?);
    let rows: usize = shape[..axis].iter().product();
    shape[axis] = extent;
    let mut longer = vec![0; rows.checked_mul(long)?];
    if short > 0 && long > 0 {
        for (to, from) in longer.chunks_exact_mut(long).zip(numbers.bytes().chunks_exact(short)) {
            to[..short].copy_from_slice(from);
        }
    }
    Tensor::from_bytes(numbers.dtype(), shape, AlignedBytes::from_slice(&longer)).ok()
}
