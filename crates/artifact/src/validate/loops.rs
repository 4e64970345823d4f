//! Entries that compute one step of a loop.

use super::{Checked, ensure, lookup};
use crate::manifest::Manifest;
use crate::program::{Host, LoopBody, Program, Step};

/// Checks that the loops of an entry's Program find their entries, behind it, and as many ports there as they have values.
pub(super) fn program(program: &Program, index: usize, manifest: &Manifest) -> Checked {
    let of_entry = &manifest.entries[index].name;
    for (step, host) in program.steps.iter().enumerate() {
        if let Step::Host(Host { body: Some(body), .. }) = host
            && let Step::Host(host) = host
        {
            let what = || format!("step {step} of entry `{of_entry}`");
            ensure(body.entry as usize > index, what, "a loop's entry behind its own", body.entry)?;
            one(host, body, manifest, &what)?;
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
    let outputs = 1 + host.outputs.len().max(body.states as usize);
    ensure(entry.outputs.len() >= outputs, what, format!("an entry with {outputs} outputs"), entry.outputs.len())
}
