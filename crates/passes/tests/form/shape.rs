//! What plans look like: which nodes share a kernel, and where values lie.

use crate::build::{Net, c, i, within};
use crate::run::check;
use infc_ir::entity::ValueId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{ContractOp, MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, UnaryOp};
use infc_passes::form::{BufferPlace, FormOptions, GraphPlan, OperandSource, form};
use infc_passes::graph::{Changed, PassContext, tabulate};
use infc_tensor::DType;
use std::collections::BTreeSet;

/// A padded convolution with a bias and a ramp, as `[n, c, h, w]`.
pub(crate) fn conv(net: &mut Net, x: ValueId, channels: usize, kernel: i64, stride: i64, seed: u32) -> ValueId {
    let s = net.shape(x);
    let pad = kernel / 2;
    let out = |extent: i64| (extent + 2 * pad - kernel) / stride + 1;
    let (h, w) = (i(2).scale(stride) + i(4) - pad, i(3).scale(stride) + i(5) - pad);
    let valid = if pad == 0 { vec![] } else { vec![within(h.clone(), s[2]), within(w.clone(), s[3])] };
    let shape = [s[0], s[1], out(s[2]), out(s[3]), kernel, kernel];
    let window = net.view_or(x, &[i(0), i(1), h, w], valid, 0.0, &shape);
    let weights = net.weights(&[channels, s[1] as usize, kernel as usize, kernel as usize], seed);
    let y = net.contract("nchwrs,kcrs->nkhw", window, weights);
    let shape = net.shape(y);
    let bias = net.weights(&[channels], seed + 1);
    let bias = net.per_channel(bias, &shape);
    let y = net.binary(BinaryOp::Add, y, bias);
    net.with_number(BinaryOp::Max, y, 0.0)
}

/// A depthwise convolution.
pub(crate) fn depthwise(net: &mut Net, x: ValueId, seed: u32) -> ValueId {
    let s = net.shape(x);
    let (h, w) = (i(2) + i(4) - 1, i(3) + i(5) - 1);
    let valid = vec![within(h.clone(), s[2]), within(w.clone(), s[3])];
    let window = net.view_or(x, &[i(0), i(1), h, w], valid, 0.0, &[s[0], s[1], s[2], s[3], 3, 3]);
    let weights = net.weights(&[s[1] as usize, 3, 3], seed);
    net.contract("nchwrs,crs->nchw", window, weights)
}

fn layouts(plan: &GraphPlan, kernel: usize, operand: &str) -> (Vec<i64>, Vec<(i64, i64)>) {
    let planned = &plan.kernels[kernel];
    let operand = planned.kernel.operands.iter().find(|o| o.name == operand).expect("an operand of that name");
    let strides = operand.layout.strides.iter().map(|s| s.as_const().expect("static")).collect();
    (strides, operand.layout.halo.clone())
}

#[test]
fn kernels_stay_of_bearable_size() {
    let mut net = Net::new();
    let mut x = net.input(&[3]);
    for n in 0..3000 {
        x = net.with_number([BinaryOp::Mul, BinaryOp::Sub][n % 2], x, [0.5, -1.0][n % 2]);
    }
    net.output(x);
    net.optimize();
    let plan = form(&net.graph, &FormOptions::default()).expect("the graph is well formed");
    let longest = |k: &infc_ir::kernel::Kernel| k.stages.iter().map(|s| s.body.ops.len()).max();
    let sizes: Vec<_> = plan.kernels.iter().filter_map(|k| longest(&k.kernel)).collect();
    assert!(sizes.iter().all(|&size| (200..=1100).contains(&size)), "{sizes:?}");
}

#[test]
fn a_convolution_takes_in_what_follows() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 6, 7]);
    let y = conv(&mut net, x, 8, 3, 1, 1);
    let z = conv(&mut net, y, 8, 3, 2, 3);
    net.output(z);
    let plan = check(&net);
    // The copy that gives the input a halo, and two convolutions.
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    // Between them values are channels-last with a halo; the input and the output are as ONNX says.
    let (strides, halo) = layouts(&plan, 1, "y0");
    // The stride of 2 leaves the last row of the padding unread.
    assert_eq!(halo, [(0, 0), (0, 0), (1, 0), (1, 1)]);
    assert_eq!(strides, [7 * 9 * 8, 1, 9 * 8, 8]);
    assert_eq!(layouts(&plan, 2, "y0").0, [8 * 3 * 4, 12, 4, 1]);
}

