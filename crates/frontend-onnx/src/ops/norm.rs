//! Normalisations: batch, layer, instance, group, RMS, Lp, mean-variance, local response.

use super::Operator;
use super::elementwise::require_float;
use super::pool::require_channels;
use super::reduce::divide;
use crate::build::{Builder, Result, compute_type, mismatch};
use crate::call::{Call, axes};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, UnaryOp};
use infc_tensor::Tensor;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("BatchNormalization", 1, batch_norm),
    Operator::new("LayerNormalization", 17, layer_norm),
    Operator::new("RMSNormalization", 23, rms_norm),
    Operator::new("InstanceNormalization", 1, instance_norm),
    Operator::new("GroupNormalization", 18, group_norm),
    Operator::new("LpNormalization", 1, lp_norm),
    Operator::new("MeanVarianceNormalization", 9, mean_variance_norm),
    Operator::new("LRN", 1, local_response),
];

/// What ONNX Runtime's optimisers and exporters write in ONNX's own domain, which does not have it, or not yet.
pub(super) const UNOFFICIAL: &[Operator] = &[
    Operator::new("LayerNormalization", 1, layer_norm).until(17),
    Operator::new("SimplifiedLayerNormalization", 1, simplified_layer_norm),
];

/// `1 / √(x + epsilon)`
fn reciprocal_root(body: &mut Body, x: ScalarId, epsilon: f64) -> ScalarId {
    let epsilon = body.constant(body.dtype(x), epsilon);
    let sum = body.binary(BinaryOp::Add, x, epsilon);
    let root = body.unary(UnaryOp::Sqrt, sum);
    body.unary(UnaryOp::Reciprocal, root)
}

/// `(x − mean) / √(var + ε) · scale + bias` per channel, or before opset 9 per element of the feature map if `spatial`
/// is 0; with constant statistics, `x · factor + offset`.
fn batch_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let training = call.opset >= 14 && call.flag("training_mode", false)?;
    call.at_most_outputs(if training { 3 } else { 1 })?;
    let x = call.input(0)?;
    require_channels(&x)?;
    require_float(&x)?;
    let epsilon = call.float_or("epsilon", 1e-5)?;
    let per_channel = call.opset >= 9 || call.flag("spatial", true)?;
    let features = if per_channel { x.shape()[1..2].to_vec() } else { x.shape()[1..].to_vec() };
    let mut parameters = Vec::with_capacity(4);
    for n in 1..5 {
        let parameter = call.input(n)?;
        if per_channel && parameter.rank() != 1 {
            return Err(mismatch("one number per channel", parameter.shape()));
        }
        if per_channel {
            call.build.require_equal("the channels of input and parameters", &features[0], &parameter.shape()[0])?;
        }
        parameters.push(call.build.reshape(&parameter, &features)?);
    }
    // What belongs to the features, under the axes of `x` behind the batch.
    let spread: Vec<Dim> =
        features.iter().cloned().chain(vec![Dim::constant(1); x.rank() - 1 - features.len()]).collect();
    if training {
        return batch_norm_in_training(call, &x, &parameters, &spread, epsilon);
    }
    if let Some((factor, offset)) = folded_batch_norm(&parameters, epsilon) {
        let name = call.node.output.first().cloned().unwrap_or_default();
        let factor = call.build.constant(&format!("{name}:factor"), factor);
        let offset = call.build.constant(&format!("{name}:offset"), offset);
        let (factor, offset) = (call.build.reshape(&factor, &spread)?, call.build.reshape(&offset, &spread)?);
        let result = call.build.compute(&[&x, &factor, &offset], |body, p| {
            let scaled = body.binary(BinaryOp::Mul, p[0], p[1]);
            body.binary(BinaryOp::Add, scaled, p[2])
        })?;
        return Ok(vec![result]);
    }
    let wide = compute_type(x.dtype());
    let mut inputs = vec![x.clone()];
    for parameter in &parameters {
        let parameter = call.build.cast(parameter, wide)?;
        inputs.push(call.build.reshape(&parameter, &spread)?);
    }
    let result = call.build.compute(&inputs.iter().collect::<Vec<_>>(), |body, p| {
        let (x, scale, bias, mean, variance) = (p[0], p[1], p[2], p[3], p[4]);
        let centred = body.binary(BinaryOp::Sub, x, mean);
        let root = reciprocal_root(body, variance, epsilon);
        let factor = body.binary(BinaryOp::Mul, root, scale);
        let scaled = body.binary(BinaryOp::Mul, centred, factor);
        body.binary(BinaryOp::Add, scaled, bias)
    })?;
    Ok(vec![result])
}

