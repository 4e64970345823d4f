//! Reductions along axes, and the positions of extrema.
//!
//! Axes are an attribute at first and an input later (`ReduceSum` since opset 13, the others since 18).

use super::Operator;
use super::axes::{Axes, ChosenAxes};
use super::elementwise::require_float;
use crate::build::{Builder, Result, compute_type, index, var};
use crate::call::Call;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};
use infc_tensor::{DType, DTypeClass};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("ReduceSum", 1, |c| simple(c, 13, Reducer::sum, |_, x| x)),
    Operator::new("ReduceMean", 1, mean),
    Operator::new("ReduceMax", 1, |c| simple(c, 18, largest, |_, x| x)),
    Operator::new("ReduceMin", 1, |c| simple(c, 18, smallest, |_, x| x)),
    Operator::new("ReduceProd", 1, |c| simple(c, 18, product, |_, x| x)),
    Operator::new("ReduceL1", 1, |c| simple(c, 18, Reducer::sum, |body, x| body.unary(UnaryOp::Abs, x))),
    Operator::new("ReduceSumSquare", 1, |c| simple(c, 18, Reducer::sum, square)),
    Operator::new("ReduceL2", 1, |c| summed(c, square, |body, sum| float_function(body, UnaryOp::Sqrt, sum))),
    Operator::new("ReduceLogSum", 1, |c| summed(c, |_, x| x, |body, sum| float_function(body, UnaryOp::Log, sum))),
    Operator::new("ReduceLogSumExp", 1, log_sum_exp),
    Operator::new("ArgMax", 1, |c| extremum(c, CompareOp::Gt)),
    Operator::new("ArgMin", 1, |c| extremum(c, CompareOp::Lt)),
];

/// Least value of a type, which any other exceeds: what a maximum starts from.
pub(super) fn smallest_value(dtype: DType) -> Const {
    match dtype.class() {
        DTypeClass::Signed => Const::from_i64(dtype, i64::MIN >> (64 - dtype.size_bits().clamp(1, 64))),
        DTypeClass::Float => Const::from_f64(dtype, f64::NEG_INFINITY),
        _ => Const::zero(dtype),
    }
}

/// Greatest value of a type: what a minimum starts from.
pub(super) fn largest_value(dtype: DType) -> Const {
    match dtype.class() {
        DTypeClass::Signed => Const::from_i64(dtype, i64::MAX >> (64 - dtype.size_bits().clamp(1, 64))),
        DTypeClass::Float => Const::from_f64(dtype, f64::INFINITY),
        // All bits; one for bool.
        _ => Const::from_i64(dtype, -1),
    }
}

/// The maximum.
pub(super) fn largest(dtype: DType) -> Reducer {
    Reducer::binary(if dtype == DType::Bool { BinaryOp::Or } else { BinaryOp::Max }, smallest_value(dtype))
}

/// The minimum.
fn smallest(dtype: DType) -> Reducer {
    Reducer::binary(if dtype == DType::Bool { BinaryOp::And } else { BinaryOp::Min }, largest_value(dtype))
}

fn product(dtype: DType) -> Reducer {
    Reducer::binary(BinaryOp::Mul, Const::from_f64(dtype, 1.0))
}

fn square(body: &mut Body, x: ScalarId) -> ScalarId {
    body.binary(BinaryOp::Mul, x, x)
}

/// A function that only floats have, on integers through f64.
fn float_function(body: &mut Body, op: UnaryOp, x: ScalarId) -> ScalarId {
    let dtype = body.dtype(x);
    let wide = if dtype.is_float() { dtype } else { DType::F64 };
    let x = body.cast(wide, x);
    let y = body.unary(op, x);
    body.cast(dtype, y)
}

/// What is folded, and the shape of the result.
struct Reduction {
    x: Tracked,
    axes: Axes,
    shape: Vec<Dim>,
}

impl Reduction {
    /// `moved` is the opset since which the axes are an input.
    fn of(call: &mut Call<'_>, moved: i64) -> Result<Self> {
        let x = call.input(0)?;
        let given = call.dims_moved("axes", 1, moved)?.unwrap_or_default();
        let axes = match &given[..] {
            [] if folds_nothing(call, moved)? => Axes::Known(Vec::new()),
            [] => Axes::Known((0..x.rank()).collect()),
            given => Axes::of(call.build, given, x.rank())?,
        };
        let keep = call.flag("keepdims", true)?;
        Self::new(call.build, x, axes, keep)
    }

