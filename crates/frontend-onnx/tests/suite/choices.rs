//! `If` whose branches do not make sense alike, and what is left of a branch that was given up.

use crate::hostile::survives;
use crate::support::{Builder, Extent, Value, ints, node, value_info};
use crate::values::{Definitions, floats};
use infc_frontend_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use infc_ir::graph::Graph;
use infc_ir::interp::{run_graph_with, symbol_values};
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

fn branch(nodes: Vec<NodeProto>, output: &str) -> Value {
    Value::Graph(GraphProto {
        name: Some("branch".to_owned()),
        node: nodes,
        output: vec![ValueInfoProto { name: Some(output.to_owned()), ..ValueInfoProto::default() }],
        ..GraphProto::default()
    })
}

fn choice(condition: &str, then: Value, otherwise: Value, output: &str) -> NodeProto {
    node("If", &[condition], &[output], &[("then_branch", then), ("else_branch", otherwise)])
}

#[track_caller]
fn import(model: &Builder) -> Graph {
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    for symbol in graph.symbols.ids() {
        assert!(graph.source(symbol).is_some(), "nothing tells {}", graph.symbols[symbol].name);
    }
    survives(model, 100);
    graph
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let symbols = symbol_values(graph, inputs).map_err(|e| e.to_string())?;
    run_graph_with(graph, &symbols, inputs, &Definitions).map_err(|e| e.to_string())
}

/// `x · w` for one of two lengths of `x`, of which only one is that of the model.
fn products() -> (Value, Value) {
    (
        branch(vec![node("MatMul", &["x", "v"], &["a"], &[])], "a"),
        branch(vec![node("MatMul", &["x", "w"], &["b"], &[])], "b"),
    )
}

fn two_lengths() -> Builder {
    Builder::new(17).f32("x", &[1, 6]).initializer("v", &floats(&[4, 2])).initializer("w", &floats(&[6, 2]))
}

#[test]
fn a_branch_that_cannot_be_is_not_taken() {
    let (then, otherwise) = products();
    let by_rate = two_lengths()
        .input("rate", DType::I64, &[])
        .initializer("low", &Tensor::scalar(8000i64))
        .node(node("Equal", &["rate", "low"], &["is_low"], &[]))
        .node(choice("is_low", then.clone(), otherwise.clone(), "y"))
        .output("y");
    let graph = import(&by_rate);
    assert_eq!(graph.requires.len(), 1);
    let x = floats(&[1, 6]);
    assert_eq!(run(&graph, &[x.clone(), Tensor::scalar(16000i64)]).expect("the other")[0].shape(), [1, 2]);
    let error = run(&graph, &[x.clone(), Tensor::scalar(8000i64)]).expect_err("the one that cannot be");
    assert!(error.contains("the only one under which its shapes fit"), "{error}");

    // The condition is computed of floats.
    let by_level = two_lengths()
        .f32("level", &[])
        .initializer("zero", &Tensor::scalar(0.0f32))
        .node(node("Greater", &["level", "zero"], &["is_loud"], &[]))
        .node(choice("is_loud", otherwise, then, "y"))
        .output("y");
    let graph = import(&by_level);
    assert!(run(&graph, &[x.clone(), Tensor::scalar(1.0f32)]).is_ok());
    assert!(run(&graph, &[x, Tensor::scalar(-1.0f32)]).is_err());
}

#[test]
fn if_no_branch_can_be_the_model_is_refused() {
    let (then, _) = products();
    let model = two_lengths().input("go", DType::Bool, &[]).node(choice("go", then.clone(), then, "y")).output("y");
    assert_eq!(model.import().expect_err("neither fits").code(), "onnx::shape-mismatch");
}

