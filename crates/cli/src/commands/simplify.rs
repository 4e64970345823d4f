//! `infc simplify MODEL -o OUT.onnx`: the same model with what is known beforehand left out, as ONNX again.

use crate::commands::dims;
use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::model_file;
use crate::output_file::OutputFile;
use crate::tables;
use infc_frontend_onnx::proto::{GraphProto, ModelProto};
use infc_frontend_onnx::{Encoded, ImportOptions, LoadOptions, MAX_INLINE_BYTES, Model, encode, simplify};
use prost::Message;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most bytes that a protobuf message may have.
const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// Write a model without what is known before it runs, as ONNX again
///
/// Constants are folded, shapes that follow from others are resolved, nodes that change nothing or do the same as another
/// disappear, and branches whose condition is known take the place of their If. Operators, opsets and the names of
/// inputs and outputs stay; outputs are the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc simplify digits.onnx -o simple.onnx\n  \
                        infc simplify digits.onnx --dim N=1 -o one.onnx --format json")]
pub(crate) struct SimplifyArgs {
    /// The model, or - for standard input
    model: PathBuf,
    /// Where to write the simplified model, or - for standard output
    #[arg(short, long, value_name = "OUT.onnx")]
    output: PathBuf,
    /// A dynamic dim: its value, which the written model has, or its range with both ends
    #[arg(long, value_name = "SYM=A..B")]
    dim: Vec<String>,
    /// The shape of an input, with ? for what stays dynamic, as in image=1x3x?x?
    #[arg(long, value_name = "INPUT=SHAPE")]
    shape: Vec<String>,
    /// Write large constants into a file of their own, OUT.onnx.data; always so for models that had such a file, and
    /// beyond 1 GiB
    #[arg(long)]
    external_data: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    model: String,
    output: String,
    bytes: usize,
    /// The file of large constants.
    data_file: Option<String>,
    data_bytes: u64,
    onnx_nodes: usize,
    nodes: usize,
    operators: Vec<Operator>,
    only_constants: bool,
}

/// How often an operator occurs, if that has changed.
#[derive(Serialize)]
struct Operator {
    op_type: String,
    before: usize,
    after: usize,
}

pub(crate) fn run(arguments: SimplifyArgs, console: &Console) -> Result<Exit, Failure> {
    let SimplifyArgs { model: path, output, dim, shape, external_data } = arguments;
    let to_stdout = model_file::is_stream(&output);
    if to_stdout && console.is_json() {
        return Err(CliError::usage("-o - and --format json both want standard output").into());
    }
    let options = ImportOptions {
        dims: dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
        shapes: shape.iter().map(|text| dims::parse_shape(text)).collect::<Result<_, _>>()?,
        ..ImportOptions::default()
    };
    let model = if model_file::is_stream(&path) {
        Model::from_bytes(model_file::read_stdin()?, None)?
    } else {
        Model::load(&path, &LoadOptions::default())?
    };
    let simplified = simplify(&model, &options)?;
    let operators = changes(model.graph(), simplified.model.graph.as_ref());
    let nodes = simplified.model.graph.as_ref().map_or(0, |graph| graph.node.len());

    let too_large = simplified.model.encoded_len() > MAX_INLINE_BYTES;
    let data_file = if external_data || too_large || !model.data_files().is_empty() && !to_stdout {
        Some(data_file(&output).ok_or_else(|| CliError::usage("large constants need a file beside -o OUT.onnx"))?)
    } else {
        None
    };
    let encoded = encode(checked(simplified.model, data_file.is_some())?, data_file.as_deref())?;
    let report = Report {
        schema: "infc.simplify/1",
        model: path.display().to_string(),
        output: output.display().to_string(),
        bytes: encoded.model.len(),
        data_file,
        data_bytes: encoded.data.as_ref().map_or(0, infc_frontend_onnx::TensorData::len_bytes),
        onnx_nodes: model.graph().node.len(),
        nodes,
        operators,
        only_constants: simplified.supposes,
    };
    if simplified.supposes {
        console.note("  sizes of inputs must fit each other, which a model cannot say: only constants were folded; fix them with --dim");
    }
    if to_stdout {
        console.write(&encoded.model)?;
        return Ok(Exit::Done);
    }
    write(&encoded, &output)?;
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(Exit::Done)
}

/// The name of the file of constants that belongs to a model.
fn data_file(output: &Path) -> Option<String> {
    if model_file::is_stream(output) {
        return None;
    }
    Some(format!("{}.data", output.file_name()?.to_str()?))
}

/// Refuses what has no place in a message: constants of graphs within nodes stay with them.
fn checked(model: ModelProto, outside: bool) -> Result<ModelProto, CliError> {
    let constants = |graph: &GraphProto| graph.initializer.iter().map(Message::encoded_len).sum::<usize>();
    let moved = if outside { model.graph.as_ref().map_or(0, constants) } else { 0 };
    let rest = model.encoded_len().saturating_sub(moved);
    if rest > MAX_MESSAGE_BYTES { Err(CliError::TooLargeForOnnx { bytes: rest }) } else { Ok(model) }
}

/// The constants first: a model is not there before what it needs.
fn write(encoded: &Encoded, output: &Path) -> Result<(), CliError> {
    if let (Some(data), Some(name)) = (&encoded.data, data_file(output)) {
        let mut file = OutputFile::create(&output.with_file_name(name))?;
        data.write_to(&mut file).map_err(|source| file.error(source))?;
        file.commit()?;
    }
    let mut file = OutputFile::create(output)?;
    file.write_all(&encoded.model).map_err(|source| file.error(source))?;
    file.commit()
}

/// The operators that became fewer or more, those that changed most first.
fn changes(before: &GraphProto, after: Option<&GraphProto>) -> Vec<Operator> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    before.node.iter().for_each(|node| counts.entry(node.op_type()).or_default().0 += 1);
    let nodes = after.into_iter().flat_map(|graph| &graph.node);
    nodes.for_each(|node| counts.entry(node.op_type()).or_default().1 += 1);
    let mut changed: Vec<Operator> = counts
        .into_iter()
        .filter(|(_, (before, after))| before != after)
        .map(|(op_type, (before, after))| Operator { op_type: op_type.to_owned(), before, after })
        .collect();
    changed.sort_by_key(|operator| std::cmp::Reverse(operator.before.abs_diff(operator.after)));
    changed
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let label = |text: &str| console.paint(Style::Label, &format!("{text:9}"));
    let changed: Vec<String> = (report.operators.iter())
        .map(|Operator { op_type, before, after }| format!("{op_type} {before} → {after}"))
        .collect();
    let changed = if changed.is_empty() { "nothing to leave out".to_owned() } else { tables::few(&changed, 8) };
    console.line(format!("  {} {} → {} nodes: {changed}", label("nodes"), report.onnx_nodes, report.nodes))?;
    let size = tables::bytes(report.bytes as u64);
    let data = report.data_file.as_ref().map_or_else(String::new, |name| {
        format!(", and {} of constants in {name} beside it", tables::bytes(report.data_bytes))
    });
    console.line(format!("  {} {}  {size}{data}", label("done"), report.output))?;
    console.line(format!("  {} infc compile {}", label("next"), report.output))
}
