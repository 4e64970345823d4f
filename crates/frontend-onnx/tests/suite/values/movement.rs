//! Movement: every form of it, on several element types, with fixed and symbolic extents.

use super::{Case, counting, floats, ints};
use infc_ir::op::Op;
use infc_tensor::Tensor;

fn positions(opset: i64, x: Tensor, starts: &[i64], ends: &[i64]) -> Case {
    Case::new("Slice", opset).data(x).constant(ints(starts)).constant(ints(ends))
}

#[test]
fn transposes() {
    Case::new("Transpose", 13).data(counting(&[2, 3, 4])).dynamic(&[0, 1, 2]).agrees();
    Case::new("Transpose", 13).data(counting(&[2, 3, 4])).ints("perm", &[1, 2, 0]).dynamic(&[0, 1]).agrees();
}

#[test]
fn reshapes() {
    let cases: &[(&[usize], &[i64])] = &[
        (&[2, 3, 4], &[24]),
        (&[24], &[2, 3, 4]),
        (&[2, 12], &[2, 3, 4]),
        (&[2, 3, 4], &[6, 4]),
        (&[2, 3, 4], &[4, 3, 2]),
        (&[2, 3, 4], &[0, -1]),
        (&[2, 3, 4], &[-1, 1, 4, 1]),
        (&[6, 4, 1], &[1, 8, 3]),
        (&[4, 9], &[6, 6]),
    ];
    for (x, target) in cases {
        Case::new("Reshape", 13).data(counting(x)).constant(ints(target)).agrees();
    }
    Case::new("Reshape", 13).data(counting(&[2, 3, 4])).constant(ints(&[0, 4, -1])).dynamic(&[0]).agrees();
    Case::new("Reshape", 13).data(counting(&[2, 3, 4])).constant(ints(&[-1, 4])).dynamic(&[0, 1]).agrees();
    Case::new("Reshape", 13).data(counting(&[2, 3, 4])).constant(ints(&[1, -1, 2])).dynamic(&[0]).agrees();
    let empty = Tensor::from_elements::<f32>(&[0, 3], &[]).expect("no elements");
    Case::new("Reshape", 14).data(empty.clone()).constant(ints(&[3, 0])).int("allowzero", 1).agrees();
    Case::new("Reshape", 14).data(empty).constant(ints(&[0, 7])).int("allowzero", 1).agrees();
    for axis in [0, 1, 2, 3, -1] {
        Case::new("Flatten", 13).data(counting(&[2, 3, 4])).int("axis", axis).dynamic(&[0, 1, 2]).agrees();
    }
}

#[test]
fn axes_come_and_go() {
    Case::new("Squeeze", 11).data(counting(&[1, 3, 1, 2])).agrees();
    Case::new("Squeeze", 11).data(counting(&[1, 3, 1, 2])).ints("axes", &[2]).agrees();
    Case::new("Squeeze", 13).data(counting(&[1, 3, 1, 2])).constant(ints(&[0, -2])).dynamic(&[1]).agrees();
    Case::new("Unsqueeze", 11).data(counting(&[3, 2])).ints("axes", &[0, 3]).agrees();
    Case::new("Unsqueeze", 13).data(counting(&[3, 2])).constant(ints(&[-1, 1])).dynamic(&[0]).agrees();
}

#[test]
fn slices_follow_numpy() {
    let x = || counting(&[7, 5]);
    positions(13, x(), &[1, 0], &[4, 3]).dynamic(&[0]).agrees();
    positions(13, x(), &[-3, 1], &[i64::MAX, -1]).dynamic(&[0, 1]).agrees();
    positions(13, x(), &[0], &[1_000_000_000]).dynamic(&[0]).agrees();
    positions(13, x(), &[5, 2], &[2, 2]).agrees();
    let with_steps = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        positions(13, x(), starts, ends).constant(ints(axes)).constant(ints(steps))
    };
    with_steps(&[0], &[7], &[0], &[2]).dynamic(&[0]).agrees();
    with_steps(&[-1], &[i64::MIN], &[0], &[-1]).dynamic(&[0]).agrees();
    with_steps(&[6, 4], &[0, -6], &[0, 1], &[-2, -3]).agrees();
    with_steps(&[20], &[-20], &[-1], &[-1]).agrees();
    let attributes = Case::new("Slice", 9).data(x()).ints("starts", &[1]).ints("ends", &[-1]).ints("axes", &[1]);
    attributes.dynamic(&[0]).agrees();
}

#[test]
fn splits() {
    Case::new("Split", 11).data(counting(&[6, 4])).outputs(3).dynamic(&[1]).agrees();
    Case::new("Split", 11).data(counting(&[6, 4])).ints("split", &[1, 5]).outputs(2).agrees();
    Case::new("Split", 13)
        .data(counting(&[6, 4]))
        .constant(ints(&[3, 1]))
        .int("axis", -1)
        .outputs(2)
        .dynamic(&[0])
        .agrees();
    Case::new("Split", 18).data(counting(&[7, 4])).int("num_outputs", 3).outputs(3).agrees();
}

