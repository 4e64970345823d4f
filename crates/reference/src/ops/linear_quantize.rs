//! `QuantizeLinear`, `DequantizeLinear`, `DynamicQuantizeLinear`.
//!
//! A scale and a zero point stand for the whole tensor, for a slice along `axis`, or since opset 21 for blocks of
//! `block_size` elements along it. Quotients are rounded to the scale's type before they are rounded to integers, since
//! the specification divides in that type and ties would fall differently otherwise.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, int_range, read_as_f64, round_to, write_floats, write_ints};
use crate::shape;
use infc_tensor::{DType, Tensor};

/// Which element of a scale (or zero point) belongs to which element of the data.
struct Granularity {
    outer_stride: usize,
    len: usize,
    block: usize,
    blocks: usize,
    inner: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tensor,
    Axis,
    Blocks,
}

impl Granularity {
    fn new(call: &Call<'_>, x: &Tensor, scale: &Tensor) -> Result<Self> {
        let mismatch =
            |reason| EvalError::ShapeMismatch { left: x.shape().to_vec(), right: scale.shape().to_vec(), reason };
        let block = call.int("block_size", 0)?;
        if block == 0 && scale.len_elems() == 1 && scale.rank() <= 1 {
            return Ok(Self { outer_stride: 1, len: 1, block: 1, blocks: 1, inner: 1, kind: Kind::Tensor });
        }
        let axis = shape::axis(call.int("axis", 1)?, x.rank())?;
        let (_, len, inner) = shape::around(x.shape(), axis);
        let outer_stride = len.saturating_mul(inner);
        if block == 0 {
            if scale.shape() != [len] {
                return Err(mismatch("one scale per slice is needed"));
            }
            return Ok(Self { outer_stride, len, block: 1, blocks: len, inner, kind: Kind::Axis });
        }
        let block = usize::try_from(block)
            .map_err(|_| EvalError::InvalidAttribute { name: "block_size", reason: "it must not be negative" })?;
        let fits = scale.rank() == x.rank()
            && (0..x.rank()).all(|a| {
                let wanted = if a == axis { x.shape()[a].div_ceil(block) } else { x.shape()[a] };
                scale.shape()[a] == wanted
            });
        if !fits {
            return Err(mismatch("one scale per block is needed"));
        }
        Ok(Self { outer_stride, len, block, blocks: scale.shape()[axis], inner, kind: Kind::Blocks })
    }

    /// The element of the scale for element `flat` of the data.
    fn index(&self, flat: usize) -> usize {
        let along = flat / self.inner % self.len;
        match self.kind {
            Kind::Tensor => 0,
            Kind::Axis => along,
            Kind::Blocks => {
                (flat / self.outer_stride * self.blocks + along / self.block) * self.inner + flat % self.inner
            }
        }
    }
}

/// The zero points, all 0 if there are none, checked to be as many as the scales.
fn zero_points(tensor: Option<&Tensor>, scale: &Tensor, index: usize) -> Result<Vec<f64>> {
    match tensor {
        None => Ok(vec![0.0; scale.len_elems()]),
        Some(tensor) if tensor.len_elems() == scale.len_elems() => read_as_f64(tensor),
        Some(_) => Err(EvalError::InvalidInput { index, reason: "one zero point per scale is needed" }),
    }
}

/// Stores quotients as integers, rounded half to even, shifted and saturated, or as floats of a byte or less.
pub(super) fn quantized(
    dtype: DType,
    shape: &[usize],
    quotients: impl Iterator<Item = (f64, f64)>,
    saturate: bool,
) -> Result<Tensor> {
    if dtype.is_float() {
        return write_floats(dtype, shape, quotients.map(|(quotient, zero)| quotient + zero), saturate);
    }
    let (low, high) = int_range(dtype);
    // A conversion from NaN gives 0, infinities saturate.
    let store = |(quotient, zero): (f64, f64)| ((quotient.round_ties_even() + zero) as i128).clamp(low, high);
    write_ints(dtype, shape, quotients.map(store))
}

pub(crate) fn quantize_linear(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let named = call.dtype("output_dtype")?;
    let dtype = zero.map(Tensor::dtype).or(named).unwrap_or(DType::U8);
    let precision = match call.dtype("precision")? {
        Some(precision) if precision.is_float() => precision,
        Some(dtype) => return Err(EvalError::UnsupportedType { dtype }),
        None if scale.dtype() == DType::F8E8M0 => DType::F32,
        // Quotients by integers are floats that hold either.
        None if scale.dtype().is_int() => DType::F64,
        None => scale.dtype(),
    };
    let granularity = Granularity::new(call, x, scale)?;
    let zeros = zero_points(zero, scale, 2)?;
    let scales = read_as_f64(scale)?;
    let quotients = read_as_f64(x)?.into_iter().enumerate().map(|(flat, v)| {
        let i = granularity.index(flat);
        (round_to(precision, v / scales[i]), zeros[i])
    });
    one(quantized(dtype, x.shape(), quotients, call.flag("saturate", true)?)?)
}

pub(crate) fn dequantize_linear(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let dtype = call.dtype("output_dtype")?.unwrap_or(scale.dtype());
    let granularity = Granularity::new(call, x, scale)?;
    let zeros = zero_points(call.optional(2), scale, 2)?;
    let scales = f64::read(scale)?;
    let values = read_as_f64(x)?.into_iter().enumerate().map(|(flat, v)| {
        let i = granularity.index(flat);
        (v - zeros[i]) * scales[i]
    });
    one(f64::write(dtype, x.shape(), values)?)
}

/// `DynamicQuantizeLinear`: to `u8`, with the scale that maps the range of the data (and 0) to all of it.
pub(crate) fn dynamic_quantize_linear(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let values = f64::read(x)?;
    let as_f32 = |v: f64| round_to(DType::F32, v);
    let (low, high) = values.iter().fold((0f64, 0f64), |(low, high), &v| (low.min(v), high.max(v)));
    // All zeros would give a scale of zero, by which nothing can be divided.
    let scale = if low == high { 1.0 } else { as_f32(as_f32(high - low) / 255.0) };
    let zero = as_f32(0.0 - low / scale).clamp(0.0, 255.0).round_ties_even();
    let quotients = values.iter().map(|v| (as_f32(v / scale), zero));
    Ok(vec![
        quantized(DType::U8, x.shape(), quotients, true)?,
        Tensor::scalar(scale as f32),
        Tensor::scalar(zero as u8),
    ])
}