/// What one branch would have produced is nobody's after the other has been chosen.
#[test]
fn symbols_of_a_branch_that_was_given_up_are_forgotten() {
    let places =
        branch(vec![node("NonZero", &["x"], &["places"], &[]), node("Transpose", &["places"], &["rows"], &[])], "rows");
    let other = branch(vec![node("Shape", &["x"], &["sizes"], &[])], "sizes");
    let model = Builder::new(17)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3)])
        .initializer("four", &ints(&[4]))
        .initializer("zero", &ints(&[0]))
        .node(node("Shape", &["x"], &["shape"], &[]))
        .node(node("Gather", &["shape", "zero"], &["n"], &[]))
        .node(node("Equal", &["n", "four"], &["is_four"], &[]))
        // The results have other ranks, so that one answer is assumed.
        .node(choice("is_four", places, other, "y"))
        .output("y");
    let graph = import(&model);
    let rows = run(&graph, &[floats(&[4, 3])]).expect("four rows");
    assert_eq!(rows[0].shape()[1], 2);
}

/// How many there are is data, and that there may be none is no question of what the model is compiled for.
#[test]
fn nothing_found_is_a_choice_of_the_run() {
    let none = branch(vec![node("Identity", &["nothing"], &["none"], &[])], "none");
    let some = branch(vec![node("Transpose", &["places"], &["rows"], &[])], "rows");
    let model = Builder::new(17)
        .f32("x", &[2, 3])
        .initializer("zero", &Tensor::scalar(0i64))
        .initializer("level", &Tensor::scalar(0.0f32))
        .initializer("nothing", &Tensor::from_elements::<i64>(&[0, 2], &[]).expect("no elements"))
        .node(node("Greater", &["x", "level"], &["above"], &[]))
        .node(node("NonZero", &["above"], &["places"], &[]))
        .node(node("Size", &["places"], &["size"], &[]))
        .node(node("Equal", &["size", "zero"], &["is_empty"], &[]))
        .node(choice("is_empty", none, some, "y"))
        .output("y");
    let graph = import(&model);
    let x = |values: &[f32; 6]| Tensor::from_elements(&[2, 3], values).expect("six");
    let found = run(&graph, &[x(&[1.0, -1.0, 2.0, -1.0, -1.0, 3.0])]).expect("three places");
    assert_eq!(found[0].shape(), [3, 2]);
    let found = run(&graph, &[x(&[-1.0; 6])]).expect("no place");
    assert_eq!(found[0].shape(), [0, 2]);
}

#[test]
fn the_first_row_of_a_batch_meets_other_rows() {
    let model = |other: &[Extent<'_>]| {
        Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(2)])
            .input("z", DType::F32, other)
            .initializer("from", &ints(&[0]))
            .initializer("to", &ints(&[1]))
            .node(node("Slice", &["x", "from", "to"], &["first"], &[]))
            .node(node("Add", &["first", "z"], &["y"], &[]))
            .output("y")
    };
    let same = import(&model(&[Extent::Named("N"), Extent::Number(2)]));
    for n in [0usize, 1, 3] {
        let (x, z) = (floats(&[n, 2]), floats(&[n, 2]));
        assert_eq!(run(&same, &[x, z]).expect("the first row to all")[0].shape(), [n, 2]);
    }
    for other in [Extent::Named("M"), Extent::Number(4)] {
        let graph = import(&model(&[other, Extent::Number(2)]));
        let found = run(&graph, &[floats(&[3, 2]), floats(&[4, 2])]).expect("the first row to all");
        assert_eq!(found[0].shape(), [4, 2]);
        assert!(run(&graph, &[floats(&[0, 2]), floats(&[4, 2])]).is_err(), "there is no first row");
    }
}

/// One row of any, cut out as DETR's positions are: it repeats, or there is nothing to repeat it to.
#[test]
fn any_single_row_of_a_batch_meets_all() {
    for (from, to) in [(-1, i64::MAX), (-2, -1), (1, 2), (0, 1)] {
        let model = Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(2)])
            .initializer("from", &ints(&[from]))
            .initializer("to", &ints(&[to]))
            .node(node("Slice", &["x", "from", "to"], &["one"], &[]))
            .node(node("Sub", &["x", "one"], &["y"], &[]))
            .output("y");
        let graph = import(&model);
        for n in [2i64, 3, 7] {
            let x = floats(&[n as usize, 2]);
            let row = (if from < 0 { n + from } else { from }) as usize;
            let elements = x.elements::<f32>().expect("floats");
            let expected: Vec<f32> =
                elements.iter().enumerate().map(|(at, v)| v - elements[2 * row + at % 2]).collect();
            let found = run(&graph, std::slice::from_ref(&x)).expect("one row to all");
            assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{from}..{to} of {n}");
        }
    }
}

