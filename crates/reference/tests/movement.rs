//! Operators that move elements: for every element type, with the differences between opsets.

mod support;

use infc_reference::EvalError;
use infc_tensor::{AlignedBytes, DType, Tensor};
use support::{assert_close, floats, ints, iota, op, t, vector};

fn words(shape: &[usize], words: &[&str]) -> Tensor {
    Tensor::from_strings(shape, words.iter().map(|w| (*w).to_owned()).collect()).unwrap()
}

/// Values of PyTorch 2.15's `grid_sample` with `bicubic` and `border`: each of the four elements around is moved to the border
/// by itself.
#[test]
fn cubic_grids_end_at_the_border() {
    let squares: Vec<f32> = (0..12).map(|n| (n * n) as f32 / 8.0).collect();
    let (x, places) = (t(&[1, 1, 3, 4], &squares), [-1.2f32, -0.9, 1.1, 1.3, 0.4, -1.1, -3.0, 2.5]);
    let grid = t(&[1, 1, 4, 2], &places);
    let expected = [[-0.221_907, 15.265_15, 0.453_598, 8.0], [0.101_424, 16.339_57, 0.322_359, 8.0]];
    for (align, expected) in expected.iter().enumerate() {
        let sample = op("GridSample", 20).with("mode", "cubic").with("padding_mode", "border");
        let found = floats(&sample.with("align_corners", align as i64).run(&[&x, &grid]));
        let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-4;
        assert!(found.iter().zip(expected).all(is_near), "{found:?} instead of {expected:?}");
    }
}

#[test]
fn transpose_moves_every_kind_of_element() {
    let transpose = op("Transpose", 13);
    assert_eq!(transpose.run(&[&iota(&[2, 3])]), t(&[3, 2], &[0.0f32, 3.0, 1.0, 4.0, 2.0, 5.0]));
    assert_eq!(transpose.run(&[&words(&[1, 2], &["a", "b"])]), words(&[2, 1], &["a", "b"]));
    // 4-bit elements 1, 2, 3, 4 in two bytes, low bits first.
    let nibbles = |bytes: &[u8]| Tensor::from_bytes(DType::U4, vec![2, 2], AlignedBytes::from_slice(bytes)).unwrap();
    assert_eq!(transpose.run(&[&nibbles(&[0x21, 0x43])]), nibbles(&[0x31, 0x42]));
    assert!(op("Transpose", 13).with("perm", vec![0i64, 0]).try_all(&[Some(&iota(&[2, 3]))]).is_err());
}

#[test]
fn reshape_keeps_zeros_and_infers_one_extent() {
    let x = iota(&[2, 3, 4]);
    let shape = |dims: &[i64]| op("Reshape", 14).run(&[&x, &vector(dims)]).shape().to_vec();
    assert_eq!(shape(&[0, -1]), [2, 12]);
    assert_eq!(shape(&[4, -1, 2]), [4, 3, 2]);
    assert_eq!(shape(&[24]), [24]);
    assert!(op("Reshape", 14).try_all(&[Some(&x), Some(&vector(&[-1i64, -1]))]).is_err());
    assert!(op("Reshape", 14).try_all(&[Some(&x), Some(&vector(&[5i64, -1]))]).is_err());
    let empty = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
    let allow = op("Reshape", 14).with("allowzero", 1i64);
    assert_eq!(allow.run(&[&empty, &vector(&[3i64, 0])]).shape(), [3, 0]);
    assert_eq!(op("Reshape", 1).with("shape", vec![6i64, 4]).run(&[&x]).shape(), [6, 4]);
}

#[test]
fn squeeze_and_unsqueeze_take_axes_from_where_the_opset_has_them() {
    let x = iota(&[1, 3, 1]);
    assert_eq!(op("Squeeze", 11).with("axes", vec![-1i64]).run(&[&x]).shape(), [1, 3]);
    assert_eq!(op("Squeeze", 13).run(&[&x, &vector(&[0i64])]).shape(), [3, 1]);
    assert_eq!(op("Squeeze", 13).run(&[&x]).shape(), [3]);
    assert_eq!(op("Unsqueeze", 11).with("axes", vec![0i64, 4]).run(&[&x]).shape(), [1, 1, 3, 1, 1]);
    assert_eq!(op("Unsqueeze", 13).run(&[&x, &vector(&[-1i64, 0])]).shape(), [1, 1, 3, 1, 1]);
    assert!(op("Squeeze", 13).try_all(&[Some(&x), Some(&vector(&[1i64]))]).is_err());
    assert!(matches!(
        op("Unsqueeze", 13).error(&[&x, &vector(&[9i64])]),
        EvalError::AxisOutOfRange { axis: 9, rank: 4 }
    ));
}

