//! Attention (opset 23 on), with caches, grouped heads, masks and windows.
//!
//! Everything is spelled out in contractions, one map over the scores and a softmax; the graph passes recognise the
//! pattern as they recognise models that spell it out themselves. A strict import takes ONNX's own definition by other
//! operators, which scales queries and keys by the root, and rounds between its operators.

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

    /// True where query `i` must not attend to key `j`, the last two of so many axes; `valid` is the element of that tensor.
    fn hides(&self, body: &mut Body, rank: usize, valid: Option<ScalarId>) -> ScalarId {
        let (i, j) = (index(body, var(rank - 2)), index(body, var(rank - 1)));
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
    /// If ONNX's definition by other operators is to be followed to the letter, the type of its softmax.
    pub(super) defined: Option<DType>,
    /// Per query head, the score of nothing, which takes its share of the weights: `[N]`.
    pub(super) sink: Option<Tracked>,
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
    let precision = call.dtype("softmax_precision")?.unwrap_or(q.dtype());
    let build = &mut *call.build;
    let mask = match mask {
        // They are added to scores as numbers are.
        Some(integers) if integers.dtype().is_int() => Some(build.cast(&integers, compute_type(q.dtype()))?),
        mask => mask,
    };
    let (q, is_packed) = heads(build, &q, q_heads)?;
    let (k, v) = (heads(build, &k, kv_heads)?.0, heads(build, &v, kv_heads)?.0);
    let (k, v) = (after(build, past_key.as_ref(), k)?, after(build, past_value.as_ref(), v)?);
    let offset = past_key.as_ref().and_then(|p| p.shape().get(2).cloned()).unwrap_or_default();
    let reach = Reach { causal, windows, offset, valid, queries: q.shape()[2].clone() };
    let defined = build.strict.then_some(precision);
    let attending = Attending { q, k: k.clone(), v: v.clone(), scale, softcap, mask, reach, defined, sink: None };
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
    let Attending { q, k, v, scale, softcap, mask, reach, defined, sink } = attending;
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
    let scale = scale.or_else(|| Some(1.0 / (q.shape()[3].as_const()? as f64).sqrt()));
    let scale = scale.ok_or(Problem::DynamicValue { what: "the size of a head" })?;
    // As they are asked for, by query heads; and with those that share keys apart, so that nothing is in between two products.
    let by_heads = vec![q.shape()[0].clone(), q.shape()[1].clone(), q.shape()[2].clone(), k.shape()[2].clone()];
    let step = if defined.is_some() { dtype } else { wide };
    let raw = if defined.is_some() {
        let root = scale.abs().sqrt();
        let (q, k) = (scaled(build, q, root.copysign(scale), step)?, scaled(build, k, root, step)?);
        let raw = grouped_scores(build, &q, &k, wide)?;
        build.cast(&raw, step)?
    } else {
        grouped_scores(build, q, k, wide)?
    };
    let shape = raw.shape().to_vec();
    let keys = shape.len() - 1;
    let mask = mask.as_ref().map(|mask| spread_mask(build, mask, &by_heads)).transpose()?;
    let mask = mask.map(|mask| build.reshape(&mask, &shape)).transpose()?;
    let valid = reach.valid.as_ref().map(|valid| build.view(valid, vec![var(0)], shape.clone())).transpose()?;
    let by_scale = |body: &mut Body, raw: ScalarId| {
        if defined.is_some() {
            return raw;
        }
        let scale = body.constant(step, scale);
        body.binary(BinaryOp::Mul, raw, scale)
    };
    let capped = |body: &mut Body, raw: ScalarId| {
        let scaled = by_scale(body, raw);
        if softcap <= 0.0 {
            return scaled;
        }
        let cap = body.constant(step, softcap);
        let part = body.binary(BinaryOp::Div, scaled, cap);
        let bent = body.unary(UnaryOp::Tanh, part);
        body.binary(BinaryOp::Mul, bent, cap)
    };
    let mut inputs = vec![&raw];
    inputs.extend(mask.as_ref());
    inputs.extend(valid.as_ref());
    let biased = build.map_over(shape.clone(), &inputs, |body, p| {
        let mut score = capped(body, p[0]);
        let nothing = body.constant(step, f64::NEG_INFINITY);
        if mask.is_some() {
            score = match body.dtype(p[1]) {
                DType::Bool => body.select(p[1], score, nothing),
                _ => {
                    let bias = body.cast(step, p[1]);
                    body.binary(BinaryOp::Add, score, bias)
                }
            };
        }
        if reach.is_limited() {
            let valid = valid.is_some().then(|| body.cast(DType::I64, p[p.len() - 1]));
            let hidden = reach.hides(body, shape.len(), valid);
            score = body.select(hidden, nothing, score);
        }
        score
    })?;
    let may_be_empty = mask.is_some() || reach.is_limited();
    let seen = match sink {
        Some(sink) => {
            let sink = build.cast(sink, step)?;
            let mut one_more = shape.clone();
            one_more[keys] = Dim::constant(1);
            let head = if keys == 3 { var(1) } else { var(1) * shape[2].clone() + var(2) };
            let nothing = build.view(&sink, vec![head], one_more)?;
            build.concat(&[&biased, &nothing], keys)?
        }
        None => biased.clone(),
    };
    let seen = build.cast(&seen, defined.unwrap_or(step))?;
    let weights = build.composite(CompositeKind::Softmax, &[&seen], |build, inputs| {
        softmax(build, &inputs[0], &[keys], CompositeKind::Softmax, may_be_empty)
    })?;
    let weights =
        if sink.is_some() { build.slice_axis(&weights, keys, Dim::constant(0), shape[keys].clone())? } else { weights };
    let shown = match shown {
        None => None,
        Some(0) => Some(build.map(&[&raw], |body, p| by_scale(body, p[0]))?),
        Some(1) => Some(build.map(&[&raw], |body, p| capped(body, p[0]))?),
        Some(2) => Some(biased.clone()),
        Some(_) => Some(weights.clone()),
    };
    let shown = shown.map(|scores| build.cast(&scores, dtype)).transpose()?;
    let shown = shown.map(|scores| build.reshape(&scores, &by_heads)).transpose()?;

    let weights = build.cast(&weights, step)?;
    let y = grouped_sums(build, &weights, v, wide)?;
    let y = build.cast(&y, dtype)?;
    let mut sums = by_heads;
    sums[3] = v.shape()[3].clone();
    Ok((build.reshape(&y, &sums)?, shown))
}

