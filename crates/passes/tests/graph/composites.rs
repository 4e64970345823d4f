//! Spelled-out forms that are recognised, and what the composites mean.

use super::build::{Net, assert_close, assert_close_within, c, i};
use infc_ir::entity::ValueId;
use infc_ir::index::IndexExpr;
use infc_ir::op::{CompositeKind, Op};
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_passes::ErrorClass;
use infc_passes::graph::composites::{inline_composites, reduced_axes, softmax};
use infc_passes::graph::{PassContext, PassOptions, optimize};
use infc_tensor::{DType, Tensor};

fn kinds(net: &Net) -> Vec<CompositeKind> {
    net.graph
        .order
        .iter()
        .filter_map(|&n| match &net.graph.nodes[n].op {
            Op::Composite(op) => Some(op.kind),
            _ => None,
        })
        .collect()
}

/// Optimises, compares with the composites and without them, and says which there are.
fn recognized(mut net: Net) -> Vec<CompositeKind> {
    let before = net.outputs();
    net.optimize();
    let kinds = kinds(&net);
    inline_composites(&mut net.graph, &PassContext::default());
    assert!(!net.ops().contains(&"composite"));
    assert_close(&before, &net.outputs());
    kinds
}

#[test]
fn softmax_over_any_axis() {
    for axis in 0..3 {
        let mut net = Net::new();
        let x = net.input(&[3, 4, 5]);
        let y = net.softmax(x, axis);
        net.output(y);
        assert_eq!(recognized(net), [CompositeKind::Softmax], "axis {axis}");
    }
}

#[test]
fn a_softmax_of_one_row_and_what_is_fused_around_it() {
    let mut net = Net::new();
    let x = net.input(&[1, 6]);
    let scaled = net.with_number(BinaryOp::Mul, x, 3.0);
    let y = net.softmax(scaled, 1);
    let y = net.unary(UnaryOp::Sqrt, y);
    net.output(y);
    assert_eq!(recognized(net), [CompositeKind::Softmax]);
}

#[test]
fn a_softmax_whose_maximum_is_bounded_by_minus_infinity() {
    let mut net = Net::new();
    let x = net.input(&[3, 6]);
    let max = net.reduce(x, 1, BinaryOp::Max, f64::NEG_INFINITY);
    let max = net.with_number(BinaryOp::Max, max, f32::NEG_INFINITY);
    let shifted = net.binary(BinaryOp::Sub, x, max);
    let exp = net.unary(UnaryOp::Exp, shifted);
    let sum = net.reduce(exp, 1, BinaryOp::Add, 0.0);
    let y = net.binary(BinaryOp::Div, exp, sum);
    net.output(y);
    assert_eq!(recognized(net), [CompositeKind::Softmax]);
}

#[test]
fn what_only_looks_like_softmax_is_none() {
    // The maximum is over another axis.
    let mut net = Net::new();
    let x = net.input(&[4, 4]);
    let max = net.reduce(x, 0, BinaryOp::Max, f64::NEG_INFINITY);
    let shifted = net.binary(BinaryOp::Sub, x, max);
    let exp = net.unary(UnaryOp::Exp, shifted);
    let sum = net.reduce(exp, 1, BinaryOp::Add, 0.0);
    let y = net.binary(BinaryOp::Div, exp, sum);
    net.output(y);
    assert_eq!(recognized(net), []);
}

/// How exporters write the deviation.
#[derive(Clone, Copy, Debug)]
enum Norm {
    /// Square by `Pow`, divided by `Sqrt`.
    Pow,
    /// Square by `Mul`, multiplied by `Reciprocal(Sqrt)`.
    Reciprocal,
    /// `x·a + (β − μ·a)`.
    Spread,
}

