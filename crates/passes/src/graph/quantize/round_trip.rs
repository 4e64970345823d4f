//! What is quantised as it was before it was dequantised is what it was.

use super::super::map::as_map;
use super::super::rewrite::{Replacement, Site};
use super::super::scalar::simplify;
use super::operand::{Dequantized, Parameter, Seen, range};
use infc_ir::entity::{ScalarId, ValueId};
use infc_ir::graph::Graph;
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

/// `saturate(round(x / scale) + zero)` of a map with one operand, both of them numbers.
struct Quantizes {
    x: ValueId,
    scale: Const,
    zero: i64,
    dtype: DType,
}

impl Quantizes {
    fn of(site: &Site<'_>) -> Option<Self> {
        let map = as_map(site.node()).filter(|m| m.results.len() == 1)?;
        let (body, results) = simplify(&map.body, &map.results);
        let ScalarOp::CastSaturating(dtype, at) = body.ops[results[0]] else { return None };
        let number = |id: ScalarId| match body.ops[id] {
            ScalarOp::Const(c) => Some(c),
            _ => None,
        };
        let (quotient, zero) = match body.ops[at] {
            ScalarOp::Binary(BinaryOp::Add, rounded, zero) => match body.ops[rounded] {
                ScalarOp::Unary(UnaryOp::Round, quotient) => (quotient, number(zero)?.to_f64() as i64),
                _ => return None,
            },
            _ => (at, 0),
        };
        let (x, scale) = scaled(&body, quotient)?;
        let ScalarOp::Param(n, DType::F32) = body.ops[x] else { return None };
        Some(Self { x: site.node().inputs[usize::from(n)], scale, zero, dtype })
    }

    /// True if the map undoes the dequantisation.
    fn undoes(&self, graph: &Graph, map: &Dequantized) -> bool {
        let zero = match map.zero {
            None => 0,
            Some(Parameter::Number(c)) => c.to_f64() as i64,
            Some(Parameter::Value(_)) => return false,
        };
        let scale = match map.scale {
            None => 1.0,
            Some(Parameter::Number(c)) => c.to_f64(),
            Some(Parameter::Value(_)) => return false,
        };
        let (low, high) = range(self.dtype);
        // Up to 2²² steps, rounding the product and the quotient cannot reach the next step.
        let exact = high - low < 1 << 22 && self.scale.to_f64().is_normal();
        graph.ty(map.q).dtype == self.dtype && zero == self.zero && scale == self.scale.to_f64() && exact
    }
}

/// `(x, s)` for `x / s`, also where that has become a product because `1/s` is exact.
fn scaled(body: &Body, quotient: ScalarId) -> Option<(ScalarId, Const)> {
    let ScalarOp::Binary(op, x, by) = body.ops[quotient] else { return None };
    let ScalarOp::Const(c) = body.ops[by] else { return None };
    match op {
        BinaryOp::Div => Some((x, c)),
        BinaryOp::Mul => Some((x, Const::from_f64(c.dtype, 1.0 / c.to_f64()))),
        _ => None,
    }
}

// quantize(view((q − z)·s)) = view(q) for the same z and s; padding of 0 is z
pub(super) fn quantized_again(site: &Site<'_>) -> Option<Replacement> {
    let quantizes = Quantizes::of(site)?;
    let seen = Seen::of(site.graph, quantizes.x)?;
    if !quantizes.undoes(site.graph, &seen.map) {
        return None;
    }
    let dtype = quantizes.dtype;
    let mut new = Replacement::new();
    let padding = Const::from_i64(dtype, quantizes.zero);
    let result = seen.look_at(&mut new, seen.map.q.into(), dtype, padding);
    new.set_outputs(vec![result]);
    Some(new)
}
