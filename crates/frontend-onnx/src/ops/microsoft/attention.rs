//! Attention of the domain `com.microsoft`: MultiHeadAttention, GroupQueryAttention, and Attention with its projections.
//!
//! As ONNX Runtime's `ContribOperators.md` describes them. All end in [`attend`]; what differs is how queries, keys and
//! values are given, how keys are hidden, and how caches grow.

mod windowed;

use crate::build::{Builder, Result, compute_type, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::attention::{Attending, Reach, after, attend, heads, packed};
use crate::ops::elementwise::require_float;
use crate::ops::matmul::product_of;
use crate::ops::microsoft::quantized::scaled;
use crate::ops::norm::{root_mean_square, scale_and_shift};
use crate::ops::quantized_products::{matmul_sums, of_lines};
use crate::ops::rotary::{Rotation, rotate};
use crate::ops::scatter::{behind, is_below};
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const};
use infc_tensor::DType;
use windowed::Windowed;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Attention", 1, projected_attention),
    Operator::new("GroupQueryAttention", 1, group_query_attention),
    Operator::new("MultiHeadAttention", 1, multi_head_attention),
    Operator::new("QAttention", 1, quantized_attention),
];

/// Fails if a flag asks for what is not supported.
fn refuse(call: &Call<'_>, attribute: &'static str) -> Result<()> {
    if call.flag(attribute, false)? {
        return Err(Problem::UnsupportedAttribute { attribute, expected: "0", found: "1".to_owned() });
    }
    Ok(())
}

/// The scale that is given; 0 is none.
fn given_scale(call: &Call<'_>) -> Result<Option<f64>> {
    Ok(call.float("scale")?.filter(|&s| s != 0.0))
}

/// What is added to scores: what a mask of keys hides, and a bias.
struct Hiding {
    mask: Option<Tracked>,
    added: Option<Tracked>,
    /// What hidden scores get.
    filter: f64,
}

impl Hiding {
    /// Over `[B, N or 1, S or 1, T]`.
    fn bias(&self, build: &mut Builder, batch: &Dim, keys: &Dim, wide: DType) -> Result<Option<Tracked>> {
        let Some(mask) = &self.mask else { return Ok(self.added.clone()) };
        let one = || Dim::constant(1);
        let filtered = |body: &mut Body, hides: ScalarId| {
            let (filter, nothing) = (body.constant(wide, self.filter), body.constant(wide, 0.0));
            body.select(hides, filter, nothing)
        };
        let seen = |body: &mut Body, mask: ScalarId| {
            let zero = body.constant(body.dtype(mask), 0.0);
            let hides = body.compare(CompareOp::Eq, mask, zero);
            filtered(body, hides)
        };
        let bias = match mask.shape() {
            [b, t] => {
                let mask = build.reshape(mask, &[b.clone(), one(), one(), t.clone()])?;
                build.map(&[&mask], |body, p| seen(body, p[0]))?
            }
            [b, s, t] => {
                let mask = build.reshape(mask, &[b.clone(), one(), s.clone(), t.clone()])?;
                build.map(&[&mask], |body, p| seen(body, p[0]))?
            }
            [n] => {
                // Ends of the sequences, and for twice as many numbers their starts. Behind these may be what only other
                // kernels look at; of a number that is not known to be one of these, the first is taken for granted.
                if *n != batch.scale(2) && *n != batch.scale(3) + 2 {
                    build.require_equal("the number of sequences and of their lengths", n, batch)?;
                }
                let shape = vec![batch.clone(), one(), one(), keys.clone()];
                let has_starts = *n == batch.scale(2);
                let mut inputs = vec![build.view(mask, vec![var(0)], shape.clone())?];
                if has_starts {
                    inputs.push(build.view(mask, vec![var(0) + batch.clone()], shape.clone())?);
                }
                build.map_over(shape, &inputs.iter().collect::<Vec<_>>(), |body, p| {
                    let key = index(body, var(3));
                    let end = body.cast(DType::I64, p[0]);
                    let mut hides = body.compare(CompareOp::Ge, key, end);
                    if let Some(&start) = p.get(1) {
                        let start = body.cast(DType::I64, start);
                        let before = body.compare(CompareOp::Lt, key, start);
                        hides = body.binary(BinaryOp::Or, hides, before);
                    }
                    filtered(body, hides)
                })?
            }
            shape => return Err(mismatch("a mask over keys, or lengths of sequences", shape)),
        };
        let Some(added) = &self.added else { return Ok(Some(bias)) };
        let added = build.cast(added, wide)?;
        Ok(Some(build.map(&[&bias, &added], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?))
    }
}

/// Part `n` of features that lie side by side, with its part of the bias.
fn biased(build: &mut Builder, x: &Tracked, bias: Option<&Tracked>, start: &mut Dim) -> Result<Tracked> {
    let (Some(bias), [_, _, features]) = (bias, x.shape()) else { return Ok(x.clone()) };
    let part = build.slice_axis(bias, 0, start.clone(), features.clone())?;
    *start = start.clone() + features.clone();
    build.compute(&[x, &part], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))
}

