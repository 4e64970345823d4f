//! Loads an artifact and runs it on zeros: `embed MODEL.infa`.
//!
//! The only dependency is `infc-runtime`. Dynamic dims get their least value, at least 1.

use infc_runtime::artifact::EvalError;
use infc_runtime::{Model, RunOptions, SessionOptions, Tensor, TensorView};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: embed MODEL.infa")?;

    // The file is mapped; weights are read when a run first touches them. Loading an artifact means trusting its code.
    let model = Model::open(path)?;
    // A session owns the memory of one run at a time; any number of them may run at once.
    let mut session = model.session(&SessionOptions::default())?;

    let inputs = zero_inputs(&session)?;
    let views = inputs.iter().map(TensorView::try_from).collect::<Result<Vec<_>, _>>()?;

    // After the first run with some shapes, a run makes no heap call.
    session.run_in_session(&views, &RunOptions::default())?;
    let started = Instant::now();
    let outputs = session.run_in_session(&views, &RunOptions::default())?;
    println!("{} took {:?}", model.selection().target, started.elapsed());
    for (port, index) in model.outputs().iter().zip(0..) {
        let output = outputs.get(index).ok_or("an output is missing")?;
        println!("{}: {}{:?}", port.name, output.dtype(), output.shape());
    }
    Ok(())
}

/// A tensor of zeros for every input.
fn zero_inputs(session: &infc_runtime::Session) -> Result<Vec<Tensor>, Box<dyn Error>> {
    let entry = session.entry();
    let symbols: Vec<i64> = entry.symbols.iter().map(|symbol| symbol.min.max(1)).collect();
    let mut inputs = Vec::new();
    for port in &entry.inputs {
        let shape = port.shape.iter().map(|dim| dim.eval_size(&symbols)).collect::<Result<Vec<_>, EvalError>>()?;
        inputs.push(Tensor::zeros(port.dtype, &shape)?);
    }
    Ok(inputs)
}
