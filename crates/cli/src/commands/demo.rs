//! `infc demo`: a real network, compiled and run, with nothing needed but the command.

mod drawing;
mod save;

use crate::console::{Console, Style};
use crate::digits::{self, HeldOut};
use crate::failure::{Exit, Failure};
use crate::host;
use crate::process;
use crate::progress::Stages;
use crate::stats::{Summary, millis};
use crate::tables;
use infc::{CompileOptions, Source};
use infc_runtime::{Model, RunOptions, Session, SessionOptions, TensorView};
use infc_tensor::Tensor;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Digits that are drawn.
const DRAWN: usize = 6;
/// How long latencies are measured, each.
const MEASURED: Duration = Duration::from_millis(300);

/// Compile and run the built-in network that reads handwritten digits
///
/// It is run on 360 images that it was not trained on, without files or network. With --save, the model and its data
/// are written instead, to try the other commands on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc demo\n  infc demo --save digits")]
pub(crate) struct DemoArgs {
    /// Write digits.onnx, test_data_set_0 and labels.npy into this folder, and run nothing
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    variant: String,
    machine: String,
    onnx_nodes: usize,
    kernels: usize,
    artifact_bytes: u64,
    compile_ms: f64,
    images: usize,
    right: usize,
    accuracy: f64,
    /// Of a run on one image.
    latency_ms: Option<Summary>,
    /// Of a run on all images.
    batch_latency_ms: Option<Summary>,
    /// Images that are taken for another digit.
    mistakes: Vec<Mistake>,
}

#[derive(Serialize)]
struct Mistake {
    image: usize,
    digit: usize,
    taken_for: usize,
}

pub(crate) fn run(arguments: DemoArgs, console: &Console) -> Result<Exit, Failure> {
    if let Some(folder) = arguments.save {
        return save::run(&folder, console);
    }
    let begun = Instant::now();
    // One level is enough here: the best that this machine runs.
    let mut options = CompileOptions::default();
    if let Some(target) = host::best_level() {
        options.targets = vec![target.to_string()];
    }
    let compilation = {
        let mut stages = Stages::new(console);
        infc::compile(&Source::bytes(digits::MODEL), &options, &mut stages)?
    };
    let compile_ms = millis(begun.elapsed());
    let model = Model::from_vec(compilation.to_bytes()?)?;
    let mut session = model.session(&SessionOptions::default())?;

    let held_out = HeldOut::read();
    let all = held_out.images(0..held_out.len());
    let probabilities = session.run_owned(&[&all])?;
    let answers = digits::most_probable(&probabilities[0]);
    let mistakes: Vec<Mistake> = (0..held_out.len())
        .map(|image| Mistake { image, digit: held_out.label(image), taken_for: answers[image] })
        .filter(|mistake| mistake.digit != mistake.taken_for)
        .collect();
    let right = held_out.len() - mistakes.len();
    #[expect(clippy::cast_precision_loss, reason = "hundreds of images")]
    let accuracy = right as f64 / held_out.len() as f64;
    let report = Report {
        schema: "infc.demo/1",
        variant: model.selection().target.clone(),
        machine: process::machine(),
        onnx_nodes: compilation.report.onnx_nodes,
        kernels: compilation.report.launches,
        artifact_bytes: compilation.report.artifact_bytes,
        compile_ms,
        images: held_out.len(),
        right,
        accuracy,
        latency_ms: measure(&mut session, &held_out.images(0..1))?,
        batch_latency_ms: measure(&mut session, &all)?,
        mistakes,
    };
    if console.is_json() {
        console.json(&report)?;
    } else {
        print(&report, console)?;
        draw(&report, &held_out, &answers, console)?;
    }
    Ok(Exit::Done)
}

/// Runs on the same input for a while.
fn measure(session: &mut Session, input: &Tensor) -> Result<Option<Summary>, Failure> {
    let view = [TensorView::try_from(input)?];
    let options = RunOptions::default();
    let begun = Instant::now();
    let mut latencies = Vec::new();
    // The first run makes the memory plan for this size.
    session.run_in_session(&view, &options)?;
    while begun.elapsed() < MEASURED {
        let run = Instant::now();
        session.run_in_session(&view, &options)?;
        latencies.push(millis(run.elapsed()));
    }
    Ok(Summary::of(&latencies))
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let label = |text: &str| console.paint(Style::Label, &format!("{text:9}"));
    let (nodes, kernels, size) = (report.onnx_nodes, report.kernels, tables::bytes(report.artifact_bytes));
    let compiled = tables::millis(report.compile_ms);
    let variant = &report.variant;
    console.line(format!(
        "  {} {nodes} nodes → {kernels} kernels, {size}, for {variant} in {compiled}",
        label("compiled")
    ))?;
    let share = console.paint(Style::Good, &format!("{:.2} %", report.accuracy * 100.0));
    let (right, images) = (report.right, report.images);
    console.line(format!("  {} {right} of {images} images it was not trained on: {share}", label("right")))?;
    if let (Some(one), Some(all)) = (report.latency_ms, report.batch_latency_ms) {
        #[expect(clippy::cast_precision_loss, reason = "hundreds of images")]
        let each = all.median * 1e3 / images as f64;
        let (one, all) = (tables::millis(one.median), tables::millis(all.median));
        console.line(format!("  {} {one} for one image, {all} for all ({each:.1} µs each)", label("latency")))?;
    }
    console.line(format!("  {} {}", label("machine"), report.machine))
}

/// A few digits side by side: one that is mistaken, if there is one, the others from the beginning.
fn draw(report: &Report, held_out: &HeldOut, answers: &[usize], console: &Console) -> Result<(), Failure> {
    let mistaken = report.mistakes.first().map(|mistake| mistake.image);
    let others = (0..held_out.len()).filter(|&image| Some(image) != mistaken);
    let shown: Vec<usize> = others.take(DRAWN - usize::from(mistaken.is_some())).chain(mistaken).collect();
    console.line("")?;
    let pictures: Vec<&[u8]> = shown.iter().map(|&image| held_out.ink(image)).collect();
    for line in drawing::side_by_side(&pictures) {
        console.line(format!("  {line}"))?;
    }
    let captions = shown.iter().map(|&image| {
        let (digit, answer) = (held_out.label(image), answers[image]);
        let caption = if digit == answer { format!("read as {answer}") } else { format!("{digit}, read as {answer}") };
        let style = if digit == answer { Style::Good } else { Style::Error };
        console.paint(style, &format!("{caption:<width$}", width = drawing::WIDTH))
    });
    let captions: Vec<String> = captions.collect();
    console.line(format!("  {}", captions.join(drawing::GAP)))?;
    console.line("\n  to go on: infc demo --save digits, then infc compile digits/digits.onnx")
}