/// Queries, keys and values by heads: each by itself, keys and values side by side (`[B, T, N, 2, H]`), or all three.
fn multi_head_inputs(call: &mut Call<'_>, count: i64) -> Result<([Tracked; 3], bool)> {
    let (q, key, value, bias) = (call.input(0)?, call.optional(1), call.optional(2), call.optional(3));
    if let Some(bias) = bias.as_ref().filter(|bias| bias.rank() != 1) {
        return Err(mismatch("one number per feature", bias.shape()));
    }
    let build = &mut *call.build;
    // One of several values in heads that lie side by side, as features.
    let side_by_side = |build: &mut Builder, x: &Tracked, n: i64| {
        let [b, t, heads, _, size] = x.shape() else { return Err(mismatch("5 axes of packed heads", x.shape())) };
        let (b, t, heads, size) = (b.clone(), t.clone(), heads.clone(), size.clone());
        let own = vec![var(0), var(1), var(2), Dim::constant(n), var(3)];
        let one = build.view(x, own, vec![b.clone(), t.clone(), heads.clone(), size.clone()])?;
        build.reshape(&one, &[b, t, heads * size])
    };
    let parts = match (key, value) {
        (None, _) => [side_by_side(build, &q, 0)?, side_by_side(build, &q, 1)?, side_by_side(build, &q, 2)?],
        (Some(kv), None) => [q, side_by_side(build, &kv, 0)?, side_by_side(build, &kv, 1)?],
        // Keys and values that come in heads have had their bias.
        (Some(k), Some(v)) => [q, k, v],
    };
    let mut start = Dim::constant(0);
    let is_packed = parts[0].rank() == 3;
    let mut split = Vec::new();
    for part in &parts {
        let part = biased(build, part, bias.as_ref(), &mut start)?;
        split.push(heads(build, &part, Some(count))?.0);
    }
    let [q, k, v] = <[Tracked; 3]>::try_from(split).expect("three parts");
    Ok(([q, k, v], is_packed))
}

fn multi_head_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let count = call.head_count("num_heads")?;
    for index in [8, 9] {
        if call.optional(index).is_some() {
            let (attribute, expected) = ("past_sequence_length", "caches that grow");
            return Err(Problem::UnsupportedAttribute { attribute, expected, found: "a shared buffer".to_owned() });
        }
    }
    let ([q, k, v], is_packed) = multi_head_inputs(call, count)?;
    let (past_key, past_value) = (call.optional(6), call.optional(7));
    let filter = call.float_or("mask_filter_value", -10000.0)?;
    let hiding = Hiding { mask: call.optional(4), added: call.optional(5), filter };
    let (scale, causal) = (given_scale(call)?, call.flag("unidirectional", false)?);
    let shown = call.wants_output(3).then_some(0);
    let build = &mut *call.build;
    let (k, v) = (after(build, past_key.as_ref(), k)?, after(build, past_value.as_ref(), v)?);
    let offset = past_key.as_ref().and_then(|p| p.shape().get(2).cloned()).unwrap_or_default();
    let mask = hiding.bias(build, &q.shape()[0], &k.shape()[2], compute_type(q.dtype()))?;
    let reach = Reach { causal, windows: [-1, -1], offset, valid: None, queries: q.shape()[2].clone() };
    let attending =
        Attending { q, k: k.clone(), v: v.clone(), scale, softcap: 0.0, mask, reach, defined: None, sink: None };
    let (y, scores) = attend(build, &attending, shown)?;
    let y = if is_packed { packed(build, &y)? } else { y };
    Ok([y, k, v].into_iter().chain(scores).collect())
}

