//! Running sums and products along an axis: `CumSum`, `CumProd`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, with_scalar};
use crate::shape;
use infc_tensor::Tensor;

pub(crate) fn cum_sum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => running::<T>(call, T::ZERO, T::plus))
}

pub(crate) fn cum_prod(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    with_scalar!(dtype, T => running::<T>(call, T::ONE, T::times))
}

fn running<T: Scalar>(call: &Call<'_>, start: T, f: fn(T, T) -> T) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = call.int_scalar(1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    let axis = shape::axis(axis, x.rank())?;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let (outer, len, inner) = shape::around(x.shape(), axis);
    if x.len_elems() == 0 {
        return one(x.clone());
    }
    let mut values = T::read(x)?;
    for o in 0..outer {
        for i in 0..inner {
            let mut total = start;
            for step in 0..len {
                let row = if reverse { len - 1 - step } else { step };
                let slot = &mut values[(o * len + row) * inner + i];
                let before = total;
                total = f(total, *slot);
                *slot = if exclusive { before } else { total };
            }
        }
    }
    one(T::write(x.dtype(), x.shape(), values.into_iter())?)
}
