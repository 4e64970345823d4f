//! Entries that compute one step of a loop.

use super::{Checked, ensure, lookup};
use crate::manifest::Manifest;
use crate::program::{Host, LoopBody, Program, Step};
use infc_tensor::DType;

/// Loops within loops, so many levels: each is a run within a run.
const MAX_DEPTH: usize = 16;

/// Checks that the loops of all Programs find their entries, each behind that of the loop, and as many ports there as they have
/// values.
pub(super) fn programs(programs: &[Program], manifest: &Manifest) -> Checked {
    // Those within others come behind them.
    let mut depths = vec![0; programs.len()];
    for (index, program) in programs.iter().enumerate().rev() {
        let of_entry = manifest.entries.get(index).map_or("?", |entry| entry.name.as_str());
        for (step, found) in program.steps.iter().enumerate() {
            let Step::Host(host) = found else { continue };
            let Some(body) = &host.body else { continue };
            let what = || format!("step {step} of entry `{of_entry}`");
            ensure(body.entry as usize > index, what, "a loop's entry behind its own", body.entry)?;
            one(host, body, manifest, &what)?;
            let inner: usize = depths.get(body.entry as usize).copied().unwrap_or(0);
            depths[index] = depths[index].max(inner + 1);
            ensure(depths[index] <= MAX_DEPTH, what, format!("at most {MAX_DEPTH} loops within loops"), depths[index])?;
        }
    }
    Ok(())
}

fn one(host: &Host, body: &LoopBody, manifest: &Manifest, what: &dyn Fn() -> String) -> Checked {
    let is_loop = host.op_type == "Loop" && host.domain.is_empty();
    ensure(is_loop, what, "a `Loop`, of which an entry computes a step", format!("`{}`", host.op_type))?;
    let entry = lookup(&manifest.entries, body.entry, what)?;
    let is_plain = entry.specializes.is_none() && entry.state.is_empty();
    ensure(is_plain, what, "an entry that is no special case and has no states", format!("`{}`", entry.name))?;
    ensure(!body.may_fail || !host.graphs.is_empty(), what, "a graph of a loop whose entry may fail", "none")?;
    let first = 2 + body.states as usize;
    let states_given = host.inputs.len() >= first && host.inputs[2..first].iter().all(Option::is_some);
    ensure(states_given, what, "a count, a condition and all states", format!("{} inputs", host.inputs.len()))?;
    for &position in &body.captures {
        let is_given = matches!(host.inputs.get(position as usize), Some(Some(_)));
        let is_captured = position as usize >= first && is_given;
        ensure(is_captured, what, "what a loop's graph takes from around it", format!("input {position}"))?;
    }
    let inputs = first + body.captures.len();
    ensure(entry.inputs.len() == inputs, what, format!("an entry with {inputs} inputs"), entry.inputs.len())?;
    let dtypes = [entry.inputs[0].dtype, entry.inputs[1].dtype];
    ensure(dtypes == [DType::I64, DType::Bool], what, "a number and a condition", format!("{dtypes:?}"))?;
    let outputs = 1 + host.outputs.len().max(body.states as usize);
    let is_enough = entry.outputs.len() >= outputs && entry.outputs[0].dtype == DType::Bool;
    let expected = || format!("an entry with {outputs} outputs, the first a condition");
    ensure(is_enough, what, expected(), entry.outputs.len())
}
