//! Which input positions an output position reads, and with what weights.

use crate::build::Result;
use crate::call::Call;
use crate::error::Problem;
use infc_ir::index::{Dim, IndexExpr};

/// One axis with known extents.
pub(super) struct Axis {
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transform {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    TfHalfPixel,
    AlignCorners,
    Asymmetric,
    /// A region of the input, of which what lies outside is extrapolated.
    CropAndResize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Before opset 11: down when enlarging, up when shrinking.
    Outwards,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Nearest(Rounding),
    Linear,
    Cubic { a: f64 },
}

/// How positions are computed and what is read there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) transform: Transform,
    pub(super) mode: Mode,
    /// Elements are means over as much of the input as they cover.
    pub(super) antialias: bool,
    /// What lies outside of the input has no weight, instead of the first or last element's value.
    pub(super) exclude_outside: bool,
    /// What lies outside of the input, if that is not the nearest element.
    pub(super) extrapolated: Option<f64>,
}

/// What is read: per tap, a position for every output element.
pub(super) enum Taps {
    /// One tap.
    Nearest(Vec<i64>),
    /// Several, each with weights.
    Weighted(Vec<(Vec<i64>, Vec<f64>)>),
}

impl Rule {
    /// Upsample, and Resize at opset 10.
    pub(super) fn legacy(mode: &str) -> Result<Self> {
        let mode = match mode {
            "nearest" => Mode::Nearest(Rounding::Outwards),
            "linear" | "bilinear" => Mode::Linear,
            _ => return Err(unsupported("mode", "nearest or linear", mode)),
        };
        Ok(Self {
            transform: Transform::Asymmetric,
            mode,
            antialias: false,
            exclude_outside: false,
            extrapolated: None,
        })
    }

