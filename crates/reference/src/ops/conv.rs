//! `Conv` and `ConvTranspose` over any number of spatial axes.

use super::window::{Window, explicit_pads, positive, reach};
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::Scalar;
use crate::select::common_dtype;
use crate::shape;
use infc_tensor::{DType, Tensor};

/// Extents of a convolution `[N, C, …] * [M, C / groups, …]`.
pub(super) struct Convolution {
    batch: usize,
    channels: usize,
    groups: usize,
    input: Vec<usize>,
    features: usize,
    window: Window,
    /// Extents of the result, `[N, M, …]`.
    pub(super) out: Vec<usize>,
}

impl Convolution {
    pub(super) fn new(call: &Call<'_>, x: &[usize], w: &[usize]) -> Result<Self> {
        let mismatch = |reason| EvalError::ShapeMismatch { left: x.to_vec(), right: w.to_vec(), reason };
        let (&[batch, channels, ref input @ ..], &[features, per_group, ref kernel @ ..]) = (x, w) else {
            return Err(mismatch("a batch and channels are needed"));
        };
        let groups = groups(call)?;
        if per_group.checked_mul(groups) != Some(channels) || features % groups != 0 {
            return Err(mismatch("the channels do not fit the groups"));
        }
        if call.ints("kernel_shape")?.is_some() && positive(call, "kernel_shape", input.len())? != kernel {
            return Err(EvalError::InvalidAttribute { name: "kernel_shape", reason: "it differs from the weights" });
        }
        let window = Window::new(call, input, kernel.to_vec())?;
        let out = [&[batch, features], &window.out[..]].concat();
        check_work(out.iter().chain(&[per_group]).chain(kernel))?;
        Ok(Self { batch, channels, groups, input: input.to_vec(), features, window, out })
    }

    /// The elements of the result. `out` must have passed [`checked_len`].
    pub(super) fn compute<T: Scalar>(&self, x: &[T], w: &[T]) -> Vec<T> {
        let mut out = vec![T::ZERO; shape::len(&self.out)];
        if out.is_empty() {
            return out;
        }
        let (per_group, group_features) = (self.channels / self.groups, self.features / self.groups);
        let (image, taps) = (shape::len(&self.input), shape::len(&self.window.kernel));
        let positions = shape::len(&self.window.out);
        let mut position = vec![0; self.input.len()];
        let mut inside = Vec::new();
        for p in 0..positions {
            inside.clear();
            self.window.for_each_inside(&self.input, &position, |entry, at| inside.push((entry, at)));
            for n in 0..self.batch {
                for m in 0..self.features {
                    let first_channel = m / group_features * per_group;
                    let mut sum = T::ZERO;
                    for c in 0..per_group {
                        let plane = (n * self.channels + first_channel + c) * image;
                        let kernel = (m * per_group + c) * taps;
                        for &(entry, at) in &inside {
                            sum = sum.plus(x[plane + at].times(w[kernel + entry]));
                        }
                    }
                    out[(n * self.features + m) * positions + p] = sum;
                }
            }
            shape::advance(&mut position, &self.window.out);
        }
        out
    }
}

pub(super) fn groups(call: &Call<'_>) -> Result<usize> {
    match usize::try_from(call.int("group", 1)?) {
        Ok(groups) if groups > 0 => Ok(groups),
        _ => Err(EvalError::InvalidAttribute { name: "group", reason: "it must be positive" }),
    }
}

/// Adds one value per feature to `[N, M, …]`.
fn add_bias(values: &mut [f64], out: &[usize], bias: Option<&Tensor>, index: usize) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    if bias.shape() != [out[1]] {
        return Err(EvalError::InvalidInput { index, reason: "one value per output channel is needed" });
    }
    let bias = f64::read(bias)?;
    let plane = shape::len(&out[2..]);
    values.iter_mut().enumerate().for_each(|(flat, value)| *value += bias[flat / plane % out[1]]);
    Ok(())
}

pub(crate) fn conv(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let dtype: DType = common_dtype(&[x, w])?;
    let convolution = Convolution::new(call, x.shape(), w.shape())?;
    checked_len(dtype, &convolution.out)?;
    let mut values = convolution.compute::<f64>(&f64::read(x)?, &f64::read(w)?);
    add_bias(&mut values, &convolution.out, call.optional(2), 2)?;
    one(f64::write(dtype, &convolution.out, values.into_iter())?)
}

/// Extents and paddings of a transposed convolution along its spatial axes.
struct Transposed {
    strides: Vec<usize>,
    dilations: Vec<usize>,
    pads_before: Vec<i64>,
    out: Vec<usize>,
}

