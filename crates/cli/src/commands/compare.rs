//! `infc compare ART`: what an artifact computes beside what is expected.

use super::dims;
use super::run::run_one;
use crate::agreement::{Agreement, Tolerance};
use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::inputs::{DataSet, InputArgs, Missing, fit};
use crate::layers::Layer;
use crate::model_file::{self, LoadArgs};
use crate::npz::Npz;
use crate::onnx_eval::OnnxEvaluator;
use crate::special_case;
use crate::tables::{Side, few, number, table};
use infc_frontend_onnx as onnx;
use infc_runtime::artifact::Entry;
use infc_runtime::{RunOptions, Session, SessionOptions};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Compare what an artifact computes with what is expected
///
/// Expected are the outputs in --data, in an archive, or what the model says itself, evaluated node by node by the
/// definitions of its operators.
///
/// An element agrees if |found − expected| ≤ atol + rtol·|expected|; NaN equals NaN, an infinity only itself. Integers,
/// bools and strings must be equal. The exit code is 3 if anything disagrees.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc compare digits.infa --data test_data_set_0\n  \
                        infc compare digits.infa --model digits.onnx")]
pub(crate) struct CompareArgs {
    /// The artifact, or - for standard input
    artifact: PathBuf,
    /// What is expected, as a NumPy archive with one array per output
    #[arg(long, value_name = "OUT.npz", conflicts_with_all = ["data", "model"])]
    expected: Option<PathBuf>,
    /// Evaluate this model to know what is expected; inputs are made up unless given
    #[arg(long, value_name = "MODEL.onnx")]
    model: Option<PathBuf>,
    /// With --model: compare what each fused kernel computes with the interpreter, and name the first that disagrees
    #[arg(long, requires = "model")]
    layers: bool,
    /// Relative tolerance
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = tolerance)]
    rtol: f64,
    /// Absolute tolerance
    #[arg(long, value_name = "X", default_value_t = 1e-4, value_parser = tolerance)]
    atol: f64,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    load: LoadArgs,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..f64::INFINITY).contains(value));
    value.ok_or_else(|| "expected a number, at least 0".to_owned())
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    artifact: String,
    variant: String,
    agrees: bool,
    rtol: f64,
    atol: f64,
    data_sets: Vec<DataSetReport>,
}

#[derive(Serialize)]
struct DataSetReport {
    name: Option<String>,
    /// The dims and values that what ran is made for; `None` if it takes all. Where such a one ran, the general case
    /// runs on the same data, too, and is told of next.
    special_case: Option<String>,
    outputs: Vec<OutputReport>,
}

#[derive(Serialize)]
struct OutputReport {
    name: String,
    #[serde(flatten)]
    agreement: Agreement,
}