    fn new(build: &mut Builder, x: Tracked, axes: Axes, keep: bool) -> Result<Self> {
        let shape = match (&axes, keep) {
            (Axes::Known(axes), _) => {
                let folded = |n: &usize| axes.contains(n);
                (0..x.rank())
                    .filter(|n| keep || !folded(n))
                    .map(|n| if folded(&n) { Dim::constant(1) } else { x.shape()[n].clone() })
                    .collect()
            }
            (Axes::Chosen(axes), true) => axes.ones(build, x.shape())?,
            (Axes::Chosen(axes), false) => axes.removed(build, x.shape())?,
        };
        Ok(Self { x, axes, shape })
    }

    /// The number of elements that are folded into one.
    fn count(&self, build: &mut Builder) -> Result<Dim> {
        match &self.axes {
            Axes::Known(axes) => Ok(axes.iter().map(|&a| self.x.shape()[a].clone()).product()),
            Axes::Chosen(axes) => {
                let extents = axes.others_ones(build, self.x.shape())?;
                build.size("the number of elements in one", &extents.into_iter().product())
            }
        }
    }

    /// A value of the shape with the axes kept, ready to be read for every element that is folded.
    fn for_each_element(&self, build: &mut Builder, folded: &Tracked) -> Result<Tracked> {
        match &self.axes {
            // By broadcasting.
            Axes::Known(_) => Ok(folded.clone()),
            Axes::Chosen(axes) => build.view(folded, axes.at_ones(), self.x.shape().to_vec()),
        }
    }

    /// Folds in the computing type; the result is still in that type.
    fn fold(
        &self,
        build: &mut Builder,
        reducer: fn(DType) -> Reducer,
        f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
    ) -> Result<Tracked> {
        let wide = compute_type(self.x.dtype());
        let widened = |body: &mut Body, x: ScalarId| body.cast(wide, x);
        let (x, axes) = match &self.axes {
            Axes::Known(axes) if axes.is_empty() => {
                return build.map(&[&self.x], |body, p| {
                    let x = widened(body, p[0]);
                    f(body, x)
                });
            }
            Axes::Known(axes) => (self.x.clone(), axes.clone()),
            Axes::Chosen(axes) => spread(build, &self.x, axes)?,
        };
        let folded = build.reduce(&[&x], &axes, reducer(wide), |body, p| {
            let x = widened(body, p[0]);
            vec![f(body, x)]
        })?;
        build.reshape(&folded[0], &self.shape)
    }
}

/// Every axis twice, of which one has one element: among the first are the axes that stay, among the second those that
/// are folded. Also the second.
fn spread(build: &mut Builder, x: &Tracked, axes: &ChosenAxes) -> Result<(Tracked, Vec<usize>)> {
    let rank = x.rank();
    let mut shape = axes.ones(build, x.shape())?;
    shape.extend(axes.others_ones(build, x.shape())?);
    let index = (0..rank).map(|n| var(n) + var(rank + n)).collect();
    Ok((build.view(x, index, shape)?, (rank..2 * rank).collect()))
}

/// Whether a reduction without axes is along none rather than along all. The attribute that says so came with the axes as
/// an input, in opset `moved`; before that it means nothing.
fn folds_nothing(call: &Call<'_>, moved: i64) -> Result<bool> {
    Ok(call.opset >= moved && call.flag("noop_with_empty_axes", false)?)
}

fn simple(
    call: &mut Call<'_>,
    moved: i64,
    reducer: fn(DType) -> Reducer,
    f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
) -> Result<Vec<Tracked>> {
    let reduction = Reduction::of(call, moved)?;
    let folded = reduction.fold(call.build, reducer, f)?;
    Ok(vec![call.build.cast(&folded, reduction.x.dtype())?])
}

fn summed(
    call: &mut Call<'_>,
    f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
    finish: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
) -> Result<Vec<Tracked>> {
    let reduction = Reduction::of(call, 18)?;
    let dtype = reduction.x.dtype();
    let sum = reduction.fold(call.build, Reducer::sum, f)?;
    let result = call.build.map(&[&sum], |body, p| {
        let y = finish(body, p[0]);
        body.cast(dtype, y)
    })?;
    Ok(vec![result])
}

/// `x / count`, rounded to the given type.
pub(super) fn divide(build: &mut Builder, x: &Tracked, count: Dim, dtype: DType) -> Result<Tracked> {
    build.map(&[x], |body, p| {
        let count = match count.as_const() {
            Some(count) => body.constant(body.dtype(p[0]), count as f64),
            None => {
                let count = index(body, count.clone());
                body.cast(body.dtype(p[0]), count)
            }
        };
        let quotient = body.binary(BinaryOp::Div, p[0], count);
        body.cast(dtype, quotient)
    })
}

