//! Outputs whose size depends on the data: `Compress`, `NonZero`, `Unique`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{read_as_f64, write_i64s};
use crate::select::gather;
use crate::shape;
use infc_tensor::{DType, Tensor};
use std::cmp::Ordering;

/// `Compress`: the slices along an axis, or the elements, for which the condition holds.
pub(crate) fn compress(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    if condition.dtype() != DType::Bool || condition.rank() != 1 {
        return Err(EvalError::InvalidInput { index: 1, reason: "a vector of bools is needed" });
    }
    let flat = x.reshaped(&[x.len_elems()])?;
    let (x, axis) = match call.node.attributes.int("axis")? {
        Some(axis) => (x, shape::axis(axis, x.rank())?),
        None => (&flat, 0),
    };
    // A shorter condition leaves the rest out.
    let rows: Vec<usize> =
        (0..x.shape()[axis].min(condition.len_elems())).filter(|&i| condition.bytes()[i] != 0).collect();
    one(take_rows(x, axis, &rows)?)
}

/// The given slices of `x` along `axis`.
fn take_rows(x: &Tensor, axis: usize, rows: &[usize]) -> Result<Tensor> {
    let (outer, len, inner) = shape::around(x.shape(), axis);
    let mut out = x.shape().to_vec();
    out[axis] = rows.len();
    let picks = (0..outer)
        .flat_map(move |o| rows.iter().flat_map(move |&row| (0..inner).map(move |i| (o * len + row) * inner + i)));
    gather(x, &out, picks)
}

/// `NonZero`: the coordinates of all elements that are not zero, `[rank, count]`.
pub(crate) fn non_zero(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let places: Vec<usize> = if x.dtype() == DType::String {
        x.strings()?.iter().enumerate().filter(|(_, s)| !s.is_empty()).map(|(i, _)| i).collect()
    } else {
        read_as_f64(x)?.into_iter().enumerate().filter(|&(_, v)| v != 0.0).map(|(i, _)| i).collect()
    };
    // ONNX gives a scalar one coordinate that is always 0, as numpy did.
    let dims = if x.rank() == 0 { &[1][..] } else { x.shape() };
    let mut out = vec![0i64; dims.len() * places.len()];
    let mut coords = vec![0; dims.len()];
    for (column, &place) in places.iter().enumerate() {
        shape::unravel(place, dims, &mut coords);
        for (axis, &coord) in coords.iter().enumerate() {
            out[axis * places.len() + column] = coord as i64;
        }
    }
    one(write_i64s(&[dims.len(), places.len()], &out)?)
}

/// `Unique`: the distinct elements (or slices along an axis), where each was first, the inverse map, and counts.
pub(crate) fn unique(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let flat = x.reshaped(&[x.len_elems()])?;
    let (x, axis) = match call.node.attributes.int("axis")? {
        Some(axis) => (x, shape::axis(axis, x.rank())?),
        None => (&flat, 0),
    };
    let (outer, len, inner) = shape::around(x.shape(), axis);
    crate::limits::checked_len(DType::I64, &[len])?;
    let compare_at = element_order(x)?;
    let compare = |a: usize, b: usize| {
        // Slices without elements are all the same.
        (0..if inner == 0 { 0 } else { outer })
            .flat_map(|o| (0..inner).map(move |i| (o, i)))
            .map(|(o, i)| compare_at((o * len + a) * inner + i, (o * len + b) * inner + i))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&a, &b| compare(a, b));
    // Stable sorting puts the first occurrence first in each group of equals.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for row in order {
        match groups.last_mut() {
            Some(group) if compare(group[0], row).is_eq() => group.push(row),
            _ => groups.push(vec![row]),
        }
    }
    if !call.flag("sorted", true)? {
        groups.sort_by_key(|group| group[0]);
    }
    let firsts: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    let mut inverse = vec![0i64; len];
    for (id, group) in groups.iter().enumerate() {
        group.iter().for_each(|&row| inverse[row] = id as i64);
    }
    let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
    let first_indices: Vec<i64> = firsts.iter().map(|&row| row as i64).collect();
    Ok(vec![
        take_rows(x, axis, &firsts)?,
        write_i64s(&[firsts.len()], &first_indices)?,
        write_i64s(&[len], &inverse)?,
        write_i64s(&[firsts.len()], &counts)?,
    ])
}

/// An order of the elements of `x` by their flat indices.
fn element_order(x: &Tensor) -> Result<Box<dyn Fn(usize, usize) -> Ordering + '_>> {
    if x.dtype() == DType::String {
        let strings = x.strings()?;
        return Ok(Box::new(move |a, b| strings[a].cmp(&strings[b])));
    }
    if x.dtype().is_float() {
        let values = read_as_f64(x)?;
        return Ok(Box::new(move |a, b| {
            values[a].partial_cmp(&values[b]).unwrap_or_else(|| values[a].is_nan().cmp(&values[b].is_nan()))
        }));
    }
    let values = <i128 as crate::numeric::Scalar>::read(x)?;
    Ok(Box::new(move |a, b| values[a].cmp(&values[b])))
}
