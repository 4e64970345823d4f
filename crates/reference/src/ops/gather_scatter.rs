//! Reading and writing elements at indices given by a tensor.

use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{Scalar, with_scalar};
use crate::select::{common_dtype, gather as take, select};
use crate::shape;
use infc_tensor::Tensor;

/// `Gather`: slices of the input along one axis.
pub(crate) fn gather(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    let (outer, len, inner) = shape::around(x.shape(), axis);
    let out = [&x.shape()[..axis], indices.shape(), &x.shape()[axis + 1..]].concat();
    checked_len(x.dtype(), &out)?;
    let rows = int_list(indices, 1)?.into_iter().map(|i| shape::index(i, len)).collect::<Result<Vec<_>>>()?;
    let rows = &rows;
    let picks = (0..outer)
        .flat_map(move |o| rows.iter().flat_map(move |&row| (0..inner).map(move |i| (o * len + row) * inner + i)));
    one(take(x, &out, picks)?)
}

/// The flat index in `shape` of every element of `indices`, read as coordinates along `axis`.
fn along_axis(shape_: &[usize], indices: &Tensor, axis: usize) -> Result<Vec<usize>> {
    let fits =
        indices.rank() == shape_.len() && (0..shape_.len()).all(|a| a == axis || indices.shape()[a] <= shape_[a]);
    if !fits {
        return Err(EvalError::ShapeMismatch {
            left: shape_.to_vec(),
            right: indices.shape().to_vec(),
            reason: "the indices reach beyond the data",
        });
    }
    let strides = shape::strides(shape_);
    let mut coords = vec![0; shape_.len()];
    int_list(indices, 1)?
        .into_iter()
        .enumerate()
        .map(|(flat, i)| {
            shape::unravel(flat, indices.shape(), &mut coords);
            coords[axis] = shape::index(i, shape_[axis])?;
            Ok(shape::ravel(&coords, &strides))
        })
        .collect()
}

pub(crate) fn gather_elements(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    one(take(x, indices.shape(), along_axis(x.shape(), indices, axis)?.into_iter())?)
}

