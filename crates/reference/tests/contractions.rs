//! Matrix products, convolutions, poolings, resizing, quantized and recurrent operators.

mod support;

use infc_tensor::Tensor;
use support::{assert_close, floats, ints, iota, op, t, vector};

#[test]
fn matmul_broadcasts_batches_and_takes_vectors() {
    let (a, b) = (iota(&[2, 1, 2, 2]), iota(&[2, 1]));
    assert_eq!(op("MatMul", 13).run(&[&a, &b]), t(&[2, 1, 2, 1], &[1.0f32, 3.0, 5.0, 7.0]));
    let v = vector(&[1.0f32, 2.0]);
    assert_eq!(op("MatMul", 13).run(&[&v, &v]), Tensor::scalar(5f32));
    assert_eq!(op("MatMul", 13).run(&[&iota(&[3, 2]), &v]).shape(), [3]);
    assert!(op("MatMul", 13).try_all(&[Some(&iota(&[3, 2])), Some(&iota(&[3, 2]))]).is_err());
}

#[test]
fn gemm_scales_and_transposes() {
    let (a, b, c) = (t(&[2, 1], &[1.0f32, 2.0]), t(&[1, 2], &[3.0f32, 4.0]), vector(&[10.0f32]));
    let node = op("Gemm", 13).with("transA", 1i64).with("transB", 1i64).with("alpha", 0.5f32).with("beta", 2.0f32);
    assert_eq!(node.run(&[&a, &b, &c]), t(&[1, 1], &[25.5f32]));
}

#[test]
fn einsum_reads_equations() {
    let m = iota(&[2, 2]);
    let run = |equation: &str, inputs: &[&Tensor]| op("Einsum", 12).with("equation", equation).run(inputs);
    assert_eq!(run("ij->ji", &[&m]), t(&[2, 2], &[0.0f32, 2.0, 1.0, 3.0]));
    assert_eq!(run("ii", &[&m]), Tensor::scalar(3f32));
    assert_eq!(run("ij, jk", &[&m, &m]), t(&[2, 2], &[2.0f32, 3.0, 6.0, 11.0]));
    assert_eq!(run("...i,...i->...", &[&m, &m]), vector(&[1.0f32, 13.0]));
    assert!(op("Einsum", 12).with("equation", "ij->k").try_all(&[Some(&m)]).is_err());
}

#[test]
fn conv_pads_strides_and_groups() {
    // The example of the operator's documentation.
    let (x, w) = (iota(&[1, 1, 5, 5]), t(&[1, 1, 3, 3], &[1.0f32; 9]));
    let padded = op("Conv", 22).with("pads", vec![1i64; 4]).run(&[&x, &w]);
    assert_eq!(padded.shape(), [1, 1, 5, 5]);
    assert_eq!(floats(&padded)[..6], [12.0, 21.0, 27.0, 33.0, 24.0, 33.0]);
    assert_eq!(floats(&op("Conv", 22).run(&[&x, &w])), [54.0, 63.0, 72.0, 99.0, 108.0, 117.0, 144.0, 153.0, 162.0]);
    let same = op("Conv", 22).with("auto_pad", "SAME_LOWER").with("strides", vec![2i64, 2]).run(&[&x, &w]);
    assert_eq!(floats(&same), [12.0, 27.0, 24.0, 63.0, 108.0, 81.0, 72.0, 117.0, 84.0]);
    let (x, w) = (t(&[1, 2, 1], &[3.0f32, 5.0]), t(&[2, 1, 1], &[10.0f32, 100.0]));
    let grouped = op("Conv", 22).with("group", 2i64).run(&[&x, &w, &vector(&[1.0f32, 2.0])]);
    assert_eq!(floats(&grouped), [31.0, 502.0]);
}

#[test]
fn conv_transpose_adds_overlapping_kernels() {
    let (x, w) = (t(&[1, 1, 3], &[0.0f32, 1.0, 2.0]), t(&[1, 1, 3], &[1.0f32; 3]));
    assert_eq!(floats(&op("ConvTranspose", 22).run(&[&x, &w])), [0.0, 1.0, 3.0, 3.0, 2.0]);
    let strided = op("ConvTranspose", 22).with("strides", vec![2i64]).with("output_padding", vec![1i64]);
    assert_eq!(floats(&strided.run(&[&x, &w])), [0.0, 0.0, 1.0, 1.0, 3.0, 2.0, 2.0, 0.0]);
    let sized = op("ConvTranspose", 22).with("strides", vec![2i64]).with("output_shape", vec![6i64]);
    assert_eq!(floats(&sized.run(&[&x, &w])), [0.0, 1.0, 1.0, 3.0, 2.0, 2.0]);
}

