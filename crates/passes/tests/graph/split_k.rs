//! Long sums of products with few results in parts: which are split, into how many, and that the meaning stays.

use super::build::{Net, assert_close, i, within};
use infc_ir::entity::ValueId;
use infc_ir::graph::TensorType;
use infc_ir::op::Op;
use infc_ir::verify::verify_graph;
use infc_passes::graph::{Changed, split_k};
use infc_tensor::DType;

/// The parts that sums were split into, after the pass for a GPU of so many blocks.
fn parts(net: &mut Net, blocks: i64) -> Vec<i64> {
    let before = net.outputs();
    let contractions = |net: &Net| -> Vec<ValueId> {
        let nodes = net.graph.order.iter().map(|&id| &net.graph.nodes[id]);
        nodes.filter(|node| matches!(node.op, Op::Contract(_))).map(|node| node.outputs[0]).collect()
    };
    let ranks: Vec<usize> = contractions(net).into_iter().map(|value| net.shape(value).len()).collect();
    let changed = split_k::run(&mut net.graph, blocks);
    verify_graph(&net.graph).unwrap_or_else(|e| panic!("{e}"));
    assert_close(&before, &net.outputs());
    let found: Vec<i64> = contractions(net)
        .into_iter()
        .zip(ranks)
        .map(|(value, rank)| if net.shape(value).len() > rank { net.shape(value)[0] } else { 1 })
        .collect();
    assert_eq!(changed == Changed::Yes, found.iter().any(|&parts| parts > 1));
    found
}

fn product(rows: i64, columns: usize, terms: i64) -> Net {
    let mut net = Net::new();
    let x = net.input(&[rows, terms]);
    let w = net.weights(&[terms as usize, columns], 1);
    let y = net.contract("mk,kn->mn", x, w);
    net.output(y);
    net
}

#[test]
fn as_many_parts_as_keep_a_gpu_busy() {
    // Two tiles.
    assert_eq!(parts(&mut product(49, 32, 4096), 108), [8]);
    assert_eq!(parts(&mut product(49, 32, 4096), 2), [4], "four blocks for each of two");
    assert_eq!(parts(&mut product(160, 32, 4096), 2), [1], "twice as many blocks would be too many");
    // 66 times 32 terms are not four times something.
    assert_eq!(parts(&mut product(32, 32, 2112), 108), [2]);
    assert_eq!(parts(&mut product(32, 32, 960), 108), [1], "too few terms");
    assert_eq!(parts(&mut product(1, 64, 4096), 108), [1], "one row");
    assert_eq!(parts(&mut product(480, 480, 2048), 50), [1], "225 tiles");
}

/// A convolution of an image with padding: the sum is split along its channels, and what surrounds the image stays zero.
#[test]
fn convolutions() {
    let mut net = Net::new();
    let x = net.input(&[1, 128, 5, 4]);
    let w = net.weights(&[16, 128, 3, 3], 2);
    let (y, z) = (i(2) + i(4) - 1, i(3) + i(5) - 1);
    let window = net.view_or(
        x,
        &[i(0), i(1), y.clone(), z.clone()],
        vec![within(y, 5), within(z, 4)],
        0.0,
        &[1, 128, 5, 4, 3, 3],
    );
    let y = net.contract("nchwyx,ocyx->nohw", window, w);
    net.output(y);
    assert_eq!(parts(&mut net, 108), [2]);
    // The views are of the image and the weights, not of views.
    let views = net.graph.order.iter().filter(|&&id| matches!(net.graph.nodes[id].op, Op::View(_)));
    let of_views = views.filter(|&&id| {
        let from = net.graph.producer(net.graph.nodes[id].inputs[0]);
        from.is_some_and(|(_, node)| matches!(node.op, Op::View(_)))
    });
    assert_eq!(of_views.count(), 0);
}

/// Several products at once have tiles each; products of halves are summed in f32 and rounded once.
#[test]
fn batches_and_halves() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[3, 20, 1024]), net.input(&[3, 40, 1024]));
    let y = net.contract("bmk,bnk->bmn", a, b);
    net.output(y);
    assert_eq!(parts(&mut net, 12), [2], "six tiles");

    let mut net = product(32, 32, 1024);
    let result = net.graph.outputs[0].value;
    net.graph.values[result].ty = TensorType { dtype: DType::F16, ..net.graph.ty(result).clone() };
    split_k::run(&mut net.graph, 108);
    verify_graph(&net.graph).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(net.ops(), ["view", "view", "contract", "reduce", "map"]);
    let sums = net.graph.order.iter().map(|&id| &net.graph.nodes[id]).filter(|node| matches!(node.op, Op::Reduce(_)));
    assert!(sums.into_iter().all(|node| net.graph.ty(node.outputs[0]).dtype == DType::F32));
}
