//! `Scan`: a graph per step, over slices of its inputs.
//!
//! Opset 8 has a batch as the first axis of everything, and may say how many steps each sequence of it has; since opset 9
//! axes and directions are given per input and output.

use super::{MAX_STEPS, none_of};
use crate::call::Call;
use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use crate::ops::movement::{concatenate, cut};
use crate::ops::values::stack;
use crate::shape;
use infc_tensor::Tensor;

/// An axis, and whether its steps go from its end.
type Along = (i64, bool);

/// What the attributes say.
struct Scanned {
    states: usize,
    inputs: Vec<Along>,
    outputs: Vec<Along>,
}

impl Scanned {
    fn of(call: &Call<'_>, inputs: usize, batched: bool) -> Result<Self> {
        let invalid = |name, reason| EvalError::InvalidAttribute { name, reason };
        let scanned = usize::try_from(call.required_int("num_scan_inputs")?).ok().filter(|n| (1..=inputs).contains(n));
        let scanned = scanned.ok_or_else(|| invalid("num_scan_inputs", "so many inputs there are not"))?;
        let states = inputs - scanned;
        let results = call.graph("body")?.outputs.len().checked_sub(states);
        let results = results.ok_or_else(|| invalid("body", "it has fewer outputs than there are states"))?;
        let list = |name: &'static str, len: usize| match call.ints(name)? {
            None => Ok(vec![0; len]),
            Some(given) if given.len() == len => Ok(given.to_vec()),
            Some(_) => Err(invalid(name, "a number per scanned input or output is needed")),
        };
        let along = |axes: Vec<i64>, directions: Vec<i64>| -> Vec<Along> {
            axes.into_iter().zip(directions.into_iter().map(|d| d != 0)).collect()
        };
        if batched {
            let directions = list("directions", scanned)?;
            let (inputs, outputs) = (along(vec![0; scanned], directions), along(vec![0; results], vec![0; results]));
            return Ok(Self { states, inputs, outputs });
        }
        let inputs = along(list("scan_input_axes", scanned)?, list("scan_input_directions", scanned)?);
        let outputs = along(list("scan_output_axes", results)?, list("scan_output_directions", results)?);
        Ok(Self { states, inputs, outputs })
    }
}

/// `Scan`: the last states, then what the steps give beside them, stacked.
pub(crate) fn scan(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let batched = call.opset() < 9;
    let first = usize::from(batched);
    let values = (first..call.inputs.len()).map(|n| call.input(n)).collect::<Result<Vec<_>>>()?;
    let of = Scanned::of(call, values.len(), batched)?;
    if !batched {
        return sequence(call, &of, &values.into_iter().cloned().collect::<Vec<_>>(), None);
    }
    let lens = call.int_list(0)?;
    let values = values.into_iter().map(|value| elements(value, 0)).collect::<Result<Vec<_>>>()?;
    let batch = values.first().map_or(0, Vec::len);
    if batch == 0 || values.iter().any(|rows| rows.len() != batch) || lens.as_ref().is_some_and(|l| l.len() != batch) {
        return Err(EvalError::InvalidInput { index: 1, reason: "the first axis is not a batch that all inputs have" });
    }
    // Sequences of a batch know nothing of each other.
    let mut results: Vec<Vec<Tensor>> = Vec::new();
    for n in 0..batch {
        let row: Vec<Tensor> = values.iter().map(|rows| rows[n].clone()).collect();
        let outputs = sequence(call, &of, &row, lens.as_ref().map(|lens| lens[n]))?;
        results.resize(outputs.len(), Vec::new());
        results.iter_mut().zip(outputs).for_each(|(rows, output)| rows.push(output));
    }
    results.iter().map(|rows| stack(rows, 0)).collect()
}

/// The outputs for one sequence. Behind its end, if `len` gives one, results are zeros.
fn sequence(call: &Call<'_>, of: &Scanned, values: &[Tensor], len: Option<i64>) -> Result<Vec<Tensor>> {
    let (states, scanned) = values.split_at(of.states);
    let mut slices = Vec::with_capacity(scanned.len());
    for (value, &(axis, reverse)) in scanned.iter().zip(&of.inputs) {
        let mut parts = elements(value, axis)?;
        if reverse {
            parts.reverse();
        }
        slices.push(parts);
    }
    let all = slices.first().map_or(0, Vec::len);
    if slices.iter().any(|parts| parts.len() != all) {
        return Err(EvalError::InvalidInput { index: of.states, reason: "scanned inputs have different lengths" });
    }
    let steps = len.map_or(Some(all), |len| usize::try_from(len).ok().filter(|&len| len <= all));
    let steps = steps.ok_or(EvalError::InvalidInput { index: 0, reason: "a sequence is longer than its axis" })?;
    if steps as u64 > MAX_STEPS {
        return Err(EvalError::TooMuchWork { limit: MAX_STEPS });
    }
    let mut states = states.to_vec();
    let mut parts: Vec<Vec<Tensor>> = vec![Vec::new(); of.outputs.len()];
    for step in 0..steps {
        let mut inputs = std::mem::take(&mut states);
        inputs.extend(slices.iter().map(|slices| slices[step].clone()));
        let mut outputs = call.run_graph("body", inputs)?.into_iter();
        states.extend(outputs.by_ref().take(of.states));
        parts.iter_mut().zip(outputs).for_each(|(parts, part)| parts.push(part));
    }
    let declared = &call.graph("body")?.outputs[of.states..];
    for ((mut parts, &(axis, reverse)), output) in parts.into_iter().zip(&of.outputs).zip(declared) {
        if reverse {
            parts.reverse();
        }
        let stacked = match parts.first() {
            None => none_of(output, axis)?,
            Some(first) => stack(&parts, shape::axis(axis, first.rank() + 1)?)?,
        };
        states.push(if steps < all { behind_the_end(&stacked, all - steps)? } else { stacked });
    }
    Ok(states)
}

/// The elements along an axis, which they no longer have.
fn elements(x: &Tensor, axis: i64) -> Result<Vec<Tensor>> {
    let axis = shape::axis(axis, x.rank())?;
    let mut rest = x.shape().to_vec();
    rest.remove(axis);
    let parts = cut(x, axis, &vec![1; x.shape()[axis]])?;
    Ok(parts.into_iter().map(|part| part.reshaped(&rest)).collect::<std::result::Result<_, _>>()?)
}

/// A tensor with zeros appended along the first axis.
fn behind_the_end(x: &Tensor, missing: usize) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    shape[0] = missing;
    checked_len(x.dtype(), &shape)?;
    concatenate(&[x, &Tensor::zeros(x.dtype(), &shape)?], 0)
}
