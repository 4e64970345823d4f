//! Attention and RotaryEmbedding.

use super::{Case, floats, halves, integers, ints};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// Queries and keys in heads of 4 features, values in heads of 3.
fn case(opset: i64, [n, kn]: [usize; 2], [s, t]: [usize; 2]) -> Case {
    let x = |n, s, h| floats(&[2, n, s, h]);
    Case::new("Attention", opset).data(x(n, s, 4)).data(x(kn, t, 4)).data(x(kn, t, 3))
}

fn bools(shape: &[usize]) -> Tensor {
    let len = shape.iter().product::<usize>();
    let mut bytes = AlignedBytes::zeroed(len);
    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = u8::from(n % 3 != 1));
    Tensor::from_bytes(DType::Bool, shape.to_vec(), bytes).expect("as many as the shape has")
}

#[test]
fn heads_and_groups() {
    case(23, [3, 3], [5, 6]).dynamic(&[0, 2]).agrees();
    case(23, [6, 3], [5, 6]).dynamic(&[0, 2]).agrees();
    case(23, [4, 1], [5, 6]).float("scale", 0.3).float("softcap", 1.5).agrees();
    let packed = Case::new("Attention", 23)
        .data(floats(&[2, 5, 16]))
        .data(floats(&[2, 6, 8]))
        .data(floats(&[2, 6, 10]))
        .int("q_num_heads", 4)
        .int("kv_num_heads", 2);
    packed.dynamic(&[0, 1]).agrees();
    let half = |shape: &[usize]| halves(shape);
    Case::new("Attention", 23)
        .data(half(&[1, 2, 3, 4]))
        .data(half(&[1, 2, 5, 4]))
        .data(half(&[1, 2, 5, 4]))
        .tolerance(2e-3)
        .agrees();
}

#[test]
fn strict_imports_round_half_types_as_the_definition_does() {
    for dtype in [DType::F16, DType::BF16] {
        let x = |shape: &[usize]| super::floats_of(dtype, shape);
        Case::new("Softmax", 13).data(x(&[3, 7])).strict().agrees();
        let qkv =
            |d: usize| Case::new("Attention", 24).data(x(&[2, 3, 4, 8])).data(x(&[2, 3, 6, 8])).data(x(&[2, 3, 6, d]));
        qkv(8).int("is_causal", 1).strict().agrees();
        qkv(5).data(x(&[4, 6])).float("softcap", 1.5).outputs(4).int("qk_matmul_output_mode", 2).strict().agrees();
        qkv(8).int("softmax_precision", super::code(DType::F32)).strict().agrees();
    }
}

#[test]
fn masks() {
    for shape in [&[5, 6][..], &[2, 1, 5, 6], &[3, 1, 6], &[5, 4]] {
        case(23, [3, 3], [5, 6]).data(floats(shape)).dynamic(&[0]).agrees();
        case(23, [3, 3], [5, 6]).data(bools(shape)).int("is_causal", 1).agrees();
    }
    // Integers are added as they are.
    case(23, [3, 3], [5, 6]).data(integers::<i8>(&[5, 6], -3, 3)).agrees();
    // A row that may attend to nothing is 0.
    let nothing = Tensor::zeros(DType::Bool, &[5, 6]).expect("zeros");
    case(23, [3, 3], [5, 6]).data(nothing).agrees();
    case(23, [3, 3], [5, 5]).int("is_causal", 1).dynamic(&[0, 2]).agrees();
    case(25, [3, 3], [5, 6]).int("left_window_size", 1).int("right_window_size", 2).agrees();
    case(25, [3, 3], [6, 6]).int("is_causal", 1).int("left_window_size", 2).dynamic(&[2]).agrees();
}

#[test]
fn caches() {
    let past = |h| floats(&[2, 3, 2, h]);
    for causal in [0, 1] {
        let cached = case(23, [3, 3], [5, 5]).absent().data(past(4)).data(past(3));
        cached.int("is_causal", causal).outputs(3).dynamic(&[0, 2]).agrees();
    }
    let external = case(24, [3, 3], [2, 6]).absent().absent().absent().data(ints(&[4, 6]));
    external.clone().int("is_causal", 1).agrees();
    external.agrees();
}

#[test]
fn scores() {
    for mode in 0..4 {
        let case = case(23, [6, 3], [5, 6]).data(floats(&[5, 6])).float("softcap", 2.0);
        case.int("qk_matmul_output_mode", mode).outputs(4).agrees();
    }
}

#[test]
fn rotations() {
    for interleaved in [0, 1] {
        let case = |x: Tensor| Case::new("RotaryEmbedding", 23).int("interleaved", interleaved).data(x);
        let cache = || floats(&[2, 3, 4]);
        case(floats(&[2, 5, 3, 8])).data(cache()).data(cache()).dynamic(&[0, 2]).agrees();
        case(floats(&[2, 3, 40])).data(cache()).data(cache()).int("num_heads", 5).dynamic(&[0, 1]).agrees();
        let positions = Tensor::from_elements(&[2, 3], &[4i64, 0, 6, 1, 1, 5]).expect("six");
        let rows = || floats(&[7, 2]);
        let partly = case(floats(&[2, 5, 3, 8])).int("rotary_embedding_dim", 4);
        partly.data(rows()).data(rows()).data(positions).dynamic(&[0]).agrees();
    }
}
