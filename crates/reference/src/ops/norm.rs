//! Normalizations: layer, RMS, batch, instance, group, Lp, local response, mean-variance.
//!
//! Statistics are computed in `f64` over the original elements, whatever type the operator would "stash" them in.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, write_floats};
use crate::shape::{self, Strided};
use infc_tensor::{DType, Tensor};

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64
}

/// Reads a scale or bias and stretches it to `shape`.
fn stretched(tensor: &Tensor, to: &[usize]) -> Result<Vec<f64>> {
    if shape::broadcast(&[tensor.shape(), to])? != to {
        return Err(EvalError::ShapeMismatch {
            left: tensor.shape().to_vec(),
            right: to.to_vec(),
            reason: "the first does not broadcast to the second",
        });
    }
    crate::limits::checked_len(tensor.dtype(), to)?;
    let values = f64::read(tensor)?;
    Ok(Strided::broadcast(tensor.shape(), to).map(|i| values[i]).collect())
}

/// The type that statistics are returned in.
fn stash_type(call: &Call<'_>) -> Result<DType> {
    let dtype = call.dtype("stash_type")?.unwrap_or(DType::F32);
    if dtype.is_float() { Ok(dtype) } else { Err(EvalError::UnsupportedType { dtype }) }
}

/// `LayerNormalization`: over all axes from `axis` on; returns also the mean and the inverse deviation.
pub(crate) fn layer_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let stash = stash_type(call)?;
    let values = f64::read(x)?;
    let scale = stretched(call.input(1)?, &x.shape()[axis..])?;
    let bias = call.optional(2).map(|bias| stretched(bias, &x.shape()[axis..])).transpose()?;
    let mut statistics_shape = x.shape().to_vec();
    statistics_shape[axis..].fill(1);
    let (mut means, mut inverses) = (Vec::new(), Vec::new());
    let mut out = Vec::with_capacity(values.len());
    for group in values.chunks(shape::len(&x.shape()[axis..]).max(1)) {
        let mean = mean(group);
        let inverse = 1.0 / (variance(group, mean) + epsilon).sqrt();
        means.push(mean);
        inverses.push(inverse);
        out.extend(
            group
                .iter()
                .enumerate()
                .map(|(i, v)| (v - mean) * inverse * scale[i] + bias.as_ref().map_or(0.0, |bias| bias[i])),
        );
    }
    Ok(vec![
        f64::write(x.dtype(), x.shape(), out.into_iter())?,
        write_floats(stash, &statistics_shape, means.into_iter(), true)?,
        write_floats(stash, &statistics_shape, inverses.into_iter(), true)?,
    ])
}

/// `RMSNormalization`: as layer normalization without taking out the mean.
pub(crate) fn rms_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", -1)?, x.rank())?;
    let epsilon = call.float("epsilon", 1e-5)?;
    let values = f64::read(x)?;
    let scale = stretched(call.input(1)?, &x.shape()[axis..])?;
    let mut out = Vec::with_capacity(values.len());
    for group in values.chunks(shape::len(&x.shape()[axis..]).max(1)) {
        let mean_square = group.iter().map(|v| v * v).sum::<f64>() / group.len() as f64;
        let inverse = 1.0 / (mean_square + epsilon).sqrt();
        out.extend(group.iter().enumerate().map(|(i, v)| v * inverse * scale[i]));
    }
    one(f64::write(call.input(1)?.dtype(), x.shape(), out.into_iter())?)
}

