//! Arithmetic on broadcast operands: `Add` … `Pow`, `Mod`, `Max`, `Sum`, bit operations, `PRelu`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, read_as_f64, with_scalar, write_f64_as};
use crate::select::common_dtype;
use crate::shape::{self, Strided};
use infc_tensor::{DType, DTypeClass, Tensor};
use std::borrow::Cow;

/// The two operands of a binary operator, the second one ready for numpy broadcasting.
///
/// Before opset 7 operands had equal shapes unless `broadcast` was set; then the second one's axes were aligned with
/// those of the first one from `axis` on (with its last ones by default).
pub(super) fn operands<'a>(call: &Call<'a>) -> Result<(&'a Tensor, Cow<'a, Tensor>)> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if call.opset() >= 7 || !call.flag("broadcast", false)? || !call.has("axis") {
        return Ok((a, Cow::Borrowed(b)));
    }
    let axis = shape::axis(call.int("axis", 0)?, a.rank())?;
    let Some(trailing) = a.rank().checked_sub(axis + b.rank()) else {
        return Err(EvalError::ShapeMismatch {
            left: a.shape().to_vec(),
            right: b.shape().to_vec(),
            reason: "the second operand reaches beyond the first one's last axis",
        });
    };
    let aligned = [b.shape(), &vec![1; trailing]].concat();
    Ok((a, Cow::Owned(b.reshaped(&aligned)?)))
}

/// `f` of every pair of elements of two broadcast tensors, as they come in row-major order of the output.
pub(super) fn pairs<T: Scalar, R>(
    a: &Tensor,
    b: &Tensor,
    mut f: impl FnMut(T, T) -> R,
) -> Result<(Vec<usize>, impl Iterator<Item = R>)> {
    let out = shape::broadcast(&[a.shape(), b.shape()])?;
    let (left, right) = (T::read(a)?, T::read(b)?);
    let indices = Strided::broadcast(a.shape(), &out).zip(Strided::broadcast(b.shape(), &out));
    Ok((out, indices.map(move |(i, j)| f(left[i], right[j]))))
}

/// Applies `float` or `int` to pairs of elements of one numeric type.
fn binary(
    call: &Call<'_>,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i128, i128) -> Result<i128>,
) -> Result<Vec<Tensor>> {
    let (a, b) = operands(call)?;
    let dtype = common_dtype(&[a, &b])?;
    match dtype.class() {
        DTypeClass::Float => {
            let (out, values) = pairs::<f64, _>(a, &b, float)?;
            one(f64::write(dtype, &out, values)?)
        }
        DTypeClass::Signed | DTypeClass::Unsigned => {
            crate::limits::checked_len(dtype, &shape::broadcast(&[a.shape(), b.shape()])?)?;
            let (out, values) = pairs::<i128, _>(a, &b, int)?;
            let values = values.collect::<Result<Vec<i128>>>()?;
            one(i128::write(dtype, &out, values.into_iter())?)
        }
        _ => Err(EvalError::UnsupportedType { dtype }),
    }
}

pub(crate) fn add(call: &Call<'_>) -> Result<Vec<Tensor>> {
    binary(call, |a, b| a + b, |a, b| Ok(a + b))
}

pub(crate) fn sub(call: &Call<'_>) -> Result<Vec<Tensor>> {
    binary(call, |a, b| a - b, |a, b| Ok(a - b))
}

pub(crate) fn mul(call: &Call<'_>) -> Result<Vec<Tensor>> {
    binary(call, |a, b| a * b, |a, b| Ok(a.wrapping_mul(b)))
}

/// `Div`: integers are divided truncating toward zero.
pub(crate) fn div(call: &Call<'_>) -> Result<Vec<Tensor>> {
    binary(call, |a, b| a / b, |a, b| a.checked_div(b).ok_or(EvalError::DivisionByZero))
}

