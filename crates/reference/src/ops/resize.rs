//! `Resize` and its predecessor `Upsample`.
//!
//! Axes are interpolated one after another: each output coordinate is a weighted sum of input coordinates. What differs
//! between opsets is where scales, sizes and regions are given, and the default relation of coordinates.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{MAX_OUTPUT_ELEMS, check_work, checked_len};
use crate::numeric::{Scalar, read_as_f64, write_f64_as};
use crate::select::select;
use crate::shape;
use infc_tensor::Tensor;

/// How weights fall off with distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// Where an axis of the output lies over the input.
#[derive(Clone, Debug)]
struct AxisPlan {
    input: usize,
    output: usize,
    scale: f64,
    /// Start and end of the region of interest, as fractions of the axis.
    region: (f64, f64),
}

/// What one output coordinate reads: weighted input coordinates, or `None` outside of the region's input.
type Taps = Option<Vec<(usize, f64)>>;

/// The attributes that say how coordinates and weights are computed.
struct Sampling<'a> {
    mode: Mode,
    transformation: &'a str,
    nearest: &'a str,
    cubic_a: f64,
    exclude_outside: bool,
    antialias: bool,
}

pub(crate) fn upsample(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let scales = match call.opset() {
        ..7 => {
            let height = f64::from(call.node.attributes.float_or("height_scale", 1.0)?);
            let width = f64::from(call.node.attributes.float_or("width_scale", 1.0)?);
            vec![1.0, 1.0, height, width]
        }
        7..9 => call.node.attributes.floats("scales")?.unwrap_or(&[]).iter().map(|&s| f64::from(s)).collect(),
        _ => f64::read(call.input(1)?)?,
    };
    let axes: Vec<usize> = (0..x.rank()).collect();
    let plans = scaled_axes(x.shape(), &axes, &scales, None)?;
    resample(x, &plans, &legacy_sampling(call)?, 0.0)
}

/// Before opset 11, coordinates were divided by the scale and rounded down, or up when downsampling.
fn legacy_sampling<'a>(call: &Call<'a>) -> Result<Sampling<'a>> {
    Ok(Sampling {
        mode: mode(call)?,
        transformation: "asymmetric",
        nearest: "legacy",
        cubic_a: -0.75,
        exclude_outside: false,
        antialias: false,
    })
}

fn mode(call: &Call<'_>) -> Result<Mode> {
    match call.string("mode", "nearest")? {
        "nearest" => Ok(Mode::Nearest),
        "linear" | "bilinear" => Ok(Mode::Linear),
        "cubic" => Ok(Mode::Cubic),
        _ => Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be nearest, linear or cubic" }),
    }
}

