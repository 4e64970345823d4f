//! Dims that cannot be proven to fit: what is taken for granted, and that the graph is right where it holds.

use crate::support::{Builder, Extent, Value, ints, named, node};
use crate::values::floats;
use infc_frontend_onnx::{DimChoice, ImportOptions};
use infc_ir::graph::{Graph, Relation, SymbolSource};
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

fn import(builder: Builder) -> Graph {
    let graph = builder.output("y").import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let text = graph.to_string();
    let parsed: Graph = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(parsed.to_string(), text);
    graph
}

fn assumptions(graph: &Graph) -> Vec<String> {
    let relation = |r| if r == Relation::Equal { "==" } else { "<=" };
    graph
        .assumptions
        .iter()
        .map(|a| format!("{} {} {} {:?}", a.left, relation(a.relation), a.right, graph.origins[a.origin]))
        .collect()
}

#[test]
fn unrelated_dims_that_meet_are_taken_to_be_equal() {
    let graph = import(
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(2)])
            .input("z", DType::F32, &[Extent::Named("M"), Extent::Number(2)])
            .node(node("Add", &["x", "z"], &["s"], &[]))
            .node(node("Mul", &["z", "s"], &["y"], &[])),
    );
    assert_eq!(assumptions(&graph), ["$0 == $1 [\"s\"]"], "taken once");
    let (x, z) = (floats(&[3, 2]), floats(&[3, 2]));
    assert_eq!(run_graph(&graph, &[3, 3], &[x, z]).expect("they agree")[0].shape(), [3, 2]);
    // Both symbols still tell where they come from.
    let source = |n| graph.source(infc_ir::entity::SymbolId(n));
    assert_eq!(source(0), Some(SymbolSource::Axis { input: 0, axis: 0 }));
    assert_eq!(source(1), Some(SymbolSource::Axis { input: 1, axis: 0 }));
}

#[test]
fn a_cache_grows_by_what_is_new() {
    // As decoders are exported: the mask is as long as past and new tokens, but only its name says so.
    let graph = import(
        Builder::new(17)
            .input("past", DType::F32, &[Extent::Named("P"), Extent::Number(2)])
            .input("new", DType::F32, &[Extent::Named("S"), Extent::Number(2)])
            .input("mask", DType::F32, &[Extent::Named("T"), Extent::Number(1)])
            .node(node("Concat", &["past", "new"], &["all"], &[("axis", crate::support::Value::Int(0))]))
            .node(node("Add", &["all", "mask"], &["masked"], &[]))
            .node(node("Add", &["masked", "all"], &["y"], &[])),
    );
    assert_eq!(assumptions(&graph), ["$0 + $1 == $2 [\"masked\"]"]);
    assert_eq!(graph.ty(graph.inputs[2].value).shape[0].to_string(), "$0 + $1");
    let empty = Tensor::from_elements::<f32>(&[0, 2], &[]).expect("no elements");
    let inputs = [empty, floats(&[3, 2]), floats(&[3, 1])];
    assert_eq!(run_graph(&graph, &[0, 3, 3], &inputs).expect("an empty cache")[0].shape(), [3, 2]);
}

#[test]
fn what_is_thinned_out_repeats_where_it_is_one() {
    // Every 384th element of a mask, beside as many scores as the mask has elements: no length but 1 makes them equal.
    let graph = import(
        Builder::new(17)
            .input("scores", DType::F32, &[Extent::Named("N"), Extent::Named("T")])
            .input("mask", DType::F32, &[Extent::Named("N"), Extent::Named("T")])
            .initializer("first", &ints(&[0]))
            .initializer("end", &ints(&[i64::MAX]))
            .initializer("axis", &ints(&[1]))
            .initializer("step", &ints(&[384]))
            .node(node("Slice", &["mask", "first", "end", "axis", "step"], &["thin"], &[]))
            .node(node("Add", &["scores", "thin"], &["y"], &[])),
    );
    assert_eq!(assumptions(&graph), ["div($1 + 383, 384) == 1 [\"y\"]"]);
    let x = floats(&[2, 5]);
    let found = run_graph(&graph, &[2, 5], &[x.clone(), x.clone()]).expect("one of the mask").remove(0);
    assert_eq!(found.get_f64(9), x.get_f64(9).zip(x.get_f64(5)).map(|(a, b)| a + b));
}

