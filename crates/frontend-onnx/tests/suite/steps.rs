//! `Scan` and `Loop`, run by the interpreter against values worked out here.

use crate::hostile::survives;
use crate::support::{Builder, Extent, Value, ints, node, value_info};
use crate::values::Definitions;
use infc_frontend_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use infc_ir::graph::Graph;
use infc_ir::interp::{run_graph, run_graph_with, symbol_values};
use infc_ir::op::Op;
use infc_ir::verify::verify_graph;
use infc_tensor::{DType, Tensor};

pub(crate) fn body(inputs: &[&str], nodes: Vec<NodeProto>, outputs: &[&str]) -> Value {
    let port = |name: &&str| ValueInfoProto { name: Some((*name).to_owned()), ..ValueInfoProto::default() };
    Value::Graph(GraphProto {
        name: Some("body".to_owned()),
        input: inputs.iter().map(port).collect(),
        output: outputs.iter().map(port).collect(),
        node: nodes,
        ..GraphProto::default()
    })
}

pub(crate) fn tensor(shape: &[usize], elements: &[f32]) -> Tensor {
    Tensor::from_elements(shape, elements).expect("as many as the shape has")
}

fn counting(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>()).map(|n| n as f32).collect();
    tensor(shape, &elements)
}

#[track_caller]
pub(crate) fn runs(model: &Builder, symbols: &[i64], inputs: &[Tensor], expected: &[Tensor]) -> Graph {
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let found = run_graph(&graph, symbols, inputs).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found, expected);
    survives(model, 100);
    graph
}

pub(crate) fn is_recurrence(graph: &Graph) -> bool {
    graph.nodes.iter().any(|n| matches!(n.op, Op::Recurrence(_)))
}

/// Sums rows and gives each sum, times a value from outside.
fn sums(inputs: &[&str]) -> Value {
    let nodes = vec![node("Add", &["sum", "row"], &["next"], &[]), node("Mul", &["next", "w"], &["scaled"], &[])];
    body(inputs, nodes, &["next", "scaled"])
}

fn scan(extent: Extent<'_>, attributes: &[(&str, Value)]) -> Builder {
    let all = [&[("body", sums(&["sum", "row"])), ("num_scan_inputs", Value::Int(1))], attributes].concat();
    Builder::new(16)
        .f32("s", &[2])
        .input("x", DType::F32, &[extent, Extent::Number(2)])
        .f32("w", &[2])
        .node(node("Scan", &["s", "x"], &["y", "z"], &all))
        .output("y")
        .output("z")
}

#[test]
fn states_are_carried_and_results_stacked() {
    let (s, x, w) = (tensor(&[2], &[1.0, 10.0]), counting(&[3, 2]), tensor(&[2], &[1.0, -1.0]));
    let expected = [tensor(&[2], &[7.0, 19.0]), tensor(&[3, 2], &[1.0, -11.0, 3.0, -14.0, 7.0, -19.0])];
    let graph = runs(&scan(Extent::Number(3), &[]), &[], &[s.clone(), x.clone(), w.clone()], &expected);
    assert!(is_recurrence(&graph));
    let dynamic = scan(Extent::Named("N"), &[]);
    runs(&dynamic, &[3], &[s.clone(), x, w.clone()], &expected);
    // No steps leave the state as it is.
    runs(&dynamic, &[0], &[s.clone(), tensor(&[0, 2], &[]), w.clone()], &[s.clone(), tensor(&[0, 2], &[])]);
    let one = [tensor(&[2], &[1.0, 11.0]), tensor(&[1, 2], &[1.0, -11.0])];
    let graph = runs(&scan(Extent::Number(1), &[]), &[], &[s, counting(&[1, 2]), w], &one);
    assert!(!is_recurrence(&graph), "one step is its graph");
}

