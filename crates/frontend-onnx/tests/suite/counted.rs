//! `Loop`s whose conditions count, as other frameworks' loops become.

use crate::steps::{body, is_recurrence, runs, runs_with_host, tensor};
use crate::support::{Builder, Extent, Value, ints, node};
use infc_frontend_onnx::proto::NodeProto;
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use infc_tensor::{DType, Tensor};

const I64: i64 = 7;
const F32: i64 = 1;

/// `while` counting from `from` by `by`, up to the elements of `x`: adds `w` in every step, both and the limit passed along.
fn counting(from: i64, by: i64, begins: &str, condition: Vec<NodeProto>) -> Builder {
    let mut nodes = vec![
        node("Add", &["i", "by"], &["further"], &[]),
        node("Add", &["sum", "w"], &["more"], &[]),
        node("Identity", &["limit"], &["same"], &[]),
    ];
    nodes.extend(condition);
    let body = body(&["n", "c", "i", "limit", "w", "sum"], nodes, &["on", "further", "same", "w", "more", "more"]);
    Builder::new(16)
        .input("x", DType::F32, &[Extent::Named("N")])
        .f32("w0", &[1])
        .f32("s", &[1])
        .initializer("from", &Tensor::scalar(from))
        .initializer("by", &Tensor::scalar(by))
        .initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
        .node(node("Size", &["x"], &["size"], &[]))
        .node(node("Less", &["from", "size"], &["less"], &[]))
        .node(node(
            "Loop",
            &["", begins, "from", "size", "w0", "s"],
            &["i1", "size1", "w1", "s1", "all"],
            &[("body", body)],
        ))
        .output("i1")
        .output("size1")
        .output("w1")
        .output("s1")
        .output("all")
}

/// What [`counting`] gives, by counting.
fn counted(from: i64, by: i64, len: usize, begins: bool, on: impl Fn(i64, i64, i64) -> bool) -> Vec<Tensor> {
    let limit = len as i64;
    let (mut i, mut sum, mut step, mut all, mut goes_on) = (from, 10.0f32, 0, Vec::new(), begins);
    while goes_on {
        i += by;
        sum += 0.5;
        all.push(sum);
        goes_on = on(i, limit, step);
        step += 1;
    }
    vec![
        Tensor::scalar(i),
        Tensor::scalar(limit),
        tensor(&[1], &[0.5]),
        tensor(&[1], &[sum]),
        tensor(&[all.len(), 1], &all),
    ]
}

fn inputs(len: usize) -> [Tensor; 3] {
    [tensor(&[len], &vec![0.0; len]), tensor(&[1], &[0.5]), tensor(&[1], &[10.0])]
}

/// How many states the recurrence of a graph has.
fn states(graph: &Graph) -> Option<usize> {
    graph.nodes.iter().find_map(|n| if let Op::Recurrence(op) = &n.op { Some(op.states) } else { None })
}

#[test]
fn all_comparisons_count() {
    let cast = |to: i64| {
        vec![
            node("Cast", &["further"], &["a"], &[("to", Value::Int(to))]),
            node("Cast", &["limit"], &["b"], &[("to", Value::Int(to))]),
            node("Less", &["a", "b"], &["on"], &[]),
        ]
    };
    let one = |op: &str, a: &str, b: &str| vec![node(op, &[a, b], &["on"], &[])];
    let not = |op: &str| vec![node(op, &["further", "limit"], &["off"], &[]), node("Not", &["off"], &["on"], &[])];
    let both = vec![
        node("Less", &["further", "limit"], &["a"], &[]),
        node("Constant", &[], &["seven"], &[("value", Value::Tensor(Tensor::scalar(7i64)))]),
        node("LessOrEqual", &["n", "seven"], &["b"], &[]),
        node("And", &["a", "b"], &["ab"], &[]),
        node("And", &["ab", "c"], &["on"], &[]),
    ];
    let shifted = vec![node("Sub", &["limit", "by"], &["end"], &[]), node("Greater", &["end", "i"], &["on"], &[])];
    type On = fn(i64, i64, i64) -> bool;
    let cases: Vec<(&str, Vec<NodeProto>, i64, i64, On)> = vec![
        ("less", one("Less", "further", "limit"), 0, 1, |i, n, _| i < n),
        ("as floats", cast(F32), 0, 1, |i, n, _| i < n),
        ("cast", cast(I64), 0, 2, |i, n, _| i < n),
        ("less or equal", one("LessOrEqual", "further", "limit"), 0, 3, |i, n, _| i <= n),
        ("greater", one("Greater", "limit", "further"), 1, 1, |i, n, _| n > i),
        ("greater or equal", one("GreaterOrEqual", "limit", "further"), -2, 2, |i, n, _| n >= i),
        ("not", not("GreaterOrEqual"), 0, 1, |i, n, _| i < n),
        ("not greater", not("Greater"), 0, 1, |i, n, _| i <= n),
        ("both", both, 0, 1, |i, n, step| i < n && step <= 7),
        ("before", one("Less", "i", "limit"), 0, 1, |i, n, _| i - 1 < n),
        ("shifted", shifted, 0, 1, |i, n, _| n - 1 > i - 1),
        ("by the step", one("Less", "n", "limit"), 5, -1, |_, n, step| step < n),
    ];
    for (name, condition, from, by, on) in cases {
        let model = counting(from, by, "true", condition);
        for len in [1usize, 2, 3, 9, 100] {
            let graph = runs(&model, &[len as i64], &inputs(len), &counted(from, by, len, true, on));
            assert_eq!(states(&graph), Some(1), "{name}: what counts and what stays are no states");
        }
    }
}

