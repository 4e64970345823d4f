//! What prepares features: ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer, Scaler.

use super::tables::floats;
use super::{Operator, table};
use crate::build::{Builder, Result, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::gather;
use crate::ops::reduce::smallest_value;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("ArrayFeatureExtractor", 1, extract),
    Operator::new("Binarizer", 1, binarize),
    Operator::new("FeatureVectorizer", 1, vectorize),
    Operator::new("Imputer", 1, impute),
    Operator::new("Normalizer", 1, normalize),
    Operator::new("Scaler", 1, scale),
];

/// Elements of the last axis by their positions; a vector is one row.
fn extract(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, positions) = (call.input(0)?, call.input(1)?);
    let build = &mut *call.build;
    let x = match x.rank() {
        0 => return Err(mismatch("an axis of features", x.shape())),
        1 => build.insert_axis(&x, 0)?,
        _ => x,
    };
    let count = product(positions.shape())?;
    let positions = build.reshape(&positions, &[count])?;
    Ok(vec![gather::gather_along(build, &x, &positions, x.rank() - 1)?])
}

/// Floats or numbers, as they come.
fn require_numbers(x: &Tracked) -> Result<()> {
    match x.dtype() {
        DType::F32 | DType::F64 | DType::I64 | DType::I32 => Ok(()),
        found => Err(Problem::UnsupportedType { expected: "f32, f64, i32 or i64", found }),
    }
}

/// 1 above a threshold, else 0.
fn binarize(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, threshold) = (call.input(0)?, call.float_or("threshold", 0.0)?);
    require_numbers(&x)?;
    let dtype = x.dtype();
    let wide = if dtype.is_float() { dtype } else { DType::F64 };
    let result = call.build.map(&[&x], |body, p| {
        let (x, threshold) = (body.cast(wide, p[0]), body.constant(wide, threshold));
        let above = body.compare(CompareOp::Gt, x, threshold);
        body.cast(dtype, above)
    })?;
    Ok(vec![result])
}

/// Rows of several tables one after the other, of `f32`; of each as many features as `inputdimensions` says.
fn vectorize(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let tables = call.variadic()?;
    let attribute = "inputdimensions";
    let given = call.ints(attribute)?.map(<[i64]>::to_vec);
    if let Some(given) = given.as_ref().filter(|given| given.len() != tables.len()) {
        let (expected, found) = ("a width for each input", given.len().to_string());
        return Err(Problem::InvalidAttribute { attribute, expected, found });
    }
    let build = &mut *call.build;
    let mut parts = Vec::with_capacity(tables.len());
    for (n, x) in tables.iter().enumerate() {
        let x = table(build, x)?;
        let width = given.as_ref().map_or(x.shape()[1].clone(), |given| Dim::constant(given[n]));
        build.require_at_least(attribute, &width, &Dim::constant(0))?;
        build.require_at_least("the features of an input", &x.shape()[1], &width)?;
        let part = build.slice_axis(&x, 1, Dim::constant(0), width)?;
        parts.push(build.cast(&part, DType::F32)?);
    }
    for part in &parts[1..] {
        build.require_equal("the rows of all inputs", &parts[0].shape()[0], &part.shape()[0])?;
    }
    Ok(vec![build.concat(&parts.iter().collect::<Vec<_>>(), 1)?])
}

/// A list that has one number for all features, or one for each, spread over `[…, features]`.
fn of_columns(
    build: &mut Builder,
    x: &Tracked,
    attribute: &'static str,
    list: &[f32],
    dtype: DType,
) -> Result<Tracked> {
    if let [one] = list {
        return Ok(build.scalar(dtype, f64::from(*one)));
    }
    let last = x.rank().saturating_sub(1);
    if x.rank() == 0 || !x.shape()[last].is_const(list.len() as i64) {
        let (expected, found) = ("one number, or one for each feature", list.len().to_string());
        return Err(Problem::UnsupportedAttribute { attribute, expected, found });
    }
    let list = floats(build, attribute, dtype, &[list.len()], list.iter().map(|&v| f64::from(v)));
    build.view(&list, vec![var(last)], x.shape().to_vec())
}