    /// Resize since opset 11.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        let transform = call.string("coordinate_transformation_mode", "half_pixel")?;
        let transform = match transform.as_str() {
            "half_pixel" => Transform::HalfPixel,
            "half_pixel_symmetric" => Transform::HalfPixelSymmetric,
            "pytorch_half_pixel" => Transform::PytorchHalfPixel,
            "tf_half_pixel_for_nn" => Transform::TfHalfPixel,
            "align_corners" => Transform::AlignCorners,
            "asymmetric" => Transform::Asymmetric,
            "tf_crop_and_resize" => Transform::CropAndResize,
            other => return Err(unsupported("coordinate_transformation_mode", "a relation of positions", other)),
        };
        let mode = call.string("mode", "nearest")?;
        let mode = match mode.as_str() {
            "nearest" => {
                let rounding = call.string("nearest_mode", "round_prefer_floor")?;
                Mode::Nearest(match rounding.as_str() {
                    "round_prefer_floor" => Rounding::PreferFloor,
                    "round_prefer_ceil" => Rounding::PreferCeil,
                    "floor" => Rounding::Floor,
                    "ceil" => Rounding::Ceil,
                    other => return Err(unsupported("nearest_mode", "a way to round", other)),
                })
            }
            "linear" => Mode::Linear,
            "cubic" => Mode::Cubic { a: call.float_or("cubic_coeff_a", -0.75)? },
            other => return Err(unsupported("mode", "nearest, linear or cubic", other)),
        };
        let crops = transform == Transform::CropAndResize;
        let extrapolated = if crops { Some(call.float_or("extrapolation_value", 0.0)?) } else { None };
        let antialias = call.flag("antialias", false)? && !matches!(mode, Mode::Nearest(_));
        // The two neighbours of a position at the border have one value, whichever has the weight.
        let exclude_outside = call.flag("exclude_outside", false)? && (antialias || matches!(mode, Mode::Cubic { .. }));
        Ok(Self { transform, mode, antialias, exclude_outside, extrapolated })
    }

    /// True if a region is resized.
    pub(super) fn crops(&self) -> bool {
        self.transform == Transform::CropAndResize
    }

    /// True if elements are means over more than their neighbours, for output elements per input element.
    pub(super) fn blurs(&self, scale: Option<f64>) -> bool {
        self.antialias && scale.is_none_or(|scale| scale < 1.0)
    }

    /// True if elements are sums of others, and not copies.
    pub(super) fn mixes(&self) -> bool {
        !matches!(self.mode, Mode::Nearest(_))
    }

    /// The position read for output `i`, where that is the same rule whatever the extent is.
    pub(super) fn symbolic(&self, scale: Option<f64>, i: IndexExpr) -> Option<IndexExpr> {
        let scale = scale.filter(|s| s.fract() == 0.0 && *s >= 1.0)? as i64;
        let halves = matches!(self.transform, Transform::HalfPixel | Transform::PytorchHalfPixel);
        let whole = match (self.transform, self.mode) {
            (_, Mode::Nearest(_)) if scale == 1 => true,
            (Transform::Asymmetric | Transform::TfHalfPixel, Mode::Nearest(Rounding::Floor)) => true,
            (Transform::Asymmetric, Mode::Nearest(Rounding::Outwards)) => true,
            // Centres of whole blocks: nearest to the block they lie in, and never half-way between two.
            (_, Mode::Nearest(Rounding::PreferFloor | Rounding::PreferCeil)) => halves,
            _ => scale == 1 && (halves || self.transform == Transform::Asymmetric),
        };
        whole.then(|| i.floor_div(&Dim::constant(scale)))
    }

    /// The position in the input that output `i` corresponds to.
    ///
    /// Computed in f32, the type of scales, because that decides ties: 8.5 / 1.7 is 5 in f32 and a little less in f64.
    fn position(&self, axis: &Axis, i: i64) -> f64 {
        let (i, input, output, scale) = (i as f32, axis.input as f32, axis.output as f32, axis.scale as f32);
        // Not rounded to whole elements: a scale of 0.6 makes 4 elements 2.4 wide.
        let width = input * scale;
        let half_pixel = (i + 0.5) / scale - 0.5;
        f64::from(match self.transform {
            Transform::HalfPixel => half_pixel,
            Transform::HalfPixelSymmetric => input / 2.0 * (1.0 - output / width) + (i + 0.5) / scale - 0.5,
            Transform::PytorchHalfPixel if axis.output > 1 => half_pixel,
            Transform::PytorchHalfPixel => 0.0,
            Transform::TfHalfPixel => (i + 0.5) / scale,
            Transform::AlignCorners if width == 1.0 => 0.0,
            Transform::AlignCorners => i * (input - 1.0) / (width - 1.0),
            Transform::Asymmetric => i / scale,
            Transform::CropAndResize => unreachable!("regions are computed"),
        })
    }

    /// The taps of every output position.
    pub(super) fn taps(&self, axis: &Axis) -> Taps {
        let clamp = |position: f64| (position as i64).clamp(0, axis.input - 1);
        let positions: Vec<f64> = (0..axis.output).map(|i| self.position(axis, i)).collect();
        match self.mode {
            Mode::Nearest(rounding) => {
                let round = |x: f64| match rounding {
                    Rounding::PreferFloor => (x - 0.5).ceil(),
                    Rounding::PreferCeil => (x + 0.5).floor(),
                    Rounding::Floor => x.floor(),
                    Rounding::Ceil => x.ceil(),
                    Rounding::Outwards if axis.scale < 1.0 => x.ceil(),
                    Rounding::Outwards => x.floor(),
                };
                Taps::Nearest(positions.into_iter().map(|x| clamp(round(x))).collect())
            }
            Mode::Linear | Mode::Cubic { .. } => {
                let (first, last) = self.neighbours(axis.scale);
                let mut taps = vec![(Vec::new(), Vec::new()); (last - first + 1) as usize];
                for x in positions {
                    let at = |tap: usize| (x.floor() as i64).saturating_add(first + tap as i64);
                    let is_inside = |tap: usize| (0..axis.input).contains(&at(tap));
                    let is_counted = |tap: usize| !self.exclude_outside || is_inside(tap);
                    let weight =
                        |tap: usize| if is_counted(tap) { self.weight(axis.scale, at(tap) as f64 - x) } else { 0.0 };
                    let weights: Vec<f64> = (0..taps.len()).map(weight).collect();
                    let total: f64 = weights.iter().sum();
                    for (tap, (indices, values)) in taps.iter_mut().enumerate() {
                        indices.push(at(tap).clamp(0, axis.input - 1));
                        values.push(weights[tap] / total);
                    }
                }
                Taps::Weighted(taps)
            }
        }
    }

    /// The elements that have weights, counted from the one at or before a position.
    pub(super) fn neighbours(&self, scale: f64) -> (i64, i64) {
        let reach = if matches!(self.mode, Mode::Cubic { .. }) { 2.0 } else { 1.0 };
        let beyond = (reach / self.narrowing(scale)).ceil() as i64;
        (1 - beyond, beyond)
    }

    /// By how much distances are scaled: elements that are means weigh what is further away, too.
    fn narrowing(&self, scale: f64) -> f64 {
        if self.blurs(Some(scale)) { scale } else { 1.0 }
    }

    /// The weight of an element so far from a position, before all weights are made to sum to 1.
    fn weight(&self, scale: f64, distance: f64) -> f64 {
        let d = (distance * self.narrowing(scale)).abs();
        match self.mode {
            Mode::Cubic { a } => cubic_weight(a, d),
            _ => (1.0 - d).max(0.0),
        }
    }
}

