//! Activation functions with parameters.

use super::Operator;
use super::elementwise::require_float;
use crate::build::{Builder, Result, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Relu", 1, relu),
    Operator::new("LeakyRelu", 1, leaky_relu),
    Operator::new("PRelu", 1, prelu),
    Operator::new("ThresholdedRelu", 10, thresholded_relu),
    Operator::new("Elu", 1, |c| exponential(c, 1.0, 1.0)),
    // The first version gave the constants with four decimals.
    Operator::new("Selu", 1, |c| exponential(c, 1.6732, 1.0507)).until(6),
    Operator::new("Selu", 6, |c| exponential(c, 1.673_263_2, 1.050_701)),
    Operator::new("Celu", 12, celu),
    Operator::new("HardSigmoid", 1, hard_sigmoid),
    Operator::new("HardSwish", 14, hard_swish),
    Operator::new("Softplus", 1, |c| float_map(c, softplus)),
    Operator::new("Softsign", 1, softsign),
    Operator::new("Mish", 18, mish),
    Operator::new("Swish", 24, swish),
    Operator::new("SwiGLU", 28, swiglu),
    Operator::new("Shrink", 9, shrink),
    Operator::new("Gelu", 20, gelu),
];

fn float_map(call: &mut Call<'_>, f: impl FnOnce(&mut Body, ScalarId) -> ScalarId) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    Ok(vec![call.build.compute(&[&x], |body, p| f(body, p[0]))?])
}

/// A constant of the type of `like`.
pub(super) fn number(body: &mut Body, like: ScalarId, value: f64) -> ScalarId {
    body.constant(body.dtype(like), value)
}

pub(super) fn scale(body: &mut Body, x: ScalarId, by: f64) -> ScalarId {
    let by = number(body, x, by);
    body.binary(BinaryOp::Mul, x, by)
}

fn add(body: &mut Body, x: ScalarId, by: f64) -> ScalarId {
    let by = number(body, x, by);
    body.binary(BinaryOp::Add, x, by)
}

/// `x < bound ? below : above`
pub(super) fn split_at(body: &mut Body, x: ScalarId, bound: f64, below: ScalarId, above: ScalarId) -> ScalarId {
    let bound = number(body, x, bound);
    let less = body.compare(CompareOp::Lt, x, bound);
    body.select(less, below, above)
}

fn relu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let result = call.build.compute(&[&x], |body, p| {
        let zero = number(body, p[0], 0.0);
        body.binary(BinaryOp::Max, p[0], zero)
    })?;
    Ok(vec![result])
}

fn leaky_relu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 0.01)?;
    float_map(call, |body, x| leaky(body, x, alpha))
}

/// `x < 0 ? alpha·x : x`
pub(super) fn leaky(body: &mut Body, x: ScalarId, alpha: f64) -> ScalarId {
    let below = scale(body, x, alpha);
    split_at(body, x, 0.0, below, x)
}

/// The slope broadcasts to the input, not the other way; before opset 7 a vector of slopes runs along the channels.
fn prelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, mut slope) = (call.input(0)?, call.input(1)?);
    if call.opset < 7 && slope.rank() == 1 && x.rank() > 1 {
        slope = call.build.along_axis(&slope, 1, x.rank())?;
    }
    let slope = call.build.broadcast(&slope, x.shape())?;
    let result = call.build.compute(&[&x, &slope], |body, p| {
        let below = body.binary(BinaryOp::Mul, p[0], p[1]);
        split_at(body, p[0], 0.0, below, p[0])
    })?;
    Ok(vec![result])
}

fn thresholded_relu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 1.0)?;
    float_map(call, |body, x| {
        let (alpha, zero) = (number(body, x, alpha), number(body, x, 0.0));
        let above = body.compare(CompareOp::Gt, x, alpha);
        body.select(above, x, zero)
    })
}