fn norm(net: &mut Net, x: ValueId, form: Norm) -> ValueId {
    let axis = net.shape(x).len() - 1;
    let width = net.shape(x)[axis] as usize;
    let (gamma, beta) = (net.weights(&[width], 21), net.weights(&[width], 22));
    let mean = net.mean(x, axis);
    let centered = net.binary(BinaryOp::Sub, x, mean);
    let square = match form {
        Norm::Pow => net.with_number(BinaryOp::Pow, centered, 2.0),
        _ => net.binary(BinaryOp::Mul, centered, centered),
    };
    let variance = net.mean(square, axis);
    let shifted = net.with_number(BinaryOp::Add, variance, 1e-5);
    let root = net.unary(UnaryOp::Sqrt, shifted);
    match form {
        Norm::Pow => {
            let y = net.binary(BinaryOp::Div, centered, root);
            let y = net.binary(BinaryOp::Mul, y, gamma);
            net.binary(BinaryOp::Add, y, beta)
        }
        Norm::Reciprocal => {
            let inverse = net.unary(UnaryOp::Reciprocal, root);
            let y = net.binary(BinaryOp::Mul, centered, inverse);
            let y = net.binary(BinaryOp::Mul, gamma, y);
            net.binary(BinaryOp::Add, beta, y)
        }
        Norm::Spread => {
            let inverse = net.unary(UnaryOp::Reciprocal, root);
            let a = net.binary(BinaryOp::Mul, inverse, gamma);
            let product = net.binary(BinaryOp::Mul, x, a);
            let shift = net.binary(BinaryOp::Mul, mean, a);
            let rest = net.binary(BinaryOp::Sub, beta, shift);
            net.binary(BinaryOp::Add, product, rest)
        }
    }
}

#[test]
fn layer_norm_in_every_spelling() {
    for form in [Norm::Pow, Norm::Reciprocal, Norm::Spread] {
        for shape in [&[2, 3, 8][..], &[1, 4, 8], &[5, 8]] {
            let mut net = Net::new();
            let x = net.input(shape);
            let y = norm(&mut net, x, form);
            net.output(y);
            assert_eq!(recognized(net), [CompositeKind::LayerNorm], "{form:?} {shape:?}");
        }
    }
}

#[test]
fn a_norm_with_the_wrong_count_is_none() {
    let mut net = Net::new();
    let x = net.input(&[3, 8]);
    let sum = net.reduce(x, 1, BinaryOp::Add, 0.0);
    let mean = net.with_number(BinaryOp::Div, sum, 7.0);
    let centered = net.binary(BinaryOp::Sub, x, mean);
    let square = net.binary(BinaryOp::Mul, centered, centered);
    let variance = net.mean(square, 1);
    let shifted = net.with_number(BinaryOp::Add, variance, 1e-5);
    let root = net.unary(UnaryOp::Sqrt, shifted);
    let y = net.binary(BinaryOp::Div, centered, root);
    net.output(y);
    assert_eq!(recognized(net), []);
}

fn erf_gelu(net: &mut Net, x: ValueId) -> ValueId {
    let scaled = net.with_number(BinaryOp::Div, x, std::f32::consts::SQRT_2);
    let erf = net.unary(UnaryOp::Erf, scaled);
    let one = net.with_number(BinaryOp::Add, erf, 1.0);
    let product = net.binary(BinaryOp::Mul, x, one);
    net.with_number(BinaryOp::Mul, product, 0.5)
}

#[test]
fn gelu_in_its_forms() {
    let mut net = Net::new();
    let x = net.input(&[4, 6]);
    let y = erf_gelu(&mut net, x);
    net.output(y);
    assert_eq!(recognized(net), [CompositeKind::Gelu]);

    for pow in [false, true] {
        let mut net = Net::new();
        let x = net.input(&[4, 6]);
        let cube = if pow {
            net.with_number(BinaryOp::Pow, x, 3.0)
        } else {
            let square = net.binary(BinaryOp::Mul, x, x);
            net.binary(BinaryOp::Mul, square, x)
        };
        let cubic = net.with_number(BinaryOp::Mul, cube, 0.044_715);
        let sum = net.binary(BinaryOp::Add, x, cubic);
        let scaled = net.with_number(BinaryOp::Mul, sum, 0.797_884_6);
        let tanh = net.unary(UnaryOp::Tanh, scaled);
        let one = net.with_number(BinaryOp::Add, tanh, 1.0);
        let half = net.with_number(BinaryOp::Mul, x, 0.5);
        let y = net.binary(BinaryOp::Mul, half, one);
        net.output(y);
        assert_eq!(recognized(net), [CompositeKind::Gelu], "pow {pow}");
    }
}