/// With the projections in front: `x·weights + bias` has queries, keys and values side by side. Keys and values of
/// caches are stacked, `[2, B, N, T, H]`.
fn projected_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, weights, bias, past) = (call.input(0)?, call.input(1)?, call.optional(2), call.optional(4));
    [&x, &weights].into_iter().try_for_each(require_float)?;
    let filter = call.float_or("mask_filter_value", -10000.0)?;
    let hiding = Hiding { mask: call.optional(3), added: call.optional(5), filter };
    let [_, all] = weights.shape() else { return Err(mismatch("a matrix", weights.shape())) };
    let sizes = match call.ints("qkv_hidden_sizes")? {
        Some(sizes) => sizes.iter().map(|&s| Dim::constant(s)).collect(),
        None => vec![all.floor_div(&Dim::constant(3)); 3],
    };
    if sizes.len() != 3 || x.rank() != 3 {
        return Err(mismatch("3 axes, and sizes of queries, keys and values", x.shape()));
    }
    let build = &mut *call.build;
    let total: Dim = sizes.iter().cloned().sum();
    build.require_equal("the features of queries, keys and values", all, &total)?;
    let projected = product_of(build, &x, &weights)?;
    let projected = match bias {
        Some(bias) => build.compute(&[&projected, &bias], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?,
        None => projected,
    };
    of_projected(call, &projected, sizes, &hiding, past.as_ref())
}

/// `Attention` whose projections are of integers.
fn quantized_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let sums = matmul_sums(call, [0, 6], [1, 7])?;
    let (x_scale, w_scale) = (call.input(3)?, call.input(4)?);
    let x_scale = of_lines(call.build, &x_scale, sums.rank(), true)?;
    let w_scale = of_lines(call.build, &w_scale, sums.rank(), false)?;
    let bias = call.optional(2);
    let projected = scaled(call.build, &sums, [&x_scale, &w_scale], bias)?;
    let [_, _, all] = projected.shape() else { return Err(mismatch("3 axes", projected.shape())) };
    let own = all.floor_div(&Dim::constant(3));
    call.build.require_equal("the features of queries, keys and values", &all.clone(), &own.scale(3))?;
    let filter = call.float_or("mask_filter_value", -10000.0)?;
    let hiding = Hiding { mask: call.optional(5), added: None, filter };
    let past = call.optional(8);
    of_projected(call, &projected, vec![own; 3], &hiding, past.as_ref())
}

