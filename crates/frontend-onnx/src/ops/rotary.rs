//! RotaryEmbedding (opset 23 on): pairs of features rotated by the angle of their position.

use super::Operator;
use super::attention::{heads, packed};
use super::elementwise::require_float;
use crate::build::{Builder, Result, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("RotaryEmbedding", 23, rotary_embedding)];

/// How RotaryEmbedding rotates.
pub(super) struct Rotation {
    /// `[P, R/2]` with positions, `[B, S, R/2]` without.
    pub(super) cos: Tracked,
    /// As `cos`.
    pub(super) sin: Tracked,
    /// `[B, S]`
    pub(super) positions: Option<Tracked>,
    /// How many features of a head are rotated; 0 for all.
    pub(super) rotated: i64,
    /// Pairs lie side by side, and not half of the features apart.
    pub(super) interleaved: bool,
    /// Needed if heads lie side by side.
    pub(super) heads: Option<i64>,
}

fn rotary_embedding(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let rotation = Rotation {
        cos: call.input(1)?,
        sin: call.input(2)?,
        positions: call.optional(3),
        rotated: call.int_or("rotary_embedding_dim", 0)?,
        interleaved: call.flag("interleaved", false)?,
        heads: call.int("num_heads")?,
    };
    let x = call.input(0)?;
    Ok(vec![rotate(call.build, &x, &rotation)?])
}

/// `y = x·cos ∓ partner·sin`, where the partner of a feature is half the rotated features away, or beside it.
pub(super) fn rotate(build: &mut Builder, given: &Tracked, rotation: &Rotation) -> Result<Tracked> {
    require_float(given)?;
    let (x, is_packed) = heads(build, given, rotation.heads)?;
    let size = x.shape()[3].as_const().ok_or(Problem::DynamicValue { what: "the size of a head" })?;
    let rotated = if rotation.rotated == 0 { size } else { rotation.rotated };
    if !(0..=size).contains(&rotated) || rotated % 2 != 0 {
        let found = rotated.to_string();
        let expected = "an even number of features of a head";
        return Err(Problem::InvalidAttribute { attribute: "rotary_embedding_dim", expected, found });
    }
    if rotated == 0 {
        return Ok(given.clone());
    }
    let half = rotated / 2;
    let mut caches = Vec::new();
    for cache in [&rotation.cos, &rotation.sin] {
        // [B, S, half]
        let rows = match &rotation.positions {
            Some(positions) if cache.rank() == 2 => build.gather(cache, positions, 0)?,
            None if cache.rank() == 3 => cache.clone(),
            _ => {
                let expected = "a row per position, or per batch and position without `position_ids`";
                return Err(mismatch(expected, cache.shape()));
            }
        };
        let [b, s, features] = rows.shape() else { return Err(mismatch("positions with 2 axes", rows.shape())) };
        build.require_equal("the batches of data and positions", &x.shape()[0], b)?;
        build.require_equal("the lengths of data and positions", &x.shape()[2], s)?;
        build.require_equal("half of the rotated features and those of the cache", features, &Dim::constant(half))?;
        caches.push(rows);
    }
    let mut shape = x.shape().to_vec();
    shape[3] = Dim::constant(rotated);
    let d = var(3);
    let (partner, angle, second) = if rotation.interleaved {
        let odd = d.modulo(&Dim::constant(2));
        (d.clone() + 1 - odd.scale(2), d.floor_div(&Dim::constant(2)), odd)
    } else {
        let half = Dim::constant(half);
        let second = d.floor_div(&half);
        ((d.clone() + half.clone()).modulo(&Dim::constant(rotated)), d.modulo(&half), second)
    };
    let here = vec![var(0), var(1), var(2), d];
    let there = vec![var(0), var(1), var(2), partner];
    let (mine, theirs) = (build.view(&x, here, shape.clone())?, build.view(&x, there, shape.clone())?);
    let at = vec![var(0), var(2), angle];
    let cos = build.view(&caches[0], at.clone(), shape.clone())?;
    let sin = build.view(&caches[1], at, shape.clone())?;
    let turned = build.compute_over(shape, &[&mine, &theirs, &cos, &sin], |body, p| {
        let (along, across) = (body.binary(BinaryOp::Mul, p[0], p[2]), body.binary(BinaryOp::Mul, p[1], p[3]));
        let (second, zero) = (index(body, second), body.constant(DType::I64, 0.0));
        let first = body.compare(CompareOp::Eq, second, zero);
        let (less, more) = (body.binary(BinaryOp::Sub, along, across), body.binary(BinaryOp::Add, along, across));
        body.select(first, less, more)
    })?;
    let y = if rotated == size {
        turned
    } else {
        let rest = build.slice_axis(&x, 3, Dim::constant(rotated), Dim::constant(size - rotated))?;
        build.concat(&[&turned, &rest], 3)?
    };
    if is_packed { packed(build, &y) } else { Ok(y) }
}