#[test]
fn weights_lie_in_panels() {
    let mut net = Net::new();
    let x = net.input(&[5, 7]);
    let w = net.weights(&[7, 20], 3);
    let y = net.contract("mk,kn->mn", x, w);
    net.output(y);
    let plan = check(&net);
    let OperandSource::Constant(constant) = &plan.kernels[0].operands[1] else { panic!("{plan}") };
    let tensor = constant.tensor().expect("it fits");
    assert_eq!(tensor.shape(), [2, 7, 16]);
    assert_eq!(constant.packing.as_ref().expect("packed").layout, "panels[N/16][k][16]");
}

#[test]
fn few_columns_lie_one_after_the_other() {
    let packing = |k: usize, n: usize| {
        let mut net = Net::new();
        let x = net.input(&[5, k as i64]);
        let w = net.weights(&[k, n], 3);
        let y = net.contract("mk,kn->mn", x, w);
        net.output(y);
        let plan = check(&net);
        let OperandSource::Constant(constant) = &plan.kernels[0].operands[1] else { panic!("{plan}") };
        constant.packing.as_ref().map(|p| (p.layout.clone(), constant.tensor().expect("it fits").shape().to_vec()))
    };
    let columns = |shape: &[usize]| Some(("columns[N][k]".to_owned(), shape.to_vec()));
    let panels = |shape: &[usize]| Some(("panels[N/16][k][16]".to_owned(), shape.to_vec()));
    assert_eq!(packing(40, 3), columns(&[3, 40]));
    // Too short for a vector.
    assert_eq!(packing(7, 3), None);
    // A few more columns, where sums are long enough to make up for the folding of lanes.
    assert_eq!(packing(288, 9), columns(&[9, 288]));
    assert_eq!(packing(64, 9), panels(&[1, 64, 16]));
    assert_eq!(packing(1024, 16), panels(&[1, 1024, 16]));
}

#[test]
fn columns_that_leave_lanes_empty_have_several_sums() {
    let packing = |spec: &str, x: &[i64], w: &[usize]| {
        let mut net = Net::new();
        let (x, w) = (net.input(x), net.weights(w, 3));
        let y = net.contract(spec, x, w);
        net.output(y);
        let plan = check(&net);
        let OperandSource::Constant(constant) = &plan.kernels[0].operands[1] else { panic!("{plan}") };
        constant.tensor().expect("it fits").shape().to_vec()
    };
    let product = |k: usize, n: usize| packing("mk,kn->mn", &[5, k as i64], &[k, n]);
    assert_eq!(product(1024, 12), [3, 256, 4, 4]);
    assert_eq!(product(320, 24), [3, 160, 8, 2]);
    assert_eq!(product(40, 8), [1, 20, 8, 2]);
    // Six lanes would be left over.
    assert_eq!(product(320, 21), [2, 320, 16]);
    // No whole pairs, and too few points for what adding sums up takes.
    assert_eq!(product(321, 24), [2, 321, 16]);
    assert_eq!(product(10, 24), [2, 10, 16]);
    // Pairs that do not lie next to each other.
    assert_eq!(packing("km,kn->mn", &[320, 5], &[320, 24]), [2, 320, 16]);
}

#[test]
fn groups_of_few_columns_share_panels() {
    let packing = |spec: &str, x: &[i64], w: &[usize]| {
        let mut net = Net::new();
        let (x, w) = (net.input(x), net.weights(w, 3));
        let y = net.contract(spec, x, w);
        net.output(y);
        let plan = check(&net);
        let OperandSource::Constant(constant) = &plan.kernels[0].operands[1] else { panic!("{plan}") };
        assert!(constant.packing.as_ref().is_some_and(|p| p.layout.starts_with("panels")), "{plan}");
        constant.tensor().expect("it fits").shape().to_vec()
    };
    let side_by_side = |groups, k, n| packing("mgk,gkn->mgn", &[5, groups as i64, k as i64], &[groups, k, n]);
    assert_eq!(side_by_side(7, 4, 4), [2, 4, 16]);
    assert_eq!(side_by_side(3, 8, 8), [2, 8, 16]);
    // Panels end within a group, or there is one group.
    assert_eq!(side_by_side(5, 12, 12), [5, 1, 12, 16]);
    assert_eq!(side_by_side(1, 8, 8), [1, 8, 16]);
    // What groups read lies far apart.
    assert_eq!(side_by_side(5, 40, 8), [5, 1, 20, 8, 2]);
    assert_eq!(packing("gmk,gkn->gmn", &[5, 6, 8], &[5, 8, 8]), [5, 1, 8, 16]);
}

