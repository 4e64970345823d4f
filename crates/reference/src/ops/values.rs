//! Sequences and optionals: values that hold values.

use super::movement::concatenate;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::write_bools;
use crate::shape;
use infc_tensor::{DType, Tensor};

/// The values of a sequence.
fn sequence<'a>(call: &Call<'a>, index: usize) -> Result<&'a [Tensor]> {
    let value = call.input(index)?;
    if value.dtype() != DType::Sequence {
        return Err(EvalError::InvalidInput { index, reason: "a sequence is needed" });
    }
    Ok(value.values()?)
}

/// A position, counted from the end if it is negative; `len` itself is one only if `behind` allows it.
fn position(given: i64, len: usize, behind: bool) -> Result<usize> {
    let at = if given < 0 { given.saturating_add(len as i64) } else { given };
    let limit = if behind { len } else { len.saturating_sub(1) };
    let found = usize::try_from(at).ok().filter(|&at| at <= limit && (behind || len > 0));
    found.ok_or(EvalError::IndexOutOfRange { index: given, len })
}

pub(crate) fn construct(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(Tensor::sequence(call.variadic()?.into_iter().cloned().collect())?)
}

pub(crate) fn empty(_call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(Tensor::sequence(Vec::new())?)
}

pub(crate) fn at(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let values = sequence(call, 0)?;
    let at = call.int_scalar(1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    one(values[position(at, values.len(), false)?].clone())
}

pub(crate) fn insert(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let values = sequence(call, 0)?;
    let at = call.int_scalar(2)?.map_or(Ok(values.len()), |at| position(at, values.len(), true))?;
    let mut values = values.to_vec();
    values.insert(at, call.input(1)?.clone());
    one(Tensor::sequence(values)?)
}

pub(crate) fn erase(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let mut values = sequence(call, 0)?.to_vec();
    let at = call.int_scalar(1)?.map_or_else(
        || values.len().checked_sub(1).ok_or(EvalError::IndexOutOfRange { index: -1, len: 0 }),
        |at| position(at, values.len(), false),
    )?;
    values.remove(at);
    one(Tensor::sequence(values)?)
}

pub(crate) fn length(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(Tensor::scalar(sequence(call, 0)?.len() as i64))
}

/// `SplitToSequence`: into given lengths, into parts of one length, or into slices along an axis that may then go.
pub(crate) fn split(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    let extent = x.shape()[axis];
    let lengths: Vec<usize> = match (call.optional(1), call.int_list(1)?) {
        (Some(split), Some(lengths)) if split.rank() == 1 => shape::dims(&lengths)?,
        (Some(_), Some(lengths)) => {
            let step = lengths.first().and_then(|&step| usize::try_from(step).ok()).filter(|&step| step > 0);
            let step = step.ok_or(EvalError::InvalidInput { index: 1, reason: "a positive length is needed" })?;
            (0..extent.div_ceil(step)).map(|n| step.min(extent - n * step)).collect()
        }
        _ => vec![1; extent],
    };
    if lengths.iter().try_fold(0usize, |sum, &len| sum.checked_add(len)) != Some(extent) {
        return Err(EvalError::InvalidInput { index: 1, reason: "the lengths do not add up to the axis" });
    }
    let squeezed = call.optional(1).is_none() && !call.flag("keepdims", true)?;
    let mut parts = super::movement::cut(x, axis, &lengths)?;
    if squeezed {
        let mut shape = x.shape().to_vec();
        shape.remove(axis);
        parts = parts.into_iter().map(|part| part.reshaped(&shape)).collect::<std::result::Result<_, _>>()?;
    }
    one(Tensor::sequence(parts)?)
}

/// `ConcatFromSequence`: along an axis of the values, or along a new one.
pub(crate) fn concat(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let values = sequence(call, 0)?;
    let first = values.first().ok_or(EvalError::InvalidInput { index: 0, reason: "an empty sequence has no type" })?;
    let axis = call.required_int("axis")?;
    if !call.flag("new_axis", false)? {
        return one(concatenate(&values.iter().collect::<Vec<_>>(), axis)?);
    }
    one(stack(values, shape::axis(axis, first.rank() + 1)?)?)
}

/// Values of one type along a new axis.
pub(crate) fn stack(values: &[Tensor], axis: usize) -> Result<Tensor> {
    let unsqueezed = values.iter().map(|value| {
        let mut shape = value.shape().to_vec();
        shape.insert(axis.min(shape.len()), 1);
        value.reshaped(&shape)
    });
    let unsqueezed: Vec<Tensor> = unsqueezed.collect::<std::result::Result<_, _>>()?;
    concatenate(&unsqueezed.iter().collect::<Vec<_>>(), axis as i64)
}

pub(crate) fn optional(call: &Call<'_>) -> Result<Vec<Tensor>> {
    one(Tensor::optional(call.optional(0).cloned())?)
}

pub(crate) fn has_element(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let has = match call.optional(0) {
        Some(value) if value.dtype() == DType::Optional => !value.values()?.is_empty(),
        Some(_) => true,
        None => false,
    };
    one(write_bools(&[], std::iter::once(has))?)
}

pub(crate) fn get_element(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let value = call.input(0)?;
    if value.dtype() != DType::Optional {
        return one(value.clone());
    }
    let nothing = EvalError::InvalidInput { index: 0, reason: "the optional holds nothing" };
    one(value.values()?.first().cloned().ok_or(nothing)?)
}
