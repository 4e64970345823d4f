//! Regions of interest: RoiAlign, which samples between elements, and MaxRoiPool, which takes the largest of each bin.
//!
//! ONNX operators of these names, opset 10 and 1: an image `[N, C, H, W]`, boxes `[R, 4]` with corners `x₁, y₁, x₂, y₂`
//! and the image that each lies in; a box is divided into bins, and the result is `[R, C, bins, bins]`. As many samples as
//! a bin is long (`sampling_ratio` 0) are [`adaptive`].

mod adaptive;

use super::Operator;
use super::elementwise::require_float;
use super::gather_elements::position;
use super::grid_sample::rows;
use super::reduce::largest;
use super::sample::{Axis, Interpolation, Outside, Taps, taps, weighted_sum};
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, ScalarOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("RoiAlign", 10, roi_align), Operator::new("MaxRoiPool", 1, max_roi_pool)];

fn positive(call: &Call<'_>, attribute: &'static str, default: i64) -> Result<i64> {
    let found = call.int_or(attribute, default)?;
    if (1..1 << 16).contains(&found) {
        return Ok(found);
    }
    Err(Problem::InvalidAttribute { attribute, expected: "a positive number", found: found.to_string() })
}

fn require_image(x: &Tracked) -> Result<()> {
    require_float(x)?;
    if x.rank() == 4 { Ok(()) } else { Err(mismatch("an image: 4 axes", x.shape())) }
}

/// Column `n` of the boxes over the axes of `shape`, of which the first is the box.
fn corner(build: &mut Builder, boxes: &Tracked, n: i64, shape: &[Dim]) -> Result<Tracked> {
    build.view(boxes, vec![var(0), IndexExpr::constant(n)], shape.to_vec())
}

fn number(body: &mut Body, like: ScalarId, value: f64) -> ScalarId {
    body.constant(body.dtype(like), value)
}

/// How boxes lie on a map.
#[derive(Clone, Copy)]
struct Placing {
    /// Elements per unit of the boxes' coordinates.
    scale: f64,
    /// Whether coordinates count from the border of the first element, not from its centre.
    centred: bool,
}

impl Placing {
    /// Where a box begins, and how long each of its bins is, by its first and last coordinate.
    fn bins(self, body: &mut Body, corners: &[ScalarId], across: i64) -> (ScalarId, ScalarId) {
        let scale = number(body, corners[0], self.scale);
        let shift = number(body, corners[0], if self.centred { 0.5 } else { 0.0 });
        let on_map = |body: &mut Body, x: ScalarId| {
            let scaled = body.binary(BinaryOp::Mul, x, scale);
            body.binary(BinaryOp::Sub, scaled, shift)
        };
        let (first, last) = (on_map(body, corners[0]), on_map(body, corners[1]));
        let mut size = body.binary(BinaryOp::Sub, last, first);
        if !self.centred {
            let one = number(body, size, 1.0);
            size = body.binary(BinaryOp::Max, size, one);
        }
        let parts = number(body, size, across as f64);
        (first, body.binary(BinaryOp::Div, size, parts))
    }
}

