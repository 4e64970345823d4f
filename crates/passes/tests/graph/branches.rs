//! Branches that are added up: which become one contraction, and which must not.

use super::build::{Net, i, within};
use infc_ir::entity::ValueId;
use infc_ir::index::IndexExpr;
use infc_ir::scalar::BinaryOp;

/// A window of `kernel` taps over `[N, C, H, W]`, as far apart as `stride` for the result, padded by zeros so that it is
/// centred.
fn window(net: &mut Net, x: ValueId, kernel: [i64; 2], stride: i64, padding: f64) -> ValueId {
    let [n, ch, h, w] = net.shape(x)[..] else { panic!("four axes") };
    let at = |axis: u32, k: i64| i(axis).scale(stride) + i(axis + 2) - k / 2;
    let (y, z) = (at(2, kernel[0]), at(3, kernel[1]));
    let out = |d: i64| (d - 1) / stride + 1;
    let shape = [n, ch, out(h), out(w), kernel[0], kernel[1]];
    net.view_or(x, &[i(0), i(1), y.clone(), z.clone()], vec![within(y, h), within(z, w)], padding, &shape)
}

fn conv(net: &mut Net, x: ValueId, outputs: usize, kernel: [i64; 2], stride: i64, seed: u32) -> ValueId {
    let channels = net.shape(x)[1] as usize;
    let w = net.weights(&[outputs, channels, kernel[0] as usize, kernel[1] as usize], seed);
    let window = window(net, x, kernel, stride, 0.0);
    net.contract("nchwyx,ocyx->nohw", window, w)
}

fn depthwise(net: &mut Net, x: ValueId, kernel: [i64; 2], stride: i64, seed: u32) -> ValueId {
    let channels = net.shape(x)[1] as usize;
    let w = net.weights(&[channels, kernel[0] as usize, kernel[1] as usize], seed);
    let window = window(net, x, kernel, stride, 0.0);
    net.contract("nchwyx,cyx->nchw", window, w)
}

/// A factor and a shift per channel, as a batch norm alone is.
fn affine(net: &mut Net, x: ValueId, seed: u32) -> ValueId {
    let shape = net.shape(x);
    let [a, b] = [seed, seed + 1].map(|seed| {
        let v = net.weights(&[shape[1] as usize], seed);
        net.per_channel(v, &shape)
    });
    let scaled = net.binary(BinaryOp::Mul, x, a);
    net.binary(BinaryOp::Add, scaled, b)
}

fn sum(net: &mut Net, terms: &[ValueId]) -> ValueId {
    terms.iter().copied().reduce(|a, b| net.binary(BinaryOp::Add, a, b)).expect("terms")
}

fn contractions(net: &Net) -> usize {
    net.ops().iter().filter(|&&op| op == "contract").count()
}

/// What is left when `terms` of an input are added up.
fn left(channels: i64, terms: impl FnOnce(&mut Net, ValueId) -> Vec<ValueId>) -> Net {
    let mut net = Net::new();
    let x = net.input(&[2, channels, 7, 6]);
    let terms = terms(&mut net, x);
    let y = sum(&mut net, &terms);
    let y = net.with_number(BinaryOp::Max, y, 0.0);
    net.output(y);
    net.optimize();
    net
}

#[test]
fn a_block_of_three_branches_is_one_convolution() {
    let net = left(4, |net, x| vec![conv(net, x, 4, [3, 3], 1, 1), conv(net, x, 4, [1, 1], 1, 2), affine(net, x, 3)]);
    assert_eq!(net.ops(), ["view", "view", "contract", "map"], "the other view is of the shift");
}

#[test]
fn branches_of_a_depthwise_convolution_are_one() {
    let net = left(4, |net, x| {
        let mut terms: Vec<ValueId> = (0..4).map(|seed| depthwise(net, x, [3, 3], 1, seed)).collect();
        terms.extend([depthwise(net, x, [1, 1], 1, 5), affine(net, x, 6), x]);
        terms
    });
    assert_eq!(contractions(&net), 1, "{:?}", net.ops());
    assert_eq!(net.maps()[0].body.ops.len(), 5, "max(y + shift, 0)");
}

