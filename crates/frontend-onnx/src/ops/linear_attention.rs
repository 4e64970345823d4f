//! LinearAttention and CausalConvWithState: what keeps a state of fixed size between positions.
//!
//! ONNX operators of these names, opset 27 and later, and those of ONNX Runtime's domain `com.microsoft`, from which they
//! come, as far as these do the same. Linear attention is a recurrence over positions whose state is a
//! matrix per head of keys, `S [B, H, K, V]`; its rules differ in what is forgotten and what is corrected before the new
//! pair is written. The convolution sees the inputs before the first, which are kept, instead of padding.

use super::Operator;
use super::activation::swish_of;
use super::attention::{heads, packed};
use super::conv::add_bias;
use super::elementwise::require_float;
use super::recurrent::last;
use crate::build::{Builder, Result, Step, Steps, Window, WindowAxis, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Const, UnaryOp};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("LinearAttention", 27, linear_attention), Operator::new("CausalConvWithState", 27, causal_conv)];

/// In the domain `com.microsoft`.
pub(super) const MICROSOFT: &[Operator] = &[
    Operator::new("CausalConvWithState", 1, |call| {
        plain(call, &[("ndim", 1, "1"), ("channels_last", 0, "0"), ("state_channels_last", -1, "-1")])?;
        plain(call, &["state_window", "state_update_capacity", "state_length"].map(|name| (name, 0, "0")))?;
        plain(call, &["input_channels", "input_channel_offset"].map(|name| (name, 0, "0")))?;
        causal_conv(call)
    }),
    Operator::new("LinearAttention", 1, |call| {
        plain(call, &[("state_window", 0, "0")])?;
        linear_attention(call)
    }),
];

/// Fails if an attribute is not what it is where nothing is said.
fn plain(call: &Call<'_>, attributes: &[(&'static str, i64, &'static str)]) -> Result<()> {
    for &(attribute, default, expected) in attributes {
        let found = call.int_or(attribute, default)?;
        if found != default {
            return Err(Problem::UnsupportedAttribute { attribute, expected, found: found.to_string() });
        }
    }
    Ok(())
}

/// Positions in front, as recurrences want them: `[B, H, T, D]` as `[T, B, H, D]`.
fn steps_first(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    build.transpose(x, &[2, 0, 1, 3])
}

/// `[B, T, H·D]` as `[T, B, H, D]`, computed in f32.
fn by_steps(build: &mut Builder, x: &Tracked, count: i64) -> Result<Tracked> {
    if x.rank() != 3 {
        return Err(mismatch("3 axes", x.shape()));
    }
    let x = build.cast(x, compute_type(x.dtype()))?;
    let (x, _) = heads(build, &x, Some(count))?;
    steps_first(build, &x)
}

