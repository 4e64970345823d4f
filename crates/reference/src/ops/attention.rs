//! `Attention`, `FlexAttention` and `RotaryEmbedding`.

pub(crate) mod flex;

use super::softmax::softmax_in_place;
use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, read_as_f64, rounded_half, write_floats};
use crate::shape::{self, Strided};
use infc_tensor::{DType, Tensor};

/// Values per batch, head, position and feature.
struct Heads {
    values: Vec<f64>,
    /// `[B, N, S, H]`
    shape: [usize; 4],
    /// True if the tensor was `[B, S, N·H]`.
    packed: bool,
}

const RANK: EvalError = EvalError::InvalidInput { index: 0, reason: "a tensor of rank 3 or 4 is needed" };

impl Heads {
    fn read(x: &Tensor, heads: i64) -> Result<Self> {
        let values = f64::read(x)?;
        match *x.shape() {
            [b, n, s, h] => Ok(Self { values, shape: [b, n, s, h], packed: false }),
            [b, s, hidden] => {
                let n = usize::try_from(heads).ok().filter(|&n| n > 0 && hidden % n == 0);
                let n =
                    n.ok_or(EvalError::InvalidInput { index: 0, reason: "the heads do not divide the features" })?;
                let h = hidden / n;
                let moved = Strided::new(&[b, n, s, h], vec![(s * hidden) as isize, h as isize, hidden as isize, 1], 0);
                Ok(Self { values: moved.map(|i| values[i]).collect(), shape: [b, n, s, h], packed: true })
            }
            _ => Err(RANK),
        }
    }

    /// The features at a position.
    fn row(&self, b: usize, n: usize, s: usize) -> &[f64] {
        let [_, heads, len, h] = self.shape;
        let start = ((b * heads + n) * len + s) * h;
        &self.values[start..start + h]
    }

    /// `past` in front along the positions.
    fn after(self, past: Option<&Tensor>) -> Result<Self> {
        let Some(past) = past else { return Ok(self) };
        let past = Self::read(past, 0)?;
        let ([b, n, s, h], [pb, pn, ps, ph]) = (self.shape, past.shape);
        if (b, n, h) != (pb, pn, ph) {
            return Err(EvalError::InvalidInput { index: 4, reason: "the cache does not fit the new positions" });
        }
        let mut values = Vec::new();
        for at in 0..b * n {
            values.extend_from_slice(&past.values[at * ps * h..(at + 1) * ps * h]);
            values.extend_from_slice(&self.values[at * s * h..(at + 1) * s * h]);
        }
        Ok(Self { values, shape: [b, n, ps + s, h], packed: false })
    }

    fn write(&self, dtype: DType) -> Result<Tensor> {
        write_floats(dtype, &self.shape, self.values.iter().copied(), false)
    }

    /// In the form `[B, S, N·H]` if `packed`.
    fn write_as(&self, dtype: DType, packed: bool) -> Result<Tensor> {
        if !packed {
            return self.write(dtype);
        }
        let [b, n, s, h] = self.shape;
        let order = Strided::new(&[b, s, n, h], vec![(n * s * h) as isize, h as isize, (s * h) as isize, 1], 0);
        write_floats(dtype, &[b, s, n * h], order.map(|i| self.values[i]), false)
    }
}

/// What is added to the scores: 0, a number, or −∞ where nothing may be attended to.
struct Bias {
    values: Option<(Vec<f64>, Vec<usize>)>,
    causal: bool,
    windows: [i64; 2],
    /// Per batch, the position of the first query among the keys.
    offsets: Vec<i64>,
    /// Per batch, how many keys count.
    valid: Option<Vec<i64>>,
}

