//! `infc check MODEL`: whether a model can be compiled, and what it comes to, before it is.

use crate::commands::{custom_ops, dims};
use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::host::Native;
use crate::model_file;
use crate::progress::Stages;
use crate::stats::millis;
use crate::tables;
use crate::target_list::TargetList;
use infc::{CompileOptions, DimChoice, FORECAST_HERTZ, Forecast, ForecastDim, Source};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Tell whether a model can be compiled, and what it comes to
///
/// No code is made: operators and shapes are checked, and memory, size and time are worked out from the plan and the
/// loops of its kernels. A model that cannot be compiled is refused with all its unsupported operators at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc check digits.onnx\n  infc check digits.onnx --dim N=32 --format json")]
pub(crate) struct CheckArgs {
    /// The model, or - for standard input
    model: PathBuf,
    /// What code would be made for, as `compile` takes it
    #[arg(short, long, value_name = "TARGETS", default_value = "cpu", value_delimiter = ',')]
    target: Vec<String>,
    /// A dynamic dim: the value that figures are for, or its range with both ends; of a range they are for the least
    #[arg(long, value_name = "SYM=A..B")]
    dim: Vec<String>,
    /// The shape of an input, with ? for what stays dynamic, as in image=1x3x?x?
    #[arg(long, value_name = "INPUT=SHAPE")]
    shape: Vec<String>,
    /// Declarations of custom operators; may be given several times
    #[arg(long, value_name = "FILE.toml")]
    custom_ops: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    model: String,
    onnx_nodes: usize,
    /// The ONNX nodes that run on the host instead of as kernels.
    on_host: Vec<String>,
    /// The loops whose steps are kernels, and that the host counts.
    loops: Vec<String>,
    /// The ONNX nodes for which sizes that kernels compute are read during a run.
    told_sizes: Vec<String>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    dims: Vec<Dim>,
    kernels: usize,
    macs: u64,
    bytes: u64,
    weight_bytes: u64,
    /// An estimate.
    artifact_bytes: u64,
    arena_bytes: u64,
    /// Estimates, of a run on one thread; none of GPUs.
    times: Vec<Time>,
    check_ms: f64,
}

#[derive(Serialize)]
struct Port {
    name: String,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Serialize)]
struct Dim {
    name: String,
    min: i64,
    max: Option<i64>,
    /// What the figures suppose.
    value: i64,
}

#[derive(Serialize)]
struct Time {
    target: String,
    ms: f64,
}

