//! Positions and weights that are computed when the model runs: where extents depend on symbols, the region on data, or
//! where an element is a mean of so many that they are better summed as a product.

use super::MAX_TABLE;
use super::coordinates::{Mode, Rounding, Rule, Transform};
use super::targets::Scale;
use crate::build::{Builder, Result, index, mismatch, var};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::DType;

/// One axis that changes.
pub(super) struct Along<'a> {
    pub(super) axis: usize,
    pub(super) input: Dim,
    pub(super) output: Dim,
    pub(super) scale: &'a Scale,
    /// Where the part that is resized begins and ends, as scalars; all of it if there is none.
    pub(super) region: Option<[&'a Tracked; 2]>,
}

/// Positions are f32, as scales are; that decides ties.
pub(super) const POSITION: DType = DType::F32;

fn number(body: &mut Body, value: f64) -> ScalarId {
    body.constant(POSITION, value)
}

fn extent(body: &mut Body, dim: &IndexExpr) -> ScalarId {
    let dim = index(body, dim.clone());
    body.cast(POSITION, dim)
}

impl Along<'_> {
    /// The operands of an expression that asks for the scale: it comes last where it is computed.
    fn with_scale<'t>(&'t self, operands: &[&'t Tracked]) -> Vec<&'t Tracked> {
        let told = if let Scale::Told(scale) = self.scale { Some(scale) } else { None };
        operands.iter().copied().chain(told).collect()
    }

    /// The scale, in an expression of [`Along::with_scale`]'s operands.
    fn scale(&self, body: &mut Body, operands: &[ScalarId]) -> ScalarId {
        match self.scale {
            Scale::Number(scale) => number(body, *scale),
            Scale::Told(_) => operands[operands.len() - 1],
            Scale::Quotient { of, greatest } => {
                let op = if *greatest { BinaryOp::Max } else { BinaryOp::Min };
                let mut chosen = None;
                for (size, of) in of {
                    let (size, of) = (extent(body, size), extent(body, of));
                    let quotient = body.binary(BinaryOp::Div, size, of);
                    chosen = Some(chosen.map_or(quotient, |chosen| body.binary(op, chosen, quotient)));
                }
                chosen.expect("there is an axis that is resized")
            }
        }
    }

    /// The position in the input of each output element: `[output]`.
    fn positions(&self, build: &mut Builder, rule: &Rule) -> Result<Tracked> {
        let region: Vec<Tracked> =
            self.region.iter().flatten().map(|t| build.cast(t, POSITION)).collect::<Result<_>>()?;
        let operands = self.with_scale(&region.iter().collect::<Vec<_>>());
        build.map_over(vec![self.output.clone()], &operands, |body, p| self.position(body, rule, p))
    }

    /// As `Rule::position`, of the output element at the coordinate.
    fn position(&self, body: &mut Body, rule: &Rule, operands: &[ScalarId]) -> ScalarId {
        let i = extent(body, &var(0));
        let (input, output, scale) =
            (extent(body, &self.input), extent(body, &self.output), self.scale(body, operands));
        let (half, one, zero) = (number(body, 0.5), number(body, 1.0), number(body, 0.0));
        let width = body.binary(BinaryOp::Mul, input, scale);
        let centre = body.binary(BinaryOp::Add, i, half);
        let centre = body.binary(BinaryOp::Div, centre, scale);
        let half_pixel = body.binary(BinaryOp::Sub, centre, half);
        let (before_last, steps) = (body.binary(BinaryOp::Sub, input, one), body.binary(BinaryOp::Sub, width, one));
        let is_single = body.compare(CompareOp::Eq, output, one);
        match rule.transform {
            Transform::HalfPixel => half_pixel,
            Transform::HalfPixelSymmetric => {
                let part = body.binary(BinaryOp::Div, output, width);
                let missing = body.binary(BinaryOp::Sub, one, part);
                let middle = body.binary(BinaryOp::Mul, input, half);
                let shift = body.binary(BinaryOp::Mul, middle, missing);
                body.binary(BinaryOp::Add, shift, half_pixel)
            }
            Transform::PytorchHalfPixel => body.select(is_single, zero, half_pixel),
            Transform::TfHalfPixel => centre,
            Transform::AlignCorners => {
                let along = body.binary(BinaryOp::Mul, i, before_last);
                let along = body.binary(BinaryOp::Div, along, steps);
                let is_one = body.compare(CompareOp::Eq, width, one);
                body.select(is_one, zero, along)
            }
            Transform::Asymmetric => body.binary(BinaryOp::Div, i, scale),
            Transform::CropAndResize => {
                let (start, end) = if self.region.is_some() { (operands[0], operands[1]) } else { (zero, one) };
                // start·(input − 1) + i·(end − start)·(input − 1)/(output − 1), or the middle
                let (size, sum) = (body.binary(BinaryOp::Sub, end, start), body.binary(BinaryOp::Add, start, end));
                let first = body.binary(BinaryOp::Mul, start, before_last);
                let along = body.binary(BinaryOp::Mul, i, size);
                let along = body.binary(BinaryOp::Mul, along, before_last);
                let last = body.binary(BinaryOp::Sub, output, one);
                let along = body.binary(BinaryOp::Div, along, last);
                let along = body.binary(BinaryOp::Add, first, along);
                let middle = body.binary(BinaryOp::Mul, sum, half);
                let middle = body.binary(BinaryOp::Mul, middle, before_last);
                body.select(is_single, middle, along)
            }
        }
    }
}