/// Attention of queries, keys and values that lie side by side, of these numbers of features.
fn of_projected(
    call: &mut Call<'_>,
    projected: &Tracked,
    sizes: Vec<Dim>,
    hiding: &Hiding,
    past: Option<&Tracked>,
) -> Result<Vec<Tracked>> {
    let count = call.head_count("num_heads")?;
    refuse(call, "do_rotary")?;
    refuse(call, "past_present_share_buffer")?;
    let (scale, causal) = (given_scale(call)?, call.flag("unidirectional", false)?);
    let build = &mut *call.build;
    let mut start = Dim::constant(0);
    let mut parts = Vec::new();
    for size in sizes {
        let part = build.slice_axis(projected, 2, start.clone(), size.clone())?;
        parts.push(heads(build, &part, Some(count))?.0);
        start = start + size;
    }
    let [q, k, v] = <[Tracked; 3]>::try_from(parts).expect("three sizes");
    let mut caches = [None, None];
    if let Some(past) = past {
        let [_, rest @ ..] = past.shape() else { return Err(mismatch("[2, B, N, T, H]", past.shape())) };
        let rest = rest.to_vec();
        if rest.len() != 4 {
            return Err(mismatch("[2, B, N, T, H]", past.shape()));
        }
        for (n, cache) in caches.iter_mut().enumerate() {
            let own = [Dim::constant(n as i64)].into_iter().chain((0..4).map(var)).collect();
            *cache = Some(build.view(past, own, rest.clone())?);
        }
    }
    let offset = caches[0].as_ref().map(|c| c.shape()[2].clone()).unwrap_or_default();
    let (k, v) = (after(build, caches[0].as_ref(), k)?, after(build, caches[1].as_ref(), v)?);
    let mask = hiding.bias(build, &q.shape()[0], &k.shape()[2], compute_type(q.dtype()))?;
    let reach = Reach { causal, windows: [-1, -1], offset, valid: None, queries: q.shape()[2].clone() };
    let attending =
        Attending { q, k: k.clone(), v: v.clone(), scale, softcap: 0.0, mask, reach, defined: None, sink: None };
    let (y, _) = attend(build, &attending, None)?;
    let mut outputs = vec![packed(build, &y)?];
    if call.wants_output(1) {
        let (k, v) = (call.build.insert_axis(&k, 0)?, call.build.insert_axis(&v, 0)?);
        outputs.push(call.build.concat(&[&k, &v], 0)?);
    }
    Ok(outputs)
}