#[test]
fn a_single_column_lies_in_the_order_of_the_sum() {
    let mut net = Net::new();
    let x = net.input(&[1, 12, 6, 7]);
    let y = conv(&mut net, x, 11, 1, 1, 1);
    let y = conv(&mut net, y, 1, 3, 1, 7);
    net.output(y);
    let plan = check(&net);
    let packed = plan.kernels.iter().flat_map(|k| &k.operands).find_map(|o| match o {
        OperandSource::Constant(c) => c.packing.as_ref().filter(|p| p.layout.starts_with("columns")),
        OperandSource::Value(_) => None,
    });
    let shape: Vec<Option<i64>> = packed.expect("one is").shape.iter().map(Dim::as_const).collect();
    assert_eq!(shape, [Some(1), Some(3), Some(3), Some(11)], "{plan}");
}

#[test]
fn windows_over_constants_are_not_written_out() {
    let mut net = Net::new();
    let x = net.input(&[4, 300]);
    let w = net.weights(&[400], 3);
    let window = net.view(w, &[i(0) + i(1)], &[300, 100]);
    let y = net.contract("mk,kn->mn", x, window);
    net.output(y);
    let plan = check(&net);
    let OperandSource::Constant(constant) = &plan.kernels[0].operands[1] else { panic!("{plan}") };
    assert_eq!(constant.packing, None);
}

#[test]
fn depthwise_weights_lie_in_panels() {
    let mut net = Net::new();
    let x = net.input(&[1, 12, 5, 5]);
    let y = conv(&mut net, x, 40, 1, 1, 1);
    let y = depthwise(&mut net, y, 5);
    let y = net.unary(UnaryOp::Tanh, y);
    let y = conv(&mut net, y, 9, 1, 1, 7);
    net.output(y);
    let plan = check(&net);
    let packed = plan.kernels.iter().flat_map(|k| &k.operands).filter_map(|o| match o {
        OperandSource::Constant(c) => c.packing.as_ref(),
        OperandSource::Value(_) => None,
    });
    let windows: Vec<_> = packed.filter(|p| p.layout.contains("[k0]") && p.layout.starts_with("panels")).collect();
    let [panels] = windows[..] else { panic!("{plan}") };
    assert_eq!((panels.layout.as_str(), panels.shape[0].as_const()), ("panels[N/16][k0][k1][16]", Some(3)));
}

#[test]
fn three_channels_are_repeated() {
    let mut net = Net::new();
    let x = net.input(&[1, 12, 7, 7]);
    let y = conv(&mut net, x, 3, 1, 1, 1);
    let y = depthwise(&mut net, y, 5);
    let y = conv(&mut net, y, 9, 1, 1, 7);
    net.output(y);
    let plan = check(&net);
    let mut packed = plan.kernels.iter().flat_map(|k| &k.operands).filter_map(|o| match o {
        OperandSource::Constant(c) => Some((c, c.packing.as_ref()?)),
        OperandSource::Value(_) => None,
    });
    let (weights, packing) = packed.find(|(_, p)| p.layout.starts_with("repeated")).unwrap_or_else(|| panic!("{plan}"));
    assert_eq!(packing.layout, "repeated[k0][k1][48]");
    let tensor = weights.tensor().expect("it fits");
    assert_eq!(tensor.shape(), [3, 3, 48]);
    let values: &[f32] = tensor.elements().expect("they are floats");
    for tap in values.chunks(48) {
        assert!((3..48).all(|lane| tap[lane] == tap[lane % 3]), "{tap:?}");
    }
}

#[test]
fn residual_additions_join_the_later_branch() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 4, 4]);
    let a = conv(&mut net, x, 8, 1, 1, 1);
    let b = conv(&mut net, a, 8, 1, 1, 3);
    let b = conv(&mut net, b, 8, 1, 1, 5);
    let sum = net.binary(BinaryOp::Add, b, a);
    let y = conv(&mut net, sum, 8, 1, 1, 7);
    net.output(y);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 4, "{plan}");
    assert_eq!(plan.kernels[2].in_place.len(), 1, "the sum may take the place of its operand");
    assert!(plan.log.refusals.iter().any(|r| r.reason.contains("needed elsewhere")), "{}", plan.log);
}

