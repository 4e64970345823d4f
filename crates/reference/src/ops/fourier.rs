//! Discrete Fourier transforms, by their definition: `DFT`, `STFT`; and `MelWeightMatrix`.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, read_as_f64, write_f64_as};
use crate::shape;
use infc_tensor::{DType, Tensor};
use std::f64::consts::TAU;

/// A real and an imaginary part.
type Complex = (f64, f64);

/// `Σ x[n]·e^(∓2πi·k·n/N)` for the first `bins` k, with `N` the length of the signal.
fn transformed(signal: &[Complex], bins: usize, inverse: bool) -> Vec<Complex> {
    let len = signal.len();
    let turn = if inverse { TAU } else { -TAU };
    (0..bins)
        .map(|k| {
            signal.iter().enumerate().fold((0.0, 0.0), |(re, im), (n, &(a, b))| {
                let (sin, cos) = (turn * ((k * n) % len) as f64 / len as f64).sin_cos();
                (re + a * cos - b * sin, im + a * sin + b * cos)
            })
        })
        .collect()
}

fn one_positive(list: Option<Vec<i64>>, index: usize) -> Result<Option<usize>> {
    let Some(list) = list else { return Ok(None) };
    match list[..] {
        [n] if n > 0 => Ok(Some(n as usize)),
        _ => Err(EvalError::InvalidInput { index, reason: "one positive number is needed" }),
    }
}

/// Pairs from the last axis, which has one number (it is real) or two.
fn complex(x: &Tensor) -> Result<(Vec<Complex>, &[usize])> {
    let values = f64::read(x)?;
    match x.shape() {
        [shape @ .., 1] => Ok((values.into_iter().map(|re| (re, 0.0)).collect(), shape)),
        [shape @ .., 2] => Ok((values.chunks(2).map(|c| (c[0], c[1])).collect(), shape)),
        _ => Err(EvalError::InvalidInput { index: 0, reason: "the last axis must hold one number or two" }),
    }
}