#[test]
fn axes_and_directions() {
    let reverse = |name| (name, Value::Ints(vec![1]));
    let (s, x, w) = (tensor(&[2], &[0.0, 0.0]), counting(&[3, 2]), tensor(&[2], &[1.0, 1.0]));
    let model = scan(Extent::Number(3), &[reverse("scan_input_directions")]);
    let expected = [tensor(&[2], &[6.0, 9.0]), tensor(&[3, 2], &[4.0, 5.0, 6.0, 8.0, 6.0, 9.0])];
    runs(&model, &[], &[s.clone(), x.clone(), w.clone()], &expected);
    let model = scan(Extent::Number(3), &[reverse("scan_output_directions")]);
    let expected = [tensor(&[2], &[6.0, 9.0]), tensor(&[3, 2], &[6.0, 9.0, 2.0, 4.0, 0.0, 1.0])];
    runs(&model, &[], &[s.clone(), x.clone(), w.clone()], &expected);
    let model = scan(Extent::Number(3), &[("scan_output_axes", Value::Ints(vec![-1]))]);
    let expected = [tensor(&[2], &[6.0, 9.0]), tensor(&[2, 3], &[0.0, 2.0, 6.0, 1.0, 4.0, 9.0])];
    runs(&model, &[], &[s.clone(), x, w.clone()], &expected);
    let all = [
        ("body", sums(&["sum", "row"])),
        ("num_scan_inputs", Value::Int(1)),
        ("scan_input_axes", Value::Ints(vec![1])),
    ];
    let model = Builder::new(11).f32("s", &[2]).f32("x", &[2, 3]).f32("w", &[2]);
    let model = model.node(node("Scan", &["s", "x"], &["y", "z"], &all)).output("y").output("z");
    let expected = [tensor(&[2], &[3.0, 12.0]), tensor(&[3, 2], &[0.0, 3.0, 1.0, 7.0, 3.0, 12.0])];
    runs(&model, &[], &[s, counting(&[2, 3]), w], &expected);
}

#[test]
fn the_first_version_has_a_batch() {
    let all = [("body", sums(&["sum", "row"])), ("num_scan_inputs", Value::Int(1))];
    let model = Builder::new(8).f32("s", &[2, 1]).f32("x", &[2, 3, 1]).f32("w", &[1]);
    let model = model.node(node("Scan", &["", "s", "x"], &["y", "z"], &all)).output("y").output("z");
    let inputs = [tensor(&[2, 1], &[0.0, 100.0]), counting(&[2, 3, 1]), tensor(&[1], &[2.0])];
    let expected = [tensor(&[2, 1], &[3.0, 112.0]), tensor(&[2, 3, 1], &[0.0, 2.0, 6.0, 206.0, 214.0, 224.0])];
    runs(&model, &[], &inputs, &expected);
}

fn looped(opset: i64, count: &Tensor, condition: &str, graph: Value) -> Builder {
    Builder::new(opset)
        .f32("s", &[1])
        .f32("w", &[1])
        .initializer("count", count)
        .initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
        .initializer("false", &Tensor::from_bools(&[], &[false]).expect("one"))
        .initializer("one", &Tensor::scalar(1i64))
        .initializer("four", &Tensor::scalar(4i64))
        .initializer("zeros", &ints(&[0]))
        .node(node("Loop", &["count", condition, "s"], &["y", "z"], &[("body", graph)]))
        .output("y")
        .output("z")
}

#[test]
fn a_loop_that_counts_is_a_recurrence() {
    let nodes = vec![
        node("Cast", &["n"], &["f"], &[("to", Value::Int(1))]),
        node("Add", &["sum", "f"], &["added"], &[]),
        node("Add", &["added", "w"], &["next"], &[]),
        node("Identity", &["c"], &["on"], &[]),
    ];
    let graph = body(&["n", "c", "sum"], nodes, &["on", "next", "next"]);
    let inputs = [tensor(&[1], &[1.0]), tensor(&[1], &[0.5])];
    let rows: Vec<f32> = (0..100i32).map(|n| 1.0 + (n * (n + 1) / 2) as f32 + 0.5 * (n + 1) as f32).collect();
    let expected = [tensor(&[1], &rows[99..]), tensor(&[100, 1], &rows)];
    for condition in ["", "true"] {
        let model = looped(16, &Tensor::scalar(100i64), condition, graph.clone());
        assert!(is_recurrence(&runs(&model, &[], &inputs, &expected)));
    }
}

