//! Quantized operators of ONNX Runtime's domain `com.microsoft`, as its `ContribOperators.md` describes them.
//!
//! `QLinear*` are the operators of the same name on the real numbers that the quantized ones stand for, computed in
//! `f64` and quantized once.

use super::contract::Product;
use super::linear_quantize::{dynamic_quantize_linear, quantized};
use super::quantized::{self, centered, parameter_indices};
use super::{arithmetic, compare, movement, pool, unary};
use crate::Node;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, read_as_f64};
use crate::shape;
use crate::subgraph::Held;
use infc_tensor::{DType, Tensor};

/// The opset whose meaning the operators on real numbers have.
const OPSET: i64 = 13;

type Run = fn(&Call<'_>) -> Result<Vec<Tensor>>;

/// The only element of an input.
fn scalar(call: &Call<'_>, index: usize) -> Result<f64> {
    match read_as_f64(call.input(index)?)?[..] {
        [value] => Ok(value),
        _ => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
    }
}

/// The zero point in input `index`, 0 if it is left out.
fn zero_point(call: &Call<'_>, index: usize) -> Result<f64> {
    call.optional(index).map_or(Ok(0.0), |_| scalar(call, index))
}

/// The real numbers behind inputs `index` (quantized), `index + 1` (scale) and `index + 2` (zero point).
fn real(call: &Call<'_>, index: usize) -> Result<Tensor> {
    let x = call.input(index)?;
    let (scale, zero) = (scalar(call, index + 1)?, zero_point(call, index + 2)?);
    f64::write(DType::F64, x.shape(), read_as_f64(x)?.into_iter().map(|q| (q - zero) * scale))
}

/// Real numbers, quantized with the scale and zero point in inputs `index` and `index + 1`, to the type of `like`.
fn stored(call: &Call<'_>, real: &Tensor, index: usize, like: &Tensor) -> Result<Tensor> {
    let (scale, zero) = (scalar(call, index)?, zero_point(call, index + 1)?);
    let quotients = read_as_f64(real)?.into_iter().map(|v| (v / scale, zero));
    quantized(like.dtype(), real.shape(), quotients, true)
}

/// The first output of an ONNX operator with the attributes of this one.
fn onnx(call: &Call<'_>, run: Run, inputs: &[&Tensor]) -> Result<Tensor> {
    let node = Node { domain: "", opset: OPSET, ..*call.node };
    let inputs: Vec<Option<&Tensor>> = inputs.iter().copied().map(Some).collect();
    Ok(run(&Call { node: &node, inputs: &inputs, held: Held::default() })?.swap_remove(0))
}

fn one_operand(call: &Call<'_>, run: Run) -> Result<Vec<Tensor>> {
    let y = onnx(call, run, &[&real(call, 0)?])?;
    one(stored(call, &y, 3, call.input(0)?)?)
}

fn two_operands(call: &Call<'_>, run: Run) -> Result<Vec<Tensor>> {
    let y = onnx(call, run, &[&real(call, 0)?, &real(call, 3)?])?;
    one(stored(call, &y, 6, call.input(0)?)?)
}

pub(crate) fn qlinear_add(call: &Call<'_>) -> Result<Vec<Tensor>> {
    two_operands(call, arithmetic::add)
}

pub(crate) fn qlinear_mul(call: &Call<'_>) -> Result<Vec<Tensor>> {
    two_operands(call, arithmetic::mul)
}

pub(crate) fn qlinear_sigmoid(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one_operand(call, unary::sigmoid)
}

pub(crate) fn qlinear_leaky_relu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one_operand(call, unary::leaky_relu)
}

/// What `run` makes of the node where the first input and the output have their channels last, behind the spatial axes.
fn with_channels_last(call: &Call<'_>, run: impl Fn(&Call<'_>) -> Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rank = x.rank();
    if rank < 3 {
        return run(call);
    }
    let second: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let last: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = movement::permute(x, &second)?;
    let inputs: Vec<Option<&Tensor>> = std::iter::once(Some(&x)).chain(call.inputs[1..].iter().copied()).collect();
    let outputs = run(&Call { node: call.node, inputs: &inputs, held: call.held })?;
    outputs.iter().map(|y| movement::permute(y, &last)).collect()
}

/// As [`with_channels_last`], if the attribute says so.
fn in_either_order(call: &Call<'_>, run: impl Fn(&Call<'_>) -> Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
    if call.flag("channels_last", false)? { with_channels_last(call, run) } else { run(call) }
}

pub(crate) fn qlinear_average_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    in_either_order(call, |call| one_operand(call, pool::average_pool))
}

