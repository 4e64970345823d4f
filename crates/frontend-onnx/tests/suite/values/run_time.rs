//! Shapes, axes, paddings, repeats and counts that are inputs: each case with them as constants, then as values of the
//! run.

use super::{Case, counting, f32s, floats, ints};
use infc_tensor::{Tensor, f16};

fn empty() -> Tensor {
    ints(&[])
}

#[test]
fn target_shapes() {
    for target in [&[24][..], &[4, 3, 2], &[0, -1], &[-1, 1, 4, 1], &[2, -1], &[1, 0, -1], &[0, 0, 0]] {
        Case::new("Reshape", 13).data(counting(&[2, 3, 4])).constant(ints(target)).agrees_at_run_time();
    }
    let hollow = Tensor::from_elements::<f32>(&[0, 3], &[]).expect("no elements");
    Case::new("Reshape", 14).data(hollow).constant(ints(&[3, 0])).int("allowzero", 1).agrees_at_run_time();
    Case::new("Reshape", 13).data(counting(&[2, 3])).constant(ints(&[3, -1])).dynamic(&[1]).agrees_at_run_time();
    for target in [&[2, 3, 4][..], &[3, 1], &[2, 1, 4], &[1], &[5, 1, 1, 1]] {
        Case::new("Expand", 13).data(counting(&[3, 1])).constant(ints(target)).dynamic(&[1]).agrees_at_run_time();
    }
    Case::new("Expand", 13).data(counting(&[1, 3])).constant(ints(&[2, 1])).dynamic(&[1]).agrees_at_run_time();
    Case::new("ConstantOfShape", 9).constant(ints(&[2, 0, 3])).agrees_at_run_time();
    Case::new("Tile", 13).data(counting(&[2, 3])).constant(ints(&[2, 1])).dynamic(&[1]).agrees_at_run_time();
    Case::new("CenterCropPad", 18).data(counting(&[3, 6])).constant(ints(&[5, 3])).dynamic(&[1]).agrees_at_run_time();
}

#[test]
fn counts() {
    let scalars = |values: [i64; 3]| values.map(Tensor::scalar);
    for [start, limit, delta] in [scalars([1, 10, 3]), scalars([10, 1, -3]), scalars([5, 5, 1]), scalars([5, 1, 1])] {
        Case::new("Range", 11).constant(start).constant(limit).constant(delta).agrees_at_run_time();
    }
    for op in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
        Case::new(op, 17).constant(Tensor::scalar(7i64)).agrees_at_run_time();
    }
    for k in [0, 1, 3] {
        Case::new("TopK", 11).data(floats(&[2, 5])).constant(ints(&[k])).outputs(2).agrees_at_run_time();
    }
    let case = Case::new("OneHot", 11).data(ints(&[0, -2, 3])).constant(Tensor::scalar(4i64));
    case.constant(f32s(&[-1.0, 2.0])).agrees_at_run_time();
}

/// Kernels count what floats of the run say.
#[test]
fn counts_by_floats() {
    for ends in [[1.0f32, 10.0, 3.0], [1.0, -0.5, -0.25], [0.5, 0.5, 1.0], [2.0, 1.0, 1.0], [0.0, 1.0, 0.1]] {
        let [start, limit, delta] = ends.map(Tensor::scalar);
        Case::new("Range", 11).constant(start).constant(limit).constant(delta).is_of_kernels_at_run_time();
        let [start, limit, delta] = ends.map(f64::from).map(Tensor::scalar);
        Case::new("Range", 11).constant(start).constant(limit).constant(delta).is_of_kernels_at_run_time();
    }
    // Halves are rounded once, however far on they are.
    let wide = [-1000.0f32, 1000.0, 0.5].map(f16::from_f32).map(Tensor::scalar);
    let [start, limit, delta] = wide;
    Case::new("Range", 27).constant(start).constant(limit).constant(delta).tolerance(0.0).is_of_kernels_at_run_time();
    for depth in [4.0f32, 4.75, 0.0] {
        let case = Case::new("OneHot", 11).data(ints(&[0, -2, 3])).constant(Tensor::scalar(depth));
        case.constant(f32s(&[-1.0, 2.0])).is_of_kernels_at_run_time();
    }
}

