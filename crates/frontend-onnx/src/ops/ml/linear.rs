//! LinearRegressor and LinearClassifier.

use super::post::{Labels, Other, PostTransform, with_numbers};
use super::tables::floats;
use super::{Operator, table};
use crate::build::{Builder, Result};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::matmul;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("LinearClassifier", 1, classify), Operator::new("LinearRegressor", 1, regress)];

/// `x·cᵀ + intercepts` of rows `[rows, features]`, `[rows, count]`, of the rows' type.
fn scores(build: &mut Builder, x: &Tracked, count: usize, coefficients: &[f32], intercepts: &[f32]) -> Result<Tracked> {
    let features = coefficients.len() / count.max(1);
    if features * count != coefficients.len() {
        let found = coefficients.len().to_string();
        let expected = "as many as features and scores together";
        return Err(Problem::InvalidAttribute { attribute: "coefficients", expected, found });
    }
    build.require_equal("the features of a row and of a score", &x.shape()[1], &Dim::constant(features as i64))?;
    let by_feature = (0..features).flat_map(|f| (0..count).map(move |n| n * features + f));
    let by_feature = by_feature.map(|at| f64::from(coefficients[at]));
    let weights = floats(build, "coefficients", x.dtype(), &[features, count], by_feature);
    let product = matmul::product(build, x, &weights, x.dtype())?;
    with_numbers(build, &product, "intercepts", intercepts.iter().map(|&v| f64::from(v)))
}

/// `LinearRegressor`: `[rows, targets]`, of `f32`.
fn regress(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (targets, post) = (call.positive("targets", 1)? as usize, PostTransform::of(call)?);
    let coefficients = call.floats("coefficients")?.unwrap_or_default().to_vec();
    let intercepts = call.floats("intercepts")?.unwrap_or_default().to_vec();
    let x = call.input(0)?;
    let build = &mut *call.build;
    let x = table(build, &x)?;
    let scores = scores(build, &x, targets, &coefficients, &intercepts)?;
    let scores = post.apply(build, &scores)?;
    Ok(vec![build.cast(&scores, DType::F32)?])
}

/// `LinearClassifier`: the label of each row, and its scores, `[rows, classes]`. Two classes may share one score, whose sign
/// decides.
fn classify(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (labels, post) = (Labels::of(call, "classlabels_ints")?, PostTransform::of(call)?);
    let coefficients = call.floats("coefficients")?.unwrap_or_default().to_vec();
    let intercepts = call.floats("intercepts")?.unwrap_or_default().to_vec();
    let x = call.input(0)?;
    let build = &mut *call.build;
    let x = table(build, &x)?;
    // Where nobody knows how many features there are, the intercepts tell how many scores.
    let is_one = match x.shape()[1].as_const() {
        Some(features) => features == coefficients.len() as i64,
        None if intercepts.is_empty() && labels.len() == 2 => {
            let (expected, found) = ("a known number of features in a kernel", x.shape()[1].to_string());
            return Err(Problem::UnsupportedAttribute { attribute: "coefficients", expected, found });
        }
        None => intercepts.len() == 1,
    };
    let is_single = labels.len() == 2 && is_one;
    let count = if is_single { 1 } else { labels.len() };
    let scores = scores(build, &x, count, &coefficients, &intercepts)?;
    let (found, scores) = if is_single {
        (labels.of_second(build, &scores, 0.0)?, post.apply_to_second(build, &scores, Other::Complement)?)
    } else {
        (labels.of_best(build, &scores)?, post.apply(build, &scores)?)
    };
    Ok(vec![found, build.cast(&scores, DType::F32)?])
}
