//! Resize and Upsample, one axis after the other.
//!
//! Nearest neighbours are a view (`i div s` and the like) where the positions follow such a rule, else a look-up.
//! Linear and cubic are sums of such views with constant weights. Where extents are symbolic or positions depend on data,
//! positions and weights are computed ([`computed`]).

mod computed;
mod coordinates;
mod targets;

use super::Operator;
use super::gather::pick;
use super::grid_sample::weighing_type;
use super::reduce::{largest_value, smallest_value};
use crate::build::{Result, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
pub(super) use computed::polynomial;
use computed::{Along, resize_along};
use coordinates::{Axis, Rule, Taps, fit};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, UnaryOp};
use infc_tensor::{DType, Tensor};
use targets::{
    SCALES, Target, crop_targets, set_regions, targets_from_scales, targets_from_sizes, targets_from_told_scales,
};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Resize", 10, resize), Operator::new("Upsample", 1, upsample).until(10)];

/// Longer axes are not resized through tables.
const MAX_TABLE: i64 = 1 << 22;

/// Elements that a sum of look-ups is written out for, by judgement.
const MOST_TAPS: i64 = 32;

/// Multiply-adds of a product that take as long as a look-up: by judgement, a vector's lanes are gathered one by one.
const LOOK_UP: i64 = 16;

/// The scales are two attributes before opset 7, one list before opset 9, and an input from then on.
fn upsample(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let scales = match call.opset {
        ..7 => Some(vec![1.0, 1.0, call.float_or("height_scale", 1.0)?, call.float_or("width_scale", 1.0)?]),
        7..9 => call.floats("scales")?.map(|s| s.iter().map(|&v| f64::from(v)).collect()),
        _ => call.input(1)?.floats(),
    };
    if scales.is_none() && call.opset < 9 {
        let (attribute, expected) = ("scales", "one per axis");
        return Err(Problem::InvalidAttribute { attribute, expected, found: "none".to_owned() });
    }
    let rule = Rule::legacy(&call.string("mode", "nearest")?)?;
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    let targets = match scales {
        Some(scales) => targets_from_scales(&x, &axes, &scales)?,
        None => targets_from_told_scales(call, &x, &axes, &call.input(1)?)?,
    };
    apply(call, &x, &targets, &rule)
}

fn resize(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if call.opset < 11 {
        return upsample(call);
    }
    let rule = Rule::of(call)?;
    let axes: Vec<usize> = match call.ints("axes")? {
        Some(given) => given.iter().map(|&a| axis(a, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    let given = |index: usize| call.optional(index).filter(|t| !t.shape().iter().any(|d| d.is_const(0)));
    let region = if rule.crops() { given(1) } else { None };
    let mut targets = match (given(2), given(3)) {
        (Some(scales), _) => match (scales.floats(), &region) {
            (Some(scales), None) => targets_from_scales(&x, &axes, &scales)?,
            (Some(scales), Some(region)) => {
                let mut targets = targets_from_scales(&x, &axes, &scales)?;
                crop_targets(&x, &mut targets, &scales, region)?;
                targets
            }
            (None, None) => targets_from_told_scales(call, &x, &axes, &scales)?,
            (None, Some(_)) => return Err(Problem::DynamicValue { what: SCALES }),
        },
        (None, Some(_)) => {
            let sizes = call.sizes(3, "the sizes")?;
            let policy = call.string("keep_aspect_ratio_policy", "stretch")?;
            targets_from_sizes(call.build, &x, &axes, &sizes, &policy)?
        }
        (None, None) => return Err(Problem::MissingInput { index: 3 }),
    };
    if let Some(region) = region {
        set_regions(call, &mut targets, &region)?;
    }
    apply(call, &x, &targets, &rule)
}

fn apply(call: &mut Call<'_>, x: &Tracked, targets: &[Target], rule: &Rule) -> Result<Vec<Tracked>> {
    let dtype = x.dtype();
    // Sums over all axes are rounded once.
    let wide = if rule.mixes() { weighing_type(dtype) } else { dtype };
    let mut result = call.build.cast(x, wide)?;
    for target in targets {
        // A scale of 1 reads every element where it is, whatever the rule, unless a region does not.
        if target.region.is_some() || result.shape()[target.axis] != target.extent || target.scale.number() != Some(1.0)
        {
            result = resize_axis(call, &result, target, rule)?;
        }
    }
    if dtype.is_int() && rule.mixes() {
        result = call.build.map(&[&result], |body, p| {
            let (least, most) = (smallest_value(dtype).to_f64(), largest_value(dtype).to_f64());
            let (least, most) = (body.constant(body.dtype(p[0]), least), body.constant(body.dtype(p[0]), most));
            // As ONNX Runtime does: towards zero, but where many elements are weighed.
            let whole = if rule.antialias { body.unary(UnaryOp::Round, p[0]) } else { p[0] };
            let capped = body.binary(BinaryOp::Min, whole, most);
            body.binary(BinaryOp::Max, capped, least)
        })?;
    }
    Ok(vec![call.build.cast(&result, dtype)?])
}

fn resize_axis(call: &mut Call<'_>, x: &Tracked, target: &Target, rule: &Rule) -> Result<Tracked> {
    let extent = x.shape()[target.axis].clone();
    let scale = target.scale.number();
    if rule.crops() {
        return compute_axis(call, x, target, rule);
    }
    let (Some(input), Some(output), Some(scale)) = (extent.as_const(), target.extent.as_const(), scale) else {
        let Some(at) = rule.symbolic(scale, var(target.axis)) else {
            return compute_axis(call, x, target, rule);
        };
        return read_at(call, x, target, at);
    };
    if rule.blurs(Some(scale)) && !is_better_looked_up(rule, scale, input) {
        return compute_axis(call, x, target, rule);
    }
    if input == 0 || output > MAX_TABLE || input > MAX_TABLE {
        return Err(mismatch(format!("extents from 1 to {MAX_TABLE} to resize"), &[extent, target.extent.clone()]));
    }
    let axis = Axis { input, output, scale };
    let taps = rule.taps(&axis);
    if let Taps::Nearest(positions) = &taps {
        return read(call, x, target, positions, &axis);
    }
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

/// Whether means are better sums of a few elements each, looked up one by one, than a product with a matrix of weights.
fn is_better_looked_up(rule: &Rule, scale: f64, input: i64) -> bool {
    let (first, last) = rule.neighbours(scale);
    let taps = last.saturating_sub(first).saturating_add(1);
    taps <= MOST_TAPS && taps * LOOK_UP <= input
}

fn compute_axis(call: &mut Call<'_>, x: &Tracked, target: &Target, rule: &Rule) -> Result<Tracked> {
    let (axis, input, output) = (target.axis, x.shape()[target.axis].clone(), target.extent.clone());
    let region = target.region.as_ref().map(|[start, end]| [start, end]);
    resize_along(call.build, x, &Along { axis, input, output, scale: &target.scale, region }, rule)
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
