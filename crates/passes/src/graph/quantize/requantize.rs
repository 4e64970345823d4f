//! The quotient in a requantisation becomes a product.

use super::super::map::{as_map, compact};
use super::super::rewrite::{Replacement, Site};
use super::super::scalar::{reaches, replace, simplify};
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;
use std::collections::BTreeMap;

/// The quotient that is rounded, shifted and saturated here.
fn quotient(body: &Body, saturated: ScalarId) -> Option<ScalarId> {
    let ScalarOp::CastSaturating(_, at) = body.ops[saturated] else { return None };
    match body.ops[at] {
        ScalarOp::Binary(BinaryOp::Add, rounded, _) => match body.ops[rounded] {
            ScalarOp::Unary(UnaryOp::Round, quotient) => Some(quotient),
            _ => None,
        },
        _ => Some(at),
    }
}

/// `(x, 1/s)` for a quotient `x / s` of numbers that come from a sum.
fn product(body: &Body, quotient: ScalarId, of_sum: &[bool]) -> Option<(ScalarId, Const)> {
    let ScalarOp::Binary(BinaryOp::Div, x, by) = body.ops[quotient] else { return None };
    let ScalarOp::Const(scale) = body.ops[by] else { return None };
    let inverse = Const::from_f64(scale.dtype, 1.0 / scale.to_f64());
    let fits = scale.dtype == DType::F32 && inverse.to_f64().is_normal();
    (fits && of_sum[x.index()]).then_some((x, inverse))
}

// saturate(round(f(i32) / s) + z) = saturate(round(f(i32)·(1/s)) + z): ARCHITECTURE.md D11 defines requantisation as a
// product. What is quantised from floats alone keeps its quotient, as ONNX defines it. Where maps were fused first, one has
// several of them (a residual addition quantises both its operands and its result).
pub(super) fn product_for_quotient(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    let (body, results) = simplify(&map.body, &map.results);
    let of_sum = reaches(&body, |op| matches!(op, ScalarOp::Param(_, DType::I32)));
    // Who else reads a quotient wants that.
    let mut readers = vec![0; body.ops.len()];
    for op in body.ops.iter() {
        drop(op.map_operands(&mut |operand| {
            readers[operand.index()] += 1;
            operand
        }));
    }
    results.iter().for_each(|result| readers[result.index()] += 1);
    let found = body.ops.ids().filter_map(|saturated| quotient(&body, saturated));
    let quotients = found.filter(|at| readers[at.index()] == 1);
    let products: BTreeMap<ScalarId, (ScalarId, Const)> =
        quotients.filter_map(|at| Some((at, product(&body, at, &of_sum)?))).collect();
    if products.is_empty() {
        return None;
    }
    // Renumbered as the body is copied: operands come before what reads them.
    let mut new_ids: Vec<ScalarId> = Vec::with_capacity(body.ops.len());
    let (body, results) = replace(&body, &results, &mut |new, id| {
        let op = body.ops[id].map_operands(&mut |o| new_ids[o.index()]);
        let made = match products.get(&id) {
            Some(&(x, inverse)) => {
                let inverse = new.push(ScalarOp::Const(inverse));
                new.binary(BinaryOp::Mul, new_ids[x.index()], inverse)
            }
            None => new.push(op),
        };
        new_ids.push(made);
        Some(made)
    });
    let (op, inputs) = compact(&body, &results, &site.node().inputs)?;
    Some(Replacement::node(Op::Map(op), &inputs, site.output_types()))
}
