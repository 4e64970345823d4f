//! Reductions, positions of extrema, running sums.

use super::{Case, counting, f32s, floats, floats_from, halves, ints};
use infc_tensor::Tensor;

const ALL: [&str; 10] = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceSumSquare",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
];

/// Bools are no numbers, as all that a fold takes has to be.
#[test]
fn bools_have_no_running_sums() {
    let bools = Tensor::from_bools(&[3], &[true, false, true]).expect("fits");
    let case = Case::new("CumSum", 14).data(bools).constant(Tensor::scalar(0i64));
    assert_eq!(case.refused().code(), "onnx::unsupported-type");
}

/// How many axes are folded may be known when the model runs, if they are kept.
#[test]
fn any_number_of_axes_is_folded_if_they_are_kept() {
    for op in ["ReduceSum", "ReduceMean", "ReduceMax"] {
        for axes in [&[1i64][..], &[0, 2], &[-1, 0, 1]] {
            Case::new(op, 18).data(floats(&[2, 3, 4])).data(ints(axes)).dynamic(&[0]).agrees();
        }
    }
}

#[test]
fn axes_are_attributes_or_inputs() {
    for op in ALL {
        let x = || floats_from(&[2, 3, 4], 0.1, 2.0);
        Case::new(op, 11).data(x()).ints("axes", &[1]).dynamic(&[0, 1, 2]).agrees();
        Case::new(op, 11).data(x()).ints("axes", &[0, -1]).int("keepdims", 0).dynamic(&[0, 1, 2]).agrees();
        Case::new(op, 11).data(x()).agrees();
        Case::new(op, 18).data(x()).constant(ints(&[-1, 0])).agrees();
        Case::new(op, 18).data(x()).constant(ints(&[1])).int("keepdims", 0).agrees();
    }
}

/// The attribute came with the axes as an input; before that it says nothing.
#[test]
fn no_axes_are_all_of_them_or_none() {
    for (op, since) in ALL.map(|op| (op, if op == "ReduceSum" { 13 } else { 18 })) {
        for (opset, noop) in [(since, 0), (since, 1), (since - 1, 0), (since - 1, 1)] {
            let case = || Case::new(op, opset).data(floats_from(&[2, 3], 0.1, 2.0)).int("noop_with_empty_axes", noop);
            let shape = if opset == since && noop == 1 { vec![2, 3] } else { vec![1, 1] };
            assert_eq!(case().expected()[0].shape(), shape, "{op}-{opset}, {noop}");
            case().agrees();
        }
    }
}

#[test]
fn other_types() {
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"] {
        Case::new(op, 18).data(counting(&[2, 3])).constant(ints(&[1])).agrees();
    }
    Case::new("ReduceSum", 18).data(halves(&[4, 9])).constant(ints(&[1])).tolerance(4e-3).agrees();
    let bytes = Tensor::from_elements(&[4], &[-3i8, -128, -7, -9]).expect("a vector");
    Case::new("ReduceMax", 18).data(bytes).constant(ints(&[0])).agrees();
}

#[test]
fn log_sum_exp_does_not_overflow() {
    Case::new("ReduceLogSumExp", 18).data(f32s(&[1000.0, 1000.5, -1000.0])).constant(ints(&[0])).agrees();
}

#[test]
fn positions_of_extrema() {
    let ties = Tensor::from_elements(&[2, 4], &[1.0f32, 3.0, 3.0, 0.0, -1.0, -1.0, -2.0, -2.0]).expect("8 floats");
    for op in ["ArgMax", "ArgMin"] {
        for last in [0, 1] {
            for axis in [0, 1, -1] {
                Case::new(op, 13).data(ties.clone()).int("axis", axis).int("select_last_index", last).agrees();
            }
        }
        Case::new(op, 13).data(floats(&[3, 4, 5])).int("axis", 1).int("keepdims", 0).dynamic(&[0, 1]).agrees();
        Case::new(op, 13).data(counting(&[5])).agrees();
    }
}

#[test]
fn running_sums() {
    for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for axis in [0, 1] {
            Case::new("CumSum", 14)
                .data(floats(&[3, 4]))
                .constant(Tensor::scalar::<i64>(axis))
                .int("exclusive", exclusive)
                .int("reverse", reverse)
                .dynamic(&[0])
                .agrees();
        }
    }
}

#[test]
fn running_products() {
    for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        Case::new("CumProd", 26)
            .data(floats(&[3, 4]))
            .constant(Tensor::scalar(1i64))
            .int("exclusive", exclusive)
            .int("reverse", reverse)
            .dynamic(&[0])
            .agrees();
    }
}