#[test]
fn slice_clamps_bounds_and_steps_backwards() {
    let x = iota(&[2, 4]);
    let slice = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        let inputs = [starts, ends, axes, steps].map(vector);
        op("Slice", 13).run(&[&x, &inputs[0], &inputs[1], &inputs[2], &inputs[3]])
    };
    assert_eq!(slice(&[1, 0], &[2, 3], &[0, 1], &[1, 2]), t(&[1, 2], &[4.0f32, 6.0]));
    assert_eq!(floats(&slice(&[-1], &[i64::MIN], &[1], &[-2])), [3.0, 1.0, 7.0, 5.0]);
    assert_eq!(slice(&[0], &[1000], &[-1], &[3]), t(&[2, 2], &[0.0f32, 3.0, 4.0, 7.0]));
    assert_eq!(slice(&[3], &[1], &[1], &[1]).shape(), [2, 0]);
    assert!(
        op("Slice", 13)
            .try_all(&[Some(&x), Some(&vector(&[0i64])), Some(&vector(&[1i64])), None, Some(&vector(&[0i64]))])
            .is_err()
    );
    let old = op("Slice", 1).with("starts", vec![0i64, 1]).with("ends", vec![-1i64, 1000]);
    assert_eq!(old.run(&[&x]), t(&[1, 3], &[1.0f32, 2.0, 3.0]));
}

#[test]
fn concat_and_split_undo_each_other() {
    let (a, b) = (iota(&[2, 2]), iota(&[2, 1]));
    let joined = op("Concat", 13).with("axis", -1i64).run(&[&a, &b]);
    assert_eq!(joined, t(&[2, 3], &[0.0f32, 1.0, 0.0, 2.0, 3.0, 1.0]));
    let parts = op("Split", 13).with("axis", 1i64).outputs(2).all(&[&joined, &vector(&[2i64, 1])]);
    assert_eq!(parts, [a, b]);
    let uneven = op("Split", 18).with("num_outputs", 3i64).outputs(3).all(&[&iota(&[7])]);
    assert_eq!(uneven.iter().map(|part| part.shape()[0]).collect::<Vec<_>>(), [3, 3, 1]);
    let by_attribute = op("Split", 2).with("split", vec![1i64, 6]).outputs(2).all(&[&iota(&[7])]);
    assert_eq!(by_attribute[1].shape(), [6]);
}

