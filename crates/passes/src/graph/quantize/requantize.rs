//! The quotient in a requantisation becomes a product.

use super::super::map::{as_map, compact};
use super::super::rewrite::{Replacement, Site};
use super::super::scalar::{reaches, replace, simplify};
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// The quotient that is rounded, shifted and saturated.
fn quotient(body: &Body, root: ScalarId) -> Option<ScalarId> {
    let ScalarOp::CastSaturating(_, at) = body.ops[root] else { return None };
    match body.ops[at] {
        ScalarOp::Binary(BinaryOp::Add, rounded, _) => match body.ops[rounded] {
            ScalarOp::Unary(UnaryOp::Round, quotient) => Some(quotient),
            _ => None,
        },
        _ => Some(at),
    }
}

// saturate(round(f(i32) / s) + z) = saturate(round(f(i32)·(1/s)) + z): ARCHITECTURE.md D11 defines requantisation as a
// product. What is quantised from floats alone keeps its quotient, as ONNX defines it.
pub(super) fn product_for_quotient(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node()).filter(|m| m.results.len() == 1)?;
    let (body, results) = simplify(&map.body, &map.results);
    let at = quotient(&body, results[0])?;
    let ScalarOp::Binary(BinaryOp::Div, x, by) = body.ops[at] else { return None };
    let ScalarOp::Const(scale) = body.ops[by] else { return None };
    let inverse = Const::from_f64(scale.dtype, 1.0 / scale.to_f64());
    let of_sum = reaches(&body, |op| matches!(op, ScalarOp::Param(_, DType::I32)));
    if scale.dtype != DType::F32 || !inverse.to_f64().is_normal() || !of_sum[x.index()] {
        return None;
    }
    // Renumbered as the body is copied: operands come before what reads them.
    let mut new_ids: Vec<ScalarId> = Vec::with_capacity(body.ops.len());
    let (body, results) = replace(&body, &results, &mut |new, id| {
        let op = body.ops[id].map_operands(&mut |o| new_ids[o.index()]);
        let made = if id == at {
            let inverse = new.push(ScalarOp::Const(inverse));
            new.binary(BinaryOp::Mul, new_ids[x.index()], inverse)
        } else {
            new.push(op)
        };
        new_ids.push(made);
        Some(made)
    });
    let (op, inputs) = compact(&body, &results, &site.node().inputs)?;
    Some(Replacement::node(Op::Map(op), &inputs, site.output_types()))
}