/// With the statistics of the batch itself, which also move the running ones:
/// `running = given · momentum + batch · (1 − momentum)`. The variance is that of the population.
fn batch_norm_in_training(
    call: &mut Call<'_>,
    x: &Tracked,
    parameters: &[Tracked],
    spread: &[Dim],
    epsilon: f64,
) -> Result<Vec<Tracked>> {
    let momentum = call.float_or("momentum", 0.9)?;
    let axes: Vec<usize> = (0..x.rank()).filter(|&n| n != 1).collect();
    let normalised = normalise(call.build, x, &axes, epsilon)?;
    let wide = normalised.y.dtype();
    let mut spread_out = |t: &Tracked| -> Result<Tracked> {
        let t = call.build.cast(t, wide)?;
        call.build.reshape(&t, spread)
    };
    let (scale, bias) = (spread_out(&parameters[0])?, spread_out(&parameters[1])?);
    let y = call.build.map(&[&normalised.y, &scale, &bias], |body, p| {
        let scaled = body.binary(BinaryOp::Mul, p[0], p[1]);
        let shifted = body.binary(BinaryOp::Add, scaled, p[2]);
        body.cast(x.dtype(), shifted)
    })?;
    let mut outputs = vec![y];
    for (given, batch) in parameters[2..].iter().zip([&normalised.mean, &normalised.variance]) {
        let batch = call.build.reshape(batch, given.shape())?;
        outputs.push(call.build.map(&[given, &batch], |body, p| {
            let (given_wide, keep) = (body.cast(wide, p[0]), body.constant(wide, momentum));
            let (kept, take) = (body.binary(BinaryOp::Mul, given_wide, keep), body.constant(wide, 1.0 - momentum));
            let taken = body.binary(BinaryOp::Mul, p[1], take);
            let running = body.binary(BinaryOp::Add, kept, taken);
            body.cast(given.dtype(), running)
        })?);
    }
    Ok(outputs)
}

/// Factor and offset in f32, if scale, bias, mean and variance are all constants.
fn folded_batch_norm(parameters: &[Tracked], epsilon: f64) -> Option<(Tensor, Tensor)> {
    let values: Vec<Vec<f64>> =
        parameters.iter().map(|t| t.constant().and_then(|_| t.floats())).collect::<Option<_>>()?;
    let [scale, bias, mean, variance] = &values[..] else { return None };
    let len = scale.len();
    let factor: Vec<f64> = (0..len).map(|c| scale[c] / (variance[c] + epsilon).sqrt()).collect();
    let offset: Vec<f64> = (0..len).map(|c| bias[c] - mean[c] * factor[c]).collect();
    let dtype = compute_type(parameters[0].dtype());
    let tensor = |values: &[f64]| {
        if dtype == infc_tensor::DType::F64 {
            return Tensor::from_elements(&[len], values).ok();
        }
        Tensor::from_elements(&[len], &values.iter().map(|&v| v as f32).collect::<Vec<f32>>()).ok()
    };
    Some((tensor(&factor)?, tensor(&offset)?))
}

/// The shape with the given axes reduced to 1.
fn kept(shape: &[Dim], axes: &[usize]) -> Vec<Dim> {
    shape.iter().enumerate().map(|(n, d)| if axes.contains(&n) { Dim::constant(1) } else { d.clone() }).collect()
}

/// The mean of `f(x)` over axes, which stay with extent 1.
fn mean_of(
    build: &mut Builder,
    x: &Tracked,
    axes: &[usize],
    f: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
) -> Result<Tracked> {
    let count = axes.iter().map(|&a| x.shape()[a].clone()).product::<Dim>();
    let sum = build.reduce(&[x], axes, Reducer::sum(x.dtype()), |body, p| vec![f(body, p[0])])?.remove(0);
    let mean = divide(build, &sum, count, x.dtype())?;
    build.reshape(&mean, &kept(x.shape(), axes))
}