#[test]
fn loops_may_not_begin() {
    let model = counting(0, 1, "less", vec![node("Less", &["further", "limit"], &["on"], &[])]);
    for len in [0usize, 1, 70] {
        let expected = counted(0, 1, len, len > 0, |i, n, _| i < n);
        assert!(is_recurrence(&runs(&model, &[len as i64], &inputs(len), &expected)));
    }
}

/// A number of steps that is given beside it is another limit.
#[test]
fn the_smaller_number_of_steps_counts() {
    let mut model = counting(0, 1, "less", vec![node("Less", &["further", "limit"], &["on"], &[])])
        .initializer("most", &Tensor::scalar(4i64));
    let graph = model.model.graph.as_mut().expect("made with one");
    graph.node.last_mut().expect("the loop").input[0] = "most".to_owned();
    for len in [0usize, 1, 3, 4, 90] {
        runs(&model, &[len as i64], &inputs(len), &counted(0, 1, len, len > 0, |i, n, step| i < n && step < 3));
    }
}

/// What is counted up to is a number of the run.
#[test]
fn an_input_may_be_the_limit() {
    let mut model = counting(0, 1, "less", vec![node("Less", &["further", "limit"], &["on"], &[])]);
    let graph = model.model.graph.as_mut().expect("made with one");
    graph.node.retain(|node| node.op_type() != "Size");
    let model = model.input("size", DType::I64, &[]);
    for limit in [0i64, 1, 70] {
        let [x, w, s] = inputs(1);
        let expected = counted(0, 1, limit as usize, limit > 0, |i, n, _| i < n);
        runs_with_host(&model, &[x, w, s, Tensor::scalar(limit)], &expected);
    }
}

fn is_counted(model: &Builder) -> bool {
    model.import().is_ok_and(|graph| is_recurrence(&graph))
}

/// Conditions that only look as if they counted: what never ends, what ends at once.
#[test]
fn other_conditions_are_left_alone() {
    let never = counting(0, -1, "true", vec![node("Less", &["further", "limit"], &["on"], &[])]);
    assert!(!is_counted(&never));
    let neither = counting(0, 1, "true", vec![node("Less", &["further", "n"], &["on"], &[])]);
    runs(&neither, &[5], &inputs(5), &counted(0, 1, 5, true, |i, _, step| i < step));
}

