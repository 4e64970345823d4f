//! Functions of a byte that are looked up.

use super::build::Net;
use infc_ir::entity::{ScalarId, ValueId};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, UnaryOp};
use infc_passes::graph::{Changed, PassContext, tabulate};
use infc_tensor::DType;

/// Scales of the bytes.
const STEP: f64 = 0.021;

fn quantize(body: &mut Body, x: ScalarId, zero: f64, dtype: DType) -> ScalarId {
    let (step, zero) = (body.constant(DType::F32, STEP), body.constant(DType::F32, zero));
    let scaled = body.binary(BinaryOp::Div, x, step);
    let rounded = body.unary(UnaryOp::Round, scaled);
    let shifted = body.binary(BinaryOp::Add, rounded, zero);
    body.push(ScalarOp::CastSaturating(dtype, shifted))
}

fn dequantize(body: &mut Body, q: ScalarId, zero: f64) -> ScalarId {
    let (step, zero) = (body.constant(DType::F32, STEP), body.constant(DType::I32, zero));
    let wide = body.cast(DType::I32, q);
    let shifted = body.binary(BinaryOp::Sub, wide, zero);
    let float = body.cast(DType::F32, shifted);
    body.binary(BinaryOp::Mul, float, step)
}

/// `x·sigmoid(x)` of a byte, with a byte in between.
fn silu(body: &mut Body, q: ScalarId, zero: f64) -> ScalarId {
    let x = dequantize(body, q, zero);
    let gate = body.unary(UnaryOp::Sigmoid, x);
    let gate = quantize(body, gate, 3.0, DType::U8);
    let gate = dequantize(body, gate, 3.0);
    let product = body.binary(BinaryOp::Mul, x, gate);
    quantize(body, product, zero, DType::U8)
}

/// A net whose maps have become look-ups as far as they do, with the same results to the bit.
fn tabulated(build: impl FnOnce(&mut Net) -> ValueId) -> Net {
    let mut net = Net::new();
    let y = build(&mut net);
    net.output(y);
    let before = net.outputs();
    let changed = tabulate::run(&mut net.graph, &PassContext::default());
    let after = net.outputs();
    assert!(before.iter().zip(&after).all(|(a, b)| a.bytes() == b.bytes()), "{before:?} is not {after:?}");
    assert_eq!(changed == Changed::Yes, net.ops().contains(&"gather"));
    net
}

#[test]
fn functions_between_bytes_are_looked_up() {
    for dtype in [DType::U8, DType::I8] {
        let zero = if dtype == DType::U8 { 131.0 } else { 3.0 };
        let net = tabulated(|net| {
            let x = net.input(&[5, 7]);
            net.map(&[x], |body, p| {
                let q = quantize(body, p[0], zero, dtype);
                let y = silu(body, q, zero);
                dequantize(body, y, zero)
            })
        });
        assert_eq!(net.ops(), ["map", "gather", "map"]);
        let functions = |body: &Body| body.ops.iter().any(|op| matches!(op, ScalarOp::Unary(UnaryOp::Sigmoid, _)));
        assert!(!net.maps().iter().any(|map| functions(&map.body)), "the function is in the table alone");
    }
}

#[test]
fn what_else_is_made_of_the_byte_stays() {
    // The byte that is looked up is added to what was found, and a second operand to both.
    let net = tabulated(|net| {
        let (a, b) = (net.input(&[33]), net.input(&[33]));
        net.map(&[a, b], |body, p| {
            let q = quantize(body, p[0], 128.0, DType::U8);
            let y = silu(body, q, 128.0);
            let (x, y) = (dequantize(body, q, 128.0), dequantize(body, y, 128.0));
            let sum = body.binary(BinaryOp::Add, x, y);
            body.binary(BinaryOp::Add, sum, p[1])
        })
    });
    assert_eq!(net.ops(), ["map", "gather", "map"]);
}

#[test]
fn each_operand_has_a_table_of_its_own() {
    let net = tabulated(|net| {
        let (a, b) = (net.input(&[4, 4]), net.input(&[4, 4]));
        net.map(&[a, b], |body, p| {
            let [a, b] = [0, 1].map(|n| {
                let q = quantize(body, p[n], 128.0, DType::U8);
                let y = silu(body, q, 120.0);
                dequantize(body, y, 128.0)
            });
            body.binary(BinaryOp::Mul, a, b)
        })
    });
    assert_eq!(net.ops().iter().filter(|&&op| op == "gather").count(), 2);
}

#[test]
fn functions_of_two_bytes_and_cheap_ones_are_computed() {
    let net = tabulated(|net| {
        let (a, b) = (net.input(&[4, 4]), net.input(&[4, 4]));
        net.map(&[a, b], |body, p| {
            let [a, b] = [0, 1].map(|n| {
                let q = quantize(body, p[n], 128.0, DType::U8);
                dequantize(body, q, 128.0)
            });
            let sum = body.binary(BinaryOp::Pow, a, b);
            let y = quantize(body, sum, 128.0, DType::U8);
            dequantize(body, y, 128.0)
        })
    });
    assert_eq!(net.ops(), ["map"], "of two bytes");
    let net = tabulated(|net| {
        let a = net.input(&[4, 4]);
        net.map(&[a], |body, p| {
            let q = quantize(body, p[0], 128.0, DType::U8);
            let x = dequantize(body, q, 128.0);
            let y = body.unary(UnaryOp::Abs, x);
            let limit = body.constant(DType::F32, 0.5);
            let y = body.binary(BinaryOp::Min, y, limit);
            let y = body.push(ScalarOp::CastSaturating(DType::U8, y));
            body.cast(DType::F32, y)
        })
    });
    assert_eq!(net.ops(), ["map"], "less than a look-up");
    assert!(net.graph.order.iter().all(|&n| !matches!(net.graph.nodes[n].op, Op::Constant(_))));
}
