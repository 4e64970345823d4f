//! Tables of constants, and what both ways to compute trees share: columns of features, and the leaves that rows come to.

use super::interval::{Columns, Interval};
use crate::build::{Builder, Result, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::{DType, Tensor};

/// Trees with more nodes, features or weights of leaves than this are left to the host; tables may be four times as large, where
/// places are left free.
pub(super) const MAX_TABLE: usize = 1 << 22;

/// Which leaves rows come to.
pub(super) struct Reached {
    /// The place among `leaves`, `[units, rows]`: units are trees or parts of them.
    pub(super) places: Tracked,
    /// Whether there is a leaf, `[units, rows]`; `None` if always.
    pub(super) exists: Option<Tracked>,
    /// The leaf at each place, by its number in the forest; `None` where there is none.
    pub(super) leaves: Vec<Option<usize>>,
}

/// A table of floats of a type, row by row.
pub(super) fn floats(
    build: &Builder,
    name: &str,
    dtype: DType,
    shape: &[usize],
    values: impl Iterator<Item = f64>,
) -> Tracked {
    let tensor = if dtype == DType::F64 {
        Tensor::from_elements(shape, &values.collect::<Vec<f64>>())
    } else {
        Tensor::from_elements(shape, &values.map(|v| v as f32).collect::<Vec<f32>>())
    };
    build.constant(name, tensor.expect("as many as the shape says"))
}

/// A table of numbers, row by row.
pub(super) fn numbers(build: &Builder, name: &str, shape: &[usize], values: impl Iterator<Item = i32>) -> Tracked {
    let tensor = Tensor::from_elements(shape, &values.collect::<Vec<i32>>());
    build.constant(name, tensor.expect("as many as the shape says"))
}

/// The ends of intervals, of those that are not there any.
pub(super) struct Ends {
    pub(super) most: Tracked,
    /// `None` if all have none.
    pub(super) least: Option<Tracked>,
}

impl Ends {
    pub(super) fn of<'i>(
        build: &Builder,
        dtype: DType,
        shape: &[usize],
        intervals: impl Iterator<Item = Option<&'i Interval>> + Clone,
    ) -> Self {
        let most = floats(build, "splits", dtype, shape, intervals.clone().map(|i| i.map_or(0.0, |i| i.most)));
        let has_least = intervals.clone().flatten().any(Interval::has_least);
        let least = || floats(build, "least splits", dtype, shape, intervals.map(|i| i.map_or(0.0, |i| i.least)));
        Self { most, least: has_least.then(least) }
    }
}

/// Whether a number lies in an interval.
pub(super) fn holds(body: &mut Body, x: ScalarId, most: ScalarId, least: Option<ScalarId>) -> ScalarId {
    let holds = body.compare(CompareOp::Le, x, most);
    let Some(least) = least else { return holds };
    let is_enough = body.compare(CompareOp::Ge, x, least);
    body.binary(BinaryOp::And, holds, is_enough)
}

/// The features that are asked, `[columns, rows]`, of rows `[rows, features]`.
pub(super) fn columns(build: &mut Builder, x: &Tracked, columns: &Columns) -> Result<Tracked> {
    let x = build.transpose(x, &[1, 0])?;
    let features = columns.all.iter().map(|&(feature, _)| feature as i32);
    let count = columns.all.len().max(1);
    // Trees that are a leaf each ask nothing.
    let features = numbers(build, "features", &[count], features.chain(columns.all.is_empty().then_some(0)));
    let found = build.gather(&x, &features, 0)?;
    if columns.all.iter().all(|&(_, missing_is_least)| !missing_is_least) {
        return Ok(found);
    }
    let dtype = x.dtype();
    let missing = |least: bool| if least { f64::NEG_INFINITY } else { f64::NAN };
    let missing = columns.all.iter().map(|&(_, missing_is_least)| missing(missing_is_least));
    let missing = floats(build, "missing values", dtype, &[count], missing);
    let missing = build.view(&missing, vec![var(0)], found.shape().to_vec())?;
    build.map(&[&found, &missing], |body, p| {
        let is_missing = body.unary(UnaryOp::IsNan, p[0]);
        body.select(is_missing, p[1], p[0])
    })
}
