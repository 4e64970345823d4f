//! How axes change: extents and scales of what is resized, from sizes or scales that are known or that the run tells.

use super::computed::POSITION;
use crate::build::{Builder, Result, exact_quotient, index, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::host::extents_of_floats;
use crate::tracked::Tracked;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use std::slice::from_ref;

pub(super) const SCALES: &str = "the scales";

/// Output elements per input element.
#[derive(Clone, Debug)]
pub(super) enum Scale {
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
    pub(super) fn number(&self) -> Option<f64> {
        if let Scale::Number(scale) = self { Some(*scale) } else { None }
    }
}

/// How one axis changes.
pub(super) struct Target {
    pub(super) axis: usize,
    pub(super) extent: Dim,
    pub(super) scale: Scale,
    /// Start and end of the region, as scalars.
    pub(super) region: Option<[Tracked; 2]>,
}

pub(super) fn targets_from_scales(x: &Tracked, axes: &[usize], scales: &[f64]) -> Result<Vec<Target>> {
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
pub(super) fn targets_from_told_scales(
    call: &mut Call<'_>,
    x: &Tracked,
    axes: &[usize],
    scales: &Tracked,
) -> Result<Vec<Target>> {
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
pub(super) fn crop_targets(x: &Tracked, targets: &mut [Target], scales: &[f64], region: &Tracked) -> Result<()> {
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
pub(super) fn set_regions(call: &mut Call<'_>, targets: &mut [Target], region: &Tracked) -> Result<()> {
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

pub(super) fn targets_from_sizes(
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