/// A convolution whose result is an output lies as it likes, and is turned round behind; one of a single point is written as it is.
#[test]
fn outputs_of_convolutions_are_turned_behind_them() {
    for (kernel, channels, copied) in [(3, 32, true), (1, 32, false), (3, 8, false)] {
        let mut net = Net::new();
        let x = net.input(&[1, 16, 12, 12]);
        let y = conv(&mut net, x, channels, kernel, 1, 3);
        net.output(y);
        let plan = check(&net);
        let last = plan.kernels.last().unwrap_or_else(|| panic!("{plan}"));
        assert_eq!(last.kernel.name.starts_with("map"), copied, "{kernel} {channels}: {plan}");
        let plan =
            form(&net.graph, &FormOptions { turns: false, ..FormOptions::default() }).expect("it is well formed");
        assert!(plan.kernels.last().is_some_and(|last| last.kernel.name.starts_with("contract")), "{plan}");
    }
}

#[test]
fn concatenations_are_written_in_place() {
    let mut net = Net::new();
    let x = net.input(&[1, 4, 3, 3]);
    let a = conv(&mut net, x, 8, 1, 1, 1);
    let b = conv(&mut net, a, 16, 3, 1, 3);
    let inner = net.concat(&[a, b], 1);
    let outer = net.concat(&[inner, x, a], 1);
    let y = conv(&mut net, outer, 8, 3, 1, 9);
    net.output(y);
    let plan = check(&net);
    let in_place = plan.values.values().filter(|v| v.part_of.is_some()).count();
    assert_eq!(in_place, 5, "{plan}");
    // The input, the output, and one buffer for everything between.
    let arena = plan.buffers.iter().filter(|b| b.place == BufferPlace::Arena).count();
    assert_eq!(arena, 1, "{plan}");
}

/// Layers that read what all layers before have made: every result is written once, into the last concatenation.
#[test]
fn concatenations_of_the_same_parts_share_them() {
    let mut net = Net::new();
    let x = net.input(&[1, 4, 5, 5]);
    let mut parts = vec![conv(&mut net, x, 8, 1, 1, 1)];
    for layer in 0..4 {
        let seen = if layer == 0 { parts[0] } else { net.concat(&parts, 1) };
        let seen = net.unary(UnaryOp::Tanh, seen);
        parts.push(conv(&mut net, seen, 3, 3, 1, 2 + layer));
    }
    // The last one has others around those that it shares.
    let around = conv(&mut net, x, 5, 1, 1, 9);
    let all: Vec<ValueId> = [around].into_iter().chain(parts).chain([around]).collect();
    let y = net.concat(&all, 1);
    let y = net.unary(UnaryOp::Tanh, y);
    net.output(y);
    let plan = check(&net);
    // Six convolutions, the functions of four values and of the last, and the copy of what the last one has twice.
    assert_eq!(plan.kernels.len(), 6 + 4 + 1 + 1, "{plan}");
    let wholes: BTreeSet<ValueId> = plan.values.values().filter_map(|v| v.part_of.as_ref().map(|p| p.whole)).collect();
    assert_eq!(wholes.len(), 4, "three within each other and the last: {plan}");
}

/// What is a part of two that do not lie within each other is copied into the second, as one.
#[test]
fn concatenations_that_branch_share_what_they_can() {
    let mut net = Net::new();
    let x = net.input(&[1, 4, 5, 5]);
    let [a, b, c, d] = [1, 2, 3, 4].map(|seed| conv(&mut net, x, 8, 1, 1, seed));
    let both = net.concat(&[a, b], 1);
    // Along another axis nothing is shared.
    let rows = net.concat(&[a, b], 2);
    let (first, second, turned) = (net.concat(&[a, b, c], 1), net.concat(&[a, b, d], 1), net.concat(&[b, a], 1));
    for whole in [both, rows, first, second, turned] {
        let y = net.unary(UnaryOp::Tanh, whole);
        net.output(y);
    }
    let plan = check(&net);
    let copies = plan.kernels.len() - 4 - 5;
    // Into the second of three one, and two each into the two that have them in another order or direction.
    assert_eq!(copies, 1 + 2 + 2, "{plan}");
}

#[test]
fn transposed_and_merged_axes_are_written_where_they_are_read() {
    // The way out of attention: [heads, rows, depth] → [rows, heads·depth] → a matrix product.
    let mut net = Net::new();
    let (q, v) = (net.input(&[2, 5, 5]), net.input(&[2, 5, 4]));
    let context = net.contract("hst,htd->hsd", q, v);
    let merged = net.view(context, &[i(1).floor_div(&c(4)), i(0), i(1).modulo(&c(4))], &[5, 8]);
    let w = net.weights(&[8, 16], 1);
    let y = net.contract("mk,kn->mn", merged, w);
    net.output(y);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}

