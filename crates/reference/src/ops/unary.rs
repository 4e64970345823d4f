//! Functions of one element: activations, rounding, trigonometry.

use super::special::{erf, normal_cdf, sigmoid as logistic, softplus as soft_plus};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, read_as_f64, with_scalar, write_bools, write_floats};
use infc_tensor::{DType, Tensor};

/// Applies `f` to every element of a float tensor.
fn floats(call: &Call<'_>, f: impl Fn(f64) -> f64) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let values = f64::read(x)?;
    one(write_floats(x.dtype(), x.shape(), values.into_iter().map(f), true)?)
}

/// Applies `float` or `int` to every element of a numeric tensor.
fn numbers(call: &Call<'_>, float: impl Fn(f64) -> f64, int: impl Fn(i128) -> i128) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if x.dtype().is_float() {
        return floats(call, float);
    }
    if !x.dtype().is_int() {
        return Err(EvalError::UnsupportedType { dtype: x.dtype() });
    }
    one(i128::write(x.dtype(), x.shape(), i128::read(x)?.into_iter().map(int))?)
}

macro_rules! float_functions {
    ($($name:ident = $f:expr;)*) => {
        $(pub(crate) fn $name(call: &Call<'_>) -> Result<Vec<Tensor>> {
            floats(call, $f)
        })*
    };
}

float_functions! {
    sqrt = f64::sqrt;
    exp = f64::exp;
    log = f64::ln;
    erf_ = erf;
    tanh = f64::tanh;
    sigmoid = logistic;
    hard_swish = |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    softplus = soft_plus;
    softsign = |x| if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) };
    mish = |x| x * soft_plus(x).tanh();
    reciprocal = f64::recip;
    floor = f64::floor;
    ceil = f64::ceil;
    round = f64::round_ties_even;
    sin = f64::sin;
    cos = f64::cos;
    tan = f64::tan;
    asin = f64::asin;
    acos = f64::acos;
    atan = f64::atan;
    sinh = f64::sinh;
    cosh = f64::cosh;
    asinh = f64::asinh;
    acosh = f64::acosh;
    atanh = f64::atanh;
}

pub(crate) fn neg(call: &Call<'_>) -> Result<Vec<Tensor>> {
    numbers(call, |x| -x, i128::wrapping_neg)
}

pub(crate) fn abs(call: &Call<'_>) -> Result<Vec<Tensor>> {
    numbers(call, f64::abs, i128::wrapping_abs)
}

pub(crate) fn sign(call: &Call<'_>) -> Result<Vec<Tensor>> {
    numbers(call, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }, i128::signum)
}

pub(crate) fn relu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    numbers(call, |x| x.larger(0.0), |x| x.max(0))
}

pub(crate) fn leaky_relu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 0.01)?;
    floats(call, |x| if x < 0.0 { alpha * x } else { x })
}

pub(crate) fn hard_sigmoid(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (alpha, beta) = (call.float("alpha", 0.2)?, call.float("beta", 0.5)?);
    floats(call, |x| (alpha * x + beta).clamp(0.0, 1.0))
}

pub(crate) fn elu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    floats(call, |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
}

pub(crate) fn celu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    floats(call, |x| if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x })
}

pub(crate) fn selu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    // The first opset gave the constants with four decimals.
    let (alpha, gamma) = if call.opset() < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
    let (alpha, gamma) = (call.float("alpha", alpha)?, call.float("gamma", gamma)?);
    floats(call, |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
}

pub(crate) fn thresholded_relu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    floats(call, |x| if x > alpha || x.is_nan() { x } else { 0.0 })
}

pub(crate) fn swish(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    floats(call, |x| x * logistic(alpha * x))
}

/// `SwiGLU`: `swish(a) * b`.
pub(crate) fn swiglu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let alpha = call.float("alpha", 1.0)?;
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.shape() != b.shape() {
        let (left, right) = (a.shape().to_vec(), b.shape().to_vec());
        return Err(EvalError::ShapeMismatch { left, right, reason: "gate and value must have one shape" });
    }
    let (gates, values) = (f64::read(a)?, f64::read(b)?);
    let products = gates.into_iter().zip(values).map(|(a, b)| a * logistic(alpha * a) * b);
    crate::call::one(f64::write(a.dtype(), a.shape(), products)?)
}

pub(crate) fn gelu(call: &Call<'_>) -> Result<Vec<Tensor>> {
    match call.string("approximate", "none")? {
        "none" => floats(call, |x| if x == f64::NEG_INFINITY { 0.0 } else { x * normal_cdf(x) }),
        "tanh" => floats(call, |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }),
        _ => Err(EvalError::InvalidAttribute { name: "approximate", reason: "it must be `none` or `tanh`" }),
    }
}

pub(crate) fn shrink(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (bias, lambda) = (call.float("bias", 0.0)?, call.float("lambd", 0.5)?);
    let f = |x: f64| {
        if x < -lambda {
            x + bias
        } else if x > lambda {
            x - bias
        } else if x.is_nan() {
            x
        } else {
            0.0
        }
    };
    let x = call.input(0)?;
    if x.dtype().is_float() {
        return floats(call, f);
    }
    one(crate::numeric::write_f64_as(x.dtype(), x.shape(), read_as_f64(x)?.into_iter().map(f))?)
}

pub(crate) fn is_nan(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    one(write_bools(x.shape(), read_as_f64(x)?.into_iter().map(f64::is_nan))?)
}

pub(crate) fn is_inf(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (negative, positive) = (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    let x = call.input(0)?;
    let is = |v: f64| (negative && v == f64::NEG_INFINITY) || (positive && v == f64::INFINITY);
    one(write_bools(x.shape(), read_as_f64(x)?.into_iter().map(is))?)
}

pub(crate) fn not(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if x.dtype() != DType::Bool {
        return Err(EvalError::UnsupportedType { dtype: x.dtype() });
    }
    one(write_bools(x.shape(), x.bytes().iter().map(|&b| b == 0))?)
}

pub(crate) fn bitwise_not(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if !x.dtype().is_int() {
        return Err(EvalError::UnsupportedType { dtype: x.dtype() });
    }
    one(i128::write(x.dtype(), x.shape(), i128::read(x)?.into_iter().map(|v| !v))?)
}

/// `Clip`: the bounds are attributes up to opset 10 and inputs since; the upper one wins where they cross.
pub(crate) fn clip(call: &Call<'_>) -> Result<Vec<Tensor>> {
    fn clip_as<T: Scalar>(call: &Call<'_>) -> Result<Vec<Tensor>> {
        let x = call.input(0)?;
        let bound = |name: &str, index: usize| -> Result<Option<T>> {
            if call.opset() < 11 {
                return Ok(call.node.attributes.float(name)?.map(|v| T::from_f64(f64::from(v))));
            }
            let Some(tensor) = call.optional(index) else { return Ok(None) };
            match T::read(tensor)?[..] {
                [value] => Ok(Some(value)),
                _ => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
            }
        };
        let (low, high) = (bound("min", 1)?, bound("max", 2)?);
        let clipped = T::read(x)?.into_iter().map(|v| {
            let v = low.map_or(v, |low| v.larger(low));
            high.map_or(v, |high| v.smaller(high))
        });
        one(T::write(x.dtype(), x.shape(), clipped)?)
    }
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => clip_as::<T>(call))
}