#[test]
fn gelu_of_a_biased_product_splits_the_map() {
    let mut net = Net::new();
    let x = net.input(&[3, 4]);
    let (w, b) = (net.weights(&[4, 6], 1), net.weights(&[6], 2));
    let y = net.contract("mk,kn->mn", x, w);
    let y = net.binary(BinaryOp::Add, y, b);
    let y = erf_gelu(&mut net, y);
    net.output(y);
    // As after an earlier run of map fusion alone.
    net.pass("map", &PassContext::default());
    assert_eq!(recognized(net), [CompositeKind::Gelu]);
}

#[test]
fn attention_with_scale_and_mask() {
    for mask in [false, true] {
        let mut net = Net::new();
        let (batch, rows, heads, depth) = (2, 5, 3, 4);
        let shape = [batch, rows, heads, depth];
        let (q, k, v) = (net.input(&shape), net.input(&shape), net.input(&shape));
        let q = net.transpose(q, &[0, 2, 1, 3]);
        let kt = net.transpose(k, &[0, 2, 3, 1]);
        let v = net.transpose(v, &[0, 2, 1, 3]);
        let scores = net.contract("bhmd,bhdn->bhmn", q, kt);
        let mut scores = net.with_number(BinaryOp::Div, scores, 2.0);
        if mask {
            let m = net.input(&[batch, 1, 1, rows]);
            scores = net.binary(BinaryOp::Add, scores, m);
        }
        let p = net.softmax(scores, 3);
        let y = net.contract("bhmn,bhnd->bhmd", p, v);
        let y = net.transpose(y, &[0, 2, 1, 3]);
        net.output(y);
        assert_eq!(recognized(net), [CompositeKind::Attention], "mask {mask}");
    }
}

/// Windows of an image have a mask each, for which heads are put behind them and taken away again.
#[test]
fn attention_with_a_mask_for_each_window() {
    let (windows, heads, rows, depth) = (4, 3, 5, 2);
    let mut net = Net::new();
    let shape = [2 * windows, heads, rows, depth];
    let (q, k, v) = (net.input(&shape), net.input(&shape), net.input(&shape));
    let scores = net.contract("bhmd,bhnd->bhmn", q, k);
    let bias = net.weights(&[3, 5, 5], 1);
    let scores = net.binary(BinaryOp::Add, scores, bias);
    let apart = [i(0).scale(windows) + i(1), i(2), i(3), i(4)];
    let scores = net.view(scores, &apart, &[2, windows, heads, rows, rows]);
    let mask = net.weights(&[4, 1, 5, 5], 2);
    let scores = net.binary(BinaryOp::Add, scores, mask);
    let together = [i(0).floor_div(&c(windows)), i(0).modulo(&c(windows)), i(1), i(2), i(3)];
    let scores = net.view(scores, &together, &[2 * windows, heads, rows, rows]);
    let weights = net.softmax(scores, 3);
    let y = net.contract("bhmn,bhnd->bhmd", weights, v);
    net.output(y);
    assert_eq!(recognized(net), [CompositeKind::Attention]);
}

