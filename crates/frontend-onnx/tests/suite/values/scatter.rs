//! ScatterElements, ScatterND and their reductions.

use super::{Case, Definitions, compare, floats, halves};
use crate::support::{Builder, Extent, Value, ints, node};
use infc_ir::graph::Graph;
use infc_ir::interp::{run_graph_with, symbol_values};
use infc_ir::op::Op;
use infc_tensor::{DType, Tensor};

const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

fn indices(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_elements(shape, values).expect("as many as the shape has")
}

/// What is assigned to a slice without elements changes nothing, and need not have a place.
#[test]
fn no_updates() {
    for reduction in ["none", "add"] {
        let case = |op| Case::new(op, 18).text("reduction", reduction);
        let rows = indices(&[0, 1], &[]);
        case("ScatterND").data(floats(&[4, 2])).data(rows.clone()).data(floats(&[0, 2])).agrees();
        case("ScatterND").data(floats(&[0, 2])).data(rows).data(floats(&[0, 2])).agrees();
        let at = indices(&[4, 0], &[]);
        case("ScatterElements").int("axis", 1).data(floats(&[4, 2])).data(at).data(floats(&[4, 0])).agrees();
    }
}

#[test]
fn elements() {
    for reduction in REDUCTIONS {
        let at = || indices(&[2, 3], &[1, 0, -1, 2, -3, 3]);
        let case = |axis| Case::new("ScatterElements", 18).int("axis", axis).text("reduction", reduction);
        case(0).data(floats(&[4, 3])).data(at()).data(floats(&[2, 3])).dynamic(&[0]).agrees();
        case(1).data(floats(&[2, 4])).data(at()).data(floats(&[2, 3])).agrees();
        // Fewer updates than the data has rows.
        case(1).data(floats(&[3, 4])).data(at()).data(floats(&[2, 3])).dynamic(&[0, 1]).agrees();
    }
    let at = indices(&[1, 2], &[1, 3]);
    Case::new("Scatter", 9).data(floats(&[1, 5])).data(at).data(floats(&[1, 2])).int("axis", 1).agrees();
}

#[test]
fn updates_for_one_element_combine() {
    for reduction in &REDUCTIONS[1..] {
        let case = |op| Case::new(op, 18).text("reduction", reduction);
        let at = indices(&[3], &[1, 1, 1]);
        case("ScatterElements").data(floats(&[4])).data(at).data(floats(&[3])).agrees();
        let rows = indices(&[3, 1], &[2, 2, -2]);
        case("ScatterND").data(floats(&[4, 2])).data(rows).data(floats(&[3, 2])).agrees();
    }
    let rows = indices(&[2, 1], &[0, 0]);
    Case::new("ScatterND", 18)
        .text("reduction", "add")
        .data(halves(&[2, 3]))
        .data(rows)
        .data(halves(&[2, 3]))
        .tolerance(2e-3)
        .agrees();
}

#[test]
fn slices_by_tuples() {
    for reduction in REDUCTIONS {
        let case = || Case::new("ScatterND", 18).text("reduction", reduction);
        let x = || floats(&[4, 3, 2]);
        case().data(x()).data(indices(&[2, 1], &[3, 1])).data(floats(&[2, 3, 2])).dynamic(&[0, 1]).agrees();
        case().data(x()).constant(indices(&[2, 2], &[0, 2, -1, 0])).data(floats(&[2, 2])).dynamic(&[0]).agrees();
        case().data(x()).data(indices(&[1, 2, 3], &[0, 2, 1, 3, 0, -2])).data(floats(&[1, 2])).agrees();
    }
}

fn searches(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::Reduce(_)))
}