/// `x` resized along one axis; of a float type unless the nearest element is taken.
pub(super) fn resize_along(build: &mut Builder, x: &Tracked, along: &Along<'_>, rule: &Rule) -> Result<Tracked> {
    // Scaled, nothing is nothing, of which nothing is read.
    if !matches!(along.scale, Scale::Told(_)) {
        build.require_at_least("an axis that is resized", &along.input, &Dim::constant(1))?;
    }
    let positions = along.positions(build, rule)?;
    let resized = match rule.mode {
        Mode::Nearest(rounding) => {
            let places = build.map(&along.with_scale(&[&positions]), |body, p| {
                let scale = along.scale(body, p);
                let at = rounded(body, p[0], rounding, scale);
                clamped(body, at, &along.input)
            })?;
            build.gather(x, &places, along.axis)?
        }
        _ if rule.blurs(along.scale.number()) => blurred(build, x, along, rule, &positions)?,
        Mode::Linear | Mode::Cubic { .. } => mixed(build, x, along, rule, &positions)?,
    };
    let Some(value) = rule.extrapolated else { return Ok(resized) };
    let positions = spread(build, &positions, x, along)?;
    build.map(&[&resized, &positions], |body, p| {
        let (zero, last) = (number(body, 0.0), extent(body, &(along.input.clone() - 1)));
        let (below, beyond) = (body.compare(CompareOp::Lt, p[1], zero), body.compare(CompareOp::Gt, p[1], last));
        let outside = body.binary(BinaryOp::Or, below, beyond);
        let value = body.constant(body.dtype(p[0]), value);
        body.select(outside, value, p[0])
    })
}

fn rounded(body: &mut Body, at: ScalarId, rounding: Rounding, scale: ScalarId) -> ScalarId {
    let half = number(body, 0.5);
    let (up, down) = (body.unary(UnaryOp::Ceil, at), body.unary(UnaryOp::Floor, at));
    match rounding {
        Rounding::PreferFloor => {
            let before = body.binary(BinaryOp::Sub, at, half);
            body.unary(UnaryOp::Ceil, before)
        }
        Rounding::PreferCeil => {
            let after = body.binary(BinaryOp::Add, at, half);
            body.unary(UnaryOp::Floor, after)
        }
        Rounding::Floor => down,
        Rounding::Ceil => up,
        Rounding::Outwards => {
            let one = number(body, 1.0);
            let shrinks = body.compare(CompareOp::Lt, scale, one);
            body.select(shrinks, up, down)
        }
    }
}