fn square(body: &mut Body, x: ScalarId) -> ScalarId {
    body.binary(BinaryOp::Mul, x, x)
}

/// What normalising over axes gives, in the computing type.
pub(super) struct Normalised {
    /// Mean 0, variance 1.
    pub(super) y: Tracked,
    pub(super) mean: Tracked,
    pub(super) variance: Tracked,
    /// `1 / √(var + ε)`
    pub(super) reciprocal: Tracked,
}

pub(super) fn normalise(build: &mut Builder, x: &Tracked, axes: &[usize], epsilon: f64) -> Result<Normalised> {
    let x = build.cast(x, compute_type(x.dtype()))?;
    let mean = mean_of(build, &x, axes, |_, x| x)?;
    let centred = build.map(&[&x, &mean], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))?;
    let variance = mean_of(build, &centred, axes, square)?;
    let reciprocal = build.map(&[&variance], |body, p| reciprocal_root(body, p[0], epsilon))?;
    let y = build.map(&[&centred, &reciprocal], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?;
    Ok(Normalised { y, mean, variance, reciprocal })
}

/// `y · scale (+ bias)`, rounded to the type of `scale`.
pub(super) fn scale_and_shift(
    build: &mut Builder,
    y: &Tracked,
    scale: &Tracked,
    bias: Option<&Tracked>,
) -> Result<Tracked> {
    let dtype = scale.dtype();
    let shape = y.shape().to_vec();
    let inputs: Vec<&Tracked> = [y, scale].into_iter().chain(bias).collect();
    build.map_over(shape, &inputs, |body, p| {
        let wide = body.dtype(p[0]);
        let scale = body.cast(wide, p[1]);
        let mut result = body.binary(BinaryOp::Mul, p[0], scale);
        if let Some(&bias) = p.get(2) {
            let bias = body.cast(wide, bias);
            result = body.binary(BinaryOp::Add, result, bias);
        }
        body.cast(dtype, result)
    })
}

fn trailing(call: &Call<'_>, rank: usize) -> Result<Vec<usize>> {
    Ok((call.axis("axis", -1, rank)?..rank).collect())
}

/// Over all axes from `axis` on; a composite unless the statistics are asked for too.
fn layer_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.optional(2));
    require_float(&x)?;
    let axes = trailing(call, x.rank())?;
    let epsilon = call.float_or("epsilon", 1e-5)?;
    if call.wants_output(1) || call.wants_output(2) {
        let normalised = normalise(call.build, &x, &axes, epsilon)?;
        let y = scale_and_shift(call.build, &normalised.y, &scale, bias.as_ref())?;
        return Ok(vec![y, normalised.mean, normalised.reciprocal]);
    }
    let inputs: Vec<&Tracked> = [&x, &scale].into_iter().chain(&bias).collect();
    let result = call.build.composite(CompositeKind::LayerNorm, &inputs, |build, inputs| {
        let normalised = normalise(build, &inputs[0], &axes, epsilon)?;
        scale_and_shift(build, &normalised.y, &inputs[1], inputs.get(2))
    })?;
    Ok(vec![result])
}

/// `x / √(mean(x²) + ε)`, in the computing type.
pub(super) fn root_mean_square(build: &mut Builder, x: &Tracked, axes: &[usize], epsilon: f64) -> Result<Tracked> {
    let wide = build.cast(x, compute_type(x.dtype()))?;
    let mean = mean_of(build, &wide, axes, square)?;
    build.map(&[&wide, &mean], |body, p| {
        let reciprocal = reciprocal_root(body, p[1], epsilon);
        body.binary(BinaryOp::Mul, p[0], reciprocal)
    })
}

/// `x / √(mean(x²) + ε) · scale`, of the scale's type.
fn scaled_by_root_mean_square(call: &mut Call<'_>) -> Result<Tracked> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    [&x, &scale].into_iter().try_for_each(require_float)?;
    let axes = trailing(call, x.rank())?;
    let epsilon = call.float_or("epsilon", 1e-5)?;
    let y = root_mean_square(call.build, &x, &axes, epsilon)?;
    scale_and_shift(call.build, &y, &scale, None)
}