#[test]
fn split_axes_are_read_where_they_are_written() {
    let mut net = Net::new();
    let x = net.input(&[6, 8]);
    let w = net.weights(&[8, 8], 1);
    let y = net.contract("mk,kn->mn", x, w);
    let split = net.view(y, &[i(1), i(0).scale(4) + i(2)], &[2, 6, 4]);
    let z = net.unary(UnaryOp::Tanh, split);
    net.output(z);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

#[test]
fn pooling_and_reductions() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 6]);
    let y = conv(&mut net, x, 8, 3, 1, 1);
    let (h, w) = (i(2).scale(2) + i(4) - 1, i(3).scale(2) + i(5) - 1);
    let valid = vec![within(h.clone(), 6), within(w.clone(), 6)];
    let window = net.view_or(y, &[i(0), i(1), h, w], valid, f64::NEG_INFINITY, &[1, 8, 3, 3, 3, 3]);
    let pooled = net.reduce(window, 5, BinaryOp::Max, f64::NEG_INFINITY);
    let pooled = net.reduce(pooled, 4, BinaryOp::Max, f64::NEG_INFINITY);
    let pooled = net.view(pooled, &[i(0), i(1), i(2), i(3), c(0), c(0)], &[1, 8, 3, 3]);
    let mean = net.mean(pooled, 3);
    let mean = net.mean(mean, 2);
    net.output(mean);
    check(&net);
}

#[test]
fn functions_of_bytes_join_the_product() {
    let mut net = Net::new();
    let x = net.input(&[9, 12]);
    let w = net.weights(&[12, 20], 1);
    let y = net.contract("mk,kn->mn", x, w);
    let y = net.map(&[y], |body, p| {
        let scale = body.constant(DType::F32, 40.0);
        let scaled = body.binary(BinaryOp::Mul, p[0], scale);
        let byte = body.push(ScalarOp::CastSaturating(DType::I8, scaled));
        let x = body.cast(DType::F32, byte);
        let [a, b] = [UnaryOp::Sin, UnaryOp::Sigmoid].map(|f| body.unary(f, x));
        let product = body.binary(BinaryOp::Mul, a, b);
        let scaled = body.binary(BinaryOp::Mul, product, scale);
        let byte = body.push(ScalarOp::CastSaturating(DType::I8, scaled));
        body.cast(DType::F32, byte)
    });
    net.output(y);
    assert_eq!(tabulate::run(&mut net.graph, &PassContext::default()), Changed::Yes);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    let tables = plan.kernels[0].kernel.operands.iter().filter(|o| o.dtype == DType::I8).count();
    assert_eq!(tables, 1, "{plan}");
}

#[test]
fn scattered_columns_are_turned_round() {
    let mut net = Net::new();
    let (q, k) = (net.input(&[17, 6]), net.input(&[18, 6]));
    let k = net.unary(UnaryOp::Tanh, k);
    let scores = net.contract("md,nd->mn", q, k);
    net.output(scores);
    let plan = check(&net);
    let turned = plan.kernels[1].kernel.operands.iter().find(|o| o.name == "x1").expect("the right operand");
    let strides: Vec<_> = turned.layout.strides.iter().map(|s| s.as_const().expect("static")).collect();
    assert_eq!((plan.kernels.len(), strides), (2, vec![1, 18]), "{plan}");
}

#[test]
fn computed_factors_of_bytes_lie_in_groups() {
    // 12 heads, 17 rows, 18 columns.
    for (points, grouped) in [(64, true), (62, false)] {
        let mut net = Net::new();
        let ty = |dtype, shape: [i64; 3]| TensorType::new(dtype, shape.map(Dim::constant).to_vec());
        let a = net.graph.add_input("a", ty(DType::U8, [12, 17, points]));
        let b = net.graph.add_input("b", ty(DType::I8, [12, 18, points]));
        let op = ContractOp { lhs: b"bmk".to_vec(), rhs: b"bnk".to_vec(), output: b"bmn".to_vec() };
        let origin = net.graph.origins.push(Vec::new());
        let y = net.graph.add(Op::Contract(op), &[a, b], ty(DType::I32, [12, 17, 18]), origin);
        net.output(y);
        let plan = form(&net.graph, &FormOptions::default()).expect("the graph is well formed");
        let product = &plan.kernels.last().expect("the product").kernel;
        let right = product.operands.iter().find(|o| o.name == "x1").expect("the right operand");
        let shape: Vec<_> = right.shape.iter().map(|d| d.as_const().expect("static")).collect();
        let strides: Vec<_> = right.layout.strides.iter().map(|d| d.as_const().expect("static")).collect();
        if grouped {
            assert_eq!((&shape[..], &strides[..]), (&[12, 16, 18, 4][..], &[16 * 18 * 4, 18 * 4, 4, 1][..]), "{plan}");
        } else {
            assert_eq!((&shape[..], &strides[..]), (&[12, 18, 62][..], &[62 * 18, 1, 18][..]), "{plan}");
        }
    }
}

