//! Steps of optimisers, of the domain `ai.onnx.preview.training`: `Adagrad`, `Adam`, `Momentum`.

use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::numeric::{Scalar, read_as_f64};
use infc_tensor::Tensor;

/// Applies `f` to every element of every tensor: of `kinds` values, the first is optimised and the second its
/// gradient; the results are the new first, third and later ones.
fn step(call: &Call<'_>, kinds: usize, f: impl Fn(f64, f64, &[f64]) -> Vec<f64>) -> Result<Vec<Tensor>> {
    let scalar = |index: usize| -> Result<f64> {
        let values = read_as_f64(call.input(index)?)?;
        values.first().copied().ok_or(EvalError::InvalidInput { index, reason: "one number is needed" })
    };
    let (rate, count) = (scalar(0)?, scalar(1)?);
    let tensors = call.inputs.len().saturating_sub(2) / kinds;
    if tensors == 0 || call.inputs.len() != 2 + tensors * kinds {
        return Err(EvalError::MissingInput { index: call.inputs.len() });
    }
    let mut outputs = vec![Vec::new(); kinds - 1];
    for n in 0..tensors {
        let given: Vec<&Tensor> = (0..kinds).map(|kind| call.input(2 + kind * tensors + n)).collect::<Result<_>>()?;
        if given.iter().any(|t| t.shape() != given[0].shape()) {
            return Err(EvalError::InvalidInput { index: 2 + n, reason: "its gradient has another shape" });
        }
        let values: Vec<Vec<f64>> = given.iter().map(|t| f64::read(t)).collect::<Result<_>>()?;
        let results: Vec<Vec<f64>> =
            (0..values[0].len()).map(|i| f(rate, count, &values.iter().map(|v| v[i]).collect::<Vec<_>>())).collect();
        for (kind, output) in outputs.iter_mut().enumerate() {
            let written = results.iter().map(|r| r[kind]);
            output.push(f64::write(given[0].dtype(), given[0].shape(), written)?);
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

pub(crate) fn adagrad(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (norm, decay) = (call.float("norm_coefficient", 0.0)?, call.float("decay_factor", 0.0)?);
    let epsilon = call.float("epsilon", 1e-6)?;
    step(call, 3, |rate, count, v| {
        let gradient = norm * v[0] + v[1];
        let squares = v[2] + gradient * gradient;
        vec![v[0] - rate / (1.0 + count * decay) * gradient / (squares.sqrt() + epsilon), squares]
    })
}

pub(crate) fn adam(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (alpha, beta) = (call.float("alpha", 0.9)?, call.float("beta", 0.999)?);
    let (norm, after) = (call.float("norm_coefficient", 0.0)?, call.float("norm_coefficient_post", 0.0)?);
    let epsilon = call.float("epsilon", 1e-6)?;
    step(call, 4, |rate, count, v| {
        let gradient = norm * v[0] + v[1];
        let average = alpha * v[2] + (1.0 - alpha) * gradient;
        let squares = beta * v[3] + (1.0 - beta) * gradient * gradient;
        let corrected = rate * (1.0 - beta.powf(count)).sqrt() / (1.0 - alpha.powf(count));
        let rate = if count > 0.0 { corrected } else { rate };
        vec![(1.0 - after) * (v[0] - rate * average / (squares.sqrt() + epsilon)), average, squares]
    })
}

pub(crate) fn momentum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let (alpha, beta) = (call.float("alpha", 0.0)?, call.float("beta", 0.0)?);
    let norm = call.float("norm_coefficient", 0.0)?;
    let ahead = match call.string("mode", "")? {
        "standard" => false,
        "nesterov" => true,
        _ => return Err(EvalError::InvalidAttribute { name: "mode", reason: "it must be standard or nesterov" }),
    };
    step(call, 3, |rate, count, v| {
        let gradient = norm * v[0] + v[1];
        let velocity = alpha * v[2] + if count > 0.0 { beta } else { 1.0 } * gradient;
        let direction = if ahead { gradient + alpha * velocity } else { velocity };
        vec![v[0] - rate * direction, velocity]
    })
}
