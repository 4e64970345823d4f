//! Recurrences whose steps compute something without their states.

use infc_ir::graph::Graph;
use infc_ir::interp::run_graph;
use infc_ir::op::Op;
use infc_ir::verify::verify_graph;
use infc_passes::graph::{Changed, PassContext, PassOptions, lift, optimize};
use infc_tensor::Tensor;

fn tensor(shape: &[usize], from: i32) -> Tensor {
    let elements: Vec<f32> =
        (0..shape.iter().product::<usize>()).map(|n| ((n as i32 * 7 + from) % 11 - 5) as f32).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

/// Inputs of the recurrence and of its contractions, inside and outside, after the pass; the meaning stays.
fn lifted(text: &str, symbols: &[i64], inputs: &[Tensor]) -> (Changed, Graph) {
    let mut graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let before = run_graph(&graph, symbols, inputs).unwrap_or_else(|e| panic!("{e}"));
    let cx = PassContext::new(PassOptions::default());
    let changed = lift::run(&mut graph, &cx).expect("no errors");
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    assert_eq!(run_graph(&graph, symbols, inputs).unwrap_or_else(|e| panic!("{e}")), before, "{graph}");
    assert_eq!(lift::run(&mut graph, &cx).expect("no errors"), Changed::No, "once is enough:\n{graph}");
    optimize(&mut graph, &cx).expect("no errors");
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    assert_eq!(run_graph(&graph, symbols, inputs).unwrap_or_else(|e| panic!("{e}")), before, "{graph}");
    (changed, graph)
}

/// Slices and shared inputs of the recurrence, and the contractions in a step.
fn step(graph: &Graph) -> (usize, usize, usize) {
    let (node, op) = graph
        .order
        .iter()
        .find_map(|&id| if let Op::Recurrence(op) = &graph.nodes[id].op { Some((&graph.nodes[id], op)) } else { None })
        .expect("a recurrence");
    let contracts = op.body.order.iter().filter(|&&id| matches!(op.body.nodes[id].op, Op::Contract(_))).count();
    (op.slices, node.inputs.len() - op.states - op.slices, contracts)
}

/// A look-up by the number of the step, and a product behind a view and a map: one matrix product in front.
#[test]
fn products_of_rows() {
    let text = r"
graph @rnn(%x: f32[N, 2, 4], %h: f32[2, 3], %w: f32[4, 3], %u: f32[3, 3]) -> (y: %1) where N in 0..=100 {
  %0 = map [ -> index(i0)] : i64[N]
  %1 = recurrence 1 1 over N %h, %0, %x, %w, %u : f32[N, 2, 3] = graph @step(%s: f32[2, 3], %n: i64[], %x: f32[N, 2, 4], %w: f32[4, 3], %u: f32[3, 3]) -> (s: %6) {
    %0 = gather 0 %x, %n : f32[2, 4]
    %1 = view [i0, i1 -> i1, i0] %0 : f32[4, 2]
    %2 = map [p -> p * 0.5 + f32(index(i0))] %1 : f32[4, 2]
    %3 = contract [c b, c d -> b d] %2, %w : f32[2, 3]
    %4 = contract [a b, b c -> a c] %s, %u : f32[2, 3]
    %5 = view [i0, i1 -> i0, 2 - i1] %3 : f32[2, 3]
    %6 = map [p, q -> p * 0.125 + q] %4, %5 : f32[2, 3]
  }
}";
    for steps in [0usize, 1, 5] {
        let inputs = [tensor(&[steps, 2, 4], 1), tensor(&[2, 3], 2), tensor(&[4, 3], 3), tensor(&[3, 3], 4)];
        let (changed, graph) = lifted(text, &[steps as i64], &inputs);
        assert_eq!(changed, Changed::Yes);
        assert_eq!(step(&graph), (1, 1, 1), "{graph}");
    }
}

/// Both factors may be of the step, or neither: what is the same in all steps is computed once.
#[test]
fn products_of_two_slices_and_of_none() {
    let text = r"
graph @both(%x: f32[3, 2, 4], %z: f32[3, 4], %h: f32[2], %a: f32[2, 4], %b: f32[4]) -> (y: %0) {
  %0 = recurrence 1 2 over 3 %h, %x, %z, %a, %b : f32[3, 2] = graph @step(%s: f32[2], %x: f32[2, 4], %z: f32[4], %a: f32[2, 4], %b: f32[4]) -> (s: %2) {
    %0 = contract [a b, b -> a] %x, %z : f32[2]
    %1 = contract [a b, b -> a] %a, %b : f32[2]
    %2 = map [p, q, r -> p * 0.25 + q + r] %s, %0, %1 : f32[2]
  }
}";
    let inputs = [tensor(&[3, 2, 4], 1), tensor(&[3, 4], 2), tensor(&[2], 3), tensor(&[2, 4], 4), tensor(&[4], 5)];
    let (_, graph) = lifted(text, &[], &inputs);
    assert_eq!(step(&graph), (1, 1, 0), "{graph}");
}

/// A value that is spread over the steps of a map, and one that a step needs both as it is and in a product.
#[test]
fn shared_operands_are_spread() {
    let text = r"
graph @spread(%x: f32[3, 4], %h: f32[4], %b: f32[4], %w: f32[4, 4]) -> (y: %0) {
  %0 = recurrence 1 1 over 3 %h, %x, %b, %w : f32[3, 4] = graph @step(%s: f32[4], %x: f32[4], %b: f32[4], %w: f32[4, 4]) -> (s: %2) {
    %0 = map [p, q -> p + q] %x, %b : f32[4]
    %1 = contract [a, a b -> b] %0, %w : f32[4]
    %2 = map [p, q, r -> p * 0.25 + q * r] %s, %0, %1 : f32[4]
  }
}";
    let inputs = [tensor(&[3, 4], 1), tensor(&[4], 2), tensor(&[4], 3), tensor(&[4, 4], 4)];
    let (_, graph) = lifted(text, &[], &inputs);
    assert_eq!(step(&graph), (2, 1, 0), "{graph}");
}

/// What a step gives is made in it, and so is what follows from a state, also by what is looked up.
#[test]
fn what_stays_in_a_step() {
    let stays = |text: &str, inputs: &[Tensor]| {
        assert_eq!(lifted(text, &[], inputs).0, Changed::No);
    };
    stays(
        r"
graph @given(%x: f32[3, 4], %h: f32[2], %w: f32[4, 2]) -> (s: %0, y: %1) {
  %0, %1 = recurrence 1 1 over 3 %h, %x, %w : f32[3, 2], f32[3, 2] = graph @step(%s: f32[2], %x: f32[4], %w: f32[4, 2]) -> (s: %1, y: %0) {
    %0 = contract [a, a b -> b] %x, %w : f32[2]
    %1 = map [p -> p * 0.5] %s : f32[2]
  }
}",
        &[tensor(&[3, 4], 1), tensor(&[2], 2), tensor(&[4, 2], 3)],
    );
    stays(
        r"
graph @found(%x: i64[3], %h: f32[2], %w: f32[4, 2]) -> (s: %0) {
  %0 = recurrence 1 1 over 3 %h, %x, %w : f32[3, 2] = graph @step(%s: f32[2], %x: i64[], %w: f32[4, 2]) -> (s: %3) {
    %0 = reduce [0] fold sum [p -> p] %s : f32[]
    %1 = map [p, q -> i64(p) + q] %0, %x : i64[]
    %2 = gather 0 %w, %1 : f32[2]
    %3 = map [p, q -> p * 0.5 + q] %s, %2 : f32[2]
  }
}",
        &[Tensor::from_elements(&[3], &[0i64, 1, 2]).expect("three"), tensor(&[2], 2), tensor(&[4, 2], 3)],
    );
    // Of a table of two rows three would be made.
    stays(
        r"
graph @table(%x: i64[3], %h: f32[2], %w: f32[2, 2]) -> (s: %0) {
  %0 = recurrence 1 1 over 3 %h, %x, %w : f32[3, 2] = graph @step(%s: f32[2], %x: i64[], %w: f32[2, 2]) -> (s: %1) {
    %0 = gather 0 %w, %x : f32[2]
    %1 = map [p, q -> p * 0.5 + q] %s, %0 : f32[2]
  }
}",
        &[Tensor::from_elements(&[3], &[0i64, 1, 0]).expect("three"), tensor(&[2], 2), tensor(&[2, 2], 3)],
    );
}