#[test]
fn steps_that_differ_are_written_out() {
    // A state that grows, and a slice at the number of the step.
    let nodes = vec![
        node("Add", &["n", "one"], &["end"], &[]),
        node("Unsqueeze", &["n", "zeros"], &["from"], &[]),
        node("Unsqueeze", &["end", "zeros"], &["to"], &[]),
        node("Slice", &["table", "from", "to"], &["part"], &[]),
        node("Concat", &["sum", "part"], &["next"], &[("axis", Value::Int(0))]),
        node("Identity", &["c"], &["on"], &[]),
    ];
    let graph = body(&["n", "c", "sum"], nodes, &["on", "next", "part"]);
    let model =
        looped(16, &Tensor::scalar(3i64), "true", graph).initializer("table", &tensor(&[4], &[5.0, 6.0, 7.0, 8.0]));
    let expected = [tensor(&[4], &[1.0, 5.0, 6.0, 7.0]), tensor(&[3, 1], &[5.0, 6.0, 7.0])];
    runs(&model, &[], &[tensor(&[1], &[1.0]), tensor(&[1], &[0.0])], &expected);
}

#[test]
fn a_condition_on_the_number_of_the_step_ends_a_loop() {
    let nodes = || vec![node("Add", &["sum", "w"], &["next"], &[]), node("Less", &["n", "four"], &["on"], &[])];
    let graph = || body(&["n", "c", "sum"], nodes(), &["on", "next", "next"]);
    let inputs = [tensor(&[1], &[0.0]), tensor(&[1], &[2.0])];
    let expected = [tensor(&[1], &[10.0]), tensor(&[5, 1], &[2.0, 4.0, 6.0, 8.0, 10.0])];
    for count in [i64::MAX, 60] {
        runs(&looped(16, &Tensor::scalar(count), "true", graph()), &[], &inputs, &expected);
    }
    let expected = [tensor(&[1], &[4.0]), tensor(&[2, 1], &[2.0, 4.0])];
    runs(&looped(16, &Tensor::scalar(2i64), "", graph()), &[], &inputs, &expected);
}

#[test]
fn loops_inside_of_loops_are_written_out() {
    let inner = body(
        &["m", "d", "acc"],
        vec![node("Add", &["acc", "w"], &["more"], &[]), node("Identity", &["d"], &["still"], &[])],
        &["still", "more"],
    );
    let nodes =
        vec![node("Loop", &["four", "", "sum"], &["next"], &[("body", inner)]), node("Identity", &["c"], &["on"], &[])];
    let graph = body(&["n", "c", "sum"], nodes, &["on", "next", "next"]);
    let model = looped(16, &Tensor::scalar(3i64), "true", graph);
    let expected = [tensor(&[1], &[12.0]), tensor(&[3, 1], &[4.0, 8.0, 12.0])];
    runs(&model, &[], &[tensor(&[1], &[0.0]), tensor(&[1], &[1.0])], &expected);
}

/// Adds a number until the sum is at least 10.
fn until_large() -> Value {
    let nodes = vec![
        node("Add", &["sum", "w"], &["next"], &[]),
        node("Constant", &[], &["ten"], &[("value_float", Value::Float(10.0))]),
        node("Less", &["next", "ten"], &["on"], &[]),
    ];
    body(&["n", "c", "sum"], nodes, &["on", "next", "next"])
}

#[track_caller]
pub(crate) fn runs_with_host(model: &Builder, inputs: &[Tensor], expected: &[Tensor]) {
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    let symbols = symbol_values(&graph, inputs).unwrap_or_else(|e| panic!("{e}"));
    let found = run_graph_with(&graph, &symbols, inputs, &Definitions).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found, expected);
    survives(model, 50);
}

#[test]
fn a_condition_on_data_ends_a_loop() {
    let model = looped(16, &Tensor::scalar(100i64), "true", until_large());
    for (w, rows) in [(4.0, &[5.0, 9.0, 13.0][..]), (20.0, &[21.0]), (9.0, &[10.0])] {
        let expected = [tensor(&[1], &rows[rows.len() - 1..]), tensor(&[rows.len(), 1], rows)];
        runs_with_host(&model, &[tensor(&[1], &[1.0]), tensor(&[1], &[w])], &expected);
    }
    // The limit comes first.
    let expected = [tensor(&[1], &[3.0]), tensor(&[2, 1], &[2.0, 3.0])];
    let model = looped(16, &Tensor::scalar(2i64), "true", until_large());
    runs_with_host(&model, &[tensor(&[1], &[1.0]), tensor(&[1], &[1.0])], &expected);
}

