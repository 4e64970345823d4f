//! GridSample and AffineGrid: images read along a grid of positions, and the grid that an affine map makes.
//!
//! ONNX operators of these names, opset 16 and 20. Positions are given from −1 to 1, the last axis of the image first.

use super::Operator;
use super::elementwise::require_float;
use super::pool::require_channels;
use super::sample::{Axis, Interpolation, Outside, taps, weighted_sum};
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("GridSample", 16, grid_sample), Operator::new("AffineGrid", 20, affine_grid)];

/// The type in which elements of a type are weighted and summed.
pub(super) fn weighing_type(dtype: DType) -> DType {
    if dtype.is_float() { compute_type(dtype) } else { DType::F64 }
}

/// `y[n, c, o…] = x[n, c, …]` at `grid[n, o…, :]`.
pub(super) fn grid_sample(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    require_channels(&x)?;
    require_float(&grid)?;
    let at_centres = call.flag("align_corners", false)?;
    let mode = call.string("mode", "linear")?;
    let interpolation = match mode.as_str() {
        "nearest" => Interpolation::Nearest,
        "linear" | "bilinear" => Interpolation::Linear,
        "cubic" | "bicubic" => Interpolation::Cubic(-0.75),
        _ => {
            let expected = "nearest, linear or cubic";
            return Err(Problem::InvalidAttribute { attribute: "mode", expected, found: mode });
        }
    };
    let padding = call.string("padding_mode", "zeros")?;
    let outside = match padding.as_str() {
        "zeros" => Outside::Zero,
        "border" => Outside::Border { at_centres },
        "reflection" => Outside::Reflection { at_centres },
        _ => {
            let expected = "zeros, border or reflection";
            return Err(Problem::InvalidAttribute { attribute: "padding_mode", expected, found: padding });
        }
    };
    let spatial = x.shape()[2..].to_vec();
    let count = spatial.len();
    if grid.rank() != count + 2 || !(1..=4).contains(&count) {
        return Err(mismatch(format!("{} axes of a grid over 1 to 4 axes of an image", count + 2), grid.shape()));
    }
    let build = &mut *call.build;
    build.require_equal("the batches of image and grid", &x.shape()[0], &grid.shape()[0])?;
    build.require_equal("the coordinates of a position", &grid.shape()[count + 1], &Dim::constant(count as i64))?;
    let points = grid.shape()[..=count].to_vec();
    let grid = build.cast(&grid, compute_type(grid.dtype()))?;
    let mut axes = Vec::new();
    for (n, extent) in spatial.iter().enumerate() {
        let own = (0..points.len()).map(var).chain([IndexExpr::constant((count - 1 - n) as i64)]).collect();
        let given = build.view(&grid, own, points.clone())?;
        let at = build.map(&[&given], |body, p| in_elements(body, p[0], extent, at_centres))?;
        axes.push(Axis { extent: extent.clone(), stride: product(&spatial[n + 1..])?, at });
    }
    let base = var(0) * product(&spatial)?;
    let taps = taps(build, &points, &axes, interpolation, outside, base)?;
    let table = rows(build, &x)?;
    let table = build.cast(&table, weighing_type(x.dtype()))?;
    let sampled = weighted_sum(build, &table, &taps)?;
    let order: Vec<usize> = [0, points.len()].into_iter().chain(1..points.len()).collect();
    let y = build.transpose(&sampled, &order)?;
    Ok(vec![build.cast(&y, x.dtype())?])
}

/// `[N, C, d…]` as rows of channels, `[N·d…, C]`.
pub(super) fn rows(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    let order: Vec<usize> = [0].into_iter().chain(2..x.rank()).chain([1]).collect();
    let channels = x.shape()[1].clone();
    let last = build.transpose(x, &order)?;
    let count = product(&last.shape()[..x.rank() - 1])?;
    build.reshape(&last, &[count, channels])
}

/// A coordinate from −1 to 1 in elements from the first.
fn in_elements(body: &mut Body, at: ScalarId, extent: &Dim, at_centres: bool) -> ScalarId {
    let dtype = body.dtype(at);
    let (one, half) = (body.constant(dtype, 1.0), body.constant(dtype, 0.5));
    let extent = index(body, extent.clone());
    let extent = body.cast(dtype, extent);
    let from_zero = body.binary(BinaryOp::Add, at, one);
    if at_centres {
        let steps = body.binary(BinaryOp::Sub, extent, one);
        let part = body.binary(BinaryOp::Mul, from_zero, half);
        return body.binary(BinaryOp::Mul, part, steps);
    }
    let edges = body.binary(BinaryOp::Mul, from_zero, extent);
    let centres = body.binary(BinaryOp::Sub, edges, one);
    body.binary(BinaryOp::Mul, centres, half)
}

/// `grid[n, o…, :] = theta[n] · (x, y, …, 1)` for the positions of an image's elements, the last axis first.
fn affine_grid(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let theta = call.input(0)?;
    require_float(&theta)?;
    let size = call.dims(1, "the size of the image")?;
    let at_centres = call.flag("align_corners", false)?;
    let [batch, _, spatial @ ..] = &size[..] else {
        return Err(mismatch("the extents of an image with channels", &size));
    };
    let count = spatial.len();
    let wanted = [batch.clone(), Dim::constant(count as i64), Dim::constant(count as i64 + 1)];
    if theta.rank() != 3 {
        return Err(mismatch(format!("matrices of {count} rows"), theta.shape()));
    }
    let build = &mut *call.build;
    for (found, expected) in theta.shape().iter().zip(&wanted) {
        build.require_equal("the extents of affine maps and of the image", found, expected)?;
    }
    let shape: Vec<Dim> = [batch].into_iter().chain(spatial).cloned().chain([Dim::constant(count as i64)]).collect();
    let wide = compute_type(theta.dtype());
    let row = var(count + 1);
    let columns: Vec<Tracked> = (0..=count)
        .map(|n| build.view(&theta, vec![var(0), row.clone(), Dim::constant(n as i64)], shape.clone()))
        .collect::<Result<_>>()?;
    let grid = build.map_over(shape, &columns.iter().collect::<Vec<_>>(), |body, p| {
        let mut sum = body.cast(wide, p[count]);
        for (n, extent) in spatial.iter().rev().enumerate() {
            let at = element_position(body, wide, var(count - n), extent, at_centres);
            let factor = body.cast(wide, p[n]);
            let part = body.binary(BinaryOp::Mul, factor, at);
            sum = body.binary(BinaryOp::Add, sum, part);
        }
        body.cast(theta.dtype(), sum)
    })?;
    Ok(vec![grid])
}

/// Where element `i` of an axis lies between −1 and 1.
fn element_position(body: &mut Body, dtype: DType, i: IndexExpr, extent: &Dim, at_centres: bool) -> ScalarId {
    let (numerator, denominator) = if at_centres {
        (i.scale(2), (extent.clone() - 1).maximum(&Dim::constant(1)))
    } else {
        (i.scale(2) + 1, extent.clone())
    };
    let (numerator, denominator) = (index(body, numerator), index(body, denominator));
    let (numerator, denominator) = (body.cast(dtype, numerator), body.cast(dtype, denominator));
    let (part, one) = (body.binary(BinaryOp::Div, numerator, denominator), body.constant(dtype, 1.0));
    body.binary(BinaryOp::Sub, part, one)
}