/// Causal, with caches `[B, N, T, H]` of which each batch fills a part of its own: `seqlens_k` positions and one are
/// there after this step.
fn group_query_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (q_heads, kv_heads) = (call.head_count("num_heads")?, call.head_count("kv_num_heads")?);
    let windowed = call.flag("sliding_window_cache", false)?;
    if call.optional(16).is_some() {
        let (attribute, expected, found) = ("query_seqlens", "none", "an input".to_owned());
        return Err(Problem::UnsupportedAttribute { attribute, expected, found });
    }
    for attribute in ["k_quant_type", "v_quant_type"] {
        let found = call.string(attribute, "NONE")?;
        if found != "NONE" {
            return Err(Problem::UnsupportedAttribute { attribute, expected: "NONE", found });
        }
    }
    call.at_most_outputs(3)?;
    let (query, key, value) = (call.input(0)?, call.optional(1), call.optional(2));
    require_float(&query)?;
    let (past_key, past_value) = (call.optional(3), call.optional(4));
    if past_key.is_some() != past_value.is_some() {
        return Err(Problem::MissingInput { index: if past_key.is_some() { 4 } else { 3 } });
    }
    let lengths = call.input(5)?;
    let total = call.dims(6, "the length of the longest sequence")?.first().cloned();
    let total = total.ok_or(Problem::MissingInput { index: 6 })?;
    let (cos, sin, positions) = (call.optional(7), call.optional(8), call.optional(9));
    let (bias, sink) = (call.optional(10), call.optional(11));
    let norms = [call.optional(14), call.optional(15)];
    let epsilon = call.float_or("qk_norm_epsilon", 1e-6)?;
    let own = |attribute: &'static str| Ok(call.float(attribute)?.unwrap_or(epsilon));
    let epsilons: [f64; 2] = [own("q_norm_epsilon")?, own("k_norm_epsilon")?];
    let (scale, softcap) = (given_scale(call)?, call.float_or("softcap", 0.0)?);
    let causal = call.flag("causal", true)?;
    let window = call.int_or("local_window_size", -1)?;
    let (rotates, interleaved) = (call.flag("do_rotary", false)?, call.flag("rotary_interleaved", false)?);
    let smooth = call.flag("smooth_softmax", false)?;
    let build = &mut *call.build;
    let [mut q, mut k, v] = match (key, value) {
        (Some(key), Some(value)) => [
            heads(build, &query, Some(q_heads))?.0,
            heads(build, &key, Some(kv_heads))?.0,
            heads(build, &value, Some(kv_heads))?.0,
        ],
        _ => {
            let all = heads(build, &query, Some(q_heads + 2 * kv_heads))?.0;
            let mut part = |from: i64, count: i64| build.slice_axis(&all, 1, Dim::constant(from), Dim::constant(count));
            [part(0, q_heads)?, part(q_heads, kv_heads)?, part(q_heads + kv_heads, kv_heads)?]
        }
    };
    for ((x, norm), epsilon) in [(&mut q, &norms[0]), (&mut k, &norms[1])].into_iter().zip(epsilons) {
        if let Some(norm) = norm {
            let normalised = root_mean_square(build, x, &[3], epsilon)?;
            *x = scale_and_shift(build, &normalised, norm, None)?;
        }
    }
    let (batch, queries) = (q.shape()[0].clone(), q.shape()[2].clone());
    if past_key.is_some() {
        build.one_is_usual(&[&batch, &queries]);
    }
    let lengths = build.reshape(&lengths, std::slice::from_ref(&batch))?;
    // Positions after this step; a prompt that is shorter than the others is padded behind its end.
    let total_positions = build.map(&[&lengths], |body, p| {
        let (length, one) = (body.cast(DType::I64, p[0]), index(body, Dim::constant(1)));
        body.binary(BinaryOp::Add, length, one)
    })?;
    let valid = build.map(&[&total_positions], |body, p| {
        let least = index(body, queries.clone());
        body.binary(BinaryOp::Max, p[0], least)
    })?;
    let starts = build.map(&[&valid], |body, p| {
        let queries = index(body, queries.clone());
        body.binary(BinaryOp::Sub, p[0], queries)
    })?;
    if rotates {
        let (Some(cos), Some(sin)) = (cos, sin) else { return Err(Problem::MissingInput { index: 7 }) };
        let half =
            cos.shape().last().and_then(Dim::as_const).ok_or(Problem::DynamicValue { what: "rotated features" })?;
        let positions = match positions {
            Some(positions) => positions,
            None => {
                let shape = vec![batch.clone(), queries.clone()];
                let starts = build.view(&starts, vec![var(0)], shape.clone())?;
                build.map_over(shape, &[&starts], |body, p| {
                    let offset = index(body, var(1));
                    body.binary(BinaryOp::Add, p[0], offset)
                })?
            }
        };
        let rotation = Rotation { cos, sin, positions: Some(positions), rotated: 2 * half, interleaved, heads: None };
        (q, k) = (rotate(build, &q, &rotation)?, rotate(build, &k, &rotation)?);
    }
    let sink = match sink {
        None if smooth => {
            let zero = build.scalar(q.dtype(), 0.0);
            Some(build.broadcast(&zero, &[Dim::constant(q_heads)])?)
        }
        sink => sink,
    };
    if windowed {
        let past_key = past_key.ok_or(Problem::MissingInput { index: 3 })?;
        let past_value = past_value.ok_or(Problem::MissingInput { index: 4 })?;
        let capacity = past_key.shape().get(2).ok_or_else(|| mismatch("4 axes of a cache", past_key.shape()))?;
        if window <= 0 || !causal || bias.is_some() {
            let (attribute, expected) = ("sliding_window_cache", "a window, no bias, and no key behind its query");
            return Err(Problem::UnsupportedAttribute { attribute, expected, found: "1".to_owned() });
        }
        let cache = Windowed::new(build, total_positions, capacity, &queries, window)?;
        let (k, v) = (cache.grown(build, &past_key, &k)?, cache.grown(build, &past_value, &v)?);
        let mask = Some(cache.mask(build)?);
        let reach = Reach { causal: false, windows: [-1, -1], offset: Dim::constant(0), valid: None, queries };
        let attending = Attending { q, k: k.seen, v: v.seen, scale, softcap, mask, reach, defined: None, sink };
        let (y, _) = attend(build, &attending, None)?;
        return Ok(vec![packed(build, &y)?, k.kept, v.kept]);
    }
    let keys = match &past_key {
        Some(past) if past.rank() == 4 => {
            let ranges = build.ranges();
            past.shape()[2].maximum(&total).simplify(&ranges)
        }
        Some(past) => return Err(mismatch("4 axes of a cache", past.shape())),
        None => queries.clone(),
    };
    let k = grown(build, past_key.as_ref(), &k, &starts, &keys)?;
    let v = grown(build, past_value.as_ref(), &v, &starts, &keys)?;
    // A window counts the query's own position.
    let left = if window > 0 { window - 1 } else { -1 };
    let reach =
        Reach { causal, windows: [left, -1], offset: Dim::constant(0), valid: Some(valid), queries: queries.clone() };
    let (mut seen_k, mut seen_v) = (k.clone(), v.clone());
    if past_key.is_some() {
        // Nobody sees what a cache has room for behind the longest sequence.
        build.require_at_least("the length of the longest sequence", &total, &queries)?;
        seen_k = build.slice_axis(&k, 2, Dim::constant(0), total.clone())?;
        seen_v = build.slice_axis(&v, 2, Dim::constant(0), total)?;
    }
    let attending = Attending { q, k: seen_k, v: seen_v, scale, softcap, mask: bias, reach, defined: None, sink };
    let (y, _) = attend(build, &attending, None)?;
    Ok(vec![packed(build, &y)?, k, v])
}

