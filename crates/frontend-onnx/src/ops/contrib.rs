//! Operators of the domain `com.microsoft` that exporters and optimisers write. Each is made of what imports the
//! standard operators.

use super::Operator;
use super::activation::{approximate_gelu, exact_gelu, swish_of};
use super::attention::{Attending, Reach, after, attend, heads, packed};
use super::elementwise::require_float;
use super::matmul::product_of;
use super::norm::{normalise, root_mean_square, scale_and_shift};
use super::rotary::{Rotation, rotate};
use crate::build::{Result, compute_type, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("BiasGelu", 1, bias_gelu),
    Operator::new("FastGelu", 1, fast_gelu),
    Operator::new("FusedMatMul", 1, fused_matmul),
    Operator::new("Gelu", 1, |c| {
        let x = c.input(0)?;
        Ok(vec![exact_gelu(c.build, &x)?])
    }),
    Operator::new("MultiHeadAttention", 1, multi_head_attention),
    Operator::new("QuickGelu", 1, quick_gelu),
    Operator::new("RotaryEmbedding", 1, rotary_embedding),
    Operator::new("SkipLayerNormalization", 1, skip_layer_norm),
    Operator::new("SkipSimplifiedLayerNormalization", 1, skip_rms_norm),
];

fn sum(call: &mut Call<'_>, terms: &[&Tracked]) -> Result<Tracked> {
    terms.iter().try_for_each(|t| require_float(t))?;
    call.build.compute(terms, |body, p| p[1..].iter().fold(p[0], |a, &b| body.binary(BinaryOp::Add, a, b)))
}

/// `Gelu(x + bias)`
fn bias_gelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, bias) = (call.input(0)?, call.input(1)?);
    let x = sum(call, &[&x, &bias])?;
    Ok(vec![exact_gelu(call.build, &x)?])
}

/// `Gelu(x + bias)` with the approximation by tanh; there may be no bias.
fn fast_gelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let x = match call.optional(1) {
        Some(bias) => sum(call, &[&x, &bias])?,
        None => x,
    };
    Ok(vec![approximate_gelu(call.build, &x)?])
}

/// `x · sigmoid(alpha · x)`
fn quick_gelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let alpha = call.float_or("alpha", 1.702)?;
    let y = call.build.compute(&[&x], |body, p| swish_of(body, p[0], alpha))?;
    Ok(vec![y])
}

/// `alpha · A'·B'`, the last two axes of each maybe swapped.
fn fused_matmul(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    for attribute in ["transBatchA", "transBatchB"] {
        if call.flag(attribute, false)? {
            return Err(Problem::UnsupportedAttribute { attribute, expected: "0", found: "1".to_owned() });
        }
    }
    let alpha = call.float_or("alpha", 1.0)?;
    let mut operands = Vec::new();
    for (n, flag) in [(0, "transA"), (1, "transB")] {
        let x = call.input(n)?;
        let mut order: Vec<usize> = (0..x.rank()).collect();
        if call.flag(flag, false)? && x.rank() > 1 {
            order.swap(x.rank() - 2, x.rank() - 1);
        }
        operands.push(call.build.transpose(&x, &order)?);
    }
    let product = product_of(call.build, &operands[0], &operands[1])?;
    if alpha == 1.0 {
        return Ok(vec![product]);
    }
    let scaled = call.build.compute(&[&product], |body, p| {
        let alpha = body.constant(body.dtype(p[0]), alpha);
        body.binary(BinaryOp::Mul, p[0], alpha)
    })?;
    Ok(vec![scaled])
}

/// `x + skip (+ bias)`, whose last axis is normalised.
fn skip_sum(call: &mut Call<'_>, bias: usize) -> Result<Tracked> {
    let (x, skip, bias) = (call.input(0)?, call.input(1)?, call.optional(bias));
    let terms: Vec<&Tracked> = [&x, &skip].into_iter().chain(&bias).collect();
    let total = sum(call, &terms)?;
    if total.rank() == 0 {
        return Err(mismatch("at least one axis", total.shape()));
    }
    Ok(total)
}

/// Outputs: the result, mean and deviation (as LayerNormalization has them), and the sum.
fn skip_layer_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (scale, bias) = (call.input(2)?, call.optional(3));
    let epsilon = call.float_or("epsilon", 1e-12)?;
    let total = skip_sum(call, 4)?;
    let axes = [total.rank() - 1];
    let normalised = normalise(call.build, &total, &axes, epsilon)?;
    let y = scale_and_shift(call.build, &normalised.y, &scale, bias.as_ref())?;
    Ok(vec![y, normalised.mean, normalised.reciprocal, total])
}