// Labels of axes, where query head n is g of those that share one of keys.
const B: u8 = 0;
const N: u8 = 1;
const G: u8 = 2;
const I: u8 = 3;
const J: u8 = 4;
const D: u8 = 5;

/// `x` with its heads split by those of `shared` (queries, weights), and the labels of all axes but the last.
fn grouped(build: &mut Builder, x: &Tracked, shared: &Dim) -> Result<(Tracked, Vec<u8>)> {
    let heads = &x.shape()[1];
    match (heads.as_const(), shared.as_const()) {
        _ if heads == shared => Ok((x.clone(), vec![B, N, I])),
        (Some(n), Some(kv)) if kv > 0 && n % kv == 0 => {
            let s = x.shape();
            let split = [s[0].clone(), shared.clone(), Dim::constant(n / kv), s[2].clone(), s[3].clone()];
            Ok((build.reshape(x, &split)?, vec![B, N, G, I]))
        }
        _ => Err(mismatch("query heads that are a multiple of the heads of keys", x.shape())),
    }
}

/// `Q·Kᵀ`, computed in a type: `[B, N, S, T]`, or `[B, N / g, g, S, T]` where heads share keys.
fn grouped_scores(build: &mut Builder, q: &Tracked, k: &Tracked, dtype: DType) -> Result<Tracked> {
    let (q, k) = (build.cast(q, dtype)?, build.cast(k, dtype)?);
    let (q, lead) = grouped(build, &q, &k.shape()[1])?;
    let (read, scored) = ([&lead[..], &[D]].concat(), [&lead[..], &[J]].concat());
    build.contract((&q, &read), (&k, &[B, N, J, D]), &scored)
}

/// `weights·V` of weights as [`grouped_scores`] are, computed in a type.
fn grouped_sums(build: &mut Builder, weights: &Tracked, v: &Tracked, dtype: DType) -> Result<Tracked> {
    let (weights, v) = (build.cast(weights, dtype)?, build.cast(v, dtype)?);
    let lead: &[u8] = if weights.rank() == 4 { &[B, N, I] } else { &[B, N, G, I] };
    let (read, written) = ([lead, &[J]].concat(), [lead, &[D]].concat());
    build.contract((&weights, &read), (&v, &[B, N, J, D]), &written)
}

/// `Q·Kᵀ` by heads, computed in a type: `[B, N, S, T]`.
pub(crate) fn scores(build: &mut Builder, q: &Tracked, k: &Tracked, dtype: DType) -> Result<Tracked> {
    let shape = [q.shape()[0].clone(), q.shape()[1].clone(), q.shape()[2].clone(), k.shape()[2].clone()];
    let scores = grouped_scores(build, q, k, dtype)?;
    build.reshape(&scores, &shape)
}

/// `weights·V` by heads, computed in a type: `[B, N, S, H']`.
pub(crate) fn weighted(build: &mut Builder, weights: &Tracked, v: &Tracked, dtype: DType) -> Result<Tracked> {
    let w = weights.shape();
    let shape = [w[0].clone(), w[1].clone(), w[2].clone(), v.shape()[3].clone()];
    let (weights, _) = grouped(build, weights, &v.shape()[1])?;
    let y = grouped_sums(build, &weights, v, dtype)?;
    build.reshape(&y, &shape)
}

/// Scores times a number, in a type.
pub(crate) fn scaled(build: &mut Builder, scores: &Tracked, scale: f64, dtype: DType) -> Result<Tracked> {
    build.map(&[scores], |body, p| {
        let scale = body.constant(body.dtype(p[0]), scale);
        let scaled = body.binary(BinaryOp::Mul, p[0], scale);
        body.cast(dtype, scaled)
    })
}

/// The softmax of scores over keys.
pub(crate) fn weights(build: &mut Builder, scores: &Tracked) -> Result<Tracked> {
    let kind = CompositeKind::Softmax;
    build.composite(kind, &[scores], |build, inputs| softmax(build, &inputs[0], &[3], kind, false))
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
