//! Views, maps, duplicates, contraction labels.

use super::build::{Net, c, i, within};
use infc_ir::graph::{Graph, MAX_ORIGIN_NAMES, TensorType};
use infc_ir::index::Dim;
use infc_ir::interp::run_graph;
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp, UnaryOp};
use infc_ir::verify::verify_graph;
use infc_passes::graph::{Changed, PassContext, PassOptions, count, optimize};
use infc_tensor::{DType, Tensor};

#[test]
fn equal_nodes_and_equal_constants_become_one() {
    let mut net = Net::new();
    let x = net.input(&[2, 3]);
    let (v, w) = (net.weights(&[3], 1), net.weights(&[3], 1));
    let (a, b) = (net.binary(BinaryOp::Mul, x, v), net.binary(BinaryOp::Mul, x, w));
    let y = net.binary(BinaryOp::Sub, a, b);
    net.output(y);
    assert!(net.pass("cse", &PassContext::default()));
    net.pass("dce", &PassContext::default());
    assert_eq!(net.ops(), ["view", "map", "map"]);
    assert_eq!(net.graph.order.len(), 4, "one constant is left");
}

#[test]
fn a_value_that_stands_for_many_nodes_names_some() {
    let mut net = Net::new();
    let x = net.input(&[3]);
    for n in 0..500 {
        let y = net.unary(UnaryOp::Exp, x);
        let origin = net.graph.origins.push(vec![format!("node{n:03}")]);
        let (node, _) = net.graph.producer(y).expect("just added");
        net.graph.nodes[node].origin = origin;
        net.output(y);
    }
    assert!(net.pass("cse", &PassContext::default()));
    let [only] = net.graph.order[..] else { panic!("{} nodes", net.graph.order.len()) };
    let names = &net.graph.origins[net.graph.nodes[only].origin];
    assert_eq!((names.len(), names[0].as_str()), (MAX_ORIGIN_NAMES, "node000"));
    // Nothing is made for names that are left out.
    assert!(net.graph.origins.len() < 2 * 500, "{}", net.graph.origins.len());
}

#[test]
fn constants_that_differ_in_one_element_stay_apart() {
    let mut net = Net::new();
    let x = net.input(&[4096]);
    let a = net.weights(&[4096], 1);
    let mut other = super::build::noise(&[4096], 1);
    other.elements_mut::<f32>().expect("f32")[1001] += 1.0;
    let b = net.tensor("other", other);
    let sum = net.binary(BinaryOp::Add, x, a);
    let y = net.binary(BinaryOp::Sub, sum, b);
    net.output(y);
    assert!(!net.pass("cse", &PassContext::default()));
}

#[test]
fn transposes_cancel() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4]);
    let t = net.transpose(x, &[2, 0, 1]);
    let back = net.transpose(t, &[1, 2, 0]);
    net.output(back);
    net.optimize();
    assert!(net.ops().is_empty());
}

#[test]
fn a_map_between_opposite_transposes_moves_out() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4, 5]);
    let t = net.transpose(x, &[0, 2, 3, 1]);
    let relu = net.unary(UnaryOp::Tanh, t);
    let back = net.transpose(relu, &[0, 3, 1, 2]);
    net.output(back);
    net.optimize();
    assert_eq!(net.ops(), ["map"]);
}

#[test]
fn reshapes_that_undo_each_other_vanish() {
    let mut net = Net::new();
    let x = net.input(&[6, 4]);
    let split = net.view(x, &[i(0).scale(2) + i(1), i(2)], &[3, 2, 4]);
    let merged = net.view(split, &[i(0).floor_div(&c(2)), i(0).modulo(&c(2)), i(1)], &[6, 4]);
    net.output(merged);
    net.optimize();
    assert!(net.ops().is_empty());
}

#[test]
fn padding_with_different_values_stays_in_two_views() {
    for (second, views) in [(0.0, 1), (1.0, 2)] {
        let mut net = Net::new();
        let x = net.input(&[3]);
        let inner = net.view_or(x, &[i(0) - 1], vec![within(i(0) - 1, 3)], 0.0, &[5]);
        let outer = net.view_or(inner, &[i(0) - 1], vec![within(i(0) - 1, 5)], second, &[7]);
        net.output(outer);
        let cx = net.optimize();
        assert_eq!(net.ops().len(), views, "{second}");
        assert_eq!(cx.notes().is_empty(), views == 1);
    }
}

