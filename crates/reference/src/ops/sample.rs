//! Operators that read between elements: `GridSample`, `AffineGrid`, `DeformConv`.
//!
//! Coordinates of samples are computed in `f64` from the elements as they are stored.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, read_as_f64, write_f64_as};
use crate::shape;
use infc_tensor::Tensor;

/// What lies outside of an image.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How an element at a whole position along one axis is found.
struct Axis {
    len: usize,
    padding: Padding,
    /// The first and last position that are not reflected.
    border: (f64, f64),
}

impl Axis {
    fn new(len: usize, padding: Padding, align_corners: bool) -> Self {
        let border = if align_corners { (0.0, len as f64 - 1.0) } else { (-0.5, len as f64 - 0.5) };
        Self { len, padding, border }
    }

    fn clamped(&self, x: f64) -> f64 {
        x.clamp(0.0, self.len as f64 - 1.0)
    }

    fn reflected(&self, x: f64) -> f64 {
        let (low, high) = self.border;
        let span = high - low;
        if span == 0.0 {
            return 0.0;
        }
        let along = (x - low).abs().rem_euclid(2.0 * span);
        low + if along > span { 2.0 * span - along } else { along }
    }

    /// A point that lies outside, moved to where it is read. Between four elements each is moved by itself, as PyTorch and ONNX
    /// Runtime do: two elements outside all are the one at the border.
    fn settled(&self, x: f64, is_cubic: bool) -> f64 {
        if x >= self.border.0 && x <= self.border.1 {
            return x;
        }
        match self.padding {
            Padding::Zeros => x,
            Padding::Border if is_cubic => x.clamp(-2.0, self.len as f64 + 1.0),
            Padding::Border => self.clamped(x),
            Padding::Reflection => self.reflected(x),
        }
    }

    /// The element at a whole position; `None` is zero.
    fn element(&self, x: f64) -> Option<usize> {
        let inside = x >= 0.0 && x < self.len as f64;
        match self.padding {
            _ if inside => Some(x as usize),
            Padding::Zeros => None,
            Padding::Border => Some(self.clamped(x) as usize),
            Padding::Reflection => Some(self.clamped(self.reflected(x)) as usize),
        }
    }
}

/// Weights of the neighbours of a point that lies `t` after an element, and the first neighbour's distance from it.
fn neighbours(mode: &str, t: f64) -> Result<(Vec<f64>, f64)> {
    const A: f64 = -0.75;
    let near = |d: f64| ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0;
    let far = |d: f64| ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
    match mode {
        "nearest" => Ok((vec![1.0], 0.0)),
        "linear" | "bilinear" => Ok((vec![1.0 - t, t], 0.0)),
        "cubic" | "bicubic" => Ok((vec![far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)], -1.0)),
        _ => Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be nearest, linear or cubic" }),
    }
}

/// The value of one plane at a point, of which `point` has the coordinates.
fn interpolated(plane: &[f64], axes: &[Axis], mode: &str, point: &[f64]) -> Result<f64> {
    // Flat positions (`None` in the padding) and weights of the taps, axis by axis.
    let mut taps = vec![(Some(0usize), 1.0)];
    for (axis, &x) in axes.iter().zip(point) {
        let x = axis.settled(if mode == "nearest" { x.round_ties_even() } else { x }, mode.ends_with("cubic"));
        let base = x.floor();
        let (weights, first) = neighbours(mode, x - base)?;
        let mut next = Vec::with_capacity(taps.len() * weights.len());
        for (flat, weight) in taps {
            for (n, along) in weights.iter().enumerate() {
                let element = axis.element(base + first + n as f64);
                let flat = flat.zip(element).map(|(flat, element)| flat * axis.len + element);
                next.push((flat, weight * along));
            }
        }
        taps = next;
    }
    Ok(taps.into_iter().map(|(flat, weight)| flat.map_or(0.0, |flat| plane[flat] * weight)).sum())
}

