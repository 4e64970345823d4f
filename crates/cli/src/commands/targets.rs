//! `infc targets`: what artifacts can be compiled for.

use crate::console::{Console, Style};
use crate::failure::{Exit, Failure};
use crate::{host, process};
use infc_artifact::features;
use infc_codegen_cpu::Target;
use infc_codegen_cpu::target::{Feature, Level};
use infc_codegen_ptx::PtxTarget;
use infc_tune::builtin_kinds;
use serde::Serialize;

/// List what artifacts can be compiled for
///
/// Names for --target, the processor features that code for them relies on, the machine that schedules are chosen for,
/// and whether this machine runs the code.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc targets\n  infc targets --format json")]
pub(crate) struct TargetsArgs {}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// What `--target cpu`, the default, stands for.
    cpu: Vec<&'static str>,
    /// What it also stands for if the model multiplies bytes.
    cpu_for_bytes: Vec<&'static str>,
    /// And for models that multiply bfloat16 numbers.
    cpu_for_bf16: Vec<&'static str>,
    /// What `--target native` stands for here.
    native: Option<String>,
    /// The kind of this machine, as records that ship with infc go by it.
    machine_kind: Option<String>,
    /// The kinds of machines for which records ship.
    builtin_records: Vec<&'static str>,
    targets: Vec<TargetReport>,
    /// Generations of NVIDIA GPUs; each stands for all later ones, too.
    gpus: Vec<GpuReport>,
}

#[derive(Serialize)]
struct GpuReport {
    name: String,
    /// What a GPU and its driver must have.
    features: Vec<String>,
    /// Whether `--target cuda` means this one.
    default: bool,
    /// Whether no later generation runs it.
    only: bool,
    /// Shared memory that a block may have.
    shared_bytes: u64,
}

#[derive(Serialize)]
struct TargetReport {
    name: String,
    about: &'static str,
    features: Vec<&'static str>,
    /// What may be added with `+`.
    extensions: Vec<String>,
    machine: MachineReport,
    runs_here: bool,
}

/// The machine that schedules have in mind; it never depends on the one that compiles.
#[derive(Serialize)]
struct MachineReport {
    vector_bits: u32,
    vector_registers: u32,
    l1d_bytes: u64,
    l2_bytes: u64,
    l3_bytes: u64,
    fma_per_cycle: u32,
    fma_latency: u32,
}

/// Which machines a level is for.
fn about(level: Level) -> &'static str {
    match level {
        Level::X86V4 => "AVX-512: Intel servers since 2017, AMD since Zen 4 (2022)",
        Level::X86V3 => "AVX2 and FMA: Intel since 2013, AMD since 2015",
        Level::X86V2 => "SSE4.2: about every 64-bit PC since 2009",
        Level::Aarch64 => "64-bit ARM with Advanced SIMD; executed by an emulator, not on such a machine yet",
    }
}

impl TargetReport {
    fn new(level: Level) -> Self {
        let target = Target::new(level);
        let extended = |feature| target.clone().with(feature).ok().map(|target| target.to_string());
        let name = target.to_string();
        let extension = |text: String| text.strip_prefix(&format!("{name}+")).map(str::to_owned);
        let machine = &target.machine;
        Self {
            about: about(level),
            features: target.required_features(),
            extensions: Feature::ALL.into_iter().filter_map(extended).filter_map(extension).collect(),
            machine: MachineReport {
                vector_bits: machine.vector_bits,
                vector_registers: machine.vector_regs,
                l1d_bytes: machine.l1d_bytes,
                l2_bytes: machine.l2_bytes,
                l3_bytes: machine.l3_bytes,
                fma_per_cycle: machine.fma_per_cycle,
                fma_latency: machine.fma_latency,
            },
            runs_here: host::runs_target(&target),
            name,
        }
    }
}