#[test]
fn concat_and_tile_and_expand() {
    Case::new("Concat", 13)
        .data(floats(&[2, 3]))
        .data(floats(&[2, 1]))
        .data(floats(&[2, 2]))
        .int("axis", 1)
        .dynamic(&[0])
        .agrees();
    Case::new("Concat", 13).data(counting(&[2, 3])).data(counting(&[4, 3])).int("axis", 0).dynamic(&[0, 1]).agrees();
    Case::new("Tile", 13).data(counting(&[2, 3])).constant(ints(&[2, 1])).dynamic(&[0, 1]).agrees();
    Case::new("Tile", 13).data(counting(&[2, 1, 3])).constant(ints(&[1, 3, 2])).agrees();
    Case::new("Expand", 13).data(counting(&[3, 1])).constant(ints(&[2, 1, 4])).dynamic(&[0]).agrees();
    Case::new("Expand", 13).data(counting(&[3, 4])).constant(ints(&[1])).agrees();
}

#[test]
fn pads() {
    for mode in ["constant", "edge", "reflect", "wrap"] {
        let x = || Case::new("Pad", 19).data(floats(&[4, 5])).text("mode", mode);
        x().constant(ints(&[1, 0, 2, 3])).dynamic(&[0, 1]).agrees();
        x().constant(ints(&[3, 2])).absent().constant(ints(&[-1])).agrees();
        x().constant(ints(&[-1, 1, 0, -2])).agrees();
        Case::new("Pad", 10)
            .data(floats(&[4, 5]))
            .text("mode", mode.replace("wrap", "edge").as_str())
            .ints("pads", &[0, 1, 2, 0])
            .agrees();
    }
    Case::new("Pad", 13).data(counting(&[3])).constant(ints(&[1, 2])).constant(Tensor::scalar(9i64)).agrees();
    // More is taken away on one side than there is, of what is added on the other.
    for (len, pads) in [(0, [2, -1]), (1, [3, -2]), (2, [-3, 2]), (0, [-1, 1]), (3, [-1, 2]), (3, [1, -3])] {
        let case = || Case::new("Pad", 13).data(counting(&[len])).constant(ints(&pads));
        case().constant(Tensor::scalar(9i64)).agrees();
        case().dynamic(&[0]).agrees();
    }
    // Their sum is what there is, but they are beyond all sizes.
    let beyond = Case::new("Pad", 13).data(counting(&[4])).constant(ints(&[i64::MAX, -i64::MAX]));
    assert_eq!(beyond.refused().code(), "onnx::shape-mismatch");
}

#[test]
fn blocks_move_between_depth_and_space() {
    for mode in ["DCR", "CRD"] {
        let case = Case::new("DepthToSpace", 13).data(counting(&[2, 12, 2, 3])).int("blocksize", 2);
        case.text("mode", mode).dynamic(&[0, 2, 3]).agrees();
    }
    let to_depth = || Case::new("SpaceToDepth", 13).data(counting(&[2, 3, 4, 6])).int("blocksize", 2);
    to_depth().dynamic(&[0]).agrees();
    for mode in ["DCR", "CRD"] {
        to_depth().text("mode", mode).dynamic(&[0]).agrees();
    }
}

#[test]
fn gathers() {
    let data = || counting(&[4, 5]);
    let take = |indices: Tensor, axis: i64| Case::new("Gather", 13).data(data()).constant(indices).int("axis", axis);
    take(Tensor::scalar(2i64), 0).dynamic(&[1]).agrees();
    take(Tensor::scalar(-1i64), 1).dynamic(&[0, 1]).agrees();
    take(ints(&[1, 2, 3]), 0).agrees();
    take(ints(&[3, 1]), 1).dynamic(&[0]).agrees();
    take(ints(&[3, 0, 0, 2]), 1).agrees();
    take(counting(&[2, 2]), 0).agrees();
    Case::new("Gather", 13).data(data()).data(ints(&[0, -1, 3])).int("axis", 1).dynamic(&[0]).agrees();
    Case::new("Gather", 13).data(data()).data(counting(&[2, 2])).agrees();
    let graph = take(ints(&[3, 1]), 1).agrees();
    assert!(graph.order.iter().all(|&n| matches!(graph.nodes[n].op, Op::View(_))), "evenly spaced: a view");
}

#[test]
fn triangles_and_dropout() {
    for upper in [0, 1] {
        for k in [-1, 0, 2] {
            Case::new("Trilu", 14)
                .data(counting(&[2, 4, 5]))
                .constant(Tensor::scalar::<i64>(k))
                .int("upper", upper)
                .dynamic(&[0, 1])
                .agrees();
        }
    }
    Case::new("Dropout", 12).data(floats(&[2, 3])).outputs(2).agrees();
    Case::new("Identity", 13).data(floats(&[2, 3])).agrees();
}

#[test]
fn the_middle() {
    for target in [[2, 5], [7, 2], [4, 3]] {
        Case::new("CenterCropPad", 18).data(counting(&[4, 3])).constant(ints(&target)).dynamic(&[0, 1]).agrees();
    }
    let case = Case::new("CenterCropPad", 18).data(floats(&[3, 5, 2])).constant(ints(&[2]));
    case.ints("axes", &[-2]).dynamic(&[0, 1]).agrees();
}

/// Where an input says whether there is training, the host draws what is left out, if there is; nothing declares its types.
#[test]
fn dropout_that_a_run_tells() {
    for on in [false, true] {
        let training = Tensor::from_bools(&[], &[on]).expect("one");
        let ratio = Tensor::scalar(0.5f32);
        let case = Case::new("Dropout", 13).int("seed", 7).data(floats(&[2, 3])).constant(ratio).data(training);
        case.outputs(2).dynamic(&[0]).agrees();
    }
}