/// Axes that the run chooses are folded or not, and what is left repeats along them.
#[test]
fn what_is_folded_along_chosen_axes_repeats() {
    let model = Builder::new(18)
        .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3), Extent::Number(1)])
        .input("axes", DType::I64, &[Extent::Named("A")])
        .node(node("ReduceSum", &["x", "axes"], &["sum"], &[]))
        .node(node("Sub", &["x", "sum"], &["y"], &[]))
        .output("y");
    let graph = import(&model);
    for (n, axes, sums) in [
        (2usize, &[0i64][..], [3.0f32, 5.0, 7.0, 3.0, 5.0, 7.0]),
        (2, &[1], [3.0, 3.0, 3.0, 12.0, 12.0, 12.0]),
        (2, &[-1, 0, 1], [15.0; 6]),
        (2, &[2], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ] {
        let x: Vec<f32> = (0..3 * n).map(|v| v as f32).collect();
        let expected: Vec<f32> = x.iter().zip(sums).map(|(x, sum)| x - sum).collect();
        let x = Tensor::from_elements(&[n, 3, 1], &x).expect("fits");
        let symbols = symbol_values(&graph, &[x.clone(), ints(axes)]).expect("they fit");
        let found = run_graph_with(&graph, &symbols, &[x, ints(axes)], &Definitions).expect("it runs");
        assert_eq!(found[0].elements::<f32>().expect("floats"), expected, "{axes:?}");
    }
}

/// Nothing may be written where something may be read: there are as many updates as data says.
#[test]
fn no_updates_leave_everything_as_it_is() {
    let model = Builder::new(17)
        .f32("x", &[4])
        .initializer("level", &Tensor::scalar(0.0f32))
        .node(node("Greater", &["x", "level"], &["above"], &[]))
        .node(node("NonZero", &["above"], &["places"], &[]))
        .initializer("zero", &ints(&[0]))
        .node(node("Squeeze", &["places", "zero"], &["at"], &[]))
        .node(node("Gather", &["x", "at"], &["found"], &[]))
        .node(node("Neg", &["found"], &["updates"], &[]))
        .node(node("ScatterElements", &["x", "at", "updates"], &["y"], &[]))
        .node(node("Transpose", &["places"], &["rows"], &[]))
        .node(node("ScatterND", &["x", "rows", "updates"], &["z"], &[]))
        .output("y")
        .output("z");
    let graph = import(&model);
    for values in [[1.0f32, -2.0, 3.0, -4.0], [-1.0, -2.0, -3.0, -4.0], [1.0, 2.0, 3.0, 4.0]] {
        let x = Tensor::from_elements(&[4], &values).expect("four");
        let expected = Tensor::from_elements(&[4], &values.map(|v| -v.abs())).expect("four");
        assert_eq!(run(&graph, &[x]).expect("it runs"), [expected.clone(), expected]);
    }
}