/// The element at a whole position, or the first or last one.
fn clamped(body: &mut Body, at: ScalarId, input: &Dim) -> ScalarId {
    let (zero, last) = (number(body, 0.0), extent(body, &(input.clone() - 1)));
    let at = body.binary(BinaryOp::Min, at, last);
    let at = body.binary(BinaryOp::Max, at, zero);
    body.cast(DType::I64, at)
}

/// One number per output element, ready to broadcast to the result.
fn spread(build: &mut Builder, of: &Tracked, x: &Tracked, along: &Along<'_>) -> Result<Tracked> {
    build.along_axis(of, along.axis, x.rank())
}

/// The weight of an element at a distance, in elements of the output.
fn weight(body: &mut Body, mode: Mode, distance: ScalarId) -> ScalarId {
    let dtype = body.dtype(distance);
    let (zero, one, two) = (body.constant(dtype, 0.0), body.constant(dtype, 1.0), body.constant(dtype, 2.0));
    let d = body.unary(UnaryOp::Abs, distance);
    let Mode::Cubic { a } = mode else {
        let rest = body.binary(BinaryOp::Sub, one, d);
        return body.binary(BinaryOp::Max, rest, zero);
    };
    let near = polynomial(body, d, &[a + 2.0, -(a + 3.0), 0.0, 1.0]);
    let far = polynomial(body, d, &[a, -5.0 * a, 8.0 * a, -4.0 * a]);
    let (is_near, is_far) = (body.compare(CompareOp::Le, d, one), body.compare(CompareOp::Lt, d, two));
    let outer = body.select(is_far, far, zero);
    body.select(is_near, near, outer)
}

/// `Σ coefficients[n] · x^(len−1−n)`
pub(in crate::ops) fn polynomial(body: &mut Body, x: ScalarId, coefficients: &[f64]) -> ScalarId {
    let dtype = body.dtype(x);
    let mut sum = body.constant(dtype, coefficients[0]);
    for &coefficient in &coefficients[1..] {
        let (product, coefficient) = (body.binary(BinaryOp::Mul, sum, x), body.constant(dtype, coefficient));
        sum = body.binary(BinaryOp::Add, product, coefficient);
    }
    sum
}

/// `weight`, but 0 outside of the axis if the rule says so.
fn weight_inside(body: &mut Body, rule: &Rule, weight: ScalarId, at: ScalarId, input: &Dim) -> ScalarId {
    if !rule.exclude_outside {
        return weight;
    }
    let (zero, size) = (number(body, 0.0), extent(body, input));
    let (from, to) = (body.compare(CompareOp::Ge, at, zero), body.compare(CompareOp::Lt, at, size));
    let inside = body.binary(BinaryOp::And, from, to);
    let nothing = body.constant(body.dtype(weight), 0.0);
    body.select(inside, weight, nothing)
}

