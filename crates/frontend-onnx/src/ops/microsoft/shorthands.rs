//! Shorthands of ONNX Runtime for standard operators in a row: GELUs with biases, normalisation behind a sum, products of turned
//! matrices.

use crate::build::{Result, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::activation::{approximate_gelu, exact_gelu, swish_of};
use crate::ops::elementwise::require_float;
use crate::ops::gather_elements::require_indices;
use crate::ops::matmul::product_of;
use crate::ops::norm::{normalise, root_mean_square, scale_and_shift, simplified_layer_norm};
use crate::ops::rotary::{Rotation, rotate};
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("BiasGelu", 1, bias_gelu),
    Operator::new("BiasSplitGelu", 1, bias_split_gelu),
    Operator::new("EmbedLayerNormalization", 1, embed_layer_norm),
    Operator::new("FastGelu", 1, fast_gelu),
    Operator::new("FusedMatMul", 1, fused_matmul),
    Operator::new("Gelu", 1, |c| {
        let x = c.input(0)?;
        Ok(vec![exact_gelu(c.build, &x)?])
    }),
    Operator::new("QuickGelu", 1, quick_gelu),
    Operator::new("RotaryEmbedding", 1, rotary_embedding),
    // Models have it in ONNX's own domain ([`crate::ops::norm::UNOFFICIAL`]).
    Operator::new("SimplifiedLayerNormalization", 1, simplified_layer_norm),
    Operator::new("SkipLayerNormalization", 1, skip_layer_norm),
    Operator::new("SkipSimplifiedLayerNormalization", 1, skip_rms_norm),
    // What `FusedMatMul` was called.
    Operator::new("TransposeMatMul", 1, fused_matmul),
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

/// One half of the features of `x + bias`, times `Gelu` of the other.
fn bias_split_gelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, bias) = (call.input(0)?, call.input(1)?);
    let x = sum(call, &[&x, &bias])?;
    let last = x.rank().checked_sub(1).ok_or_else(|| mismatch("an axis of features", x.shape()))?;
    let half = x.shape()[last].floor_div(&Dim::constant(2));
    let build = &mut *call.build;
    build.require_equal("the features of both halves", &x.shape()[last], &half.scale(2))?;
    let left = build.slice_axis(&x, last, Dim::constant(0), half.clone())?;
    let right = build.slice_axis(&x, last, half.clone(), half)?;
    let gate = exact_gelu(build, &right)?;
    Ok(vec![build.compute(&[&left, &gate], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?])
}

/// Words, positions and maybe segments, looked up, summed and normalised.
///
/// Outputs also how many words of each sequence the mask counts, and the sum.
fn embed_layer_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (words, segments, mask, positions) = (call.input(0)?, call.optional(1), call.optional(7), call.optional(8));
    let (word_table, position_table, segment_table) = (call.input(2)?, call.input(3)?, call.optional(4));
    let (gamma, beta) = (call.input(5)?, call.input(6)?);
    let epsilon = call.float_or("epsilon", 1e-12)?;
    require_indices(&words)?;
    let [batch, length] = words.shape() else { return Err(mismatch("sequences of words", words.shape())) };
    let (batch, length) = (batch.clone(), length.clone());
    let build = &mut *call.build;
    let mut terms = vec![build.gather(&word_table, &words, 0)?];
    terms.push(match positions {
        Some(positions) => build.gather(&position_table, &positions, 0)?,
        None => build.slice_axis(&position_table, 0, Dim::constant(0), length)?,
    });
    if let (Some(table), Some(segments)) = (segment_table, segments) {
        terms.push(build.gather(&table, &segments, 0)?);
    }
    let total = sum(call, &terms.iter().collect::<Vec<_>>())?;
    let build = &mut *call.build;
    let normalised = normalise(build, &total, &[2], epsilon)?;
    let y = scale_and_shift(build, &normalised.y, &gamma, Some(&beta))?;
    let counted = match mask {
        Some(mask) => build.reduce(&[&mask], &[1], Reducer::sum(DType::I32), |body, p| {
            let one = body.constant(body.dtype(p[0]), 1.0);
            let counts = body.compare(CompareOp::Eq, p[0], one);
            vec![body.cast(DType::I32, counts)]
        })?,
        None => {
            let none = build.scalar(DType::I32, 0.0);
            vec![build.broadcast(&none, &[batch])?]
        }
    };
    Ok([y].into_iter().chain(counted).chain([total]).collect())
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

/// `alpha · A'·B'`, the last two axes of each maybe swapped, and the batch maybe behind the rows.
fn fused_matmul(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 1.0)?;
    let mut operands = Vec::new();
    for (n, flag, batch_flag) in [(0, "transA", "transBatchA"), (1, "transB", "transBatchB")] {
        let x = call.input(n)?;
        let mut order: Vec<usize> = (0..x.rank()).collect();
        if call.flag(batch_flag, false)? && x.rank() > 2 {
            // The first axis of the batch goes behind the others, where rows are.
            order[..x.rank() - 1].rotate_left(1);
        }
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