impl Bias {
    fn at(&self, b: usize, n: usize, i: usize, j: usize) -> f64 {
        let distance = i as i64 + self.offsets[b] - j as i64;
        let [left, right] = self.windows;
        let hidden = self.causal && distance < 0
            || left >= 0 && distance > left
            || right >= 0 && -distance > right
            || self.valid.as_ref().is_some_and(|valid| j as i64 >= valid[b]);
        let Some((values, mask)) = &self.values else { return if hidden { f64::NEG_INFINITY } else { 0.0 } };
        if hidden || mask.last().is_some_and(|&len| len != 1 && j >= len) {
            return f64::NEG_INFINITY;
        }
        let full = [b, n, i, j];
        let coords = &full[4 - mask.len()..];
        let flat = coords.iter().zip(mask).fold(0, |flat, (&c, &d)| flat * d + if d == 1 { 0 } else { c });
        values[flat]
    }
}

/// A mask of bools says what may be attended to, one of numbers is added.
fn mask(call: &Call<'_>, full: [usize; 4]) -> Result<Option<(Vec<f64>, Vec<usize>)>> {
    let Some(mask) = call.optional(3) else { return Ok(None) };
    let fits = mask.rank() <= 4
        && mask
            .shape()
            .iter()
            .rev()
            .zip(full.iter().rev())
            .enumerate()
            .all(|(n, (&m, &d))| m == 1 || m == d || n == 0 && m < d);
    if !fits {
        return Err(EvalError::InvalidInput { index: 3, reason: "the mask does not broadcast to the scores" });
    }
    let values = if mask.dtype() == DType::Bool {
        let bools = mask.bytes().iter().map(|&b| if b == 0 { f64::NEG_INFINITY } else { 0.0 });
        bools.collect()
    } else {
        read_as_f64(mask)?
    };
    Ok(Some((values, mask.shape().to_vec())))
}

/// `softmax(softcap(scale · Q·Kᵀ) + bias) · V` per head; several query heads may share one of keys and values. Rows
/// that may attend to nothing are 0.
pub(crate) fn attention(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let dtype = call.input(0)?.dtype();
    let q = Heads::read(call.input(0)?, call.int("q_num_heads", 0)?)?;
    let kv_heads = call.int("kv_num_heads", 0)?;
    let k = Heads::read(call.input(1)?, kv_heads)?.after(call.optional(4))?;
    let v = Heads::read(call.input(2)?, kv_heads)?.after(call.optional(5))?;
    let ([b, n, s, h], [kb, kn, t, kh], [vb, vn, vt, vh]) = (q.shape, k.shape, v.shape);
    if (kb, vb, vt, vn, kh) != (b, b, t, kn, h) || kn == 0 || n % kn != 0 {
        return Err(EvalError::InvalidInput { index: 1, reason: "queries, keys and values do not fit" });
    }
    checked_len(dtype, &[b, n, s, t])?;
    check_work(&[b, n, s, t, h.max(vh)])?;
    let scale = match call.float("scale", 0.0)? {
        0.0 => 1.0 / (h as f64).sqrt(),
        scale => scale,
    };
    let softcap = call.float("softcap", 0.0)?;
    let valid = call.int_list(6)?;
    let past = call.optional(4).map_or(0, |past| past.shape()[2] as i64);
    let offsets = match &valid {
        Some(valid) if valid.len() == b => valid.iter().map(|&len| len - s as i64).collect(),
        Some(_) => return Err(EvalError::InvalidInput { index: 6, reason: "one length per batch is needed" }),
        None => vec![past; b],
    };
    let windows = [call.int("left_window_size", -1)?, call.int("right_window_size", -1)?];
    let causal = call.flag("is_causal", false)?;
    let bias = Bias { values: mask(call, [b, n, s, t])?, causal, windows, offsets, valid };
    let mode = call.int("qk_matmul_output_mode", 0)?;
    let mut y = Heads { values: Vec::with_capacity(b * n * s * vh), shape: [b, n, s, vh], packed: q.packed };
    let mut shown = Vec::with_capacity(b * n * s * t);
    // ONNX defines it by other operators, which scale queries and keys by the root; half types are rounded after each.
    let half = |x: f64| rounded_half(dtype, x);
    let root = half(scale.abs().sqrt());
    let precision = call.dtype("softmax_precision")?.unwrap_or(dtype);
    for (batch, head, i) in (0..b).flat_map(|x| (0..n).flat_map(move |y| (0..s).map(move |z| (x, y, z)))) {
        let shared = head / (n / kn);
        let raw: Vec<f64> = (0..t)
            .map(|j| {
                let (q, k) = (q.row(batch, head, i), k.row(batch, shared, j));
                half(q.iter().zip(k).map(|(a, b)| half(a * root.copysign(scale)) * half(b * root)).sum())
            })
            .collect();
        let cap = |x: f64| if softcap > 0.0 { half(half(half(x / softcap).tanh()) * softcap) } else { x };
        let capped: Vec<f64> = raw.iter().map(|&x| cap(x)).collect();
        let biased: Vec<f64> = capped.iter().enumerate().map(|(j, x)| half(x + bias.at(batch, head, i, j))).collect();
        let mut weights = biased.clone();
        if biased.iter().all(|&x| x == f64::NEG_INFINITY) {
            weights.fill(0.0);
        } else {
            softmax_in_place(&mut weights, precision);
        }
        weights.iter_mut().for_each(|w| *w = half(*w));
        y.values.extend((0..vh).map(|d| (0..t).map(|j| weights[j] * v.row(batch, shared, j)[d]).sum::<f64>()));
        shown.extend(match mode {
            0 => raw,
            1 => capped,
            2 => biased,
            3 => weights,
            _ => {
                return Err(EvalError::InvalidAttribute { name: "qk_matmul_output_mode", reason: "it must be 0 to 3" });
            }
        });
    }
    let packed = y.packed;
    let scores = write_floats(dtype, &[b, n, s, t], shown.into_iter(), false)?;
    let mut outputs =
        vec![y.write_as(dtype, packed)?, k.write(call.input(1)?.dtype())?, v.write(call.input(2)?.dtype())?, scores];
    outputs.truncate(call.node.num_outputs);
    Ok(outputs)
}