#[test]
fn keys_of_attention_are_turned_round() {
    // q·kᵀ per head, where q and k are matrix products of [rows, heads·depth].
    let mut net = Net::new();
    let x = net.input(&[17, 8]);
    let (wq, wk) = (net.weights(&[8, 8], 1), net.weights(&[8, 8], 2));
    let (q, k) = (net.contract("mk,kn->mn", x, wq), net.contract("mk,kn->mn", x, wk));
    let q = net.view(q, &[i(1), i(0).scale(4) + i(2)], &[2, 17, 4]);
    let k = net.view(k, &[i(2), i(0).scale(4) + i(1)], &[2, 4, 17]);
    let scores = net.contract("hsd,hdt->hst", q, k);
    net.output(scores);
    let plan = check(&net);
    let right = plan.kernels.last().expect("the scores").kernel.operands.iter().find(|o| o.name == "x1");
    let strides = &right.expect("the right operand").layout.strides;
    assert!(strides[2].is_const(1), "{plan}");
}

/// A running sum along an axis.
fn scan(net: &mut Net, x: ValueId, axis: usize, reverse: bool, exclusive: bool) -> ValueId {
    use infc_ir::kernel::Reducer;
    use infc_ir::op::{Op, ScanOp};
    let shape = net.shape(x);
    let reducer = Reducer::sum(infc_tensor::DType::F32);
    net.add(Op::Scan(ScanOp { axis, reverse, exclusive, reducer }), &[x], &shape)
}

#[test]
fn running_sums() {
    for (reverse, exclusive) in [(false, false), (false, true), (true, false), (true, true)] {
        for shape in [[3, 5], [3, 1]] {
            let mut net = Net::new();
            let x = net.input(&shape);
            let twice = net.with_number(BinaryOp::Mul, x, 2.0);
            let y = scan(&mut net, twice, 1, reverse, exclusive);
            let y = net.unary(UnaryOp::Neg, y);
            let z = scan(&mut net, y, 0, exclusive, reverse);
            net.output(z);
            let plan = check(&net);
            assert_eq!(plan.kernels.len(), 2, "{plan}");
        }
    }
}

#[test]
fn a_padded_slice_is_copied_first() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 9]);
    let x = net.unary(UnaryOp::Tanh, x);
    let part = net.view(x, &[i(0), i(1), i(2), i(3) + 2], &[1, 8, 6, 6]);
    let y = conv(&mut net, part, 8, 3, 1, 1);
    let sum = net.reduce(x, 1, BinaryOp::Add, 0.0);
    net.output(y);
    net.output(sum);
    let plan = check(&net);
    let halo: Vec<_> = plan.values.values().filter(|v| v.layout.has_halo()).map(|v| v.layout.halo.clone()).collect();
    assert_eq!(halo, [[(0, 0), (0, 0), (1, 1), (1, 1)]], "{plan}");
}