/// What is so far below the largest score that its exponential is no normal number has no weight, unless results are not to
/// move; what is further below had none before. A softmax that others read, or of which constants may pick some, keeps all.
#[test]
fn weights_that_are_no_normal_numbers() {
    let scores = [0.0f32, -87.0, -88.0, -100.0, -104.0, f32::NEG_INFINITY];
    let weights = |constant: bool, other_reader: bool, allowed: ErrorClass| {
        let mut net = Net::new();
        let given = Tensor::from_elements(&[1, 6], &scores).expect("fits");
        let x = net.input(&[1, 6]);
        let bias = net.tensor("scores", given);
        let zero = net.with_number(BinaryOp::Mul, x, 0.0);
        let x = net.binary(BinaryOp::Add, zero, bias);
        let p = net.softmax(x, 1);
        // Each weight by itself, by numbers that are not known.
        let identity: Vec<f32> = (0..36).map(|at| if at % 7 == 0 { 1.0 } else { 0.0 }).collect();
        let mut each = net.tensor("each", Tensor::from_elements(&[6, 6], &identity).expect("fits"));
        if !constant {
            let x = net.input(&[6, 6]);
            let zero = net.with_number(BinaryOp::Mul, x, 0.0);
            each = net.binary(BinaryOp::Add, zero, each);
        }
        let y = net.contract("mn,nd->md", p, each);
        net.output(y);
        if other_reader {
            net.output(p);
        }
        optimize(&mut net.graph, &PassContext::new(PassOptions { allowed, ..PassOptions::default() })).expect("passes");
        net.outputs()[0].elements::<f32>().expect("floats").to_vec()
    };
    let kept = |weights: Vec<f32>| weights.iter().map(|&w| w > 0.0).collect::<Vec<_>>();
    let normal = kept(weights(false, false, ErrorClass::Reassociating));
    assert_eq!(normal, [true, true, false, false, false, false]);
    for other in [
        weights(false, false, ErrorClass::Exact),
        weights(false, true, ErrorClass::Reassociating),
        weights(true, false, ErrorClass::Reassociating),
    ] {
        assert_eq!(kept(other), [true, true, true, true, false, false]);
    }
}

/// Attention of a graph in a half type, whose softmax rounds its results, and is of f32 or of halves itself.
#[test]
fn attention_of_halves() {
    let net = |half: DType, is_of_halves: bool, other_reader: bool| {
        let mut net = Net::new();
        let (q, k, v) = (net.input(&[5, 4]), net.input(&[6, 4]), net.input(&[6, 3]));
        let v = net.rounded(v, half);
        let scores = net.contract("md,nd->mn", q, k);
        let scores = net.rounded(scores, half);
        let p = if is_of_halves { net.softmax_of(scores, 1, half) } else { net.softmax(scores, 1) };
        let p = net.rounded(p, half);
        let y = net.contract("mn,nd->md", p, v);
        net.output(y);
        if other_reader {
            net.output(p);
        }
        net
    };
    for half in [DType::F16, DType::BF16] {
        for is_of_halves in [false, true] {
            let mut attention = net(half, is_of_halves, false);
            let before = attention.outputs();
            optimize(&mut attention.graph, &PassContext::default()).expect("passes");
            assert_eq!(kinds(&attention), [CompositeKind::Attention], "{half}, of halves: {is_of_halves}");
            // Each weight is rounded once, before it is divided instead of behind that.
            let bound = if half == DType::F16 { 1e-3 } else { 8e-3 };
            assert_close_within(bound, &before, &attention.outputs());
            let mut apart = net(half, is_of_halves, true);
            apart.optimize();
            assert_eq!(kinds(&apart), [CompositeKind::Softmax], "{half}, of halves: {is_of_halves}");
            let strict = PassOptions { allowed: ErrorClass::Exact, ..PassOptions::default() };
            let mut exact = net(half, is_of_halves, false);
            optimize(&mut exact.graph, &PassContext::new(strict)).expect("passes");
            assert!(!kinds(&exact).contains(&CompositeKind::Attention), "{half}, of halves: {is_of_halves}");
        }
    }
}

/// A bias that is a product, too, which others read as well.
#[test]
fn attention_with_a_bias_of_all_layers() {
    for is_mapped in [false, true] {
        let mut net = Net::new();
        let (q, k, v) = (net.input(&[5, 4]), net.input(&[6, 4]), net.input(&[6, 3]));
        let (p, w) = (net.input(&[5, 7]), net.weights(&[7, 6], 8));
        let mut bias = net.contract("mk,kn->mn", p, w);
        if is_mapped {
            bias = net.unary(UnaryOp::Exp, bias);
        }
        net.output(bias);
        let scores = net.contract("md,nd->mn", q, k);
        let scores = net.binary(BinaryOp::Add, scores, bias);
        let weights = net.softmax(scores, 1);
        let y = net.contract("mn,nd->md", weights, v);
        net.output(y);
        assert_eq!(recognized(net), [CompositeKind::Attention], "mapped: {is_mapped}");
    }
}