#[test]
fn a_reshape_shows_what_its_sizes_must_be() {
    // [N, H, 4] seen as [N, 1, 4]: H is 1.
    let graph = import(
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Named("H"), Extent::Number(4)])
            .initializer("target", &ints(&[0, 1, 4]))
            .node(node("Reshape", &["x", "target"], &["r"], &[]))
            .node(node("Add", &["r", "x"], &["y"], &[])),
    );
    assert_eq!(assumptions(&graph), ["$1 == 1 [\"r\"]"]);
    let x = floats(&[2, 1, 4]);
    let found = run_graph(&graph, &[2, 1], std::slice::from_ref(&x)).expect("H is 1");
    assert_eq!(found[0].get_f64(5), x.get_f64(5).map(|v| 2.0 * v));
}

#[test]
fn what_is_left_of_a_reshape_may_leave_nothing_over() {
    // [N, 6] as [-1, 4]: 6·N must be a multiple of 4.
    let graph = import(
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(6)])
            .initializer("target", &ints(&[-1, 4]))
            .node(node("Reshape", &["x", "target"], &["y"], &[])),
    );
    assert_eq!(graph.assumptions.len(), 1, "{:?}", assumptions(&graph));
    let x = floats(&[2, 6]);
    let found = run_graph(&graph, &[2], std::slice::from_ref(&x)).expect("12 elements").remove(0);
    assert_eq!(found, x.reshaped(&[3, 4]).expect("as many"));
}

#[test]
fn what_is_left_of_many_reshapes_stays_short() {
    // Of each, what is left follows from what was left before.
    let mut model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("H"), Extent::Named("W")])
        .initializer("pairs", &ints(&[2, -1]))
        .initializer("threes", &ints(&[-1, 3]));
    let name = |step: usize| if step == 0 { "x".to_owned() } else { format!("r{step}") };
    const STEPS: usize = 90;
    for step in 0..STEPS {
        let (from, to) = (name(step), if step + 1 == STEPS { "y".to_owned() } else { name(step + 1) });
        let target = if step % 2 == 0 { "pairs" } else { "threes" };
        model = model.node(node("Reshape", &[&from, target], &[&to], &[]));
    }
    let graph = import(model);
    let x = floats(&[4, 9]);
    let symbols = infc_ir::interp::symbol_values(&graph, std::slice::from_ref(&x)).expect("all sizes");
    let found = run_graph(&graph, &symbols, std::slice::from_ref(&x)).expect("36 elements").remove(0);
    assert_eq!(found, x.reshaped(&[12, 3]).expect("as many"));
}

#[test]
fn images_are_taken_to_be_whole_blocks() {
    let to_depth = |h: Extent<'_>, w: Extent<'_>| {
        Builder::new(17).input("x", DType::F32, &[Extent::Number(1), Extent::Number(1), h, w]).node(node(
            "SpaceToDepth",
            &["x"],
            &["y"],
            &[("blocksize", Value::Int(2))],
        ))
    };
    let graph = import(to_depth(Extent::Named("H"), Extent::Named("W")));
    assert_eq!(graph.assumptions.len(), 2, "{:?}", assumptions(&graph));
    let x = floats(&[1, 1, 4, 6]);
    let found = run_graph(&graph, &[4, 6], std::slice::from_ref(&x)).expect("whole blocks").remove(0);
    assert_eq!(found.shape(), [1, 4, 2, 3]);
    let elements = |n: &usize| found.get_f64(*n);
    assert_eq!([0, 1, 6, 12].iter().map(elements).collect::<Vec<_>>(), [0, 2, 1, 6].map(|n| x.get_f64(n)));
    // The row of blocks that an image of three rows has is not whole.
    assert!(to_depth(Extent::Number(3), Extent::Named("W")).output("y").import().is_err());
}

/// `pool` of `[1, 1, N]` with windows of `size`, and `x + k` with three elements, which says what N is.
fn pooled(size: i64) -> Builder {
    let window = [("kernel_shape", Value::Ints(vec![size])), ("strides", Value::Ints(vec![3]))];
    Builder::new(17)
        .input("x", DType::F32, &[Extent::Number(1), Extent::Number(1), Extent::Named("N")])
        .initializer("k", &floats(&[1, 1, 3]))
        .node(named("pool", node("MaxPool", &["x"], &["p"], &window)))
        .node(node("Add", &["p", "k"], &["a"], &[]))
        .node(node("Add", &["x", "k"], &["b"], &[]))
        .node(node("Mul", &["a", "b"], &["y"], &[]))
}

