//! Operators on quantised numbers, ONNX's and ONNX Runtime's.
//!
//! Scales are powers of two, so that results are the same however they are computed: a tie is a tie for all.

use super::Drawer;
use super::contract::window;
use crate::definition::Definition;
use crate::draft::{Candidate, Draft, Id};
use crate::random::cast;
use infc_tensor::{Attributes, DType, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[
    product,
    convolution,
    convolution,
    maxima,
    matmul,
    binary,
    leaky,
    curve,
    mean,
    choose,
    gemm,
    concat,
    to_float,
    quantizing,
    nibbles,
    chain,
];

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
    // Of `com.microsoft`, channels may be last.
    let is_last = d.random.one_in(3);
    let channels = if is_last { *shape.last()? } else { shape[1] };
    let candidate = Candidate::new("QLinearConv", &[x]);
    let candidate = if is_last { candidate.of(MICROSOFT).with("channels_last", 1i64) } else { candidate };
    let group = *d.random.pick(&[1, 1, channels]);
    let outputs = group * d.random.between(1, 3) as usize;
    let (candidate, kernel) = window(d, candidate, shape.len() - 2);
    let [x_scale, x_zero] = parameters(d, dtype);
    let weights = d.weight(DType::I8, &[&[outputs, channels / group][..], &kernel].concat());
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

fn maxima(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 3, 5)?;
    let axes = d.at(x).rank() - 2;
    let (candidate, _) = window(d, Candidate::new("NhwcMaxPool", &[x]), axes);
    Some(candidate.of(MICROSOFT).exact())
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

/// Functions of real numbers between bytes. Which of two bytes a result near their middle becomes, roundings decide, so
/// that it is drawn only where they do not.
fn curve(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 0, 5)?;
    let dtype = d.dtype(x);
    let ([x_scale, x_zero], [y_scale, y_zero]) = (parameters(d, dtype), parameters(d, dtype));
    let candidate = Candidate::new("QLinearSigmoid", &[x, x_scale, x_zero, y_scale, y_zero]);
    Some(candidate.of(MICROSOFT).defined_by(Definition::between_bytes("Sigmoid", &Attributes::new())))
}

fn mean(d: &mut Draft) -> Option<Candidate> {
    let x = bytes(d, 3, 5)?;
    let (dtype, axes) = (d.dtype(x), d.at(x).rank() - 2);
    let ([x_scale, x_zero], [y_scale, y_zero]) = (parameters(d, dtype), parameters(d, dtype));
    let inputs = [x, x_scale, x_zero, y_scale, y_zero];
    if d.random.one_in(2) {
        let definition = Definition::between_bytes("GlobalAveragePool", &Attributes::new());
        return Some(Candidate::new("QLinearGlobalAveragePool", &inputs).of(MICROSOFT).defined_by(definition));
    }
    let include = d.random.flag();
    let candidate = Candidate::new("QLinearAveragePool", &inputs).of(MICROSOFT).with("count_include_pad", include);
    let (candidate, _) = window(d, candidate, axes);
    let definition = Definition::between_bytes("AveragePool", candidate.attributes());
    Some(candidate.defined_by(definition))
}

fn choose(d: &mut Draft) -> Option<Candidate> {
    let a = bytes(d, 0, 5)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let b = d.partner(a);
    let condition = d.any(|t| t.dtype() == DType::Bool && t.shape() == shape);
    let condition = condition.unwrap_or_else(|| d.weight(DType::Bool, &shape));
    let ([a_scale, a_zero], [b_scale, b_zero], [y_scale, y_zero]) =
        (parameters(d, dtype), parameters(d, dtype), parameters(d, dtype));
    let inputs = [condition, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero];
    Some(Candidate::new("QLinearWhere", &inputs).of(MICROSOFT).exact())
}