fn roi_align(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, boxes, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require_image(&x)?;
    require_float(&boxes)?;
    let ([count, corners], [_]) = (boxes.shape(), images.shape()) else {
        return Err(mismatch("boxes [R, 4] and images [R]", boxes.shape()));
    };
    let (count, corners) = (count.clone(), corners.clone());
    let bins = [positive(call, "output_height", 1)?, positive(call, "output_width", 1)?];
    let samples = call.int_or("sampling_ratio", 0)?;
    if !(0..1 << 10).contains(&samples) {
        let (expected, found) = ("a number of at least 0", samples.to_string());
        return Err(Problem::InvalidAttribute { attribute: "sampling_ratio", expected, found });
    }
    let scale = call.float_or("spatial_scale", 1.0)?;
    let mode = call.string("mode", "avg")?;
    let centred = match call.string("coordinate_transformation_mode", "half_pixel")?.as_str() {
        // Before, boxes counted from the centre of the first element.
        _ if call.opset < 16 => false,
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => {
            let (attribute, expected) = ("coordinate_transformation_mode", "half_pixel or output_half_pixel");
            return Err(Problem::InvalidAttribute { attribute, expected, found: other.to_owned() });
        }
    };
    let build = &mut *call.build;
    build.require_equal("the corners of a box", &corners, &Dim::constant(4))?;
    build.require_equal("the numbers of boxes and images", &count, &images.shape()[0])?;
    let placing = Placing { scale, centred };
    if samples == 0 {
        return match mode.as_str() {
            "avg" => Ok(vec![adaptive::means(build, &x, &boxes, &images, bins, placing)?]),
            "max" => {
                // The largest product of an element and its weight is no sum that could be taken row by row.
                let (expected, found) = ("1 or more where the largest is taken", samples.to_string());
                Err(Problem::UnsupportedAttribute { attribute: "sampling_ratio", expected, found })
            }
            _ => Err(Problem::InvalidAttribute { attribute: "mode", expected: "avg or max", found: mode }),
        };
    }
    let dims = |values: &[i64]| values.iter().copied().map(Dim::constant).collect::<Vec<_>>();
    // Over [r, bin y, bin x, sample y, sample x].
    let points: Vec<Dim> = [count.clone()].into_iter().chain(dims(&[bins[0], bins[1], samples, samples])).collect();
    let wide = compute_type(boxes.dtype());
    let boxes = build.cast(&boxes, wide)?;
    let spatial = x.shape()[2..].to_vec();
    let mut at = Vec::new();
    for (n, &across) in bins.iter().enumerate() {
        let first = corner(build, &boxes, 1 - n as i64, &points)?;
        let last = corner(build, &boxes, 3 - n as i64, &points)?;
        at.push(build.map(&[&first, &last], |body, p| {
            let (first, bin) = placing.bins(body, p, across);
            // (bin + (sample + ½)/samples) · size of a bin
            let (which, sample) = (index(body, var(1 + n)), index(body, var(3 + n)));
            let (which, sample) = (body.cast(wide, which), body.cast(wide, sample));
            let (half, samples) = (number(body, bin, 0.5), number(body, bin, samples as f64));
            let centre = body.binary(BinaryOp::Add, sample, half);
            let bins_before = body.binary(BinaryOp::Mul, which, bin);
            let within = body.binary(BinaryOp::Mul, centre, bin);
            let within = body.binary(BinaryOp::Div, within, samples);
            let start = body.binary(BinaryOp::Add, first, bins_before);
            body.binary(BinaryOp::Add, start, within)
        })?);
    }
    let mut axes = Vec::new();
    for (n, at) in at.iter().enumerate() {
        // Up to one element outside, the border counts.
        let clamped = build.map(&[at], |body, p| {
            let last = index(body, spatial[n].clone() - 1);
            let (last, zero) = (body.cast(wide, last), number(body, p[0], 0.0));
            let at = body.binary(BinaryOp::Max, p[0], zero);
            body.binary(BinaryOp::Min, at, last)
        })?;
        axes.push(Axis { extent: spatial[n].clone(), stride: product(&spatial[n + 1..])?, at: clamped });
    }
    let found = taps(
        build,
        &points,
        &axes,
        Interpolation::Linear,
        Outside::Border { at_centres: true },
        IndexExpr::constant(0),
    )?;
    let with_taps = found.rows.shape().to_vec();
    let own = || (0..points.len()).map(var).collect::<Vec<_>>();
    let outer: Vec<Tracked> = at.iter().map(|at| build.view(at, own(), with_taps.clone())).collect::<Result<_>>()?;
    let weights = build.map(&[&found.weights, &outer[0], &outer[1]], |body, p| {
        let (zero, before) = (number(body, p[0], 0.0), number(body, p[0], -1.0));
        let mut weight = p[0];
        for (n, extent) in spatial.iter().enumerate() {
            let end = index(body, extent.clone());
            let end = body.cast(wide, end);
            let below = body.compare(CompareOp::Lt, p[1 + n], before);
            let beyond = body.compare(CompareOp::Gt, p[1 + n], end);
            let outside = body.binary(BinaryOp::Or, below, beyond);
            weight = body.select(outside, zero, weight);
        }
        weight
    })?;
    let image = build.view(&images, vec![var(0)], with_taps.clone())?;
    let (size, batch) = (product(&spatial)?, x.shape()[0].clone());
    let rows_of = build.map(&[&found.rows, &image], |body, p| {
        let image = position(body, p[1], &batch);
        let size = index(body, size);
        let first = body.binary(BinaryOp::Mul, image, size);
        body.binary(BinaryOp::Add, p[0], first)
    })?;
    // Samples and taps of a bin side by side.
    let merged: Vec<Dim> = [count].into_iter().chain(dims(&[bins[0], bins[1], samples * samples * 4])).collect();
    let taps = Taps { rows: build.reshape(&rows_of, &merged)?, weights: build.reshape(&weights, &merged)? };
    let table = rows(build, &x)?;
    let table = build.cast(&table, compute_type(x.dtype()))?;
    let y = match mode.as_str() {
        "avg" => {
            let sum = weighted_sum(build, &table, &taps)?;
            super::reduce::divide(build, &sum, Dim::constant(samples * samples), sum.dtype())?
        }
        "max" => largest_tap(build, &table, &taps)?,
        _ => return Err(Problem::InvalidAttribute { attribute: "mode", expected: "avg or max", found: mode }),
    };
    let y = build.transpose(&y, &[0, 3, 1, 2])?;
    Ok(vec![build.cast(&y, x.dtype())?])
}