/// That N is 3 shows after the number of windows, which is 1 then, was taken to be 3.
#[test]
fn dims_that_leave_no_choice_are_known_from_the_start() {
    let graph = import(pooled(3));
    assert!(graph.symbols.is_empty() && graph.assumptions.is_empty(), "{graph}");
    let (x, k) = (floats(&[1, 1, 3]), floats(&[1, 1, 3]));
    let at = |t: &Tensor, n: usize| t.get_f64(n).expect("an element");
    let largest = (0..3).map(|n| at(&x, n)).fold(f64::NEG_INFINITY, f64::max);
    let y = run_graph(&graph, &[], std::slice::from_ref(&x)).expect("it is valid").remove(0);
    for n in 0..3 {
        assert!((at(&y, n) - (largest + at(&k, n)) * (at(&x, n) + at(&k, n))).abs() < 1e-6);
    }
}

#[test]
fn a_window_that_cannot_fit_is_refused_however_late_that_shows() {
    let error = pooled(8).output("y").import().expect_err("eight elements of three");
    assert_eq!(error.code(), "onnx::shape-mismatch", "{error}");
    assert_eq!(error.nodes().iter().map(|n| &*n.name).collect::<Vec<_>>(), ["pool"], "{error}");
}

/// How many windows there are is needed by all that follows, so that it is the node which is to blame.
#[test]
fn windows_are_taken_to_fit() {
    for (op, attributes, least) in [
        ("MaxPool", vec![("kernel_shape", Value::Ints(vec![3]))], "0 <= $0 - 2"),
        ("AveragePool", vec![("kernel_shape", Value::Ints(vec![4])), ("strides", Value::Ints(vec![2]))], ""),
    ] {
        let graph = import(
            Builder::new(17)
                .input("x", DType::F32, &[Extent::Number(1), Extent::Number(1), Extent::Named("N")])
                .node(node(op, &["x"], &["y"], &attributes)),
        );
        let taken = assumptions(&graph);
        assert!(taken.len() == 1 && taken[0].starts_with(least) && taken[0].ends_with("[\"y\"]"), "{op}: {taken:?}");
    }
    let padded = [("kernel_shape", Value::Ints(vec![3])), ("pads", Value::Ints(vec![1, 1]))];
    let graph = import(
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Number(1), Extent::Number(1), Extent::Named("N")])
            .node(node("MaxPool", &["x"], &["y"], &padded)),
    );
    assert!(graph.assumptions.is_empty(), "as many windows as elements: {:?}", assumptions(&graph));
}

/// What a `Squeeze` drops is 1 in all that is computed, and still told by the input that has it.
#[test]
fn what_is_required_is_in_its_place() {
    let graph = import(
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("T"), Extent::Named("N"), Extent::Number(2)])
            .input("z", DType::F32, &[Extent::Named("T"), Extent::Named("N"), Extent::Number(2)])
            .initializer("one", &ints(&[1]))
            .node(node("Add", &["x", "z"], &["s"], &[]))
            .node(node("Squeeze", &["s", "one"], &["y"], &[])),
    );
    assert_eq!(graph.requires.len(), 1);
    for port in &graph.inputs {
        assert_eq!(graph.port_type(port).shape[1].to_string(), "1");
    }
    assert_eq!(graph.source(infc_ir::entity::SymbolId(1)), Some(SymbolSource::Axis { input: 0, axis: 1 }));
    let inputs = [floats(&[3, 1, 2]), floats(&[3, 1, 2])];
    assert_eq!(run_graph(&graph, &[3, 1], &inputs).expect("N is 1")[0].shape(), [3, 2]);
    let inputs = [floats(&[3, 2, 2]), floats(&[3, 2, 2])];
    assert!(run_graph(&graph, &[3, 2], &inputs).is_err());
}

/// What stands for both of two equal dims is within the bounds that either was given.
#[test]
fn equal_dims_share_their_bounds() {
    let bounds = |n: DimChoice, m: DimChoice| {
        let options = ImportOptions { dims: vec![("N".into(), n), ("M".into(), m)], ..ImportOptions::default() };
        let graph = Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3)])
            .input("z", DType::F32, &[Extent::Named("M"), Extent::Number(4)])
            .node(node("Concat", &["x", "z"], &["y"], &[("axis", Value::Int(1))]))
            .output("y")
            .import_with(&options)
            .unwrap_or_else(|e| panic!("{e}"));
        let of = |n: usize| graph.port_type(&graph.inputs[n]).shape[0].as_symbol().expect("a symbol");
        assert_eq!(of(0), of(1));
        let symbol = &graph.symbols[of(0)];
        (symbol.min, symbol.max)
    };
    assert_eq!(bounds(DimChoice::Range(1, Some(8)), DimChoice::Range(3, Some(50))), (3, Some(8)));
    assert_eq!(bounds(DimChoice::Range(2, Some(80)), DimChoice::Range(1, Some(9))), (2, Some(9)));
    assert_eq!(bounds(DimChoice::Range(1, Some(8)), DimChoice::Range(0, None)), (1, Some(8)));
}
