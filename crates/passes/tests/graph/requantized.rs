//! Quotients of requantisations.

use super::build::Net;
use infc_ir::entity::{ScalarId, ValueId};
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, UnaryOp};
use infc_passes::graph::PassContext;
use infc_tensor::DType;

/// `saturate(round(x / step) + 3)` as a byte.
fn quantize(body: &mut Body, x: ScalarId, step: f64) -> ScalarId {
    let (step, zero) = (body.constant(DType::F32, step), body.constant(DType::F32, 3.0));
    let scaled = body.binary(BinaryOp::Div, x, step);
    let rounded = body.unary(UnaryOp::Round, scaled);
    let shifted = body.binary(BinaryOp::Add, rounded, zero);
    body.push(ScalarOp::CastSaturating(DType::U8, shifted))
}

/// A map of values of these types.
fn map(
    net: &mut Net,
    inputs: &[(ValueId, DType)],
    result: DType,
    f: impl Fn(&mut Body, &[ScalarId]) -> ScalarId,
) -> ValueId {
    let mut body = Body::default();
    let params: Vec<ScalarId> = inputs.iter().enumerate().map(|(n, &(_, dtype))| body.param(n as u8, dtype)).collect();
    let made = f(&mut body, &params);
    let values: Vec<ValueId> = inputs.iter().map(|&(value, _)| value).collect();
    let ty = TensorType::new(result, net.shape(values[0]).into_iter().map(Dim::constant).collect());
    let origin = net.graph.origins.push(Vec::new());
    net.graph.add(Op::Map(MapOp { body, results: vec![made] }), &values, ty, origin)
}

/// How many quotients are left of a residual addition in bytes whose first operand comes from a sum of integers, its second
/// from such a sum too or from floats alone.
fn quotients(second: DType) -> usize {
    let mut net = Net::new();
    let (a, b) = (net.input(&[3, 5]), net.input(&[3, 5]));
    let sum = |net: &mut Net, x: ValueId| {
        map(net, &[(x, DType::F32)], DType::I32, |body, p| {
            let hundred = body.constant(DType::F32, 100.0);
            let wide = body.binary(BinaryOp::Mul, p[0], hundred);
            body.push(ScalarOp::CastSaturating(DType::I32, wide))
        })
    };
    let a = sum(&mut net, a);
    let b = if second == DType::I32 { sum(&mut net, b) } else { b };
    let y = map(&mut net, &[(a, DType::I32), (b, second)], DType::U8, |body, p| {
        let operand = |body: &mut Body, x: ScalarId| {
            let x = body.cast(DType::F32, x);
            let byte = quantize(body, x, 0.7);
            body.cast(DType::F32, byte)
        };
        let (a, b) = (operand(body, p[0]), operand(body, p[1]));
        let both = body.binary(BinaryOp::Add, a, b);
        quantize(body, both, 1.3)
    });
    net.output(y);
    net.pass("quantize", &PassContext::default());
    let is_quotient = |op: &&ScalarOp| matches!(op, ScalarOp::Binary(BinaryOp::Div, ..));
    net.maps().iter().map(|map| map.body.ops.iter().filter(is_quotient).count()).sum()
}

/// Wherever they stand in a map, if what they divide comes from a sum.
#[test]
fn all_quotients_of_sums_become_products() {
    assert_eq!(quotients(DType::I32), 0);
    assert_eq!(quotients(DType::F32), 1, "what is quantised from floats alone keeps its quotient");
}
