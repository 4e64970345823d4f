//! Running folds in blocks: which are taken apart, and that the meaning stays.

use super::build::{i, within};
use infc_ir::access::AccessMap;
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::Dim;
use infc_ir::interp::run_graph;
use infc_ir::kernel::Reducer;
use infc_ir::op::{Op, ScanOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Const};
use infc_ir::symbol::Symbol;
use infc_ir::verify::verify_graph;
use infc_passes::graph::{Changed, blocked_scan};
use infc_tensor::{DType, Tensor};

/// A running sum along one axis, of a type; an extent of 0 is a symbol.
fn net(dtype: DType, shape: &[i64], axis: usize, exclusive: bool, reverse: bool) -> Graph {
    running(BinaryOp::Add, 0.0, dtype, (shape, axis), exclusive, reverse)
}

/// The same of another operation, with what changes nothing.
fn running(
    op: BinaryOp,
    neutral: f64,
    dtype: DType,
    (shape, axis): (&[i64], usize),
    exclusive: bool,
    reverse: bool,
) -> Graph {
    let mut graph = Graph::default();
    let origin = graph.origins.push(vec!["test".to_owned()]);
    let dims: Vec<Dim> = shape
        .iter()
        .map(|&extent| match extent {
            0 => Dim::symbol(graph.symbols.push(Symbol { name: "n".to_owned(), min: 0, max: Some(1 << 20) })),
            extent => Dim::constant(extent),
        })
        .collect();
    let ty = TensorType::new(dtype, dims);
    let x = graph.add_input("x", ty.clone());
    let op = ScanOp { axis, reverse, exclusive, reducer: Reducer::binary(op, Const::from_f64(dtype, neutral)) };
    let y = graph.add(Op::Scan(op), &[x], ty, origin);
    graph.outputs.push(Port::new("y", y));
    graph
}

/// The lengths of the running folds of a graph.
fn lengths(graph: &Graph) -> Vec<i64> {
    let scans = graph.order.iter().filter_map(|&id| match &graph.nodes[id].op {
        Op::Scan(op) => Some((op.axis, graph.nodes[id].outputs[0])),
        _ => None,
    });
    scans.map(|(axis, value)| graph.ty(value).shape[axis].as_const().unwrap_or(-1)).collect()
}

fn counting(dtype: DType, shape: &[usize]) -> Tensor {
    let numbers = (0..shape.iter().product::<usize>()).map(|n| (n * 7919 % 101) as i64 - 50);
    match dtype {
        DType::I32 => Tensor::from_elements(shape, &numbers.map(|n| n as i32).collect::<Vec<_>>()),
        DType::I64 => Tensor::from_elements(shape, &numbers.collect::<Vec<_>>()),
        _ => Tensor::from_elements(shape, &numbers.map(|n| n as f32 / 64.0).collect::<Vec<_>>()),
    }
    .expect("as many as the shape says")
}

#[test]
fn long_folds_along_neighbours_are_taken_apart() {
    let left = |graph: &Graph, reassociates: bool| {
        let mut graph = graph.clone();
        blocked_scan::run(&mut graph, reassociates);
        lengths(&graph)
    };
    let of = |dtype, shape: &[i64], axis| net(dtype, shape, axis, false, false);
    assert_eq!(left(&of(DType::F32, &[3, 1000], 1), true), [63], "63 blocks of 16");
    assert_eq!(left(&of(DType::F32, &[3, 1000], 1), false), [1000], "floats stay in order");
    assert_eq!(left(&of(DType::I32, &[1000, 1, 1], 0), false), [63], "integers need no order");
    assert_eq!(left(&of(DType::I64, &[1000], 0), false), [16], "125 blocks of 8, then 16");
    assert_eq!(left(&of(DType::F32, &[5, 0], 1), true), [-1], "one level");
    let product = |dtype| running(BinaryOp::Mul, 1.0, dtype, (&[1000], 0), false, false);
    assert_eq!(left(&product(DType::F32), true), [1000], "products of a block may overflow, and then meet 0");
    assert_eq!(left(&product(DType::I64), true), [16], "of integers they wrap");
    assert_eq!(left(&of(DType::F32, &[1000, 3], 0), true), [1000], "vectors of neighbours fold as it is");
    assert_eq!(left(&of(DType::F32, &[63], 0), true), [63], "short");
    assert_eq!(left(&of(DType::BF16, &[1000], 0), true), [1000], "halves round at every step");
}

/// Sums of 64ths are exact in any order.
#[test]
fn the_meaning_stays() {
    for (dtype, shape, axis) in [
        (DType::F32, vec![2, 64], 1),
        (DType::F32, vec![2, 255, 1], 1),
        (DType::I32, vec![257], 0),
        (DType::I64, vec![1, 1100], 1),
        (DType::F32, vec![3, 0], 1),
    ] {
        for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
            let before = net(dtype, &shape, axis, exclusive, reverse);
            let mut after = before.clone();
            assert_eq!(blocked_scan::run(&mut after, true), Changed::Yes);
            verify_graph(&after).unwrap_or_else(|e| panic!("{e}"));
            let symbolic = shape.contains(&0);
            for len in if symbolic { vec![0, 1, 15, 16, 17, 300] } else { vec![0] } {
                let shape: Vec<usize> =
                    shape.iter().map(|&extent| if extent == 0 { len } else { extent } as usize).collect();
                let symbols: &[i64] = if symbolic { &[len] } else { &[] };
                let x = [counting(dtype, &shape)];
                let of = |graph: &Graph| run_graph(graph, symbols, &x).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(of(&before), of(&after), "{dtype} {shape:?}, exclusive {exclusive}, reverse {reverse}");
            }
        }
    }
}

/// What is folded may be a view that says what is beyond it: another number than the fold's.
#[test]
fn views_keep_what_is_beyond_them() {
    let mut before = net(DType::F32, &[100], 0, false, false);
    let origin = before.origins.push(vec!["view".to_owned()]);
    let x = before.inputs[0].value;
    let map = AccessMap { rank: 1, index: vec![i(0) - 2], valid: vec![within(i(0) - 2, 100)] };
    let op = ViewOp { map, shape: vec![Dim::constant(100)], otherwise: Const::from_f64(DType::F32, 3.0) };
    let moved = before.add(Op::View(op), &[x], TensorType::new(DType::F32, vec![Dim::constant(100)]), origin);
    let scan = before.order[0];
    before.nodes[scan].inputs = vec![moved];
    before.order.swap(0, 1);
    let mut after = before.clone();
    assert_eq!(blocked_scan::run(&mut after, true), Changed::Yes);
    verify_graph(&after).unwrap_or_else(|e| panic!("{e}"));
    let x = [counting(DType::F32, &[100])];
    let of = |graph: &Graph| run_graph(graph, &[], &x).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(of(&before), of(&after));
}