pub(crate) fn resize(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    if call.opset() < 11 {
        let axes: Vec<usize> = (0..x.rank()).collect();
        let plans = scaled_axes(x.shape(), &axes, &f64::read(call.input(1)?)?, None)?;
        return resample(x, &plans, &legacy_sampling(call)?, 0.0);
    }
    let sampling = Sampling {
        mode: mode(call)?,
        transformation: call.string("coordinate_transformation_mode", "half_pixel")?,
        nearest: call.string("nearest_mode", "round_prefer_floor")?,
        cubic_a: call.float("cubic_coeff_a", -0.75)?,
        exclude_outside: call.flag("exclude_outside", false)?,
        antialias: call.flag("antialias", false)?,
    };
    let axes = match call.ints("axes")? {
        Some(list) => shape::axes(list, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let given = |index: usize| call.optional(index).filter(|t| t.len_elems() > 0);
    let region = match given(1) {
        Some(roi) if sampling.transformation == "tf_crop_and_resize" => {
            let roi = f64::read(roi)?;
            if roi.len() != 2 * axes.len() {
                return Err(EvalError::InvalidInput { index: 1, reason: "a start and an end per axis are needed" });
            }
            Some(roi)
        }
        _ => None,
    };
    let plans = match (given(2), given(3)) {
        (Some(scales), None) => scaled_axes(x.shape(), &axes, &f64::read(scales)?, region.as_deref())?,
        (None, Some(_)) => sized_axes(call, x.shape(), &axes, region.as_deref())?,
        _ => return Err(EvalError::InvalidInput { index: 2, reason: "either scales or sizes are needed" }),
    };
    resample(x, &plans, &sampling, call.float("extrapolation_value", 0.0)?)
}

/// Plans that leave every axis as it is.
fn unchanged(input: &[usize]) -> Vec<AxisPlan> {
    input.iter().map(|&len| AxisPlan { input: len, output: len, scale: 1.0, region: (0.0, 1.0) }).collect()
}

fn set_regions(plans: &mut [AxisPlan], axes: &[usize], region: Option<&[f64]>) {
    if let Some(region) = region {
        axes.iter().enumerate().for_each(|(i, &axis)| plans[axis].region = (region[i], region[i + axes.len()]));
    }
}

fn scaled_axes(input: &[usize], axes: &[usize], scales: &[f64], region: Option<&[f64]>) -> Result<Vec<AxisPlan>> {
    if scales.len() != axes.len() || scales.iter().any(|&s| !s.is_finite() || s <= 0.0) {
        return Err(EvalError::InvalidInput { index: 2, reason: "one positive scale per axis is needed" });
    }
    let mut plans = unchanged(input);
    set_regions(&mut plans, axes, region);
    for (&axis, &scale) in axes.iter().zip(scales) {
        let plan = &mut plans[axis];
        // In f32, in which the scales are given: 0.7 · 10 is 7 there, but a little less in f64.
        let region_scale = (plan.region.1 - plan.region.0) as f32 * scale as f32;
        let output = (plan.input as f32 * region_scale).floor();
        if output > MAX_OUTPUT_ELEMS as f32 {
            return Err(EvalError::TooLarge { dtype: infc_tensor::DType::F32, shape: vec![output as usize] });
        }
        plan.output = output as usize;
        plan.scale = scale;
    }
    Ok(plans)
}

fn sized_axes(call: &Call<'_>, input: &[usize], axes: &[usize], region: Option<&[f64]>) -> Result<Vec<AxisPlan>> {
    let sizes = shape::dims(&call.int_list(3)?.ok_or(EvalError::MissingInput { index: 3 })?)?;
    if sizes.len() != axes.len() {
        return Err(EvalError::InvalidInput { index: 3, reason: "one size per axis is needed" });
    }
    let mut plans = unchanged(input);
    set_regions(&mut plans, axes, region);
    for (&axis, &size) in axes.iter().zip(&sizes) {
        plans[axis].output = size;
        plans[axis].scale = if plans[axis].input == 0 { 1.0 } else { size as f64 / plans[axis].input as f64 };
    }
    let scales = axes.iter().map(|&axis| plans[axis].scale);
    let common = match call.string("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => return Ok(plans),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        _ => {
            return Err(EvalError::InvalidAttribute { name: "keep_aspect_ratio_policy", reason: "it names no policy" });
        }
    };
    for &axis in axes {
        plans[axis].scale = common;
        plans[axis].output = (common * plans[axis].input as f64 + 0.5).floor() as usize;
    }
    Ok(plans)
}

/// Interpolates along all axes.
fn resample(x: &Tensor, plans: &[AxisPlan], sampling: &Sampling<'_>, extrapolation: f64) -> Result<Vec<Tensor>> {
    let out: Vec<usize> = plans.iter().map(|plan| plan.output).collect();
    let len = checked_len(x.dtype(), &out)?;
    if len > 0 && x.len_elems() == 0 {
        return Err(EvalError::InvalidInput { index: 0, reason: "there is nothing to resize" });
    }
    if len == 0 {
        return one(Tensor::zeros(x.dtype(), &out)?);
    }
    let taps = plans.iter().map(|plan| axis_taps(plan, sampling)).collect::<Result<Vec<_>>>()?;
    if sampling.mode == Mode::Nearest {
        return pick_nearest(x, &out, &taps, extrapolation);
    }
    let mut extents = x.shape().to_vec();
    let mut values = read_as_f64(x)?;
    for (axis, taps) in taps.iter().enumerate() {
        // Skipping what does not change keeps the other axes' cost down; it is exact.
        let same = plans[axis].input == plans[axis].output
            && taps.iter().enumerate().all(|(i, t)| matches!(t.as_deref(), Some(&[(at, w)]) if at == i && w == 1.0));
        if same {
            continue;
        }
        let (outer, from, inner) = shape::around(&extents, axis);
        extents[axis] = taps.len();
        let widest = taps.iter().flatten().map(Vec::len).max().unwrap_or(1);
        checked_len(x.dtype(), &extents)?;
        check_work(extents.iter().chain(&[widest]))?;
        let mut next = Vec::with_capacity(shape::len(&extents));
        for o in 0..outer {
            for tap in taps {
                for i in 0..inner {
                    next.push(match tap {
                        Some(tap) => tap.iter().map(|&(at, weight)| values[(o * from + at) * inner + i] * weight).sum(),
                        None => extrapolation,
                    });
                }
            }
        }
        values = next;
    }
    // As ONNX Runtime does: towards zero, but where many elements are weighed.
    if sampling.antialias && x.dtype().is_int() {
        values.iter_mut().for_each(|value| *value = value.round_ties_even());
    }
    one(write_f64_as(x.dtype(), &out, values.into_iter())?)
}

/// Nearest-neighbour sampling moves elements without computing, so it works for every type.
fn pick_nearest(x: &Tensor, out: &[usize], taps: &[Vec<Taps>], extrapolation: f64) -> Result<Vec<Tensor>> {
    let outside = if taps.iter().flatten().any(Option::is_none) {
        write_f64_as(x.dtype(), &[], std::iter::once(extrapolation))?
    } else {
        x.clone()
    };
    let strides = shape::strides(x.shape());
    let mut coords = vec![0; out.len()];
    let picks = (0..shape::len(out)).map(|flat| {
        shape::unravel(flat, out, &mut coords);
        let index = coords.iter().zip(taps).zip(&strides).try_fold(0usize, |index, ((&c, taps), &stride)| {
            let tap = taps[c].as_deref()?.iter().find(|&&(_, weight)| weight != 0.0)?;
            Some(index + tap.0 * stride as usize)
        });
        index.map_or((1, 0), |index| (0, index))
    });
    one(select(&[x, &outside], out, picks)?)
}

/// The most weights that one axis may have; they are all kept.
const MAX_TAPS: usize = 1 << 24;

/// What every output coordinate of one axis reads.
fn axis_taps(plan: &AxisPlan, sampling: &Sampling<'_>) -> Result<Vec<Taps>> {
    // An axis that keeps its length and its place is not sampled at all.
    if plan.input == plan.output && plan.scale == 1.0 && sampling.transformation != "tf_crop_and_resize" {
        return Ok((0..plan.output).map(|i| Some(vec![(i, 1.0)])).collect());
    }
    let support = if sampling.antialias { plan.scale.min(1.0) } else { 1.0 };
    let reach = match sampling.mode {
        Mode::Nearest | Mode::Linear => 1.0,
        Mode::Cubic => 2.0,
    };
    // The entries that can have a weight: from `start` to `1 - start` around the element at or before the coordinate.
    let start = (-reach / support).floor() as i64 + 1;
    let width = (2 - 2 * start).unsigned_abs() as usize;
    if plan.output.saturating_mul(width) > MAX_TAPS {
        return Err(EvalError::TooLarge { dtype: infc_tensor::DType::F64, shape: vec![plan.output, width] });
    }
    (0..plan.output)
        .map(|position| {
            let Some(at) = source_coordinate(plan, sampling.transformation, position as f32)? else { return Ok(None) };
            let at = f64::from(at);
            // A whole coordinate counts as the right end of the interval before it.
            let base = at.ceil() - 1.0;
            let ratio = at - base;
            let mut weights: Vec<f64> = match sampling.mode {
                Mode::Nearest => nearest_weights(sampling.nearest, ratio, plan.scale)?,
                Mode::Linear => {
                    (start..=1 - start).map(|i| (1.0 - ((i as f64 - ratio) * support).abs()).clamp(0.0, 1.0)).collect()
                }
                Mode::Cubic => {
                    (start..=1 - start).map(|i| cubic((i as f64 - ratio) * support, sampling.cubic_a)).collect()
                }
            };
            let coordinate = |i: usize| base as i64 + start + i as i64;
            if sampling.exclude_outside {
                for (i, weight) in weights.iter_mut().enumerate() {
                    if !(0..plan.input as i64).contains(&coordinate(i)) {
                        *weight = 0.0;
                    }
                }
            }
            let total: f64 = weights.iter().sum();
            let clamp = |at: i64| at.clamp(0, plan.input as i64 - 1) as usize;
            Ok(Some(weights.iter().enumerate().map(|(i, weight)| (clamp(coordinate(i)), weight / total)).collect()))
        })
        .collect()
}

/// The input coordinate under an output coordinate; `None` if it is to be extrapolated.
///
/// Computed in `f32`, in which scales are given: 8.5 / 1.7 is 5 there and decides ties as it does in other
/// implementations, while in `f64` it would be a little less.
fn source_coordinate(plan: &AxisPlan, transformation: &str, x: f32) -> Result<Option<f32>> {
    let (input, scale, output) = (plan.input as f32, plan.scale as f32, plan.output as f32);
    // Not rounded down: a scale of 0.6 makes 4 elements 2.4 wide.
    let width = input * scale;
    let half_pixel = (x + 0.5) / scale - 0.5;
    Ok(Some(match transformation {
        "half_pixel" => half_pixel,
        "half_pixel_symmetric" => input / 2.0 * (1.0 - output / width) + (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel" if plan.output > 1 => half_pixel,
        "pytorch_half_pixel" => 0.0,
        "align_corners" if width == 1.0 => 0.0,
        "align_corners" => x * (input - 1.0) / (width - 1.0),
        "asymmetric" => x / scale,
        "tf_half_pixel_for_nn" => (x + 0.5) / scale,
        "tf_crop_and_resize" => {
            let (start, end) = (plan.region.0 as f32, plan.region.1 as f32);
            let at = if plan.output > 1 {
                start * (input - 1.0) + x * (end - start) * (input - 1.0) / (output - 1.0)
            } else {
                0.5 * (start + end) * (input - 1.0)
            };
            if at < 0.0 || at > input - 1.0 {
                return Ok(None);
            }
            at
        }
        _ => {
            return Err(EvalError::InvalidAttribute {
                name: "coordinate_transformation_mode",
                reason: "it names no transformation",
            });
        }
    }))
}

/// Weights of the elements before and after a coordinate that lies `ratio` (of `0 < ratio <= 1`) between them.
fn nearest_weights(mode: &str, ratio: f64, scale: f64) -> Result<Vec<f64>> {
    let after = match mode {
        _ if ratio == 1.0 => true,
        "round_prefer_floor" => ratio > 0.5,
        "round_prefer_ceil" => ratio >= 0.5,
        "floor" => false,
        "ceil" => true,
        "legacy" => scale < 1.0,
        _ => return Err(EvalError::InvalidAttribute { name: "nearest_mode", reason: "it names no way of rounding" }),
    };
    Ok(if after { vec![0.0, 1.0] } else { vec![1.0, 0.0] })
}

/// The cubic convolution kernel with parameter `a`.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
