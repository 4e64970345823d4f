//! Steps of optimisers: Adagrad, Adam, Momentum.
//!
//! ONNX operators of these names in the domain `ai.onnx.preview.training`, opset 1. Inputs are the learning rate, the
//! number of steps so far, and as many tensors of each kind as are optimised; everything is element-wise.

use super::Operator;
use super::elementwise::require_float;
use crate::build::Result;
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Adagrad", 1, adagrad), Operator::new("Adam", 1, adam), Operator::new("Momentum", 1, momentum)];

/// The tensors that are optimised: for each its value, gradient and whatever is kept of it.
fn tensors(call: &Call<'_>, kinds: usize) -> Result<Vec<Vec<Tracked>>> {
    let all: Vec<Tracked> = (2..call.inputs.len()).map(|n| call.input(n)).collect::<Result<_>>()?;
    if all.is_empty() || !all.len().is_multiple_of(kinds) {
        return Err(Problem::MissingInput { index: call.inputs.len() });
    }
    all.iter().try_for_each(require_float)?;
    let count = all.len() / kinds;
    Ok((0..count).map(|n| (0..kinds).map(|kind| all[kind * count + n].clone()).collect()).collect())
}

/// A step for every tensor; `f` makes results out of rate, count and the tensors of one, all as scalars of one type.
fn step(
    call: &mut Call<'_>,
    kinds: usize,
    f: impl Fn(&mut Body, ScalarId, ScalarId, &[ScalarId]) -> Vec<ScalarId>,
) -> Result<Vec<Tracked>> {
    let (rate, count) = (call.input(0)?, call.input(1)?);
    let all = tensors(call, kinds)?;
    let build = &mut *call.build;
    let (rate, count) = (build.reshape(&rate, &[])?, build.reshape(&count, &[])?);
    let results = kinds - 1;
    let mut outputs: Vec<Vec<Tracked>> = vec![Vec::new(); results];
    for one in &all {
        let inputs: Vec<&Tracked> = [&rate, &count].into_iter().chain(one).collect();
        for (n, output) in outputs.iter_mut().enumerate() {
            output.push(build.map_over(one[0].shape().to_vec(), &inputs, |body, p| {
                let dtype = body.dtype(p[2]);
                let (rate, count) = (body.cast(dtype, p[0]), body.cast(dtype, p[1]));
                f(body, rate, count, &p[2..])[n]
            })?);
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

fn number(body: &mut Body, like: ScalarId, value: f64) -> ScalarId {
    body.constant(body.dtype(like), value)
}

fn scaled(body: &mut Body, x: ScalarId, by: f64) -> ScalarId {
    let by = number(body, x, by);
    body.binary(BinaryOp::Mul, x, by)
}

/// `a·x + b·y`
fn mixed(body: &mut Body, (a, x): (f64, ScalarId), (b, y): (f64, ScalarId)) -> ScalarId {
    let (left, right) = (scaled(body, x, a), scaled(body, y, b));
    body.binary(BinaryOp::Add, left, right)
}

/// `G + norm · X`
fn regularised(body: &mut Body, norm: f64, x: ScalarId, gradient: ScalarId) -> ScalarId {
    mixed(body, (norm, x), (1.0, gradient))
}

/// `X − R/(1 + T·decay) · G/(√H' + ε)` with `H' = H + G²`.
fn adagrad(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (norm, decay) = (call.float_or("norm_coefficient", 0.0)?, call.float_or("decay_factor", 0.0)?);
    let epsilon = call.float_or("epsilon", 1e-6)?;
    step(call, 3, |body, rate, count, p| {
        let (one, slower) = (number(body, rate, 1.0), scaled(body, count, decay));
        let divisor = body.binary(BinaryOp::Add, one, slower);
        let rate = body.binary(BinaryOp::Div, rate, divisor);
        let gradient = regularised(body, norm, p[0], p[1]);
        let square = body.binary(BinaryOp::Mul, gradient, gradient);
        let kept = body.binary(BinaryOp::Add, p[2], square);
        let direction = quotient(body, gradient, kept, epsilon);
        vec![moved(body, p[0], rate, direction), kept]
    })
}

/// `x / (√square + ε)`
fn quotient(body: &mut Body, x: ScalarId, square: ScalarId, epsilon: f64) -> ScalarId {
    let (root, epsilon) = (body.unary(UnaryOp::Sqrt, square), number(body, square, epsilon));
    let divisor = body.binary(BinaryOp::Add, root, epsilon);
    body.binary(BinaryOp::Div, x, divisor)
}

/// `x − rate · direction`
fn moved(body: &mut Body, x: ScalarId, rate: ScalarId, direction: ScalarId) -> ScalarId {
    let by = body.binary(BinaryOp::Mul, rate, direction);
    body.binary(BinaryOp::Sub, x, by)
}

/// Averages of gradients and of their squares, and the rate corrected for how few there were.
fn adam(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (alpha, beta) = (call.float_or("alpha", 0.9)?, call.float_or("beta", 0.999)?);
    let (norm, after) = (call.float_or("norm_coefficient", 0.0)?, call.float_or("norm_coefficient_post", 0.0)?);
    let epsilon = call.float_or("epsilon", 1e-6)?;
    step(call, 4, |body, rate, count, p| {
        let gradient = regularised(body, norm, p[0], p[1]);
        let average = mixed(body, (alpha, p[2]), (1.0 - alpha, gradient));
        let square = body.binary(BinaryOp::Mul, gradient, gradient);
        let squares = mixed(body, (beta, p[3]), (1.0 - beta, square));
        let missing = |body: &mut Body, kept: f64| {
            let (base, one) = (number(body, count, kept), number(body, count, 1.0));
            let power = body.binary(BinaryOp::Pow, base, count);
            body.binary(BinaryOp::Sub, one, power)
        };
        let (of_squares, of_average) = (missing(body, beta), missing(body, alpha));
        let root = body.unary(UnaryOp::Sqrt, of_squares);
        let corrected = body.binary(BinaryOp::Mul, rate, root);
        let corrected = body.binary(BinaryOp::Div, corrected, of_average);
        let rate = after_first(body, count, corrected, rate);
        let direction = quotient(body, average, squares, epsilon);
        let new = moved(body, p[0], rate, direction);
        vec![scaled(body, new, 1.0 - after), average, squares]
    })
}

/// One value in all steps but the first, of which the count is 0.
fn after_first(body: &mut Body, count: ScalarId, later: ScalarId, first: ScalarId) -> ScalarId {
    let zero = number(body, count, 0.0);
    let is_later = body.compare(CompareOp::Gt, count, zero);
    body.select(is_later, later, first)
}

fn momentum(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let required = |name: &'static str| {
        call.float(name)?.ok_or_else(|| Problem::InvalidAttribute {
            attribute: name,
            expected: "a number",
            found: "missing".to_owned(),
        })
    };
    let (alpha, beta, norm) = (required("alpha")?, required("beta")?, required("norm_coefficient")?);
    let mode = call.string("mode", "")?;
    let ahead = match mode.as_str() {
        "standard" => false,
        "nesterov" => true,
        _ => {
            return Err(Problem::InvalidAttribute { attribute: "mode", expected: "standard or nesterov", found: mode });
        }
    };
    step(call, 3, |body, rate, count, p| {
        let gradient = regularised(body, norm, p[0], p[1]);
        let (beta, one) = (number(body, rate, beta), number(body, rate, 1.0));
        let beta = after_first(body, count, beta, one);
        let (kept, new) = (scaled(body, p[2], alpha), body.binary(BinaryOp::Mul, beta, gradient));
        let velocity = body.binary(BinaryOp::Add, kept, new);
        let direction = if ahead { mixed(body, (1.0, gradient), (alpha, velocity)) } else { velocity };
        vec![moved(body, p[0], rate, direction), velocity]
    })
}
