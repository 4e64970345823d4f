//! Operators on maps: `ZipMap`, `CastMap`, `DictVectorizer`.
//!
//! What ONNX leaves open is as in ONNX Runtime: results are rows `[1, N]`, floats become text with six digits behind the
//! point, and keys beyond `max_map` are left out.

use super::super::cast::{ScaleRounding, cast_to};
use super::Rows;
use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{read_as_f64, write_f64_as};
use crate::select::gather;
use infc_tensor::{DType, Tensor};
use std::collections::HashMap;

/// A list of labels that stands in one of two attributes.
fn listed(call: &Call<'_>, ints: &'static str, strings: &'static str) -> Result<Tensor> {
    if let Some(list) = call.node.attributes.strings(strings)?.filter(|list| !list.is_empty()) {
        return Ok(Tensor::from_strings(&[list.len()], list.to_vec())?);
    }
    let missing = EvalError::InvalidAttribute { name: ints, reason: "it is missing" };
    let list = call.ints(ints)?.ok_or(missing)?;
    Ok(Tensor::from_elements(&[list.len()], list)?)
}

/// The keys and values of the map that is input 0.
fn entries<'a>(call: &Call<'a>) -> Result<(&'a Tensor, &'a Tensor)> {
    call.input(0)?.map_entries().map_err(|_| EvalError::InvalidInput { index: 0, reason: "a map is needed" })
}

/// `ZipMap`: a map per row, from the labels to the row's values.
pub(crate) fn zip(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let rows = Rows::of(x)?;
    let labels = listed(call, "classlabels_int64s", "classlabels_strings")?;
    if labels.len_elems() != rows.width {
        let name = if labels.dtype() == DType::String { "classlabels_strings" } else { "classlabels_int64s" };
        return Err(EvalError::InvalidAttribute { name, reason: "one label per column is needed" });
    }
    let map = |row: &[f64]| -> Result<Tensor> {
        Ok(Tensor::map(&labels, &write_f64_as(x.dtype(), &[row.len()], row.iter().copied())?)?)
    };
    one(Tensor::sequence(rows.iter().map(map).collect::<Result<_>>()?)?)
}

/// `CastMap`: the values of a map by ascending keys, which may be places (`SPARSE`).
pub(crate) fn cast(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (keys, values) = entries(call)?;
    let to = match call.string("cast_to", "TO_FLOAT")? {
        "TO_FLOAT" => DType::F32,
        "TO_STRING" => DType::String,
        "TO_INT64" => DType::I64,
        _ => {
            let reason = "it must be TO_FLOAT, TO_STRING or TO_INT64";
            return Err(EvalError::InvalidAttribute { name: "cast_to", reason });
        }
    };
    let row = if to == DType::String && values.dtype().is_float() {
        let texts = read_as_f64(values)?.into_iter().map(|value| format!("{value:.6}")).collect();
        Tensor::from_strings(values.shape(), texts)?
    } else {
        cast_to(values, to, true, ScaleRounding::Nearest)?
    };
    let row = match call.string("map_form", "DENSE")? {
        "DENSE" => row,
        "SPARSE" => spread(&row, &int_list(keys, 0)?, call.int("max_map", 1)?)?,
        _ => return Err(EvalError::InvalidAttribute { name: "map_form", reason: "it must be DENSE or SPARSE" }),
    };
    one(row.reshaped(&[1, row.len_elems()])?)
}

/// Each value at the place that its key says, below `len`, and what stands for none everywhere else.
fn spread(values: &Tensor, keys: &[i64], len: i64) -> Result<Tensor> {
    let reason = "it must be a number of places";
    let len = usize::try_from(len).map_err(|_| EvalError::InvalidAttribute { name: "max_map", reason })?;
    checked_len(values.dtype(), &[len])?;
    if keys.iter().any(|&key| key < 0) {
        return Err(EvalError::InvalidInput { index: 0, reason: "keys of a sparse map must not be negative" });
    }
    let place = |key: i64| usize::try_from(key).ok().filter(|&key| key < len);
    let places = || keys.iter().enumerate().filter_map(|(n, &key)| Some((n, place(key)?)));
    if let Ok(texts) = values.strings() {
        let mut row = vec!["0.f".to_owned(); len];
        places().for_each(|(n, place)| row[place].clone_from(&texts[n]));
        return Ok(Tensor::from_strings(&[len], row)?);
    }
    let size = values.dtype().size_bytes().unwrap_or(1);
    let mut row = Tensor::zeros(values.dtype(), &[len])?;
    for (n, place) in places() {
        let from = &values.bytes()[n * size..(n + 1) * size];
        row.bytes_mut()[place * size..(place + 1) * size].copy_from_slice(from);
    }
    Ok(row)
}

/// `DictVectorizer`: the value of each key of a vocabulary, zero (or no text) if it has none.
pub(crate) fn vectorize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (keys, values) = entries(call)?;
    let vocabulary = listed(call, "int64_vocabulary", "string_vocabulary")?;
    let len = vocabulary.len_elems();
    let found: Vec<Option<usize>> = match (vocabulary.strings(), keys.strings()) {
        (Ok(words), Ok(keys)) => places(keys, words),
        (Err(_), Err(_)) => places(&int_list(keys, 0)?, &int_list(&vocabulary, 0)?),
        _ => return Err(EvalError::TypeMismatch { left: vocabulary.dtype(), right: keys.dtype() }),
    };
    // Behind the values stands what is there for those that are missing.
    let count = values.len_elems();
    let none = Tensor::zeros(values.dtype(), &[1])?;
    let with_none = super::super::movement::concatenate(&[values, &none], 0)?;
    one(gather(&with_none, &[1, len], found.into_iter().map(|place| place.unwrap_or(count)))?)
}

/// Where in a list each of the wanted keys stands.
fn places<K: Eq + std::hash::Hash>(keys: &[K], wanted: &[K]) -> Vec<Option<usize>> {
    let by_key: HashMap<&K, usize> = keys.iter().zip(0..).collect();
    wanted.iter().map(|key| by_key.get(key).copied()).collect()
}