fn rms_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let dtype = call.input(0)?.dtype();
    let y = scaled_by_root_mean_square(call)?;
    Ok(vec![call.build.cast(&y, dtype)?])
}

/// RMSNormalization, but of the scale's type; the reciprocal deviation, its second output, is refused.
pub(super) fn simplified_layer_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    call.at_most_outputs(1)?;
    Ok(vec![scaled_by_root_mean_square(call)?])
}

/// Per sample and channel, over the other axes.
fn instance_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require_channels(&x)?;
    require_float(&x)?;
    let epsilon = call.float_or("epsilon", 1e-5)?;
    // Exporters write group normalisation as this operator between two reshapes. Normalising over the axes as they were
    // keeps the layout of what is around.
    let parts = ungrouped(call.build, &x)?;
    let normalised = {
        let parts = parts.as_ref().unwrap_or(&x);
        let axes: Vec<usize> = (2..parts.rank()).collect();
        normalise(call.build, parts, &axes, epsilon)?
    };
    let rank = normalised.y.rank();
    let scale = call.build.along_axis(&scale, 1, rank)?;
    let bias = call.build.along_axis(&bias, 1, rank)?;
    let y = scale_and_shift(call.build, &normalised.y, &scale, Some(&bias))?;
    Ok(vec![call.build.reshape(&y, x.shape())?])
}

/// `[N, G, C/G, …]` where `x` is `[N, G, M]`, reshaped from `[N, C, …]`.
fn ungrouped(build: &mut Builder, x: &Tracked) -> Result<Option<Tracked>> {
    let Some(source) = build.reshaped_from(x)? else { return Ok(None) };
    let (from, to) = (source.shape(), x.shape());
    if to.len() != 3 || from.len() < 3 || from[0] != to[0] {
        return Ok(None);
    }
    let (Some(channels), Some(groups)) = (from[1].as_const(), to[1].as_const()) else { return Ok(None) };
    if groups < 1 || channels % groups != 0 {
        return Ok(None);
    }
    let mut split = vec![from[0].clone(), to[1].clone(), Dim::constant(channels / groups)];
    split.extend_from_slice(&from[2..]);
    build.reshape(&source, &split).map(Some)
}

fn group_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    require_channels(&x)?;
    require_float(&x)?;
    let groups = call.int_or("num_groups", 1)?;
    let channels = x.shape()[1].as_const().ok_or(Problem::DynamicValue { what: "the number of channels" })?;
    if groups < 1 || channels % groups != 0 {
        return Err(mismatch(format!("channels that {groups} groups share"), x.shape()));
    }
    let mut split = x.shape().to_vec();
    split[1] = Dim::constant(channels / groups);
    split.insert(1, Dim::constant(groups));
    let grouped = call.build.reshape(&x, &split)?;
    let axes: Vec<usize> = (2..split.len()).collect();
    let normalised = normalise(call.build, &grouped, &axes, call.float_or("epsilon", 1e-5)?)?;
    let parameter = |build: &mut Builder, t: &Tracked| -> Result<Tracked> {
        let mut shape = vec![Dim::constant(1); split.len()];
        shape[1] = Dim::constant(groups);
        if t.shape().first() != Some(&shape[1]) || call.opset >= 21 {
            shape[2] = Dim::constant(channels / groups);
        }
        build.reshape(t, &shape)
    };
    let (scale, bias) = (parameter(call.build, &scale)?, parameter(call.build, &bias)?);
    let y = scale_and_shift(call.build, &normalised.y, &scale, Some(&bias))?;
    Ok(vec![call.build.reshape(&y, x.shape())?])
}

/// `x / ‖x‖ₚ` along an axis, for p = 1 or 2; zero where the norm is zero.
fn lp_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let axis = call.axis("axis", -1, x.rank())?;
    let p = call.int_or("p", 2)?;
    if !(1..=2).contains(&p) {
        let found = p.to_string();
        return Err(Problem::InvalidAttribute { attribute: "p", expected: "1 or 2", found });
    }
    let wide = compute_type(x.dtype());
    let sum = call.build.reduce(&[&x], &[axis], Reducer::sum(wide), |body, params| {
        let x = body.cast(wide, params[0]);
        vec![if p == 1 { body.unary(UnaryOp::Abs, x) } else { square(body, x) }]
    })?;
    let sum = call.build.reshape(&sum[0], &kept(x.shape(), &[axis]))?;
    let result = call.build.compute(&[&x, &sum], |body, params| {
        let norm = if p == 1 { params[1] } else { body.unary(UnaryOp::Sqrt, params[1]) };
        let quotient = body.binary(BinaryOp::Div, params[0], norm);
        let zero = body.constant(wide, 0.0);
        let nothing = body.compare(infc_ir::scalar::CompareOp::Eq, norm, zero);
        body.select(nothing, zero, quotient)
    })?;
    Ok(vec![result])
}

