//! `infc doctor`: what of this machine infc can use, and whether code that it makes here runs.

use crate::console::{Console, Style};
use crate::digits::{self, HeldOut};
use crate::failure::{Exit, Failure};
use crate::host;
use crate::process;
use crate::tables;
use infc::{CompileOptions, Source};
use infc_runtime::{LoadOptions, Model, SessionOptions};
use serde::Serialize;

/// How far outputs of two levels may be apart: probabilities, of which the levels add up terms in another order.
const TOLERANCE: f64 = 1e-5;

/// Show what of this machine infc can use
///
/// The processor, the targets whose code it runs, and threads; then the built-in network is compiled for each of those
/// targets and run, and the outputs are compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc doctor\n  infc doctor --format json")]
pub(crate) struct DoctorArgs {}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    infc_version: &'static str,
    machine: String,
    /// What records of `infc tune` call it.
    processor: String,
    system: String,
    /// What `--target native` stands for here.
    native: Option<String>,
    /// What was measured of this machine, or why that is not taken; `None` if nobody has measured it.
    profile: Option<String>,
    threads: usize,
    targets: Vec<Tried>,
    healthy: bool,
}

/// What came of one target.
#[derive(Serialize)]
struct Tried {
    target: String,
    /// Images of the demo that are read right, of all there are.
    right: usize,
    images: usize,
    /// The largest difference to the outputs of the first target.
    difference: f64,
    /// Why there are no outputs, or `null`.
    problem: Option<String>,
}

impl Tried {
    fn is_fine(&self) -> bool {
        self.problem.is_none() && self.difference <= TOLERANCE
    }
}

pub(crate) fn run(_: &DoctorArgs, console: &Console) -> Result<Exit, Failure> {
    let found = host::native();
    let native = found.as_ref().map(|native| native.target.to_string());
    let mut names: Vec<String> = native.iter().cloned().collect();
    let levels = host::LEVELS.into_iter().map(infc::Target::new).filter(host::runs_target);
    names.extend(levels.map(|target| target.to_string()).filter(|name| Some(name) != native.as_ref()));
    let mut first: Option<Vec<f64>> = None;
    let mut targets = Vec::new();
    for target in names {
        let tried = match outputs(&target) {
            Ok((outputs, right, images)) => {
                let reference = first.get_or_insert_with(|| outputs.clone());
                let difference = reference.iter().zip(&outputs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                Tried { target, right, images, difference, problem: None }
            }
            Err(failure) => {
                Tried { target, right: 0, images: 0, difference: 0.0, problem: Some(failure.message().to_owned()) }
            }
        };
        targets.push(tried);
    }
    let report = Report {
        schema: "infc.doctor/1",
        infc_version: env!("CARGO_PKG_VERSION"),
        machine: process::machine(),
        processor: process::processor(),
        system: format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH),
        native,
        profile: found.and_then(|native| native.note()),
        threads: process::cores(),
        healthy: !targets.is_empty() && targets.iter().all(Tried::is_fine),
        targets,
    };
    if console.is_json() {
        console.json(&report)?;
    } else {
        print(&report, console)?;
    }
    Ok(if report.healthy { Exit::Done } else { Exit::Failed })
}

/// The demo's outputs by code for a target, and how many of its images are read right.
fn outputs(target: &str) -> Result<(Vec<f64>, usize, usize), Failure> {
    let options = CompileOptions { targets: vec![target.to_owned()], ..CompileOptions::default() };
    let compilation = infc::compile(&Source::bytes(digits::MODEL), &options, &mut ())?;
    let load = LoadOptions { target: Some(target.to_owned()), ..LoadOptions::default() };
    let model = Model::from_vec_with(compilation.to_bytes()?, &load)?;
    let mut session = model.session(&SessionOptions::default())?;
    let held_out = HeldOut::read();
    let probabilities = session.run_owned(&[&held_out.images(0..held_out.len())])?;
    let answers = digits::most_probable(&probabilities[0]);
    let right = (0..held_out.len()).filter(|&image| held_out.label(image) == answers[image]).count();
    let elements = (0..probabilities[0].len_elems()).filter_map(|at| probabilities[0].get_f64(at)).collect();
    Ok((elements, right, held_out.len()))
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    let label = |text: &str| console.paint(Style::Label, &format!("{text:9}"));
    console.line(format!("  {} {} for {}", label("infc"), report.infc_version, report.system))?;
    console.line(format!("  {} {}", label("machine"), report.machine))?;
    console.line(format!("  {} up to {}", label("threads"), report.threads))?;
    match &report.native {
        Some(native) => console.line(format!("  {} {native}", label("native")))?,
        None => console.line(format!("  {} infc makes no code for this processor", label("native")))?,
    }
    if let Some(profile) = &report.profile {
        console.line(format!("  {} {profile}", label("")))?;
    }
    for tried in &report.targets {
        let Tried { target, right, images, difference, problem } = tried;
        let verdict = match problem {
            Some(problem) => console.paint(Style::Error, problem),
            None if !tried.is_fine() => {
                let text = format!("off by {} from the first", tables::number(*difference));
                console.paint(Style::Error, &text)
            }
            None => format!("{} {right} of {images} images of the demo", console.paint(Style::Good, "works,")),
        };
        console.line(format!("  {} {target}: {verdict}", label("target")))?;
    }
    let verdict = if report.healthy {
        console.paint(Style::Good, "infc works on this machine")
    } else {
        console.paint(Style::Error, "infc does not work on this machine as it should")
    };
    console.line(format!("  {verdict}"))
}
