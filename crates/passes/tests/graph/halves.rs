//! Factors that are halves already are read as halves, and nothing else becomes another number.

use super::build::{Net, i, within};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_passes::graph::precision::{Which, run};
use infc_passes::graph::{Changed, PassContext, optimize};
use infc_tensor::{DType, Tensor};

/// Weights that halves hold.
fn eighths(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|n| (n % 17) as f32 / 8.0 - 1.0).collect();
    Tensor::from_elements(shape, &elements).expect("as many")
}

/// The types that contractions multiply.
fn multiplied(net: &Net) -> Vec<DType> {
    let contractions = net.graph.order.iter().map(|&id| &net.graph.nodes[id]);
    let of = contractions.filter(|node| matches!(node.op, Op::Contract(_)));
    of.flat_map(|node| node.inputs.iter().map(|&input| net.graph.ty(input).dtype)).collect()
}

/// Reads factors as halves, and holds the outputs to what they were, bit for bit.
#[track_caller]
fn read_as_halves(net: &mut Net, half: DType) -> Changed {
    net.optimize();
    let before = net.outputs();
    let changed = run(&mut net.graph, half, Which::Halves);
    optimize(&mut net.graph, &PassContext::default()).expect("passes");
    assert_eq!(net.outputs(), before, "{}", net.graph);
    changed
}

#[test]
fn factors_that_are_halves() {
    for half in [DType::F16, DType::BF16] {
        let mut net = Net::new();
        let x = net.input(&[4, 16]);
        let h = net.rounded(x, half);
        let w = net.tensor("w", eighths(&[16, 8]));
        let y = net.contract("mk,kn->mn", h, w);
        net.output(y);
        assert_eq!(read_as_halves(&mut net, half), Changed::Yes);
        assert_eq!(multiplied(&net), [half, half]);
    }
}

#[test]
fn factors_that_are_not() {
    // Numbers of f32, computed or constant, and halves of the other kind.
    let mut net = Net::new();
    let x = net.input(&[4, 16]);
    let w = net.tensor("w", eighths(&[16, 8]));
    let y = net.contract("mk,kn->mn", x, w);
    let h = net.rounded(y, DType::BF16);
    let v = net.weights(&[8, 8], 3);
    let z = net.contract("mk,kn->mn", h, v);
    net.output(z);
    for half in [DType::F16, DType::BF16] {
        assert_eq!(read_as_halves(&mut net, half), Changed::No, "{half}");
    }
    assert_eq!(multiplied(&net), [DType::F32; 4]);
}

/// What lies around a factor where something else reads it is no half, and stays.
#[test]
fn what_surrounds_a_factor() {
    for around in [1e6, 0.1, -3.4e38, 1.0] {
        let mut net = Net::new();
        let x = net.input(&[4, 16]);
        let h = net.rounded(x, DType::F16);
        let w = net.tensor("w", eighths(&[16, 8]));
        let y = net.contract("mk,kn->mn", h, w);
        net.output(y);
        let padded = net.view_or(h, &[i(0), i(1) + -2], vec![within(i(1) + -2, 16)], around, &[4, 20]);
        let sum = net.reduce(padded, 1, BinaryOp::Max, f64::NEG_INFINITY);
        net.output(sum);
        let all = net.unary(UnaryOp::Neg, padded);
        net.output(all);
        assert_eq!(read_as_halves(&mut net, DType::F16), Changed::Yes);
        assert_eq!(multiplied(&net), [DType::F16; 2], "{around}");
    }
}

/// However many views are behind each other, they are gone through one by one.
#[test]
fn a_long_chain_of_views() {
    let mut net = Net::new();
    let x = net.input(&[4]);
    let mut w = net.tensor("w", eighths(&[4]));
    for n in 0..50_000 {
        w = net.view_or(w, &[i(0)], vec![within(i(0), 4)], f64::from(n % 2), &[4]);
    }
    let h = net.rounded(x, DType::F16);
    let y = net.binary(BinaryOp::Add, h, w);
    let z = net.contract("k,k->", y, h);
    net.output(z);
    assert_eq!(run(&mut net.graph, DType::F16, Which::Halves), Changed::No);
}
