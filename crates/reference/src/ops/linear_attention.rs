//! `LinearAttention`, `CausalConvWithState`: a state of fixed size is carried from position to position.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::Scalar;
use crate::shape;
use infc_tensor::Tensor;

/// The last axis of `x [B, T, H·D]` shared by `heads` heads.
fn per_head(x: &Tensor, index: usize, heads: usize) -> Result<[usize; 3]> {
    match *x.shape() {
        [batch, steps, size] if size % heads == 0 => Ok([batch, steps, size / heads]),
        _ => Err(EvalError::InvalidInput { index, reason: "batches, positions and features of all heads are needed" }),
    }
}

/// `LinearAttention`: `S ← S·e^decay + k ⊗ beta·(v − Sᵀk)`, without what the rule leaves out, and `y = scale·Sᵀq`.
pub(crate) fn linear_attention(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let heads = |name: &'static str| -> Result<usize> {
        usize::try_from(call.required_int(name)?)
            .ok()
            .filter(|&n| n > 0)
            .ok_or(EvalError::InvalidAttribute { name, reason: "it must be positive" })
    };
    let (q_heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    if q_heads % kv_heads != 0 {
        return Err(EvalError::InvalidAttribute {
            name: "q_num_heads",
            reason: "it must be a multiple of kv_num_heads",
        });
    }
    let (gated, corrected) = match call.string("update_rule", "gated_delta")? {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        _ => return Err(EvalError::InvalidAttribute { name: "update_rule", reason: "there is no such rule" }),
    };
    let (query, key, value) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let [batch, steps, key_size] = per_head(key, 1, kv_heads)?;
    let value_size = match per_head(value, 2, kv_heads)? {
        [b, t, size] if (b, t) == (batch, steps) => size,
        _ => return Err(EvalError::InvalidInput { index: 2, reason: "there must be one value per key" }),
    };
    if per_head(query, 0, q_heads)? != [batch, steps, key_size] {
        return Err(EvalError::InvalidInput { index: 0, reason: "queries must be as large as keys" });
    }
    // Decay per feature or per head, beta per head or for all.
    let sized = |index: usize, sizes: [usize; 2]| -> Result<(Vec<f64>, usize)> {
        let tensor = call.input(index)?;
        match *tensor.shape() {
            [b, t, size] if (b, t) == (batch, steps) && sizes.contains(&size) => Ok((f64::read(tensor)?, size)),
            _ => Err(EvalError::InvalidInput { index, reason: "one number per head and position is needed" }),
        }
    };
    let decay = if gated { Some(sized(4, [kv_heads * key_size, kv_heads])?) } else { None };
    let beta = if corrected { Some(sized(5, [kv_heads, 1])?) } else { None };
    let state_shape = [batch, kv_heads, key_size, value_size];
    checked_len(query.dtype(), &state_shape)?;
    check_work(&[batch, steps, q_heads, key_size, value_size])?;
    let past = call.optional(3);
    let mut states = match past {
        Some(past) if past.shape() == state_shape => f64::read(past)?,
        Some(_) => return Err(EvalError::InvalidInput { index: 3, reason: "the state has another shape" }),
        None => vec![0.0; shape::len(&state_shape)],
    };
    let scale = match call.float("scale", 0.0)? {
        0.0 => 1.0 / (key_size as f64).sqrt(),
        scale => scale,
    };
    let (q, k, v) = (f64::read(query)?, f64::read(key)?, f64::read(value)?);
    let out_shape = [batch, steps, q_heads * value_size];
    let mut out = vec![0.0; checked_len(query.dtype(), &out_shape)?];
    for b in 0..batch {
        for h in 0..kv_heads {
            let state = &mut states[(b * kv_heads + h) * key_size * value_size..][..key_size * value_size];
            for t in 0..steps {
                let row = b * steps + t;
                let k = &k[(row * kv_heads + h) * key_size..][..key_size];
                let mut v = v[(row * kv_heads + h) * value_size..][..value_size].to_vec();
                if let Some((decay, size)) = &decay {
                    for (i, s) in state.iter_mut().enumerate() {
                        let at = if *size == kv_heads { h } else { h * key_size + i / value_size };
                        *s *= decay[row * size + at].exp();
                    }
                }
                if let Some((beta, size)) = &beta {
                    let beta = beta[row * size + if *size == 1 { 0 } else { h }];
                    for (m, v) in v.iter_mut().enumerate() {
                        let present: f64 = (0..key_size).map(|d| state[d * value_size + m] * k[d]).sum();
                        *v = beta * (*v - present);
                    }
                }
                for (i, s) in state.iter_mut().enumerate() {
                    *s += k[i / value_size] * v[i % value_size];
                }
                let group = q_heads / kv_heads;
                for head in h * group..(h + 1) * group {
                    let q = &q[(row * q_heads + head) * key_size..][..key_size];
                    for m in 0..value_size {
                        let read: f64 = (0..key_size).map(|d| state[d * value_size + m] * q[d]).sum();
                        out[(row * q_heads + head) * value_size + m] = scale * read;
                    }
                }
            }
        }
    }
    let state_type = past.map_or(query.dtype(), Tensor::dtype);
    Ok(vec![
        f64::write(query.dtype(), &out_shape, out.into_iter())?,
        f64::write(state_type, &state_shape, states.into_iter())?,
    ])
}

/// `CausalConvWithState`: each channel by itself, over what came before and the input; returns what comes before the
/// next input, too.
pub(crate) fn causal_conv(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (x, weights) = (call.input(0)?, call.input(1)?);
    let (&[batch, channels, length], &[filters, 1, kernel]) = (x.shape(), weights.shape()) else {
        return Err(EvalError::InvalidInput { index: 0, reason: "3 axes are needed" });
    };
    if filters != channels || kernel == 0 {
        return Err(EvalError::InvalidInput { index: 1, reason: "one filter per channel is needed" });
    }
    let bends = match call.string("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        _ => return Err(EvalError::InvalidAttribute { name: "activation", reason: "there is no such activation" }),
    };
    let bias = call.optional(2).map(f64::read).transpose()?;
    if bias.as_ref().is_some_and(|b| b.len() != channels) {
        return Err(EvalError::InvalidInput { index: 2, reason: "one bias per channel is needed" });
    }
    let kept = kernel - 1;
    let state_shape = [batch, channels, kept];
    let past = match call.optional(3) {
        Some(past) if past.shape() == state_shape => f64::read(past)?,
        Some(_) => return Err(EvalError::InvalidInput { index: 3, reason: "the state has another shape" }),
        None => vec![0.0; checked_len(x.dtype(), &state_shape)?],
    };
    check_work(&[batch, channels, length, kernel])?;
    let (values, filters) = (f64::read(x)?, f64::read(weights)?);
    let (mut out, mut state) = (Vec::with_capacity(values.len()), Vec::with_capacity(past.len()));
    for plane in 0..batch * channels {
        let channel = plane % channels;
        let seen = [&past[plane * kept..][..kept], &values[plane * length..][..length]].concat();
        let filter = &filters[channel * kernel..][..kernel];
        out.extend((0..length).map(|t| {
            let sum: f64 = filter.iter().zip(&seen[t..]).map(|(w, x)| w * x).sum();
            let y = sum + bias.as_ref().map_or(0.0, |b| b[channel]);
            if bends { y / (1.0 + (-y).exp()) } else { y }
        }));
        state.extend_from_slice(&seen[length..]);
    }
    Ok(vec![
        f64::write(x.dtype(), x.shape(), out.into_iter())?,
        f64::write(x.dtype(), &state_shape, state.into_iter())?,
    ])
}