/// Channels that are normalised in groups, which have their points on one axis or on two: the image has a halo, and no
/// point is there once per tap.
#[test]
fn a_convolution_of_grouped_channels_reads_an_image() {
    for joined in [true, false] {
        let mut net = Net::new();
        let image = if joined {
            let groups = net.input(&[1, 4, 84]);
            let groups = net.unary(UnaryOp::Tanh, groups);
            let mean = net.mean(groups, 2);
            let centred = net.binary(BinaryOp::Sub, groups, mean);
            let flat = i(1).scale(42) + i(2).scale(7) + i(3);
            net.view(centred, &[i(0), flat.floor_div(&c(84)), flat.modulo(&c(84))], &[1, 8, 6, 7])
        } else {
            let groups = net.input(&[1, 4, 2, 6, 7]);
            let groups = net.unary(UnaryOp::Tanh, groups);
            let mean = net.mean(groups, 2);
            let centred = net.binary(BinaryOp::Sub, groups, mean);
            net.view(centred, &[i(0), i(1).floor_div(&c(2)), i(1).modulo(&c(2)), i(2), i(3)], &[1, 8, 6, 7])
        };
        let mut outputs = vec![conv(&mut net, image, 8, 3, 1, 1), conv(&mut net, image, 16, 3, 2, 5)];
        if !joined {
            // Without padding, which would tell the coordinates of points that are on one axis.
            let wide = net.view(image, &[i(0), i(1), i(2) + i(4), i(3) + i(5)], &[1, 8, 5, 5, 2, 3]);
            let weights = net.weights(&[4, 8, 2, 3], 9);
            outputs.push(net.contract("nchwrs,kcrs->nkhw", wide, weights));
            // Conditions that leave more than there is.
            let (h, w) = (i(2) + i(4) - 1, i(3) + i(5) - 1);
            let valid = vec![within(h.clone(), 60), within(w.clone(), 60)];
            let wide = net.view_or(image, &[i(0), i(1), h, w], valid, 0.0, &[1, 8, 6, 7, 2, 2]);
            let weights = net.weights(&[8, 8, 2, 2], 11);
            outputs.push(net.contract("nchwrs,kcrs->nkhw", wide, weights));
        }
        // Padded along one axis alone, which the other's points are on, too, if they are joined.
        let (h, w) = (i(2) + i(4) - 1, i(3) + i(5));
        let half = net.view_or(image, &[i(0), i(1), h.clone(), w], vec![within(h, 6)], 0.0, &[1, 8, 6, 5, 3, 3]);
        let weights = net.weights(&[8, 8, 3, 3], 13);
        outputs.push(net.contract("nchwrs,kcrs->nkhw", half, weights));
        // Padded twice.
        let (h, w) = (i(2) - 2, i(3) - 2);
        let valid = vec![within(h.clone(), 6), within(w.clone(), 7)];
        let wide = net.view_or(image, &[i(0), i(1), h, w], valid, 0.0, &[1, 8, 10, 11]);
        outputs.push(conv(&mut net, wide, 8, 7, 1, 15));
        outputs.into_iter().for_each(|value| net.output(value));
        net.optimize();
        let plan = check(&net);
        let halo: Vec<_> = plan.values.values().filter(|v| v.layout.has_halo()).map(|v| &v.layout.halo).collect();
        assert!(halo.iter().any(|halo| halo[halo.len() - 2..] == [(1, 1), (1, 1)]), "{plan}");
        let by_taps = plan.values.values().filter(|v| v.layout.strides.len() == 6).count();
        // What is padded twice, and what is said to be wider than it is, is copied as it is read.
        assert_eq!(by_taps, 1 + usize::from(!joined), "{plan}");
    }
}

#[test]
fn nothing_is_a_shape_too() {
    let mut net = Net::new();
    let (none, some) = (net.input(&[0, 4]), net.input(&[2, 4]));
    let w = net.weights(&[4, 16], 1);
    let y = net.contract("mk,kn->mn", none, w);
    let both = net.concat(&[none, some], 0);
    let sum = net.reduce(none, 0, BinaryOp::Add, 0.0);
    let empty = net.weights(&[0, 3], 2);
    let turned = net.transpose(none, &[1, 0]);
    let z = net.contract("mk,kn->mn", turned, empty);
    for value in [y, both, sum, z] {
        net.output(value);
    }
    check(&net);
}

#[test]
fn halves_are_summed_in_single_precision() {
    let mut net = Net::new();
    let shape = |d: &[i64]| d.iter().map(|&d| Dim::constant(d)).collect::<Vec<_>>();
    let cast = |net: &mut Net, x: ValueId, to: DType| {
        let mut body = Body::default();
        let from = net.graph.ty(x).clone();
        let param = body.param(0, from.dtype);
        let result = body.cast(to, param);
        let origin = net.graph.origins.push(vec!["cast".to_owned()]);
        net.graph.add(Op::Map(MapOp { body, results: vec![result] }), &[x], TensorType::new(to, from.shape), origin)
    };
    let (x, w) = (net.input(&[3, 40]), net.weights(&[40, 16], 1));
    let (x, w) = (cast(&mut net, x, DType::F16), cast(&mut net, w, DType::F16));
    let op = infc_ir::op::ContractOp { lhs: vec![0, 1], rhs: vec![1, 2], output: vec![0, 2] };
    let origin = net.graph.origins.push(vec!["product".to_owned()]);
    let y = net.graph.add(Op::Contract(op), &[x, w], TensorType::new(DType::F16, shape(&[3, 16])), origin);
    let y = cast(&mut net, y, DType::F32);
    let y = net.with_number(BinaryOp::Mul, y, 0.5);
    net.output(y);
    let plan = check(&net);
    let contraction = plan.kernels.last().expect("the last one");
    let sum = contraction.kernel.stages.iter().next().expect("a sum");
    assert_eq!(sum.dtypes(), [DType::F32], "{}", contraction.kernel);
}

