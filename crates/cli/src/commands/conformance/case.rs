//! One case: compiled, loaded, run, compared; within a worker process.

use super::outcome::{Message, Outcome, SingleNode};
use crate::agreement::{Agreement, Tolerance};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::inputs::{DataSet, read_data_sets};
use crate::onnx_eval::OnnxEvaluator;
use crate::{gpu, host};
use infc::{CompileOptions, Report, Source};
use infc_artifact::PortSpec;
use infc_codegen_cpu::Target;
use infc_frontend_onnx as onnx;
use infc_frontend_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use infc_runtime::{LoadOptions, Model, Pool, RunOptions, RuntimeError, SessionOptions};
use infc_tensor::DType;
use serde::Deserialize;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The target that is no machine code but the definitions of the operators.
pub(super) const REFERENCE: &str = "reference";

/// What the backend tests of ONNX allow unless a case says otherwise.
const TOLERANCE: Tolerance = Tolerance { rtol: 1e-3, atol: 1e-7 };

/// What became of a case on a target.
struct Ran {
    outcome: Outcome,
    compiled: Option<Compiled>,
}

/// How a case was compiled.
struct Compiled {
    /// What computes its nodes.
    runs: &'static str,
    /// Why one of them runs on the host.
    why: Option<String>,
}

/// Runs the cases whose folders come on standard input, a line each, and says on standard output what became of them.
pub(super) fn serve(targets: &[String]) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    let mut say = |message: &Message| -> Result<(), Failure> {
        let line = serde_json::to_string(message).unwrap_or_default();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::stdout)
    };
    for line in std::io::stdin().lock().lines() {
        let folder = line.map_err(|source| CliError::CannotRead { path: "-".into(), source })?;
        for target in targets {
            let ran = catch_unwind(AssertUnwindSafe(|| run(Path::new(&folder), target)));
            let ran = ran.unwrap_or_else(|_| Ran { outcome: Outcome::Fail("panic".to_owned()), compiled: None });
            let (runs, why) = ran.compiled.map_or((None, None), |c| (Some(c.runs.to_owned()), c.why));
            say(&Message::Outcome { target: target.clone(), outcome: ran.outcome, runs, why })?;
        }
        say(&Message::Done)?;
    }
    Ok(Exit::Done)
}

fn run(folder: &Path, target: &str) -> Ran {
    let mut compiled = None;
    let outcome = if target == REFERENCE {
        on_reference(folder)
    } else if target.parse().is_ok_and(|target: Target| !host::runs_target(&target)) {
        Ok(Outcome::NotRun)
    } else {
        on_target(folder, target, &mut compiled)
    };
    let outcome = outcome.unwrap_or_else(|failure| {
        // Whoever looks into a case starts a worker by hand.
        let _ = writeln!(std::io::stderr(), "{target}: {}", failure.message());
        Outcome::Fail(failure.word())
    });
    Ran { outcome, compiled }
}

fn on_target(folder: &Path, target: &str, compiled: &mut Option<Compiled>) -> Result<Outcome, Failure> {
    let options = CompileOptions { targets: vec![target.to_owned()], strict: true, ..CompileOptions::default() };
    let compilation = infc::compile(&Source::file(folder.join("model.onnx")), &options, &mut ())?;
    let why = compilation.report.on_host.first().map(|node| node.reason.clone());
    *compiled = Some(Compiled { runs: share(&compilation.report), why });
    let pool = Some(Pool::builder().threads(1).build());
    let options = LoadOptions { pool, gpu: gpu::for_model(), ..LoadOptions::default() };
    let model = match Model::from_vec_with(compilation.to_bytes()?, &options) {
        Err(RuntimeError::NoGpu { .. }) => return Ok(Outcome::NotRun),
        model => model?,
    };
    let mut session = model.session(&SessionOptions::default())?;
    let dtypes = |ports: &[PortSpec]| -> Vec<DType> { ports.iter().map(PortSpec::element_type).collect() };
    let (inputs, outputs) = (dtypes(&session.entry().inputs), dtypes(&session.entry().outputs));
    compare(folder, &inputs, &outputs, |set| Ok(session.advance(&set.input_refs(), &RunOptions::default())?))
}

fn on_reference(folder: &Path) -> Result<Outcome, Failure> {
    let model = onnx::Model::load(&folder.join("model.onnx"), &onnx::LoadOptions::default())?;
    let evaluator = OnnxEvaluator::new(model)?;
    // What is of no known type is read as a tensor, and fails there.
    let dtypes = |values: Vec<&ValueInfoProto>| -> Vec<DType> {
        values.into_iter().map(|value| onnx::declared_dtype(value).unwrap_or(DType::F32)).collect()
    };
    let (inputs, outputs) = (evaluator.model().inputs().collect(), evaluator.model().outputs().collect());
    compare(folder, &dtypes(inputs), &dtypes(outputs), |set| {
        Ok(evaluator.run(&set.inputs.iter().flatten().cloned().collect::<Vec<_>>())?)
    })
}

