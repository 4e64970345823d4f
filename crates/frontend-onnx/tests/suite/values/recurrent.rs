//! RNN, GRU and LSTM.

use super::{Case, floats, floats_from, halves};
use infc_tensor::Tensor;

const STEPS: usize = 5;
const BATCH: usize = 3;
const INPUT: usize = 4;
const HIDDEN: usize = 6;

/// The operator with everything that all three have, outputs included.
fn case(op: &'static str, direction: &str) -> Case {
    let (gates, outputs) = match op {
        "RNN" => (1, 2),
        "GRU" => (3, 2),
        _ => (4, 3),
    };
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let small = |shape: &[usize]| floats_from(shape, -0.7, 0.7);
    Case::new(op, 14)
        .data(floats(&[STEPS, BATCH, INPUT]))
        .constant(small(&[directions, gates * HIDDEN, INPUT]))
        .constant(small(&[directions, gates * HIDDEN, HIDDEN]))
        .int("hidden_size", HIDDEN as i64)
        .text("direction", direction)
        .outputs(outputs)
        .dynamic(&[0, 1])
}

fn biases(op: &str, directions: usize) -> Tensor {
    let gates = [("RNN", 1), ("GRU", 3)].iter().find(|(name, _)| *name == op).map_or(4, |(_, gates)| *gates);
    floats_from(&[directions, 2 * gates * HIDDEN], -1.0, 1.0)
}

fn lengths() -> Tensor {
    Tensor::from_elements(&[BATCH], &[2i32, 5, 3]).expect("a vector")
}

fn state(directions: usize) -> Tensor {
    floats_from(&[directions, BATCH, HIDDEN], -0.9, 0.9)
}

#[test]
fn in_every_direction() {
    for op in ["RNN", "GRU", "LSTM"] {
        for (direction, directions) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
            case(op, direction).agrees();
            case(op, direction).constant(biases(op, directions)).agrees();
        }
    }
}

#[test]
fn sequences_of_different_lengths() {
    for op in ["RNN", "GRU", "LSTM"] {
        for (direction, directions) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
            case(op, direction).constant(biases(op, directions)).constant(lengths()).dynamic(&[0]).agrees();
            case(op, direction).absent().data(lengths()).dynamic(&[]).data(state(directions)).agrees();
        }
    }
}

#[test]
fn initial_states_and_peepholes() {
    for (direction, directions) in [("forward", 1), ("bidirectional", 2)] {
        case("GRU", direction).absent().absent().data(state(directions)).dynamic(&[]).agrees();
        let lstm = case("LSTM", direction).constant(biases("LSTM", directions)).absent();
        let lstm = lstm.data(state(directions)).data(state(directions)).dynamic(&[]);
        lstm.agrees();
        lstm.constant(floats_from(&[directions, 3 * HIDDEN], -0.5, 0.5)).agrees();
    }
}

#[test]
fn with_the_batch_first() {
    for op in ["RNN", "GRU", "LSTM"] {
        let mut batch_first = case(op, "bidirectional").int("layout", 1);
        batch_first = batch_first
            .constant(biases(op, 2))
            .constant(Tensor::from_elements(&[STEPS], &[3i32, 0, 2, 1, 3]).expect("a vector"));
        batch_first.dynamic(&[1]).agrees();
    }
}

#[test]
fn variants() {
    for bias in [false, true] {
        let gru = case("GRU", "forward").int("linear_before_reset", 1);
        if bias {
            gru.constant(biases("GRU", 1)).agrees()
        } else {
            gru.agrees()
        };
    }
    case("LSTM", "forward").int("input_forget", 1).constant(biases("LSTM", 1)).agrees();
    for op in ["RNN", "GRU", "LSTM"] {
        case(op, "forward").float("clip", 0.3).constant(biases(op, 1)).agrees();
    }
}

#[test]
fn activations_with_parameters() {
    for name in [
        "Relu",
        "Tanh",
        "Sigmoid",
        "Affine",
        "LeakyRelu",
        "ThresholdedRelu",
        "ScaledTanh",
        "HardSigmoid",
        "Elu",
        "Softsign",
        "Softplus",
    ] {
        case("RNN", "forward").texts("activations", &[name]).agrees();
        case("RNN", "forward")
            .texts("activations", &[&name.to_lowercase()])
            .floats("activation_alpha", &[0.4])
            .floats("activation_beta", &[0.3])
            .agrees();
    }
    case("LSTM", "bidirectional")
        .texts("activations", &["HardSigmoid", "Relu", "Softsign", "Sigmoid", "Tanh", "Elu"])
        .agrees();
}

#[test]
fn one_step_is_no_recurrence() {
    let one = Case::new("LSTM", 14)
        .data(floats(&[1, BATCH, INPUT]))
        .constant(floats_from(&[1, 4 * HIDDEN, INPUT], -0.7, 0.7))
        .constant(floats_from(&[1, 4 * HIDDEN, HIDDEN], -0.7, 0.7))
        .absent()
        .absent()
        .data(state(1))
        .data(state(1))
        .outputs(3);
    let graph = one.agrees();
    assert!(graph.order.iter().all(|&n| graph.nodes[n].op.name() != "recurrence"));
}

#[test]
fn halves_are_computed_wide() {
    Case::new("GRU", 14)
        .data(halves(&[STEPS, BATCH, INPUT]))
        .constant(halves(&[1, 3 * HIDDEN, INPUT]))
        .constant(halves(&[1, 3 * HIDDEN, HIDDEN]))
        .outputs(2)
        .tolerance(2e-3)
        .agrees();
}