/// `GridSample`: an image `[N, C, d…]` at `grid [N, o…, axes]`, whose coordinates go from −1 to 1, the last axis first.
pub(crate) fn grid_sample(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let ([batch, channels, spatial @ ..], [grid_batch, out @ .., coordinates]) = (x.shape(), grid.shape()) else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a batch and a channel axis are needed" });
    };
    if batch != grid_batch || out.len() != spatial.len() || *coordinates != spatial.len() || spatial.is_empty() {
        return Err(EvalError::ShapeMismatch {
            left: x.shape().to_vec(),
            right: grid.shape().to_vec(),
            reason: "the grid must have one position per element of the result",
        });
    }
    let align_corners = call.flag("align_corners", false)?;
    let mode = call.string("mode", "linear")?;
    let padding = match call.string("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        _ => return Err(EvalError::InvalidAttribute { name: "padding_mode", reason: "it names no way of padding" }),
    };
    let axes: Vec<Axis> = spatial.iter().map(|&len| Axis::new(len, padding, align_corners)).collect();
    let shape = [&[*batch, *channels], out].concat();
    checked_len(x.dtype(), &shape)?;
    check_work(shape.iter().chain(&[64]))?;
    let (image, points) = (shape::len(spatial), shape::len(out));
    let (values, grid) = (read_as_f64(x)?, f64::read(grid)?);
    let mut result = Vec::with_capacity(shape::len(&shape));
    if image == 0 && !shape.contains(&0) {
        return Err(EvalError::InvalidInput { index: 0, reason: "there is nothing to sample" });
    }
    for n in 0..*batch {
        for c in 0..*channels {
            let plane = &values[(n * channels + c) * image..][..image];
            for p in 0..points {
                let given = &grid[(n * points + p) * coordinates..][..*coordinates];
                let point: Vec<f64> = given
                    .iter()
                    .rev()
                    .zip(spatial)
                    .map(|(&g, &len)| {
                        let len = len as f64;
                        if align_corners { (g + 1.0) / 2.0 * (len - 1.0) } else { ((g + 1.0) * len - 1.0) / 2.0 }
                    })
                    .collect();
                result.push(interpolated(plane, &axes, mode, &point)?);
            }
        }
    }
    one(write_f64_as(x.dtype(), &shape, result.into_iter())?)
}

/// `AffineGrid`: each position of an image, from −1 to 1 and the last axis first, mapped by `theta [N, d, d + 1]`.
pub(crate) fn affine_grid(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let theta = call.input(0)?;
    let size = shape::dims(&call.int_list(1)?.ok_or(EvalError::MissingInput { index: 1 })?)?;
    let align_corners = call.flag("align_corners", false)?;
    let [batch, _, spatial @ ..] = &size[..] else {
        return Err(EvalError::InvalidInput { index: 1, reason: "the extents of an image are needed" });
    };
    let count = spatial.len();
    if theta.shape() != [*batch, count, count + 1] {
        return Err(EvalError::InvalidInput { index: 0, reason: "one affine map per image is needed" });
    }
    let out = [&[*batch], spatial, &[count]].concat();
    checked_len(theta.dtype(), &out)?;
    let maps = f64::read(theta)?;
    let mut grid = Vec::with_capacity(shape::len(&out));
    let mut at = vec![0; count];
    for map in maps.chunks((count * (count + 1)).max(1)) {
        at.fill(0);
        for _ in 0..shape::len(spatial) {
            let mut position: Vec<f64> = at
                .iter()
                .zip(spatial)
                .map(|(&i, &len)| {
                    let (i, len) = (i as f64, len as f64);
                    if align_corners { 2.0 * i / (len - 1.0).max(1.0) - 1.0 } else { (2.0 * i + 1.0) / len - 1.0 }
                })
                .collect();
            position.reverse();
            position.push(1.0);
            grid.extend(map.chunks(count + 1).map(|row| row.iter().zip(&position).map(|(a, b)| a * b).sum::<f64>()));
            shape::advance(&mut at, spatial);
        }
    }
    one(f64::write(theta.dtype(), &out, grid.into_iter())?)
}