/// Whether a case is one that kernels should compute: inputs and outputs are tensors of numbers, and no node is of an
/// operator that only the host has. What is no model is none.
pub(super) fn is_numeric(folder: &Path) -> bool {
    let Ok(model) = onnx::Model::load(&folder.join("model.onnx"), &onnx::LoadOptions::default()) else { return false };
    let on_host = onnx::host_operators();
    let mut ports = model.inputs().chain(model.outputs());
    ports.all(|port| onnx::declared_dtype(port).is_some_and(DType::has_bytes)) && !has_any(model.graph(), &on_host)
}

/// What a case's model is, if it is one node. The type is that of its first input, or of its first output where the input is a
/// condition, a shape or a size.
pub(super) fn single_node(folder: &Path) -> Option<SingleNode> {
    const BY_OUTPUT: [&str; 11] = [
        "BlackmanWindow",
        "ConstantOfShape",
        "EyeLike",
        "HammingWindow",
        "HannWindow",
        "If",
        "Loop",
        "MelWeightMatrix",
        "OneHot",
        "Scan",
        "Where",
    ];
    let model = onnx::Model::load(&folder.join("model.onnx"), &onnx::LoadOptions::default()).ok()?;
    let [node] = &model.graph().node[..] else { return None };
    let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    let first = if BY_OUTPUT.contains(&node.op_type()) { None } else { model.inputs().next() };
    let value = first.or_else(|| model.outputs().next())?;
    Some(SingleNode {
        domain: domain.to_owned(),
        operator: node.op_type().to_owned(),
        opset: model.opset(domain)?,
        dtype: onnx::declared_dtype(value).map(|dtype| dtype.to_string()),
    })
}

/// Whether a node of the graph, or of one that a node holds, is of one of the operators. Nesting was limited when the
/// model was decoded.
fn has_any(graph: &GraphProto, operators: &[onnx::HostOperator]) -> bool {
    let domain = |node: &NodeProto| if node.domain() == "ai.onnx" { String::new() } else { node.domain().to_owned() };
    graph.node.iter().any(|node| {
        operators.iter().any(|operator| operator.name == node.op_type() && operator.domain == domain(node))
            || node.attribute.iter().filter_map(|a| a.g.as_ref()).any(|held| has_any(held, operators))
    })
}

/// What computes the nodes of a compiled model. Of loops that the host drives, kernels compute the steps, but for nodes within
/// that are on the host, too.
fn share(report: &Report) -> &'static str {
    let has_steps = report.on_host.iter().any(|host| host.steps.is_some());
    match report.on_host.len() {
        0 => "native",
        n if has_steps || n < report.onnx_nodes => "mixed",
        _ => "host",
    }
}

/// Runs all data sets of a case; the first output that disagrees says how.
fn compare(
    folder: &Path,
    inputs: &[DType],
    outputs: &[DType],
    mut run: impl FnMut(&DataSet) -> Result<Vec<infc_tensor::Tensor>, Failure>,
) -> Result<Outcome, Failure> {
    let tolerance = tolerance(folder)?;
    let random = draws_numbers(folder)?;
    for set in read_data_sets(folder, inputs, outputs)? {
        let found = run(&set)?;
        for (found, expected) in found.iter().zip(&set.expected) {
            let Some(expected) = expected else { continue };
            let kind = if found.dtype() != expected.dtype() {
                "wrong-type"
            } else if found.shape() != expected.shape() {
                "wrong-shape"
            } else if !random && !Agreement::of(found, expected, tolerance).agrees {
                "wrong-values"
            } else {
                continue;
            };
            return Ok(Outcome::Fail(kind.to_owned()));
        }
    }
    Ok(Outcome::Pass)
}

/// Whether a model draws random numbers. ONNX leaves the generator open, so that only types and shapes can be compared.
fn draws_numbers(folder: &Path) -> Result<bool, Failure> {
    let model = onnx::Model::load(&folder.join("model.onnx"), &onnx::LoadOptions::default())?;
    let random = ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"];
    Ok(model.graph().node.iter().any(|node| node.domain().is_empty() && random.contains(&node.op_type())))
}

fn tolerance(folder: &Path) -> Result<Tolerance, CliError> {
    #[derive(Deserialize)]
    struct Stated {
        rtol: f64,
        atol: f64,
    }
    let path = folder.join("tolerance.json");
    if !path.is_file() {
        return Ok(TOLERANCE);
    }
    let text = std::fs::read(&path).map_err(|source| CliError::CannotRead { path: path.clone(), source })?;
    let Stated { rtol, atol } =
        serde_json::from_slice(&text).map_err(|error| CliError::BadDataFolder { path, reason: error.to_string() })?;
    Ok(Tolerance { rtol, atol })
}
