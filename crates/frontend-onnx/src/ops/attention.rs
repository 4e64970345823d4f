//! Attention (opset 23 on), with caches, grouped heads, masks and windows.
//!
//! Everything is spelled out in contractions, one map over the scores and a softmax; the graph passes recognise the
//! pattern as they recognise models that spell it out themselves.

use super::Operator;
use super::elementwise::require_float;
use super::softmax::softmax;
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr, Proof};
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Attention", 23, attention)];

/// `[B, S, N·H]` or `[B, N, S, H]` as the latter, and whether it was the former.
pub(super) fn heads(build: &mut Builder, x: &Tracked, count: Option<i64>) -> Result<(Tracked, bool)> {
    match x.shape() {
        [_, _, _, _] => Ok((x.clone(), false)),
        [b, s, hidden] => {
            let expected = "the number of heads";
            let found = || count.map_or_else(|| "missing".to_owned(), |n| n.to_string());
            let n = count.filter(|&n| (1..1 << 20).contains(&n)).ok_or_else(|| Problem::InvalidAttribute {
                attribute: "num_heads",
                expected,
                found: found(),
            })?;
            let n = Dim::constant(n);
            if hidden.as_const().is_some_and(|_| !hidden.modulo(&n).is_const(0)) {
                return Err(mismatch(format!("features that are a multiple of {n} heads"), x.shape()));
            }
            let split = [b.clone(), s.clone(), n.clone(), hidden.floor_div(&n)];
            let split = build.reshape(x, &split)?;
            Ok((build.transpose(&split, &[0, 2, 1, 3])?, true))
        }
        shape => Err(mismatch("3 or 4 axes", shape)),
    }
}

/// `[B, N, S, H]` as `[B, S, N·H]`.
pub(super) fn packed(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    let x = build.transpose(x, &[0, 2, 1, 3])?;
    let shape = [x.shape()[0].clone(), x.shape()[1].clone(), product(&x.shape()[2..])?];
    build.reshape(&x, &shape)
}

/// What decides which keys a query may attend to, beside the mask.
pub(super) struct Reach {
    pub(super) causal: bool,
    /// How far before and after the query; negative is without limit.
    pub(super) windows: [i64; 2],
    /// The position of the first query among the keys, unless `valid` says it.
    pub(super) offset: Dim,
    /// Per batch, how many keys count: `[B]`.
    pub(super) valid: Option<Tracked>,
    pub(super) queries: Dim,
}

impl Reach {
    fn is_limited(&self) -> bool {
        self.causal || self.valid.is_some() || self.windows.iter().any(|&w| w >= 0)
    }

    /// True where query `i` must not attend to key `j`; `valid` is the element of that tensor.
    fn hides(&self, body: &mut Body, valid: Option<ScalarId>) -> ScalarId {
        let (i, j) = (index(body, var(2)), index(body, var(3)));
        let offset = match valid {
            Some(valid) => {
                let queries = index(body, self.queries.clone());
                body.binary(BinaryOp::Sub, valid, queries)
            }
            None => index(body, self.offset.clone()),
        };
        let position = body.binary(BinaryOp::Add, i, offset);
        let distance = body.binary(BinaryOp::Sub, position, j);
        let mut hidden = body.push(ScalarOp::Const(Const::zero(DType::Bool)));
        let mut hide = |body: &mut Body, op, bound: i64| {
            let bound = body.push(ScalarOp::Const(Const::from_i64(DType::I64, bound)));
            let beyond = body.compare(op, distance, bound);
            hidden = body.binary(BinaryOp::Or, hidden, beyond);
        };
        if self.causal {
            hide(body, CompareOp::Lt, 0);
        }
        if self.windows[0] >= 0 {
            hide(body, CompareOp::Gt, self.windows[0]);
        }
        if self.windows[1] >= 0 {
            hide(body, CompareOp::Lt, self.windows[1].saturating_neg());
        }
        if let Some(valid) = valid {
            let padding = body.compare(CompareOp::Ge, j, valid);
            hidden = body.binary(BinaryOp::Or, hidden, padding);
        }
        hidden
    }
}

/// Queries, keys and values in heads, and how they meet.
pub(super) struct Attending {
    /// `[B, N, S, H]`
    pub(super) q: Tracked,
    /// `[B, N / g, T, H]`, where `g` query heads share one of keys.
    pub(super) k: Tracked,
    /// `[B, N / g, T, H']`
    pub(super) v: Tracked,
    /// 1 / √H unless given.
    pub(super) scale: Option<f64>,
    /// Scores are bent to stay below this; 0 leaves them.
    pub(super) softcap: f64,
    /// Bools that say what may be attended to, or numbers to be added, broadcast to `[B, N, S, T]`.
    pub(super) mask: Option<Tracked>,
    pub(super) reach: Reach,
}

