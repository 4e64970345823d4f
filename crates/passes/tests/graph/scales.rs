//! Factors that go into the weights of contractions, and those that must not.

use super::build::{Net, i};
use infc_ir::entity::ValueId;
use infc_ir::scalar::{BinaryOp, ScalarOp, UnaryOp};
use infc_passes::graph::PassContext;

/// (x − mean)·(γ/√(var + ε)) + β in five nodes.
fn batch_norm(net: &mut Net, x: ValueId, channels: usize) -> ValueId {
    let shape = net.shape(x);
    let channel = |net: &mut Net, seed, positive: bool| {
        let v = if positive { net.positive(&[channels], seed) } else { net.weights(&[channels], seed) };
        net.per_channel(v, &shape)
    };
    let (gamma, beta) = (channel(net, 11, false), channel(net, 12, false));
    let (mean, var) = (channel(net, 13, false), channel(net, 14, true));
    let shifted = net.with_number(BinaryOp::Add, var, 1e-5);
    let root = net.with_number(BinaryOp::Pow, shifted, 0.5);
    let scale = net.binary(BinaryOp::Div, gamma, root);
    let centered = net.binary(BinaryOp::Sub, x, mean);
    let scaled = net.binary(BinaryOp::Mul, centered, scale);
    net.binary(BinaryOp::Add, scaled, beta)
}

/// The operations of the only map.
fn map_len(net: &Net) -> usize {
    let maps = net.maps();
    assert_eq!(maps.len(), 1, "{:?}", net.ops());
    maps[0].body.ops.len()
}

#[test]
fn batch_norm_after_a_convolution_leaves_a_bias() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let w = net.weights(&[4, 3, 3, 3], 1);
    let y = net.conv(x, w, 1, 0.0);
    let y = batch_norm(&mut net, y, 4);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["view", "contract", "view", "map"]);
    assert_eq!(map_len(&net), 3, "x + b");
}

#[test]
fn batch_norm_after_a_grouped_convolution_goes_through_the_reshape() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4, 4]);
    // Two groups of three outputs each; the contraction's result has both axes.
    let w = net.weights(&[2, 3, 3], 1);
    let y = net.contract("nchw,goc->ngohw", x, w);
    let merged = [i(0), i(1).floor_div(&3.into()), i(1).modulo(&3.into()), i(2), i(3)];
    let y = net.view(y, &merged, &[2, 6, 4, 4]);
    let y = batch_norm(&mut net, y, 6);
    net.output(y);
    net.optimize();
    assert_eq!(map_len(&net), 3, "x + b");
}

#[test]
fn numbers_after_a_product_vanish() {
    let mut net = Net::new();
    let x = net.input(&[3, 4]);
    let w = net.weights(&[4, 5], 1);
    let y = net.contract("mk,kn->mn", x, w);
    let y = net.with_number(BinaryOp::Mul, y, 0.3);
    let y = net.with_number(BinaryOp::Div, y, 7.0);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["contract"]);
}

#[test]
fn a_factor_per_row_stays_with_a_reason() {
    let mut net = Net::new();
    let x = net.input(&[3, 4]);
    let w = net.weights(&[4, 5], 1);
    let y = net.contract("mk,kn->mn", x, w);
    let rows = net.weights(&[3, 1], 2);
    let y = net.binary(BinaryOp::Mul, y, rows);
    net.output(y);
    let cx = net.optimize();
    assert_eq!(net.ops(), ["contract", "view", "map"]);
    assert!(cx.notes().iter().any(|n| n.pass == "scale-fold" && n.reason.contains("varies along an axis")));
}

#[test]
fn a_factor_before_a_padded_convolution_goes_into_the_weights_and_a_shift_does_not() {
    for shift in [false, true] {
        let mut net = Net::new();
        let x = net.input(&[1, 3, 5, 5]);
        let scale = net.weights(&[3], 2);
        let scale = net.per_channel(scale, &[1, 3, 5, 5]);
        let mut y = net.binary(BinaryOp::Mul, x, scale);
        if shift {
            let b = net.weights(&[3], 3);
            let b = net.per_channel(b, &[1, 3, 5, 5]);
            y = net.binary(BinaryOp::Add, y, b);
        }
        let w = net.weights(&[4, 3, 3, 3], 1);
        let y = net.conv(y, w, 1, 0.0);
        net.output(y);
        let cx = net.optimize();
        if shift {
            assert_eq!(net.maps().len(), 1);
            assert!(cx.notes().iter().any(|n| n.reason.contains("padding is not shifted")));
        } else {
            assert_eq!(net.ops(), ["view", "contract"]);
        }
    }
}

#[test]
fn a_factor_before_padding_with_ones_stays() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let y = net.with_number(BinaryOp::Mul, x, 0.3);
    let w = net.weights(&[4, 3, 3, 3], 1);
    let y = net.conv(y, w, 1, 1.0);
    net.output(y);
    let cx = net.optimize();
    assert_eq!(net.maps().len(), 1);
    assert!(cx.notes().iter().any(|n| n.reason.contains("padding is not zero")));
}