pub(crate) fn run(arguments: CheckArgs, console: &Console) -> Result<Exit, Failure> {
    let CheckArgs { model, target, dim, shape, custom_ops } = arguments;
    let begun = Instant::now();
    let mut ranges = Vec::new();
    let mut values = Vec::new();
    for text in &dim {
        match dims::parse_dim(text)? {
            // A value is what figures are for; the dim stays dynamic.
            (name, DimChoice::Fixed(value)) => values.push((name, value)),
            range => ranges.push(range),
        }
    }
    let asked = target.clone();
    let TargetList { targets, byte_targets, bf16_targets, native } = TargetList::of(target)?;
    let options = CompileOptions {
        targets,
        byte_targets,
        bf16_targets,
        dims: ranges,
        shapes: shape.iter().map(|text| dims::parse_shape(text)).collect::<Result<_, _>>()?,
        custom_ops: custom_ops::read(&custom_ops)?,
        machines: native.as_ref().and_then(Native::measured).into_iter().collect(),
        ..CompileOptions::default()
    };
    let source =
        if model_file::is_stream(&model) { Source::bytes(model_file::read_stdin()?) } else { Source::file(&model) };
    let value = |name: &str| values.iter().rev().find(|(known, _)| known == name).map(|&(_, value)| value);
    let forecast = {
        let mut stages = Stages::new(console);
        infc::forecast(&source, &options, &value, &mut stages)?
    };
    if let Some((name, _)) = values.iter().find(|(name, _)| !forecast.dims.iter().any(|dim| dim.name == *name)) {
        let known: Vec<String> = forecast.dims.iter().map(|dim| format!("`{}`", dim.name)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(CliError::usage(format!("--dim: the model has no dynamic dim `{name}`, it has {known}")).into());
    }
    let report = Report::new(model.display().to_string(), forecast, millis(begun.elapsed()));
    if console.is_json() {
        console.json(&report)?;
    } else {
        print(&report, &asked, console)?;
    }
    Ok(Exit::Done)
}

impl Report {
    fn new(model: String, forecast: Forecast, check_ms: f64) -> Self {
        let ports = |ports: Vec<(String, String)>| ports.into_iter().map(|(name, ty)| Port { name, ty }).collect();
        let dim = |ForecastDim { name, min, max, value }| Dim { name, min, max, value };
        Self {
            schema: "infc.check/1",
            model,
            onnx_nodes: forecast.onnx_nodes,
            on_host: forecast.on_host,
            loops: forecast.loops,
            told_sizes: forecast.told_sizes,
            inputs: ports(forecast.inputs),
            outputs: ports(forecast.outputs),
            dims: forecast.dims.into_iter().map(dim).collect(),
            kernels: forecast.kernels,
            macs: forecast.macs,
            bytes: forecast.bytes,
            weight_bytes: forecast.weight_bytes,
            artifact_bytes: forecast.artifact_bytes,
            arena_bytes: forecast.arena_bytes,
            times: forecast.seconds.into_iter().map(|(target, s)| Time { target, ms: s * 1e3 }).collect(),
            check_ms,
        }
    }
}

fn print(report: &Report, targets: &[String], console: &Console) -> Result<(), Failure> {
    let label = |text: &str| console.paint(Style::Label, &format!("{text:9}"));
    let host = if report.on_host.is_empty() {
        console.paint(Style::Good, "all as kernels")
    } else {
        format!("{} on the host: {}", report.on_host.len(), tables::few(&report.on_host, 8))
    };
    console.line(format!("  {} {} nodes → {} kernels, {host}", label("covered"), report.onnx_nodes, report.kernels))?;
    if !report.loops.is_empty() {
        let few = tables::few(&report.loops, 8);
        console.line(format!(
            "  {} counted by the host, their steps are kernels and in no figure: {few}",
            label("loops")
        ))?;
    }
    if !report.told_sizes.is_empty() {
        let few = tables::few(&report.told_sizes, 8);
        console.line(format!("  {} read in a run, for {few}", label("sizes")))?;
    }
    for (name, ports) in [("inputs", &report.inputs), ("outputs", &report.outputs)] {
        let text: Vec<String> = ports.iter().map(|port| format!("{}  {}", port.name, port.ty)).collect();
        console.line(format!("  {} {}", label(name), tables::few(&text, 6)))?;
    }
    for dim in &report.dims {
        let Dim { name, min, max, value } = dim;
        let max = max.map_or_else(String::new, |max| max.to_string());
        console.line(format!("  {} {name} in {min}..{max}; the figures are for {value}", label("dim")))?;
    }
    let (macs, bytes) = (tables::count(report.macs), tables::bytes(report.bytes));
    console.line(format!("  {} {macs} multiply-adds, {bytes} read and written by kernels", label("work")))?;
    let (weights, arena) = (tables::bytes(report.weight_bytes), tables::bytes(report.arena_bytes));
    let artifact = tables::bytes(report.artifact_bytes);
    console.line(format!("  {} about {artifact}, of which {weights} are weights", label("size")))?;
    console.line(format!("  {} about {arena} between kernels, beside inputs, outputs and weights", label("memory")))?;
    let times: Vec<String> =
        report.times.iter().map(|time| format!("{} on {}", tables::millis(time.ms), time.target)).collect();
    if !times.is_empty() {
        let ghz = FORECAST_HERTZ / 1e9;
        console.line(format!("  {} about {}, one thread at {ghz} GHz", label("time"), times.join(", ")))?;
    }
    let targets = if targets == ["cpu"] { String::new() } else { format!(" --target {}", targets.join(",")) };
    console.line(format!("  {} infc compile {}{targets}", label("next"), report.model))
}