/// The two or four elements around each position, looked up one after the other.
fn mixed(build: &mut Builder, x: &Tracked, along: &Along<'_>, rule: &Rule, positions: &Tracked) -> Result<Tracked> {
    let offsets = if rule.mode == Mode::Linear { 0..=1 } else { -1..=2 };
    let mut parts = Vec::new();
    // The neighbour's position, and its weight before all are made to sum to 1.
    let neighbour = |body: &mut Body, at: ScalarId, offset: i64| {
        let before = body.unary(UnaryOp::Floor, at);
        let offset = number(body, offset as f64);
        let place = body.binary(BinaryOp::Add, before, offset);
        let distance = body.binary(BinaryOp::Sub, place, at);
        let weight = weight(body, rule.mode, distance);
        (place, weight_inside(body, rule, weight, place, &along.input))
    };
    for offset in offsets.clone() {
        let places = build.map(&[positions], |body, p| {
            let (place, _) = neighbour(body, p[0], offset);
            clamped(body, place, &along.input)
        })?;
        let weights = build.map(&[positions], |body, p| {
            let own = neighbour(body, p[0], offset).1;
            if !rule.exclude_outside {
                return own;
            }
            let all: Vec<ScalarId> = offsets.clone().map(|o| neighbour(body, p[0], o).1).collect();
            let total = all[1..].iter().fold(all[0], |sum, &w| body.binary(BinaryOp::Add, sum, w));
            body.binary(BinaryOp::Div, own, total)
        })?;
        parts.push(build.gather(x, &places, along.axis)?);
        parts.push(spread(build, &weights, x, along)?);
    }
    let parts: Vec<&Tracked> = parts.iter().collect();
    build.map(&parts, |body, p| {
        let mut sum = None;
        for pair in p.chunks_exact(2) {
            let weight = body.cast(body.dtype(pair[0]), pair[1]);
            let mut product = body.binary(BinaryOp::Mul, pair[0], weight);
            if matches!(along.scale, Scale::Told(_)) {
                // Its scale may turn out to be 1, and neighbours not to matter, whatever they are.
                let zero = body.constant(body.dtype(pair[0]), 0.0);
                let is_of_no_weight = body.compare(CompareOp::Eq, weight, zero);
                product = body.select(is_of_no_weight, zero, product);
            }
            sum = Some(sum.map_or(product, |sum| body.binary(BinaryOp::Add, sum, product)));
        }
        sum.expect("there are neighbours")
    })
}

/// Means over as many elements as an output element is wide: a product with a matrix of weights, most of them zero.
/// Beyond the ends the first and last element go on.
fn blurred(build: &mut Builder, x: &Tracked, along: &Along<'_>, rule: &Rule, positions: &Tracked) -> Result<Tracked> {
    let reach = if rule.mode == Mode::Linear { 1 } else { 2 };
    let beyond = match along.scale.number() {
        Some(scale) if reach as f64 / scale > MAX_TABLE as f64 => {
            return Err(mismatch("a scale that leaves an element for each few million", x.shape()));
        }
        Some(scale) => Dim::constant((reach as f64 / scale).ceil() as i64 + 1),
        None => along.input.scale(reach).ceil_div(&along.output.maximum(&Dim::constant(1))) + 1,
    };
    // Over [element, output]; elements are counted from `beyond` before the first.
    let count = along.input.clone() + beyond.scale(2);
    let shape = vec![count.clone(), along.output.clone()];
    let at = build.view(positions, vec![var(1)], shape)?;
    let weights = build.map(&along.with_scale(&[&at]), |body, p| {
        let (scale, one) = (along.scale(body, p), number(body, 1.0));
        let scale = body.binary(BinaryOp::Min, scale, one);
        let place = extent(body, &(var(0) - beyond.clone()));
        let distance = body.binary(BinaryOp::Sub, place, p[0]);
        let distance = body.binary(BinaryOp::Mul, distance, scale);
        let weight = weight(body, rule.mode, distance);
        weight_inside(body, rule, weight, place, &along.input)
    })?;
    let total = build.reduce(&[&weights], &[0], Reducer::sum(POSITION), |_, p| p.to_vec())?.remove(0);
    let weights = build.map(&[&weights, &total], |body, p| body.binary(BinaryOp::Div, p[0], p[1]))?;
    let weights = build.cast(&weights, x.dtype())?;
    let mut shape = x.shape().to_vec();
    shape[along.axis] = count;
    let mut own: Vec<IndexExpr> = (0..x.rank()).map(var).collect();
    let last = along.input.clone() - 1;
    own[along.axis] = (var(along.axis) - beyond).maximum(&Dim::constant(0)).minimum(&last);
    let extended = build.view(x, own, shape)?;
    let labels: Vec<u8> = (0..x.rank() as u8).collect();
    let (from, to) = (along.axis as u8, x.rank() as u8);
    let output: Vec<u8> = labels.iter().map(|&l| if l == from { to } else { l }).collect();
    build.contract((&extended, &labels), (&weights, &[from, to]), &output)
}
