//! Constant folding and hoisting.

use super::build::{Net, c, i};
use infc_ir::entity::ValueId;
use infc_ir::graph::Requirement;
use infc_ir::kernel::Reducer;
use infc_ir::op::{MapOp, Op, ReduceOp};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp};
use infc_passes::graph::{Changed, PassContext, PassError, PassOptions, fold};
use infc_tensor::{DType, Tensor};

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

/// Functions of coordinates alone become tables if they take longer than a look-up, and are not too large.
#[test]
fn sines_of_positions_are_tables_and_masks_are_not() {
    for (extent, dear, folded) in [(40, true, true), (40, false, false), (600, true, false)] {
        let mut net = Net::new();
        let x = net.input(&[extent, extent]);
        let mut body = Body::default();
        let place = body.push(ScalarOp::Index(i(0) * i(1)));
        let place = body.cast(DType::F32, place);
        let result = if dear { body.unary(UnaryOp::Cos, place) } else { body.unary(UnaryOp::Neg, place) };
        let table = net.add(Op::Map(MapOp { body, results: vec![result] }), &[], &[extent, extent]);
        let y = net.contract("mk,kn->mn", x, table);
        net.output(y);
        net.pass("fold", &PassContext::default());
        assert_eq!(constants(&net), if folded { vec![(extent * extent) as usize] } else { vec![] }, "{extent} {dear}");
    }
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

/// `rows` places, each with the number (or the value) of the updates that are meant for it, as scatters ask.
fn asked(net: &mut Net, rows: i64, targets: &[f32], reducer: BinaryOp, init: f64) -> ValueId {
    let shape = [3, rows, targets.len() as i64];
    let targets = Tensor::from_elements(&[targets.len()], targets).expect("a list");
    let (targets, updates) = (net.tensor("targets", targets), net.weights(&[3, shape[2] as usize], 1));
    let (target, update) = (net.view(targets, &[i(2)], &shape), net.view(updates, &[i(0), i(2)], &shape));
    let mut body = Body::default();
    let (target_of, value) = (body.param(0, DType::F32), body.param(1, DType::F32));
    let target_of = body.cast(DType::I64, target_of);
    let row = body.push(ScalarOp::Index(i(1)));
    let number = body.push(ScalarOp::Index(i(2)));
    let number = body.cast(DType::F32, number);
    let element = if reducer == BinaryOp::Add { value } else { number };
    let here = body.compare(CompareOp::Eq, target_of, row);
    let nothing = body.constant(DType::F32, init);
    let element = body.select(here, element, nothing);
    let reducer = Reducer::binary(reducer, Const::from_f64(DType::F32, init));
    let op = Op::Reduce(ReduceOp { axes: vec![2], body, elements: vec![element], reducer });
    net.add(op, &[target, update], &[3, rows])
}

/// Places that nothing is meant for, several updates for one, and updates for no place.
#[test]
fn what_is_meant_for_one_place_is_folded_there() {
    for (reducer, init) in [(BinaryOp::Max, -1.0), (BinaryOp::Add, 0.0)] {
        let mut net = Net::new();
        let y = asked(&mut net, 5, &[4.0, 1.0, -3.0, 1.0, 5.0, 0.0, 1e9], reducer, init);
        let x = net.input(&[3, 5]);
        let y = net.binary(BinaryOp::Add, x, y);
        net.output(y);
        net.optimize();
        assert_eq!(net.ops(), ["map"]);
    }
}

/// Asking every update about every place would take 2^32 steps.
#[test]
fn many_places_and_updates_are_no_product() {
    let mut net = Net::new();
    let targets: Vec<f32> = (0..1 << 15).map(|n| (n * 7 % (1 << 15)) as f32).collect();
    let y = asked(&mut net, 1 << 15, &targets, BinaryOp::Max, -1.0);
    net.output(y);
    assert_eq!(fold::run(&mut net.graph, &PassContext::default()), Ok(Changed::Yes));
    assert!(net.ops().iter().all(|&op| op == "view"), "{:?}", net.ops());
    let Some((_, node)) = net.graph.producer(net.graph.outputs[0].value) else { panic!("an output is computed") };
    let Op::Constant(folded) = &node.op else { panic!("{:?}", node.op.name()) };
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(folded.tensor.get_f64(*target as usize), Some(n as f64));
    }
}