#[test]
fn a_factor_per_pixel_before_a_convolution_stays() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let pixels = net.weights(&[5, 5], 2);
    let y = net.binary(BinaryOp::Mul, x, pixels);
    let w = net.weights(&[4, 3, 3, 3], 1);
    let y = net.conv(y, w, 0, 0.0);
    net.output(y);
    net.optimize();
    assert_eq!(net.maps().len(), 1);
}

#[test]
fn a_sum_is_scaled_as_a_whole() {
    // (x·w + b)·a: the bias is scaled, too, and once.
    let mut net = Net::new();
    let x = net.input(&[3, 4]);
    let w = net.weights(&[4, 5], 1);
    let b = net.weights(&[5], 2);
    let y = net.contract("mk,kn->mn", x, w);
    let y = net.binary(BinaryOp::Add, y, b);
    let y = net.with_number(BinaryOp::Mul, y, 0.125);
    let minus = net.number(1.0);
    let y = net.binary(BinaryOp::Sub, minus, y);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["contract", "view", "map"]);
    assert_eq!(map_len(&net), 3, "x + b");
}

/// Scores of `rows` queries, which `query` makes, and `keys` keys of four numbers, divided by 3, with a mask.
fn scores(rows: i64, keys: i64, query: impl FnOnce(&mut Net, ValueId) -> ValueId) -> Net {
    let mut net = Net::new();
    let (q, k) = (net.input(&[rows, 4]), net.input(&[keys, 4]));
    let q = query(&mut net, q);
    let k = net.unary(UnaryOp::Tanh, k);
    let kt = net.transpose(k, &[1, 0]);
    let scores = net.contract("md,dn->mn", q, kt);
    let mask = net.input(&[keys]);
    let mask = net.spread(mask, &[rows, keys]);
    let y = net.map(&[scores, mask], |body, p| {
        let three = body.constant(infc_tensor::DType::F32, 3.0);
        let scaled = body.binary(BinaryOp::Div, p[0], three);
        body.binary(BinaryOp::Add, scaled, p[1])
    });
    net.output(y);
    net
}

/// Divisions in maps, and how many maps end with one.
fn divisions(net: &Net) -> (usize, usize) {
    let divides = |op: &ScalarOp| matches!(op, ScalarOp::Binary(BinaryOp::Div, ..));
    let maps = net.maps();
    let all = maps.iter().map(|map| map.body.ops.iter().filter(|op| divides(op)).count()).sum();
    (all, maps.iter().filter(|map| map.results.iter().any(|&result| divides(&map.body.ops[result]))).count())
}

#[test]
fn queries_are_scaled_where_they_are_fewer_than_scores() {
    for (rows, keys) in [(5, 9), (1, 7), (30, 40)] {
        let mut net = scores(rows, keys, |net, q| net.unary(UnaryOp::Exp, q));
        assert!(net.pass("scale-fold", &PassContext::default()));
        assert_eq!(divisions(&net), (1, 1), "{rows} rows, {keys} keys: {:?}", net.ops());
        net.optimize();
        // Nothing is left to move.
        assert!(!net.pass("scale-fold", &PassContext::default()));
    }
}

#[test]
fn scores_are_scaled_where_they_are_few_or_queries_are_not_made_for_them() {
    // Three by three scores of twelve numbers each.
    let mut net = scores(3, 3, |net, q| net.unary(UnaryOp::Exp, q));
    assert!(!net.pass("scale-fold", &PassContext::default()));
    // The larger operand is scaled by nobody; the smaller one is read elsewhere, too.
    let mut net = scores(5, 90, |net, q| {
        let q = net.unary(UnaryOp::Exp, q);
        net.output(q);
        q
    });
    net.pass("scale-fold", &PassContext::default());
    let (all, at_the_end) = divisions(&net);
    assert_eq!((all, at_the_end), (1, 1), "keys take it");
    // A factor for each key is no number.
    let mut net = Net::new();
    let (q, k) = (net.input(&[5, 4]), net.input(&[9, 4]));
    let (q, k) = (net.unary(UnaryOp::Exp, q), net.unary(UnaryOp::Tanh, k));
    let scores = net.contract("md,nd->mn", q, k);
    let factors = net.weights(&[9], 3);
    let factors = net.spread(factors, &[5, 9]);
    let y = net.binary(BinaryOp::Mul, scores, factors);
    net.output(y);
    assert!(!net.pass("scale-fold", &PassContext::default()));
    // What is divided by nothing is infinite as a sum, and no number as a sum of such.
    for factor in [0.0, f32::INFINITY, 1e-30, 1e30] {
        let mut net = Net::new();
        let (q, k) = (net.input(&[5, 4]), net.input(&[9, 4]));
        let (q, k) = (net.unary(UnaryOp::Exp, q), net.unary(UnaryOp::Tanh, k));
        let scores = net.contract("md,nd->mn", q, k);
        let y = net.with_number(BinaryOp::Div, scores, factor);
        net.output(y);
        assert!(!net.pass("scale-fold", &PassContext::default()), "{factor}");
    }
}