/// The start, in a tensor of shape `data`, of the slice that every tuple of the last axis of `indices` names.
///
/// The first `batch` axes are shared. Returns the starts and the shape of one slice.
fn tuple_starts(data: &[usize], indices: &Tensor, batch: usize) -> Result<(Vec<usize>, Vec<usize>)> {
    let mismatch = || EvalError::ShapeMismatch {
        left: data.to_vec(),
        right: indices.shape().to_vec(),
        reason: "the index tuples do not fit the data",
    };
    let depth = *indices.shape().last().ok_or_else(mismatch)?;
    let fits = batch < indices.rank()
        && batch.checked_add(depth).is_some_and(|used| used <= data.len())
        && indices.shape()[..batch] == data[..batch];
    if !fits {
        return Err(mismatch());
    }
    let slice = data[batch + depth..].to_vec();
    let strides = shape::strides(data);
    let tuples = shape::len(&indices.shape()[..indices.rank() - 1]);
    let batches = shape::len(&data[..batch]);
    let batch_size = shape::len(&data[batch..]);
    checked_len(indices.dtype(), &[tuples])?;
    checked_len(indices.dtype(), &[tuples, shape::len(&slice)])?;
    let values = int_list(indices, 1)?;
    let starts = (0..tuples)
        .map(|t| {
            let mut start = t / (tuples / batches).max(1) * batch_size;
            for d in 0..depth {
                start += shape::index(values[t * depth + d], data[batch + d])? * strides[batch + d] as usize;
            }
            Ok(start)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((starts, slice))
}

pub(crate) fn gather_nd(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let batch = call.int("batch_dims", 0)?;
    let batch = usize::try_from(batch)
        .ok()
        .filter(|&b| b < x.rank())
        .ok_or(EvalError::InvalidAttribute { name: "batch_dims", reason: "it must be below the rank" })?;
    let (starts, slice) = tuple_starts(x.shape(), indices, batch)?;
    let out = [&indices.shape()[..indices.rank() - 1], &slice].concat();
    let inner = shape::len(&slice);
    one(take(x, &out, starts.into_iter().flat_map(move |start| start..start + inner))?)
}

/// Writes `updates` to the given places of `data`, combined with what is there as `reduction` says.
fn scatter_to(data: &Tensor, updates: &Tensor, places: &[usize], reduction: &str) -> Result<Vec<Tensor>> {
    let dtype = common_dtype(&[data, updates])?;
    if reduction == "none" {
        let mut picks: Vec<(usize, usize)> = (0..data.len_elems()).map(|i| (0, i)).collect();
        for (update, &place) in places.iter().enumerate() {
            picks[place] = (1, update);
        }
        return one(select(&[data, updates], data.shape(), picks.into_iter())?);
    }
    fn combine<T: Scalar>(data: &Tensor, updates: &Tensor, places: &[usize], f: fn(T, T) -> T) -> Result<Tensor> {
        let mut values = T::read(data)?;
        for (update, &place) in T::read(updates)?.into_iter().zip(places) {
            values[place] = f(values[place], update);
        }
        T::write(data.dtype(), data.shape(), values.into_iter())
    }
    with_scalar!(dtype, T => {
        let f: fn(T, T) -> T = match reduction {
            "add" => T::plus,
            "mul" => T::times,
            "max" => T::larger,
            "min" => T::smaller,
            _ => return Err(EvalError::InvalidAttribute { name: "reduction", reason: "it names no reduction" }),
        };
        one(combine::<T>(data, updates, places, f)?)
    })
}

pub(crate) fn scatter_elements(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if indices.shape() != updates.shape() {
        return Err(EvalError::ShapeMismatch {
            left: indices.shape().to_vec(),
            right: updates.shape().to_vec(),
            reason: "one update per index is needed",
        });
    }
    let axis = shape::axis(call.int("axis", 0)?, x.rank())?;
    scatter_to(x, updates, &along_axis(x.shape(), indices, axis)?, call.string("reduction", "none")?)
}

pub(crate) fn scatter_nd(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (starts, slice) = tuple_starts(x.shape(), indices, 0)?;
    let wanted = [&indices.shape()[..indices.rank() - 1], &slice].concat();
    if updates.shape() != wanted {
        return Err(EvalError::ShapeMismatch {
            left: updates.shape().to_vec(),
            right: wanted,
            reason: "the updates must be the slices that the indices name",
        });
    }
    let inner = shape::len(&slice);
    let places: Vec<usize> = starts.into_iter().flat_map(|start| start..start + inner).collect();
    scatter_to(x, updates, &places, call.string("reduction", "none")?)
}

/// `TensorScatter`: writes new rows into a cache, per batch entry from its own position on.
pub(crate) fn tensor_scatter(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (cache, update) = (call.input(0)?, call.input(1)?);
    let axis = shape::axis(call.int("axis", -2)?, cache.rank())?;
    let circular = match call.string("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        _ => return Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be `linear` or `circular`" }),
    };
    let fits = axis > 0
        && update.rank() == cache.rank()
        && (0..cache.rank()).all(|a| a == axis || update.shape()[a] == cache.shape()[a])
        && update.shape()[axis] <= cache.shape()[axis];
    let batch = cache.shape().first().copied().unwrap_or(0);
    checked_len(cache.dtype(), &[batch])?;
    let starts = call.int_list(2)?.unwrap_or_else(|| vec![0; batch]);
    if !fits || starts.len() != batch {
        return Err(EvalError::ShapeMismatch {
            left: cache.shape().to_vec(),
            right: update.shape().to_vec(),
            reason: "the update does not fit the cache",
        });
    }
    let len = cache.shape()[axis];
    let strides = shape::strides(cache.shape());
    let mut coords = vec![0; cache.rank()];
    let places = (0..update.len_elems())
        .map(|flat| {
            shape::unravel(flat, update.shape(), &mut coords);
            let at = i128::from(starts[coords[0]]) + coords[axis] as i128;
            let at = if circular { at.rem_euclid(len as i128) } else { at };
            coords[axis] = usize::try_from(at)
                .ok()
                .filter(|&at| at < len)
                .ok_or(EvalError::IndexOutOfRange { index: at as i64, len })?;
            Ok(shape::ravel(&coords, &strides))
        })
        .collect::<Result<Vec<_>>>()?;
    scatter_to(cache, update, &places, "none")
}
