//! Operators on quantised numbers, ONNX's and ONNX Runtime's.
//!
//! Scales are powers of two, so that results are the same however they are computed: a tie is a tie for all.

use super::Drawer;
use super::contract::window;
use crate::draft::{Candidate, Draft, Id};
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] =
    &[product, convolution, convolution, matmul, binary, leaky, concat, to_float, nibbles];

const MICROSOFT: &str = "com.microsoft";

fn bytes(d: &mut Draft, low: usize, high: usize) -> Option<Id> {
    d.any(|t| matches!(t.dtype(), DType::I8 | DType::U8) && (low..=high).contains(&t.rank()) && t.len_elems() > 0)
}

fn scale(d: &mut Draft) -> Id {
    let scale = *d.random.pick(&[0.0625f32, 0.125, 0.25, 0.5]);
    d.constant(&Tensor::scalar(scale))
}

/// Scale and zero point.
fn parameters(d: &mut Draft, dtype: DType) -> [Id; 2] {
    [scale(d), d.weight(dtype, &[])]
}

fn product(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 3, 4)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let of = *d.random.pick(&[DType::I8, DType::U8]);
    let outputs = d.random.between(1, 4) as usize;
    let (candidate, kernel) = window(d, Candidate::new("ConvInteger", &[x]), shape.len() - 2);
    let weights = d.weight(of, &[&[outputs, shape[1]][..], &kernel].concat());
    let zero = d.random.one_in(2).then(|| d.weight(dtype, &[]));
    Some(candidate.input(Some(weights)).input(zero).exact())
}

fn convolution(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 3, 4)?;
    let (dtype, shape) = (d.dtype(x), d.shape(x));
    let group = *d.random.pick(&[1, 1, shape[1]]);
    let outputs = group * d.random.between(1, 3) as usize;
    let (candidate, kernel) = window(d, Candidate::new("QLinearConv", &[x]), shape.len() - 2);
    let [x_scale, x_zero] = parameters(d, dtype);
    let weights = d.weight(DType::I8, &[&[outputs, shape[1] / group][..], &kernel].concat());
    let per_channel = if d.random.one_in(2) { vec![outputs] } else { Vec::new() };
    let numbers: Vec<f32> = (0..per_channel.iter().product()).map(|_| *d.random.pick(&[0.125f32, 0.25, 0.5])).collect();
    let w_scale = d.constant(&Tensor::from_elements(&per_channel, &numbers).ok()?);
    let w_zero = d.constant(&Tensor::zeros(DType::I8, &per_channel).ok()?);
    let [y_scale, y_zero] = parameters(d, dtype);
    let bias = d.random.one_in(2).then(|| d.weight(DType::I32, &[outputs]));
    let mut candidate = candidate.with("group", group as i64);
    for input in [x_scale, x_zero, weights, w_scale, w_zero, y_scale, y_zero] {
        candidate = candidate.input(Some(input));
    }
    Some(candidate.input(bias).exact())
}

fn matmul(d: &mut Draft) -> Option<Candidate> {
    let a = bytes(d, 2, 4)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let n = d.random.between(1, 20) as usize;
    let of = *d.random.pick(&[DType::I8, DType::U8]);
    let b = d.weight(of, &[*shape.last()?, n]);
    let ([a_scale, a_zero], [b_scale, b_zero], [y_scale, y_zero]) =
        (parameters(d, dtype), parameters(d, of), parameters(d, dtype));
    let inputs = [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero];
    Some(Candidate::new("QLinearMatMul", &inputs).exact())
}

fn binary(d: &mut Draft) -> Option<Candidate> {
    let op = *d.random.pick(&["QLinearAdd", "QLinearMul"]);
    let a = bytes(d, 0, 5)?;
    let dtype = d.dtype(a);
    let b = d.partner(a);
    let ([a_scale, a_zero], [b_scale, b_zero], [y_scale, y_zero]) =
        (parameters(d, dtype), parameters(d, dtype), parameters(d, dtype));
    let inputs = [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero];
    Some(Candidate::new(op, &inputs).of(MICROSOFT).exact())
}

fn leaky(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 0, 5)?;
    let dtype = d.dtype(x);
    let ([x_scale, x_zero], [y_scale, y_zero]) = (parameters(d, dtype), parameters(d, dtype));
    let candidate = Candidate::new("QLinearLeakyRelu", &[x, x_scale, x_zero, y_scale, y_zero]);
    Some(candidate.of(MICROSOFT).with("alpha", 0.25f32).exact())
}

fn concat(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 1, 4)?;
    let (dtype, shape, axis) = (d.dtype(x), d.shape(x), d.axis(x)?);
    let other = d.weight(dtype, &shape);
    let ([x_scale, x_zero], [o_scale, o_zero], [y_scale, y_zero]) =
        (parameters(d, dtype), parameters(d, dtype), parameters(d, dtype));
    let inputs = [y_scale, y_zero, x, x_scale, x_zero, other, o_scale, o_zero];
    Some(Candidate::new("QLinearConcat", &inputs).of(MICROSOFT).with("axis", axis).exact())
}

fn to_float(d: &mut Draft) -> Option<Candidate> {
    let a = bytes(d, 2, 3)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let n = d.random.between(1, 20) as usize;
    let b = d.weight(dtype, &[*shape.last()?, n]);
    let (a_scale, b_scale) = (scale(d), scale(d));
    let (a_zero, b_zero) = (d.weight(dtype, &[]), d.weight(dtype, &[]));
    let bias = d.random.one_in(2).then(|| d.weight(DType::F32, &[n]));
    let candidate = Candidate::new("MatMulIntegerToFloat", &[a, b, a_scale, b_scale, a_zero, b_zero]);
    Some(candidate.of(MICROSOFT).input(bias))
}

/// Weights of four bits in blocks.
fn nibbles(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|t| t.dtype() == DType::F32 && t.rank() >= 2 && t.len_elems() > 0)?;
    let k = *d.shape(a).last()?;
    let n = d.random.between(1, 8) as usize;
    let block = 16;
    let blocks = k.div_ceil(block);
    let packed = d.weight(DType::U8, &[n, blocks, block / 2]);
    let scales: Vec<f32> = (0..n * blocks).map(|_| *d.random.pick(&[0.125f32, 0.25, 0.5])).collect();
    let scales = d.constant(&Tensor::from_elements(&[n * blocks], &scales).ok()?);
    let candidate = Candidate::new("MatMulNBits", &[a, packed, scales]).of(MICROSOFT);
    let candidate = candidate.with("K", k as i64).with("N", n as i64).with("bits", 4i64);
    Some(candidate.with("block_size", block as i64))
}