fn linear_attention(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    [&q, &k, &v].into_iter().try_for_each(require_float)?;
    let dtype = q.dtype();
    let wide = compute_type(dtype);
    let (past, decay, beta) = (call.optional(3), call.optional(4), call.optional(5));
    let (q_heads, kv_heads) = (call.head_count("q_num_heads")?, call.head_count("kv_num_heads")?);
    if q_heads % kv_heads != 0 {
        let found = q_heads.to_string();
        return Err(Problem::InvalidAttribute {
            attribute: "q_num_heads",
            expected: "a multiple of kv_num_heads",
            found,
        });
    }
    let rule = call.string("update_rule", "gated_delta")?;
    let (gated, corrected) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        _ => {
            let expected = "linear, gated, delta or gated_delta";
            return Err(Problem::InvalidAttribute { attribute: "update_rule", expected, found: rule });
        }
    };
    for (index, needed, given) in [(4, gated, &decay), (5, corrected, &beta)] {
        if needed && given.is_none() {
            return Err(Problem::MissingInput { index });
        }
        if !needed && given.is_some() {
            let expected = "a rule that uses the inputs that are given";
            return Err(Problem::InvalidAttribute { attribute: "update_rule", expected, found: rule });
        }
    }
    let scale = call.float_or("scale", 0.0)?;
    let build = &mut *call.build;
    let (q, k, v) = (by_steps(build, &q, q_heads)?, by_steps(build, &k, kv_heads)?, by_steps(build, &v, kv_heads)?);
    let (steps, batch) = (k.shape()[0].clone(), k.shape()[1].clone());
    let (key_size, value_size) = (k.shape()[3].clone(), v.shape()[3].clone());
    for x in [&q, &v] {
        build.require_equal("the numbers of positions", &x.shape()[0], &steps)?;
        build.require_equal("the batches", &x.shape()[1], &batch)?;
    }
    build.require_equal("the sizes of queries and keys", &q.shape()[3], &key_size)?;
    let scale = match (scale, key_size.as_const()) {
        (0.0, Some(size)) => 1.0 / (size as f64).sqrt(),
        (0.0, None) => return Err(Problem::DynamicValue { what: "the size of a head" }),
        (scale, _) => scale,
    };
    let group = q_heads / kv_heads;
    // Query heads that share a state: [T, B, H, G, K].
    let shared = [steps.clone(), batch.clone(), Dim::constant(kv_heads), Dim::constant(group), key_size.clone()];
    let q = build.reshape(&q, &shared)?;
    let q = build.map(&[&q], |body, p| {
        let scale = body.constant(wide, scale);
        body.binary(BinaryOp::Mul, p[0], scale)
    })?;
    let mut slices = vec![q, k, v];
    if let Some(decay) = decay {
        slices.push(kept_part(build, &decay, kv_heads)?);
    }
    if let Some(beta) = beta {
        let count = if beta.shape().get(2).is_some_and(|d| d.is_const(1)) { 1 } else { kv_heads };
        slices.push(by_steps(build, &beta, count)?);
    }
    let state_shape = [batch, Dim::constant(kv_heads), key_size, value_size];
    let state_type = past.as_ref().map_or(dtype, Tracked::dtype);
    let initial = match past {
        Some(past) => {
            let past = build.cast(&past, wide)?;
            build.conform("extents of the state", &past, &state_shape)?
        }
        None => {
            let zero = build.scalar(wide, 0.0);
            build.broadcast(&zero, &state_shape)?
        }
    };
    let slices: Vec<&Tracked> = slices.iter().collect();
    let of = Steps { steps: steps.clone(), states: &[&initial], slices: &slices, shared: &[] };
    let histories = build.recurrence(&of, |build, step| {
        let state = updated(build, step, gated, corrected)?;
        // o[b, h, g, v] = Σₖ q[b, h, g, k] · S[b, h, k, v]
        let read = build.contract((&step.slices[0], &[0, 1, 4, 2]), (&state, &[0, 1, 2, 3]), &[0, 1, 4, 3])?;
        Ok(vec![state, read])
    })?;
    let state = last(build, &histories[0], &initial, &steps)?;
    // [T, B, H, G, V] as [B, H·G, T, V], then side by side.
    let y = build.transpose(&histories[1], &[1, 2, 3, 0, 4])?;
    let merged = [y.shape()[0].clone(), Dim::constant(q_heads), steps, y.shape()[4].clone()];
    let y = build.reshape(&y, &merged)?;
    let y = packed(build, &y)?;
    Ok(vec![build.cast(&y, dtype)?, build.cast(&state, state_type)?])
}

/// What is left of a state per step, `e^decay` as `[T, B, H, K]` or `[T, B, H, 1]`.
fn kept_part(build: &mut Builder, decay: &Tracked, kv_heads: i64) -> Result<Tracked> {
    let decay = by_steps(build, decay, kv_heads)?;
    build.map(&[&decay], |body, p| body.unary(UnaryOp::Exp, p[0]))
}

