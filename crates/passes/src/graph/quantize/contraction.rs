//! Contractions of dequantised operands become integer contractions.

use super::super::rewrite::{Operand, Replacement, Site};
use super::operand::{Parameter, Seen};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, Ranges};
use infc_ir::op::{ContractOp, MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp};
use infc_tensor::DType;

// contract((a − z)·s, (b − y)·t) = f32(contract(a − z, b − y))·(s·t), if neither scale varies along what is summed and
// the integer sums cannot overflow. The sum is exact, where that of floats was rounded.
pub(super) fn integers(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    let out = site.output_type(0);
    if out.dtype != DType::F32 {
        return None;
    }
    let inputs = &site.node().inputs;
    let sides = [Seen::of(site.graph, inputs[0])?, Seen::of(site.graph, inputs[1])?];
    if sides.iter().any(|s| s.map.dtype != DType::F32) {
        return None;
    }
    let [a, b] = [sides[0].map.greatest(site.graph), sides[1].map.greatest(site.graph)];
    let fits = summed_points(site.graph, op, [inputs[0], inputs[1]])
        .and_then(|points| points.checked_mul(a)?.checked_mul(b))
        .is_some_and(|sum| sum <= i64::from(i32::MAX));
    if !fits {
        site.cx.note(site.id, "stays in floats: the sum of integers might not fit into 32 bits");
        return None;
    }
    let mut new = Replacement::new();
    let mut operands = Vec::new();
    let mut scales = Vec::new();
    let mut body = Body::default();
    let sum = body.param(0, DType::I32);
    let mut factor = None;
    for (side, labels) in sides.iter().zip([&op.lhs, &op.rhs]) {
        operands.push(steps(site.graph, &mut new, side));
        let scale = match side.map.scale {
            None => continue,
            Some(Parameter::Number(c)) => body.push(ScalarOp::Const(c)),
            Some(Parameter::Value(value)) => {
                let Some(spread) = side.spread(site.graph, value, (labels, &op.output), &out.shape, &mut new) else {
                    site.cx.note(site.id, "stays in floats: a scale varies along what is summed");
                    return None;
                };
                scales.push(spread);
                body.param(scales.len() as u8, DType::F32)
            }
        };
        factor = Some(match factor {
            None => scale,
            Some(other) => body.binary(BinaryOp::Mul, other, scale),
        });
    }
    let ty = TensorType::new(DType::I32, out.shape.clone());
    let product = new.add(Op::Contract(op.clone()), &operands, ty);
    let real = body.cast(DType::F32, sum);
    let result = factor.map_or(real, |factor| body.binary(BinaryOp::Mul, real, factor));
    let inputs: Vec<Operand> = [product].into_iter().chain(scales).collect();
    let scaled = new.add(Op::Map(MapOp { body, results: vec![result] }), &inputs, out.clone());
    new.set_outputs(vec![scaled]);
    Some(new)
}

/// `q − zero` as the contraction sees it: in i32, or in the type of `q` if there is no zero point.
fn steps(graph: &Graph, new: &mut Replacement, side: &Seen<'_>) -> Operand {
    let ty = graph.ty(side.map.q);
    let Some(zero) = side.map.zero else {
        return side.look_at(new, side.map.q.into(), ty.dtype, Const::zero(ty.dtype));
    };
    let mut body = Body::default();
    let q = body.param(0, ty.dtype);
    let q = body.cast(DType::I32, q);
    let mut inputs: Vec<Operand> = vec![side.map.q.into()];
    let zero = match zero {
        Parameter::Number(c) => body.push(ScalarOp::Const(c)),
        Parameter::Value(value) => {
            inputs.push(value.into());
            body.param(1, graph.ty(value).dtype)
        }
    };
    let zero = body.cast(DType::I32, zero);
    let result = body.binary(BinaryOp::Sub, q, zero);
    let wide = TensorType::new(DType::I32, ty.shape.clone());
    let centered = new.add(Op::Map(MapOp { body, results: vec![result] }), &inputs, wide);
    side.look_at(new, centered, DType::I32, Const::zero(DType::I32))
}

/// How many products are summed at most.
fn summed_points(graph: &Graph, op: &ContractOp, inputs: [infc_ir::entity::ValueId; 2]) -> Option<i64> {
    let ranges = Ranges::of_symbols(&graph.symbols);
    let mut counted: Vec<u8> = op.output.clone();
    let mut points = 1i64;
    for (labels, input) in [&op.lhs, &op.rhs].into_iter().zip(inputs) {
        for (&label, extent) in labels.iter().zip(&graph.ty(input).shape) {
            if !counted.contains(&label) {
                counted.push(label);
                let extent: &Dim = extent;
                points = points.checked_mul(ranges.interval(extent).max?.max(1))?;
            }
        }
    }
    Some(points)
}
