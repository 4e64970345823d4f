//! Choices: both branches are planned, each kernel under its conditions.

use super::run::check;
use crate::build::{Net, assert_close};
use infc_ir::graph::Graph;
use infc_ir::interp::run_graph;
use infc_ir::verify::verify_graph;
use infc_passes::form::{FormOptions, GraphPlan, Interpreter, form};
use infc_tensor::{AlignedBytes, DType, Tensor};

fn graph(text: &str) -> Graph {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.to_string().parse::<Graph>().expect("text parses back").to_string(), graph.to_string());
    graph
}

/// Plans, and compares with the graph on both values of the last inputs, which are conditions.
fn both_ways(graph: &Graph, data: &[Tensor]) -> GraphPlan {
    let plan = form(graph, &FormOptions::default()).expect("the graph is well formed");
    let conditions = graph.inputs.iter().filter(|p| graph.ty(p.value).dtype == DType::Bool).count();
    for choice in 0..1u8 << conditions {
        let mut inputs = data.to_vec();
        for n in 0..conditions {
            inputs.push(truth(choice >> n & 1 == 1));
        }
        let expected = run_graph(graph, &[], &inputs).unwrap_or_else(|e| panic!("{e}"));
        let found = Interpreter::new(&plan, &[], &inputs).run().unwrap_or_else(|e| panic!("{e}\n{plan}"));
        assert_close(&expected, &found);
    }
    plan
}

fn truth(holds: bool) -> Tensor {
    let bytes = AlignedBytes::from_slice(&[u8::from(holds)]);
    Tensor::from_bytes(DType::Bool, Vec::new(), bytes).expect("one element")
}

fn ramp(len: usize) -> Tensor {
    let values: Vec<f32> = (0..len).map(|n| n as f32 - 2.5).collect();
    Tensor::from_elements(&[len], &values).expect("a vector")
}

#[test]
fn one_of_two_branches() {
    let graph = graph(
        r#"
graph @choice(%x: f32[6], %c: bool[]) -> (y: %2) {
  %0 = map [p -> p * 2] %x : f32[6]
  %1 = if %c, %0, %x : f32[6] = graph @then(%a: f32[6], %b: f32[6]) -> (y: %0) {
    %0 = map [p, q -> p + q] %a, %b : f32[6]
  } else graph @otherwise(%a: f32[6], %b: f32[6]) -> (y: %a) {
  }
  %2 = map [p -> p - 1] %1 : f32[6]
}"#,
    );
    let plan = both_ways(&graph, &[ramp(6)]);
    assert_eq!(plan.kernels.iter().filter(|k| !k.guard.is_empty()).count(), 2, "{plan}");
}

#[test]
fn branches_inside_of_branches() {
    let graph = graph(
        r#"
graph @nested(%x: f32[6], %c: bool[], %d: bool[]) -> (y: %0) {
  %0 = if %c, %d, %x : f32[6] = graph @then(%d: bool[], %x: f32[6]) -> (y: %1) {
    %0 = if %d, %x : f32[6] = graph @then(%x: f32[6]) -> (y: %0) {
      %0 = map [p -> p * p] %x : f32[6]
    } else graph @otherwise(%x: f32[6]) -> (y: %0) {
      %0 = map [p -> p + 1] %x : f32[6]
    }
    %1 = map [p -> p * 3] %0 : f32[6]
  } else graph @otherwise(%d: bool[], %x: f32[6]) -> (y: %0) {
    %0 = view [i -> 5 - i] %x : f32[6]
  }
}"#,
    );
    both_ways(&graph, &[ramp(6)]);
}

/// A recurrence is one kernel: both branches are computed there, and one is chosen.
#[test]
fn in_a_recurrence() {
    let graph = graph(
        r#"
graph @inside(%x: f32[4, 8], %h: f32[8]) -> (y: %0) {
  %0 = recurrence 1 1 over 4 %h, %x : f32[4, 8] = graph @step(%s: f32[8], %x: f32[8]) -> (s: %3) {
    %0 = reduce [0] fold sum [p -> p] %x : f32[]
    %1 = map [p -> p > 0] %0 : bool[]
    %2 = if %1, %s, %x : f32[8] = graph @then(%s: f32[8], %x: f32[8]) -> (y: %0) {
      %0 = map [p, q -> p + q] %s, %x : f32[8]
    } else graph @otherwise(%s: f32[8], %x: f32[8]) -> (y: %s) {
    }
    %3 = map [p -> tanh(p)] %2 : f32[8]
  }
}"#,
    );
    assert_eq!(check(&Net::from(graph)).kernels.len(), 1);
}

#[test]
fn requirements_are_kept_with_their_conditions() {
    let graph = graph(
        r#"
graph @requires(%x: f32[N], %c: bool[]) -> (y: %0) where N in 1..=9 {
  require "lengths" N != 3
  %0 = if %c, %x : f32[N] = graph @then(%x: f32[N]) -> (y: %0) {
    require "frames" N == 2
    %0 = map [p -> p + 1] %x : f32[N]
  } else graph @otherwise(%x: f32[N]) -> (y: %x) {
  }
}"#,
    );
    let run = |n: i64, holds: bool| run_graph(&graph, &[n], &[ramp(n as usize), truth(holds)]).is_ok();
    assert!(run(2, true) && run(4, false) && !run(4, true) && !run(3, false));
    let plan = form(&graph, &FormOptions::default()).expect("the graph is well formed");
    let depths: Vec<usize> = plan.requires.iter().map(|(under, _)| under.len()).collect();
    assert_eq!(depths, [0, 1], "{plan}");
}

/// A branch sees a value under another shape, whose kernel then may not write it under a third one for who comes later.
#[test]
fn a_branch_sees_a_reshape_of_a_view_that_it_captures() {
    let graph = graph(
        r#"
graph @captured(%x: f32[4, 6], %c: bool[]) -> (y: %3, z: %4) {
  %0 = map [p -> p * 2] %x : f32[4, 6]
  %1 = view [i -> div(i, 6), mod(i, 6)] %0 : f32[24]
  %2 = const "p" : i64[2] = [3, 11]
  %3 = if %c, %1, %2 : f32[2, 2] = graph @then(%a: f32[24], %p: i64[2]) -> (y: %1) {
    %0 = view [i, j -> 2*i + j] %a : f32[12, 2]
    %1 = gather 0 %0, %p : f32[2, 2]
  } else graph @otherwise(%a: f32[24], %p: i64[2]) -> (y: %0) {
    %0 = view [i, j -> 2*i + j] %a : f32[2, 2]
  }
  %4 = gather 0 %1, %2 : f32[2]
}"#,
    );
    let values: Vec<f32> = (0..24).map(|n| n as f32 - 2.5).collect();
    both_ways(&graph, &[Tensor::from_elements(&[4, 6], &values).expect("as many as it says")]);
}