pub(crate) fn qlinear_global_average_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    in_either_order(call, |call| one_operand(call, pool::global_average_pool))
}

/// `QLinearConv`, as of ONNX but for the order of axes; weights are as of ONNX in either.
pub(crate) fn qlinear_conv(call: &Call<'_>) -> Result<Vec<Tensor>> {
    in_either_order(call, quantized::qlinear_conv)
}

/// `NhwcMaxPool`: `MaxPool` with channels last, of bytes.
pub(crate) fn nhwc_max_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    with_channels_last(call, |call| one(onnx(call, pool::max_pool, &[call.input(0)?])?))
}

/// `QLinearConcat`: first the scale and zero point of the result, then operands with theirs.
pub(crate) fn qlinear_concat(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let operands = (2..call.inputs.len()).step_by(3).map(|index| real(call, index)).collect::<Result<Vec<_>>>()?;
    let y = onnx(call, movement::concat, &operands.iter().collect::<Vec<_>>())?;
    one(stored(call, &y, 0, call.input(2)?)?)
}

pub(crate) fn qlinear_where(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let y = onnx(call, compare::where_, &[call.input(0)?, &real(call, 1)?, &real(call, 4)?])?;
    one(stored(call, &y, 7, call.input(1)?)?)
}

/// `QGemm`: `alpha · a_scale · b_scale · (A'·B' + C)`, quantized if there is a scale for it.
pub(crate) fn qgemm(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let operand = |index: usize, flag: &'static str| -> Result<Tensor> {
        let x = call.input(index)?;
        match x.rank() {
            2 if call.flag(flag, false)? => onnx(call, movement::transpose, &[x]),
            2 => Ok(x.clone()),
            _ => Err(EvalError::InvalidInput { index, reason: "a matrix is needed" }),
        }
    };
    let (a, b) = (operand(0, "transA")?, operand(3, "transB")?);
    let product = Product::new(a.shape(), b.shape())?;
    checked_len(DType::F64, &product.out)?;
    let mut sums = product.compute(&centered(&a, call.optional(2), true)?, &centered(&b, call.optional(5), false)?);
    if let Some(c) = call.optional(6) {
        let values = read_as_f64(c)?;
        for (sum, i) in sums.iter_mut().zip(parameter_indices(c, &product.out, false)?) {
            *sum += values[i];
        }
    }
    let (alpha, a_scale, b_scale) = (call.float("alpha", 1.0)?, scalar(call, 1)?, call.input(4)?);
    let scales = f64::read(b_scale)?;
    for (sum, i) in sums.iter_mut().zip(parameter_indices(b_scale, &product.out, false)?) {
        *sum *= alpha * a_scale * scales[i];
    }
    if call.optional(7).is_none() {
        return one(f64::write(DType::F32, &product.out, sums.into_iter())?);
    }
    let (scale, zero) = (scalar(call, 7)?, scalar(call, 8)?);
    one(quantized(call.input(8)?.dtype(), &product.out, sums.into_iter().map(|v| (v / scale, zero)), true)?)
}

/// A matrix product of integers, scaled: inputs of both operands and their zero points, then what the sums are
/// multiplied by, one scale per operand, and a bias.
fn scaled_product(
    a: (&Tensor, Option<&Tensor>, &Tensor),
    b: (&Tensor, Option<&Tensor>, &Tensor),
    bias: Option<&Tensor>,
) -> Result<Vec<Tensor>> {
    let product = Product::new(a.0.shape(), b.0.shape())?;
    checked_len(DType::F32, &product.out)?;
    let mut sums = product.compute(&centered(a.0, a.1, true)?, &centered(b.0, b.1, false)?);
    for (scale, rows) in [(a.2, true), (b.2, false)] {
        let scales = f64::read(scale)?;
        for (sum, i) in sums.iter_mut().zip(parameter_indices(scale, &product.out, rows)?) {
            *sum *= scales[i];
        }
    }
    if let Some(bias) = bias {
        let values = f64::read(bias)?;
        for (sum, i) in sums.iter_mut().zip(parameter_indices(bias, &product.out, false)?) {
            *sum += values[i];
        }
    }
    one(f64::write(DType::F32, &product.out, sums.into_iter())?)
}

pub(crate) fn matmul_integer_to_float(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let a = (call.input(0)?, call.optional(4), call.input(2)?);
    let b = (call.input(1)?, call.optional(5), call.input(3)?);
    scaled_product(a, b, call.optional(6))
}