/// As SkipLayerNormalization, without taking out the mean; the outputs in between are not used by anyone.
fn skip_rms_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    if call.wants_output(1) || call.wants_output(2) {
        return Err(Problem::UnsupportedOutput { index: 1, supported: 1 });
    }
    let scale = call.input(2)?;
    let epsilon = call.float_or("epsilon", 1e-12)?;
    let total = skip_sum(call, 3)?;
    let axes = [total.rank() - 1];
    let y = root_mean_square(call.build, &total, &axes, epsilon)?;
    let y = scale_and_shift(call.build, &y, &scale, None)?;
    let y = call.build.cast(&y, total.dtype())?;
    Ok(vec![y.clone(), y.clone(), y, total])
}

/// As the standard's, with positions second. A single position is that of the first element of every batch.
fn rotary_embedding(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, positions, cos, sin) = (call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?);
    if call.float_or("scale", 1.0)? != 1.0 {
        let found = call.float_or("scale", 1.0)?.to_string();
        return Err(Problem::UnsupportedAttribute { attribute: "scale", expected: "1", found });
    }
    let rotated = call.int_or("rotary_embedding_dim", 0)?;
    let half = cos.shape().last().and_then(Dim::as_const);
    // Without the number of heads a head is as wide as the caches say.
    let heads = match call.int_or("num_heads", 0)? {
        0 => match (x.shape(), half) {
            ([_, _, features], Some(half)) if half > 0 => features.as_const().map(|f| f / (2 * half)),
            _ => None,
        },
        heads => Some(heads),
    };
    let (batch, length) = match x.shape() {
        [b, s, _] | [b, _, s, _] => (b.clone(), s.clone()),
        shape => return Err(mismatch("3 or 4 axes", shape)),
    };
    let positions = if positions.rank() == 1 {
        let first = call.build.reshape(&positions, &[])?;
        call.build.map_over(vec![batch, length], &[&first], |body, p| {
            let (first, offset) = (body.cast(DType::I64, p[0]), index(body, var(1)));
            body.binary(BinaryOp::Add, first, offset)
        })?
    } else {
        positions
    };
    let interleaved = call.flag("interleaved", false)?;
    let rotation = Rotation { cos, sin, positions: Some(positions), rotated, interleaved, heads };
    Ok(vec![rotate(call.build, &x, &rotation)?])
}

/// Keys and values in `[B, T, N·H]` or `[B, N, T, H]`; what is not to be seen is given by a mask over the keys.
fn multi_head_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (mut q, mut k, mut v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let count = call.int("num_heads")?;
    let (bias, padding, added) = (call.optional(3), call.optional(4), call.optional(5));
    let (past_key, past_value) = (call.optional(6), call.optional(7));
    let hidden = call.float_or("mask_filter_value", -10000.0)?;
    let scale = call.float("scale")?.filter(|&s| s != 0.0);
    let causal = call.flag("unidirectional", false)?;
    let build = &mut *call.build;
    if let Some(bias) = &bias {
        if bias.rank() != 1 {
            return Err(mismatch("one number per feature", bias.shape()));
        }
        let mut start = Dim::constant(0);
        for x in [&mut q, &mut k, &mut v] {
            // Keys and values that come in heads have had their bias.
            let [_, _, features] = x.shape() else { continue };
            let features = features.clone();
            let part = build.slice_axis(bias, 0, start.clone(), features.clone())?;
            start = start + features;
            *x = build.compute(&[&*x, &part], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
        }
    }
    let (q, is_packed) = heads(build, &q, count)?;
    let (k, v) = (heads(build, &k, count)?.0, heads(build, &v, count)?.0);
    let (k, v) = (after(build, past_key.as_ref(), k)?, after(build, past_value.as_ref(), v)?);
    let mask = match padding {
        None => added,
        Some(padding) => {
            let [b, t] = padding.shape() else { return Err(mismatch("a mask per batch and key", padding.shape())) };
            let wide = compute_type(q.dtype());
            let padding = build.reshape(&padding, &[b.clone(), Dim::constant(1), Dim::constant(1), t.clone()])?;
            let bias = build.map(&[&padding], |body, p| {
                let zero = body.constant(body.dtype(p[0]), 0.0);
                let hides = body.compare(CompareOp::Eq, p[0], zero);
                let (hidden, nothing) = (body.constant(wide, hidden), body.constant(wide, 0.0));
                body.select(hides, hidden, nothing)
            })?;
            match added {
                None => Some(bias),
                Some(added) => {
                    let added = build.cast(&added, wide)?;
                    Some(build.map(&[&bias, &added], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?)
                }
            }
        }
    };
    let offset = past_key.as_ref().and_then(|p| p.shape().get(2).cloned()).unwrap_or_default();
    let reach = Reach { causal, windows: [-1, -1], offset, valid: None, queries: q.shape()[2].clone() };
    let attending = Attending { q, k: k.clone(), v: v.clone(), scale, softcap: 0.0, mask, reach };
    let (y, _) = attend(build, &attending, None)?;
    Ok(vec![if is_packed { packed(build, &y)? } else { y }, k, v])
}