/// `softmax(softcap(scale · Q·Kᵀ) + bias) · V`; outputs also the keys and values with their caches, and the scores.
fn attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    [&q, &k, &v].into_iter().try_for_each(require_float)?;
    let (q_heads, kv_heads) = (call.int("q_num_heads")?, call.int("kv_num_heads")?);
    let (past_key, past_value) = (call.optional(4), call.optional(5));
    let (mask, valid) = (call.optional(3), call.optional(6).filter(|_| call.opset >= 24));
    let softcap = call.float_or("softcap", 0.0)?;
    let scale = call.float("scale")?.filter(|&s| s != 0.0);
    let windows = [call.int_or("left_window_size", -1)?, call.int_or("right_window_size", -1)?];
    let causal = call.flag("is_causal", false)?;
    let mode = call.int_or("qk_matmul_output_mode", 0)?;
    if !(0..4).contains(&mode) {
        let found = mode.to_string();
        return Err(Problem::InvalidAttribute { attribute: "qk_matmul_output_mode", expected: "0 to 3", found });
    }
    let shown = call.wants_output(3).then_some(mode);
    let build = &mut *call.build;
    let (q, is_packed) = heads(build, &q, q_heads)?;
    let (k, v) = (heads(build, &k, kv_heads)?.0, heads(build, &v, kv_heads)?.0);
    let (k, v) = (after(build, past_key.as_ref(), k)?, after(build, past_value.as_ref(), v)?);
    let offset = past_key.as_ref().and_then(|p| p.shape().get(2).cloned()).unwrap_or_default();
    let reach = Reach { causal, windows, offset, valid, queries: q.shape()[2].clone() };
    let attending = Attending { q, k: k.clone(), v: v.clone(), scale, softcap, mask, reach };
    let (y, scores) = attend(build, &attending, shown)?;
    let y = if is_packed { packed(build, &y)? } else { y };
    Ok([y, k, v].into_iter().chain(scores).collect())
}

/// What is new after what is in the cache, along the positions.
pub(super) fn after(build: &mut Builder, past: Option<&Tracked>, new: Tracked) -> Result<Tracked> {
    match past {
        Some(past) => build.concat(&[past, &new], 2),
        None => Ok(new),
    }
}

