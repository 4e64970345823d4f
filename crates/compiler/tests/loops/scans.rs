//! `Scan` with steps that no kernel computes: evaluated by the host, whole.

use super::{body, compiled, floats, run, session, steps, value};
use crate::net::{Attr, Net};
use infc::Steps;
use infc_frontend_onnx::proto::GraphProto;
use infc_tensor::{DType, Tensor};

/// The sum of what `net` makes of each row, `made`, and that sum so far as a state.
fn summed(net: Net) -> GraphProto {
    let net = net.node("ReduceSum", &["made"], &["sum"], &[("keepdims", Attr::Int(0))]);
    let net = net.node("Add", &["state", "sum"], &["next"], &[]).output("next").output("sum");
    let mut graph = net.graph();
    graph.input = vec![value("state", DType::F32, Some(0)), value("row", DType::F32, Some(1))];
    graph
}

/// The last state and all sums of rows of `x`, where each row makes `expected` of itself.
fn assert_scans(net: Net, expected: impl Fn(&[f32]) -> f32) {
    let graph = summed(net);
    let scanned = Net::new(18)
        .input("x", DType::F32, &["N", "3"])
        .input("two", DType::I64, &[])
        .constant("start", &Tensor::scalar(1.0f32))
        .constant("zeros", &Tensor::scalar(0.0f32))
        .node(
            "Scan",
            &["start", "x"],
            &["end", "sums"],
            &[("body", Attr::Graph(&graph)), ("num_scan_inputs", Attr::Int(1))],
        )
        .output("end")
        .output("sums");
    let compilation = compiled(scanned);
    assert_eq!(steps(&compilation), [None::<Steps>], "evaluated");
    let mut session = session(&compilation);
    for rows in [5, 1] {
        let x = floats(&[rows, 3]);
        let sums: Vec<f32> = x.elements::<f32>().expect("floats").chunks(3).map(&expected).collect();
        let found = run(&mut session, &[&x, &Tensor::scalar(2i64)]);
        let of = |tensor: &Tensor| tensor.elements::<f32>().expect("floats").to_vec();
        assert_eq!(found[1].shape(), [rows]);
        let end = 1.0 + sums.iter().sum::<f32>();
        for (found, expected) in of(&found[1]).iter().zip(&sums).chain([(&of(&found[0])[0], &end)]) {
            assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
        }
    }
}

/// There is one to choose of, whatever is asked for; kernels compute it.
#[test]
fn a_state_of_one_element_may_be_looked_up() {
    let net = Net::new(18).constant("one", &Tensor::from_elements(&[1], &[1i64]).expect("one"));
    let net = net.node("TopK", &["state", "one"], &["largest", "place"], &[]);
    let net = net.node("Add", &["largest", "row"], &["next"], &[]).output("next").output("largest");
    let mut graph = net.graph();
    graph.input = vec![value("state", DType::F32, Some(1)), value("row", DType::F32, Some(0))];
    let attributes = [("body", Attr::Graph(&graph)), ("num_scan_inputs", Attr::Int(1))];
    let net = Net::new(18).input("x", DType::F32, &["N"]).input("start", DType::F32, &["1"]);
    let net = net.node("Scan", &["start", "x"], &["end", "before"], &attributes).output("end").output("before");
    let compilation = compiled(net);
    assert!(steps(&compilation).is_empty(), "no step of the host");
    let mut session = session(&compilation);
    let row = |values: &[f32]| Tensor::from_elements(&[values.len()], values).expect("a row");
    let found = run(&mut session, &[&row(&[1.0, 2.0, -4.0]), &row(&[0.5])]);
    let of = |tensor: &Tensor| tensor.elements::<f32>().expect("floats").to_vec();
    assert_eq!((of(&found[0]), of(&found[1])), (vec![-0.5], vec![0.5, 1.5, 3.5]));
}

/// `state` and the row behind it, as often as `two` says.
#[test]
fn steps_with_loops_that_grow() {
    let growing = Net::new(18).node("Concat", &["state", "row"], &["next"], &[("axis", Attr::Int(0))]);
    let growing = body(growing.node("Identity", &["on"], &["more"], &[]), 1, &[]);
    let net = Net::new(18).node("Loop", &["two", "", "row"], &["made"], &[("body", Attr::Graph(&growing))]);
    assert_scans(net, |row| 3.0 * row.iter().sum::<f32>());
}

#[test]
fn steps_with_operators_of_the_host() {
    let distinct = |row: &[f32]| {
        let mut row = row.to_vec();
        row.sort_by(f32::total_cmp);
        row.dedup();
        row.iter().sum::<f32>()
    };
    assert_scans(Net::new(18).node("Unique", &["row"], &["made"], &[]), distinct);
    let twice = Net::new(18).node("SequenceConstruct", &["row", "row"], &["list"], &[]).node(
        "ConcatFromSequence",
        &["list"],
        &["made"],
        &[("axis", Attr::Int(0))],
    );
    assert_scans(twice, |row| 2.0 * row.iter().sum::<f32>());
}

#[test]
fn steps_with_branches_of_different_ranks() {
    let whole = Net::new(18).node("Neg", &["row"], &["a"], &[]).output("a").graph();
    let one = Net::new(18).node("ReduceMax", &["row"], &["b"], &[("keepdims", Attr::Int(0))]).output("b").graph();
    let net = Net::new(18)
        .node("ReduceSum", &["row"], &["all"], &[("keepdims", Attr::Int(0))])
        .node("Greater", &["all", "zeros"], &["is positive"], &[])
        .node(
            "If",
            &["is positive"],
            &["made"],
            &[("then_branch", Attr::Graph(&whole)), ("else_branch", Attr::Graph(&one))],
        );
    assert_scans(net, |row| {
        let all: f32 = row.iter().sum();
        if all > 0.0 { -all } else { row.iter().copied().fold(f32::NEG_INFINITY, f32::max) }
    });
}