/// `(x − mean) / (√var + 1e-9)` over axes.
fn mean_variance_norm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let axes = axes(call.ints("axes")?.unwrap_or(&[0, 2, 3]), x.rank())?;
    let wide = call.build.cast(&x, compute_type(x.dtype()))?;
    let mean = mean_of(call.build, &wide, &axes, |_, x| x)?;
    let centred = call.build.map(&[&wide, &mean], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))?;
    let variance = mean_of(call.build, &centred, &axes, square)?;
    let result = call.build.map(&[&centred, &variance], |body, p| {
        let root = body.unary(UnaryOp::Sqrt, p[1]);
        let epsilon = body.constant(body.dtype(root), 1e-9);
        let divisor = body.binary(BinaryOp::Add, root, epsilon);
        body.binary(BinaryOp::Div, p[0], divisor)
    })?;
    Ok(vec![call.build.cast(&result, x.dtype())?])
}

/// `x / (bias + alpha/size · Σ x²)^beta`, the sum over `size` neighbouring channels.
fn local_response(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    use crate::build::{Window, WindowAxis, var};
    use infc_ir::scalar::Const;

    let x = call.input(0)?;
    require_channels(&x)?;
    require_float(&x)?;
    let size = call.int_or("size", 0)?;
    if !(1..1 << 31).contains(&size) {
        let found = size.to_string();
        return Err(Problem::InvalidAttribute { attribute: "size", expected: "a positive number", found });
    }
    let (alpha, beta) = (call.float_or("alpha", 0.0001)?, call.float_or("beta", 0.75)?);
    let bias = call.float_or("bias", 1.0)?;
    // Channels last, so that the window lies over the last axis.
    let order: Vec<usize> = (0..x.rank()).filter(|&n| n != 1).chain([1]).collect();
    let mut back: Vec<usize> = (0..x.rank() - 1).collect();
    back.insert(1, x.rank() - 1);
    let last = call.build.transpose(&x, &order)?;
    let lead = last.shape()[..x.rank() - 1].to_vec();
    let channels = x.shape()[1].clone();
    let axis = WindowAxis {
        extent: channels.clone(),
        kernel: size,
        stride: 1,
        dilation: 1,
        begin: Dim::constant((size - 1) / 2),
        end: Dim::constant(size / 2),
        padded: size > 1,
        count: channels,
    };
    let lead_index = (0..lead.len()).map(var).collect();
    let folded = lead.len();
    let window = Window { lead, lead_index, axes: &[axis], padding: Const::zero(x.dtype()) };
    let windows = call.build.window(&last, &window)?;
    let wide = compute_type(x.dtype());
    let axes: &[usize] = if size == 1 { &[] } else { &[folded] };
    let squares = if axes.is_empty() {
        call.build.map(&[&windows], |body, p| {
            let x = body.cast(wide, p[0]);
            square(body, x)
        })?
    } else {
        let sums = call.build.reduce(&[&windows], axes, Reducer::sum(wide), |body, p| {
            let x = body.cast(wide, p[0]);
            vec![square(body, x)]
        })?;
        sums[0].clone()
    };
    let squares = call.build.transpose(&squares, &back)?;
    let result = call.build.compute(&[&x, &squares], |body, p| {
        let factor = body.constant(wide, alpha / size as f64);
        let (bias, exponent) = (body.constant(wide, bias), body.constant(wide, beta));
        let scaled = body.binary(BinaryOp::Mul, p[1], factor);
        let base = body.binary(BinaryOp::Add, scaled, bias);
        let divisor = body.binary(BinaryOp::Pow, base, exponent);
        body.binary(BinaryOp::Div, p[0], divisor)
    })?;
    Ok(vec![result])
}
