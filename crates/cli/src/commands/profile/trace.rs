//! The quickest run in the "Trace Event Format" that `chrome://tracing`, Perfetto and others read: an event per step.

use crate::failure::Failure;
use crate::kernel_times::Times;
use infc_artifact::Step;
use infc_runtime::Model;
use serde_json::{Value, json};

/// The whole file.
pub(super) fn trace(model: &Model, times: &Times) -> Result<String, Failure> {
    let variant = model.variant();
    let steps = variant.programs.get(times.entry).map(|program| program.steps.as_slice()).unwrap_or_default();
    let micros = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    let mut events: Vec<Value> = vec![json!({
        "name": "run", "cat": "run", "ph": "X", "ts": 0.0, "dur": micros(times.run.took), "pid": 1, "tid": 1,
    })];
    for ran in &times.run.steps {
        let Some(step) = steps.get(ran.step) else { continue };
        let (name, kind, origins) = match step {
            Step::Launch(launch) => match variant.kernels.get(launch.kernel as usize) {
                Some(kernel) => (kernel.name.as_str(), "kernel", kernel.origins.as_slice()),
                None => ("?", "kernel", &[][..]),
            },
            Step::Host(host) => (host.op_type.as_str(), "host", host.origins.as_slice()),
            Step::Copy(_) => ("copy", "copy", &[][..]),
            _ => ("other", "other", &[][..]),
        };
        events.push(json!({
            "name": name, "cat": kind, "ph": "X", "ts": micros(ran.start), "dur": micros(ran.took), "pid": 1, "tid": 1,
            "args": { "step": ran.step, "chunks": ran.chunks, "threads": ran.threads, "origins": origins },
        }));
    }
    Ok(json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string())
}