pub(crate) fn dynamic_quantize_matmul(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let quantized = dynamic_quantize_linear(&Call { inputs: &[Some(call.input(0)?)], ..*call })?;
    let a = (&quantized[0], Some(&quantized[2]), &quantized[1]);
    scaled_product(a, (call.input(1)?, call.optional(3), call.input(2)?), call.optional(4))
}

/// Rounds numbers to multiples of a 127th of the largest magnitude among them. What is to be rounded is computed in f32, as
/// kernels do, so that what lies between two multiples goes to the same one.
fn round_to_bytes(block: &mut [f64]) {
    let largest =
        block.iter().fold(0f32, |largest, &x| if x.is_nan() { f32::NAN } else { largest.max(x.abs() as f32) });
    // What the quotient of is infinite is nothing: 2^−119.
    let inverse = if largest < f32::from_bits(8 << 23) { 0.0 } else { 127.0 / largest };
    let step = f64::from(largest) / 127.0;
    block.iter_mut().for_each(|x| *x = f64::from((*x as f32 * inverse).round_ties_even()) * step);
}

/// `MatMulNBits`: the right operand is `[N, K]` in blocks of `block_size` along K, each with a scale and a zero point,
/// its numbers of `bits` bits packed low bits first. With `accuracy_level` 4 the left operand is quantised in these blocks, too.
pub(crate) fn matmul_n_bits(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let positive = |name: &'static str| -> Result<usize> {
        let found = call.required_int(name)?;
        usize::try_from(found)
            .ok()
            .filter(|&v| v > 0)
            .ok_or(EvalError::InvalidAttribute { name, reason: "a positive number is needed" })
    };
    let (k, n, block) = (positive("K")?, positive("N")?, positive("block_size")?);
    let bits = usize::try_from(call.int("bits", 4)?).unwrap_or(0);
    if !matches!(bits, 2 | 4 | 8) || !(block * bits).is_multiple_of(8) {
        return Err(EvalError::InvalidAttribute { name: "bits", reason: "2, 4 or 8 bits in whole bytes are needed" });
    }
    let blocks = k.div_ceil(block);
    check_work([n, k].iter())?;
    let (a, packed, scales) = (call.input(0)?, call.input(1)?, f64::read(call.input(2)?)?);
    let per_byte = 8 / bits;
    let field = |bytes: &[u8], row_bytes: usize, row: usize, at: usize| -> Option<f64> {
        let byte = bytes.get(row * row_bytes + at / per_byte)?;
        Some(f64::from(byte >> (at % per_byte * bits) & (u8::MAX >> (8 - bits))))
    };
    let short = |index| EvalError::InvalidInput { index, reason: "it has too few elements" };
    let float_zeros = match call.optional(3).filter(|zeros| zeros.dtype() != DType::U8) {
        Some(zeros) => f64::read(zeros)?,
        None => Vec::new(),
    };
    let mut weights = vec![0.0; n * k];
    for (flat, weight) in weights.iter_mut().enumerate() {
        // Transposed: `[K, N]`.
        let (at, row) = (flat / n, flat % n);
        let q = field(packed.bytes(), blocks * block / per_byte, row, at).ok_or(short(1))?;
        let scale = scales.get(row * blocks + at / block).ok_or(short(2))?;
        let zero = match call.optional(3) {
            None => (1u32 << (bits - 1)).into(),
            Some(zeros) if zeros.dtype() == DType::U8 => {
                field(zeros.bytes(), blocks.div_ceil(per_byte), row, at / block).ok_or(short(3))?
            }
            Some(_) => *float_zeros.get(row * blocks + at / block).ok_or(short(3))?,
        };
        *weight = (q - zero) * scale;
    }
    let product = Product::new(a.shape(), &[k, n])?;
    checked_len(a.dtype(), &product.out)?;
    let mut rows = f64::read(a)?;
    // Four neighbours are multiplied at a time, and what a block adds up to has 32 bits.
    let most: usize = 127 * ((1 << bits) - 1);
    let fits = block.is_multiple_of(4 * per_byte) && most.saturating_mul(block) <= i32::MAX as usize;
    if call.int("accuracy_level", 0)? == 4 && call.optional(4).is_none() && fits {
        rows.chunks_mut(k).flat_map(|row| row.chunks_mut(block)).for_each(round_to_bytes);
    }
    let mut sums = product.compute(&rows, &weights);
    if let Some(bias) = call.optional(5) {
        let bias = f64::read(bias)?;
        if bias.len() != n {
            return Err(short(5));
        }
        sums.iter_mut().enumerate().for_each(|(flat, sum)| *sum += bias[flat % n]);
    }
    debug_assert_eq!(sums.len(), shape::len(&product.out));
    one(f64::write(a.dtype(), &product.out, sums.into_iter())?)
}
