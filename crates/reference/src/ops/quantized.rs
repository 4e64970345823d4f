//! Products of quantized operands: `MatMulInteger`, `ConvInteger`, `QLinearMatMul`, `QLinearConv`.
//!
//! Zero points are taken out first, so padding counts as zero; sums are exact.

use super::contract::Product;
use super::conv::Convolution;
use super::linear_quantize::quantized;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{Scalar, read_as_f64, write_ints};
use crate::shape::{self, Strided};
use infc_tensor::{DType, Tensor};

/// A quantized operand of a matrix product with its zero point taken out.
///
/// A vector of zero points belongs to the rows of the left operand, to the columns of the right one.
pub(super) fn centered(x: &Tensor, zero: Option<&Tensor>, rows: bool) -> Result<Vec<f64>> {
    let mut values = read_as_f64(x)?;
    if let Some(zero) = zero {
        let zeros = read_as_f64(zero)?;
        for (value, i) in values.iter_mut().zip(parameter_indices(zero, x.shape(), rows)?) {
            *value -= zeros[i];
        }
    }
    Ok(values)
}

/// For every element of `to`, the element of a scale or zero point that belongs to it.
pub(super) fn parameter_indices(parameter: &Tensor, to: &[usize], rows: bool) -> Result<Strided> {
    let own = match parameter.shape() {
        [1] => vec![],
        &[n] if rows && to.len() > 1 => vec![n, 1],
        other => other.to_vec(),
    };
    if own.len() > to.len() || shape::broadcast(&[&own, to])? != to {
        return Err(EvalError::ShapeMismatch {
            left: parameter.shape().to_vec(),
            right: to.to_vec(),
            reason: "scales and zero points must broadcast to what they belong to",
        });
    }
    Ok(Strided::broadcast(&own, to))
}

pub(crate) fn matmul_integer(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let product = Product::new(a.shape(), b.shape())?;
    checked_len(DType::I32, &product.out)?;
    let sums = product.compute(&centered(a, call.optional(2), true)?, &centered(b, call.optional(3), false)?);
    one(write_ints(DType::I32, &product.out, sums.into_iter().map(|v| v as i128))?)
}

pub(crate) fn qlinear_matmul(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let product = Product::new(a.shape(), b.shape())?;
    let (y_scale, y_zero) = (call.input(6)?, call.input(7)?);
    let dtype = y_zero.dtype();
    checked_len(dtype, &product.out)?;
    let mut sums = product.compute(&centered(a, call.optional(2), true)?, &centered(b, call.optional(5), false)?);
    let mut scale_by = |scale: &Tensor, rows: bool, f: fn(f64, f64) -> f64| -> Result<()> {
        let scales = f64::read(scale)?;
        for (sum, i) in sums.iter_mut().zip(parameter_indices(scale, &product.out, rows)?) {
            *sum = f(*sum, scales[i]);
        }
        Ok(())
    };
    scale_by(call.input(1)?, true, |v, scale| v * scale)?;
    scale_by(call.input(4)?, false, |v, scale| v * scale)?;
    scale_by(y_scale, true, |v, scale| v / scale)?;
    let zeros = read_as_f64(y_zero)?;
    let shifted = sums.into_iter().zip(parameter_indices(y_zero, &product.out, true)?).map(|(v, i)| (v, zeros[i]));
    one(quantized(dtype, &product.out, shifted, true)?)
}

/// Weights of a convolution with the zero point of each output channel taken out.
fn centered_weights(w: &Tensor, zero: Option<&Tensor>, index: usize) -> Result<Vec<f64>> {
    let mut values = read_as_f64(w)?;
    if let Some(zero) = zero {
        let zeros = per_channel(zero, w.shape().first().copied().unwrap_or(0), index)?;
        let run = shape::len(w.shape().get(1..).unwrap_or(&[])).max(1);
        values.iter_mut().enumerate().for_each(|(flat, value)| *value -= zeros[flat / run]);
    }
    Ok(values)
}

/// One value per output channel; a single one is repeated.
fn per_channel(tensor: &Tensor, channels: usize, index: usize) -> Result<Vec<f64>> {
    checked_len(tensor.dtype(), &[channels])?;
    match read_as_f64(tensor)? {
        values if values.len() == channels => Ok(values),
        values if values.len() == 1 => Ok(vec![values[0]; channels]),
        _ => Err(EvalError::InvalidInput { index, reason: "one value or one per output channel is needed" }),
    }
}

/// The only element of a parameter that belongs to a whole tensor, 0 if it was left out.
fn per_tensor(call: &Call<'_>, index: usize) -> Result<f64> {
    let Some(tensor) = call.optional(index) else { return Ok(0.0) };
    match read_as_f64(tensor)?[..] {
        [value] => Ok(value),
        _ => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
    }
}

fn centered_input(x: &Tensor, zero: f64) -> Result<Vec<f64>> {
    Ok(read_as_f64(x)?.into_iter().map(|v| v - zero).collect())
}

pub(crate) fn conv_integer(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let convolution = Convolution::new(call, x.shape(), w.shape())?;
    checked_len(DType::I32, &convolution.out)?;
    let sums =
        convolution.compute(&centered_input(x, per_tensor(call, 2)?)?, &centered_weights(w, call.optional(3), 3)?);
    one(write_ints(DType::I32, &convolution.out, sums.into_iter().map(|v| v as i128))?)
}

pub(crate) fn qlinear_conv(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(3)?);
    let convolution = Convolution::new(call, x.shape(), w.shape())?;
    let dtype = call.input(7)?.dtype();
    checked_len(dtype, &convolution.out)?;
    let sums =
        convolution.compute(&centered_input(x, per_tensor(call, 2)?)?, &centered_weights(w, call.optional(5), 5)?);
    let channels = convolution.out[1];
    let plane = shape::len(&convolution.out[2..]);
    call.input(1)?;
    call.input(6)?;
    let (x_scale, y_scale, y_zero) = (per_tensor(call, 1)?, per_tensor(call, 6)?, per_tensor(call, 7)?);
    let w_scales = per_channel(call.input(4)?, channels, 4)?;
    let bias = call.optional(8).map(|bias| per_channel(bias, channels, 8)).transpose()?;
    let quotients = sums.into_iter().enumerate().map(|(flat, sum)| {
        let channel = flat / plane % channels;
        let sum = sum + bias.as_ref().map_or(0.0, |bias| bias[channel]);
        (sum * x_scale * w_scales[channel] / y_scale, y_zero)
    });
    one(quantized(dtype, &convolution.out, quotients, true)?)
}
