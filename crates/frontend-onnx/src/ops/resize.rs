//! Resize and Upsample, one axis after the other.
//!
//! Nearest neighbours are a view (`i div s` and the like) where the positions follow such a rule, else a look-up.
//! Linear and cubic are sums of such views with constant weights.

mod coordinates;

use super::Operator;
use super::elementwise::require_float;
use super::gather::pick;
use crate::build::{Result, exact_quotient, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
use coordinates::{Axis, Rule, Taps, fit};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::BinaryOp;
use infc_tensor::{DType, Tensor};
use std::slice::from_ref;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Resize", 10, resize), Operator::new("Upsample", 1, upsample).until(10)];

/// Longer axes are not resized through tables.
const MAX_TABLE: i64 = 1 << 22;

/// The scales are two attributes before opset 7, one list before opset 9, and an input from then on.
fn upsample(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let scales = match call.opset {
        ..7 => Some(vec![1.0, 1.0, call.float_or("height_scale", 1.0)?, call.float_or("width_scale", 1.0)?]),
        7..9 => call.floats("scales")?.map(|s| s.iter().map(|&v| f64::from(v)).collect()),
        _ => call.input(1)?.floats(),
    };
    let scales: Vec<f64> = scales.ok_or(Problem::DynamicValue { what: "the scales" })?;
    let rule = Rule::legacy(&call.string("mode", "nearest")?)?;
    let x = call.input(0)?;
    let targets = targets_from_scales(&x, &(0..x.rank()).collect::<Vec<_>>(), &scales)?;
    apply(call, &x, &targets, &rule)
}

/// How one axis changes.
struct Target {
    axis: usize,
    extent: Dim,
    /// Output elements per input element; `None` if it depends on symbols.
    scale: Option<f64>,
}

fn resize(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if call.opset < 11 {
        let scales = call.input(1)?.floats().ok_or(Problem::DynamicValue { what: "the scales" })?;
        let rule = Rule::legacy(&call.string("mode", "nearest")?)?;
        let targets = targets_from_scales(&x, &(0..x.rank()).collect::<Vec<_>>(), &scales)?;
        return apply(call, &x, &targets, &rule);
    }
    let rule = Rule::of(call)?;
    let axes: Vec<usize> = match call.ints("axes")? {
        Some(given) => given.iter().map(|&a| axis(a, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    let given = |index: usize| call.optional(index).filter(|t| !t.shape().iter().any(|d| d.is_const(0)));
    let targets = match (given(2), given(3)) {
        (Some(scales), _) => {
            let scales = scales.floats().ok_or(Problem::DynamicValue { what: "the scales" })?;
            targets_from_scales(&x, &axes, &scales)?
        }
        (None, Some(sizes)) => {
            let sizes = sizes.dims().ok_or(Problem::DynamicValue { what: "the sizes" })?;
            let policy = call.string("keep_aspect_ratio_policy", "stretch")?;
            targets_from_sizes(&x, &axes, &sizes, &policy)?
        }
        (None, None) => return Err(Problem::MissingInput { index: 3 }),
    };
    apply(call, &x, &targets, &rule)
}

fn targets_from_scales(x: &Tracked, axes: &[usize], scales: &[f64]) -> Result<Vec<Target>> {
    if scales.len() != axes.len() {
        return Err(mismatch(format!("{} axes, one per scale", scales.len()), x.shape()));
    }
    let positive = |s: &f64| s.is_finite() && *s > 0.0 && *s <= (1u64 << 40) as f64;
    if let Some(bad) = scales.iter().find(|s| !positive(s)) {
        return Err(Problem::ShapeMismatch { expected: "positive scales".to_owned(), found: bad.to_string() });
    }
    axes.iter()
        .zip(scales)
        .map(|(&axis, &scale)| {
            let extent = &x.shape()[axis];
            let resized = match extent.as_const() {
                Some(extent) => Dim::constant((extent as f64 * scale).floor() as i64),
                None if scale.fract() == 0.0 => extent.scale(scale as i64),
                None if (1.0 / scale).fract() == 0.0 => extent.floor_div(&Dim::constant((1.0 / scale) as i64)),
                None => return Err(Problem::DynamicValue { what: "an extent times a fractional scale" }),
            };
            Ok(Target { axis, extent: resized, scale: Some(scale) })
        })
        .collect()
}

fn targets_from_sizes(x: &Tracked, axes: &[usize], sizes: &[Dim], policy: &str) -> Result<Vec<Target>> {
    if sizes.len() != axes.len() {
        return Err(mismatch(format!("{} axes, one per size", sizes.len()), x.shape()));
    }
    let extents: Vec<&Dim> = axes.iter().map(|&a| &x.shape()[a]).collect();
    let scale = |size: &Dim, extent: &Dim| -> Result<Option<f64>> {
        match (size.as_const(), extent.as_const()) {
            (Some(size), Some(extent)) if extent > 0 => Ok(Some(size as f64 / extent as f64)),
            _ => Ok(exact_quotient(from_ref(size), from_ref(extent))?.and_then(|q| q.as_const()).map(|q| q as f64)),
        }
    };
    let scales: Vec<Option<f64>> = sizes.iter().zip(&extents).map(|(s, &e)| scale(s, e)).collect::<Result<_>>()?;
    let common = match policy {
        "stretch" => {
            let targets = axes.iter().zip(sizes).zip(scales);
            return Ok(targets.map(|((&axis, size), scale)| Target { axis, extent: size.clone(), scale }).collect());
        }
        "not_larger" => {
            scales.iter().copied().collect::<Option<Vec<_>>>().map(|s| s.into_iter().fold(f64::MAX, f64::min))
        }
        "not_smaller" => scales.iter().copied().collect::<Option<Vec<_>>>().map(|s| s.into_iter().fold(0.0, f64::max)),
        other => {
            let expected = "stretch, not_larger or not_smaller";
            let attribute = "keep_aspect_ratio_policy";
            return Err(Problem::InvalidAttribute { attribute, expected, found: other.to_owned() });
        }
    };
    let common = common.ok_or(Problem::DynamicValue { what: "the scale that keeps the aspect ratio" })?;
    axes.iter()
        .zip(extents)
        .map(|(&axis, extent)| {
            let extent = extent.as_const().ok_or(Problem::DynamicValue { what: "a resized extent" })?;
            let resized = (extent as f64 * common + 0.5).floor() as i64;
            Ok(Target { axis, extent: Dim::constant(resized), scale: Some(common) })
        })
        .collect()
}

fn apply(call: &mut Call<'_>, x: &Tracked, targets: &[Target], rule: &Rule) -> Result<Vec<Tracked>> {
    let mut result = x.clone();
    for target in targets {
        // A scale of 1 reads every element where it is, whatever the rule.
        if result.shape()[target.axis] != target.extent || target.scale != Some(1.0) {
            result = resize_axis(call, &result, target, rule)?;
        }
    }
    Ok(vec![result])
}

fn resize_axis(call: &mut Call<'_>, x: &Tracked, target: &Target, rule: &Rule) -> Result<Tracked> {
    let extent = x.shape()[target.axis].clone();
    let (Some(input), Some(output)) = (extent.as_const(), target.extent.as_const()) else {
        let Some(at) = rule.symbolic(target.scale, var(target.axis)) else {
            return Err(Problem::DynamicValue { what: "the positions that a resized axis reads" });
        };
        return read_at(call, x, target, at);
    };
    if input == 0 || output > MAX_TABLE || input > MAX_TABLE {
        return Err(mismatch(format!("extents from 1 to {MAX_TABLE} to resize"), &[extent, target.extent.clone()]));
    }
    let axis = Axis { input, output, scale: target.scale.unwrap_or(output as f64 / input as f64) };
    let taps = rule.taps(&axis);
    if let Taps::Nearest(positions) = &taps {
        return read(call, x, target, positions, &axis);
    }
    require_float(x)?;
    let Taps::Weighted(taps) = taps else { return Ok(x.clone()) };
    let mut parts = Vec::new();
    for (positions, weights) in &taps {
        let part = read(call, x, target, positions, &axis)?;
        let weights: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
        let weights = Tensor::from_elements(&[weights.len()], &weights).expect("as many as there are");
        let weights = call.build.constant("", weights);
        parts.push(part);
        parts.push(call.build.along_axis(&weights, target.axis, x.rank())?);
    }
    call.build.compute(&parts.iter().collect::<Vec<_>>(), |body, p| {
        let products: Vec<_> = p
            .chunks_exact(2)
            .map(|pair| {
                let weight = body.cast(body.dtype(pair[0]), pair[1]);
                body.binary(BinaryOp::Mul, pair[0], weight)
            })
            .collect();
        products[1..].iter().fold(products[0], |sum, &product| body.binary(BinaryOp::Add, sum, product))
    })
}

/// The value with one axis replaced by its elements at the given positions.
fn read(call: &mut Call<'_>, x: &Tracked, target: &Target, positions: &[i64], axis: &Axis) -> Result<Tracked> {
    if let Some(at) = fit(positions, axis, var(target.axis)) {
        return read_at(call, x, target, at);
    }
    let indices = Tensor::from_elements(&[positions.len()], positions).expect("as many as there are");
    let indices = call.build.constant("", indices);
    debug_assert_eq!(indices.dtype(), DType::I64);
    let positions: Vec<Dim> = positions.iter().map(|&p| Dim::constant(p)).collect();
    pick(call.build, x, target.axis, &indices, &positions)
}

fn read_at(call: &mut Call<'_>, x: &Tracked, target: &Target, at: IndexExpr) -> Result<Tracked> {
    let mut index: Vec<IndexExpr> = (0..x.rank()).map(var).collect();
    index[target.axis] = at;
    let mut shape = x.shape().to_vec();
    shape[target.axis] = target.extent.clone();
    call.build.view(x, index, shape)
}