/// Lists of which nobody knows how long they are, more than an expression of sizes could say one by one.
#[test]
fn many_lists_of_unknown_lengths_one_after_the_other() {
    let names: Vec<String> = (0..90).map(|n| format!("list{n}")).collect();
    let mut model = Builder::new(17).f32("x", &[2, 3]);
    for (n, name) in names.iter().enumerate() {
        let (level, above) = (format!("level{n}"), format!("above{n}"));
        model = model
            .initializer(&level, &Tensor::scalar(n as f32 / 45.0 - 1.0))
            .node(node("Greater", &["x", &level], &[&above], &[]))
            .node(node("NonZero", &[&above], &[name], &[]));
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let model = model.node(node("Concat", &inputs, &["y"], &[("axis", Value::Int(1))])).output("y");
    let graph = import(&model);
    let x = floats(&[2, 3]);
    let found = run(&graph, std::slice::from_ref(&x)).expect("it runs").remove(0);
    let above =
        |n: usize| (0..6).filter(|&at| x.get_f64(at).expect("an element") as f32 > n as f32 / 45.0 - 1.0).count();
    assert_eq!(found.shape(), [2, (0..90).map(above).sum()]);
}

/// Without axes `Squeeze` drops every extent of 1, so that the rank depends on what only the run tells.
#[test]
fn what_the_run_shows_to_be_one_is_not_left_in_place() {
    let model = |opset| {
        Builder::new(opset)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(1), Extent::Number(3)])
            .node(node("Squeeze", &["x"], &["y"], &[]))
    };
    for opset in [1, 11, 13, 21] {
        let graph = import(&model(opset).output("y"));
        assert_eq!(run(&graph, &[floats(&[2, 1, 3])]).expect("two rows")[0].shape(), [2, 3]);
        let error = run(&graph, &[floats(&[1, 1, 3])]).expect_err("one row");
        assert!(error.contains("the extent of axis 0, which `y` would squeeze"), "{error}");
    }
    // That there is one row shows behind it.
    let later = model(13)
        .initializer("shape", &ints(&[3]))
        .node(node("Reshape", &["x", "shape"], &["row"], &[]))
        .output("y")
        .output("row");
    let graph = import(&later);
    assert_eq!(run(&graph, &[floats(&[1, 1, 3])]).expect("one row")[0].shape(), [3]);
    // So does the number of rows that a state has.
    let weights = |n: usize, k: usize| floats(&[1, n, k]);
    let state = Builder::new(11)
        .input("x", DType::F32, &[Extent::Number(5), Extent::Named("N"), Extent::Number(3)])
        .initializer("w", &weights(12, 3))
        .initializer("r", &weights(12, 4))
        .f32("h", &[1, 1, 4])
        .node(node("GRU", &["x", "w", "r", "", "", "h"], &["all", "last"], &[("hidden_size", Value::Int(4))]))
        .node(node("Squeeze", &["last"], &["y"], &[]))
        .output("y");
    let graph = import(&state);
    assert_eq!(run(&graph, &[floats(&[5, 1, 3]), floats(&[1, 1, 4])]).expect("one row")[0].shape(), [4]);
    assert!(run(&graph, &[floats(&[5, 2, 3]), floats(&[1, 1, 4])]).is_err());
    // What data tells may be 1, and then there is an axis less.
    let found = Builder::new(17)
        .f32("x", &[4])
        .node(node("NonZero", &["x"], &["places"], &[]))
        .node(node("Squeeze", &["places"], &["y"], &[]))
        .output("y");
    let graph = import(&found);
    let x = |values: &[f32; 4]| Tensor::from_elements(&[4], values).expect("four");
    assert_eq!(run(&graph, &[x(&[1.0, 0.0, 2.0, 0.0])]).expect("two places")[0].shape(), [2]);
    assert_eq!(run(&graph, &[x(&[0.0, 0.0, 1.0, 0.0])]).expect("one place"), [Tensor::scalar(2i64)]);
}

/// A slice is no longer than what it is of, wherever it begins: what meets more elements repeats, and has to be one.
#[test]
fn a_slice_that_is_too_short_repeats() {
    let model = |starts: &[i64], step: i64, other: usize| {
        Builder::new(17)
            .initializer("table", &floats(&[4]))
            .initializer("starts", &ints(starts))
            .input("ends", DType::I64, &[Extent::Number(1)])
            .initializer("axes", &ints(&[0]))
            .initializer("steps", &ints(&[step]))
            .f32("x", &[other as i64])
            .node(node("Slice", &["table", "starts", "ends", "axes", "steps"], &["part"], &[]))
            .node(node("Add", &["part", "x"], &["y"], &[]))
            .output("y")
    };
    for (start, step, other, end) in [(0, 1, 7, 1), (1, 1, 4, 2), (1, 2, 3, 2), (-1, -1, 5, 2), (3, 1, 2, 9)] {
        let graph = import(&model(&[start], step, other));
        let found = run(&graph, &[ints(&[end]), floats(&[other])]).unwrap_or_else(|e| panic!("{start}: {e}"));
        assert_eq!(found[0].shape(), [other], "{start}");
    }
    // Of three elements there may be as many as others are.
    let graph = import(&model(&[1], 1, 3));
    assert!(run(&graph, &[ints(&[4]), floats(&[3])]).is_ok());
    assert_eq!(graph.assumptions.len(), 1, "taken to be as long");
}