pub(crate) fn run(arguments: CompareArgs, console: &Console) -> Result<Exit, Failure> {
    let CompareArgs { artifact, expected, model, layers, rtol, atol, inputs, load } = arguments;
    let inputs = inputs.resolve()?;
    let loaded = model_file::open(&artifact, &load.options(), console)?;
    let mut session = loaded.session(&SessionOptions::default())?;
    let missing = if model.is_some() { Missing::MakeUp } else { Missing::Refuse };
    let mut sets = inputs.load(session.entry(), missing, console)?;
    if let (Some(path), true) = (&model, layers) {
        let plans = plans_again(path, &loaded, console)?;
        let plans: Vec<&infc::GraphPlan> = plans.plans_for(&loaded.selection().target);
        let set = sets.first().ok_or_else(|| CliError::MissingData { names: vec!["any input".to_owned()] })?;
        let inputs = set.all_inputs(session.entry())?;
        let layers = crate::layers::check(&plans, &loaded, &inputs, Tolerance { rtol, atol })?;
        return report_layers(&artifact, &loaded, layers, console);
    }
    if let Some(path) = &model {
        evaluate_model(path, session.entry(), &mut sets, console)?;
    } else if let Some(path) = &expected {
        read_expected(path, session.entry(), &mut sets)?;
    }
    if sets.iter().all(|set| set.expected.iter().all(Option::is_none)) && !session.entry().outputs.is_empty() {
        return Err(CliError::NothingExpected { place: artifact.display().to_string() }.into());
    }

    let options = RunOptions { flush_denormals: load.ftz, ..RunOptions::default() };
    // Whatever fits the data has to agree: the special case that a run takes, and the general one.
    let has_cases = loaded.manifest().entries.iter().any(|entry| entry.specializes.is_some());
    let general = SessionOptions { general_only: true, ..SessionOptions::default() };
    let mut general = has_cases.then(|| loaded.session(&general)).transpose()?;
    let mut reports = Vec::with_capacity(sets.len());
    for set in &sets {
        let mut run = |session: &mut Session| {
            let found = run_one(session, set, &options)?;
            let ports = &session.entry().outputs;
            let outputs = ports.iter().zip(&found).zip(&set.expected).filter_map(|((port, found), expected)| {
                let agreement = Agreement::of(found, expected.as_ref()?, Tolerance { rtol, atol });
                Some(OutputReport { name: port.name.clone(), agreement })
            });
            let (name, special_case) = (set.name.clone(), special_case::of_session(&loaded, session));
            Ok::<_, Failure>(DataSetReport { name, special_case, outputs: outputs.collect() })
        };
        let chosen = run(&mut session)?;
        let is_special = chosen.special_case.is_some();
        // It carries its own states, so it runs on all data that it is for.
        let in_general = match general.as_mut().map(&mut run) {
            Some(Err(failure)) if is_special && failure.is_of_dims() => None,
            ran => ran.transpose()?,
        };
        reports.push(chosen);
        reports.extend(in_general.filter(|_| is_special));
    }
    let report = Report {
        schema: "infc.compare/1",
        artifact: artifact.display().to_string(),
        variant: loaded.selection().target.clone(),
        agrees: reports.iter().flat_map(|set| &set.outputs).all(|output| output.agreement.agrees),
        rtol,
        atol,
        data_sets: reports,
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(if report.agrees { Exit::Done } else { Exit::Condition })
}

/// The plans that the artifact was compiled from: its model, planned with the options that its provenance names.
fn plans_again(path: &Path, artifact: &infc_runtime::Model, console: &Console) -> Result<infc::Compilation, Failure> {
    let provenance = &artifact.manifest().provenance;
    let own = env!("CARGO_PKG_VERSION");
    if provenance.infc_version != own {
        let (what, expected) = ("version of infc".to_owned(), own.to_owned());
        return Err(CliError::OtherModel { what, expected, found: provenance.infc_version.clone() }.into());
    }
    let mut options = dims::from_flags(&provenance.flags)?;
    options.stop_after = Some(infc::Phase::Plan);
    let compilation = infc::compile(&infc::Source::file(path), &options, &mut ())?;
    let (expected, found) = (artifact.manifest().entries.len(), compilation.plans().len());
    if expected != found {
        let (what, expected, found) = ("number of plans".to_owned(), expected.to_string(), found.to_string());
        return Err(CliError::OtherModel { what, expected, found }.into());
    }
    let plans = compilation.plans_for(&artifact.selection().target);
    let kernels = plans.first().map_or(0, |plan| plan.kernels.len());
    console.note(format!("  interpreting {kernels} kernels"));
    if compilation.report.on_host.iter().any(|host| host.steps.is_some()) {
        console.note("  steps of loops are compared by what the loops give, not kernel by kernel");
    }
    Ok(compilation)
}

#[derive(Serialize)]
struct LayersReport {
    schema: &'static str,
    artifact: String,
    variant: String,
    agrees: bool,
    /// The first kernel that disagrees.
    first: Option<String>,
    layers: Vec<Layer>,
}

fn report_layers(
    artifact: &Path,
    loaded: &infc_runtime::Model,
    layers: Vec<Layer>,
    console: &Console,
) -> Result<Exit, Failure> {
    let first = layers.iter().find(|layer| !layer.agreement.agrees);
    let report = LayersReport {
        schema: "infc.compare/1",
        artifact: artifact.display().to_string(),
        variant: loaded.selection().target.clone(),
        agrees: first.is_none(),
        first: first.map(|layer| layer.kernel.clone()),
        layers,
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print_layers(&report, console)?
    }
    Ok(if report.agrees { Exit::Done } else { Exit::Condition })
}

fn print_layers(report: &LayersReport, console: &Console) -> Result<(), Failure> {
    let columns = [
        ("step", Side::Right),
        ("kernel", Side::Left),
        ("", Side::Left),
        ("worst abs", Side::Right),
        ("worst rel", Side::Right),
        ("from", Side::Left),
    ];
    let error = |worst: &Option<crate::agreement::Worst>| {
        worst.as_ref().map_or_else(|| "0".to_owned(), |worst| format!("{:.1e}", worst.error))
    };
    let rows = report.layers.iter().map(|layer| {
        let agreement = &layer.agreement;
        vec![
            layer.step.to_string(),
            format!("{}{}", layer.kernel, special_case::suffix(layer.special_case.as_deref())),
            if agreement.agrees { "agrees" } else { "DISAGREES" }.to_owned(),
            error(&agreement.worst_abs),
            error(&agreement.worst_rel),
            few(&layer.origins, 3),
        ]
    });
    console.write(table(&columns, rows).as_bytes())?;
    match &report.first {
        None => console.line(format!("all {} kernels agree ({})", report.layers.len(), report.variant)),
        Some(first) => console.line(format!("the first kernel that disagrees is {first} ({})", report.variant)),
    }
}

/// Evaluates the model on every data set.
fn evaluate_model(path: &Path, entry: &Entry, sets: &mut [DataSet], console: &Console) -> Result<(), Failure> {
    let model = onnx::Model::load(path, &onnx::LoadOptions::default())?;
    let evaluator = OnnxEvaluator::new(model)?;
    let names =
        |ports: &[infc_artifact::PortSpec]| -> Vec<String> { ports.iter().map(|port| port.name.clone()).collect() };
    let pairs = [
        ("inputs", evaluator.input_names(), names(&entry.inputs)),
        ("outputs", evaluator.output_names(), names(&entry.outputs)),
    ];
    for (what, of_model, of_artifact) in pairs {
        if of_model != of_artifact {
            let (what, expected, found) = (what.to_owned(), of_model.join(", "), of_artifact.join(", "));
            return Err(CliError::OtherModel { what, expected, found }.into());
        }
    }
    for set in sets {
        let name = set.name.as_deref().map(|name| format!(" on {name}")).unwrap_or_default();
        let nodes = evaluator.model().graph().node.len();
        console.note(format!("  evaluating {nodes} nodes by definition{name}"));
        set.expected = evaluator.run(&set.all_inputs(entry)?)?.into_iter().map(Some).collect();
    }
    Ok(())
}

/// Reads the expected outputs of the one data set.
fn read_expected(path: &Path, entry: &Entry, sets: &mut [DataSet]) -> Result<(), CliError> {
    let mut npz = Npz::open(path)?;
    for set in sets {
        for (port, expected) in entry.outputs.iter().zip(&mut set.expected) {
            let place = || format!("{}: {}", path.display(), port.name);
            *expected = npz.read(&port.name)?.map(|tensor| fit(tensor, port.element_type(), place)).transpose()?;
        }
    }
    Ok(())
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    for set in &report.data_sets {
        let heading: Vec<&str> = [&set.name, &set.special_case].into_iter().filter_map(Option::as_deref).collect();
        if !heading.is_empty() {
            console.line(console.paint(Style::Dim, &heading.join(", ")))?;
        }
        for output in &set.outputs {
            let agreement = &output.agreement;
            let verdict = if agreement.agrees {
                console.paint(Style::Good, "agrees")
            } else {
                console.paint(Style::Error, "DISAGREES")
            };
            console.line(format!("  {verdict}  {}", output.name))?;
            if let Some(problem) = &agreement.problem {
                console.line(format!("    {problem}"))?;
                continue;
            }
            if agreement.mismatches > 0 {
                let at = agreement.first_mismatch.as_deref().unwrap_or_default();
                let (mismatches, elements) = (agreement.mismatches, agreement.elements);
                console.line(format!("    {mismatches} of {elements} elements disagree, the first at {at:?}"))?;
            }
            match (&agreement.worst_abs, &agreement.worst_rel) {
                (None, _) => console.line(format!("    all {} elements are equal", agreement.elements))?,
                (Some(abs), rel) => {
                    let at = |worst: &crate::agreement::Worst| {
                        let (found, expected, index) = (number(worst.found), number(worst.expected), &worst.index);
                        format!("{:.2e} at {index:?}: {found} for {expected}", worst.error)
                    };
                    console.line(format!("    worst absolute error {}", at(abs)))?;
                    if let Some(rel) = rel {
                        console.line(format!("    worst relative error {}", at(rel)))?;
                    }
                }
            }
        }
    }
    let (rtol, atol, variant) = (report.rtol, report.atol, &report.variant);
    let verdict = if report.agrees { "all outputs agree" } else { "not all outputs agree" };
    console.line(format!("{verdict} (rtol {rtol:e}, atol {atol:e}, {variant})"))
}