#[test]
fn poolings_ignore_padding() {
    let x = t(&[1, 1, 4], &[-1.0f32, -2.0, -3.0, -4.0]);
    let pool = |name, opset| {
        op(name, opset).with("kernel_shape", vec![3i64]).with("pads", vec![1i64, 1]).with("strides", vec![2i64])
    };
    let outputs = pool("MaxPool", 12).outputs(2).all(&[&x]);
    assert_eq!((floats(&outputs[0]), ints(&outputs[1])), (vec![-1.0, -2.0], vec![0, 1]));
    assert_eq!(floats(&pool("AveragePool", 19).run(&[&x])), [-1.5, -3.0]);
    assert_eq!(floats(&pool("AveragePool", 19).with("count_include_pad", 1i64).run(&[&x])), [-1.0, -3.0]);
    let ceil = pool("MaxPool", 12).with("ceil_mode", 1i64).run(&[&x]);
    assert_eq!(floats(&ceil), [-1.0, -2.0, -4.0]);
    assert_eq!(floats(&op("GlobalAveragePool", 1).run(&[&x])), [-2.5]);
    assert_eq!(floats(&op("GlobalMaxPool", 1).run(&[&x])), [-1.0]);
}

#[test]
fn resize_relates_coordinates_as_asked() {
    let x = t(&[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let (none, scales) = (vector::<f32>(&[]), vector(&[1.0f32, 1.0, 1.0, 2.0]));
    let run = |transformation: &str, mode: &str| {
        let node = op("Resize", 13).with("mode", mode).with("coordinate_transformation_mode", transformation);
        floats(&node.run(&[&x, &none, &scales]))[..4].to_vec()
    };
    assert_eq!(run("half_pixel", "nearest"), [1.0, 1.0, 2.0, 2.0]);
    assert_eq!(run("half_pixel", "linear"), [1.0, 1.25, 1.75, 2.0]);
    assert_close(&vector(&run("align_corners", "linear")), &[4], &[1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0]);
    assert_eq!(run("asymmetric", "linear"), [1.0, 1.5, 2.0, 2.0]);
    let sized = op("Resize", 13).try_all(&[Some(&x), None, None, Some(&vector(&[1i64, 1, 1, 1]))]).unwrap();
    assert_eq!(sized[0].shape(), [1, 1, 1, 1]);
    let upsampled = op("Upsample", 9).run(&[&x, &scales]);
    assert_eq!(floats(&upsampled)[..4], [1.0, 1.0, 2.0, 2.0]);
    // Nearest moves elements without computing, so any type can be resized.
    let words = Tensor::from_strings(&[2], vec!["a".into(), "b".into()]).unwrap();
    let doubled = op("Resize", 13).run(&[&words, &none, &vector(&[2.0f32])]);
    assert_eq!(doubled.strings().unwrap(), ["a", "a", "b", "b"]);
}

#[test]
fn quantization_rounds_to_even_and_saturates() {
    let x = vector(&[0.0f32, 2.0, 3.0, 1000.0, -254.0, -1000.0]);
    let y = op("QuantizeLinear", 13).run(&[&x, &Tensor::scalar(2f32), &Tensor::scalar(128u8)]);
    assert_eq!(y, vector(&[128u8, 129, 130, 255, 1, 0]));
    let back = op("DequantizeLinear", 13).run(&[&y, &Tensor::scalar(2f32), &Tensor::scalar(128u8)]);
    assert_eq!(floats(&back), [0.0, 2.0, 4.0, 254.0, -254.0, -256.0]);
    let ties = op("QuantizeLinear", 13).run(&[&vector(&[0.5f32, 1.5, 2.5]), &Tensor::scalar(1f32)]);
    assert_eq!(ties, vector(&[0u8, 2, 2]));
    let blocked = op("DequantizeLinear", 21).with("axis", 0i64).with("block_size", 2i64);
    let scaled = blocked.run(&[&vector(&[1i8, 1, 1, 1]), &vector(&[10.0f32, 20.0])]);
    assert_eq!(floats(&scaled), [10.0, 10.0, 20.0, 20.0]);
}

#[test]
fn dynamic_quantization_maps_the_range() {
    // The example of the operator's documentation.
    let x = vector(&[0.0f32, 2.0, -3.0, -2.5, 1.34, 0.5]);
    let outputs = op("DynamicQuantizeLinear", 11).outputs(3).all(&[&x]);
    assert_eq!(outputs[0], vector(&[153u8, 255, 0, 26, 221, 179]));
    assert_close(&outputs[1], &[], &[0.019_607_844]);
    assert_eq!(outputs[2], Tensor::scalar(153u8));
}

#[test]
fn quantized_products_take_zero_points_out() {
    let a = t(&[4, 3], &[11u8, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0]);
    let b = t(&[3, 2], &[1u8, 4, 2, 5, 3, 6]);
    let y = op("MatMulInteger", 10).run(&[&a, &b, &vector(&[12u8]), &vector(&[0u8])]);
    assert_eq!(y, t(&[4, 2], &[-38i32, -83, -44, -98, -50, -113, -56, -128]));
    let x = t(&[1, 1, 3, 3], &[2u8, 3, 4, 5, 6, 7, 8, 9, 10]);
    let w = t(&[1, 1, 2, 2], &[1u8; 4]);
    let padded = op("ConvInteger", 10).with("pads", vec![1i64; 4]).run(&[&x, &w, &Tensor::scalar(1u8)]);
    assert_eq!(ints(&padded), [1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9]);
}

#[test]
fn recurrent_cells_match_their_equations() {
    let (x, w, r) = (t(&[2, 1, 1], &[1.0f32, 2.0]), t(&[1, 1, 1], &[0.5f32]), t(&[1, 1, 1], &[0.25f32]));
    let h1 = 0.5f64.tanh();
    let h2 = (1.0 + 0.25 * h1).tanh();
    let outputs = op("RNN", 14).with("hidden_size", 1i64).outputs(2).all(&[&x, &w, &r]);
    assert_close(&outputs[0], &[2, 1, 1, 1], &[h1 as f32, h2 as f32]);
    assert_close(&outputs[1], &[1, 1, 1], &[h2 as f32]);

    let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
    let x = t(&[1, 1, 1], &[1.0f32]);
    let (w, r) = (t(&[1, 4, 1], &[0.1f32, 0.2, 0.3, 0.4]), t(&[1, 4, 1], &[0.0f32; 4]));
    let outputs = op("LSTM", 14).with("hidden_size", 1i64).outputs(3).all(&[&x, &w, &r]);
    let c = sigmoid(f64::from(0.1f32)) * f64::from(0.4f32).tanh();
    assert_close(&outputs[2], &[1, 1, 1], &[c as f32]);
    assert_close(&outputs[1], &[1, 1, 1], &[(sigmoid(f64::from(0.2f32)) * c.tanh()) as f32]);

    let (w, r) = (t(&[1, 3, 1], &[0.1f32, 0.2, 0.3]), t(&[1, 3, 1], &[0.0f32; 3]));
    let outputs = op("GRU", 14).with("hidden_size", 1i64).outputs(2).all(&[&x, &w, &r]);
    let h = (1.0 - sigmoid(f64::from(0.1f32))) * f64::from(0.3f32).tanh();
    assert_close(&outputs[1], &[1, 1, 1], &[h as f32]);
}

#[test]
fn short_sequences_end_with_zeros() {
    let (x, w, r) = (t(&[2, 2, 1], &[1.0f32; 4]), t(&[2, 1, 1], &[1.0f32; 2]), t(&[2, 1, 1], &[0.0f32; 2]));
    let lengths = vector(&[1i32, 2]);
    let node = op("RNN", 14).with("hidden_size", 1i64).with("direction", "bidirectional");
    let y = node.try_all(&[Some(&x), Some(&w), Some(&r), None, Some(&lengths)]).unwrap();
    let h = 1f64.tanh() as f32;
    assert_close(&y[0], &[2, 2, 2, 1], &[h, h, h, h, 0.0, h, 0.0, h]);
}