impl GpuReport {
    fn new(target: PtxTarget) -> Self {
        Self {
            name: format!("cuda:{target}"),
            features: features::required_by_ptx(target.capability(), target.is_specific(), target.version_number())
                .to_vec(),
            default: target == PtxTarget::default(),
            only: target.is_specific(),
            shared_bytes: target.shared_limit_bytes(),
        }
    }
}

pub(crate) fn run(_: &TargetsArgs, console: &Console) -> Result<Exit, Failure> {
    let report = Report {
        schema: "infc.targets/1",
        cpu: infc::DEFAULT_TARGETS.to_vec(),
        cpu_for_bytes: infc::BYTE_TARGETS.to_vec(),
        cpu_for_bf16: infc::BF16_TARGETS.to_vec(),
        native: host::native_target().map(|target| target.to_string()),
        machine_kind: process::machine_kind().map(|kind| kind.to_string()),
        builtin_records: builtin_kinds().collect(),
        targets: host::LEVELS.into_iter().map(TargetReport::new).collect(),
        gpus: PtxTarget::all().map(GpuReport::new).collect(),
    };
    if console.is_json() {
        console.json(&report)?
    } else {
        print(&report, console)?
    }
    Ok(Exit::Done)
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    for (index, target) in report.targets.iter().enumerate() {
        let here =
            if target.runs_here { console.paint(Style::Good, "runs here") } else { "does not run here".to_owned() };
        console.line(format!("{}  {}, {here}", console.paint(Style::Label, &target.name), target.about))?;
        // A level contains those below it: only what it adds is told.
        let below = report.targets.get(index + 1).map_or(&[][..], |below| &below.features);
        let contained = !below.is_empty() && below.iter().all(|feature| target.features.contains(feature));
        let added = target.features.iter().filter(|feature| !contained || !below.contains(feature));
        let added: Vec<&str> = added.copied().collect();
        let and = if contained { format!("{} and ", report.targets[index + 1].name) } else { String::new() };
        console.line(format!("  needs     {and}{}", added.join(" ")))?;
        let machine = &target.machine;
        console.line(format!(
            "  machine   {} vector registers of {} bits, {} multiply-adds a cycle, caches {} kB, {} kB, {} kB a core",
            machine.vector_registers,
            machine.vector_bits,
            machine.fma_per_cycle,
            machine.l1d_bytes >> 10,
            machine.l2_bytes >> 10,
            machine.l3_bytes >> 10,
        ))?;
        if !target.extensions.is_empty() {
            console.line(format!("  may add   +{}", target.extensions.join(" +")))?;
        }
    }
    console.line(format!("{}  NVIDIA GPUs, from PTX", console.paint(Style::Label, "cuda")))?;
    console.line("  note      has run on an H100 and an H200 (sm_80, sm_90a); kernels for the others were executed by a simulator")?;
    for gpu in &report.gpus {
        let later = if gpu.only { "that generation alone, whose warps multiply in groups" } else { "and later" };
        let default = if gpu.default { ", which cuda alone stands for" } else { "" };
        console.line(format!(
            "  {}{}  {later}{default}",
            gpu.name,
            " ".repeat(12usize.saturating_sub(gpu.name.len()))
        ))?;
    }
    console.line(format!("\ncpu     {}, all in one file (the default)", report.cpu.join(", ")))?;
    console.line(format!("        and for models that multiply bytes {}", report.cpu_for_bytes.join(", ")))?;
    console.line(format!("        and for those that multiply bf16 numbers {}", report.cpu_for_bf16.join(", ")))?;
    match &report.native {
        Some(native) => console.line(format!("native  this machine alone, which is {native}"))?,
        None => console.line("native  not on this machine: infc makes no code for its processor")?,
    }
    let here = report.machine_kind.as_ref().map_or_else(String::new, |kind| format!("; this machine is {kind}"));
    console.line(format!("        records are built in for {}{here}", report.builtin_records.join(", ")))
}