/// `S' = S·kept + k ⊗ v`, or with what the state has for the key already taken out of `v`, times `beta`.
fn updated(build: &mut Builder, step: &Step, gated: bool, corrected: bool) -> Result<Tracked> {
    let (k, v) = (&step.slices[1], &step.slices[2]);
    let mut state = step.states[0].clone();
    if gated {
        let kept = build.insert_axis(&step.slices[3], 3)?;
        state = build.map(&[&state, &kept], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?;
    }
    let mut v = v.clone();
    if corrected {
        let beta = step.slices.last().expect("there is a beta");
        let present = build.contract((&state, &[0, 1, 2, 3]), (k, &[0, 1, 2]), &[0, 1, 3])?;
        v = build.map(&[&v, &present, beta], |body, p| {
            let rest = body.binary(BinaryOp::Sub, p[0], p[1]);
            body.binary(BinaryOp::Mul, rest, p[2])
        })?;
    }
    let (k, v) = (build.insert_axis(k, 3)?, build.insert_axis(&v, 2)?);
    build.map(&[&state, &k, &v], |body, p| {
        let pair = body.binary(BinaryOp::Mul, p[1], p[2]);
        body.binary(BinaryOp::Add, p[0], pair)
    })
}

/// `y[n, c, t] = Σ seen[n, c, t + d·r] · w[c, 0, r] (+ b[c])`, where what is seen is the state and then the input, and `d` the
/// dilation, which only ONNX Runtime's operator has.
fn causal_conv(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, weights, past) = (call.input(0)?, call.input(1)?, call.optional(3));
    require_float(&x)?;
    let activation = call.string("activation", "none")?;
    let bends = match activation.as_str() {
        "none" => false,
        "silu" | "swish" => true,
        _ => {
            let expected = "none, silu or swish";
            return Err(Problem::InvalidAttribute { attribute: "activation", expected, found: activation });
        }
    };
    let ([batch, channels, length], [_, one, kernel]) = (x.shape(), weights.shape()) else {
        return Err(mismatch("3 axes of input and weights", x.shape()));
    };
    let (batch, channels, length) = (batch.clone(), channels.clone(), length.clone());
    let kernel = kernel.as_const().filter(|k| (1..1 << 31).contains(k));
    let kernel = kernel.ok_or(Problem::DynamicValue { what: "the length of the window" })?;
    let dilation = call.positive("dilation", 1)?;
    let kept = (kernel - 1) * dilation;
    let build = &mut *call.build;
    build.require_equal("the channels of input and weights", &channels, &weights.shape()[0])?;
    build.require_equal("the channels that a filter sees", one, &Dim::constant(1))?;
    let state_shape = [batch.clone(), channels.clone(), Dim::constant(kept)];
    let past = match past {
        Some(past) => build.conform("extents of the state", &past, &state_shape)?,
        None => {
            let zero = build.scalar(x.dtype(), 0.0);
            build.broadcast(&zero, &state_shape)?
        }
    };
    let seen = if kernel == 1 { x.clone() } else { build.concat(&[&past, &x], 2)? };
    let wide = compute_type(x.dtype());
    let axis = WindowAxis {
        extent: seen.shape()[2].clone(),
        kernel,
        stride: 1,
        dilation,
        begin: Dim::constant(0),
        end: Dim::constant(0),
        padded: false,
        count: length.clone(),
    };
    let lead = vec![batch, channels.clone()];
    let zero = Const::zero(x.dtype());
    let window = Window { lead, lead_index: vec![var(0), var(1)], axes: &[axis], padding: zero };
    let windows = build.window(&seen, &window)?;
    let (windows, weights) = (build.cast(&windows, wide)?, build.cast(&weights, wide)?);
    let y = if kernel == 1 {
        let weights = build.reshape(&weights, std::slice::from_ref(&channels))?;
        let weights = build.along_axis(&weights, 1, 3)?;
        build.map(&[&windows, &weights], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?
    } else {
        let filters = build.reshape(&weights, &[channels, Dim::constant(kernel)])?;
        build.contract((&windows, &[0, 1, 2, 3]), (&filters, &[1, 2]), &[0, 1, 3])?
    };
    let state = build.slice_axis(&seen, 2, length, Dim::constant(kept))?;
    let y = call.build.cast(&y, x.dtype())?;
    let y = add_bias(call, &y, 2)?;
    let y = if bends { call.build.compute(&[&y], |body, p| swish_of(body, p[0], 1.0))? } else { y };
    Ok(vec![y, state])
}