/// The tuples of a grid, by first position, distance and count along each axis.
fn grid(axes: &[(i64, i64, usize)]) -> Tensor {
    let mut shape: Vec<usize> = axes.iter().map(|&(.., count)| count).collect();
    let count: usize = shape.iter().product();
    let tuple = |mut n: usize| {
        let mut tuple = vec![0; axes.len()];
        for (at, &(first, step, count)) in axes.iter().enumerate().rev() {
            tuple[at] = first + step * (n % count) as i64;
            n /= count;
        }
        tuple
    };
    let numbers: Vec<i64> = (0..count).flat_map(tuple).collect();
    shape.push(axes.len());
    Tensor::from_elements(&shape, &numbers).expect("as many")
}

/// What exporters write for `x[a:b:c] = y`: nothing is searched for.
#[test]
fn slices_that_are_assigned() {
    for reduction in REDUCTIONS {
        let case = |shape: &[usize], at: Tensor, updates: &[usize]| {
            let case = Case::new("ScatterND", 18).text("reduction", reduction).data(floats(shape));
            case.constant(at).data(floats(updates))
        };
        for (shape, axes, updates) in [
            (&[4, 7][..], &[(1, 1, 3), (0, 3, 3)][..], &[3, 3][..]),
            (&[4, 7], &[(0, 1, 4), (2, 1, 5)], &[4, 5]),
            (&[4, 7], &[(-3, 1, 2)], &[2, 7]),
            (&[4, 7, 2], &[(2, 1, 1), (6, 1, 1)], &[1, 1, 2]),
            (&[4, 7, 2], &[(0, 1, 4), (1, 2, 3), (1, 1, 1)], &[4, 3, 1]),
            (&[3], &[(0, 1, 3)], &[3]),
        ] {
            let case = case(shape, grid(axes), updates);
            assert!(!searches(&case.agrees()), "{axes:?}");
        }
        // Longer than what is looked at element by element.
        let long = case(&[40, 60], grid(&[(1, 1, 30), (3, 1, 45)]), &[30, 45]);
        assert!(!searches(&long.agrees()));
        // The same position twice, backwards, not evenly apart, and around the end.
        for at in [&[1, 1, 1][..], &[2, 1, 0], &[0, 1, 3], &[-1, 0, 1], &[-2, 0, 2], &[-3, -2, -1]] {
            case(&[4, 2], indices(&[3, 1], at), &[3, 2]).agrees();
        }
    }
}

/// Positions that are put together from ranges, as an exporter does for extents that it does not know.
#[test]
fn slices_of_any_size_that_are_assigned() {
    let column = |name: &str, shape: &str| node("Unsqueeze", &[name, "last"], &[shape], &[]);
    let model = Builder::new(18)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(5)])
        .input("y", DType::F32, &[Extent::Named("N"), Extent::Number(2)])
        .initializer("zero", &Tensor::scalar(0i64))
        .initializer("one", &Tensor::scalar(1i64))
        .initializer("last", &ints(&[-1]))
        .initializer("columns", &indices(&[1, 2], &[1, 3]))
        .initializer("two", &ints(&[2]))
        .node(node("Shape", &["x"], &["rows"], &[("start", Value::Int(0)), ("end", Value::Int(1))]))
        .node(node("Squeeze", &["rows"], &["count"], &[]))
        .node(node("Range", &["zero", "count", "one"], &["range"], &[]))
        .node(node("Unsqueeze", &["range", "last"], &["range_column"], &[]))
        .node(node("Concat", &["rows", "two"], &["shape"], &[("axis", Value::Int(0))]))
        .node(node("Expand", &["range_column", "shape"], &["row_of"], &[]))
        .node(node("Expand", &["columns", "shape"], &["column_of"], &[]))
        .node(column("row_of", "first"))
        .node(column("column_of", "second"))
        .node(node("Concat", &["first", "second"], &["at"], &[("axis", Value::Int(-1))]))
        .node(node("ScatterND", &["x", "at", "y"], &["z"], &[]))
        .output("z");
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    assert!(!searches(&graph), "{graph}");
    for rows in [1, 4] {
        let data = [floats(&[rows, 5]), floats(&[rows, 2])];
        let symbols = symbol_values(&graph, &data).expect("any size");
        let found = run_graph_with(&graph, &symbols, &data, &Definitions).expect("it runs").remove(0);
        let (x, y) = (data[0].elements::<f32>().expect("floats"), data[1].elements::<f32>().expect("floats"));
        let expected = (0..rows).flat_map(|n| [x[5 * n], y[2 * n], x[5 * n + 2], y[2 * n + 1], x[5 * n + 4]]);
        let expected: Vec<f32> = expected.collect();
        compare("z", &found, &Tensor::from_elements(&[rows, 5], &expected).expect("as many"), 0.0);
    }
}