impl Transposed {
    fn new(call: &Call<'_>, input: &[usize], kernel: &[usize]) -> Result<Self> {
        let rank = input.len();
        let (strides, dilations) = (positive(call, "strides", rank)?, positive(call, "dilations", rank)?);
        let extra = match call.ints("output_padding")? {
            Some(list) if list.len() == rank && list.iter().all(|&e| (0..1 << 29).contains(&e)) => list.to_vec(),
            Some(_) => return Err(EvalError::InvalidAttribute { name: "output_padding", reason: "it does not fit" }),
            None => vec![0; rank],
        };
        let auto_pad = call.string("auto_pad", "NOTSET")?;
        let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
        if auto_pad == "NOTSET" {
            (before, after) = explicit_pads(call, rank)?;
        }
        // What the strides alone give, before anything is cut off at the ends.
        let full = |axis: usize| {
            let len = input[axis] as i128;
            strides[axis] as i128 * (len - 1)
                + i128::from(extra[axis])
                + i128::from(reach(kernel[axis], dilations[axis]))
        };
        let wanted: Option<Vec<i128>> = match (call.ints("output_shape")?, auto_pad) {
            (Some(list), _) if list.len() >= rank => {
                Some(list[list.len() - rank..].iter().map(|&v| i128::from(v)).collect())
            }
            (Some(_), _) => {
                return Err(EvalError::InvalidAttribute { name: "output_shape", reason: "it is too short" });
            }
            (None, "SAME_UPPER" | "SAME_LOWER") => {
                Some((0..rank).map(|axis| input[axis] as i128 * strides[axis] as i128).collect())
            }
            (None, _) => None,
        };
        let mut out = Vec::with_capacity(rank);
        for axis in 0..rank {
            let len = match &wanted {
                Some(wanted) => {
                    // Cut what is too much, the odd element at the start only for SAME_UPPER's opposite.
                    let cut = (full(axis) - wanted[axis]).max(0) as i64;
                    before[axis] = if auto_pad == "SAME_UPPER" { cut / 2 } else { cut - cut / 2 };
                    wanted[axis]
                }
                None => full(axis) - i128::from(before[axis]) - i128::from(after[axis]),
            };
            out.push(usize::try_from(len).map_err(|_| EvalError::NegativeExtent { extent: len as i64 })?);
        }
        Ok(Self { strides, dilations, pads_before: before, out })
    }
}

/// `ConvTranspose`: every input element adds a scaled kernel to the output.
pub(crate) fn conv_transpose(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let dtype = common_dtype(&[x, w])?;
    let mismatch = |reason| EvalError::ShapeMismatch { left: x.shape().to_vec(), right: w.shape().to_vec(), reason };
    let (&[batch, channels, ref input @ ..], &[w_channels, group_features, ref kernel @ ..]) = (x.shape(), w.shape())
    else {
        return Err(mismatch("a batch and channels are needed"));
    };
    let groups = groups(call)?;
    if w_channels != channels || channels % groups != 0 || kernel.len() != input.len() || kernel.contains(&0) {
        return Err(mismatch("the channels do not fit the groups"));
    }
    let geometry = Transposed::new(call, input, kernel)?;
    let features = group_features.saturating_mul(groups);
    let out = [&[batch, features], &geometry.out[..]].concat();
    let len = checked_len(dtype, &out)?;
    check_work(x.shape().iter().chain(&[group_features]).chain(kernel))?;
    let mut values = vec![0.0; len];
    if len > 0 && x.len_elems() > 0 {
        let (xs, ws) = (f64::read(x)?, f64::read(w)?);
        let (image, plane, taps) = (shape::len(input), shape::len(&geometry.out), shape::len(kernel));
        let mut position = vec![0; input.len()];
        for p in 0..image {
            let mut entry = vec![0; kernel.len()];
            for tap in 0..taps {
                if let Some(target) = geometry.target(&position, &entry) {
                    for (n, c) in (0..batch).flat_map(|n| (0..channels).map(move |c| (n, c))) {
                        let group = c / (channels / groups);
                        let value = xs[(n * channels + c) * image + p];
                        for f in 0..group_features {
                            let slot = (n * features + group * group_features + f) * plane + target;
                            values[slot] += value * ws[(c * group_features + f) * taps + tap];
                        }
                    }
                }
                shape::advance(&mut entry, kernel);
            }
            shape::advance(&mut position, input);
        }
    }
    add_bias(&mut values, &out, call.optional(2), 2)?;
    one(f64::write(dtype, &out, values.into_iter())?)
}

impl Transposed {
    /// The flat spatial index that a kernel entry at an input position adds to; `None` if it is cut off.
    fn target(&self, position: &[usize], entry: &[usize]) -> Option<usize> {
        (0..self.out.len()).try_fold(0usize, |flat, axis| {
            let at = (position[axis] * self.strides[axis] + entry[axis] * self.dilations[axis]) as i64;
            let at = usize::try_from(at - self.pads_before[axis]).ok().filter(|&at| at < self.out[axis])?;
            Some(flat * self.out[axis] + at)
        })
    }
}