/// Keys' cubic convolution at a distance.
fn cubic_weight(a: f64, d: f64) -> f64 {
    match d {
        ..=1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        ..2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        _ => 0.0,
    }
}

fn unsupported(attribute: &'static str, expected: &'static str, found: &str) -> Problem {
    Problem::UnsupportedAttribute { attribute, expected, found: found.to_owned() }
}

/// `clamp((a·i + b) div c, 0, input − 1)` that gives exactly these positions, if there is one with `a/c = input/output`.
pub(super) fn fit(positions: &[i64], axis: &Axis, i: IndexExpr) -> Option<IndexExpr> {
    if positions.is_empty() {
        return Some(IndexExpr::constant(0));
    }
    let divisor = gcd(axis.input, axis.output);
    let corners = gcd((axis.input - 1).max(1), (axis.output - 1).max(1));
    let slopes = [
        (axis.input / divisor, axis.output / divisor),
        ((axis.input - 1).max(0) / corners, (axis.output - 1).max(1) / corners),
    ];
    slopes.into_iter().find_map(|(a, c)| {
        // Finer than the slope itself, so that offsets of half a step can be expressed.
        let (a, c) = (a * 2, c * 2);
        let (mut least, mut most) = (i64::MIN, i64::MAX);
        for (n, &position) in positions.iter().enumerate() {
            let along = a * n as i64;
            if position > 0 {
                least = least.max(position * c - along);
            }
            if position < axis.input - 1 {
                most = most.min((position + 1) * c - along - 1);
            }
        }
        if least > most {
            return None;
        }
        // An even offset cancels the factor of two again.
        let offset = if least <= 0 && 0 <= most {
            0
        } else if least > 0 {
            if least % 2 != 0 && least < most { least + 1 } else { least }
        } else if most % 2 != 0 && least < most {
            most - 1
        } else {
            most
        };
        let (a, c, offset) = if offset % 2 == 0 { (a / 2, c / 2, offset / 2) } else { (a, c, offset) };
        let position = (i.scale(a) + offset).floor_div(&Dim::constant(c));
        Some(position.maximum(&Dim::constant(0)).minimum(&Dim::constant(axis.input - 1)))
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
