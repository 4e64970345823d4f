//! Regions of interest: `RoiAlign`, `MaxRoiPool`.

use crate::call::{Call, int_list, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::Scalar;
use crate::shape;
use infc_tensor::Tensor;

/// The image `[N, C, H, W]` of a pooling of regions.
fn image_shape(x: &Tensor) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(x.shape()).map_err(|_| EvalError::InvalidInput { index: 0, reason: "4 axes are needed" })
}

/// `RoiAlign`: means (or maxima) of samples in the bins of boxes.
pub(crate) fn roi_align(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, boxes, images) = (call.input(0)?, call.input(1)?, int_list(call.input(2)?, 2)?);
    let [batch, channels, height, width] = image_shape(x)?;
    if boxes.shape() != [images.len(), 4] {
        return Err(EvalError::InvalidInput { index: 1, reason: "one box per image index is needed" });
    }
    let bins = shape::dims(&[call.int("output_height", 1)?, call.int("output_width", 1)?])?;
    let ratio = call.int("sampling_ratio", 0)?;
    let scale = call.float("spatial_scale", 1.0)?;
    let centred = call.opset() >= 16 && call.string("coordinate_transformation_mode", "half_pixel")? == "half_pixel";
    let maximum = match call.string("mode", "avg")? {
        "avg" => false,
        "max" => true,
        _ => return Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be avg or max" }),
    };
    let shape = [images.len(), channels, bins[0], bins[1]];
    checked_len(x.dtype(), &shape)?;
    let (values, boxes) = (f64::read(x)?, f64::read(boxes)?);
    let mut result = Vec::with_capacity(shape::len(&shape));
    for (corners, &image) in boxes.chunks(4).zip(&images) {
        let image = shape::index(image, batch)?;
        // First coordinate, size of a bin and samples per bin: vertically and horizontally.
        let along = |first: f64, last: f64, bins: usize| {
            let shift = if centred { 0.5 } else { 0.0 };
            let size = (last - first) * scale;
            let size = if centred { size } else { size.max(1.0) };
            let bin = size / bins as f64;
            let samples = if ratio > 0 { ratio as f64 } else { bin.ceil().max(0.0) };
            (first * scale - shift, bin, samples)
        };
        let (y, x) = (along(corners[1], corners[3], bins[0]), along(corners[0], corners[2], bins[1]));
        check_work(&[shape::len(&shape[1..]), y.2 as usize, x.2 as usize])?;
        for c in 0..channels {
            let plane = &values[(image * channels + c) * height * width..][..height * width];
            for bin in 0..bins[0] * bins[1] {
                let (by, bx) = ((bin / bins[1]) as f64, (bin % bins[1]) as f64);
                let (mut sum, mut most) = (0.0, f64::NEG_INFINITY);
                let count = (y.2 * x.2) as usize;
                for sample in 0..count {
                    let (sy, sx) = ((sample / x.2 as usize) as f64, (sample % x.2 as usize) as f64);
                    let at_y = y.0 + by * y.1 + (sy + 0.5) * y.1 / y.2;
                    let at_x = x.0 + bx * x.1 + (sx + 0.5) * x.1 / x.2;
                    let taps = roi_taps(plane, [height, width], [at_y, at_x]);
                    sum += taps.iter().sum::<f64>();
                    most = taps.iter().fold(most, |most, &tap| most.max(tap));
                }
                result.push(match (maximum, count) {
                    (_, 0) => 0.0,
                    (true, _) => most,
                    (false, count) => sum / count as f64,
                });
            }
        }
    }
    one(f64::write(x.dtype(), &shape, result.into_iter())?)
}

/// The four neighbours of a sample with their weights; nothing farther outside than one element counts.
fn roi_taps(plane: &[f64], extents: [usize; 2], at: [f64; 2]) -> [f64; 4] {
    if (0..2).any(|n| at[n] < -1.0 || at[n] > extents[n] as f64) {
        return [0.0; 4];
    }
    let axis = |n: usize| {
        let last = extents[n].saturating_sub(1);
        let at = at[n].clamp(0.0, last as f64);
        let low = at as usize;
        ([low, (low + 1).min(last)], [1.0 - (at - low as f64), at - low as f64])
    };
    let ((rows, down), (columns, across)) = (axis(0), axis(1));
    let tap =
        |y: usize, x: usize| plane.get(rows[y] * extents[1] + columns[x]).map_or(0.0, |v| v * down[y] * across[x]);
    [tap(0, 0), tap(0, 1), tap(1, 0), tap(1, 1)]
}

/// `MaxRoiPool`: maxima of the elements in the bins of boxes `[image, x₁, y₁, x₂, y₂]`, zero where there are none.
pub(crate) fn max_roi_pool(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, boxes) = (call.input(0)?, call.input(1)?);
    let [batch, channels, height, width] = image_shape(x)?;
    let [count, 5] = boxes.shape() else {
        return Err(EvalError::InvalidInput { index: 1, reason: "five numbers per box are needed" });
    };
    let bins = shape::dims(call.ints("pooled_shape")?.unwrap_or_default())?;
    if bins.len() != 2 {
        return Err(EvalError::InvalidAttribute { name: "pooled_shape", reason: "two numbers are needed" });
    }
    let scale = call.float("spatial_scale", 1.0)?;
    let shape = [*count, channels, bins[0], bins[1]];
    checked_len(x.dtype(), &shape)?;
    check_work(shape.iter().chain(&[height, width]))?;
    let (values, boxes) = (f64::read(x)?, f64::read(boxes)?);
    let mut result = Vec::with_capacity(shape::len(&shape));
    for given in boxes.chunks(5) {
        let image = shape::index(given[0] as i64, batch)?;
        let range = |first: f64, last: f64, bin: usize, bins: usize, extent: usize| {
            let (first, last) = ((first * scale).round(), (last * scale).round());
            let size = (last - first + 1.0).max(1.0) / bins as f64;
            let inside = |x: f64| (first + x).clamp(0.0, extent as f64) as usize;
            inside((bin as f64 * size).floor())..inside(((bin + 1) as f64 * size).ceil())
        };
        for c in 0..channels {
            let plane = &values[(image * channels + c) * height * width..][..height * width];
            for bin in 0..bins[0] * bins[1] {
                let rows = range(given[2], given[4], bin / bins[1], bins[0], height);
                let columns = range(given[1], given[3], bin % bins[1], bins[1], width);
                let all = rows.flat_map(|y| columns.clone().map(move |x| plane[y * width + x]));
                result.push(all.reduce(f64::larger).unwrap_or(0.0));
            }
        }
    }
    one(f64::write(x.dtype(), &shape, result.into_iter())?)
}