/// A cache of `length` positions with the new ones at each batch's start: `[B, N, T, H]`.
fn grown(
    build: &mut Builder,
    past: Option<&Tracked>,
    new: &Tracked,
    starts: &Tracked,
    length: &Dim,
) -> Result<Tracked> {
    let Some(past) = past else { return Ok(new.clone()) };
    let [batch, heads, count, size] = new.shape() else { return Err(mismatch("4 axes", new.shape())) };
    let (batch, heads, count, size) = (batch.clone(), heads.clone(), count.clone(), size.clone());
    if past.rank() != 4 {
        return Err(mismatch("4 axes of a cache", past.shape()));
    }
    for (axis, mine) in [(0, &batch), (1, &heads), (3, &size)] {
        build.require_equal("the extents of a cache", &past.shape()[axis], mine)?;
    }
    // Which of the new ones a position holds, if it holds one.
    let rows = vec![batch.clone(), heads.clone(), length.clone()];
    let first = build.view(starts, vec![var(0)], rows.clone())?;
    let places = build.map_over(rows, &[&first], |body, p| {
        let offset = behind(body, var(2), p[0]);
        let (zero, last) = (index(body, Dim::constant(0)), (count.clone() - 1).maximum(&Dim::constant(0)));
        let (offset, last) = (body.binary(BinaryOp::Max, offset, zero), index(body, last));
        body.binary(BinaryOp::Min, offset, last)
    })?;
    let found = rows_at(build, new, &places)?;
    let shape = vec![batch, heads, length.clone(), size];
    let valid = vec![Bound { expr: var(2), lo: Dim::constant(0), hi: past.shape()[2].clone() }];
    let map = AccessMap { rank: 4, index: (0..4).map(var).collect(), valid };
    let old = build.view_or(past, map, shape.clone(), Const::zero(past.dtype()))?;
    let first = build.view(starts, vec![var(0)], shape.clone())?;
    build.map_over(shape, &[&first, &found, &old], |body, p| {
        let offset = behind(body, var(2), p[0]);
        let is_new = is_below(body, offset, count);
        body.select(is_new, p[1], p[2])
    })
}

/// The rows of `x`, `[B, N, T, H]`, at the places that each head of a batch has: `[B, N, C]`.
fn rows_at(build: &mut Builder, x: &Tracked, places: &Tracked) -> Result<Tracked> {
    let [batch, heads, count, size] = x.shape() else { return Err(mismatch("4 axes", x.shape())) };
    let (batch, heads, count, size) = (batch.clone(), heads.clone(), count.clone(), size.clone());
    let table = build.reshape(x, &[batch * heads.clone() * count.clone(), size])?;
    let places = build.map(&[places], |body, p| {
        let first = index(body, (var(0) * heads + var(1)) * count);
        body.binary(BinaryOp::Add, first, p[0])
    })?;
    build.gather(&table, &places, 0)
}