/// The largest of the weighted elements: `[points…, C]`.
fn largest_tap(build: &mut Builder, table: &Tracked, taps: &Taps) -> Result<Tracked> {
    let found = build.gather(table, &taps.rows, 0)?;
    let weights = build.cast(&taps.weights, table.dtype())?;
    let last = weights.rank();
    let weights = build.insert_axis(&weights, last)?;
    let weights = build.broadcast(&weights, found.shape())?;
    let most = build.reduce(&[&found, &weights], &[last - 1], largest(table.dtype()), |body, p| {
        vec![body.binary(BinaryOp::Mul, p[0], p[1])]
    })?;
    Ok(most[0].clone())
}

/// Boxes `[R, 5]` have the image first; corners are rounded to elements, and empty bins are zero.
fn max_roi_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, boxes) = (call.input(0)?, call.input(1)?);
    require_image(&x)?;
    require_float(&boxes)?;
    let [count, columns] = boxes.shape() else { return Err(mismatch("boxes [R, 5]", boxes.shape())) };
    let (count, columns) = (count.clone(), columns.clone());
    let bins = call.ints("pooled_shape")?.unwrap_or_default().to_vec();
    if bins.len() != 2 || !bins.iter().all(|b| (1..1 << 16).contains(b)) {
        let found = format!("{bins:?}");
        return Err(Problem::InvalidAttribute { attribute: "pooled_shape", expected: "two positive numbers", found });
    }
    let scale = call.float_or("spatial_scale", 1.0)?;
    let build = &mut *call.build;
    build.require_equal("the numbers that are a box", &columns, &Dim::constant(5))?;
    let wide = compute_type(x.dtype());
    let boxes = build.cast(&boxes, compute_type(boxes.dtype()))?;
    let image = build.view(&boxes, vec![var(0), IndexExpr::constant(0)], vec![count.clone()])?;
    let image = build.cast(&image, DType::I64)?;
    let found = build.gather(&x, &image, 0)?;
    let (channels, spatial) = (x.shape()[1].clone(), x.shape()[2..].to_vec());
    // Over [r, c, bin y, bin x, y, x].
    let shape = vec![
        count.clone(),
        channels.clone(),
        Dim::constant(bins[0]),
        Dim::constant(bins[1]),
        spatial[0].clone(),
        spatial[1].clone(),
    ];
    let mut inputs = vec![build.view(&found, vec![var(0), var(1), var(4), var(5)], shape.clone())?];
    // First and one past the last element of a bin, over [r, bin].
    for (n, &across) in bins.iter().enumerate() {
        for end in [false, true] {
            let per_bin = vec![count.clone(), Dim::constant(across)];
            let first = corner(build, &boxes, 2 - n as i64, &per_bin)?;
            let last = corner(build, &boxes, 4 - n as i64, &per_bin)?;
            let edge = build.map(&[&first, &last], |body, p| bin_edge(body, p, across, scale, end))?;
            inputs.push(build.view(&edge, vec![var(0), var(2 + n)], shape.clone())?);
        }
    }
    let reducer = largest(wide);
    let empty = reducer.init[0];
    let inputs: Vec<&Tracked> = inputs.iter().collect();
    let most = build.reduce(&inputs, &[4, 5], reducer, |body, p| {
        let mut value = body.cast(wide, p[0]);
        let nothing = body.push(ScalarOp::Const(empty));
        for n in 0..2 {
            let at = index(body, var(4 + n));
            let (from, to) =
                (body.compare(CompareOp::Ge, at, p[1 + 2 * n]), body.compare(CompareOp::Lt, at, p[2 + 2 * n]));
            let inside = body.binary(BinaryOp::And, from, to);
            value = body.select(inside, value, nothing);
        }
        vec![value]
    })?;
    let y = build.map(&[&most[0]], |body, p| {
        let (nothing, zero) = (body.push(ScalarOp::Const(empty)), number(body, p[0], 0.0));
        let is_empty = body.compare(CompareOp::Eq, p[0], nothing);
        let value = body.select(is_empty, zero, p[0]);
        body.cast(x.dtype(), value)
    })?;
    Ok(vec![y])
}