#[test]
fn a_gather_of_positions_on_a_line_is_a_slice() {
    for (positions, is_slice) in [(vec![1i64, 3, 5], true), (vec![-1, -2, -3], true), (vec![0, 1, 3], false)] {
        let mut net = Net::new();
        let x = net.input(&[2, 6, 3]);
        let len = positions.len();
        let y = net.gather(x, Tensor::from_elements(&[len], &positions).expect("fits"), 1);
        net.output(y);
        net.optimize();
        assert_eq!(net.ops() == ["view"], is_slice, "{positions:?}");
    }
    let mut net = Net::new();
    let x = net.input(&[3, 2, 4]);
    let y = net.gather(x, Tensor::scalar(-1i64), 0);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["view"]);
}

/// Of a table what is looked up is converted, if that is less; the pass alone is looked at, since so small a table is
/// converted when compiling.
#[test]
fn what_is_looked_up_is_converted_behind_the_gather() {
    for (rows, positions, is_moved) in [(9usize, vec![7i64, 2, 5], true), (2, vec![1, 0, 1], false)] {
        let mut net = Net::new();
        let table = net.weights(&[rows, 4], 3);
        let scaled = net.with_number(BinaryOp::Mul, table, 0.25);
        let positions = Tensor::from_elements(&[positions.len()], &positions).expect("fits");
        let y = net.gather(scaled, positions, 0);
        net.output(y);
        let before = net.outputs();
        net.pass("map", &PassContext::default());
        net.pass("dce", &PassContext::default());
        let expected = if is_moved { ["gather", "map"] } else { ["map", "gather"] };
        assert_eq!(net.ops(), expected, "{rows} rows");
        super::build::assert_close(&before, &net.outputs());
    }
    // Not what other steps compute: their maps belong to them.
    let mut net = Net::new();
    let x = net.input(&[9, 4]);
    let scaled = net.with_number(BinaryOp::Mul, x, 0.25);
    let y = net.gather(scaled, Tensor::from_elements(&[2], &[7i64, 2]).expect("fits"), 0);
    net.output(y);
    net.pass("map", &PassContext::default());
    net.pass("dce", &PassContext::default());
    assert_eq!(net.ops(), ["map", "gather"]);
}

#[test]
fn chains_of_maps_become_one_with_numbers_in_the_body() {
    let mut net = Net::new();
    let x = net.input(&[4, 4]);
    let a = net.with_number(BinaryOp::Mul, x, 3.0);
    let b = net.with_number(BinaryOp::Add, a, 0.5);
    let y = net.unary(UnaryOp::Exp, b);
    net.output(y);
    net.optimize();
    assert_eq!(net.ops(), ["map"]);
    assert_eq!(net.graph.order.len(), 1, "no constant is left");
    let consts = net.maps()[0].body.ops.iter().filter(|op| matches!(op, ScalarOp::Const(_))).count();
    assert_eq!(consts, 2);
}

#[test]
fn an_expensive_map_with_two_readers_is_computed_once() {
    let mut net = Net::new();
    let x = net.input(&[4]);
    let e = net.unary(UnaryOp::Exp, x);
    let (a, b) = (net.unary(UnaryOp::Sqrt, e), net.unary(UnaryOp::Log, e));
    net.output(a);
    net.output(b);
    net.optimize();
    assert_eq!(net.ops(), ["map", "map", "map"]);
}

#[test]
fn contractions_take_up_transposes_and_broadcasts() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4]);
    let k = net.input(&[5, 4]);
    let kt = net.transpose(k, &[1, 0]);
    let spread = net.spread(kt, &[2, 4, 5]);
    let y = net.contract("bmk,bkn->bmn", x, spread);
    let yt = net.transpose(y, &[0, 2, 1]);
    net.output(yt);
    net.optimize();
    assert_eq!(net.ops(), ["contract"]);
    let Op::Contract(op) = &net.graph.nodes[net.graph.order[0]].op else { panic!("a contraction") };
    assert_eq!((op.lhs.as_slice(), op.rhs.as_slice(), op.output.as_slice()), (&b"bmk"[..], &b"nk"[..], &b"bnm"[..]));
}