/// `gamma · (x < 0 ? alpha·(eˣ − 1) : x)`
fn exponential(call: &mut Call<'_>, alpha: f32, gamma: f32) -> Result<Vec<Tracked>> {
    let (alpha, gamma) = (call.float_or("alpha", alpha)?, call.float_or("gamma", gamma)?);
    float_map(call, |body, x| {
        let result = elu(body, x, alpha);
        if gamma == 1.0 { result } else { scale(body, result, gamma) }
    })
}

/// `x < 0 ? alpha·(eˣ − 1) : x`
pub(super) fn elu(body: &mut Body, x: ScalarId, alpha: f64) -> ScalarId {
    let power = body.unary(UnaryOp::Exp, x);
    let less_one = add(body, power, -1.0);
    let below = scale(body, less_one, alpha);
    split_at(body, x, 0.0, below, x)
}

/// `max(0, x) + min(0, alpha·(e^(x/alpha) − 1))`
fn celu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 1.0)?;
    float_map(call, |body, x| {
        let divisor = number(body, x, alpha);
        let ratio = body.binary(BinaryOp::Div, x, divisor);
        let power = body.unary(UnaryOp::Exp, ratio);
        let less_one = add(body, power, -1.0);
        let below = scale(body, less_one, alpha);
        let zero = number(body, x, 0.0);
        let (positive, negative) = (body.binary(BinaryOp::Max, x, zero), body.binary(BinaryOp::Min, below, zero));
        body.binary(BinaryOp::Add, positive, negative)
    })
}

/// `max(0, min(1, alpha·x + beta))`
pub(super) fn hard_sigmoid_of(body: &mut Body, x: ScalarId, alpha: f64, beta: f64) -> ScalarId {
    let line = scale(body, x, alpha);
    let line = add(body, line, beta);
    let (zero, one) = (number(body, x, 0.0), number(body, x, 1.0));
    let capped = body.binary(BinaryOp::Min, line, one);
    body.binary(BinaryOp::Max, capped, zero)
}

fn hard_sigmoid(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (alpha, beta) = (call.float_or("alpha", 0.2)?, call.float_or("beta", 0.5)?);
    float_map(call, |body, x| hard_sigmoid_of(body, x, alpha, beta))
}

fn hard_swish(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    float_map(call, |body, x| {
        let gate = hard_sigmoid_of(body, x, 1.0 / 6.0, 0.5);
        body.binary(BinaryOp::Mul, x, gate)
    })
}

/// `log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|)`, which cannot overflow.
pub(super) fn softplus(body: &mut Body, x: ScalarId) -> ScalarId {
    let zero = number(body, x, 0.0);
    let positive = body.binary(BinaryOp::Max, x, zero);
    let magnitude = body.unary(UnaryOp::Abs, x);
    let negative = body.unary(UnaryOp::Neg, magnitude);
    let power = body.unary(UnaryOp::Exp, negative);
    let sum = add(body, power, 1.0);
    let log = body.unary(UnaryOp::Log, sum);
    body.binary(BinaryOp::Add, positive, log)
}

fn softsign(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    float_map(call, softsign_of)
}

/// `x / (1 + |x|)`
pub(super) fn softsign_of(body: &mut Body, x: ScalarId) -> ScalarId {
    let magnitude = body.unary(UnaryOp::Abs, x);
    let divisor = add(body, magnitude, 1.0);
    body.binary(BinaryOp::Div, x, divisor)
}

fn mish(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    float_map(call, |body, x| {
        // tanh(log(1 + u)) = n / (n + 2) with n = u·(u + 2) and u = eˣ, which keeps the digits of small results; for
        // large x it is 1, long before u overflows.
        let enough = number(body, x, 20.0);
        let bounded = body.binary(BinaryOp::Min, x, enough);
        let power = body.unary(UnaryOp::Exp, bounded);
        let sum = add(body, power, 2.0);
        let part = body.binary(BinaryOp::Mul, power, sum);
        let whole = add(body, part, 2.0);
        let gate = body.binary(BinaryOp::Div, part, whole);
        body.binary(BinaryOp::Mul, x, gate)
    })
}