/// `DFT`: along one axis, of a signal cut or padded to a length; one-sided, the other half is its conjugate.
pub(crate) fn dft(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = if call.opset() < 20 { call.int("axis", 1)? } else { call.int_scalar(2)?.unwrap_or(-2) };
    let axis = shape::axis(axis, x.rank())?;
    let (values, signals) = complex(x)?;
    if axis >= signals.len() {
        return Err(EvalError::AxisOutOfRange { axis: axis as i64, rank: signals.len() });
    }
    let (inverse, one_sided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let extent = signals[axis];
    let default = if inverse && one_sided { 2 * extent.saturating_sub(1) } else { extent };
    let length = one_positive(call.int_list(1)?, 1)?.unwrap_or(default);
    if length == 0 {
        return Err(EvalError::InvalidInput { index: 0, reason: "an empty signal has no transform" });
    }
    let (to_real, half) = (inverse && one_sided, length / 2 + 1);
    let mut out_shape = signals.to_vec();
    out_shape[axis] = if one_sided && !inverse { half } else { length };
    out_shape.push(if to_real { 1 } else { 2 });
    let (outer, extent, inner) = shape::around(signals, axis);
    let mut out = vec![0.0; checked_len(x.dtype(), &out_shape)?];
    check_work(&[outer, inner, length, length])?;
    let parts = if to_real { 1 } else { 2 };
    let bins = out_shape[axis];
    for o in 0..outer {
        for i in 0..inner {
            let at = |n: usize| if n < extent { values[(o * extent + n) * inner + i] } else { (0.0, 0.0) };
            let signal: Vec<Complex> = (0..length)
                .map(|n| match n {
                    n if !to_real || n < half => at(n),
                    n => (at(length - n).0, -at(length - n).1),
                })
                .collect();
            for (k, (re, im)) in transformed(&signal, bins, inverse).into_iter().enumerate() {
                let by = if inverse { length as f64 } else { 1.0 };
                let to = ((o * bins + k) * inner + i) * parts;
                out[to] = re / by;
                if parts == 2 {
                    out[to + 1] = im / by;
                }
            }
        }
    }
    one(f64::write(x.dtype(), &out_shape, out.into_iter())?)
}

/// `STFT`: transforms of the frames of a signal `[B, samples, 1 or 2]`, each weighted by a window.
pub(crate) fn stft(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (values, signals) = complex(x)?;
    let &[batch, samples] = signals else {
        return Err(EvalError::InvalidInput { index: 0, reason: "batches of signals are needed" });
    };
    let step = one_positive(call.int_list(1)?, 1)?.ok_or(EvalError::MissingInput { index: 1 })?;
    let window = call.optional(2).map(f64::read).transpose()?;
    let given = one_positive(call.int_list(3)?, 3)?;
    let length = given.or(window.as_ref().map(Vec::len)).unwrap_or(samples);
    if length == 0 || length > samples || window.as_ref().is_some_and(|w| w.len() != length) {
        return Err(EvalError::InvalidInput { index: 3, reason: "the frame does not fit signal and window" });
    }
    let frames = (samples - length) / step + 1;
    let bins = if call.flag("onesided", true)? { length / 2 + 1 } else { length };
    let out_shape = [batch, frames, bins, 2];
    checked_len(x.dtype(), &out_shape)?;
    check_work(&[batch, frames, bins, length])?;
    let mut out = Vec::with_capacity(shape::len(&out_shape));
    for b in 0..batch {
        for frame in 0..frames {
            let signal: Vec<Complex> = (0..length)
                .map(|n| {
                    let (re, im) = values[b * samples + frame * step + n];
                    let weight = window.as_ref().map_or(1.0, |w| w[n]);
                    (re * weight, im * weight)
                })
                .collect();
            out.extend(transformed(&signal, bins, false).into_iter().flat_map(|(re, im)| [re, im]));
        }
    }
    one(f64::write(x.dtype(), &out_shape, out.into_iter())?)
}

/// `MelWeightMatrix`: triangles over the bins of a transform, whose corners are evenly spaced in mel.
pub(crate) fn mel_weight_matrix(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let size = |index: usize| -> Result<usize> {
        let value = call.int_scalar(index)?.ok_or(EvalError::MissingInput { index })?;
        usize::try_from(value).map_err(|_| EvalError::NegativeExtent { extent: value })
    };
    let (bands, length, rate) = (size(0)?, size(1)?, size(2)?);
    let number = |index: usize| -> Result<f64> {
        let values = read_as_f64(call.input(index)?)?;
        values.first().copied().ok_or(EvalError::InvalidInput { index, reason: "one number is needed" })
    };
    let dtype = call.dtype("output_datatype")?.unwrap_or(DType::F32);
    let mel = |f: f64| 2595.0 * (1.0 + f / 700.0).log10();
    let (low, high) = (mel(number(3)?), mel(number(4)?));
    let out_shape = [length / 2 + 1, bands];
    let mut out = vec![0.0; checked_len(dtype, &out_shape)?];
    let edge = |n: usize| {
        let at = low + n as f64 * (high - low) / (bands + 2) as f64;
        let frequency = 700.0 * (10f64.powf(at / 2595.0) - 1.0);
        ((length + 1) as f64 * frequency / rate as f64).floor()
    };
    for band in 0..bands {
        let (from, peak, to) = (edge(band), edge(band + 1), edge(band + 2));
        for bin in 0..out_shape[0] {
            let at = bin as f64;
            out[bin * bands + band] = if at == peak {
                1.0
            } else if at >= from && at < peak {
                (at - from) / (peak - from)
            } else if at > peak && at < to {
                (to - at) / (to - peak)
            } else {
                0.0
            };
        }
    }
    one(write_f64_as(dtype, &out_shape, out.into_iter())?)
}
