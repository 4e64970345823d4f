//! Resize and Upsample, one axis after the other.
//!
//! Nearest neighbours are a view (`i div s` and the like) where the positions follow such a rule, else a look-up.
//! Linear and cubic are sums of such views with constant weights. Where extents are symbolic or positions depend on data,
//! positions and weights are computed ([`computed`]).

mod computed;
mod coordinates;

use super::Operator;
use super::gather::pick;
use super::grid_sample::weighing_type;
use super::reduce::{largest_value, smallest_value};
use crate::build::{Builder, Result, exact_quotient, index, mismatch, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::host::extents_of_floats;
use crate::tracked::Tracked;
pub(super) use computed::polynomial;
use computed::{Along, POSITION, resize_along};
use coordinates::{Axis, Rule, Taps, fit};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::{DType, Tensor};
use std::slice::from_ref;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Resize", 10, resize), Operator::new("Upsample", 1, upsample).until(10)];

const SCALES: &str = "the scales";

/// Longer axes are not resized through tables.
const MAX_TABLE: i64 = 1 << 22;

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

/// Output elements per input element.
#[derive(Clone, Debug)]
enum Scale {
    /// A number.
    Number(f64),
    /// The least or the greatest quotient of a size and an extent, as they are when the model runs.
    Quotient {
        /// The sizes and the extents.
        of: Vec<(Dim, Dim)>,
        /// True if it is the greatest.
        greatest: bool,
    },
    /// A scalar (f32) that is computed.
    Told(Tracked),
}

impl Scale {
    fn number(&self) -> Option<f64> {
        if let Scale::Number(scale) = self { Some(*scale) } else { None }
    }
}

/// How one axis changes.
struct Target {
    axis: usize,
    extent: Dim,
    scale: Scale,
    /// Start and end of the region, as scalars.
    region: Option<[Tracked; 2]>,
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
                // In f32, in which scales are given: 0.7 · 10 is 7 there, but a little less in f64.
                Some(extent) => Dim::constant((extent as f32 * scale as f32).floor() as i64),
                None => {
                    let (p, q) = fraction(scale);
                    extent.scale(p).floor_div(&Dim::constant(q))
                }
            };
            Ok(Target { axis, extent: resized, scale: Scale::Number(scale), region: None })
        })
        .collect()
}

/// As [`targets_from_scales`], where only the run tells some of them: kernels compute the extents.
fn targets_from_told_scales(call: &mut Call<'_>, x: &Tracked, axes: &[usize], scales: &Tracked) -> Result<Vec<Target>> {
    if scales.rank() != 1 {
        return Err(mismatch(format!("{} axes, one per scale", axes.len()), scales.shape()));
    }
    let build = &mut *call.build;
    build.require_equal("the scales and the axes", &scales.shape()[0], &Dim::constant(axes.len() as i64))?;
    let (mut targets, mut told) = (Vec::new(), Vec::new());
    for (n, &axis) in axes.iter().enumerate() {
        if let Some(scale) = build.known_element(scales, n).and_then(|item| item.scalar()) {
            targets.append(&mut targets_from_scales(x, &[axis], &[scale.to_f64()])?);
            continue;
        }
        let scale = build.view(scales, vec![IndexExpr::constant(n as i64)], Vec::new())?;
        let scale = build.cast(&scale, POSITION)?;
        told.push(build.map(&[&scale], |body, p| {
            let extent = index(body, x.shape()[axis].clone());
            let extent = body.cast(POSITION, extent);
            let resized = body.binary(BinaryOp::Mul, extent, p[0]);
            let resized = body.unary(UnaryOp::Floor, resized);
            // What is not positive is no scale.
            let (zero, refused) = (body.constant(POSITION, 0.0), body.constant(POSITION, f64::INFINITY));
            let is_scale = body.compare(CompareOp::Gt, p[0], zero);
            body.select(is_scale, resized, refused)
        })?);
        // Until all are counted.
        let extent = Dim::constant(0);
        targets.push(Target { axis, extent, scale: Scale::Told(scale), region: None });
    }
    let extents = extents_of_floats(build, &told.iter().collect::<Vec<_>>(), SCALES)?;
    let computed = targets.iter_mut().filter(|target| matches!(target.scale, Scale::Told(_)));
    computed.zip(extents).for_each(|(target, extent)| target.extent = extent);
    Ok(targets)
}

/// A scale as a fraction: the one with the least denominator that it is the nearest f32 to, or what its bits say.
fn fraction(scale: f64) -> (i64, i64) {
    let small = (1..=1024i64).find_map(|q| {
        let p = (scale * q as f64).round();
        ((p / q as f64) as f32 == scale as f32 && p >= 1.0).then_some((p as i64, q))
    });
    // An f32 has 24 digits: with another 24 behind the point all that matters is whole.
    small.unwrap_or(((scale * (1i64 << 24) as f64) as i64, 1 << 24))
}