#[test]
fn rows_and_columns_of_taps_go_into_the_middle_of_a_square() {
    let net = left(3, |net, x| {
        vec![
            conv(net, x, 5, [1, 3], 1, 1),
            conv(net, x, 5, [3, 1], 1, 2),
            conv(net, x, 5, [3, 3], 1, 3),
            conv(net, x, 5, [5, 5], 1, 4),
        ]
    });
    assert_eq!(net.ops(), ["view", "contract", "map"]);
}

#[test]
fn strides_have_to_be_the_same() {
    let net = left(3, |net, x| vec![conv(net, x, 5, [3, 3], 2, 1), conv(net, x, 5, [1, 1], 2, 2)]);
    assert_eq!(contractions(&net), 1);
    // The same extents, but every second point.
    let net = left(3, |net, x| {
        let near = conv(net, x, 5, [3, 3], 2, 1);
        let w = net.weights(&[5, 3], 2);
        let [_, _, h, w_out] = net.shape(near)[..] else { panic!("four axes") };
        let corner = net.view(x, &[i(0), i(1), i(2), i(3)], &[2, 3, h, w_out]);
        let far = net.contract("nchw,oc->nohw", corner, w);
        vec![near, far]
    });
    assert_eq!(contractions(&net), 2);
}

#[test]
fn a_residual_goes_into_depthwise_weights_and_into_products() {
    let net = left(4, |net, x| vec![depthwise(net, x, [3, 3], 1, 1), x]);
    assert_eq!(net.ops(), ["view", "contract", "map"]);
    assert_eq!(net.maps()[0].body.ops.len(), 3, "max(y, 0)");

    let mut net = Net::new();
    let x = net.input(&[5, 6]);
    let w = net.weights(&[6, 6], 1);
    let y = net.contract("mk,kn->mn", x, w);
    let y = net.binary(BinaryOp::Add, x, y);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["contract"]);
}

#[test]
fn products_with_different_operands_stay() {
    let mut net = Net::new();
    let (x, z) = (net.input(&[5, 6]), net.input(&[5, 6]));
    let terms = [(x, 1), (z, 2), (x, 3)].map(|(operand, seed)| {
        let w = net.weights(&[6, 4], seed);
        net.contract("mk,kn->mn", operand, w)
    });
    let y = sum(&mut net, &terms);
    net.output(y);
    net.optimize();
    assert_eq!(contractions(&net), 2);
}

#[test]
fn what_others_read_stays() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let (a, b) = (conv(&mut net, x, 4, [3, 3], 1, 1), conv(&mut net, x, 4, [1, 1], 1, 2));
    let y = net.binary(BinaryOp::Add, a, b);
    net.output(y);
    net.output(b);
    net.optimize();
    assert_eq!(contractions(&net), 2);
}

#[test]
fn windows_that_are_padded_otherwise_stay() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let branch = |net: &mut Net, padding: f64, seed: u32| {
        let w = net.weights(&[4, 3, 3, 3], seed);
        let window = window(net, x, [3, 3], 1, padding);
        net.contract("nchwyx,ocyx->nohw", window, w)
    };
    let terms = [branch(&mut net, 0.0, 1), branch(&mut net, 1.0, 2), branch(&mut net, 0.0, 3)];
    let y = sum(&mut net, &terms);
    net.output(y);
    net.optimize();
    assert_eq!(contractions(&net), 2);
}

#[test]
fn a_window_elsewhere_is_no_part() {
    // Three taps to the left of the point, and two to the right.
    let mut net = Net::new();
    let x = net.input(&[2, 9]);
    let branch = |net: &mut Net, taps: i64, from: i64, seed: u32| {
        let at: IndexExpr = i(1) + i(2) + from;
        let window = net.view_or(x, &[i(0), at.clone()], vec![within(at, 9)], 0.0, &[2, 9, taps]);
        let w = net.weights(&[taps as usize], seed);
        net.contract("nwt,t->nw", window, w)
    };
    let terms = [branch(&mut net, 3, -3, 1), branch(&mut net, 2, 1, 2), branch(&mut net, 2, -2, 3)];
    let y = sum(&mut net, &terms);
    net.output(y);
    net.optimize();
    assert_eq!(contractions(&net), 2, "the third is part of the first");
}