#[test]
fn paddings() {
    for mode in ["constant", "edge", "reflect", "wrap"] {
        for pads in [[1, 2, 2, 0], [0, 1, -1, 2], [-1, -2, 0, 0]] {
            let case = Case::new("Pad", 19).data(counting(&[4, 5])).constant(ints(&pads)).text("mode", mode);
            case.dynamic(&[1]).agrees_at_run_time();
        }
    }
    for (len, pads) in [(0, [2, -1]), (1, [3, -2]), (2, [-3, 2]), (3, [-1, 2])] {
        Case::new("Pad", 19).data(counting(&[len])).constant(ints(&pads)).dynamic(&[0]).agrees_at_run_time();
        // Which axis and with what a run tells too.
        let case = Case::new("Pad", 19).data(counting(&[len, 2])).constant(ints(&pads)).constant(Tensor::scalar(7i64));
        case.constant(ints(&[0])).agrees_at_run_time();
    }
    let value = || Tensor::scalar(7i64);
    let case = Case::new("Pad", 18).data(counting(&[2, 3])).constant(ints(&[1, 2])).constant(value());
    case.constant(ints(&[-1])).agrees_at_run_time();
    let case = Case::new("Pad", 18).data(counting(&[2, 3])).constant(ints(&[1, 0, 2, -1])).constant(value());
    case.constant(ints(&[1, 0])).agrees_at_run_time();
}

#[test]
fn parts() {
    let whole = [([0, 0], [3, 4], [1, 1]), ([1, -3], [-1, 1000], [1, 2]), ([20, 10], [0, -100], [-1, -3])];
    for (starts, ends, steps) in whole {
        let case = || Case::new("Slice", 13).data(counting(&[5, 6])).constant(ints(&starts)).constant(ints(&ends));
        case().constant(ints(&[0, 1])).constant(ints(&steps)).dynamic(&[1]).agrees_at_run_time();
        case().constant(ints(&[-1, 0])).constant(ints(&steps)).agrees_at_run_time();
    }
    Case::new("Slice", 13).data(counting(&[5])).constant(ints(&[2])).constant(ints(&[-1])).agrees_at_run_time();
    for lengths in [[2, 4], [6, 0]] {
        let case = Case::new("Split", 13).data(counting(&[6, 2])).constant(ints(&lengths)).outputs(2);
        case.dynamic(&[1]).agrees_at_run_time();
    }
}

#[test]
fn axes() {
    for (keep, given) in [(1, &[0][..]), (0, &[1]), (1, &[-1, 0]), (0, &[2, 0]), (0, &[-2, 2, 0])] {
        for (op, since) in [("ReduceSum", 13), ("ReduceMean", 18), ("ReduceLogSumExp", 18), ("ReduceMax", 18)] {
            let case = Case::new(op, since).data(floats(&[2, 3, 4])).constant(ints(given)).int("keepdims", keep);
            case.dynamic(&[1]).agrees_at_run_time();
        }
    }
    for noop in [0, 1] {
        let case = Case::new("ReduceSum", 13).data(floats(&[2, 3])).constant(empty());
        case.int("noop_with_empty_axes", noop).agrees_at_run_time();
    }
    for axis in [0, 1, 2, -1] {
        let case = Case::new("CumSum", 14).data(floats(&[2, 3, 4])).constant(Tensor::scalar(axis));
        case.int("reverse", axis & 1).dynamic(&[1]).agrees_at_run_time();
    }
    for given in [&[0][..], &[2], &[-1, 1]] {
        Case::new("Unsqueeze", 13).data(counting(&[2, 3])).constant(ints(given)).dynamic(&[1]).agrees_at_run_time();
    }
    for given in [&[1][..], &[-1], &[3, 1]] {
        Case::new("Squeeze", 13).data(counting(&[2, 1, 3, 1])).constant(ints(given)).dynamic(&[2]).agrees_at_run_time();
    }
}

#[test]
fn what_no_shape_depends_on_is_data() {
    for k in [-5, -1, 0, 2] {
        for upper in [0, 1] {
            let case =
                Case::new("Trilu", 14).data(counting(&[2, 3, 4])).constant(Tensor::scalar(k)).int("upper", upper);
            let mut case = case.dynamic(&[1]);
            case.agrees_at_run_time();
            case.inputs[1].as_mut().expect("the diagonal").1 = false;
            assert!(case.agrees().sources.is_empty(), "a diagonal is data like other data");
        }
    }
}