/// Newton's method, until what is left is small: nobody knows how many steps that takes.
fn newton() -> Value {
    let nodes = vec![
        node("Div", &["w", "s0"], &["other"], &[]),
        node("Add", &["s0", "other"], &["both"], &[]),
        node("Constant", &[], &["two"], &[("value_float", Value::Float(2.0))]),
        node("Div", &["both", "two"], &["next"], &[]),
        node("Sub", &["next", "s0"], &["step"], &[]),
        node("Abs", &["step"], &["size"], &[]),
        node("Constant", &[], &["small"], &[("value_float", Value::Float(1e-4))]),
        node("Greater", &["size", "small"], &["on"], &[]),
    ];
    body(&["n", "c", "s0"], nodes, &["on", "next"])
}

#[test]
fn only_a_condition_on_data_ends_a_loop() {
    let end = |model: Builder| model.node(node("Mul", &["root", "root"], &["y"], &[])).output("y");
    let start = || {
        let start = Builder::new(16).f32("s", &[]).f32("w", &[]);
        start.initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
    };
    let looped = |model: Builder, most: &str| {
        end(model.node(node("Loop", &[most, "true", "s"], &["root"], &[("body", newton())])))
    };
    let limits = [i64::MAX, i64::from(i32::MAX), 1 << 20];
    let mut models: Vec<Builder> =
        limits.map(|most| looped(start().initializer("most", &Tensor::scalar(most)), "most")).into_iter().collect();
    models.push(looped(start(), ""));
    for model in models {
        for w in [9.0f32, 2.25, 1e4] {
            let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
            verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
            let inputs = [Tensor::scalar(1.0f32), Tensor::scalar(w)];
            let symbols = symbol_values(&graph, &inputs).unwrap_or_else(|e| panic!("{e}"));
            let found = run_graph_with(&graph, &symbols, &inputs, &Definitions).unwrap_or_else(|e| panic!("{e}"));
            let y = found[0].get_f64(0).expect("one");
            assert!((y / f64::from(w) - 1.0).abs() < 1e-5, "{y} for {w}");
        }
        survives(&model, 50);
    }
}

#[test]
fn the_run_says_how_many_steps_there_are() {
    let nodes = || vec![node("Add", &["sum", "w"], &["next"], &[]), node("Identity", &["c"], &["on"], &[])];
    let graph = || body(&["n", "c", "sum"], nodes(), &["on", "next", "next"]);
    let start = || Builder::new(16).f32("s", &[1]).f32("w", &[1]);
    let ends = |model: Builder, condition: &str| {
        let node = node("Loop", &["count", condition, "s"], &["y", "z"], &[("body", graph())]);
        model.node(node).output("y").output("z")
    };
    let (s, w) = (tensor(&[1], &[1.0]), tensor(&[1], &[2.5]));
    let expected = |steps: usize| {
        let rows: Vec<f32> = (0..steps).map(|n| 1.0 + 2.5 * (n + 1) as f32).collect();
        [tensor(&[1], &[1.0 + 2.5 * steps as f32]), tensor(&[steps, 1], &rows)]
    };
    // An input, which is a number of the run.
    let given = ends(start().input("count", DType::I64, &[]).input("on", DType::Bool, &[]), "on");
    for (count, on, steps) in [(3i64, true, 3), (0, true, 0), (-2, true, 0), (70, true, 70), (3, false, 0)] {
        let on = Tensor::from_bools(&[], &[on]).expect("one");
        runs_with_host(&given, &[s.clone(), w.clone(), Tensor::scalar(count), on], &expected(steps));
    }
    // What is computed of floats.
    let computed = start().input("f", DType::F32, &[]).node(node("Ceil", &["f"], &["whole"], &[]));
    let computed = computed.node(node("Cast", &["whole"], &["count"], &[("to", Value::Int(7))]));
    let computed = ends(computed.node(node("Cast", &["whole"], &["on"], &[("to", Value::Int(9))])), "on");
    for (f, steps) in [(2.5f32, 3), (0.0, 0), (-1.5, 0)] {
        runs_with_host(&computed, &[s.clone(), w.clone(), Tensor::scalar(f)], &expected(steps));
    }
}

