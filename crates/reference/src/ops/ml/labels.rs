//! Operators between categories and numbers: `LabelEncoder`, `CategoryMapper`, `OneHotEncoder`.

use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::numeric::{read_as_f64, write_f64_as, write_i64s};
use infc_tensor::{DType, Tensor};
use std::collections::HashMap;

/// A key as it can be looked up: floats by their bits, all NaN alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Int(i64),
    Float(u64),
    Text(String),
}

fn float_key(value: f64) -> Key {
    // +0 and −0 are equal, and so are all NaN.
    Key::Float(if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() })
}

fn keys_of(tensor: &Tensor, index: usize) -> Result<Vec<Key>> {
    if tensor.dtype() == DType::String {
        return Ok(tensor.strings()?.iter().cloned().map(Key::Text).collect());
    }
    if tensor.dtype().is_float() {
        return Ok(read_as_f64(tensor)?.into_iter().map(float_key).collect());
    }
    Ok(int_list(tensor, index)?.into_iter().map(Key::Int).collect())
}

/// A list that stands in one of several attributes: `keys_int64s`, `keys_floats`, `keys_strings`, `keys_tensor`.
fn listed(call: &Call<'_>, what: &'static str) -> Result<Option<Tensor>> {
    let attributes = call.node.attributes;
    if let Some(tensor) = attributes.tensor(&format!("{what}_tensor"))? {
        return Ok(Some(tensor.reshaped(&[tensor.len_elems()])?));
    }
    if let Some(ints) = attributes.ints(&format!("{what}_int64s"))? {
        return Ok(Some(Tensor::from_elements(&[ints.len()], ints)?));
    }
    if let Some(floats) = attributes.floats(&format!("{what}_floats"))? {
        return Ok(Some(Tensor::from_elements(&[floats.len()], floats)?));
    }
    let strings = attributes.strings(&format!("{what}_strings"))?;
    Ok(strings.map(|strings| Tensor::from_strings(&[strings.len()], strings.to_vec())).transpose()?)
}

/// What a key maps to that is not listed.
fn default_of(call: &Call<'_>, dtype: DType) -> Result<Tensor> {
    if let Some(tensor) = call.node.attributes.tensor("default_tensor")? {
        return Ok(tensor.reshaped(&[tensor.len_elems()])?);
    }
    match dtype {
        DType::String => Ok(Tensor::from_strings(&[1], vec![call.string("default_string", "_Unused")?.to_owned()])?),
        _ if dtype.is_float() => write_f64_as(dtype, &[1], std::iter::once(call.float("default_float", -0.0)?)),
        _ => write_f64_as(dtype, &[1], std::iter::once(call.int("default_int64", -1)? as f64)),
    }
}

/// `LabelEncoder`: values for keys. Before version 2, between strings and their places in a list.
pub(crate) fn encode(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if call.opset() < 2 {
        let name = "classes_strings";
        let missing = EvalError::InvalidAttribute { name, reason: "it is missing" };
        let classes = call.node.attributes.strings(name)?.ok_or(missing)?;
        let places: Vec<i64> = (0..classes.len() as i64).collect();
        return between(call, x, classes, &places);
    }
    let missing = |name| EvalError::InvalidAttribute { name, reason: "it is missing" };
    let keys = listed(call, "keys")?.ok_or_else(|| missing("keys_tensor"))?;
    let values = listed(call, "values")?.ok_or_else(|| missing("values_tensor"))?;
    super::long_enough(&keys_of(&values, 0)?, keys.len_elems(), "values_tensor")?;
    if (keys.dtype() == DType::String) != (x.dtype() == DType::String) {
        return Err(EvalError::TypeMismatch { left: keys.dtype(), right: x.dtype() });
    }
    let default = default_of(call, values.dtype())?;
    if default.dtype() != values.dtype() || default.len_elems() != 1 {
        return Err(EvalError::InvalidAttribute { name: "default_tensor", reason: "one element is needed, as values" });
    }
    // Of a key that is listed twice, the last counts.
    let places: HashMap<Key, usize> = keys_of(&keys, 0)?.into_iter().zip(0..).collect();
    let default_at = values.len_elems();
    let found = keys_of(x, 0)?.into_iter().map(|key| (0, places.get(&key).copied().unwrap_or(default_at)));
    let picks: Vec<(usize, usize)> = found.map(|(_, at)| if at == default_at { (1, 0) } else { (0, at) }).collect();
    one(crate::select::select(&[&values, &default], x.shape(), picks.into_iter())?)
}

/// `CategoryMapper`: between strings and integers.
pub(crate) fn map_categories(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let missing = |name| EvalError::InvalidAttribute { name, reason: "it is missing" };
    let strings = call.node.attributes.strings("cats_strings")?.ok_or_else(|| missing("cats_strings"))?;
    let ints = call.ints("cats_int64s")?.ok_or_else(|| missing("cats_int64s"))?;
    super::long_enough(ints, strings.len(), "cats_int64s")?;
    between(call, call.input(0)?, strings, ints)
}

fn between(call: &Call<'_>, x: &Tensor, strings: &[String], ints: &[i64]) -> Result<Vec<Tensor>> {
    if x.dtype() == DType::String {
        let default = call.int("default_int64", -1)?;
        let known: HashMap<&String, i64> = strings.iter().zip(ints.iter().copied()).collect();
        let found: Vec<i64> = x.strings()?.iter().map(|text| known.get(text).copied().unwrap_or(default)).collect();
        return one(write_i64s(x.shape(), &found)?);
    }
    let default = call.string("default_string", "_Unused")?;
    let known: HashMap<i64, &String> = ints.iter().copied().zip(strings).collect();
    let found = int_list(x, 0)?.into_iter().map(|n| known.get(&n).map_or(default, |text| text.as_str()).to_owned());
    one(Tensor::from_strings(x.shape(), found.collect())?)
}

/// `OneHotEncoder`: per element a 1 at the place of its category, along a new last axis.
pub(crate) fn one_hot(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let categories = match (call.node.attributes.strings("cats_strings")?, call.ints("cats_int64s")?) {
        (Some(strings), _) if !strings.is_empty() => strings.iter().cloned().map(Key::Text).collect::<Vec<_>>(),
        (_, Some(ints)) => ints.iter().copied().map(Key::Int).collect(),
        _ => return Err(EvalError::InvalidAttribute { name: "cats_int64s", reason: "it is missing" }),
    };
    let keys = match x.dtype() {
        // Categories that are numbers are integers.
        dtype if dtype.is_float() => read_as_f64(x)?.into_iter().map(|v| Key::Int(v as i64)).collect(),
        _ => keys_of(x, 0)?,
    };
    let mut out = x.shape().to_vec();
    out.push(categories.len());
    checked_len(DType::F32, &out)?;
    let places: HashMap<&Key, usize> = categories.iter().zip(0..).collect();
    let mut values = vec![0.0; keys.len() * categories.len()];
    for (n, key) in keys.iter().enumerate() {
        match places.get(key) {
            Some(place) => values[n * categories.len() + place] = 1.0,
            None if call.flag("zeros", true)? => {}
            None => return Err(EvalError::InvalidInput { index: 0, reason: "an element is of no category" }),
        }
    }
    one(write_f64_as(DType::F32, &out, values.into_iter())?)
}
