//! Values that are seen under another shape where they lie.

use crate::build::{Net, c, i};
use crate::run::check;
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_tensor::Tensor;

/// What positions are looked up in is seen where something lies that it is a reshape of: an input, or what is read elsewhere
/// too, which is not overwritten by who looks up in it.
#[test]
fn look_ups_see_reshapes_where_they_lie() {
    for computed in [false, true] {
        let mut net = Net::new();
        let x = net.input(&[4, 6, 3]);
        let seen = if computed { net.unary(UnaryOp::Exp, x) } else { x };
        let rows = net.view(seen, &[i(0).floor_div(&c(6)), i(0).modulo(&c(6)), i(1)], &[24, 3]);
        let backwards: Vec<i64> = (0..24).rev().collect();
        let positions = Tensor::from_elements(&[24], &backwards).expect("as many as it says");
        let found = net.gather(rows, positions, 0);
        let found = net.view(found, &[i(0).scale(6) + i(1), i(2)], &[4, 6, 3]);
        let y = net.binary(BinaryOp::Sub, seen, found);
        let y = net.unary(UnaryOp::Tanh, y);
        net.output(y);
        let z = net.unary(UnaryOp::Tanh, y);
        net.output(z);
        let plan = check(&net);
        assert_eq!(plan.values.values().filter(|planned| planned.reshape_of.is_some()).count(), 1, "{plan}");
        let copies = plan.kernels.iter().filter(|planned| planned.kernel.name.ends_with("24x3")).count();
        assert!(plan.kernels.iter().all(|planned| planned.in_place.is_empty()), "{plan}");
        assert!(copies <= 1, "the look-up itself: {plan}");
    }
}

/// A transposition is no reshape, nor lies densely what is part of something else.
#[test]
fn look_ups_in_what_lies_otherwise_are_of_a_copy() {
    let mut net = Net::new();
    let x = net.input(&[4, 6]);
    let turned = net.view(x, &[i(0).modulo(&c(4)), i(0).floor_div(&c(4))], &[24]);
    let positions = |n: i64| Tensor::from_elements(&[2], &[n, 5]).expect("as many as it says");
    let a = net.gather(turned, positions(3), 0);
    let e = net.unary(UnaryOp::Exp, x);
    let part = net.view(e, &[i(0).floor_div(&c(6)), i(0).modulo(&c(6))], &[24]);
    let b = net.gather(part, positions(23), 0);
    let whole = net.concat(&[e, e], 1);
    for output in [a, b, whole] {
        net.output(output);
    }
    let plan = check(&net);
    assert!(plan.values.values().all(|planned| planned.reshape_of.is_none()), "{plan}");
}

/// What contractions alone read of constants is made where they read it, unless one of them sees it under another shape.
#[test]
fn what_is_seen_under_another_shape_stays_where_it_is() {
    let mut net = Net::new();
    let w = net.weights(&[4, 4, 8], 1);
    let made = net.unary(UnaryOp::Exp, w);
    let flat = net.view(made, &[i(0).floor_div(&c(4)), i(0).modulo(&c(4)), i(1)], &[16, 8]);
    let x = net.input(&[3, 16]);
    let a = net.contract("mk,kn->mn", x, flat);
    let backwards: Vec<i64> = (0..16).rev().collect();
    let b = net.gather(flat, Tensor::from_elements(&[16], &backwards).expect("as many as it says"), 0);
    let z = net.input(&[5, 4]);
    let d = net.contract("ma,abk->mbk", z, made);
    for output in [a, b, d] {
        net.output(output);
    }
    check(&net);
}

/// Two views whose positions are a long expression together: what the second one sees is copied in between.
#[test]
fn long_views_of_views_see_a_copy() {
    let mut net = Net::new();
    let x = net.input(&[512]);
    // 2, then 5 atoms for each of the terms.
    let position = (0..40).map(|n| i(0).floor_div(&c(2 + n))).reduce(|sum, term| sum + term).expect("some terms");
    let gathered = net.view(x, &[position], &[64]);
    let turned = net.view(gathered, &[i(0).modulo(&c(7)).scale(8) + i(1).floor_div(&c(3))], &[8, 8]);
    let y = net.unary(UnaryOp::Tanh, turned);
    net.output(y);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 2, "{plan}");

    // A few terms are one kernel's.
    let mut net = Net::new();
    let x = net.input(&[512]);
    let gathered = net.view(x, &[i(0).floor_div(&c(2)) + i(0).floor_div(&c(3))], &[64]);
    let turned = net.view(gathered, &[i(0).modulo(&c(7)).scale(8) + i(1).floor_div(&c(3))], &[8, 8]);
    let y = net.unary(UnaryOp::Tanh, turned);
    net.output(y);
    assert_eq!(check(&net).kernels.len(), 1);
}