/// Scales apply to the region, which must be known for the extents to be.
fn crop_targets(x: &Tracked, targets: &mut [Target], scales: &[f64], region: &Tracked) -> Result<()> {
    let what = "the region that scales apply to";
    let bounds = region.floats().ok_or(Problem::DynamicValue { what })?;
    if bounds.len() != 2 * targets.len() {
        return Err(mismatch("a start and an end per axis", region.shape()));
    }
    let axes = targets.len();
    for (n, (target, &scale)) in targets.iter_mut().zip(scales).enumerate() {
        let extent = x.shape()[target.axis].as_const().ok_or(Problem::DynamicValue { what: "a resized extent" })?;
        let part = (bounds[n + axes] - bounds[n]) as f32 * scale as f32;
        target.extent = Dim::constant((extent as f32 * part).floor().max(0.0) as i64);
    }
    Ok(())
}

/// Takes the regions' starts and ends, one per axis that is resized, then the other.
fn set_regions(call: &mut Call<'_>, targets: &mut [Target], region: &Tracked) -> Result<()> {
    let axes = targets.len() as i64;
    if region.rank() != 1 {
        return Err(mismatch("a start and an end per axis", region.shape()));
    }
    call.build.require_equal("the starts and ends of regions", &region.shape()[0], &Dim::constant(2 * axes))?;
    for (n, target) in targets.iter_mut().enumerate() {
        let mut one = |at: i64| call.build.view(region, vec![IndexExpr::constant(at)], Vec::new());
        target.region = Some([one(n as i64)?, one(n as i64 + axes)?]);
    }
    Ok(())
}

fn targets_from_sizes(
    build: &mut Builder,
    x: &Tracked,
    axes: &[usize],
    sizes: &[Dim],
    policy: &str,
) -> Result<Vec<Target>> {
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
    let quotients: Vec<(Dim, Dim)> = sizes.iter().zip(&extents).map(|(s, &e)| (s.clone(), e.clone())).collect();
    let greatest = match policy {
        "stretch" => {
            let targets = axes.iter().zip(quotients).zip(scales);
            return Ok(targets
                .map(|((&axis, quotient), scale)| {
                    let extent = quotient.0.clone();
                    let quotient = Scale::Quotient { of: vec![quotient], greatest: false };
                    Target { axis, extent, scale: scale.map_or(quotient, Scale::Number), region: None }
                })
                .collect());
        }
        "not_larger" => false,
        "not_smaller" => true,
        other => {
            let expected = "stretch, not_larger or not_smaller";
            let attribute = "keep_aspect_ratio_policy";
            return Err(Problem::InvalidAttribute { attribute, expected, found: other.to_owned() });
        }
    };
    let numbers: Option<Vec<f64>> = scales.into_iter().collect();
    let numbers = numbers.filter(|_| extents.iter().all(|extent| extent.as_const().is_some()));
    let scale = match numbers {
        Some(scales) if greatest => Scale::Number(scales.into_iter().fold(0.0, f64::max)),
        Some(scales) => Scale::Number(scales.into_iter().fold(f64::MAX, f64::min)),
        None => Scale::Quotient { of: quotients.clone(), greatest },
    };
    let targets = axes.iter().zip(extents).map(|(&axis, extent)| {
        let resized = match (scale.number(), extent.as_const()) {
            (Some(scale), Some(extent)) => Dim::constant((extent as f64 * scale + 0.5).floor() as i64),
            // Rounding keeps the order, so that the least of what is rounded is the least, rounded.
            _ => {
                let rounded = quotients.iter().map(|(size, of)| {
                    let twice = (extent.clone() * size.clone()).scale(2) + of.clone();
                    twice.floor_div(&of.maximum(&Dim::constant(1)).scale(2))
                });
                let chosen = rounded.reduce(|a, b| if greatest { a.maximum(&b) } else { a.minimum(&b) });
                build.size("a resized extent", &chosen.unwrap_or_else(|| extent.clone()))?
            }
        };
        Ok(Target { axis, extent: resized, scale: scale.clone(), region: None })
    });
    targets.collect()
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
            let capped = body.binary(BinaryOp::Min, p[0], most);
            body.binary(BinaryOp::Max, capped, least)
        })?;
    }
    Ok(vec![call.build.cast(&result, dtype)?])
}

fn resize_axis(call: &mut Call<'_>, x: &Tracked, target: &Target, rule: &Rule) -> Result<Tracked> {
    let extent = x.shape()[target.axis].clone();
    let scale = target.scale.number();
    if rule.crops() || rule.blurs(scale) {
        return compute_axis(call, x, target, rule);
    }
    let (Some(input), Some(output), Some(scale)) = (extent.as_const(), target.extent.as_const(), scale) else {
        let Some(at) = rule.symbolic(scale, var(target.axis)) else {
            return compute_axis(call, x, target, rule);
        };
        return read_at(call, x, target, at);
    };
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
