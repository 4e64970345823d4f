//! Shape arithmetic becomes dims: chains that exporters write to compute shapes leave no nodes behind.

use crate::support::{Builder, Extent, Value, ints, node};
use crate::values::floats;
use infc_ir::graph::Graph;
use infc_ir::interp::{run_graph, symbol_values};
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

const CONCAT: (&str, Value) = ("axis", Value::Int(0));

/// `x` of N×3×W, f32.
fn start() -> Builder {
    Builder::new(17).input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3), Extent::Named("W")])
}

fn scalar(builder: Builder, name: &str, value: i64) -> Builder {
    builder.initializer(name, &Tensor::scalar(value))
}

#[track_caller]
fn import(builder: Builder) -> Graph {
    let graph = builder.output("y").import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    graph
}

fn ops(graph: &Graph) -> Vec<&'static str> {
    graph.order.iter().map(|&n| graph.nodes[n].op.name()).collect()
}

fn shape(graph: &Graph) -> String {
    graph.ty(graph.outputs[0].value).shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn run(graph: &Graph, symbols: &[i64], inputs: &[Tensor]) -> Tensor {
    run_graph(graph, symbols, inputs).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

#[test]
fn shape_gather_concat_reshape_is_one_view() {
    let builder = scalar(scalar(start(), "zero", 0), "two", 2)
        .initializer("first", &ints(&[0]))
        .initializer("minus", &ints(&[-1]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Gather", &["s", "zero"], &["n"], &[]))
        .node(node("Unsqueeze", &["n", "first"], &["n1"], &[]))
        .node(node("Concat", &["n1", "minus"], &["target"], &[CONCAT]))
        .node(node("Reshape", &["x", "target"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!(ops(&graph), ["view"]);
    assert_eq!(shape(&graph), "$0, 3*$1");
    let x = floats(&[2, 3, 4]);
    assert_eq!(run(&graph, &[2, 4], std::slice::from_ref(&x)), x.reshaped(&[2, 12]).expect("as many"));
}

#[test]
fn arithmetic_on_extents_stays_symbolic() {
    // (N·W + W) / W − 1 = N, in i32 for a while.
    let builder = scalar(scalar(start(), "zero", 0), "two", 2)
        .initializer("one", &Tensor::scalar(1i32))
        .initializer("first", &ints(&[0]))
        .initializer("minus", &ints(&[-1]))
        .node(node("Shape", &["x"], &["s64"], &[]))
        .node(node("Cast", &["s64"], &["s"], &[("to", Value::Int(6))]))
        .node(node("Gather", &["s", "zero"], &["n"], &[]))
        .node(node("Gather", &["s", "two"], &["w"], &[]))
        .node(node("Mul", &["n", "w"], &["nw"], &[]))
        .node(node("Add", &["nw", "w"], &["sum"], &[]))
        .node(node("Div", &["sum", "w"], &["quotient"], &[]))
        .node(node("Sub", &["quotient", "one"], &["same"], &[]))
        .node(node("Cast", &["same"], &["same64"], &[("to", Value::Int(7))]))
        .node(node("Unsqueeze", &["same64", "first"], &["n1"], &[]))
        .node(node("Concat", &["n1", "minus"], &["target"], &[CONCAT]))
        .node(node("Reshape", &["x", "target"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!((ops(&graph), shape(&graph).as_str()), (vec!["view"], "$0, 3*$1"));
}

#[test]
fn expand_with_the_where_idiom() {
    // torch: expand(shape where −1 means "keep").
    let builder = start()
        .initializer("wanted", &ints(&[-1, 3, -1]))
        .initializer("minus", &ints(&[-1]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Shape", &["wanted"], &["rank"], &[]))
        .node(node("ConstantOfShape", &["rank"], &["ones"], &[("value", Value::Tensor(ints(&[1])))]))
        .node(node("Mul", &["ones", "minus"], &["minuses"], &[]))
        .node(node("Equal", &["wanted", "minuses"], &["keep"], &[]))
        .node(node("Where", &["keep", "s", "wanted"], &["target"], &[]))
        .node(node("Expand", &["x", "target"], &["z"], &[]))
        .node(node("Relu", &["z"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!((ops(&graph), shape(&graph).as_str()), (vec!["map"], "$0, 3, $1"));
}

#[test]
fn slices_of_shapes_and_computed_ends() {
    // x[:, :, 1 : W − 1]
    let builder = start()
        .initializer("two", &ints(&[2]))
        .initializer("three", &ints(&[3]))
        .initializer("one", &ints(&[1]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Slice", &["s", "two", "three"], &["w"], &[]))
        .node(node("Sub", &["w", "one"], &["end"], &[]))
        .node(node("Slice", &["x", "one", "end", "two"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!(ops(&graph), ["view"]);
    let x = floats(&[1, 3, 5]);
    assert_eq!(run(&graph, &[1, 5], &[x]).shape(), [1, 3, 3]);
}

#[test]
fn products_and_conversions_of_shapes() {
    // The number of elements as f32 is known where it is read.
    let builder = start()
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("ReduceProd", &["s"], &["count"], &[("keepdims", Value::Int(0))]))
        .node(node("Cast", &["count"], &["divisor"], &[("to", Value::Int(1))]))
        .node(node("Div", &["x", "divisor"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!(ops(&graph), ["map"]);
    let x = floats(&[2, 3, 4]);
    let y = run(&graph, &[2, 4], std::slice::from_ref(&x));
    let expected = x.get_f64(5).expect("an element") / 24.0;
    assert!((y.get_f64(5).expect("an element") - expected).abs() < 1e-6);
}

#[test]
fn resize_to_computed_sizes() {
    // Twice as wide, through sizes.
    let builder = start()
        .initializer("factors", &ints(&[1, 1, 2]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Mul", &["s", "factors"], &["sizes"], &[]))
        .node(node("Resize", &["x", "", "", "sizes"], &["y"], &[("mode", Value::Text("nearest".into()))]));
    let graph = import(builder);
    assert_eq!((ops(&graph), shape(&graph).as_str()), (vec!["view"], "$0, 3, 2*$1"));
}

#[test]
fn a_shape_that_is_used_as_data_is_made_of_dim_values() {
    let builder = start().node(node("Shape", &["x"], &["s"], &[])).node(node("Add", &["s", "s"], &["y"], &[]));
    let graph = import(builder);
    assert!(ops(&graph).contains(&"dim"), "{:?}", ops(&graph));
    assert_eq!(run(&graph, &[7, 9], &[floats(&[7, 3, 9])]), ints(&[14, 6, 18]));
}

#[test]
fn positions_along_a_symbolic_axis() {
    // Range(0, W) + x
    let builder = scalar(scalar(scalar(start(), "zero", 0), "one", 1), "two", 2)
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Gather", &["s", "two"], &["w"], &[]))
        .node(node("Range", &["zero", "w", "one"], &["r"], &[]))
        .node(node("Cast", &["r"], &["f"], &[("to", Value::Int(1))]))
        .node(node("Add", &["x", "f"], &["y"], &[]));
    let graph = import(builder);
    let x = floats(&[1, 3, 4]);
    let y = run(&graph, &[1, 4], std::slice::from_ref(&x));
    let expected = x.get_f64(2).expect("an element") + 2.0;
    assert!((y.get_f64(2).expect("an element") - expected).abs() < 1e-6);
}

/// Detectors count the cells of their grids in floats.
#[test]
fn positions_in_floats_along_a_symbolic_axis() {
    let float = |builder: Builder, name: &str, value: f32| builder.initializer(name, &Tensor::scalar(value));
    let width = |builder: Builder| {
        scalar(builder, "three", 3)
            .node(node("Shape", &["x"], &["s"], &[]))
            .node(node("Gather", &["s", "two"], &["w"], &[]))
            .node(node("Cast", &["w"], &["f"], &[("to", Value::Int(1))]))
    };
    let grid = width(float(float(scalar(start(), "two", 2), "one", 1.0), "step", 2.0)).node(node(
        "Range",
        &["one", "f", "step"],
        &["y"],
        &[],
    ));
    let graph = import(grid);
    assert!(!ops(&graph).contains(&"host"), "{:?}", ops(&graph));
    for (width, expected) in [(6, &[1.0f32, 3.0, 5.0][..]), (7, &[1.0, 3.0, 5.0]), (2, &[1.0]), (1, &[])] {
        let x = floats(&[1, 3, width]);
        let symbols = symbol_values(&graph, std::slice::from_ref(&x)).expect("extents");
        let found = run(&graph, &symbols, &[x]);
        assert_eq!(found, Tensor::from_elements(&[expected.len()], expected).expect("a list"), "{width}");
    }
    // Among floats that are no numbers of cells, and as a number itself.
    let scales = width(float(scalar(start(), "two", 2), "half", 0.5))
        .initializer("first", &ints(&[0]))
        .node(node("Unsqueeze", &["f", "first"], &["a"], &[]))
        .node(node("Unsqueeze", &["half", "first"], &["b"], &[]))
        .node(node("Concat", &["a", "b"], &["c"], &[("axis", Value::Int(0))]))
        .node(node("Mul", &["c", "f"], &["y"], &[]));
    let graph = import(scales);
    let expected = Tensor::from_elements(&[2], &[25.0f32, 2.5]).expect("two");
    assert_eq!(run(&graph, &[1, 5], &[floats(&[1, 3, 5])]), expected);
}

#[test]
fn dead_nodes_and_unused_weights_leave_nothing() {
    let builder = start()
        .initializer("unused", &floats(&[100]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("NoSuchOperator", &["x"], &["dead"], &[]))
        .node(node("Relu", &["x"], &["y"], &[]));
    assert_eq!(ops(&import(builder)), ["map"]);
}

#[test]
fn nodes_remember_their_names() {
    let builder = start().node(crate::support::named("/act/Relu", node("Relu", &["x"], &["y"], &[])));
    let graph = import(builder);
    let origin = graph.nodes[graph.order[0]].origin;
    assert_eq!(graph.origins[origin], ["/act/Relu"]);
}

#[test]
fn initializers_that_are_inputs_too_are_constants() {
    let builder = start()
        .f32("w", &[1])
        .initializer("w", &Tensor::from_elements(&[1], &[2.0f32]).expect("one"))
        .node(node("Mul", &["x", "w"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!(graph.inputs.len(), 1);
    assert_eq!(ops(&graph), ["map"]);
}

#[test]
fn group_normalisation_between_reshapes_keeps_the_axes() {
    // As exporters write it: [2, 4, 3, 2] → [2, 2, 12], normalise, back.
    let norm = |builder: Builder, x: &str, y: &str| {
        let ones = Tensor::from_elements(&[2], &[1.0f32, 1.0]).expect("two");
        let zeros = Tensor::from_elements(&[2], &[0.0f32, 0.0]).expect("two");
        let builder = builder.initializer("scale", &ones).initializer("shift", &zeros);
        builder.node(node("InstanceNormalization", &[x, "scale", "shift"], &[y], &[]))
    };
    let reshaped = Builder::new(17)
        .f32("x", &[2, 4, 3, 2])
        .initializer("groups", &ints(&[0, 2, -1]))
        .initializer("back", &ints(&[2, 4, 3, 2]))
        .node(node("Reshape", &["x", "groups"], &["merged"], &[]));
    let reshaped = norm(reshaped, "merged", "normal").node(node("Reshape", &["normal", "back"], &["y"], &[]));
    let graph = import(reshaped);
    let reduced: Vec<usize> = graph
        .order
        .iter()
        .filter(|&&n| graph.nodes[n].op.name() == "reduce")
        .map(|&n| graph.ty(graph.nodes[n].inputs[0]).shape.len())
        .collect();
    assert!(!reduced.is_empty() && reduced.iter().all(|&rank| rank == 5), "ranks {reduced:?}");

    let plain = import(norm(Builder::new(17).f32("x", &[2, 2, 12]), "x", "y"));
    let x = floats(&[2, 4, 3, 2]);
    let merged = x.reshaped(&[2, 2, 12]).expect("as many");
    let expected = run(&plain, &[], &[merged]).reshaped(&[2, 4, 3, 2]).expect("as many");
    crate::values::compare("group norm", &run(&graph, &[], std::slice::from_ref(&x)), &expected, 1e-6);

    // Heights and widths that nobody knows are axes of their own, too.
    let named = [Extent::Number(2), Extent::Number(4), Extent::Named("H"), Extent::Named("W")];
    let reshaped = Builder::new(17)
        .input("x", DType::F32, &named)
        .initializer("groups", &ints(&[0, 2, -1]))
        .node(node("Shape", &["x"], &["back"], &[]))
        .node(node("Reshape", &["x", "groups"], &["merged"], &[]));
    let reshaped =
        norm(reshaped, "merged", "normal").node(node("Reshape", &["normal", "back"], &["y"], &[])).output("y");
    let graph = reshaped.import().unwrap_or_else(|e| panic!("{e}"));
    let is_reduced = |&&n: &&_| graph.nodes[n].op.name() == "reduce";
    let reduced = graph.order.iter().filter(is_reduced).map(|&n| graph.ty(graph.nodes[n].inputs[0]).shape.len());
    assert_eq!(reduced.collect::<Vec<usize>>(), [5, 5]);
    let found = run_graph(&graph, &[3, 2], &[x]).expect("it runs").remove(0);
    crate::values::compare("group norm of an image of any size", &found, &expected, 1e-6);
}

/// What is normalised may be seen through a view that is no reshape: a part of a value, as long as its beginning or not, a repeated one, a
/// constant.
#[test]
fn what_is_normalised_need_not_be_a_reshape() {
    let norm = |channels: usize, builder: Builder| {
        let ones = Tensor::from_elements(&[channels], &vec![1.0f32; channels]).expect("as many");
        let zeros = Tensor::from_elements(&[channels], &vec![0.0f32; channels]).expect("as many");
        let builder = builder.initializer("scale", &ones).initializer("shift", &zeros);
        builder.node(node("InstanceNormalization", &["part", "scale", "shift"], &["y"], &[])).output("y")
    };
    let slice = |shape: &[i64], from: i64, to: i64| {
        let builder =
            Builder::new(17).f32("x", shape).initializer("from", &ints(&[from])).initializer("to", &ints(&[to]));
        builder.initializer("axis", &ints(&[1])).node(node("Slice", &["x", "from", "to", "axis"], &["part"], &[]))
    };
    let repeated = || {
        let builder = Builder::new(17).f32("x", &[2, 1, 8]).initializer("shape", &ints(&[2, 3, 8]));
        builder.node(node("Expand", &["x", "shape"], &["part"], &[]))
    };
    let filled = || {
        let builder = Builder::new(17).f32("x", &[2, 3, 8]).node(node("Shape", &["x"], &["shape"], &[]));
        builder.node(node("ConstantOfShape", &["shape"], &["part"], &[]))
    };
    let cases: [(usize, Builder, Vec<usize>); 5] = [
        (3, slice(&[2, 6, 8], 0, 3), vec![2, 6, 8]),
        (3, slice(&[2, 6, 8], 2, 5), vec![2, 6, 8]),
        (2, slice(&[1, 4, 8], 0, 2), vec![1, 4, 8]),
        (3, repeated(), vec![2, 1, 8]),
        (3, filled(), vec![2, 3, 8]),
    ];
    for (n, (channels, builder, shape)) in cases.into_iter().enumerate() {
        let graph = norm(channels, builder).import().unwrap_or_else(|e| panic!("{n}: {e}"));
        let found = run_graph(&graph, &[], &[floats(&shape)]).unwrap_or_else(|e| panic!("{n}: {e}")).remove(0);
        // Of each row of eight by itself.
        for row in 0..found.len_elems() / 8 {
            let sum: f64 = (0..8).map(|at| found.get_f64(8 * row + at).expect("a number")).sum();
            assert!(sum.abs() < 1e-4, "{n}, row {row}: {sum}");
        }
        assert_eq!(found.shape()[1], channels, "{n}");
    }
}

/// Exporters leave out the axis of parts of a real signal; the transform is the same.
#[test]
fn frames_of_signals_without_an_axis_of_parts() {
    let model = |shape: &[Extent<'_>]| {
        Builder::new(17)
            .input("x", DType::F32, shape)
            .initializer("step", &Tensor::scalar(3i64))
            .initializer("window", &floats(&[6]))
            .node(node("STFT", &["x", "step", "window"], &["y"], &[]))
            .output("y")
    };
    let batch = [Extent::Named("N"), Extent::Named("L")];
    let found = |shape: &[Extent<'_>], x: Tensor| {
        let graph = model(shape).import().unwrap_or_else(|e| panic!("{e}"));
        run_graph(&graph, &[2, 20], &[x]).expect("it runs").remove(0)
    };
    let x = floats(&[2, 20]);
    let with_parts = found(&[batch[0], batch[1], Extent::Number(1)], x.reshaped(&[2, 20, 1]).expect("as many"));
    assert_eq!(found(&batch, x), with_parts);
    assert_eq!(with_parts.shape(), [2, 5, 4, 2]);
}

/// The lesser of two sums, as of the anchors of all levels of a detector, would be too long to be an extent.
#[test]
fn slices_of_what_has_a_long_extent() {
    let names: Vec<String> = (0..12).map(|n| format!("N{n}")).collect();
    let mut model = Builder::new(17);
    for (n, name) in names.iter().enumerate() {
        let shape = [Extent::Named(name), Extent::Named(&names[(n + 1) % 12])];
        model = model.input(&format!("x{n}"), DType::F32, &shape);
        model = model.node(node("Flatten", &[&format!("x{n}")], &[&format!("f{n}")], &[("axis", Value::Int(0))]));
    }
    let parts = |from: usize, to: usize| (from..to).map(|n| format!("f{n}")).collect::<Vec<_>>();
    let joined = |model: Builder, parts: &[String], name: &str| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        model.node(node("Concat", &parts, &[name], &[("axis", Value::Int(1))]))
    };
    model = joined(model, &parts(0, 10), "all");
    model = joined(model, &parts(2, 12), "others");
    let model = model
        .initializer("zero", &ints(&[0]))
        .initializer("one", &ints(&[1]))
        .node(node("Shape", &["others"], &["s"], &[]))
        .node(node("Gather", &["s", "one"], &["end"], &[]))
        .node(node("Slice", &["all", "zero", "end", "one"], &["y"], &[]));
    let graph = import(model);
    for extents in [[2i64; 12], [1, 2, 3, 1, 2, 1, 1, 2, 1, 1, 1, 4]] {
        let mut next = 0;
        let inputs: Vec<Tensor> = (0..12)
            .map(|n| {
                let shape = [extents[n] as usize, extents[(n + 1) % 12] as usize];
                let count = shape[0] * shape[1];
                let elements: Vec<f32> = (next..next + count).map(|n| n as f32).collect();
                next += count;
                Tensor::from_elements(&shape, &elements).expect("as many")
            })
            .collect();
        let len = |parts: std::ops::Range<usize>| parts.map(|n| inputs[n].len_elems()).sum::<usize>();
        let expected: Vec<f32> = (0..len(0..10).min(len(2..12))).map(|n| n as f32).collect();
        let symbols = infc_ir::interp::symbol_values(&graph, &inputs).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(run(&graph, &symbols, &inputs).elements::<f32>().expect("floats"), expected);
    }
}

/// What is taken of every few elements, as where images are merged by two, has an extent without choices.
#[test]
fn slices_from_within_the_first_step() {
    for (start, step, extent) in
        [(0, 2, "div($0 + 1, 2)"), (1, 2, "div($0, 2)"), (1, 3, "div($0 + 1, 3)"), (2, 3, "div($0, 3)")]
    {
        let graph = import(
            Builder::new(17)
                .input("x", DType::F32, &[Extent::Named("N")])
                .initializer("start", &ints(&[start]))
                .initializer("end", &ints(&[i64::MAX]))
                .initializer("axis", &ints(&[0]))
                .initializer("step", &ints(&[step]))
                .node(node("Slice", &["x", "start", "end", "axis", "step"], &["y"], &[])),
        );
        assert_eq!((ops(&graph), shape(&graph).as_str()), (vec!["view"], extent));
        for n in 0..8 {
            let x: Vec<f32> = (0..n).map(|n| n as f32).collect();
            let expected: Vec<f32> = x.iter().skip(start as usize).step_by(step as usize).copied().collect();
            let x = Tensor::from_elements(&[n], &x).expect("as many");
            assert_eq!(run(&graph, &[n as i64], &[x]).elements::<f32>().expect("floats"), expected, "of {n}");
        }
    }
}

/// However many nodes ask for numbers that take more than ranges to know, the import does not begin anew for each.
#[test]
fn numbers_that_many_nodes_ask_for() {
    const NODES: i64 = 300;
    let mut model = scalar(start(), "zero", 0)
        .initializer("two", &ints(&[2]))
        .initializer("first", &ints(&[0]))
        .initializer("minus", &ints(&[-1]))
        .initializer("one", &floats(&[1]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Gather", &["s", "first"], &["n"], &[]))
        .node(node("Gather", &["s", "two"], &["w"], &[]))
        .node(node("Sub", &["w", "n"], &["rest0"], &[]))
        .node(node("Identity", &["one"], &["sum0"], &[]));
    for k in 0..NODES {
        let name = |what: &str| format!("{what}{k}");
        let next = |what: &str| format!("{what}{}", k + 1);
        model = model
            .node(node("Equal", &[&name("rest"), "minus"], &[&name("keep")], &[]))
            .node(node("Where", &[&name("keep"), "n", &name("rest")], &[&name("target")], &[]))
            .node(node("Expand", &["one", &name("target")], &[&name("ones")], &[]))
            .node(node("ReduceSum", &[&name("ones"), "first"], &[&name("count")], &[]))
            .node(node("Add", &[&name("sum"), &name("count")], &[&next("sum")], &[]))
            .node(node("Add", &[&name("rest"), "two"], &[&next("rest")], &[]));
    }
    let graph = import(model.node(node("Identity", &[&format!("sum{NODES}")], &["y"], &[])));
    // W − N + 2k each, and once N instead of −1.
    let x = floats(&[4, 3, 3]);
    let symbols = symbol_values(&graph, std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
    let one = floats(&[1]).elements::<f32>().expect("a float")[0];
    let counts: i64 = (0..NODES).map(|k| if k == 0 { 4 } else { 2 * k - 1 }).sum();
    let y = run(&graph, &symbols, &[x]).elements::<f32>().expect("floats")[0];
    assert!((y / one - (counts + 1) as f32).abs() <= 1e-3 * y.abs(), "{y} of {counts} times {one}");
}

/// Extents in another order are choices between all of them, too long to be multiplied: each is a symbol of its own.
#[test]
fn extents_that_are_sorted() {
    const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];
    let mut model =
        Builder::new(17).input("x", DType::F32, &NAMES.map(Extent::Named)).node(node("Shape", &["x"], &["s"], &[]));
    for (n, name) in NAMES.iter().enumerate() {
        let place = format!("place {n}");
        model = model.initializer(&place, &ints(&[n as i64])).node(node("Gather", &["s", &place], &[name], &[]));
    }
    // Neighbours change places, in five rounds.
    let mut sorted = NAMES.map(str::to_owned);
    for round in 0..5 {
        for left in (round % 2..4).step_by(2) {
            let pair = [sorted[left].clone(), sorted[left + 1].clone()];
            for (operator, at) in [("Max", left), ("Min", left + 1)] {
                sorted[at] = format!("{operator} {round} {left}");
                model = model.node(node(operator, &[&pair[0], &pair[1]], &[&sorted[at]], &[]));
            }
        }
    }
    let ones = ("value", Value::Tensor(Tensor::from_elements(&[1], &[1.0f32]).expect("one")));
    let graph =
        import(model.node(node("Concat", &sorted.each_ref().map(String::as_str), &["target"], &[CONCAT])).node(node(
            "ConstantOfShape",
            &["target"],
            &["y"],
            &[ones],
        )));
    let middle = &graph.ty(graph.outputs[0].value).shape[2];
    assert!(middle.as_symbol().is_some(), "{}", shape(&graph));
    let x = floats(&[2, 5, 1, 3, 4]);
    let symbols = symbol_values(&graph, std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run(&graph, &symbols, &[x]).shape(), [5, 4, 3, 2, 1]);
}

/// What is padded to a multiple and taken apart in as many, as windows of images are, has no quotients of remainders.
#[test]
fn padding_to_a_multiple() {
    let builder = scalar(scalar(start(), "two", 2), "seven", 7)
        .initializer("first", &ints(&[0]))
        .initializer("nothing", &ints(&[0, 0, 0, 0, 0]))
        .initializer("before", &ints(&[-1, 3]))
        .initializer("behind", &ints(&[7]))
        .node(node("Shape", &["x"], &["s"], &[]))
        .node(node("Gather", &["s", "two"], &["w"], &[]))
        .node(node("Mod", &["w", "seven"], &["over"], &[]))
        .node(node("Sub", &["seven", "over"], &["short"], &[]))
        .node(node("Mod", &["short", "seven"], &["missing"], &[]))
        .node(node("Unsqueeze", &["missing", "first"], &["end"], &[]))
        .node(node("Concat", &["nothing", "end"], &["pads"], &[CONCAT]))
        .node(node("Pad", &["x", "pads"], &["padded"], &[]))
        .node(node("Shape", &["padded"], &["p"], &[]))
        .node(node("Gather", &["p", "two"], &["width"], &[]))
        .node(node("Div", &["width", "seven"], &["count"], &[]))
        .node(node("Unsqueeze", &["count", "first"], &["windows"], &[]))
        .node(node("Concat", &["before", "windows", "behind"], &["target"], &[CONCAT]))
        .node(node("Reshape", &["padded", "target"], &["y"], &[]));
    let graph = import(builder);
    assert_eq!(shape(&graph), "$0, 3, div($1 + 6, 7), 7");
    for (w, windows) in [(1, 1), (7, 1), (8, 2), (20, 3)] {
        assert_eq!(run(&graph, &[2, w], &[floats(&[2, 3, w as usize])]).shape(), [2, 3, windows, 7]);
    }
}

/// A node that draws random numbers is not imported once more for somebody who wants to know them.
#[test]
fn random_numbers_are_drawn_once() {
    let graph = import(
        start()
            .input("p", DType::F32, &[Extent::Number(1), Extent::Number(4)])
            .initializer("one", &ints(&[1]))
            .initializer("end", &ints(&[i64::MAX]))
            .initializer("first", &ints(&[0]))
            .node(node("Multinomial", &["p"], &["drawn"], &[]))
            .node(node("Cast", &["drawn"], &["seen"], &[("to", Value::Int(1))]))
            .node(node("Reshape", &["drawn", "one"], &["place"], &[]))
            .node(node("Cast", &["place"], &["begin"], &[("to", Value::Int(7))]))
            .node(node("Slice", &["x", "begin", "end", "first"], &["y"], &[]))
            .output("seen"),
    );
    assert_eq!(graph.to_string().matches("host \"Multinomial\"").count(), 1, "{graph}");
}