/// Numbers that wrap, that floats do not tell apart, that change their shape on the way, or whose names mean something else later.
#[test]
fn what_is_no_counter_is_carried() {
    let less = || vec![node("Less", &["further", "limit"], &["on"], &[])];
    let as_floats = vec![
        node("Cast", &["further"], &["a"], &[("to", Value::Int(F32))]),
        node("Cast", &["limit"], &["b"], &[("to", Value::Int(F32))]),
        node("Less", &["a", "b"], &["on"], &[]),
    ];
    assert!(is_counted(&counting(0, 1, "true", as_floats.clone())));
    assert!(
        !is_counted(&counting(0, 2, "true", as_floats.clone())),
        "even numbers of 2^25 and more are floats, odd ones not"
    );
    assert!(!is_counted(&counting(1 << 30, 1, "true", as_floats)));
    assert!(!is_counted(&counting(i64::MIN, 1, "true", less())));
    assert!(!is_counted(&counting(0, i64::MIN, "true", less())));
    let wraps = vec![
        node("Cast", &["further"], &["small"], &[("to", Value::Int(6))]),
        node("Cast", &["small"], &["again"], &[("to", Value::Int(I64))]),
        node("Less", &["again", "limit"], &["on"], &[]),
    ];
    assert!(!is_counted(&counting(0, 1, "true", wraps)));
    let mut grows = counting(0, 1, "true", less());
    let graph = grows.model.graph.as_mut().expect("made with one");
    graph.initializer.retain(|tensor| tensor.name() != "by");
    assert!(!is_counted(&grows.initializer("by", &ints(&[1]))), "[1] behind a step, [] before");
    let again =
        vec![node("Less", &["further", "limit"], &["on"], &[]), node("Less", &["limit", "further"], &["on"], &[])];
    assert!(!is_counted(&counting(0, 1, "true", again)));
}

/// What stays as it is is not carried where the condition is on data either; what counts only does until that fails.
#[test]
fn conditions_on_data_leave_what_counts() {
    let nodes = vec![
        node("Cast", &["more"], &["size"], &[("to", Value::Int(I64))]),
        node("Squeeze", &["size"], &["one"], &[]),
        node("Less", &["one", "limit"], &["on"], &[]),
    ];
    let mut model = counting(0, 1, "true", nodes).initializer("most", &Tensor::scalar(100i64));
    let graph = model.model.graph.as_mut().expect("made with one");
    graph.node.last_mut().expect("the loop").input[0] = "most".to_owned();
    let graph = model.import().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(states(&graph), Some(3), "the sum, the number, and whether the condition has held");
    let sum: Vec<f32> = (0u8..12).map(|n| 10.5 + 0.5 * f32::from(n)).collect();
    let last = tensor(&[1], &sum[11..]);
    let expected = [Tensor::scalar(12i64), Tensor::scalar(16i64), tensor(&[1], &[0.5]), last, tensor(&[12, 1], &sum)];
    runs_with_host(&model, &inputs(16), &expected);
}

/// Conditions of many comparisons, and such as grow from node to node.
#[test]
fn conditions_that_grow_are_not_followed() {
    let mut nodes = vec![node("Less", &["further", "limit"], &["a0"], &[])];
    for n in 0..60 {
        let (from, to) = (format!("a{n}"), format!("a{}", n + 1));
        nodes.push(node("And", &[&from, &from], &[&to], &[]));
    }
    nodes.push(node("Identity", &["a60"], &["on"], &[]));
    assert!(!is_counted(&counting(0, 1, "true", nodes)));
}

/// A kernel with all steps in it has no good way to convolve.
#[test]
fn few_steps_that_convolve_are_written_out() {
    let graph = body(
        &["n", "c", "i", "y"],
        vec![
            node("Add", &["i", "by"], &["further"], &[]),
            node("Conv", &["y", "w"], &["next"], &[("pads", Value::Ints(vec![1, 1]))]),
            node("Less", &["further", "limit"], &["on"], &[]),
        ],
        &["on", "further", "next"],
    );
    let model = |limit: i64| {
        Builder::new(16)
            .f32("x", &[1, 1, 4])
            .initializer("w", &tensor(&[1, 1, 3], &[0.0, 0.0, 1.0]))
            .initializer("limit", &Tensor::scalar(limit))
            .initializer("by", &Tensor::scalar(1i64))
            .initializer("from", &Tensor::scalar(0i64))
            .initializer("true", &Tensor::from_bools(&[], &[true]).expect("one"))
            .node(node("Loop", &["", "true", "from", "x"], &["i", "y"], &[("body", graph.clone())]))
            .output("i")
            .output("y")
    };
    let x = tensor(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let expected = [Tensor::scalar(3i64), tensor(&[1, 1, 4], &[4.0, 0.0, 0.0, 0.0])];
    assert!(!is_recurrence(&runs(&model(3), &[], std::slice::from_ref(&x), &expected)));
    let expected = [Tensor::scalar(100i64), tensor(&[1, 1, 4], &[0.0; 4])];
    assert!(is_recurrence(&runs(&model(100), &[], &[x], &expected)));
}
