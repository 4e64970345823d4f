//! Recurrences: one kernel each, whatever the body.

use super::run::check;
use crate::build::Net;
use infc_ir::graph::Graph;
use infc_ir::kernel::Kernel;
use infc_ir::verify::verify_graph;
use infc_passes::form::{FormOptions, OperandSource, PlannedStep, form};

fn net(text: &str) -> Net {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    verify_graph(&graph).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.to_string().parse::<Graph>().expect("text parses back").to_string(), graph.to_string());
    Net::from(graph)
}

/// The state goes through a product at every step; the product's weights are packed for it.
#[test]
fn a_product_with_the_state() {
    let net = net(r#"
graph @rnn(%x: f32[6, 3, 20], %h: f32[3, 20], %r: f32[20, 20]) -> (y: %0) {
  %0 = recurrence 1 1 over 6 %h, %x, %r : f32[6, 3, 20] = graph @step(%s: f32[3, 20], %x: f32[3, 20], %r: f32[20, 20]) -> (s: %1) {
    %0 = contract [a b, c b -> a c] %s, %r : f32[3, 20]
    %1 = map [p, q -> tanh(p + q)] %0, %x : f32[3, 20]
  }
}"#);
    let plan = check(&net);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    assert!(plan.kernels[0].kernel.recurrences().len() == 1, "{}", plan.kernels[0].kernel);
}

/// The gates of 16 units lie side by side where the weights are too many for the caches near a core.
#[test]
fn gates_of_units_lie_together() {
    let shape = |units: usize| {
        let text = r#"
graph @gates(%x: f32[3, 1, U], %h: f32[1, U], %r: f32[3U, U]) -> (y: %0) {
  %0 = recurrence 1 1 over 3 %h, %x, %r : f32[3, 1, U] = graph @step(%s: f32[1, U], %x: f32[1, U], %r: f32[3U, U]) -> (s: %4) {
    %0 = contract [a b, c b -> a c] %s, %r : f32[1, 3U]
    %1 = view [i, j -> 0, j] %0 : f32[1, U]
    %2 = view [i, j -> 0, j + 1U] %0 : f32[1, U]
    %3 = view [i, j -> 0, j + 2U] %0 : f32[1, U]
    %4 = map [p, q, r, x -> tanh(p * 0.1) * tanh(q * 0.1) + r * 0.05 + x] %1, %2, %3, %x : f32[1, U]
  }
}"#;
        let number = |text: &str, gates: usize, name: &str| text.replace(name, &(gates * units).to_string());
        let text =
            [(3, "3U"), (2, "2U"), (1, "1U"), (1, "U")].iter().fold(text.to_owned(), |t, (g, n)| number(&t, *g, n));
        let mut net = net(&text);
        let given = net.graph.inputs.pop().expect("the weights").value;
        let weights = net.weights(&[3 * units, units], 3);
        net.graph.replace_uses(given, weights);
        net.graph.order.rotate_right(1);
        let plan = check(&net);
        let operands = &plan.kernels[0].operands;
        let constant = operands.iter().find_map(|operand| match operand {
            OperandSource::Constant(constant) => constant.packing.as_ref(),
            _ => None,
        });
        constant.unwrap_or_else(|| panic!("{plan}")).layout.clone()
    };
    assert_eq!(shape(160), "panels[N/16][k][gates][16]");
    assert_eq!(shape(32), "panels[N/16][k][16]");
    // Gates that no panel ends with.
    assert_eq!(shape(168), "panels[N/16][k][16]");
}

/// What multiplies the weights of a step is computed once for all columns, as are bytes that a step makes of its state.
#[test]
fn factors_of_a_step_are_stages() {
    let plan = check(&net(r#"
graph @reset(%x: f32[4, 3, 24], %h: f32[3, 24], %z: f32[24, 24], %r: f32[24, 24]) -> (y: %0) {
  %0 = recurrence 1 1 over 4 %h, %x, %z, %r : f32[4, 3, 24] = graph @step(%s: f32[3, 24], %x: f32[3, 24], %z: f32[24, 24], %r: f32[24, 24]) -> (s: %3) {
    %0 = contract [a b, c b -> a c] %s, %z : f32[3, 24]
    %1 = map [p, s -> sigmoid(p) * s] %0, %s : f32[3, 24]
    %2 = contract [a b, c b -> a c] %1, %r : f32[3, 24]
    %3 = map [p, q -> tanh(p + q)] %2, %x : f32[3, 24]
  }
}"#));
    let kernel = &plan.kernels[0].kernel;
    let sums = kernel.stages.iter().filter(|stage| stage.reducer.is_some());
    // The two products, and beside them the state, the factor, and the next state.
    assert_eq!((sums.count(), kernel.stages.len()), (2, 5), "{kernel}");
    // Weights are the same in all steps, and a step has one row: they are not written anew in each.
    let plan = check(&net(r#"
graph @scaled(%x: f32[4, 1, 24], %h: f32[1, 24], %q: f32[24, 24], %r: f32[24]) -> (y: %0) {
  %0 = recurrence 1 1 over 4 %h, %x, %q, %r : f32[4, 1, 24] = graph @step(%s: f32[1, 24], %x: f32[1, 24], %q: f32[24, 24], %r: f32[24]) -> (s: %3) {
    %0 = view [i, j -> j] %r : f32[24, 24]
    %1 = map [q, r -> (q - 0.5) * r * 0.1] %q, %0 : f32[24, 24]
    %2 = contract [a b, c b -> a c] %s, %1 : f32[1, 24]
    %3 = map [p, q -> tanh(p + q)] %2, %x : f32[1, 24]
  }
}"#));
    let kernel = &plan.kernels.last().expect("a recurrence").kernel;
    assert_eq!(kernel.stages.len(), 3, "{plan}");
}

/// What follows a recurrence is a kernel of its own, also where it only renames coordinates.
#[test]
fn followed_by_a_map() {
    let net = net(r#"
graph @follow(%x: f32[6, 20], %h: f32[20]) -> (y: %1) {
  %0 = recurrence 1 1 over 6 %h, %x : f32[6, 20] = graph @step(%s: f32[20], %x: f32[20]) -> (s: %0) {
    %0 = map [p, q -> p * 0.5 + q] %s, %x : f32[20]
  }
  %1 = map [p -> tanh(p)] %0 : f32[6, 20]
}"#);
    assert_eq!(check(&net).kernels.len(), 2);
}

/// Two states of different shapes, of which one is folded from the other, and an output of its own.
#[test]
fn states_of_different_shapes() {
    let net = net(r#"
graph @two(%x: f32[5, 2, 3], %a: f32[2, 3], %b: f32[2]) -> (a: %0, b: %1, c: %2) {
  %0, %1, %2 = recurrence 2 1 over 5 %a, %b, %x : f32[5, 2, 3], f32[5, 2], f32[5, 3, 2] = graph @step(%a: f32[2, 3], %b: f32[2], %x: f32[2, 3]) -> (a: %2, b: %3, c: %4) {
    %0 = view [i, j -> i] %b : f32[2, 3]
    %1 = map [p, q, r -> p * 0.5 + q + r] %a, %x, %0 : f32[2, 3]
    %2 = map [p -> tanh(p)] %1 : f32[2, 3]
    %3 = reduce [1] fold sum [p -> p] %2 : f32[2]
    %4 = view [i, j -> j, i] %2 : f32[3, 2]
  }
}"#);
    assert_eq!(check(&net).kernels.len(), 1);
}

/// A state that is handed on as it is, and one that takes the other's place.
#[test]
fn states_that_are_only_moved() {
    check(&net(r#"
graph @moved(%x: f32[4, 8], %a: f32[8], %b: f32[8]) -> (a: %0, b: %1) {
  %0, %1 = recurrence 2 1 over 4 %a, %b, %x : f32[4, 8], f32[4, 8] = graph @step(%a: f32[8], %b: f32[8], %x: f32[8]) -> (a: %b, b: %0) {
    %0 = map [p, q -> p - q] %x, %a : f32[8]
  }
}"#));
}

/// Positions are looked up in what a step has computed: point by point, by a sum, through views, and where there is only
/// one element.
#[test]
fn look_ups_in_what_a_step_computes() {
    let plan = check(&net(r#"
graph @look(%x: f32[4, 3, 5], %h: f32[3], %p: f32[4, 2]) -> (a: %0, b: %1, c: %2, d: %3, e: %4) {
  %0, %1, %2, %3, %4 = recurrence 1 2 over 4 %h, %x, %p : f32[4, 3], f32[4, 3, 2], f32[4, 2], f32[4, 2, 3], f32[4, 2] = graph @step(%s: f32[3], %x: f32[3, 5], %p: f32[2]) -> (s: %5, b: %2, c: %3, d: %7, e: %9) {
    %0 = map [p -> i64(p * 3.0)] %p : i64[2]
    %1 = map [p -> tanh(p)] %x : f32[3, 5]
    %2 = gather 1 %1, %0 : f32[3, 2]
    %4 = reduce [1] fold sum [p -> p] %1 : f32[3]
    %3 = gather 0 %4, %0 : f32[2]
    %5 = map [p, q -> p * 0.5 + q] %s, %4 : f32[3]
    %6 = view [i, j -> j, i] %1 : f32[5, 3]
    %7 = gather 0 %6, %0 : f32[2, 3]
    %8 = view [i, j -> j] %5 : f32[1, 3]
    %10 = reduce [1] fold sum [p -> p] %8 : f32[1]
    %9 = gather 0 %10, %0 : f32[2]
  }
}"#));
    assert_eq!(plan.kernels.len(), 1);
}

/// Without states the steps have nothing to do with each other.
#[test]
fn no_state() {
    check(&net(r#"
graph @none(%x: f32[4, 8], %y: f32[8]) -> (a: %0) {
  %0 = recurrence 0 1 over 4 %x, %y : f32[4, 8] = graph @step(%x: f32[8], %y: f32[8]) -> (a: %0) {
    %0 = map [p, q -> p * q] %x, %y : f32[8]
  }
}"#));
}

/// Constants of the body, composites in it, and extents of one.
#[test]
fn constants_and_composites_in_the_body() {
    check(&net(r#"
graph @inside(%x: f32[3, 1, 4], %h: f32[1, 4]) -> (y: %0) {
  %0 = recurrence 1 1 over 3 %h, %x : f32[3, 1, 4] = graph @step(%s: f32[1, 4], %x: f32[1, 4]) -> (s: %3) {
    %0 = const "w" : f32[4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, 0, 1, 0, 1]
    %1 = contract [a b, b c -> a c] %s, %0 : f32[1, 4]
    %2 = map [p, q -> p * 0.1 + q] %1, %x : f32[1, 4]
    %3 = composite softmax %2 : f32[1, 4] = graph @softmax(%x: f32[1, 4]) -> (y: %5) {
      %0 = reduce [1] fold max [p -> p] %x : f32[1]
      %1 = view [i, j -> i] %0 : f32[1, 4]
      %2 = map [p, q -> exp(p - q)] %x, %1 : f32[1, 4]
      %3 = reduce [1] fold sum [p -> p] %2 : f32[1]
      %4 = view [i, j -> i] %3 : f32[1, 4]
      %5 = map [p, q -> p / q] %2, %4 : f32[1, 4]
    }
  }
}"#));
}

/// Steps that lie behind what data tells the size of are written when that is known, though the whole has another name for
/// its own size.
#[test]
fn steps_behind_what_data_tells_the_size_of() {
    let graph: Graph = r#"
graph @behind(%x: f32[3, 2], %h: f32[2], %m: bool[6], %c: f32[6, 2]) -> (y: %2) where K in 0..=6 {
  %0 = recurrence 1 1 over 3 %h, %x : f32[3, 2] = graph @step(%s: f32[2], %x: f32[2]) -> (s: %0) {
    %0 = map [p, q -> p * 0.5 + q] %s, %x : f32[2]
  }
  %1 = host "Compress" opset 18 [in 1 1, out 1, bind K = 0 axis 0] {"axis" = int 0} "" %c, %m : f32[K, 2]
  %2 = concat 0 %1, %0 : f32[7, 2]
}"#
    .parse()
    .unwrap_or_else(|e| panic!("{e}"));
    let plan = form(&graph, &FormOptions::default()).expect("the graph is well formed");
    let host = plan.steps.iter().position(|step| matches!(step, PlannedStep::Host(_))).expect("one step on the host");
    let late = |kernel: &Kernel| kernel.operands.iter().any(|o| !o.layout.offset.symbols().is_empty());
    let first =
        plan.steps.iter().position(|step| matches!(step, PlannedStep::Kernel(n) if late(&plan.kernels[*n].kernel)));
    assert!(first.is_some_and(|first| first > host), "{plan}");
}

/// One kernel computes all steps: what only the host does has no place in it.
#[test]
fn a_step_on_the_host_is_refused() {
    let net = net(r#"
graph @g(%h: f32[4], %x: f32[3, 4]) -> (y: %0) {
  %0 = recurrence 1 1 over 3 %h, %x : f32[3, 4] = graph @step(%s: f32[4], %x: f32[4]) -> (s: %1) {
    %0 = host "Identity" opset 13 [in 1, out 1] {} "a test" %x : f32[4]
    %1 = map [p, q -> p + q] %s, %0 : f32[4]
  }
}"#);
    let error = form(&net.graph, &FormOptions::default()).expect_err("no kernel");
    assert!(error.to_string().contains("a host inside of it"), "{error}");
}
