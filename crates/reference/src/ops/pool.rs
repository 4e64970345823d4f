//! Poolings: maximum, average, Lp and their global forms, `MaxUnpool`.

use super::window::Window;
use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, with_scalar, write_i64s};
use crate::shape;
use infc_tensor::Tensor;

/// The spatial extents of `[N, C, …]`.
fn spatial(x: &Tensor) -> Result<&[usize]> {
    match x.shape() {
        [_, _, spatial @ ..] if !spatial.is_empty() => Ok(spatial),
        _ => Err(EvalError::InvalidInput { index: 0, reason: "spatial axes are needed" }),
    }
}

fn kernel(call: &Call<'_>, rank: usize) -> Result<Vec<usize>> {
    if call.ints("kernel_shape")?.is_none() {
        return Err(EvalError::InvalidAttribute { name: "kernel_shape", reason: "it is missing" });
    }
    super::window::positive(call, "kernel_shape", rank)
}

/// The positions of a window over an input, and for each position what lies inside of the input.
struct Pooling<'a> {
    window: Window,
    input: &'a [usize],
    planes: usize,
    out: Vec<usize>,
}

impl<'a> Pooling<'a> {
    fn new(call: &Call<'_>, x: &'a Tensor) -> Result<Self> {
        let input = spatial(x)?;
        let window = Window::new(call, input, kernel(call, input.len())?)?;
        let out = [&x.shape()[..2], &window.out[..]].concat();
        checked_len(x.dtype(), &out)?;
        check_work(out.iter().chain(&window.kernel))?;
        Ok(Self { window, input, planes: shape::len(&x.shape()[..2]), out })
    }

    /// Calls `f` for every output element with its flat index, its window's position and the flat indices (in the
    /// whole input) of the elements in its window.
    fn for_each(&self, mut f: impl FnMut(usize, &[usize], &[usize])) {
        let (image, positions) = (shape::len(self.input), shape::len(&self.window.out));
        let mut position = vec![0; self.input.len()];
        let mut inside = Vec::new();
        let mut moved = Vec::new();
        for p in 0..if self.planes == 0 { 0 } else { positions } {
            inside.clear();
            self.window.for_each_inside(self.input, &position, |_, at| inside.push(at));
            for plane in 0..self.planes {
                moved.clear();
                moved.extend(inside.iter().map(|at| plane * image + at));
                f(plane * positions + p, &position, &moved);
            }
            shape::advance(&mut position, &self.window.out);
        }
    }
}

/// `MaxPool`: also returns the flat index of every maximum, optionally counted in column-major order.
pub(crate) fn max_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let pooling = Pooling::new(call, x)?;
    let column_major = call.flag("storage_order", false)?;
    let len = shape::len(&pooling.out);
    let mut indices = vec![0i64; len];
    let dtype = x.dtype();
    let values = with_scalar!(dtype, T => {
        let values = T::read(x)?;
        let mut maxima = vec![T::lowest(dtype); len];
        pooling.for_each(|o, _, inside| {
            let mut best: Option<usize> = None;
            for &at in inside {
                // NaN stays once it is found.
                let better = best.is_none_or(|b| values[at] > values[b] || (values[at].is_nan() && !values[b].is_nan()));
                if better {
                    best = Some(at);
                }
            }
            if let Some(best) = best {
                maxima[o] = values[best];
                indices[o] = best as i64;
            }
        });
        T::write(dtype, &pooling.out, maxima.into_iter())?
    });
    if column_major {
        let image = shape::len(pooling.input);
        let mut coords = vec![0; pooling.input.len()];
        for index in &mut indices {
            let (plane, at) = (*index as usize / image, *index as usize % image);
            shape::unravel(at, pooling.input, &mut coords);
            let at = coords.iter().zip(pooling.input).rev().fold(0, |flat, (&c, &dim)| flat * dim + c);
            *index = (plane * image + at) as i64;
        }
    }
    Ok(vec![values, write_i64s(&pooling.out, &indices)?])
}

/// `AveragePool`: padding counts only if `count_include_pad`, and what `ceil_mode` adds never does.
pub(crate) fn average_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let pooling = Pooling::new(call, x)?;
    let include_pad = call.flag("count_include_pad", false)?;
    let values = f64::read(x)?;
    let mut averages = vec![0.0; shape::len(&pooling.out)];
    pooling.for_each(|o, position, inside| {
        let count = if include_pad { padded_count(&pooling, position) } else { inside.len() };
        averages[o] = inside.iter().map(|&at| values[at]).sum::<f64>() / count as f64;
    });
    one(f64::write(x.dtype(), &pooling.out, averages.into_iter())?)
}

/// How many entries of the window at `position` lie inside of the padded input.
fn padded_count(pooling: &Pooling<'_>, position: &[usize]) -> usize {
    let window = &pooling.window;
    (0..position.len())
        .map(|axis| {
            let (start, dilation) = (window.start(axis, position[axis]), window.dilations[axis] as i64);
            let room = pooling.input[axis] as i64 + window.pads_after[axis] - start;
            ((room + dilation - 1) / dilation).clamp(0, window.kernel[axis] as i64) as usize
        })
        .product()
}

/// `(Σ |x|^p)^(1/p)`.
fn lp_norm(values: impl Iterator<Item = f64>, p: f64) -> f64 {
    if p == 2.0 {
        values.map(|v| v * v).sum::<f64>().sqrt()
    } else {
        values.map(|v| v.abs().powf(p)).sum::<f64>().powf(1.0 / p)
    }
}

