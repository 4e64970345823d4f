//! Comparisons, logic and `Where`.

use super::arithmetic::{operands, pairs};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, with_scalar, write_bools};
use crate::select::{common_dtype, select};
use crate::shape::{self, Strided};
use infc_tensor::{DType, Tensor};

fn compare_as<T: Scalar>(a: &Tensor, b: &Tensor, f: impl Fn(&T, &T) -> bool) -> Result<Vec<Tensor>> {
    let (out, values) = pairs::<T, _>(a, b, |a, b| f(&a, &b))?;
    one(write_bools(&out, values)?)
}

pub(crate) fn equal(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (a, b) = operands(call)?;
    let dtype = common_dtype(&[a, &b])?;
    if dtype == DType::String {
        let out = shape::broadcast(&[a.shape(), b.shape()])?;
        let (left, right) = (a.strings()?, b.strings()?);
        let indices = Strided::broadcast(a.shape(), &out).zip(Strided::broadcast(b.shape(), &out));
        return one(write_bools(&out, indices.map(|(i, j)| left[i] == right[j]))?);
    }
    with_scalar!(dtype, T => compare_as::<T>(a, &b, T::eq))
}

macro_rules! orderings {
    ($($name:ident = $compare:ident;)*) => {
        $(pub(crate) fn $name(call: &Call<'_>) -> Result<Vec<Tensor>> {
            let (a, b) = operands(call)?;
            let dtype = common_dtype(&[a, &b])?;
            with_scalar!(dtype, T => compare_as::<T>(a, &b, T::$compare))
        })*
    };
}

orderings! {
    less = lt;
    less_or_equal = le;
    greater = gt;
    greater_or_equal = ge;
}

fn logic(call: &Call<'_>, f: impl Fn(bool, bool) -> bool) -> Result<Vec<Tensor>> {
    let (a, b) = operands(call)?;
    let dtype = common_dtype(&[a, &b])?;
    if dtype != DType::Bool {
        return Err(EvalError::UnsupportedType { dtype });
    }
    compare_as::<i128>(a, &b, |&a, &b| f(a != 0, b != 0))
}

pub(crate) fn and(call: &Call<'_>) -> Result<Vec<Tensor>> {
    logic(call, |a, b| a && b)
}

pub(crate) fn or(call: &Call<'_>) -> Result<Vec<Tensor>> {
    logic(call, |a, b| a || b)
}

pub(crate) fn xor(call: &Call<'_>) -> Result<Vec<Tensor>> {
    logic(call, |a, b| a != b)
}

/// `Where`: elements of the first tensor where the condition holds, else of the second, all three broadcast.
pub(crate) fn where_(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (condition, x, y) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if condition.dtype() != DType::Bool {
        return Err(EvalError::InvalidInput { index: 0, reason: "bools are needed" });
    }
    let out = shape::broadcast(&[condition.shape(), x.shape(), y.shape()])?;
    let holds = condition.bytes();
    let picks = Strided::broadcast(condition.shape(), &out)
        .zip(Strided::broadcast(x.shape(), &out))
        .zip(Strided::broadcast(y.shape(), &out))
        .map(|((c, i), j)| if holds[c] != 0 { (0, i) } else { (1, j) });
    one(select(&[x, y], &out, picks)?)
}