/// As Einsums of heads are exported: the products are of heads put together, the softmax between them is over heads taken apart, and
/// keys come before queries.
#[test]
fn attention_of_heads_put_together() {
    let (batch, heads, queries, keys, depth) = (2, 3, 5, 6, 4);
    let net = |mask: bool, other_reader: bool| {
        let mut net = Net::new();
        let all = batch * heads;
        let (q, k, v) =
            (net.input(&[all, depth, queries]), net.input(&[all, keys, depth]), net.input(&[all, keys, depth]));
        let scores = net.contract("bkd,bdq->bkq", k, q);
        let apart = [i(0).scale(heads) + i(1), i(2), i(3)];
        let mut scores = net.view(scores, &apart, &[batch, heads, keys, queries]);
        if mask {
            let m = net.input(&[batch, 1, keys, 1]);
            scores = net.binary(BinaryOp::Add, scores, m);
        }
        let p = net.softmax(scores, 2);
        if other_reader {
            net.output(p);
        }
        let head = [i(0).floor_div(&c(heads)), i(0).modulo(&c(heads)), i(2), i(1)];
        let p = net.view(p, &head, &[all, queries, keys]);
        let y = net.contract("bqk,bkd->bqd", p, v);
        net.output(y);
        net
    };
    for mask in [false, true] {
        assert_eq!(recognized(net(mask, false)), [CompositeKind::Attention], "mask {mask}");
        assert_eq!(recognized(net(mask, true)), [CompositeKind::Softmax], "mask {mask}");
    }
}

/// The axes of a softmax behind which there is this view, once that is recognised.
fn axes_behind(index: &[IndexExpr], shape: &[i64], axis: usize) -> Vec<usize> {
    let mut net = Net::new();
    let x = net.input(&[3, 4, 5]);
    let op = softmax(&net.graph.symbols, net.graph.ty(x), &[axis]);
    let y = net.add(Op::Composite(op), &[x], &[3, 4, 5]);
    let y = net.view(y, index, shape);
    let y = net.unary(UnaryOp::Sqrt, y);
    net.output(y);
    let before = net.outputs();
    net.pass("recognize", &PassContext::default());
    net.pass("dce", &PassContext::default());
    assert_close(&before, &net.outputs());
    let composites = net.graph.order.iter().filter_map(|&id| match &net.graph.nodes[id].op {
        Op::Composite(op) => reduced_axes(op).map(<[usize]>::to_vec),
        _ => None,
    });
    composites.flatten().collect()
}

#[test]
fn rows_are_turned_where_they_end_up_as_neighbours() {
    assert_eq!(axes_behind(&[i(0), i(2), i(1)], &[3, 5, 4], 1), [2]);
    assert_eq!(axes_behind(&[i(2), i(0), i(1)], &[4, 5, 3], 0), [2]);
    assert_eq!(axes_behind(&[i(0).floor_div(&c(4)), i(0).modulo(&c(4)), i(1)], &[12, 5], 2), [1], "put together");
    // Already neighbours, not neighbours afterwards, elements left out, elements read twice, rows cut or turned.
    assert_eq!(axes_behind(&[i(1), i(0), i(2)], &[4, 3, 5], 2), [2]);
    assert_eq!(axes_behind(&[i(0), i(1), i(2)], &[3, 4, 5], 1), [1]);
    assert_eq!(axes_behind(&[i(0), i(2), i(1)], &[3, 4, 4], 1), [1]);
    assert_eq!(axes_behind(&[i(0), c(0), i(1)], &[3, 4], 1), [1]);
    assert_eq!(axes_behind(&[i(0), i(2), i(1)], &[3, 5, 2], 1), [1]);
    assert_eq!(axes_behind(&[i(0), c(3) - i(2), i(1)], &[3, 5, 4], 1), [1]);
}

#[test]
fn attention_whose_weights_are_an_output_stays_apart() {
    let mut net = Net::new();
    let (q, k, v) = (net.input(&[5, 4]), net.input(&[6, 4]), net.input(&[6, 3]));
    let scores = net.contract("md,nd->mn", q, k);
    let p = net.softmax(scores, 1);
    let y = net.contract("mn,nd->md", p, v);
    net.output(y);
    net.output(p);
    assert_eq!(recognized(net), [CompositeKind::Softmax]);
}