/// `DeformConv`: a convolution whose window elements are moved by offsets and scaled by a mask.
pub(crate) fn deform_conv(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, weights, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let ([batch, channels, spatial @ ..], [outputs, per_group, kernel @ ..]) = (x.shape(), weights.shape()) else {
        return Err(EvalError::InvalidInput { index: 0, reason: "a batch and a channel axis are needed" });
    };
    if kernel.len() != spatial.len() {
        return Err(EvalError::InvalidInput { index: 1, reason: "the window has other axes than the image" });
    }
    let positive = |name: &'static str| -> Result<usize> {
        usize::try_from(call.int(name, 1)?)
            .ok()
            .filter(|&n| n > 0)
            .ok_or(EvalError::InvalidAttribute { name, reason: "it must be positive" })
    };
    let (groups, offset_groups) = (positive("group")?, positive("offset_group")?);
    if per_group.checked_mul(groups) != Some(*channels) || outputs % groups != 0 || channels % offset_groups != 0 {
        return Err(EvalError::InvalidAttribute { name: "group", reason: "it does not divide the channels" });
    }
    let window = super::window::Window::new(call, spatial, kernel.to_vec())?;
    let (taps, count, points) = (shape::len(kernel), kernel.len(), shape::len(&window.out));
    let offset_shape = [&[*batch, offset_groups * taps * count], &window.out[..]].concat();
    let mask_shape = [&[*batch, offset_groups * taps], &window.out[..]].concat();
    let mask = call.optional(4);
    if offset.shape() != offset_shape || mask.is_some_and(|m| m.shape() != mask_shape) {
        return Err(EvalError::InvalidInput { index: 2, reason: "its extents do not follow from the window" });
    }
    let bias = call.optional(3).map(f64::read).transpose()?;
    if bias.as_ref().is_some_and(|b| b.len() != *outputs) {
        return Err(EvalError::InvalidInput { index: 3, reason: "one bias per output channel is needed" });
    }
    let shape = [&[*batch, *outputs], &window.out[..]].concat();
    checked_len(x.dtype(), &shape)?;
    check_work(shape.iter().chain([per_group, &taps, &8]))?;
    let (values, filters, offsets) = (f64::read(x)?, f64::read(weights)?, f64::read(offset)?);
    let mask = mask.map(f64::read).transpose()?;
    let axes: Vec<Axis> = spatial.iter().map(|&len| Axis::new(len, Padding::Zeros, true)).collect();
    let image = shape::len(spatial);
    let mut result = Vec::with_capacity(shape::len(&shape));
    let (mut position, mut entry) = (vec![0; count], vec![0; count]);
    for n in 0..*batch {
        for m in 0..*outputs {
            position.fill(0);
            for p in 0..points {
                let mut sum = bias.as_ref().map_or(0.0, |b| b[m]);
                for c in 0..*per_group {
                    let channel = m / (outputs / groups) * per_group + c;
                    let group = n * offset_groups + channel / (channels / offset_groups);
                    let plane = &values[(n * channels + channel) * image..][..image];
                    entry.fill(0);
                    for r in 0..taps {
                        let point: Vec<f64> = (0..count)
                            .map(|axis| {
                                let at =
                                    window.start(axis, position[axis]) + (entry[axis] * window.dilations[axis]) as i64;
                                at as f64 + offsets[((group * taps + r) * count + axis) * points + p]
                            })
                            .collect();
                        let share = mask.as_ref().map_or(1.0, |mask| mask[(group * taps + r) * points + p]);
                        let filter = filters[(m * per_group + c) * taps + r];
                        sum += interpolated(plane, &axes, "linear", &point)? * share * filter;
                        shape::advance(&mut entry, kernel);
                    }
                }
                result.push(sum);
                shape::advance(&mut position, &window.out);
            }
        }
    }
    one(f64::write(x.dtype(), &shape, result.into_iter())?)
}