/// That two extents are equal is taken once, before the loop, and known behind it; so is that data tells an extent.
#[test]
fn what_is_known_before_a_loop_is_known_behind_it() {
    let add = || body(&["n", "c", "sum"], vec![node("Add", &["sum", "w"], &["next"], &[])], &["c", "next", "next"]);
    let start = || {
        let two = Builder::new(18).f32("s", &[3]).f32("w", &[3]).initializer("two", &Tensor::scalar(2i64));
        two.initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
    };
    let looped = |model: Builder| model.node(node("Loop", &["two", "true", "s"], &["y", "z"], &[("body", add())]));
    let (s, w) = (tensor(&[3], &[1.0, 2.0, 3.0]), tensor(&[3], &[1.0, 0.0, -1.0]));
    let states = tensor(&[2, 3], &[2.0, 2.0, 2.0, 3.0, 2.0, 1.0]);

    let both = start().input("a", DType::F32, &[Extent::Named("A")]).input("b", DType::F32, &[Extent::Named("B")]);
    let both = looped(both.node(node("Add", &["a", "b"], &["before"], &[])));
    let both = both.node(node("Mul", &["a", "b"], &["behind"], &[])).output("before").output("z").output("behind");
    let [a, b] = [counting(&[4]), counting(&[4])];
    let (sums, squares) = (tensor(&[4], &[0.0, 2.0, 4.0, 6.0]), tensor(&[4], &[0.0, 1.0, 4.0, 9.0]));
    let expected = [sums, states.clone(), squares];
    let graph = runs(&both, &[4, 4], &[s.clone(), w.clone(), a, b], &expected);
    assert_eq!(graph.assumptions.len(), 1);
    let extents: Vec<String> = graph.inputs.iter().map(|p| graph.ty(p.value).shape[0].to_string()).collect();
    assert_eq!(extents[2], extents[3], "one name per size");

    // As many rows as data leaves, and those of the steps, meet as many as an input has.
    let found = start().f32("x", &[4, 3]).input("m", DType::Bool, &[Extent::Number(4)]);
    let found = found.input("r", DType::F32, &[Extent::Named("R"), Extent::Number(3)]);
    let found = found.node(node("Compress", &["x", "m"], &["left"], &[("axis", Value::Int(0))]));
    let found = looped(found).node(node("Concat", &["left", "z"], &["all"], &[("axis", Value::Int(0))]));
    let found = found.node(node("Add", &["all", "r"], &["sum"], &[])).output("sum");
    for kept in [[true, false, false, true], [false; 4], [true; 4]] {
        let x = counting(&[4, 3]);
        let rows = kept.iter().zip(x.elements::<f32>().expect("floats").chunks(3)).filter(|(kept, _)| **kept);
        let mut all: Vec<f32> = rows.flat_map(|(_, row)| row.to_vec()).collect();
        all.extend(states.elements::<f32>().expect("floats"));
        let sum = tensor(&[all.len() / 3, 3], &all);
        let m = Tensor::from_bools(&[4], &kept).expect("four");
        let zeros = tensor(&[all.len() / 3, 3], &vec![0.0; all.len()]);
        runs_with_host(&found, &[s.clone(), w.clone(), x, m, zeros], &[sum]);
    }
}

#[test]
fn what_only_the_run_tells_is_for_the_host() {
    let on_host = |model: &Builder| {
        let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
        verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
        assert!(graph.nodes.iter().any(|node| matches!(&node.op, Op::Host(host) if host.op_type == "Loop")));
        survives(model, 50);
    };
    // A condition on data alone, a state that grows too often, steps that end nowhere.
    on_host(&looped(16, &Tensor::scalar(i64::MAX), "true", until_large()));
    let grows = vec![
        node("Concat", &["sum", "w"], &["next"], &[("axis", Value::Int(0))]),
        node("Identity", &["c"], &["on"], &[]),
    ];
    let graph = body(&["n", "c", "sum"], grows, &["on", "next", "w"]);
    on_host(&looped(16, &Tensor::scalar(1000i64), "", graph.clone()));
    on_host(&looped(16, &Tensor::scalar(i64::MAX), "", graph.clone()));
    on_host(&looped(16, &Tensor::scalar(3i64), "false", graph));
    let none = body(&["n", "c"], vec![node("Identity", &["c"], &["on"], &[])], &["on", "on"]);
    let model = looped(16, &Tensor::scalar(3i64), "true", none);
    assert_eq!(model.import().expect_err("no states").code(), "onnx::shape-mismatch");
    survives(&model, 50);
}