/// `BatchNormalization`: with the given statistics, or since opset 14 in training mode with those of the batch.
pub(crate) fn batch_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let epsilon = call.float("epsilon", 1e-5)?;
    // Until opset 8 statistics could be kept per element of the feature map instead of per channel.
    let spatial = call.opset() >= 9 || call.flag("spatial", true)?;
    let features = match x.shape() {
        [] => return Err(EvalError::InvalidInput { index: 0, reason: "a batch axis is needed" }),
        [_] => 1,
        [_, rest @ ..] if !spatial => shape::len(rest),
        [_, channels, ..] => *channels,
    };
    let inner = if spatial && x.rank() > 2 { shape::len(&x.shape()[2..]) } else { 1 };
    let parameter = |index: usize| -> Result<Vec<f64>> {
        let tensor = call.input(index)?;
        if tensor.len_elems() == features {
            f64::read(tensor)
        } else {
            Err(EvalError::InvalidInput { index, reason: "one value per channel is needed" })
        }
    };
    let (scale, bias, mean_in, var_in) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let values = f64::read(x)?;
    let feature_of = |flat: usize| flat / inner % features;
    let training = call.opset() >= 14 && call.flag("training_mode", false)?;
    let (batch_mean, batch_var) = if training {
        let count = (values.len() / features.max(1)) as f64;
        let mut means = vec![0.0; features];
        values.iter().enumerate().for_each(|(i, v)| means[feature_of(i)] += v / count);
        let mut variances = vec![0.0; features];
        values
            .iter()
            .enumerate()
            .for_each(|(i, v)| variances[feature_of(i)] += (v - means[feature_of(i)]).powi(2) / count);
        (means, variances)
    } else {
        (mean_in.clone(), var_in.clone())
    };
    let normalized = values.iter().enumerate().map(|(i, v)| {
        let f = feature_of(i);
        (v - batch_mean[f]) / (batch_var[f] + epsilon).sqrt() * scale[f] + bias[f]
    });
    let mut outputs = vec![f64::write(x.dtype(), x.shape(), normalized)?];
    if training {
        let momentum = call.float("momentum", 0.9)?;
        for (index, (old, new)) in [(3, (mean_in, batch_mean)), (4, (var_in, batch_var))] {
            let running = old.into_iter().zip(new).map(|(old, new)| old * momentum + new * (1.0 - momentum));
            let like = call.input(index)?;
            outputs.push(f64::write(like.dtype(), like.shape(), running)?);
        }
    }
    Ok(outputs)
}

/// Normalizes runs of `run` elements each, then applies a scale and a bias that depend on the flat index.
fn normalize_runs(x: &Tensor, run: usize, epsilon: f64, affine: impl Fn(usize) -> (f64, f64)) -> Result<Vec<Tensor>> {
    let mut values = f64::read(x)?;
    for (r, group) in values.chunks_mut(run.max(1)).enumerate() {
        let mean = mean(group);
        let deviation = (variance(group, mean) + epsilon).sqrt();
        for (i, v) in group.iter_mut().enumerate() {
            let (scale, bias) = affine(r * run + i);
            *v = (*v - mean) / deviation * scale + bias;
        }
    }
    one(f64::write(x.dtype(), x.shape(), values.into_iter())?)
}

/// The channels and the extent of the axes behind them.
fn channels_and_inner(x: &Tensor) -> Result<(usize, usize)> {
    match x.shape() {
        [_, channels, rest @ ..] => Ok((*channels, shape::len(rest))),
        _ => Err(EvalError::InvalidInput { index: 0, reason: "a batch and a channel axis are needed" }),
    }
}

pub(crate) fn instance_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (channels, inner) = channels_and_inner(x)?;
    let (scale, bias) = (stretched(call.input(1)?, &[channels])?, stretched(call.input(2)?, &[channels])?);
    normalize_runs(x, inner, call.float("epsilon", 1e-5)?, |flat| {
        let channel = flat / inner % channels;
        (scale[channel], bias[channel])
    })
}

