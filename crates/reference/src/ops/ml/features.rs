//! Operators that rework features: `ArrayFeatureExtractor`, `Binarizer`, `FeatureVectorizer`, `Imputer`, `Normalizer`,
//! `Scaler`.

use super::Rows;
use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{read_as_f64, write_f64_as, write_i64s};
use crate::select::gather;
use crate::shape;
use infc_tensor::{DType, Tensor};

/// `ArrayFeatureExtractor`: elements of the last axis by their positions.
pub(crate) fn extract(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, positions) = (call.input(0)?, int_list(call.input(1)?, 1)?);
    let Some((&len, outer)) = x.shape().split_last() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "an axis is needed" });
    };
    let positions = positions.into_iter().map(|p| shape::index(p, len)).collect::<Result<Vec<usize>>>()?;
    // A vector is one row.
    let mut out = if outer.is_empty() { vec![1] } else { outer.to_vec() };
    out.push(positions.len());
    checked_len(x.dtype(), &out)?;
    let rows: usize = outer.iter().product();
    let positions = &positions;
    one(gather(x, &out, (0..rows).flat_map(move |row| positions.iter().map(move |p| row * len + p)))?)
}

/// `Binarizer`: 1 above a threshold, else 0.
pub(crate) fn binarize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, threshold) = (call.input(0)?, call.float("threshold", 0.0)?);
    let above = read_as_f64(x)?.into_iter().map(|v| f64::from(u8::from(v > threshold)));
    one(write_f64_as(x.dtype(), x.shape(), above)?)
}

/// `FeatureVectorizer`: rows of several tables one after the other, as floats.
pub(crate) fn vectorize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let tables = call.variadic()?.into_iter().map(Rows::of).collect::<Result<Vec<Rows>>>()?;
    let widths: Vec<usize> = match call.ints("inputdimensions")? {
        Some(given) => shape::dims(given)?,
        None => tables.iter().map(|t| t.width).collect(),
    };
    super::long_enough(&widths, tables.len(), "inputdimensions")?;
    let rows = tables.first().map_or(0, |t| t.count);
    if tables.iter().zip(&widths).any(|(t, &width)| t.count != rows || t.width < width) {
        return Err(EvalError::InvalidInput {
            index: 0,
            reason: "tables of as many rows are needed, wide enough each",
        });
    }
    let out = [rows, widths.iter().sum()];
    checked_len(DType::F32, &out)?;
    let row = |n: usize| tables.iter().zip(&widths).flat_map(move |(t, &width)| t.row(n)[..width].to_vec());
    one(write_f64_as(DType::F32, &out, (0..rows).flat_map(row))?)
}

/// What element `n` of a row has of a list that is as long as the rows, or has one element for all.
fn of_column<T: Copy>(list: &[T], n: usize, width: usize, name: &'static str) -> Result<T> {
    match list {
        [one] => Ok(*one),
        _ if list.len() == width => Ok(list[n]),
        _ => Err(EvalError::InvalidAttribute { name, reason: "it needs one element, or one for each feature" }),
    }
}

fn width(x: &Tensor) -> usize {
    x.shape().last().copied().unwrap_or(1).max(1)
}

/// `Imputer`: a value instead of those that stand for none.
pub(crate) fn impute(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let width = width(x);
    if x.dtype().is_int() {
        let name = "imputed_value_int64s";
        let imputed = call.ints(name)?.ok_or(EvalError::InvalidAttribute { name, reason: "it is missing" })?;
        let replaced = call.int("replaced_value_int64", 0)?;
        let mut values = int_list(x, 0)?;
        for (n, value) in values.iter_mut().enumerate().filter(|(_, v)| **v == replaced) {
            *value = of_column(imputed, n % width, width, name)?;
        }
        return one(write_i64s(x.shape(), &values)?);
    }
    let name = "imputed_value_floats";
    let imputed =
        call.node.attributes.floats(name)?.ok_or(EvalError::InvalidAttribute { name, reason: "it is missing" })?;
    let replaced = call.float("replaced_value_float", 0.0)?;
    let mut values = read_as_f64(x)?;
    for (n, value) in values.iter_mut().enumerate() {
        if *value == replaced || value.is_nan() && replaced.is_nan() {
            *value = f64::from(of_column(imputed, n % width, width, name)?);
        }
    }
    one(write_f64_as(x.dtype(), x.shape(), values.into_iter())?)
}

/// `Normalizer`: rows divided by their greatest value, the sum of their magnitudes, or their length.
pub(crate) fn normalize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rows = Rows::of(x)?;
    let norm = call.string("norm", "MAX")?;
    let mut values = Vec::with_capacity(x.len_elems());
    for row in rows.iter() {
        let size = match norm {
            "MAX" => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            "L1" => row.iter().map(|v| v.abs()).sum(),
            "L2" => row.iter().map(|v| v * v).sum::<f64>().sqrt(),
            _ => return Err(EvalError::InvalidAttribute { name: "norm", reason: "it must be MAX, L1 or L2" }),
        };
        values.extend(row.iter().map(|v| if size == 0.0 { *v } else { v / size }));
    }
    one(write_f64_as(DType::F32, x.shape(), values.into_iter())?)
}

/// `Scaler`: `(x − offset)·scale`, by feature.
pub(crate) fn scale(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let width = width(x);
    let list = |name| -> Result<&[f32]> { Ok(call.node.attributes.floats(name)?.unwrap_or_default()) };
    let (offset, scale) = (list("offset")?, list("scale")?);
    let mut values = read_as_f64(x)?;
    for (n, value) in values.iter_mut().enumerate() {
        let offset = of_column(offset, n % width, width, "offset")?;
        let scale = of_column(scale, n % width, width, "scale")?;
        *value = (*value - f64::from(offset)) * f64::from(scale);
    }
    one(write_f64_as(DType::F32, x.shape(), values.into_iter())?)
}