/// A state that a step makes longer, or turns round, is nobody's reason to ask inputs for other extents: the host evaluates the
/// loop, whatever they are.
#[test]
fn states_that_change_their_extents_ask_nothing_of_inputs() {
    let of = |nodes: Vec<NodeProto>, inputs: &[(&str, [&str; 2])]| {
        let graph =
            body(&["n", "c", "state"], [nodes, vec![node("Identity", &["c"], &["on"], &[])]].concat(), &["on", "next"]);
        let mut model = Builder::new(16).input("count", DType::I64, &[]);
        for (name, extents) in inputs {
            model = model.input(name, DType::F32, &extents.map(Extent::Named));
        }
        model
            .initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
            .node(node("Loop", &["count", "true", "x"], &["y"], &[("body", graph)]))
            .output("y")
    };
    let steps = Tensor::scalar(2i64);
    let grows = vec![node("Concat", &["state", "z"], &["next"], &[("axis", Value::Int(0))])];
    let grows = of(grows, &[("x", ["a", "w"]), ("z", ["b", "w"])]);
    let (x, z) = (tensor(&[1, 2], &[1.0, 2.0]), tensor(&[2, 2], &[3.0, 4.0, 5.0, 6.0]));
    let grown = tensor(&[5, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0]);
    runs_with_host(&grows, &[steps.clone(), x, z], &[grown]);
    let turns = of(vec![node("Transpose", &["state"], &["next"], &[])], &[("x", ["a", "b"])]);
    runs_with_host(&turns, &[steps, counting(&[2, 3])], &[counting(&[2, 3])]);
    runs_with_host(&turns, &[Tensor::scalar(1i64), counting(&[1, 3])], &[counting(&[3, 1])]);
}

/// Bags of an embedding, as torch's older exporter writes them: which rows a step looks up and adds is data.
fn bags(declared: bool) -> Builder {
    let nodes = vec![
        node("Gather", &["offsets", "n"], &["first"], &[]),
        node("Gather", &["ends", "n"], &["last"], &[]),
        node("Unsqueeze", &["first", "zero"], &["from"], &[]),
        node("Unsqueeze", &["last", "zero"], &["to"], &[]),
        node("Slice", &["rows", "from", "to", "zero"], &["bag"], &[]),
        node("Gather", &["table", "bag"], &["found"], &[]),
        node("ReduceSum", &["found", "zero"], &["sum"], &[("keepdims", Value::Int(0))]),
        node("Identity", &["c"], &["on"], &[]),
    ];
    let Value::Graph(mut graph) = body(&["n", "c"], nodes, &["on", "sum"]) else { unreachable!("it is one") };
    if declared {
        graph.output[1] = value_info("sum", DType::F32, Some(&[Extent::Number(2)]));
    }
    Builder::new(16)
        .input("rows", DType::I64, &[Extent::Named("N")])
        .input("offsets", DType::I64, &[Extent::Named("B")])
        .input("ends", DType::I64, &[Extent::Named("B")])
        .initializer("zero", &ints(&[0]))
        .initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
        .initializer("table", &counting(&[4, 2]))
        .node(node("Shape", &["offsets"], &["shape"], &[]))
        .node(node("Squeeze", &["shape"], &["count"], &[]))
        .node(node("Loop", &["count", "true"], &["y"], &[("body", Value::Graph(graph))]))
        .output("y")
}

#[test]
fn steps_that_look_up_as_many_rows_as_data_says() {
    let expected = [tensor(&[3, 2], &[4.0, 6.0, 0.0, 0.0, 14.0, 17.0])];
    let inputs = [ints(&[0, 2, 3, 3, 1]), ints(&[0, 2, 2]), ints(&[2, 2, 5])];
    let model = bags(true);
    runs_with_host(&model, &inputs, &expected);
    assert!(!is_recurrence(&model.import().expect("it was imported")), "a kernel has no host operations");
    // What type the results have, the steps say.
    runs_with_host(&bags(false), &inputs, &expected);
    let none = [ints(&[1, 2]), ints(&[]), ints(&[])];
    runs_with_host(&bags(false), &none, &[tensor(&[0, 2], &[])]);
}