/// What takes many steps for every byte may be a larger constant than what it is made from.
#[test]
fn what_takes_long_may_be_larger() {
    for (updates, changed) in [(1 << 8, Changed::Yes), (2, Changed::No)] {
        let mut net = Net::new();
        let y = asked(&mut net, 1 << 14, &vec![3.0; updates], BinaryOp::Max, -1.0);
        net.output(y);
        let cx = PassContext::new(PassOptions { fold_limit_bytes: 0, ..PassOptions::default() });
        assert_eq!(fold::run(&mut net.graph, &cx), Ok(changed), "{updates}");
    }
}

/// Folded reductions have the bits that the interpreter gives: any axes, any order-dependent fold, more points than a block.
#[test]
fn reductions_of_constants_are_what_they_are_defined_as() {
    for axes in [vec![0], vec![1], vec![2], vec![0, 2], vec![1, 2], vec![0, 1, 2]] {
        for op in [BinaryOp::Add, BinaryOp::Max, BinaryOp::Mul, BinaryOp::Sub] {
            let mut net = Net::new();
            let w = net.weights(&[7, 11, 13], 5);
            let mut body = Body::default();
            let x = body.param(0, DType::F32);
            let element = body.unary(UnaryOp::Exp, x);
            let reducer = Reducer::binary(op, Const::from_f64(DType::F32, 0.5));
            let kept: Vec<i64> =
                [7, 11, 13].into_iter().enumerate().filter(|(a, _)| !axes.contains(a)).map(|(_, d)| d).collect();
            let reduce = ReduceOp { axes: axes.clone(), body, elements: vec![element], reducer };
            let y = net.add(Op::Reduce(reduce), &[w], &kept);
            net.output(y);
            let before = net.outputs();
            assert!(net.pass("fold", &PassContext::default()), "{axes:?}");
            net.pass("dce", &PassContext::default());
            assert_eq!(constants(&net).len(), 1, "{axes:?}");
            let after = net.outputs();
            assert_eq!(before[0].bytes(), after[0].bytes(), "{op:?} along {axes:?}");
        }
    }
}

/// What is folded need not be stored before, however large it would be.
#[test]
fn sums_of_maps_of_constants_are_computed_though_the_map_is_not() {
    let mut net = Net::new();
    let bytes: Vec<u8> = (0..40 * 30).map(|n| (n * 37 % 256) as u8).collect();
    let w = net.tensor("w", Tensor::from_elements(&[40, 30], &bytes).expect("as many as the shape says"));
    let less_zero_point = net.map(&[w], |body, _| {
        let x = body.param(0, DType::U8);
        let wide = body.cast(DType::F32, x);
        let zero_point = body.constant(DType::F32, 119.0);
        body.binary(BinaryOp::Sub, wide, zero_point)
    });
    let mut body = Body::default();
    let x = body.param(0, DType::F32);
    let twice = body.binary(BinaryOp::Add, x, x);
    let reducer = Reducer::binary(BinaryOp::Add, Const::from_f64(DType::F32, 0.0));
    let reduce = ReduceOp { axes: vec![0], body, elements: vec![twice], reducer };
    let y = net.add(Op::Reduce(reduce), &[less_zero_point], &[30]);
    net.output(y);
    let before = net.outputs();
    let cx = PassContext::new(PassOptions { fold_limit_bytes: 1000, ..PassOptions::default() });
    net.pass("fold", &cx);
    assert!(cx.notes().iter().any(|n| n.pass == "fold"), "the map is four times as large as the bytes");
    net.pass("dce", &cx);
    assert_eq!(constants(&net), [30]);
    assert_eq!(before[0].bytes(), net.outputs()[0].bytes());
}