/// The first element of bin `i1`, or one past its last: `⌊i·size/bins⌋` or `⌈(i+1)·size/bins⌉` after the box' corner.
fn bin_edge(body: &mut Body, corners: &[ScalarId], bins: i64, scale: f64, end: bool) -> ScalarId {
    let scaled = |body: &mut Body, x: ScalarId| {
        let scale = number(body, x, scale);
        let x = body.binary(BinaryOp::Mul, x, scale);
        // Halves away from zero.
        let half = number(body, x, 0.5);
        let magnitude = body.unary(UnaryOp::Abs, x);
        let up = body.binary(BinaryOp::Add, magnitude, half);
        let rounded = body.unary(UnaryOp::Floor, up);
        let sign = body.unary(UnaryOp::Sign, x);
        body.binary(BinaryOp::Mul, sign, rounded)
    };
    let (first, last) = (scaled(body, corners[0]), scaled(body, corners[1]));
    let one = number(body, first, 1.0);
    let size = body.binary(BinaryOp::Sub, last, first);
    let size = body.binary(BinaryOp::Add, size, one);
    let size = body.binary(BinaryOp::Max, size, one);
    let bins = number(body, size, bins as f64);
    let bin = body.binary(BinaryOp::Div, size, bins);
    let which = index(body, var(1) + i64::from(end));
    let which = body.cast(body.dtype(size), which);
    let along = body.binary(BinaryOp::Mul, which, bin);
    let along = body.unary(if end { UnaryOp::Ceil } else { UnaryOp::Floor }, along);
    let edge = body.binary(BinaryOp::Add, first, along);
    body.cast(DType::I64, edge)
}