/// `RotaryEmbedding`: pairs of features are rotated by the angle of their position.
pub(crate) fn rotary_embedding(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    let heads = Heads::read(x, call.int("num_heads", 0)?)?;
    let [b, n, s, h] = heads.shape;
    let rotated = match call.int("rotary_embedding_dim", 0)? {
        0 => h,
        dim => usize::try_from(dim).ok().filter(|&d| d <= h).ok_or(RANK)?,
    };
    let half = rotated / 2;
    let (cos, sin) = (call.input(1)?, call.input(2)?);
    let positions = call.int_list(3)?;
    let fits = cos.shape() == sin.shape()
        && cos.shape().last() == Some(&half)
        && match &positions {
            Some(positions) => cos.rank() == 2 && positions.len() == b * s,
            None => cos.shape() == [b, s, half],
        };
    if !fits {
        return Err(EvalError::InvalidInput { index: 1, reason: "the caches do not fit the features" });
    }
    let rows = cos.len_elems() / half.max(1);
    let (cos, sin) = (f64::read(cos)?, f64::read(sin)?);
    let interleaved = call.flag("interleaved", false)?;
    let mut values = heads.values.clone();
    for (batch, head, i) in (0..b).flat_map(|x| (0..n).flat_map(move |y| (0..s).map(move |z| (x, y, z)))) {
        let row = match &positions {
            Some(positions) => shape::index(positions[batch * s + i], rows)?,
            None => batch * s + i,
        };
        let start = ((batch * n + head) * s + i) * h;
        for f in 0..half {
            let (one, two) = if interleaved { (2 * f, 2 * f + 1) } else { (f, f + half) };
            let (c, d) = (cos[row * half + f], sin[row * half + f]);
            let (u, v) = (heads.values[start + one], heads.values[start + two]);
            values[start + one] = c * u - d * v;
            values[start + two] = d * u + c * v;
        }
    }
    let packed = heads.packed;
    one(Heads { values, ..heads }.write_as(x.dtype(), packed)?)
}
