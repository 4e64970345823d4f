//! Constant folding and hoisting.

use super::build::{Net, c, i};
use infc_ir::graph::Requirement;
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_passes::graph::{Changed, PassContext, PassError, PassOptions, fold};

fn constants(net: &Net) -> Vec<usize> {
    let mut sizes: Vec<usize> = net
        .graph
        .order
        .iter()
        .filter_map(|&n| match &net.graph.nodes[n].op {
            Op::Constant(op) => Some(op.tensor.len_elems()),
            _ => None,
        })
        .collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn what_depends_on_constants_alone_is_computed() {
    let mut net = Net::new();
    let x = net.input(&[3, 2]);
    let w = net.weights(&[2, 3], 1);
    let t = net.transpose(w, &[1, 0]);
    let e = net.unary(UnaryOp::Exp, t);
    let m = net.reduce(e, 1, BinaryOp::Add, 0.0);
    let k = net.concat(&[m, m], 1);
    let y = net.binary(BinaryOp::Add, x, k);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["map"]);
    assert_eq!(constants(&net), [6]);
}

#[test]
fn contractions_of_constants_are_computed() {
    let mut net = Net::new();
    let x = net.input(&[2, 5]);
    let (a, b) = (net.weights(&[5, 4], 1), net.weights(&[4, 3], 2));
    let w = net.contract("ik,kj->ij", a, b);
    let y = net.contract("mi,ij->mj", x, w);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["contract"]);
    assert_eq!(constants(&net), [15]);
}

#[test]
fn broadcasts_are_not_materialised() {
    let mut net = Net::new();
    let x = net.input(&[64, 32]);
    let bias = net.weights(&[32], 1);
    let y = net.binary(BinaryOp::Add, x, bias);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["view", "map"]);
    assert_eq!(constants(&net), [32]);
}

#[test]
fn too_large_results_are_left_to_run_time_with_a_reason() {
    let mut net = Net::new();
    let (a, b) = (net.weights(&[40, 1], 1), net.weights(&[1, 50], 2));
    let y = net.binary(BinaryOp::Mul, a, b);
    net.output(y);
    let cx = net.optimize_with(PassContext::new(PassOptions { fold_limit_bytes: 1000, ..PassOptions::default() }));
    assert_eq!(net.ops(), ["view", "view", "map"]);
    assert!(cx.notes().iter().any(|n| n.pass == "fold"));
}

#[test]
fn constant_parts_of_a_body_are_computed_per_channel() {
    let mut net = Net::new();
    let shape = [2, 3, 4, 4];
    let x = net.input(&shape);
    let (gamma, var) = (net.weights(&[3], 1), net.positive(&[3], 2));
    let (gamma, var) = (net.per_channel(gamma, &shape), net.per_channel(var, &shape));
    let y = net.map(&[x, gamma, var], |body, p| {
        let epsilon = body.constant(infc_tensor::DType::F32, 1e-5);
        let shifted = body.binary(BinaryOp::Add, p[2], epsilon);
        let root = body.unary(UnaryOp::Sqrt, shifted);
        let scale = body.binary(BinaryOp::Div, p[1], root);
        body.binary(BinaryOp::Mul, p[0], scale)
    });
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["view", "map"]);
    assert_eq!(constants(&net), [3]);
    assert_eq!(net.maps()[0].body.ops.len(), 3, "x, the scale, and their product");
}

#[test]
fn a_view_that_reads_beyond_a_constant_is_an_error() {
    let mut net = Net::new();
    let w = net.weights(&[4], 1);
    let y = net.view(w, &[i(0) + 1], &[4]);
    net.output(y);
    let error = fold::run(&mut net.graph, &PassContext::default()).expect_err("element 4 of 4");
    assert!(matches!(error, PassError::OutOfBounds { index: 4, len_elems: 4, .. }));
}

/// A model that takes something for granted may be one that never runs: then the view stays.
#[test]
fn what_may_never_run_is_not_folded() {
    let mut net = Net::new();
    let w = net.weights(&[4], 1);
    let y = net.view(w, &[i(0) + 1], &[4]);
    net.output(y);
    let (left, right) = (4.into(), 5.into());
    net.graph.require(Requirement { left, right, equal: true, what: "a length".to_owned() });
    let cx = PassContext::default();
    assert_eq!(fold::run(&mut net.graph, &cx), Ok(Changed::No));
    assert_eq!(net.ops(), ["view"]);
    assert!(cx.notes().iter().any(|n| n.reason.contains("outside of a constant")));
}

/// Nothing of an empty constant is read, also not where it is computed once for an axis that it does not vary along.
#[test]
fn what_has_no_elements_is_not_computed() {
    let mut net = Net::new();
    let w = net.weights(&[0], 1);
    // As an importer spreads what has no elements: every index is 0.
    let spread = net.view(w, &[c(0)], &[0, 1]);
    let exp = net.unary(UnaryOp::Exp, spread);
    let y = net.binary(BinaryOp::Sub, exp, spread);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), Vec::<&str>::new());
    assert_eq!(constants(&net), [0]);
}