/// The exponent of an Lp pooling, a float in the first opset and an integer since.
fn exponent(call: &Call<'_>) -> Result<f64> {
    if call.opset() < 2 { call.float("p", 2.0) } else { Ok(call.int("p", 2)? as f64) }
}

pub(crate) fn lp_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let pooling = Pooling::new(call, x)?;
    let p = exponent(call)?;
    let values = f64::read(x)?;
    let mut norms = vec![0.0; shape::len(&pooling.out)];
    pooling.for_each(|o, _, inside| norms[o] = lp_norm(inside.iter().map(|&at| values[at]), p));
    one(f64::write(x.dtype(), &pooling.out, norms.into_iter())?)
}

/// Reduces all spatial axes to one element.
fn global(call: &Call<'_>, f: impl Fn(&[f64]) -> f64) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let image = shape::len(spatial(x)?);
    let mut out = x.shape().to_vec();
    out[2..].fill(1);
    checked_len(x.dtype(), &out)?;
    let values = f64::read(x)?;
    let planes = shape::len(&x.shape()[..2]);
    one(f64::write(x.dtype(), &out, (0..planes).map(|plane| f(&values[plane * image..(plane + 1) * image])))?)
}

pub(crate) fn global_average_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    global(call, |plane| plane.iter().sum::<f64>() / plane.len() as f64)
}

pub(crate) fn global_max_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    global(call, |plane| plane.iter().fold(f64::NEG_INFINITY, |max, &v| max.larger(v)))
}

pub(crate) fn global_lp_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let p = exponent(call)?;
    global(call, |plane| lp_norm(plane.iter().copied(), p))
}

/// `MaxUnpool`: puts every element where the indices of a `MaxPool` say, zeros elsewhere.
pub(crate) fn max_unpool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let input = spatial(x)?;
    let rank = input.len();
    if indices.shape() != x.shape() {
        return Err(EvalError::InvalidInput { index: 1, reason: "one index per element is needed" });
    }
    let kernel = kernel(call, rank)?;
    let strides = super::window::positive(call, "strides", rank)?;
    let (before, after) = super::window::explicit_pads(call, rank)?;
    let mut pooled = x.shape().to_vec();
    for axis in 0..rank {
        let len = (input[axis] as i128 - 1) * strides[axis] as i128 + kernel[axis] as i128
            - i128::from(before[axis])
            - i128::from(after[axis]);
        pooled[axis + 2] = usize::try_from(len).map_err(|_| EvalError::NegativeExtent { extent: len as i64 })?;
    }
    let out = match call.int_list(2)? {
        Some(list) => shape::dims(&list)?,
        None => pooled.clone(),
    };
    if out.len() != pooled.len() {
        return Err(EvalError::InvalidInput { index: 2, reason: "the output shape has another rank" });
    }
    let len = checked_len(x.dtype(), &out)?;
    let mut values = vec![0.0; len];
    // The indices are flat in the tensor that was pooled, whose extents the given output shape may exceed.
    checked_len(x.dtype(), &pooled)?;
    let pooled_len = shape::len(&pooled);
    let strides = shape::strides(&out);
    let mut coords = vec![0; pooled.len()];
    for (value, index) in f64::read(x)?.into_iter().zip(int_list(indices, 1)?) {
        shape::unravel(shape::index(index, pooled_len)?, &pooled, &mut coords);
        let target = shape::ravel(&coords, &strides);
        *values.get_mut(target).ok_or(EvalError::IndexOutOfRange { index, len })? = value;
    }
    one(f64::write(x.dtype(), &out, values.into_iter())?)
}

/// `Col2Im`: blocks `[N, C·block, positions]` added up where a window that slid over the image took them from.
pub(crate) fn col2im(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let list = |index: usize| call.int_list(index)?.ok_or(EvalError::MissingInput { index });
    let (image, block) = (shape::dims(&list(1)?)?, shape::dims(&list(2)?)?);
    if image.iter().chain(&block).any(|&d| d > crate::limits::MAX_OUTPUT_ELEMS) {
        return Err(EvalError::InvalidInput { index: 1, reason: "the extents are too large" });
    }
    let window = Window::new(call, &image, block)?;
    let (elements, positions) = (shape::len(&window.kernel), shape::len(&window.out));
    let &[batch, columns, blocks] = x.shape() else {
        return Err(EvalError::InvalidInput { index: 0, reason: "3 axes are needed" });
    };
    if columns % elements != 0 || blocks != positions {
        return Err(EvalError::InvalidInput { index: 0, reason: "its extents do not follow from image and block" });
    }
    let (planes, pixels) = (batch * (columns / elements), shape::len(&image));
    let out = [&[batch, columns / elements], &image[..]].concat();
    checked_len(x.dtype(), &out)?;
    check_work(&[planes, positions, elements])?;
    let dtype = x.dtype();
    one(with_scalar!(dtype, T => {
        let values = T::read(x)?;
        let mut sums = vec![T::ZERO; shape::len(&out)];
        let mut position = vec![0; image.len()];
        for p in 0..if planes == 0 { 0 } else { positions } {
            window.for_each_inside(&image, &position, |entry, at| {
                for plane in 0..planes {
                    let sum = &mut sums[plane * pixels + at];
                    *sum = sum.plus(values[(plane * elements + entry) * positions + p]);
                }
            });
            shape::advance(&mut position, &window.out);
        }
        T::write(dtype, &out, sums.into_iter())?
    }))
}
