//! `LinearRegressor` and `LinearClassifier`.

use super::Rows;
use super::post::{Labels, Other, PostTransform, best};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::write_f64_as;
use infc_tensor::{DType, Tensor};

/// `x·cᵀ + intercepts` per row, `[rows, count]`.
fn scores(call: &Call<'_>, rows: &Rows, count: usize) -> Result<Vec<Vec<f64>>> {
    let name = "coefficients";
    let missing = EvalError::InvalidAttribute { name, reason: "it is missing" };
    let coefficients = call.node.attributes.floats(name)?.ok_or(missing)?;
    let intercepts = call.node.attributes.floats("intercepts")?.unwrap_or_default();
    let expected = count.checked_mul(rows.width).ok_or(EvalError::TooMuchWork { limit: u64::MAX })?;
    super::long_enough(coefficients, expected, name)?;
    if !intercepts.is_empty() {
        super::long_enough(intercepts, count, "intercepts")?;
    }
    checked_len(DType::F32, &[rows.count, count])?;
    check_work([&rows.count, &count, &rows.width])?;
    let score = |row: &[f64], n: usize| {
        let weights = &coefficients[n * rows.width..(n + 1) * rows.width];
        let product: f64 = row.iter().zip(weights).map(|(x, &w)| x * f64::from(w)).sum();
        product + intercepts.get(n).copied().map_or(0.0, f64::from)
    };
    Ok(rows.iter().map(|row| (0..count).map(|n| score(row, n)).collect()).collect())
}

/// `LinearRegressor`: `[rows, targets]`.
pub(crate) fn regress(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let rows = Rows::of(call.input(0)?)?;
    let targets = call.int("targets", 1)?;
    let targets = usize::try_from(targets).map_err(|_| EvalError::NegativeExtent { extent: targets })?;
    let post = PostTransform::of(call)?;
    let mut scores = scores(call, &rows, targets)?;
    scores.iter_mut().for_each(|row| post.apply(row));
    one(write_f64_as(DType::F32, &[rows.count, targets], scores.into_iter().flatten())?)
}

/// `LinearClassifier`: the best class of each row, and all scores. Two classes may share one score, whose sign decides.
pub(crate) fn classify(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let rows = Rows::of(call.input(0)?)?;
    let labels = Labels::of(call, "classlabels_ints")?;
    let post = PostTransform::of(call)?;
    let weights = call.node.attributes.floats("coefficients")?.map_or(0, <[f32]>::len);
    let single = labels.len() == 2 && weights == rows.width;
    let mut scores = scores(call, &rows, if single { 1 } else { labels.len() })?;
    let mut classes = Vec::with_capacity(rows.count);
    for row in &mut scores {
        if single {
            let score = row[0];
            classes.push(usize::from(score > 0.0));
            *row = post.of_second(score, Other::Complement);
        } else {
            classes.push(best(row));
            post.apply(row);
        }
    }
    let out = [rows.count, labels.len()];
    Ok(vec![labels.tensor(&classes)?, write_f64_as(DType::F32, &out, scores.into_iter().flatten())?])
}
