//! The greatest of dequantised numbers is the dequantised greatest.

use super::super::movement;
use super::super::rewrite::{Replacement, Site};
use super::operand::{Dequantized, Parameter, Seen, range};
use infc_ir::access::{AccessMap, Bound};
use infc_ir::graph::TensorType;
use infc_ir::index::{IndexExpr, Proof};
use infc_ir::kernel::Reducer;
use infc_ir::op::{MapOp, Op, ReduceOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp};
use infc_tensor::DType;

/// Points of a window that are tried.
const MOST_TRIED: i64 = 256;

// max((q − z)·s) = (max(q) − z)·s for numbers z and s > 0, and min likewise, also of windows that reach into padding
// which never counts, if each has an element that does.
pub(super) fn of_steps(site: &Site<'_>) -> Option<Replacement> {
    let Op::Reduce(op) = &site.node().op else { return None };
    let kind = op.reducer.as_binary().filter(|kind| matches!(kind, BinaryOp::Max | BinaryOp::Min))?;
    let ([element], [input]) = (&op.elements[..], &site.node().inputs[..]) else { return None };
    let ScalarOp::Param(0, DType::F32) = op.body.ops[*element] else { return None };
    let never = if kind == BinaryOp::Max { f64::NEG_INFINITY } else { f64::INFINITY };
    if op.reducer.init.iter().any(|init| init.to_f64() != never) {
        return None;
    }
    let seen = match site.producer(*input) {
        Some(node) if let Op::View(view) = &node.op => {
            let counts = view.map.valid.is_empty() || view.otherwise.to_f64() == never;
            let map = Dequantized::of(site.graph, node.inputs[0]).filter(|_| counts)?;
            Seen { view: Some(view), map }
        }
        _ => Seen { view: None, map: Dequantized::of(site.graph, *input)? },
    };
    let Some(Parameter::Number(scale)) = seen.map.scale else { return None };
    let zero = match seen.map.zero {
        None => None,
        Some(Parameter::Number(zero)) => Some(zero),
        Some(Parameter::Value(_)) => return None,
    };
    let q = site.graph.ty(seen.map.q);
    if scale.to_f64() <= 0.0 || q.dtype.size_bits() < 8 {
        return None;
    }
    if !seen.view.is_none_or(|view| every_window_counts(site, view, &op.axes)) {
        site.cx.note(site.id, "stays in floats: a window might lie in the padding");
        return None;
    }
    let (low, high) = range(q.dtype);
    let least = Const::from_i64(q.dtype, if kind == BinaryOp::Max { low } else { high });
    let mut new = Replacement::new();
    let steps = seen.look_at(&mut new, seen.map.q.into(), q.dtype, least);
    let out = site.output_type(0);
    let mut body = Body::default();
    let element = body.param(0, q.dtype);
    let fold = ReduceOp { axes: op.axes.clone(), body, elements: vec![element], reducer: Reducer::binary(kind, least) };
    let greatest = new.add(Op::Reduce(fold), &[steps], TensorType::new(q.dtype, out.shape.clone()));
    let mut body = Body::default();
    let q = body.param(0, q.dtype);
    let mut centered = body.cast(DType::I32, q);
    if let Some(zero) = zero {
        let zero = body.push(ScalarOp::Const(zero));
        let zero = body.cast(DType::I32, zero);
        centered = body.binary(BinaryOp::Sub, centered, zero);
    }
    let real = body.cast(DType::F32, centered);
    let scale = body.push(ScalarOp::Const(scale));
    let result = body.binary(BinaryOp::Mul, real, scale);
    let real = new.add(Op::Map(MapOp { body, results: vec![result] }), &[greatest], out.clone());
    new.set_outputs(vec![real]);
    Some(new)
}

/// Whether some point of the folded axes is inside whatever the other coordinates are.
fn every_window_counts(site: &Site<'_>, view: &ViewOp, folded: &[usize]) -> bool {
    let AccessMap { valid, .. } = &view.map;
    if valid.is_empty() {
        return true;
    }
    let extents: Option<Vec<i64>> = folded.iter().map(|&axis| view.shape[axis].as_const()).collect();
    let Some(extents) = extents else { return false };
    let points = extents.iter().try_fold(1i64, |all, &n| all.checked_mul(n));
    let Some(points) = points.filter(|&n| (1..=MOST_TRIED).contains(&n)) else { return false };
    let ranges = movement::ranges(&site.graph.symbols, &view.shape);
    (0..points).any(|point| {
        let mut rest = point;
        let mut at: Vec<IndexExpr> = (0..view.shape.len()).map(movement::var).collect();
        for (&axis, &extent) in folded.iter().zip(&extents) {
            at[axis] = IndexExpr::constant(rest % extent);
            rest /= extent;
        }
        let holds = |bound: &Bound| bound.map(|e| e.substitute_vars(&at)).proof(&ranges) == Proof::Yes;
        valid.iter().all(holds)
    })
}