#[test]
fn a_broadcast_label_that_only_one_operand_has_stays() {
    let mut net = Net::new();
    let x = net.input(&[3, 4]);
    let y = net.input(&[4, 1]);
    let spread = net.spread(y, &[4, 5]);
    let z = net.contract("mk,kn->mn", x, spread);
    net.output(z);
    net.optimize();
    assert_eq!(net.ops(), ["view", "contract"]);
}

#[test]
fn projections_of_one_input_merge_when_asked() {
    let build = || {
        let mut net = Net::new();
        let x = net.input(&[3, 8]);
        let mut parts = Vec::new();
        for seed in 0..3 {
            let w = net.weights(&[8, 4 + seed], seed as u32);
            parts.push(net.contract("mk,kn->mn", x, w));
        }
        parts.iter().for_each(|&p| net.output(p));
        net
    };
    let mut apart = build();
    apart.optimize();
    assert_eq!(apart.ops(), ["contract"; 3]);
    let mut merged = build();
    merged.optimize_with(PassContext::new(PassOptions { horizontal: true, ..PassOptions::default() }));
    assert_eq!(merged.ops(), ["contract", "view", "view", "view"]);
}

/// What is added to them is merged, too, if something is added to all of them alike, and to nothing else.
#[test]
fn biases_of_merged_projections_merge() {
    let build = |last: BinaryOp| {
        let mut net = Net::new();
        let x = net.input(&[3, 8]);
        for (seed, function) in [BinaryOp::Add, BinaryOp::Add, last].into_iter().enumerate() {
            let columns = 4 + seed;
            let w = net.weights(&[8, columns], seed as u32);
            let bias = net.weights(&[columns], 7 + seed as u32);
            let product = net.contract("mk,kn->mn", x, w);
            let along = net.view(bias, &[i(1)], &[3, columns as i64]);
            let y = net.binary(function, product, along);
            net.output(y);
        }
        net.optimize_with(PassContext::new(PassOptions { horizontal: true, ..PassOptions::default() }));
        net.ops().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(build(BinaryOp::Add), ["contract", "view", "map", "view", "view", "view"]);
    // Two of them do the same.
    let apart = build(BinaryOp::Max);
    let count = |what: &str| apart.iter().filter(|op| *op == what).count();
    assert_eq!((count("contract"), count("map")), (2, 2), "{apart:?}");
}

/// Columns have other numbers in what is merged.
#[test]
fn functions_that_test_their_place_stay_apart() {
    let mut net = Net::new();
    let x = net.input(&[3, 8]);
    for seed in 0..2 {
        let w = net.weights(&[8, 4], seed);
        let bias = net.weights(&[4], 7 + seed);
        let product = net.contract("mk,kn->mn", x, w);
        let along = net.view(bias, &[i(1)], &[3, 4]);
        let mut body = Body::default();
        let (a, b) = (body.param(0, DType::F32), body.param(1, DType::F32));
        let sum = body.binary(BinaryOp::Add, a, b);
        let inside = body.push(ScalarOp::InBounds(vec![within(i(1), 3)]));
        let zero = body.constant(DType::F32, 0.0);
        let result = body.push(ScalarOp::Select(inside, sum, zero));
        let y = net.add(Op::Map(MapOp { body, results: vec![result] }), &[product, along], &[3, 4]);
        net.output(y);
    }
    assert!(!net.pass("horizontal", &PassContext::new(PassOptions { horizontal: true, ..PassOptions::default() })));
}

#[test]
fn dead_nodes_leave_the_order() {
    let mut net = Net::new();
    let x = net.input(&[2]);
    let dead = net.unary(UnaryOp::Exp, x);
    net.unary(UnaryOp::Log, dead);
    net.output(x);
    assert!(net.pass("dce", &PassContext::default()));
    assert!(net.graph.order.is_empty());
}

/// Taps five apart on four rows and six columns: above and below there is padding alone, to the left and right not.
#[test]
fn taps_that_meet_padding_alone_are_left_out() {
    let windows = |padding: f64, dilation: i64| {
        let mut net = Net::new();
        let x = net.input(&[1, 2, 4, 6]);
        let w = net.weights(&[3, 2, 3, 3], 1);
        let y = net.dilated_conv(x, w, dilation, dilation, padding);
        net.output(y);
        let changed = net.pass("taps", &PassContext::default());
        // An axis at a time.
        net.pass("taps", &PassContext::default());
        let inputs = net.graph.nodes[*net.graph.order.last().expect("a node")].inputs.clone();
        (changed, net.shape(inputs[0])[4..].to_vec(), net.shape(inputs[1])[2..].to_vec())
    };
    assert_eq!(windows(0.0, 5), (true, vec![1, 3], vec![1, 3]));
    assert_eq!(windows(0.0, 6), (true, vec![1, 1], vec![1, 1]));
    assert_eq!(windows(0.0, 3), (false, vec![3, 3], vec![3, 3]), "every tap meets the image somewhere");
    assert_eq!(windows(1.0, 6), (false, vec![3, 3], vec![3, 3]), "ones are not nothing");
}

/// A window that lies beside the image altogether still gives its zeros.
#[test]
fn one_tap_stays_where_all_meet_padding() {
    let mut net = Net::new();
    let x = net.input(&[1, 2, 4, 4]);
    let index = [i(0), i(1), i(2) + i(4) + 4, i(3) + i(5)];
    let valid = vec![within(index[2].clone(), 4), within(index[3].clone(), 4)];
    let window = net.view_or(x, &index, valid, 0.0, &[1, 2, 2, 2, 3, 3]);
    let w = net.weights(&[3, 2, 3, 3], 1);
    let y = net.contract("nchwyx,ocyx->nohw", window, w);
    net.output(y);
    assert!(net.pass("taps", &PassContext::default()));
    let inputs = net.graph.nodes[*net.graph.order.last().expect("a node")].inputs.clone();
    assert_eq!(net.shape(inputs[0])[4..], [1, 3]);
}

#[test]
fn parts_that_are_quantised_together_are_quantised_apart() {
    for others in [false, true] {
        let mut net = Net::new();
        let (a, b) = (net.input(&[3, 2]), net.input(&[3, 5]));
        let (a, b) = (net.with_number(BinaryOp::Mul, a, 0.3), net.unary(UnaryOp::Tanh, b));
        let whole = net.concat(&[a, b], 1);
        let mut body = Body::default();
        let x = body.param(0, DType::F32);
        let scale = body.constant(DType::F32, 100.0);
        let scaled = body.binary(BinaryOp::Mul, x, scale);
        let byte = body.push(ScalarOp::CastSaturating(DType::I8, scaled));
        let ty = TensorType::new(DType::I8, [3, 7].map(Dim::constant).to_vec());
        let origin = net.graph.origins.push(Vec::new());
        let quantised = net.graph.add(Op::Map(MapOp { body, results: vec![byte] }), &[whole], ty, origin);
        net.output(quantised);
        if others {
            net.output(whole);
        }
        let before = net.outputs();
        optimize(&mut net.graph, &PassContext::default()).expect("the passes succeed");
        assert!(before.iter().zip(&net.outputs()).all(|(a, b)| a.bytes() == b.bytes()));
        let expected: &[&str] = if others { &["map", "map", "concat", "map"] } else { &["map", "map", "concat"] };
        assert_eq!(net.ops(), expected);
    }
}

/// Running sums of a number are positions, from either end, with an element itself or without.
#[test]
fn running_sums_of_a_number() {
    let scanned = |dtype: &str, way: &str| {
        let text = format!(
            "graph @count() -> (y: %2) {{\n  %0 = const \"c\" : {dtype}[] = [3]\n  %1 = view [i0, i1 -> ] %0 : {dtype}[2, 5]\n  \
             %2 = scan 1 {way}fold sum %1 : {dtype}[2, 5]\n}}"
        );
        let mut graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
        let before = run_graph(&graph, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
        let changed = count::run(&mut graph, &PassContext::default()).expect("no errors");
        verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run_graph(&graph, &[], &[]).unwrap_or_else(|e| panic!("{e}")), before, "{dtype} {way}");
        changed
    };
    for way in ["", "exclusive ", "reverse ", "reverse exclusive "] {
        assert_eq!(scanned("i64", way), Changed::Yes);
        assert_eq!(scanned("i32", way), Changed::Yes);
        assert_eq!(scanned("f32", way), Changed::No, "sums of floats round");
    }
}