/// How many rows there are, the branch that is taken tells: an input that meets them has rows of its own.
#[test]
fn what_a_choice_tells_does_not_stand_for_the_size_of_an_input() {
    let all = branch(vec![node("Abs", &["x"], &["a"], &[])], "a");
    let some = branch(vec![node("Slice", &["x", "zero", "two"], &["b"], &[])], "b");
    let model = Builder::new(17)
        .f32("x", &[4, 3])
        .input("go", DType::Bool, &[])
        .input("r", DType::F32, &[Extent::Named("R"), Extent::Number(3)])
        .initializer("zero", &ints(&[0]))
        .initializer("two", &ints(&[2]))
        .node(choice("go", all, some, "rows"))
        .node(node("Add", &["rows", "r"], &["y"], &[]))
        .output("y");
    let graph = import(&model);
    for (go, rows) in [(true, 4), (false, 2)] {
        let inputs = [floats(&[4, 3]), Tensor::from_bools(&[], &[go]).expect("one"), floats(&[rows, 3])];
        assert_eq!(run(&graph, &inputs).expect("as many rows")[0].shape(), [rows, 3]);
        let others = [inputs[0].clone(), inputs[1].clone(), floats(&[6 - rows, 3])];
        assert!(run(&graph, &others).is_err(), "other rows");
    }
}

/// Of nothing nothing is found, which needs no symbol: nobody divides by it.
#[test]
fn nothing_is_found_in_nothing() {
    let model = Builder::new(21)
        .f32("x", &[0, 3])
        .node(node("NonZero", &["x"], &["places"], &[]))
        .node(node("Cast", &["places"], &["y"], &[("to", Value::Int(21))]))
        .output("y");
    let graph = import(&model);
    assert!(graph.symbols.is_empty(), "{graph}");
    assert_eq!(run(&graph, &[floats(&[0, 3])]).expect("nothing")[0].len_elems(), 0);
}

/// A condition on a dim, of which either answer makes sense by itself: what the outputs are declared to be tells which.
#[test]
fn an_answer_fits_the_outputs_that_are_declared() {
    let model = |extents: Option<[Extent<'_>; 2]>| {
        let mut model = Builder::new(17)
            .input("x", DType::F32, &[Extent::Named("N"), Extent::Number(3)])
            .initializer("first", &ints(&[0]))
            .initializer("one", &ints(&[1]))
            .initializer("scalar", &Tensor::scalar(1.0f32))
            .initializer("list", &floats(&[1]))
            .node(node("Shape", &["x"], &["shape"], &[]))
            .node(node("Gather", &["shape", "first"], &["n"], &[("axis", Value::Int(0))]))
            .node(node("Equal", &["n", "one"], &["is_one"], &[]))
            // Results of different ranks cannot be a choice at run time.
            .node(choice(
                "is_one",
                branch(vec![node("Identity", &["scalar"], &["a"], &[])], "a"),
                branch(vec![node("Identity", &["list"], &["b"], &[])], "b"),
                "c",
            ))
            .node(node("Add", &["x", "c"], &["y"], &[]))
            .output("y");
        if let Some(extents) = extents {
            model.graph().output[0] = value_info("y", DType::F32, Some(&extents));
        }
        import(&model)
    };
    let equal = |graph: &Graph| graph.requires.iter().map(|r| r.equal).collect::<Vec<bool>>();
    assert_eq!(equal(&model(None)), [true]);
    assert_eq!(equal(&model(Some([Extent::Named("N"), Extent::Number(3)]))), [true]);
    assert_eq!(equal(&model(Some([Extent::Number(1), Extent::Number(3)]))), [true]);
    let graph = model(Some([Extent::Number(4), Extent::Number(3)]));
    assert_eq!(equal(&graph), [false]);
    assert_eq!(run(&graph, &[floats(&[4, 3])]).expect("it is not 1")[0].shape(), [4, 3]);
    assert!(run(&graph, &[floats(&[1, 3])]).is_err());
}