/// `Mod`: the result has the sign of the divisor, or with `fmod` that of the dividend.
pub(crate) fn modulo(call: &Call<'_>) -> Result<Vec<Tensor>> {
    if call.flag("fmod", false)? {
        return binary(call, |a, b| a % b, |a, b| a.checked_rem(b).ok_or(EvalError::DivisionByZero));
    }
    let float = |a: f64, b: f64| {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    binary(call, float, |a, b| {
        let rest = a.checked_rem(b).ok_or(EvalError::DivisionByZero)?;
        Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    })
}

/// `Pow`: the result has the base's type, the exponent may have another.
pub(crate) fn pow(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (base, exponent) = operands(call)?;
    let out = shape::broadcast(&[base.shape(), exponent.shape()])?;
    let dtype = base.dtype();
    crate::limits::checked_len(dtype, &out)?;
    let indices = Strided::broadcast(base.shape(), &out).zip(Strided::broadcast(exponent.shape(), &out));
    if dtype.is_int() && exponent.dtype().is_int() {
        let (bases, exponents) = (i128::read(base)?, i128::read(&exponent)?);
        let powers = indices.map(|(i, j)| int_power(bases[i], exponents[j])).collect::<Result<Vec<_>>>()?;
        return one(i128::write(dtype, &out, powers.into_iter())?);
    }
    let (bases, exponents) = (read_as_f64(base)?, read_as_f64(&exponent)?);
    one(write_f64_as(dtype, &out, indices.map(|(i, j)| bases[i].powf(exponents[j])))?)
}

fn int_power(base: i128, exponent: i128) -> Result<i128> {
    if exponent < 0 {
        // Truncation leaves only the powers of ±1.
        return match base {
            0 => Err(EvalError::DivisionByZero),
            1 => Ok(1),
            -1 => Ok(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => Ok(0),
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left /= 2;
    }
    Ok(result)
}

/// Folds all inputs of a variadic operator, element by element.
fn variadic<T: Scalar>(call: &Call<'_>, f: fn(T, T) -> T, finish: impl Fn(T) -> T) -> Result<Vec<Tensor>> {
    let tensors = call.variadic()?;
    let dtype = common_dtype(&tensors)?;
    let shapes: Vec<&[usize]> = tensors.iter().map(|t| t.shape()).collect();
    let out = shape::broadcast(&shapes)?;
    crate::limits::checked_len(dtype, &out)?;
    let first = T::read(tensors[0])?;
    let mut folded: Vec<T> = Strided::broadcast(tensors[0].shape(), &out).map(|i| first[i]).collect();
    for tensor in &tensors[1..] {
        let values = T::read(tensor)?;
        for (slot, i) in folded.iter_mut().zip(Strided::broadcast(tensor.shape(), &out)) {
            *slot = f(*slot, values[i]);
        }
    }
    one(T::write(dtype, &out, folded.into_iter().map(finish))?)
}

pub(crate) fn max(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => variadic::<T>(call, T::larger, |v| v))
}

pub(crate) fn min(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => variadic::<T>(call, T::smaller, |v| v))
}

pub(crate) fn sum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    variadic::<f64>(call, f64::plus, |v| v)
}

pub(crate) fn mean(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let count = call.inputs.len() as f64;
    variadic::<f64>(call, f64::plus, |v| v / count)
}

/// A binary operator on integers only.
fn bitwise(call: &Call<'_>, f: impl Fn(i128, i128) -> i128) -> Result<Vec<Tensor>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let dtype = common_dtype(&[a, b])?;
    if !dtype.is_int() {
        return Err(EvalError::UnsupportedType { dtype });
    }
    let (out, values) = pairs::<i128, _>(a, b, f)?;
    one(i128::write(dtype, &out, values)?)
}

pub(crate) fn bitwise_and(call: &Call<'_>) -> Result<Vec<Tensor>> {
    bitwise(call, |a, b| a & b)
}

pub(crate) fn bitwise_or(call: &Call<'_>) -> Result<Vec<Tensor>> {
    bitwise(call, |a, b| a | b)
}

pub(crate) fn bitwise_xor(call: &Call<'_>) -> Result<Vec<Tensor>> {
    bitwise(call, |a, b| a ^ b)
}

/// `BitShift`: arithmetic for signed types. Shifting by a negative amount, or by the width or more, leaves only the
/// sign: -1 for negative elements shifted right, else 0.
pub(crate) fn bit_shift(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let width = call.input(0)?.dtype().size_bits() as i128;
    // An element has at most 64 bits, so shifted by less than that it fits; storing it drops the bits shifted out.
    match call.node.attributes.string("direction")? {
        Some("LEFT") => bitwise(call, |a, b| if (0..width).contains(&b) { a << b } else { 0 }),
        Some("RIGHT") => bitwise(call, |a, b| if (0..width).contains(&b) { a >> b } else { a >> 127 }),
        _ => Err(EvalError::InvalidAttribute { name: "direction", reason: "it must be `LEFT` or `RIGHT`" }),
    }
}

/// `PRelu`: the slope is broadcast to the input's shape; before opset 7 a vector of slopes ran along axis 1.
pub(crate) fn prelu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    let dtype = common_dtype(&[x, slope])?;
    let per_channel = call.opset() < 7 && slope.rank() == 1 && x.rank() > 1;
    let slope =
        if per_channel { slope.reshaped(&[slope.shape(), &vec![1; x.rank() - 2]].concat())? } else { slope.clone() };
    fn prelu_as<T: Scalar>(dtype: DType, x: &Tensor, slope: &Tensor) -> Result<Vec<Tensor>> {
        let (out, values) = pairs::<T, _>(x, slope, |x, slope| if x < T::ZERO { x.times(slope) } else { x })?;
        if out != x.shape() {
            return Err(EvalError::ShapeMismatch {
                left: x.shape().to_vec(),
                right: slope.shape().to_vec(),
                reason: "the slope does not broadcast to the input",
            });
        }
        one(T::write(dtype, &out, values)?)
    }
    with_scalar!(dtype, T => prelu_as::<T>(dtype, x, &slope))
}