/// The result `[B, N, S, H']`, and the scores if `shown` says which: 0 the products, 1 with the soft cap, 2 with the
/// mask too, 3 after the softmax.
pub(super) fn attend(
    build: &mut Builder,
    attending: &Attending,
    shown: Option<i64>,
) -> Result<(Tracked, Option<Tracked>)> {
    let Attending { q, k, v, scale, softcap, mask, reach } = attending;
    if let Some(x) = [q, k, v].into_iter().find(|x| x.rank() != 4) {
        return Err(mismatch("heads: 4 axes", x.shape()));
    }
    if let Some(valid) = reach.valid.as_ref().filter(|valid| valid.rank() != 1) {
        return Err(mismatch("one length per batch", valid.shape()));
    }
    let dtype = q.dtype();
    let wide = compute_type(dtype);
    let softcap = *softcap;
    build.require_equal("the numbers of keys and values", &k.shape()[2], &v.shape()[2])?;
    let group = match (q.shape()[1].as_const(), k.shape()[1].as_const()) {
        (Some(n), Some(shared)) if shared > 0 && n % shared == 0 => n / shared,
        (None, _) | (_, None) if q.shape()[1] == k.shape()[1] => 1,
        _ => return Err(mismatch("query heads that are a multiple of the heads of keys", q.shape())),
    };

    // scores[b, n, i, j], where n = (shared, g).
    let scale = scale.or_else(|| Some(1.0 / (q.shape()[3].as_const()? as f64).sqrt()));
    let scale = scale.ok_or(Problem::DynamicValue { what: "the size of a head" })?;
    const B: u8 = 0;
    const N: u8 = 1;
    const G: u8 = 2;
    const I: u8 = 3;
    const J: u8 = 4;
    const D: u8 = 5;
    let grouped = |x: &Tracked| {
        let s = x.shape();
        vec![s[0].clone(), k.shape()[1].clone(), Dim::constant(group), s[2].clone(), s[3].clone()]
    };
    let split: Vec<u8> = if group == 1 { vec![B, N, I, D] } else { vec![B, N, G, I, D] };
    let scored: Vec<u8> = split[..split.len() - 1].iter().copied().chain([J]).collect();
    let queries = build.cast(q, wide)?;
    let queries = if group == 1 { queries } else { build.reshape(&queries, &grouped(q))? };
    let keys = build.cast(k, wide)?;
    let raw = build.contract((&queries, &split), (&keys, &[B, N, J, D]), &scored)?;
    let shape = vec![q.shape()[0].clone(), q.shape()[1].clone(), q.shape()[2].clone(), k.shape()[2].clone()];
    let raw = build.reshape(&raw, &shape)?;

    let mask = mask.as_ref().map(|mask| spread_mask(build, mask, &shape)).transpose()?;
    let valid = reach.valid.as_ref().map(|valid| build.view(valid, vec![var(0)], shape.clone())).transpose()?;
    let scaled = |body: &mut Body, raw: ScalarId| {
        let scale = body.constant(wide, scale);
        body.binary(BinaryOp::Mul, raw, scale)
    };
    let capped = |body: &mut Body, raw: ScalarId| {
        let scaled = scaled(body, raw);
        if softcap <= 0.0 {
            return scaled;
        }
        let cap = body.constant(wide, softcap);
        let part = body.binary(BinaryOp::Div, scaled, cap);
        let bent = body.unary(UnaryOp::Tanh, part);
        body.binary(BinaryOp::Mul, bent, cap)
    };
    let mut inputs = vec![&raw];
    inputs.extend(mask.as_ref());
    inputs.extend(valid.as_ref());
    let biased = build.map_over(shape.clone(), &inputs, |body, p| {
        let mut score = capped(body, p[0]);
        let nothing = body.constant(wide, f64::NEG_INFINITY);
        if mask.is_some() {
            score = match body.dtype(p[1]) {
                DType::Bool => body.select(p[1], score, nothing),
                _ => {
                    let bias = body.cast(wide, p[1]);
                    body.binary(BinaryOp::Add, score, bias)
                }
            };
        }
        if reach.is_limited() {
            let valid = valid.is_some().then(|| body.cast(DType::I64, p[p.len() - 1]));
            let hidden = reach.hides(body, valid);
            score = body.select(hidden, nothing, score);
        }
        score
    })?;
    let may_be_empty = mask.is_some() || reach.is_limited();
    let weights = build.composite(CompositeKind::Softmax, &[&biased], |build, inputs| {
        softmax(build, &inputs[0], &[3], CompositeKind::Softmax, may_be_empty)
    })?;
    let scores = match shown {
        None => None,
        Some(0) => Some(build.map(&[&raw], |body, p| scaled(body, p[0]))?),
        Some(1) => Some(build.map(&[&raw], |body, p| capped(body, p[0]))?),
        Some(2) => Some(biased.clone()),
        Some(_) => Some(weights.clone()),
    };
    let scores = scores.map(|scores| build.cast(&scores, dtype)).transpose()?;

    let weights = if group == 1 { weights } else { build.reshape(&weights, &grouped(&weights))? };
    let values = build.cast(v, wide)?;
    let y = build.contract((&weights, &scored), (&values, &[B, N, J, D]), &split)?;
    let y = build.reshape(&y, &[shape[0].clone(), shape[1].clone(), shape[2].clone(), v.shape()[3].clone()])?;
    Ok((build.cast(&y, dtype)?, scores))
}

/// A mask broadcast to the scores; keys that it does not reach are hidden.
fn spread_mask(build: &mut Builder, mask: &Tracked, shape: &[Dim]) -> Result<Tracked> {
    let Some(missing) = shape.len().checked_sub(mask.rank()) else {
        return Err(mismatch("at most 4 axes", mask.shape()));
    };
    let hidden = match mask.dtype() {
        DType::Bool => Const::zero(DType::Bool),
        dtype if dtype.is_float() => Const::from_f64(dtype, f64::NEG_INFINITY),
        found => return Err(Problem::UnsupportedType { expected: "bools or floats", found }),
    };
    let mut index: Vec<IndexExpr> = Vec::new();
    let mut valid = Vec::new();
    for (n, extent) in mask.shape().iter().enumerate() {
        let axis = missing + n;
        if extent.is_const(1) && !shape[axis].is_const(1) {
            index.push(IndexExpr::constant(0));
            continue;
        }
        index.push(var(axis));
        if axis == 3 && build.ranges().lt(extent, &shape[axis]) == Proof::Yes {
            valid.push(Bound { expr: var(axis), lo: Dim::constant(0), hi: extent.clone() });
        } else {
            build.require_equal("the extents of mask and scores", extent, &shape[axis])?;
        }
    }
    let map = AccessMap { rank: shape.len(), index, valid };
    build.view_or(mask, map, shape.to_vec(), hidden)
}