/// What a position is that lies behind a part whose length only the run tells.
#[test]
fn positions_behind_parts_of_any_length() {
    let model = Builder::new(18)
        .input("x", DType::F32, &[Extent::Number(10)])
        .input("y", DType::F32, &[Extent::Number(1)])
        .input("of", DType::F32, &[Extent::Named("N")])
        .initializer("zero", &Tensor::scalar(0i64))
        .initializer("one", &Tensor::scalar(1i64))
        .initializer("more", &ints(&[7, 8, 9]))
        .initializer("third", &indices(&[1, 1], &[2]))
        .node(node("Shape", &["of"], &["rows"], &[]))
        .node(node("Squeeze", &["rows"], &["count"], &[]))
        .node(node("Range", &["zero", "count", "one"], &["range"], &[]))
        .node(node("Concat", &["range", "more"], &["all"], &[("axis", Value::Int(0))]))
        .node(node("Gather", &["all", "third"], &["at"], &[]))
        .node(node("ScatterND", &["x", "at", "y"], &["z"], &[]))
        .output("z");
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    for (rows, place) in [(1, 8), (2, 7), (5, 2)] {
        let data = [floats(&[10]), Tensor::from_elements(&[1], &[99.0f32]).expect("one"), floats(&[rows])];
        let symbols = symbol_values(&graph, &data).expect("any size");
        let found = run_graph_with(&graph, &symbols, &data, &Definitions).expect("it runs").remove(0);
        let mut expected = data[0].elements::<f32>().expect("floats").to_vec();
        expected[place] = 99.0;
        compare("z", &found, &Tensor::from_elements(&[10], &expected).expect("ten"), 0.0);
    }
}

/// Powers of a position, which would be sums of thousands of products.
#[test]
fn positions_that_are_powers() {
    let mut model = Builder::new(18)
        .input("x", DType::F32, &[Extent::Number(10)])
        .input("y", DType::F32, &[Extent::Named("N")])
        .initializer("one", &Tensor::scalar(1i64));
    let names: Vec<String> = (0..12).map(|n| format!("d{n}")).collect();
    let mut sum = "zero".to_owned();
    model = model.initializer("zero", &Tensor::scalar(0i64));
    for name in &names {
        let [of, rows, count, next] = ["of", "rows", "count", "sum"].map(|part| format!("{part}_{name}"));
        model = model
            .input(&of, DType::F32, &[Extent::Named(name)])
            .node(node("Shape", &[&of], &[&rows], &[]))
            .node(node("Squeeze", &[&rows], &[&count], &[]))
            .node(node("Add", &[&sum, &count], &[&next], &[]));
        sum = next;
    }
    model = model
        .node(node("Shape", &["y"], &["updates"], &[]))
        .node(node("Squeeze", &["updates"], &["update_count"], &[]))
        .node(node("Add", &[&sum, "update_count"], &["end"], &[]))
        .node(node("Range", &[&sum, "end", "one"], &["p0"], &[]));
    for n in 0..5 {
        let [of, to] = [n, n + 1].map(|n| format!("p{n}"));
        model = model.node(node("Mul", &[&of, &of], &[&to], &[]));
    }
    let model = model
        .initializer("last", &ints(&[-1]))
        .node(node("Unsqueeze", &["p5", "last"], &["at"], &[]))
        .node(node("ScatterND", &["x", "at", "y"], &["z"], &[]))
        .output("z");
    model.import().unwrap_or_else(|e| panic!("{e}"));
}