fn swish(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 1.0)?;
    float_map(call, |body, x| swish_of(body, x, alpha))
}

/// `x · sigmoid(alpha · x)`
pub(super) fn swish_of(body: &mut Body, x: ScalarId, alpha: f64) -> ScalarId {
    let scaled = if alpha == 1.0 { x } else { scale(body, x, alpha) };
    let gate = body.unary(UnaryOp::Sigmoid, scaled);
    body.binary(BinaryOp::Mul, x, gate)
}

/// `swish(a) · b`, of equal shapes.
fn swiglu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    require_float(&a)?;
    let alpha = call.float_or("alpha", 1.0)?;
    if a.rank() != b.rank() {
        return Err(mismatch("two inputs of one shape", b.shape()));
    }
    for (mine, theirs) in a.shape().iter().zip(b.shape()) {
        call.build.require_equal("the extents of gate and value", mine, theirs)?;
    }
    let result = call.build.compute(&[&a, &b], |body, p| {
        let gate = swish_of(body, p[0], alpha);
        body.binary(BinaryOp::Mul, gate, p[1])
    })?;
    Ok(vec![result])
}

/// `x < −lambd ? x + bias : x > lambd ? x − bias : 0`
fn shrink(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (lambd, bias) = (call.float_or("lambd", 0.5)?, call.float_or("bias", 0.0)?);
    let x = call.input(0)?;
    let dtype = x.dtype();
    // Bounds of integers may lie between them.
    let wide = if dtype.is_int() { call.build.cast(&x, DType::F64)? } else { x };
    let result = call.build.compute(&[&wide], |body, p| {
        let x = p[0];
        let (up, down, zero) = (add(body, x, bias), add(body, x, -bias), number(body, x, 0.0));
        let bound = number(body, x, lambd);
        let beyond = body.compare(CompareOp::Gt, x, bound);
        let inner = body.select(beyond, down, zero);
        split_at(body, x, -lambd, up, inner)
    })?;
    Ok(vec![call.build.cast(&result, dtype)?])
}

/// `x·Φ(x)`, with the error function or its approximation by tanh.
fn gelu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let approximate = call.string("approximate", "none")?;
    let tanh = match approximate.as_str() {
        "none" => false,
        "tanh" => true,
        _ => {
            return Err(Problem::InvalidAttribute {
                attribute: "approximate",
                expected: "none or tanh",
                found: approximate,
            });
        }
    };
    Ok(vec![if tanh { approximate_gelu(call.build, &x)? } else { exact_gelu(call.build, &x)? }])
}

pub(super) fn exact_gelu(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    gelu_of(build, x, false)
}

pub(super) fn approximate_gelu(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    gelu_of(build, x, true)
}

fn gelu_of(build: &mut Builder, x: &Tracked, tanh: bool) -> Result<Tracked> {
    require_float(x)?;
    build.composite(CompositeKind::Gelu, &[x], |build, inputs| {
        build.compute(&[&inputs[0]], |body, p| {
            let x = p[0];
            let bent = if tanh {
                // tanh(√(2/π)·(x + 0.044715·x³))
                let square = body.binary(BinaryOp::Mul, x, x);
                let cube = body.binary(BinaryOp::Mul, square, x);
                let cube = scale(body, cube, 0.044_715);
                let sum = body.binary(BinaryOp::Add, x, cube);
                let inner = scale(body, sum, (2.0 / std::f64::consts::PI).sqrt());
                body.unary(UnaryOp::Tanh, inner)
            } else {
                let inner = scale(body, x, std::f64::consts::FRAC_1_SQRT_2);
                body.unary(UnaryOp::Erf, inner)
            };
            let sum = add(body, bent, 1.0);
            let half = scale(body, x, 0.5);
            body.binary(BinaryOp::Mul, half, sum)
        })
    })
}
