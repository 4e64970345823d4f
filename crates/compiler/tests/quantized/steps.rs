//! Quantised operators in the forms that exporters write, with scales that are no powers of two: what is rounded in f32
//! may tip a tie, so that a few elements may be off by one step. Extremes are drawn often, on both sides of products.

use crate::chain::{Chain, MICROSOFT, ONNX, Quantization};
use infc_reference::Attribute;
use infc_tensor::{DType, Tensor};

const SEEDS: std::ops::Range<u64> = 0..6;

/// A scale at which sums of so many products, each of the given scales, fill the range of a byte.
fn filling(points: usize, x: f64, w: f64) -> f64 {
    (points as f64).sqrt() * 74.0 * 74.0 * x * w / 50.0
}

fn name_of(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// A convolution of some kind: shapes, attributes, and how many products are summed.
struct Window {
    x: [usize; 4],
    w: [usize; 4],
    attributes: Vec<(&'static str, Attribute)>,
    points: usize,
}

impl Window {
    fn draw(c: &mut Chain) -> Self {
        let channels = [3, 4, 8, 20][c.below(4)];
        let kernel = [1, 3][c.below(2)];
        let stride = 1 + c.below(2);
        let (group, out) = match c.below(3) {
            0 => (channels, channels * (1 + c.below(2))),
            1 if channels % 4 == 0 => (4, 24),
            _ => (1, [5, 16, 37][c.below(3)]),
        };
        let pads: Vec<i64> = (0..4).map(|_| c.below(1 + kernel / 2) as i64).collect();
        let attributes = vec![
            ("pads", Attribute::Ints(pads)),
            ("strides", Attribute::Ints(vec![stride as i64; 2])),
            ("group", Attribute::Int(group as i64)),
        ];
        let side = 18 + c.below(6);
        let per_group = channels / group;
        Self {
            x: [1, channels, side, side + 3],
            w: [out, per_group, kernel, kernel],
            attributes,
            points: per_group * kernel * kernel,
        }
    }
}

/// Scale and zero point of weights, for all or per output channel.
fn of_weights(c: &mut Chain, dtype: DType, count: usize) -> (Quantization, bool) {
    let per_channel = c.one_in(2);
    let zeros = c.one_in(3);
    let by = c.quantizations(if per_channel { count } else { 1 }, 0.004, dtype, zeros);
    (by, per_channel)
}

#[test]
fn convolutions_in_one_operator() {
    for seed in SEEDS.start..2 * SEEDS.end {
        let mut c = Chain::new(seed);
        let window = Window::draw(&mut c);
        let (a, b) = (c.byte(), c.byte());
        let x = c.data(a, &window.x);
        let w = c.weights(b, &window.w);
        let x_by = c.quantization(0.02, a);
        let (w_by, _) = of_weights(&mut c, b, window.w[0]);
        let y_by = c.quantization(filling(window.points, 0.03, 0.006), a);
        let bias = c.one_in(2).then(|| c.bias(window.w[0], 20_000.0));
        let inputs = [&x, &x_by[0], &x_by[1], &w, &w_by[0], &w_by[1], &y_by[0], &y_by[1]].map(String::as_str);
        let inputs: Vec<&str> = inputs.into_iter().chain(bias.as_deref()).collect();
        c.node((ONNX, "QLinearConv"), &inputs, &window.attributes);
        c.holds();
    }
}

#[test]
fn convolutions_between_conversions() {
    for seed in SEEDS.start..2 * SEEDS.end {
        let mut c = Chain::new(100 + seed);
        let window = Window::draw(&mut c);
        let (a, b) = (c.byte(), c.byte());
        let q = c.data(a, &window.x);
        let x_by = c.quantization(0.02, a);
        let x = c.dequantized(&q, &x_by, None);
        let q = c.weights(b, &window.w);
        let (w_by, per_channel) = of_weights(&mut c, b, window.w[0]);
        let w = c.dequantized(&q, &w_by, per_channel.then_some(0));
        // Biases are sums that have been scaled, as quantisers write them.
        let bias = c.one_in(2).then(|| {
            let count = window.w[0];
            let q = c.bias(count, 20_000.0);
            let scales: Vec<f32> = (0..count).map(|_| c.near(1.2e-4)).collect();
            let scales = c.constant(Tensor::from_elements(&[count], &scales).expect("a vector"));
            c.node((ONNX, "DequantizeLinear"), &[&q, &scales], &[("axis", Attribute::Int(0))])
        });
        let mut y = c.node((ONNX, "Conv"), &[&x, &w, name_of(&bias)], &window.attributes);
        if c.one_in(2) {
            y = c.node((ONNX, "Relu"), &[&y], &[]);
        }
        let y_by = c.quantization(filling(window.points, 0.03, 0.006), a);
        c.quantized(&y, &y_by);
        c.holds();
    }
}

#[test]
fn products_in_one_operator() {
    for seed in SEEDS {
        let mut c = Chain::new(200 + seed);
        let [m, k, n] = [[33, 40, 48], [64, 17, 21], [70, 256, 16]][c.below(3)];
        let (a, b) = (c.byte(), c.byte());
        let (x, w) = (c.data(a, &[m, k]), c.weights(b, &[k, n]));
        let x_by = c.quantization(0.02, a);
        let (w_by, _) = of_weights(&mut c, b, n);
        let y_by = c.quantization(filling(k, 0.03, 0.006), a);
        let inputs = [&x, &x_by[0], &x_by[1], &w, &w_by[0], &w_by[1], &y_by[0], &y_by[1]].map(String::as_str);
        c.node((ONNX, "QLinearMatMul"), &inputs, &[]);
        c.holds();
    }
}

#[test]
fn products_between_conversions() {
    for seed in SEEDS {
        let mut c = Chain::new(300 + seed);
        let [m, k, n] = [[33, 40, 48], [64, 17, 21], [70, 256, 16]][c.below(3)];
        let (a, b) = (c.byte(), c.byte());
        let of_data = c.one_in(3);
        let q = c.data(a, &[m, k]);
        let x_by = c.quantization(0.02, a);
        let x = c.dequantized(&q, &x_by, None);
        let transposed = !of_data && c.one_in(2);
        let shape = if transposed { [n, k] } else { [k, n] };
        let (w, w_by, axis) = if of_data {
            // Both operands are computed, as in attention.
            let w = c.data(b, &shape);
            (w, c.quantization(0.004, b), None)
        } else {
            let w = c.weights(b, &shape);
            let (by, per_channel) = of_weights(&mut c, b, n);
            (w, by, per_channel.then_some(if transposed { 0 } else { 1 }))
        };
        let w = c.dequantized(&w, &w_by, axis);
        let y = match transposed {
            true => c.node((ONNX, "Gemm"), &[&x, &w], &[("transB", Attribute::Int(1))]),
            false => c.node((ONNX, "MatMul"), &[&x, &w], &[]),
        };
        let y_by = c.quantization(filling(k, 0.03, 0.006), a);
        c.quantized(&y, &y_by);
        c.holds();
    }
}

#[test]
fn point_by_point() {
    for seed in SEEDS {
        let mut c = Chain::new(400 + seed);
        let shape = [1, 7, 12, 13 + c.below(5)];
        let dtype = c.byte();
        let (a, b) = (c.data(dtype, &shape), c.data(dtype, &shape));
        let (a_by, b_by, y_by) =
            (c.quantization(0.02, dtype), c.quantization(0.03, dtype), c.quantization(0.06, dtype));
        if c.one_in(2) {
            let op = ["QLinearAdd", "QLinearMul"][c.below(2)];
            let inputs = [&a, &a_by[0], &a_by[1], &b, &b_by[0], &b_by[1], &y_by[0], &y_by[1]].map(String::as_str);
            c.node((MICROSOFT, op), &inputs, &[]);
        } else {
            let (a, b) = (c.dequantized(&a, &a_by, None), c.dequantized(&b, &b_by, None));
            let y = c.node((ONNX, ["Add", "Mul"][(seed % 2) as usize]), &[&a, &b], &[]);
            c.quantized(&y, &y_by);
        }
        c.holds();
    }
}

#[test]
fn pools() {
    for seed in SEEDS {
        let mut c = Chain::new(500 + seed);
        let dtype = c.byte();
        let x = c.data(dtype, &[2, 20, 22, 21]);
        let (x_by, y_by) = (c.quantization(0.02, dtype), c.quantization(0.01, dtype));
        let window = [
            ("kernel_shape", Attribute::Ints(vec![3, 3])),
            ("strides", Attribute::Ints(vec![2, 2])),
            ("pads", Attribute::Ints(vec![1, 1, 1, 1])),
        ];
        match seed % 3 {
            0 => {
                let inputs = [&x, &x_by[0], &x_by[1], &y_by[0], &y_by[1]].map(String::as_str);
                c.node((MICROSOFT, "QLinearAveragePool"), &inputs, &window);
            }
            kind => {
                let real = c.dequantized(&x, &x_by, None);
                let op = if kind == 1 { "AveragePool" } else { "MaxPool" };
                let y = c.node((ONNX, op), &[&real], &window);
                c.quantized(&y, if kind == 1 { &y_by } else { &x_by });
            }
        }
        c.holds();
    }
}

#[test]
fn averages_of_images() {
    for seed in 0..2 {
        let mut c = Chain::new(600 + seed);
        let dtype = c.byte();
        let x = c.data(dtype, &[4, 300, 5, 7]);
        let (x_by, y_by) = (c.quantization(0.02, dtype), c.quantization(0.01, dtype));
        if seed == 0 {
            let inputs = [&x, &x_by[0], &x_by[1], &y_by[0], &y_by[1]].map(String::as_str);
            c.node((MICROSOFT, "QLinearGlobalAveragePool"), &inputs, &[]);
        } else {
            let real = c.dequantized(&x, &x_by, None);
            let y = c.node((ONNX, "GlobalAveragePool"), &[&real], &[]);
            c.quantized(&y, &y_by);
        }
        c.holds();
    }
}

#[test]
fn parts_of_different_scales_side_by_side() {
    for seed in 0..2 {
        let mut c = Chain::new(700 + seed);
        let dtype = c.byte();
        let (a, b) = (c.data(dtype, &[1, 9, 10, 11]), c.data(dtype, &[1, 5, 10, 11]));
        let (a_by, b_by, y_by) =
            (c.quantization(0.02, dtype), c.quantization(0.03, dtype), c.quantization(0.04, dtype));
        let axis = [("axis", Attribute::Int(1))];
        if seed == 0 {
            let inputs = [&y_by[0], &y_by[1], &a, &a_by[0], &a_by[1], &b, &b_by[0], &b_by[1]].map(String::as_str);
            c.node((MICROSOFT, "QLinearConcat"), &inputs, &axis);
        } else {
            let (a, b) = (c.dequantized(&a, &a_by, None), c.dequantized(&b, &b_by, None));
            let y = c.node((ONNX, "Concat"), &[&a, &b], &axis);
            c.quantized(&y, &y_by);
        }
        c.holds();
    }
}

#[test]
fn curves() {
    for seed in SEEDS {
        let mut c = Chain::new(800 + seed);
        let dtype = c.byte();
        let x = c.data(dtype, &[3, 500]);
        let (x_by, y_by) = (c.quantization(0.03, dtype), c.quantization(0.01, dtype));
        let inputs = [&x, &x_by[0], &x_by[1], &y_by[0], &y_by[1]].map(String::as_str);
        match seed % 4 {
            0 => drop(c.node((MICROSOFT, "QLinearSigmoid"), &inputs, &[])),
            1 => drop(c.node((MICROSOFT, "QLinearLeakyRelu"), &inputs, &[("alpha", Attribute::Float(0.1))])),
            kind => {
                let real = c.dequantized(&x, &x_by, None);
                let y = c.node((ONNX, if kind == 2 { "HardSwish" } else { "Tanh" }), &[&real], &[]);
                c.quantized(&y, &y_by);
            }
        }
        c.holds();
    }
}

/// Nothing is widened in memory between two layers, whatever the signs and zero points, and however small the weights.
#[test]
fn layers_multiply_bytes() {
    let signs = [(DType::U8, DType::I8), (DType::U8, DType::U8), (DType::I8, DType::I8), (DType::I8, DType::U8)];
    for (seed, (a, b)) in (900..).zip(signs) {
        let mut c = Chain::new(seed);
        let mut x = c.data(a, &[1, 8, 12, 12]);
        let mut x_by = c.quantization(0.02, a);
        for (w_shape, per_channel) in [([12, 8, 3, 3], true), ([16, 12, 1, 1], false)] {
            let real = c.dequantized(&x, &x_by, None);
            let q = c.weights(b, &w_shape);
            let w_by = c.quantizations(if per_channel { w_shape[0] } else { 1 }, 0.004, b, !per_channel);
            let w = c.dequantized(&q, &w_by, per_channel.then_some(0));
            let pads = vec![w_shape[2] as i64 / 2; 4];
            let y = c.node((ONNX, "Conv"), &[&real, &w], &[("pads", Attribute::Ints(pads))]);
            x_by = c.quantization(filling(w_shape[1] * w_shape[2] * w_shape[3], 0.03, 0.006), a);
            x = c.quantized(&y, &x_by);
        }
        c.multiplies_bytes();
        c.holds();
    }
}

/// Every second or third channel, as behind a shuffle: with zeros between the weights neighbours are multiplied.
#[test]
fn channels_that_lie_apart_are_multiplied_with_what_lies_between() {
    for (seed, (apart, from, kernel)) in (970..).zip([(2i64, 0i64, 1usize), (2, 1, 1), (3, 2, 1), (2, 1, 3), (4, 1, 1)])
    {
        let mut c = Chain::new(seed);
        let channels = 12;
        let x = c.data(DType::U8, &[1, channels * apart as usize, 7, 9]);
        let vector = |c: &mut Chain, value: i64| c.constant(Tensor::from_elements(&[1], &[value]).expect("a vector"));
        let [from, to, axis, step] = [from, i64::MAX, 1, apart].map(|value| vector(&mut c, value));
        let part = c.node((ONNX, "Slice"), &[&x, &from, &to, &axis, &step], &[]);
        let w = c.weights(DType::I8, &[21, channels, kernel, kernel]);
        let x_by = c.quantization(0.02, DType::U8);
        let w_by = c.quantizations(21, 0.004, DType::I8, false);
        let y_by = c.quantization(filling(channels * kernel * kernel, 0.03, 0.006), DType::U8);
        let inputs = [&part, &x_by[0], &x_by[1], &w, &w_by[0], &w_by[1], &y_by[0], &y_by[1]].map(String::as_str);
        c.node((ONNX, "QLinearConv"), &inputs, &[("pads", Attribute::Ints(vec![kernel as i64 / 2; 4]))]);
        c.multiplies_bytes();
        // Four apart, a dot product would take one of its factors.
        assert_eq!(c.graph().contains(&format!("{apart}*i1")), apart == 4, "{}", c.graph());
        c.holds();
    }
}

/// Too many to be widened when compiling.
#[test]
fn large_weights_with_a_zero_point_multiply_bytes() {
    let mut c = Chain::new(950);
    let (k, n) = (1056, 1024);
    let q = c.data(DType::U8, &[2, k]);
    let x_by = c.quantization(0.02, DType::U8);
    let x = c.dequantized(&q, &x_by, None);
    let q = c.weights(DType::U8, &[k, n]);
    let w_by = c.quantization(0.004, DType::U8);
    let w = c.dequantized(&q, &w_by, None);
    let y = c.node((ONNX, "MatMul"), &[&x, &w], &[]);
    let y_by = c.quantization(filling(k, 0.03, 0.006), DType::U8);
    c.quantized(&y, &y_by);
    c.multiplies_bytes();
    c.holds();
}

/// Both matrices may be transposed; the result is quantised, or real.
#[test]
fn products_of_matrices_with_a_factor() {
    for seed in SEEDS {
        let mut c = Chain::new(1000 + seed);
        let [m, k, n] = [[33, 40, 48], [64, 17, 21], [70, 256, 16]][c.below(3)];
        let (a, b) = (c.byte(), c.byte());
        let (over, turned) = (c.one_in(2), c.one_in(2));
        let x = c.data(a, &if over { [k, m] } else { [m, k] });
        let w = c.weights(b, &if turned { [n, k] } else { [k, n] });
        let x_by = c.quantization(0.02, a);
        let (w_by, _) = of_weights(&mut c, b, n);
        let bias = c.bias(n, 20_000.0);
        let y_by = c.quantization(filling(k, 0.03, 0.006), a);
        let inputs = [&x, &x_by[0], &x_by[1], &w, &w_by[0], &w_by[1], &bias, &y_by[0], &y_by[1]];
        let inputs = inputs.map(String::as_str);
        let attributes = [
            ("transA", Attribute::Int(i64::from(over))),
            ("transB", Attribute::Int(i64::from(turned))),
            ("alpha", Attribute::Float(0.75)),
        ];
        c.node((MICROSOFT, "QGemm"), &inputs, &attributes);
        c.holds();
    }
}
