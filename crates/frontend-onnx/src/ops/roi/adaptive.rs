//! RoiAlign with as many samples as a bin is long (`sampling_ratio` 0): their number depends on data.
//!
//! A mean over samples between elements is a weighted sum of elements, and the weights of rows and columns are
//! independent. Samples of a bin, unless it has only one, are more than half an element and at most one apart, so few of
//! them lie within one element of any row: the row's weight has a closed form, whatever the number of samples. What remains are two sums over the
//! image, first of rows, then of columns.

use super::{Placing, corner, number, position};
use crate::build::{Builder, Result, compute_type, index, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::DType;

/// An interval of two elements holds at most four samples; one more on either side, for what rounding moves.
const NEAR: i64 = 6;

/// `[R, C, bins, bins]`: means over the bins of boxes `[R, 4]` in images `[N, C, H, W]`.
pub(super) fn means(
    build: &mut Builder,
    x: &Tracked,
    boxes: &Tracked,
    images: &Tracked,
    bins: [i64; 2],
    placing: Placing,
) -> Result<Tracked> {
    let boxes = build.cast(boxes, compute_type(boxes.dtype()))?;
    let wide = compute_type(x.dtype());
    let (batch, channels) = (x.shape()[0].clone(), x.shape()[1].clone());
    let (count, spatial) = (boxes.shape()[0].clone(), x.shape()[2..].to_vec());
    let [down, across] = bins.map(Dim::constant);
    let rows = weights(build, &boxes, 0, bins[0], &spatial[0], placing)?;
    let columns = weights(build, &boxes, 1, bins[1], &spatial[1], placing)?;
    let which = build.map(&[images], |body, p| position(body, p[0], &batch))?;
    let found = build.gather(x, &which, 0)?;
    // Over [r, bin y, c, x, y], then over [r, c, bin y, bin x, x].
    let shape = vec![count.clone(), down.clone(), channels.clone(), spatial[1].clone(), spatial[0].clone()];
    let found = build.view(&found, vec![var(0), var(2), var(4), var(3)], shape.clone())?;
    let rows = build.view(&rows, vec![var(0), var(1), var(4)], shape)?;
    let lines = weighed(build, &found, &rows, 4, wide)?;
    let shape = vec![count, channels, down, across, spatial[1].clone()];
    let lines = build.view(&lines, vec![var(0), var(2), var(1), var(4)], shape.clone())?;
    let columns = build.view(&columns, vec![var(0), var(3), var(4)], shape)?;
    let means = weighed(build, &lines, &columns, 4, wide)?;
    build.cast(&means, x.dtype())
}

/// Sums of weighted elements along an axis. What has no weight does not count, even if it is no number.
fn weighed(build: &mut Builder, x: &Tracked, weights: &Tracked, axis: usize, wide: DType) -> Result<Tracked> {
    let sums = build.reduce(&[x, weights], &[axis], Reducer::sum(wide), |body, p| {
        let (x, weight) = (body.cast(wide, p[0]), body.cast(wide, p[1]));
        let zero = number(body, weight, 0.0);
        let counts = body.compare(CompareOp::Ne, weight, zero);
        let product = body.binary(BinaryOp::Mul, x, weight);
        vec![body.select(counts, product, zero)]
    })?;
    Ok(sums[0].clone())
}

/// The part that elements `h` along an axis (0: rows, 1: columns) have in the mean over each bin: `[R, bins, extent]`.
fn weights(
    build: &mut Builder,
    boxes: &Tracked,
    axis: usize,
    bins: i64,
    extent: &Dim,
    placing: Placing,
) -> Result<Tracked> {
    let wide = boxes.dtype();
    // The last axis is that of the samples near an element.
    let shape = vec![boxes.shape()[0].clone(), Dim::constant(bins), extent.clone(), Dim::constant(NEAR)];
    let first = corner(build, boxes, 1 - axis as i64, &shape)?;
    let last = corner(build, boxes, 3 - axis as i64, &shape)?;
    let parts = build.reduce(&[&first, &last], &[3], Reducer::sum(wide), |body, p| {
        let at = |body: &mut Body, e: IndexExpr| {
            let at = index(body, e);
            body.cast(wide, at)
        };
        let (first, bin) = placing.bins(body, p, bins);
        let (bin_number, element, near) = (at(body, var(1)), at(body, var(2)), at(body, var(3)));
        let (zero, half, one) = (number(body, bin, 0.0), number(body, bin, 0.5), number(body, bin, 1.0));
        let before = body.binary(BinaryOp::Mul, bin_number, bin);
        let start = body.binary(BinaryOp::Add, first, before);
        let samples = body.unary(UnaryOp::Ceil, bin);
        let distance = body.binary(BinaryOp::Div, bin, samples);
        // Sample i ≥ 0 is at start + (i + ½)·distance: the first within one element, less one, and those behind it.
        let reach = body.binary(BinaryOp::Sub, element, one);
        let reach = body.binary(BinaryOp::Sub, reach, start);
        let reach = body.binary(BinaryOp::Div, reach, distance);
        let reach = body.binary(BinaryOp::Sub, reach, half);
        let reach = body.unary(UnaryOp::Ceil, reach);
        let sample = body.binary(BinaryOp::Sub, reach, one);
        let sample = body.binary(BinaryOp::Max, sample, zero);
        let sample = body.binary(BinaryOp::Add, sample, near);
        let along = body.binary(BinaryOp::Add, sample, half);
        let along = body.binary(BinaryOp::Mul, along, bin);
        let along = body.binary(BinaryOp::Div, along, samples);
        let place = body.binary(BinaryOp::Add, start, along);
        // Up to one element outside, the border counts; beyond, nothing does.
        let (end, last) = (at(body, extent.clone()), at(body, extent.clone() - 1));
        let outermost = number(body, bin, -1.0);
        let conditions = [
            body.compare(CompareOp::Lt, sample, samples),
            body.compare(CompareOp::Ge, place, outermost),
            body.compare(CompareOp::Le, place, end),
        ];
        let counts = all(body, &conditions);
        let clamped = body.binary(BinaryOp::Max, place, zero);
        let clamped = body.binary(BinaryOp::Min, clamped, last);
        let away = body.binary(BinaryOp::Sub, clamped, element);
        let away = body.unary(UnaryOp::Abs, away);
        let weight = body.binary(BinaryOp::Sub, one, away);
        let weight = body.binary(BinaryOp::Max, weight, zero);
        let weight = body.binary(BinaryOp::Div, weight, samples);
        vec![body.select(counts, weight, zero)]
    })?;
    Ok(parts[0].clone())
}

fn all(body: &mut Body, conditions: &[ScalarId]) -> ScalarId {
    conditions[1..].iter().fold(conditions[0], |both, &next| body.binary(BinaryOp::And, both, next))
}
