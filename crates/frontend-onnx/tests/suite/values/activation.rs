//! Activation functions and softmax.

use super::{Case, floats, halves, integers, ints};
use infc_tensor::Tensor;

#[test]
fn activations() {
    for op in [
        "Relu",
        "LeakyRelu",
        "ThresholdedRelu",
        "Elu",
        "Selu",
        "Celu",
        "HardSigmoid",
        "HardSwish",
        "Softplus",
        "Softsign",
        "Shrink",
    ] {
        Case::new(op, 16).data(floats(&[4, 6])).dynamic(&[0, 1]).agrees();
        Case::new(op, 16).data(halves(&[8])).tolerance(2e-3).agrees();
    }
    Case::new("Relu", 14).data(ints(&[-1, 2])).agrees();
    Case::new("Mish", 18).data(floats(&[9])).agrees();
    Case::new("Swish", 24).data(floats(&[9])).agrees();
    Case::new("Swish", 24).data(floats(&[9])).float("alpha", 1.5).agrees();
    Case::new("LeakyRelu", 16).data(floats(&[9])).float("alpha", 0.3).agrees();
    Case::new("Elu", 16).data(floats(&[9])).float("alpha", 0.3).agrees();
    Case::new("Celu", 16).data(floats(&[9])).float("alpha", 0.3).agrees();
    Case::new("Selu", 16).data(floats(&[9])).float("alpha", 2.0).float("gamma", 3.0).agrees();
    Case::new("HardSigmoid", 16).data(floats(&[9])).float("alpha", 0.5).float("beta", 0.6).agrees();
    Case::new("Shrink", 16).data(floats(&[9])).float("lambd", 1.0).float("bias", 0.25).agrees();
    // Bounds between integers.
    for bias in [0.0, 1.5] {
        let case = |x: Tensor| Case::new("Shrink", 16).data(x).float("lambd", 1.5).float("bias", bias);
        case(ints(&[-4, -2, -1, 0, 1, 2, 3])).agrees();
        case(integers::<u8>(&[9], 0, 8)).agrees();
    }
    Case::new("ThresholdedRelu", 16).data(floats(&[9])).float("alpha", 0.2).agrees();
}

#[test]
fn prelu_slopes_broadcast() {
    Case::new("PRelu", 16).data(floats(&[2, 3, 4])).data(floats(&[3, 1])).agrees();
    Case::new("PRelu", 16).data(floats(&[2, 3, 4])).constant(floats(&[1])).agrees();
}

#[test]
fn gelu_has_two_forms() {
    Case::new("Gelu", 20).data(floats(&[3, 7])).agrees();
    Case::new("Gelu", 20).data(floats(&[3, 7])).text("approximate", "tanh").agrees();
    Case::new("Gelu", 20).data(halves(&[7])).tolerance(2e-3).agrees();
}

#[test]
fn softmax_over_one_axis_or_many() {
    for op in ["Softmax", "LogSoftmax"] {
        for axis in [-1, 0, 1] {
            Case::new(op, 13).data(floats(&[2, 3, 4])).int("axis", axis).dynamic(&[0, 1, 2]).agrees();
            Case::new(op, 11).data(floats(&[2, 3, 4])).int("axis", axis).dynamic(&[0, 1, 2]).agrees();
        }
        Case::new(op, 13).data(floats(&[5])).agrees();
        Case::new(op, 11).data(floats(&[2, 3])).agrees();
        Case::new(op, 13).data(halves(&[2, 5])).tolerance(2e-3).agrees();
    }
}