#[test]
fn pad_modes_match_numpy() {
    let x = vector(&[1.0f32, 2.0, 3.0]);
    let pad = |mode: &str, before: i64, after: i64| {
        floats(&op("Pad", 19).with("mode", mode).run(&[&x, &vector(&[before, after])]))
    };
    assert_eq!(pad("constant", 1, 1), [0.0, 1.0, 2.0, 3.0, 0.0]);
    assert_eq!(pad("edge", 1, 2), [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
    assert_eq!(pad("reflect", 2, 2), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
    assert_eq!(pad("wrap", 1, 2), [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
    assert_eq!(pad("constant", -1, 0), [2.0, 3.0]);
    let old = op("Pad", 2).with("pads", vec![0i64, 1]).with("value", 9.0f32);
    assert_eq!(floats(&old.run(&[&x])), [1.0, 2.0, 3.0, 9.0]);
}

#[test]
fn expand_and_tile_repeat() {
    assert_eq!(op("Expand", 13).run(&[&iota(&[2, 1]), &vector(&[2i64])]), t(&[2, 2], &[0.0f32, 0.0, 1.0, 1.0]));
    let tiled = op("Tile", 13).run(&[&iota(&[1, 2]), &vector(&[2i64, 2])]);
    assert_eq!(tiled, t(&[2, 4], &[0.0f32, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]));
}

#[test]
fn gather_family() {
    let x = t(&[3, 2], &[1.0f32, 1.2, 2.3, 3.4, 4.5, 5.7]);
    let rows = op("Gather", 13).run(&[&x, &t(&[2, 2], &[0i64, 1, 1, -1])]);
    assert_eq!(rows, t(&[2, 2, 2], &[1.0f32, 1.2, 2.3, 3.4, 2.3, 3.4, 4.5, 5.7]));
    assert!(matches!(op("Gather", 13).error(&[&x, &vector(&[3i64])]), EvalError::IndexOutOfRange { index: 3, len: 3 }));
    let x = t(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let elements = op("GatherElements", 13).with("axis", 1i64).run(&[&x, &t(&[2, 2], &[0i64, 0, 1, 0])]);
    assert_eq!(floats(&elements), [1.0, 1.0, 4.0, 3.0]);
    let x = iota(&[2, 2, 2]);
    let nd = op("GatherND", 13).with("batch_dims", 1i64).run(&[&x, &t(&[2, 1], &[1i64, 0])]);
    assert_eq!(nd, t(&[2, 2], &[2.0f32, 3.0, 4.0, 5.0]));
}

#[test]
fn scatter_family() {
    let x = vector(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let (indices, updates) = (t(&[4, 1], &[4i64, 3, 1, 7]), vector(&[9.0f32, 10.0, 11.0, 12.0]));
    let placed = op("ScatterND", 18).run(&[&x, &indices, &updates]);
    assert_eq!(floats(&placed), [1.0, 11.0, 3.0, 10.0, 9.0, 6.0, 7.0, 12.0]);
    let x = t(&[1, 5], &[1.0f32, 2.0, 3.0, 4.0, 5.0]);
    let (indices, updates) = (t(&[1, 2], &[1i64, 1]), t(&[1, 2], &[1.1f32, 2.1]));
    let added = op("ScatterElements", 18).with("axis", 1i64).with("reduction", "add").run(&[&x, &indices, &updates]);
    assert_close(&added, &[1, 5], &[1.0, 5.2, 3.0, 4.0, 5.0]);
}

#[test]
fn depth_and_space_are_inverse() {
    let x = iota(&[1, 8, 2, 3]);
    let spread = op("DepthToSpace", 13).with("blocksize", 2i64).run(&[&x]);
    assert_eq!(spread.shape(), [1, 2, 4, 6]);
    // The example of the operator's documentation.
    assert_eq!(floats(&spread)[..6], [0.0, 12.0, 1.0, 13.0, 2.0, 14.0]);
    assert_eq!(op("SpaceToDepth", 13).with("blocksize", 2i64).run(&[&spread]), x);
}

#[test]
fn outputs_that_depend_on_the_data() {
    let x = t(&[2, 2], &[1i64, 0, 1, 1]);
    assert_eq!(op("NonZero", 13).run(&[&x]), t(&[2, 3], &[0i64, 1, 1, 0, 0, 1]));
    let condition = Tensor::from_bools(&[2], &[false, true]).unwrap();
    assert_eq!(op("Compress", 11).with("axis", 0i64).run(&[&iota(&[3, 2]), &condition]), t(&[1, 2], &[2.0f32, 3.0]));
    let unique = op("Unique", 11).outputs(4).all(&[&vector(&[2.0f32, 1.0, 1.0, 3.0, 4.0, 3.0])]);
    assert_eq!(floats(&unique[0]), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        [ints(&unique[1]), ints(&unique[2]), ints(&unique[3])],
        [vec![1, 0, 3, 4], vec![1, 0, 0, 2, 3, 2], vec![2, 1, 2, 1]]
    );
}

#[test]
fn top_k_is_sorted_and_stable() {
    let x = t(&[1, 4], &[3.0f32, 1.0, 3.0, 2.0]);
    let best = op("TopK", 11).outputs(2).all(&[&x, &vector(&[3i64])]);
    assert_eq!((floats(&best[0]), ints(&best[1])), (vec![3.0, 3.0, 2.0], vec![0, 2, 3]));
    let worst = op("TopK", 11).with("largest", 0i64).outputs(2).all(&[&x, &vector(&[2i64])]);
    assert_eq!((floats(&worst[0]), ints(&worst[1])), (vec![1.0, 2.0], vec![1, 3]));
}

#[test]
fn tensors_made_from_shapes() {
    let x = iota(&[2, 3, 4]);
    assert_eq!(ints(&op("Shape", 15).with("start", -2i64).run(&[&x])), [3, 4]);
    assert_eq!(ints(&op("Size", 13).run(&[&x])), [24]);
    let range = op("Range", 11).run(&[&Tensor::scalar(10i64), &Tensor::scalar(4i64), &Tensor::scalar(-4i64)]);
    assert_eq!(ints(&range), [10, 6]);
    let filled = op("ConstantOfShape", 9).with("value", vector(&[7i32])).run(&[&vector(&[2i64, 1])]);
    assert_eq!(filled, t(&[2, 1], &[7i32, 7]));
    let hot = op("OneHot", 11).run(&[&vector(&[1i64, -1, 9]), &Tensor::scalar(3i64), &vector(&[0.0f32, 5.0])]);
    assert_eq!(hot, t(&[3, 3], &[0.0f32, 5.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]));
    let eye = op("EyeLike", 9).with("k", 1i64).run(&[&iota(&[2, 3])]);
    assert_eq!(floats(&eye), [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let lower = op("Trilu", 14).with("upper", 0i64).run(&[&iota(&[2, 3])]);
    assert_eq!(floats(&lower), [0.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
}

#[test]
fn dropout_of_inference_is_the_identity() {
    let x = iota(&[3]);
    let outputs = op("Dropout", 13).outputs(2).all(&[&x]);
    assert_eq!((&outputs[0], outputs[1].bytes()), (&x, &[1u8, 1, 1][..]));
}

#[test]
fn dropout_in_training_scales_what_it_keeps() {
    let x = Tensor::from_elements(&[64], &[3.0f32; 64]).unwrap();
    let (ratio, training) = (Tensor::scalar(0.25f32), Tensor::from_bools(&[], &[true]).unwrap());
    let inputs = [Some(&x), Some(&ratio), Some(&training)];
    let outputs = op("Dropout", 13).with("seed", 7i64).outputs(2).try_all(&inputs).unwrap();
    let kept = outputs[1].bytes();
    assert!(kept.contains(&0) && kept.contains(&1));
    for (y, &kept) in outputs[0].elements::<f32>().unwrap().iter().zip(kept) {
        assert_eq!(*y, if kept == 1 { 4.0 } else { 0.0 });
    }
}