#[test]
fn outputs_that_are_inputs_constants_or_the_same() {
    let mut net = Net::new();
    let x = net.input(&[2, 3]);
    let w = net.weights(&[2, 3], 1);
    let y = net.binary(BinaryOp::Add, x, w);
    let t = net.transpose(y, &[1, 0]);
    for value in [x, w, y, y, t] {
        net.output(value);
    }
    let plan = check(&net);
    assert_eq!(plan.buffers.len(), 6, "{plan}");
}

#[test]
fn look_ups_join_what_reads_them() {
    use infc_tensor::Tensor;
    let mut net = Net::new();
    let table = net.input(&[7, 4]);
    let positions = Tensor::from_elements(&[3], &[6i64, -2, 1]).expect("three");
    let rows = net.gather(table, positions, 0);
    let bias = net.input(&[3, 4]);
    let y = net.binary(BinaryOp::Add, rows, bias);
    net.output(y);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
}

/// What mixes tokens does as well with lanes along channels, where those that mix channels want them side by side.
#[test]
fn products_go_with_their_neighbours() {
    let mut net = Net::new();
    let x = net.input(&[1, 12, 80]);
    let w = net.weights(&[80, 96], 1);
    let a = net.contract("btc,cd->btd", x, w);
    let a = net.unary(UnaryOp::Tanh, a);
    let w = net.weights(&[12, 12], 2);
    let mixed = net.contract("bsc,ts->btc", a, w);
    let mixed = net.unary(UnaryOp::Tanh, mixed);
    let w = net.weights(&[96, 80], 3);
    let y = net.contract("btc,cd->btd", mixed, w);
    net.output(y);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    assert_eq!(layouts(&plan, 1, "x0").0, [12 * 96, 96, 1], "{plan}");
    assert_eq!(layouts(&plan, 1, "y0").0, [12 * 96, 96, 1], "{plan}");
    // Nobody wants the result of convolutions in rows.
    let mut net = Net::new();
    let x = net.input(&[1, 8, 96]);
    let a = conv1x1(&mut net, x, 16, 1);
    let b = conv1x1(&mut net, a, 24, 2);
    let c = conv1x1(&mut net, b, 16, 3);
    net.output(c);
    let plan = check(&net);
    assert_eq!(layouts(&plan, 1, "y0").0, [96 * 24, 1, 24], "{plan}");
}

/// A convolution of one tap over `[n, c, w]`, with a ramp.
fn conv1x1(net: &mut Net, x: ValueId, channels: usize, seed: u32) -> ValueId {
    let from = net.shape(x)[1] as usize;
    let w = net.weights(&[channels, from], seed);
    let y = net.contract("ncw,kc->nkw", x, w);
    net.with_number(BinaryOp::Max, y, 0.0)
}

/// Maps that read a value twice are walked through once on the way from an output to what made it.
#[test]
fn squares_of_squares_take_no_time() {
    let mut net = Net::new();
    let mut x = net.input(&[1, 16, 4, 4]);
    for _ in 0..100 {
        x = net.binary(BinaryOp::Mul, x, x);
    }
    net.output(x);
    let plan = form(&net.graph, &FormOptions::default()).expect("it is well formed");
    assert!(!plan.kernels.is_empty());
}

/// An image whose rows and columns are one axis of tokens in what it shows has room around it where padded windows move over it,
/// also when views have been put together.
#[test]
fn images_of_tokens_have_a_halo() {
    let mut net = Net::new();
    let x = net.input(&[1, 42, 4]);
    let tokens = net.unary(UnaryOp::Tanh, x);
    let image = net.view(tokens, &[c(0), i(2).scale(7) + i(3), i(1)], &[1, 4, 6, 7]);
    let y = conv(&mut net, image, 8, 3, 1, 1);
    net.output(y);
    net.optimize();
    let plan = check(&net);
    // What makes the tokens writes the image.
    assert_eq!(plan.kernels.len(), 2, "{plan}");
    assert_eq!(layouts(&plan, 1, "x0").1[2..], [(1, 1), (1, 1)], "{plan}");
}
