//! Losses over classes.

use super::{Case, floats, floats_from, halves};
use infc_tensor::Tensor;

fn classes(shape: &[usize], classes: i64) -> Tensor {
    let elements: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|n| (n * 7 + 2) % classes).collect();
    Tensor::from_elements(shape, &elements).expect("as many as the shape has")
}

#[test]
fn losses_of_all_reductions() {
    for (op, outputs) in [("NegativeLogLikelihoodLoss", 1), ("SoftmaxCrossEntropyLoss", 2)] {
        for (x, target) in [(vec![3, 5], vec![3]), (vec![2, 4, 3], vec![2, 3]), (vec![2, 3, 2, 4], vec![2, 2, 4])] {
            let count = x[1];
            for reduction in ["none", "sum", "mean"] {
                for weighted in [false, true] {
                    for ignored in [None, Some(1), Some(-100)] {
                        let mut case = Case::new(op, 13)
                            .data(floats(&x))
                            .data(classes(&target, count as i64))
                            .text("reduction", reduction)
                            .outputs(outputs);
                        if weighted {
                            case = case.constant(floats_from(&[count], 0.5, 2.0));
                        }
                        if let Some(ignored) = ignored {
                            case = case.int("ignore_index", ignored);
                        }
                        case.dynamic(&[0]).agrees();
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_ignored_may_be_no_class() {
    let target = Tensor::from_elements(&[4], &[1i64, -1, 0, -1]).expect("four");
    Case::new("NegativeLogLikelihoodLoss", 22).data(floats(&[4, 3])).data(target).int("ignore_index", -1).agrees();
    Case::new("SoftmaxCrossEntropyLoss", 13).data(halves(&[3, 5])).data(classes(&[3], 5)).tolerance(4e-3).agrees();
}
