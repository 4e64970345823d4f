//! `infc targets`: what artifacts can be compiled for.

use crate::console::{Console, Style};
use crate::failure::{Exit, Failure};
use crate::host;
use infc_artifact::features;
use serde::Serialize;

/// List what artifacts can be compiled for: names for --target, the processor features that code for them relies on,
/// and whether this machine has them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc targets\n  infc targets --format json")]
pub(crate) struct TargetsArgs {}

/// A target that has a name of its own; features are added as in `x86-64-v4+vnni`.
struct Named {
    name: &'static str,
    about: &'static str,
}

const NAMED: [Named; 3] = [
    Named { name: "x86-64-v4", about: "AVX-512: Intel servers since 2017, AMD since Zen 4 (2022)" },
    Named { name: "x86-64-v3", about: "AVX2 and FMA: Intel since 2013, AMD since 2015" },
    Named { name: "x86-64-v2", about: "SSE4.2: about every 64-bit PC since 2009" },
];

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// What `--target cpu`, the default, stands for.
    cpu: Vec<&'static str>,
    /// What `--target native` stands for here.
    native: Option<String>,
    targets: Vec<TargetReport>,
}

#[derive(Serialize)]
struct TargetReport {
    name: &'static str,
    about: &'static str,
    features: Vec<&'static str>,
    runs_here: bool,
}

pub(crate) fn run(_: &TargetsArgs, console: &Console) -> Result<Exit, Failure> {
    let targets = NAMED.iter().map(|named| TargetReport {
        name: named.name,
        about: named.about,
        features: features::required_by(named.name).unwrap_or_default(),
        runs_here: host::runs(named.name),
    });
    let report = Report {
        schema: "infc.targets/1",
        cpu: NAMED.iter().map(|named| named.name).collect(),
        native: host::native_target(),
        targets: targets.collect(),
    };
    if console.is_json() { console.json(&report)? } else { print(&report, console)? }
    Ok(Exit::Done)
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    for (index, target) in report.targets.iter().enumerate() {
        let here =
            if target.runs_here { console.paint(Style::Good, "runs here") } else { "does not run here".to_owned() };
        console.line(format!("{}  {}, {here}", console.paint(Style::Label, target.name), target.about))?;
        // A level contains those below it: only what it adds is told.
        let below = report.targets.get(index + 1).map_or(&[][..], |below| &below.features);
        let added: Vec<&str> = target.features.iter().copied().filter(|feature| !below.contains(feature)).collect();
        let and = if below.is_empty() { String::new() } else { format!("{} and ", report.targets[index + 1].name) };
        console.line(format!("  needs {and}{}", added.join(" ")))?;
    }
    console.line(format!("\ncpu     {}, all in one file (the default)", report.cpu.join(", ")))?;
    match &report.native {
        Some(native) => console.line(format!("native  this machine alone, which is {native}"))?,
        None => console.line("native  not on this machine: infc makes no code for its processor")?,
    }
    console.line("\nMore features are added with +, as in x86-64-v4+vnni+bf16; several targets are separated by commas.")
}
