//! `Cast`, `CastLike` and `BitCast`.
//!
//! Floats to integers truncate toward zero and, out of range (undefined in ONNX), saturate if the type has at least a byte; integers to narrower ones
//! keep the low bits; anything but zero is true. Rounding to floats is to nearest even.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{Scalar, read_as_f64, write_bools, write_f64_as, write_floats, write_ints};
use infc_tensor::{AlignedBytes, DType, DTypeClass, Tensor};

pub(crate) fn cast(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let to = call.dtype("to")?.ok_or(EvalError::InvalidAttribute { name: "to", reason: "it is missing" })?;
    one(cast_to(call.input(0)?, to, call.flag("saturate", true)?, rounds_up(call)?)?)
}

pub(crate) fn cast_like(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(cast_to(call.input(0)?, call.input(1)?.dtype(), call.flag("saturate", true)?, rounds_up(call)?)?)
}

/// How a value between two powers of two becomes a float8e8m0.
fn rounds_up(call: &Call<'_>) -> Result<ScaleRounding> {
    match call.string("round_mode", "up")? {
        "up" => Ok(ScaleRounding::Up),
        "down" => Ok(ScaleRounding::Down),
        "nearest" => Ok(ScaleRounding::Nearest),
        _ => Err(EvalError::InvalidAttribute { name: "round_mode", reason: "it must be up, down or nearest" }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleRounding {
    Up,
    Down,
    Nearest,
}

impl ScaleRounding {
    /// The power of two that `value` becomes, if it is positive and finite.
    fn round(self, value: f64) -> f64 {
        if !value.is_finite() || value <= 0.0 {
            return value;
        }
        // The exponent of the power of two at or below; `value` is far from f64's subnormals or it does not matter.
        let below = 2f64.powi(((value.to_bits() >> 52) as i32 & 0x7ff) - 1023);
        match self {
            _ if below == value => value,
            ScaleRounding::Up => below * 2.0,
            ScaleRounding::Down => below,
            ScaleRounding::Nearest => {
                if value < below * 1.5 {
                    below
                } else {
                    below * 2.0
                }
            }
        }
    }
}

/// `tensor` with its elements converted.
pub(crate) fn cast_to(tensor: &Tensor, to: DType, saturate: bool, scale: ScaleRounding) -> Result<Tensor> {
    let from = tensor.dtype();
    if from == to {
        return Ok(tensor.clone());
    }
    let shape = tensor.shape();
    checked_len(to, shape)?;
    match (from.class(), to.class()) {
        (DTypeClass::Complex | DTypeClass::Value, _) => Err(EvalError::UnsupportedType { dtype: from }),
        (_, DTypeClass::Complex | DTypeClass::Value) => Err(EvalError::UnsupportedType { dtype: to }),
        (DTypeClass::String, _) => parse_strings(tensor, to),
        (_, DTypeClass::String) => print_strings(tensor),
        (_, DTypeClass::Bool) => write_bools(shape, read_as_f64(tensor)?.into_iter().map(|v| v != 0.0)),
        // Directly, to round once: of more than 53 bits an f64 may lose what tells the sides of a tie apart.
        (DTypeClass::Signed | DTypeClass::Unsigned, DTypeClass::Float) if to == DType::F32 => {
            write_floats(to, shape, i128::read(tensor)?.into_iter().map(|v| f64::from(v as f32)), saturate)
        }
        (DTypeClass::Float, DTypeClass::Float) | (_, DTypeClass::Float) => {
            let values = read_as_f64(tensor)?.into_iter();
            if to == DType::F8E8M0 {
                return write_floats(to, shape, values.map(|v| scale.round(v)), saturate);
            }
            write_floats(to, shape, values, saturate)
        }
        // ONNX leaves open what happens out of range; its own cases keep the low bits of types narrower than a byte.
        (DTypeClass::Float, _) if to.size_bits() < 8 => {
            write_ints(to, shape, f64::read(tensor)?.into_iter().map(|v| v as i128))
        }
        (DTypeClass::Float, _) => write_f64_as(to, shape, f64::read(tensor)?.into_iter()),
        _ => write_ints(to, shape, i128::read(tensor)?.into_iter()),
    }
}

fn parse_strings(tensor: &Tensor, to: DType) -> Result<Tensor> {
    let bad = EvalError::InvalidInput { index: 0, reason: "a string is not a number" };
    let texts = tensor.strings()?.iter().map(|text| text.trim());
    let parse_float = |text: &str| -> Result<f64> {
        // Straight to the type, since rounding twice may differ.
        let value = if to == DType::F32 { text.parse::<f32>().map(f64::from) } else { text.parse::<f64>() };
        value.map_err(|_| bad.clone())
    };
    if to.is_float() {
        let values = texts.map(parse_float).collect::<Result<Vec<f64>>>()?;
        return write_floats(to, tensor.shape(), values.into_iter(), true);
    }
    if to.is_int() {
        let parse = |text: &str| match text.parse::<i128>() {
            Ok(value) => Ok(value),
            Err(_) => parse_float(text).map(|value| value as i128),
        };
        let values = texts.map(parse).collect::<Result<Vec<i128>>>()?;
        return write_ints(to, tensor.shape(), values.into_iter());
    }
    Err(EvalError::UnsupportedType { dtype: to })
}

fn print_strings(tensor: &Tensor) -> Result<Tensor> {
    let texts = match tensor.dtype() {
        DType::F64 => {
            tensor.elements::<f64>()?.iter().map(|v| print_float(*v, v.to_string(), format!("{v:e}"))).collect()
        }
        DType::F32 => tensor
            .elements::<f32>()?
            .iter()
            .map(|v| print_float(f64::from(*v), v.to_string(), format!("{v:e}")))
            .collect(),
        // All of them are values of f32, whose digits are enough.
        dtype if dtype.is_float() => {
            let values = f64::read(tensor)?.into_iter().map(|v| v as f32);
            values.map(|v| print_float(f64::from(v), v.to_string(), format!("{v:e}"))).collect()
        }
        DType::Bool => tensor.bytes().iter().map(|&b| if b != 0 { "True" } else { "False" }.to_owned()).collect(),
        _ => i128::read(tensor)?.into_iter().map(|v| v.to_string()).collect(),
    };
    Ok(Tensor::from_strings(tensor.shape(), texts)?)
}

/// The shortest digits that read back as the same value, `scientific` for very large and very small ones.
fn print_float(value: f64, plain: String, scientific: String) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "INF" } else { "-INF" }.to_owned()
    } else if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        // Two digits of exponent at least, and its sign, as numpy and C print it.
        match scientific.split_once('e') {
            Some((digits, exponent)) => {
                let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
                format!("{digits}e{sign}{exponent:0>2}")
            }
            None => scientific,
        }
    } else if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// `BitCast`: the same bits read as another type of the same width.
pub(crate) fn bit_cast(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let to = call.dtype("to")?.ok_or(EvalError::InvalidAttribute { name: "to", reason: "it is missing" })?;
    if x.dtype().size_bits() != to.size_bits() || to == DType::String || x.dtype() == DType::String {
        return Err(EvalError::InvalidAttribute { name: "to", reason: "it must be as wide as the input's type" });
    }
    let mut bytes = AlignedBytes::from_slice(x.bytes());
    if to == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    one(Tensor::from_bytes(to, x.shape().to_vec(), bytes)?)
}