fn gemm(d: &mut Draft) -> Option<Candidate> {
    let a = bytes(d, 2, 2)?;
    let (dtype, shape) = (d.dtype(a), d.shape(a));
    let (left, right) = (d.random.flag(), d.random.flag());
    let k = if left == 1 { shape[0] } else { shape[1] };
    let n = d.random.between(1, 20) as usize;
    let of = *d.random.pick(&[DType::I8, DType::U8]);
    let b = d.weight(of, &if right == 1 { [n, k] } else { [k, n] });
    let ([a_scale, a_zero], [b_scale, b_zero]) = (parameters(d, dtype), parameters(d, of));
    let c = d.random.one_in(2).then(|| d.weight(DType::I32, &[n]));
    let candidate = Candidate::new("QGemm", &[a, a_scale, a_zero, b, b_scale, b_zero]).of(MICROSOFT).input(c);
    let candidate =
        candidate.with("transA", left).with("transB", right).with("alpha", *d.random.pick(&[0.5f32, 1.0, 2.0]));
    if d.random.one_in(2) {
        let [y_scale, y_zero] = parameters(d, dtype);
        return Some(candidate.input(Some(y_scale)).input(Some(y_zero)).exact());
    }
    Some(candidate)
}

/// Floats that are quantized as they come.
fn quantizing(d: &mut Draft) -> Option<Candidate> {
    let a = d.any(|t| t.dtype() == DType::F32 && t.rank() >= 2 && t.len_elems() > 0)?;
    let k = *d.shape(a).last()?;
    let n = d.random.between(1, 8) as usize;
    let of = *d.random.pick(&[DType::I8, DType::U8]);
    let (b, b_scale) = (d.weight(of, &[k, n]), scale(d));
    let zero = d.random.one_in(2).then(|| d.weight(of, &[]));
    let bias = d.random.one_in(2).then(|| d.weight(DType::F32, &[n]));
    let candidate = Candidate::new("DynamicQuantizeMatMul", &[a, b, b_scale]).of(MICROSOFT);
    Some(candidate.input(zero).input(bias))
}

/// One link of a chain of conversions: any type of integers of at most 16 bits, with zero points and scales at the ends of
/// what there is, per tensor or per channel.
fn chain(d: &mut Draft) -> Option<Candidate> {
    const TYPES: [DType; 8] =
        [DType::I8, DType::U8, DType::I8, DType::U8, DType::I16, DType::U16, DType::I4, DType::U4];
    let is_coded = |t: &Tensor| TYPES.contains(&t.dtype()) || t.dtype() == DType::I32;
    let back = d.any_type(is_coded).filter(|_| d.random.one_in(2));
    let x = match back {
        Some(x) => x,
        None => d.any(|t| matches!(t.dtype(), DType::F32 | DType::F16))?,
    };
    let (coded, shape) = (if back.is_some() { d.dtype(x) } else { *d.random.pick(&TYPES) }, d.shape(x));
    let axis = (!shape.is_empty() && d.random.one_in(3)).then(|| d.random.below(shape.len()));
    let parameters: Vec<usize> = axis.map(|axis| shape[axis]).into_iter().collect();
    let count = parameters.iter().product();
    let float = if back.is_some() || d.dtype(x) == DType::F32 { DType::F32 } else { DType::F16 };
    let scales: Vec<f64> =
        (0..count).map(|_| *d.random.pick(&[1.0 / 1024.0, 0.03125, 0.125, 0.5, 1.0, 64.0])).collect();
    let scale = d.constant(&cast(&Tensor::from_elements(&parameters, &scales).ok()?, float));
    let (low, high) = match coded {
        DType::I4 => (-8, 7),
        DType::U4 => (0, 15),
        DType::I8 => (-128, 127),
        DType::U8 => (0, 255),
        DType::I16 => (-32768, 32767),
        DType::U16 => (0, 65535),
        _ => (0, 0),
    };
    let zeros: Vec<i64> = (0..count).map(|_| *d.random.pick(&[0.max(low), low, high, (low + high + 1) / 2])).collect();
    let zero = d.constant(&cast(&Tensor::from_elements(&parameters, &zeros).ok()?, coded));
    let op = if back.is_some() { "DequantizeLinear" } else { "QuantizeLinear" };
    let mut candidate = Candidate::new(op, &[x, scale]);
    if back.is_none() || coded != DType::I32 {
        candidate = candidate.input(Some(zero));
    }
    if let Some(axis) = axis {
        candidate = candidate.with("axis", axis as i64);
    }
    Some(if back.is_some() { candidate } else { candidate.exact() })
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
    let level = *d.random.pick(&[0i64, 4]);
    Some(candidate.with("block_size", block as i64).with("accuracy_level", level))
}
