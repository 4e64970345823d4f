//! Gated units and steps of optimisers.

use super::{Case, floats, floats_from, halves};
use infc_tensor::Tensor;

#[test]
fn gated_units() {
    for alpha in [1.0, 1.7] {
        let case = Case::new("SwiGLU", 28).data(floats(&[2, 5])).data(floats_from(&[2, 5], -1.0, 3.0));
        case.float("alpha", alpha).dynamic(&[0]).agrees();
    }
    Case::new("SwiGLU", 28).data(halves(&[2, 5])).data(halves(&[2, 5])).tolerance(4e-3).agrees();
}

#[test]
fn steps_of_optimisers() {
    for (op, kinds) in [("Adagrad", 3), ("Momentum", 3), ("Adam", 4)] {
        for tensors in [1, 2] {
            for count in [0i64, 3] {
                let mut case = Case::new(op, 1)
                    .domain("ai.onnx.preview.training")
                    .data(Tensor::scalar(0.1f32))
                    .data(Tensor::scalar(count))
                    .float("norm_coefficient", 0.01)
                    .outputs((kinds - 1) * tensors);
                for kind in 0..kinds {
                    for n in 0..tensors {
                        case =
                            case.data(if kind < 2 { floats(&[2, n + 1]) } else { floats_from(&[2, n + 1], 0.1, 1.0) });
                    }
                }
                case = match op {
                    "Adagrad" => case.float("decay_factor", 0.2),
                    "Momentum" => case.float("alpha", 0.9).float("beta", 0.8),
                    _ => case.float("norm_coefficient_post", 0.05),
                };
                if op == "Momentum" {
                    case.clone().text("mode", "nesterov").agrees();
                    case = case.text("mode", "standard");
                }
                case.agrees();
            }
        }
    }
}