/// `GroupNormalization`: scale and bias are per group up to opset 20, per channel since.
pub(crate) fn group_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (channels, inner) = channels_and_inner(x)?;
    let bad = EvalError::InvalidAttribute { name: "num_groups", reason: "it must divide the channels" };
    let groups = match usize::try_from(call.required_int("num_groups")?) {
        Ok(groups) if groups > 0 && channels % groups == 0 => groups,
        _ => return Err(bad),
    };
    let per_group = channels / groups;
    let parameters = if call.opset() < 21 { groups } else { channels };
    let (scale, bias) = (stretched(call.input(1)?, &[parameters])?, stretched(call.input(2)?, &[parameters])?);
    normalize_runs(x, per_group.saturating_mul(inner), call.float("epsilon", 1e-5)?, |flat| {
        let channel = flat / inner % channels;
        let p = if parameters == channels { channel } else { channel / per_group };
        (scale[p], bias[p])
    })
}

/// `LpNormalization`: divides by the norm along an axis; where that is zero the result is zero.
pub(crate) fn lp_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axis = shape::axis(call.int("axis", -1)?, x.rank())?;
    let norm: fn(f64, f64) -> f64 = match call.int("p", 2)? {
        1 => |total, v| total + v.abs(),
        2 => |total, v| total.hypot(v),
        _ => return Err(EvalError::InvalidAttribute { name: "p", reason: "it must be 1 or 2" }),
    };
    let mut values = f64::read(x)?;
    if values.is_empty() {
        return one(x.clone());
    }
    let (outer, len, inner) = shape::around(x.shape(), axis);
    for o in 0..outer {
        for i in 0..inner {
            let at = |k: usize| (o * len + k) * inner + i;
            let total = (0..len).fold(0.0, |total, k| norm(total, values[at(k)]));
            (0..len).for_each(|k| values[at(k)] = if total == 0.0 { 0.0 } else { values[at(k)] / total });
        }
    }
    one(f64::write(x.dtype(), x.shape(), values.into_iter())?)
}

/// `LRN`: `x / (bias + alpha / size · Σ x²)^beta`, the sum running over neighbouring channels.
pub(crate) fn local_response_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let (channels, inner) = channels_and_inner(x)?;
    let (alpha, beta, bias) = (call.float("alpha", 1e-4)?, call.float("beta", 0.75)?, call.float("bias", 1.0)?);
    let size = usize::try_from(call.required_int("size")?)
        .ok()
        .filter(|&size| size > 0)
        .ok_or(EvalError::InvalidAttribute { name: "size", reason: "it must be positive" })?;
    crate::limits::check_work(&[x.len_elems(), size.min(channels)])?;
    let values = f64::read(x)?;
    let normalized = (0..values.len()).map(|flat| {
        let channel = flat / inner % channels;
        let base = flat - channel * inner;
        let low = channel.saturating_sub((size - 1) / 2);
        let high = channel.saturating_add(size / 2).min(channels - 1);
        let squares: f64 = (low..=high).map(|c| values[base + c * inner].powi(2)).sum();
        values[flat] / (bias + alpha / size as f64 * squares).powf(beta)
    });
    one(f64::write(x.dtype(), x.shape(), normalized)?)
}

/// `MeanVarianceNormalization`: over the given axes, by default all but the channels.
pub(crate) fn mean_variance_normalization(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let axes = shape::axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), x.rank())?;
    let kept: Vec<usize> = (0..x.rank()).map(|a| if axes.contains(&a) { 1 } else { x.shape()[a] }).collect();
    let values = f64::read(x)?;
    let group_of = || values.iter().zip(Strided::broadcast(&kept, x.shape()));
    let groups = crate::limits::checked_len(x.dtype(), &kept)?;
    let count = (values.len() / groups.max(1)) as f64;
    let (mut means, mut variances) = (vec![0.0; groups], vec![0.0; groups]);
    group_of().for_each(|(v, g)| means[g] += v / count);
    group_of().for_each(|(v, g)| variances[g] += (v - means[g]).powi(2) / count);
    // The operator's definition as a function has this guard against a deviation of zero.
    let normalized = group_of().map(|(v, g)| (v - means[g]) / (variances[g].sqrt() + 1e-9));
    one(f64::write(x.dtype(), x.shape(), normalized)?)
}