/// A value instead of those that stand for none.
fn impute(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(Problem::UnsupportedType { expected: "f32 or f64", found: x.dtype() });
    }
    let imputed = call.floats("imputed_value_floats")?.unwrap_or_default().to_vec();
    let replaced = call.float_or("replaced_value_float", 0.0)?;
    let build = &mut *call.build;
    let imputed = of_columns(build, &x, "imputed_value_floats", &imputed, x.dtype())?;
    let result = build.map(&[&x, &imputed], |body, p| {
        let is_none = if replaced.is_nan() {
            body.unary(UnaryOp::IsNan, p[0])
        } else {
            let replaced = body.constant(body.dtype(p[0]), replaced);
            body.compare(CompareOp::Eq, p[0], replaced)
        };
        body.select(is_none, p[1], p[0])
    })?;
    Ok(vec![result])
}

/// Rows divided by their greatest value, the sum of their magnitudes, or their length, if that is not 0; of `f32`.
fn normalize(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, norm) = (call.input(0)?, call.string("norm", "MAX")?);
    let build = &mut *call.build;
    let rows = table(build, &x)?;
    let dtype = rows.dtype();
    let size = match norm.as_str() {
        "MAX" => {
            // A NaN is no greatest value.
            let largest = Reducer::binary(BinaryOp::Max, smallest_value(dtype));
            build.reduce(&[&rows], &[1], largest, |body, p| {
                let is_none = body.unary(UnaryOp::IsNan, p[0]);
                let least = body.constant(dtype, f64::NEG_INFINITY);
                vec![body.select(is_none, least, p[0])]
            })?
        }
        "L1" => build.reduce(&[&rows], &[1], Reducer::sum(dtype), |body, p| vec![body.unary(UnaryOp::Abs, p[0])])?,
        "L2" => {
            build.reduce(&[&rows], &[1], Reducer::sum(dtype), |body, p| vec![body.binary(BinaryOp::Mul, p[0], p[0])])?
        }
        _ => return Err(Problem::InvalidAttribute { attribute: "norm", expected: "MAX, L1 or L2", found: norm }),
    };
    let size = build.reshape(&size[0], &[rows.shape()[0].clone(), Dim::constant(1)])?;
    let result = build.map(&[&rows, &size], |body, p| {
        let size = if norm == "L2" { body.unary(UnaryOp::Sqrt, p[1]) } else { p[1] };
        let zero = body.constant(dtype, 0.0);
        let is_none = body.compare(CompareOp::Eq, size, zero);
        let divided = body.binary(BinaryOp::Div, p[0], size);
        body.select(is_none, p[0], divided)
    })?;
    let result = build.reshape(&result, x.shape())?;
    Ok(vec![build.cast(&result, DType::F32)?])
}

/// `(x − offset)·scale`, by feature, of `f32`.
fn scale(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_numbers(&x)?;
    let [offset, scale] = ["offset", "scale"].map(|name| Ok(call.floats(name)?.unwrap_or_default().to_vec()));
    let (offset, scale): (Vec<f32>, Vec<f32>) = (offset?, scale?);
    let dtype = if x.dtype() == DType::F32 { DType::F32 } else { DType::F64 };
    let build = &mut *call.build;
    let offset = of_columns(build, &x, "offset", &offset, dtype)?;
    let scale = of_columns(build, &x, "scale", &scale, dtype)?;
    let result = build.map(&[&x, &offset, &scale], |body, p| {
        let x = body.cast(dtype, p[0]);
        let moved = body.binary(BinaryOp::Sub, x, p[1]);
        let scaled = body.binary(BinaryOp::Mul, moved, p[2]);
        body.cast(DType::F32, scaled)
    })?;
    Ok(vec![result])
}