/// `ReduceMean`; axes are an input since opset 18.
pub(super) fn mean(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let reduction = Reduction::of(call, 18)?;
    let sum = reduction.fold(call.build, Reducer::sum, |_, x| x)?;
    let count = reduction.count(call.build)?;
    Ok(vec![divide(call.build, &sum, count, reduction.x.dtype())?])
}

/// `m + log Σ e^(x−m)`, with `m = max x` so that nothing overflows.
fn log_sum_exp(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let reduction = Reduction::of(call, 18)?;
    let dtype = reduction.x.dtype();
    require_float(&reduction.x)?;
    let wide = compute_type(dtype);
    let x = call.build.cast(&reduction.x, wide)?;
    let kept = Reduction::new(call.build, x, reduction.axes.clone(), true)?;
    let max = kept.fold(call.build, largest, |_, x| x)?;
    // Infinities would become NaN as differences.
    let finite = call.build.map(&[&max], |body, p| {
        let infinite = body.unary(UnaryOp::IsInf, p[0]);
        let zero = body.constant(wide, 0.0);
        body.select(infinite, zero, p[0])
    })?;
    let shift = kept.for_each_element(call.build, &finite)?;
    let power = call.build.map(&[&kept.x, &shift], |body, p| {
        let shifted = body.binary(BinaryOp::Sub, p[0], p[1]);
        body.unary(UnaryOp::Exp, shifted)
    })?;
    let power = Reduction::new(call.build, power, reduction.axes.clone(), true)?;
    let sum = power.fold(call.build, Reducer::sum, |_, x| x)?;
    let result = call.build.map(&[&sum, &finite], |body, p| {
        let log = body.unary(UnaryOp::Log, p[0]);
        let y = body.binary(BinaryOp::Add, log, p[1]);
        body.cast(dtype, y)
    })?;
    Ok(vec![call.build.reshape(&result, &reduction.shape)?])
}

/// The position of the first (or last) extremum along an axis, as a reduction of (value, position) pairs.
fn extremum(call: &mut Call<'_>, better: CompareOp) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let axis = call.axis("axis", 0, x.rank())?;
    let last = call.flag("select_last_index", false)?;
    let keep = call.flag("keepdims", true)?;
    let reduction = Reduction::new(call.build, x.clone(), Axes::Known(vec![axis]), keep)?;
    let position = extremum_along(call.build, &x, axis, better, last)?;
    Ok(vec![call.build.reshape(&position, &reduction.shape)?])
}

/// The position of the first largest element along an axis, which disappears (i64).
pub(super) fn first_extremum(build: &mut Builder, x: &Tracked, axis: usize) -> Result<Tracked> {
    extremum_along(build, x, axis, CompareOp::Gt, false)
}

fn extremum_along(build: &mut Builder, x: &Tracked, axis: usize, better: CompareOp, last: bool) -> Result<Tracked> {
    let reducer = extremum_with_place(x.dtype(), better, last);
    let pair = build.reduce(&[x], &[axis], reducer, |body, p| vec![p[0], index(body, var(axis))])?;
    Ok(pair[1].clone())
}

/// Of (element, place), the largest element and its least place.
pub(super) fn first_largest(dtype: DType) -> Reducer {
    extremum_with_place(dtype, CompareOp::Gt, false)
}

fn extremum_with_place(dtype: DType, better: CompareOp, last: bool) -> Reducer {
    let mut combine = Body::default();
    let (value, at) = (combine.param(0, dtype), combine.param(1, DType::I64));
    let (new_value, new_at) = (combine.param(2, dtype), combine.param(3, DType::I64));
    let wins = combine.compare(better, new_value, value);
    let ties = combine.compare(CompareOp::Eq, new_value, value);
    let nearer = combine.compare(if last { CompareOp::Gt } else { CompareOp::Lt }, new_at, at);
    let ties_and_nearer = combine.binary(BinaryOp::And, ties, nearer);
    let takes = combine.binary(BinaryOp::Or, wins, ties_and_nearer);
    let results = vec![combine.select(takes, new_value, value), combine.select(takes, new_at, at)];
    let worst = if better == CompareOp::Gt { smallest_value(dtype) } else { largest_value(dtype) };
    // A position that loses every tie.
    let nowhere = Const::from_i64(DType::I64, if last { -1 } else { i64::MAX });
    Reducer { init: vec![worst, nowhere], combine, results }
}
