//! `infc compile MODEL`.

use crate::commands::ptxas::PtxasArg;
use crate::commands::records::BuiltinRecords;
use crate::commands::{custom_ops, dims, records};
use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::host::{self, Native};
use crate::model_file;
use crate::output_file::OutputFile;
use crate::progress::Stages;
use crate::stats::millis;
use crate::tables;
use crate::target_list::TargetList;
use infc::{
    Compilation, CompileOptions, KernelReport, Phase, Precision, Report, Source, SpecialCaseReport, Steps,
    VariantReport,
};
use infc_artifact::{Crossing, Side as CrossingSide, features};
use infc_codegen_cpu::Target;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Compile an ONNX model into an artifact
///
/// The artifact is one file with native code, weights and plan. It is complete or not there, and the same model and
/// options give the same bytes on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc compile digits.onnx\n  \
                        infc compile digits.onnx --target native --dim N=1..64 -o fast.infa")]
pub(crate) struct CompileArgs {
    /// The model, or - for standard input
    #[arg(required_unless_present = "list_phases")]
    model: Option<PathBuf>,
    /// Where to write the artifact, or - for standard output; MODEL.infa in the current folder unless given
    #[arg(short, long, value_name = "OUT.infa")]
    output: Option<PathBuf>,
    /// What to make code for, separated by commas: cpu (x86-64-v4, -v3 and -v2 in one file, and for models that
    /// multiply bytes -v4 with VNNI and -v3 with AVX-VNNI), native (this machine alone), cuda (NVIDIA GPUs since
    /// Ampere), or names from `infc targets`, with features as in x86-64-v4+vnni
    #[arg(short, long, value_name = "TARGETS", default_value = "cpu", value_delimiter = ',')]
    target: Vec<String>,
    /// A dynamic dim: its value, or its range with both ends. A dim without a name is called INPUT[AXIS]
    #[arg(long, value_name = "SYM=A..B")]
    dim: Vec<String>,
    /// Values of a dynamic dim that the model is compiled for once more: a run whose inputs have one takes code made
    /// for it, any other run the general one, all in one file with shared weights. Several dims: every combination
    #[arg(long, value_name = "SYM=V,V")]
    specialize: Vec<String>,
    /// The shape of an input, with ? for what stays dynamic, as in image=1x3x?x?
    #[arg(long, value_name = "INPUT=SHAPE")]
    shape: Vec<String>,
    /// An output that is an input of the next run: the session keeps it, and need not be given it. A * in both names stands
    /// for the same, as in 'present.*=past_key_values.*'. May be repeated
    #[arg(long, value_name = "OUT=IN")]
    state: Vec<String>,
    /// Multiply in these numbers: bf16 and f16 round the factors of matrix products and convolutions with weights and sum in
    /// f32, which takes half the memory and, for bf16 on processors with AVX512-BF16, half the instructions; what else there is
    /// stays f32. On GPUs tensor cores multiply all of these, and tf32, of f32 numbers in memory, which is for GPUs alone
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = PrecisionArg::F32)]
    precision: PrecisionArg,
    /// Make no rewrites that change the order of floating-point additions
    #[arg(long)]
    strict: bool,
    /// Refuse a model of which nodes would run on the host instead of as kernels
    #[arg(long)]
    deny_fallback: bool,
    /// Declarations of custom operators, which the program that runs the artifact brings; may be given several times
    #[arg(long, value_name = "FILE.toml")]
    custom_ops: Vec<PathBuf>,
    /// How large the constants in the artifact may become, over their size in the model; beyond 1, they may always grow by
    /// 4 MiB
    #[arg(long, value_name = "X", default_value_t = CompileOptions::default().max_weight_growth, value_parser = growth)]
    max_weight_growth: f64,
    /// Schedules that `infc tune` found, taken instead of the default choice; may be given several times
    #[arg(long, value_name = "FILE")]
    records: Vec<PathBuf>,
    /// How many threads the artifact is going to run with: of several schedules for a kernel the one that was found with as
    /// many is taken first
    #[arg(long, value_name = "N", requires = "records")]
    threads: Option<NonZeroUsize>,
    /// Which schedules that ship with infc are taken where no file has one: auto (with --target native, those that were
    /// measured on machines of this kind), off, or a kind from `infc targets`, for each target that has some
    #[arg(long, value_name = "KIND", default_value = "auto")]
    builtin_records: BuiltinRecords,
    /// Add machine code of each GPU generation to the PTX, which loads faster: off, auto (the ptxas that is installed, if
    /// there is one), or the path of a ptxas. Other versions of it make other bytes
    #[arg(long, value_name = "off|auto|PATH", default_value = "off", value_parser = clap::value_parser!(PtxasArg))]
    ptxas: PtxasArg,
    /// Write what each phase made into a folder
    #[arg(long, value_name = "DIR", help_heading = "Looking inside")]
    dump_phases: Option<PathBuf>,
    /// End after this phase, without writing an artifact
    #[arg(long, value_name = "PHASE", help_heading = "Looking inside")]
    stop_after: Option<Phase>,
    /// Start with this phase: MODEL is what the phase before it dumped
    #[arg(
        long,
        value_name = "PHASE",
        help_heading = "Looking inside",
        conflicts_with_all = ["dim", "shape", "specialize", "precision"]
    )]
    start_from: Option<Phase>,
    /// List the phases and do nothing else
    #[arg(long, help_heading = "Looking inside")]
    list_phases: bool,
}

/// What sums of products are computed in.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(super) enum PrecisionArg {
    #[default]
    F32,
    Tf32,
    Bf16,
    F16,
}

impl From<PrecisionArg> for Precision {
    fn from(argument: PrecisionArg) -> Self {
        match argument {
            PrecisionArg::F32 => Precision::F32,
            PrecisionArg::Tf32 => Precision::Tf32,
            PrecisionArg::Bf16 => Precision::Bf16,
            PrecisionArg::F16 => Precision::F16,
        }
    }
}

fn growth(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (1.0..f64::INFINITY).contains(value));
    value.ok_or_else(|| "expected a number, at least 1".to_owned())
}

/// Checked arguments.
struct Job {
    model: PathBuf,
    output: PathBuf,
    options: CompileOptions,
    /// What `native` stood for.
    native: Option<Native>,
    /// The kind of machines whose built-in records may be taken.
    builtin_kind: Option<&'static str>,
}

impl CompileArgs {
    fn resolve(self, console: &Console) -> Result<Job, Failure> {
        let usage = |message: &str| Failure::from(CliError::usage(message));
        let model = self.model.ok_or_else(|| usage("the model is missing"))?;
        let output = match self.output {
            Some(output) => output,
            None if model_file::is_stream(&model) => {
                return Err(usage("-o is needed when the model comes from standard input"));
            }
            None => default_output(&model).ok_or_else(|| usage("the model's path names no file"))?,
        };
        let TargetList { targets, byte_targets, bf16_targets, native } = TargetList::of(self.target)?;
        let mut recorded = records::read(&self.records, console)?;
        if let Some(Native { target, .. }) = &native {
            records::leave_out_foreign(&mut recorded, &target.to_string(), console);
        }
        let machines = native.as_ref().and_then(Native::measured).into_iter().collect();
        let native_target = native.as_ref().map(|native| native.target.to_string());
        let builtin = self.builtin_records.read(native_target.as_deref(), console);
        let for_gpus = targets.iter().any(|target| features::arch_of(target) == Some("cuda"));
        let ptxas = self.ptxas.find(for_gpus, console)?;
        let options = CompileOptions {
            targets,
            byte_targets,
            bf16_targets,
            precision: self.precision.into(),
            dims: self.dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
            specialize: self.specialize.iter().map(|text| dims::parse_specialize(text)).collect::<Result<_, _>>()?,
            shapes: self.shape.iter().map(|text| dims::parse_shape(text)).collect::<Result<_, _>>()?,
            states: self.state.iter().map(|text| dims::parse_state(text)).collect::<Result<_, _>>()?,
            strict: self.strict,
            deny_fallback: self.deny_fallback,
            custom_ops: custom_ops::read(&self.custom_ops)?,
            max_weight_growth: self.max_weight_growth,
            records: recorded.to_records(self.threads.map(usize::from)),
            lists_choices: false,
            builtin_records: builtin.records,
            machines,
            ptxas,
            start_from: self.start_from,
            dump_phases: self.dump_phases,
            stop_after: self.stop_after,
        };
        Ok(Job { model, output, options, native, builtin_kind: builtin.kind })
    }
}

/// The model's stem in the current folder.
fn default_output(model: &Path) -> Option<PathBuf> {
    let mut name = model.file_stem()?.to_owned();
    name.push(".infa");
    Some(name.into())
}

pub(crate) fn run(arguments: CompileArgs, console: &Console) -> Result<Exit, Failure> {
    if arguments.list_phases {
        return list_phases(console);
    }
    let job = arguments.resolve(console)?;
    if console.is_json() && model_file::is_stream(&job.output) {
        return Err(CliError::usage("-o - and --format json both want standard output").into());
    }
    if let Some(native) = &job.native {
        console.note(format!("  native is {}; the artifact may not run on other machines", native.target));
        if let Some(note) = native.note() {
            console.note(format!("  {note}"));
        }
    }
    // Whether there can be an artifact shows before the work, and not behind it. This leaves no file; a pipe is opened once.
    let is_special = std::fs::metadata(&job.output).is_ok_and(|place| !place.is_file() && !place.is_dir());
    if job.options.stop_after.is_none() && !model_file::is_stream(&job.output) && !is_special {
        OutputFile::create(&job.output)?;
    }
    let begun = Instant::now();
    let source = if model_file::is_stream(&job.model) {
        Source::bytes(model_file::read_stdin()?)
    } else {
        Source::file(&job.model)
    };
    let compilation = {
        let mut stages = Stages::new(console);
        infc::compile(&source, &job.options, &mut stages)?
    };
    let written = write(&compilation, &job.output, console)?;
    let took = begun.elapsed();
    for host in &compilation.report.on_host {
        let (op_type, node, reason) = (&host.op_type, &host.node, &host.reason);
        match (&host.custom, host.steps) {
            (Some(name), _) => console.note(format!("  custom  {name} `{node}`")),
            (None, Some(Steps::Compiled)) => {
                console.note(format!("  loop  `{node}`: its steps are kernels, the host counts them: {reason}"));
            }
            (None, Some(Steps::CompiledOrEvaluated)) => {
                let evaluated = "where extents are not what they take for granted, the host evaluates it";
                console.note(format!(
                    "  loop  `{node}`: its steps are kernels, the host counts them, and {evaluated}: {reason}"
                ));
            }
            (None, None) => console.note(format!("  on the host  {op_type} `{node}`: {reason}")),
        }
    }
    for (input, rank) in &compilation.report.taken_ranks {
        let why = "the model does not say, and no other number that was tried fits it";
        console.note(format!("  axes taken  input `{input}` has {rank}: {why}; --shape says another"));
    }
    for input in &compilation.report.unranked {
        let few = "kernels compute more if it is said with --shape";
        console.note(format!("  any axes  input `{input}` has as many axes as a run gives it; {few} {input}=?x?"));
    }
    for told in &compilation.report.told_sizes {
        console.note(format!("  sizes told  `{}`: {}", told.node, told.reason));
    }
    for variant in compilation.report.variants.iter().filter(|variant| !variant.crossings.is_empty()) {
        console.note(format!("  copied  for {}: {}", variant.target, copied(&variant.crossings)));
    }
    for variant in compilation.report.variants.iter().filter(|variant| !variant.cubins.is_empty()) {
        console.note(format!("  machine code  for {}: {}", variant.target, assembled(variant)));
    }
    for refused in &compilation.report.refused_records {
        console.note(format!("  record not taken  {refused}"));
    }
    for refusal in &compilation.report.refusals {
        console.detail(format!("  not fused  {refusal}"));
    }
    if console.is_json() {
        console.json(&Summary::new(&job, &compilation.report, written, took))?;
    } else if written && !model_file::is_stream(&job.output) {
        print(&job, &compilation.report, took, console)?;
    }
    Ok(Exit::Done)
}

/// Writes the artifact, if there is one; says whether there is.
fn write(compilation: &Compilation, output: &Path, console: &Console) -> Result<bool, Failure> {
    if compilation.artifact.is_none() {
        return Ok(false);
    }
    if model_file::is_stream(output) {
        console.write(&compilation.to_bytes()?)?;
        return Ok(true);
    }
    let mut file = OutputFile::create(output)?;
    compilation.write_to(&mut file).map_err(|error| match error {
        infc::CompileError::Artifact(infc_artifact::ArtifactError::Write(source)) => file.error(source).into(),
        error => Failure::from(error),
    })?;
    file.commit()?;
    Ok(true)
}

fn list_phases(console: &Console) -> Result<Exit, Failure> {
    if console.is_json() {
        let phases: Vec<_> =
            Phase::ALL.iter().map(|phase| json!({"name": phase.name(), "about": phase.description()})).collect();
        console.json(&json!({"schema": "infc.compile/1", "phases": phases}))?;
    } else {
        for phase in Phase::ALL {
            console.line(format!("{phase:10} {}", phase.description()))?;
        }
    }
    Ok(Exit::Done)
}

fn spills(kernel: &KernelReport) -> bool {
    kernel.inner_loop_spills > 0 || kernel.spill_bytes > 0
}

/// What an assembler has added to a variant.
fn assembled(variant: &VariantReport) -> String {
    let cubins = variant.cubins.iter().map(|cubin| format!("{} {}", cubin.generation, tables::bytes(cubin.bytes)));
    let mut text = cubins.collect::<Vec<_>>().join(", ");
    if !variant.unknown_generations.is_empty() {
        text = format!("{text}; this ptxas does not know {}", variant.unknown_generations.join(", "));
    }
    let spilling: Vec<&str> = variant.kernels.iter().filter(|k| k.spill_bytes > 0).map(|k| k.name.as_str()).collect();
    if !spilling.is_empty() {
        text = format!("{text}; registers are too few for {}", spilling.join(", "));
    }
    text
}

/// What is copied between host and GPU beside inputs and outputs.
fn copied(crossings: &[Crossing]) -> String {
    let to = |side: CrossingSide| crossings.iter().filter(|crossing| crossing.to == side).count();
    let known: Option<i64> = crossings.iter().map(|crossing| crossing.size_bytes.as_const()).sum();
    let size = known.map_or_else(
        || "so many bytes as the dims say".to_owned(),
        |bytes| tables::bytes(u64::try_from(bytes).unwrap_or(0)),
    );
    let (host, device) = (to(CrossingSide::Host), to(CrossingSide::Device));
    format!("{host} values from the GPU to the host and {device} to the GPU in a run, {size}")
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    model: String,
    /// `None` if the compilation was to stop early.
    artifact: Option<String>,
    bytes: u64,
    targets: Vec<&'a str>,
    onnx_nodes: usize,
    nodes: usize,
    kernels: usize,
    distinct_kernels: usize,
    /// In which numbers products are computed.
    precision: String,
    /// Kernels that multiply numbers of 16 bits because the precision asked for it.
    rounded_kernels: usize,
    halves_in_f32: usize,
    gpu_plan: bool,
    /// `[nodes, kernels]`: how many kernels were made of so many nodes.
    fused: &'a [(usize, usize)],
    refusals: &'a [String],
    /// Kernels, counted per target, that run by records of `--records`.
    recorded_kernels: usize,
    recorded_choices: usize,
    /// The same, by records that ship with infc.
    builtin_kernels: usize,
    /// Of which kind of machines those are; `None` if there are none for what is compiled.
    builtin_records: Option<&'a str>,
    /// The ONNX nodes that run on the host instead of as kernels.
    on_host: Vec<&'a str>,
    /// The same with operators and reasons.
    host_nodes: Vec<HostNodeSummary<'a>>,
    /// The ONNX nodes for which sizes that kernels compute are read during a run.
    told_sizes: Vec<&'a str>,
    /// The custom operators that a program needs to run the artifact.
    custom_ops: BTreeSet<&'a str>,
    weight_bytes: u64,
    original_weight_bytes: u64,
    /// `None` if it depends on dynamic dims.
    arena_bytes: Option<u64>,
    total_ms: f64,
    phases: Vec<PhaseSummary>,
    /// Code for single values of dynamic dims.
    special_cases: Vec<SpecialCaseSummary>,
    variants: Vec<VariantSummary<'a>>,
}

#[derive(Serialize)]
struct HostNodeSummary<'a> {
    node: &'a str,
    op_type: &'a str,
    reason: &'a str,
    /// How the steps of a loop are computed that the host drives.
    steps: Option<&'static str>,
}

#[derive(Serialize)]
struct SpecialCaseSummary {
    dims: BTreeMap<String, i64>,
    kernels: usize,
    /// Those that neither the general case launches, nor a special case before.
    own_kernels: usize,
    arena_bytes: Option<u64>,
}

#[derive(Serialize)]
struct PhaseSummary {
    name: &'static str,
    ms: f64,
}

#[derive(Serialize)]
struct CubinSummary<'a> {
    generation: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct VariantSummary<'a> {
    target: &'a str,
    code_bytes: u64,
    kernels: usize,
    /// Of a variant for GPUs, values that a run copies between host and GPU, besides inputs and outputs.
    crossings: usize,
    /// Kernels whose innermost loops move values between registers and memory; for GPUs, kernels that do so anywhere.
    /// Kernels that round factors of products to TF32.
    tf32_kernels: usize,
    spilling_kernels: usize,
    /// Machine code of GPU generations, beside PTX.
    cubins: Vec<CubinSummary<'a>>,
}

impl<'a> Summary<'a> {
    fn new(job: &'a Job, report: &'a Report, written: bool, took: Duration) -> Self {
        let phases = report.phases.iter().map(|(phase, took)| PhaseSummary { name: phase.name(), ms: millis(*took) });
        let variants = report.variants.iter().map(|variant| VariantSummary {
            target: &variant.target,
            code_bytes: variant.code_bytes,
            kernels: variant.kernels.len(),
            crossings: variant.crossings.len(),
            tf32_kernels: variant.tf32_kernels,
            spilling_kernels: variant.kernels.iter().filter(|kernel| spills(kernel)).count(),
            cubins: variant
                .cubins
                .iter()
                .map(|cubin| CubinSummary { generation: &cubin.generation, bytes: cubin.bytes })
                .collect(),
        });
        Self {
            schema: "infc.compile/1",
            model: job.model.display().to_string(),
            artifact: written.then(|| job.output.display().to_string()),
            bytes: report.artifact_bytes,
            targets: targets(job, report),
            onnx_nodes: report.onnx_nodes,
            nodes: report.nodes,
            kernels: report.launches,
            distinct_kernels: report.distinct_kernels,
            precision: job.options.precision.to_string(),
            rounded_kernels: report.rounded_contractions,
            halves_in_f32: report.halves_in_f32,
            gpu_plan: report.has_gpu_plan,
            fused: &report.fused,
            refusals: &report.refusals,
            recorded_kernels: report.recorded_schedules,
            recorded_choices: report.recorded_choices,
            builtin_kernels: report.builtin_schedules,
            builtin_records: job.builtin_kind,
            on_host: report.on_host.iter().map(|host| host.node.as_str()).collect(),
            told_sizes: report.told_sizes.iter().map(|told| told.node.as_str()).collect(),
            custom_ops: report.on_host.iter().filter_map(|host| host.custom.as_deref()).collect(),
            host_nodes: report
                .on_host
                .iter()
                .map(|host| HostNodeSummary {
                    node: &host.node,
                    op_type: &host.op_type,
                    reason: &host.reason,
                    steps: host.steps.map(|steps| match steps {
                        Steps::Compiled => "kernels",
                        Steps::CompiledOrEvaluated => "kernels or evaluated",
                    }),
                })
                .collect(),
            weight_bytes: report.weight_bytes,
            original_weight_bytes: report.original_weight_bytes,
            arena_bytes: report.arena_bytes,
            total_ms: millis(took),
            phases: phases.collect(),
            special_cases: report.special_cases.iter().map(SpecialCaseSummary::new).collect(),
            variants: variants.collect(),
        }
    }
}

impl SpecialCaseSummary {
    fn new(report: &SpecialCaseReport) -> Self {
        let &SpecialCaseReport { ref case, launches: kernels, own_kernels, arena_bytes } = report;
        Self { dims: case.dims.iter().cloned().collect(), kernels, own_kernels, arena_bytes }
    }
}

/// What there is code for; what was asked for, if the compilation stopped before.
fn targets<'a>(job: &'a Job, report: &'a Report) -> Vec<&'a str> {
    if report.variants.is_empty() {
        return job.options.targets.iter().map(String::as_str).collect();
    }
    report.variants.iter().map(|variant| variant.target.as_str()).collect()
}

fn print(job: &Job, report: &Report, took: Duration, console: &Console) -> Result<(), Failure> {
    let label = |text: &str| console.paint(Style::Label, &format!("{text:9}"));
    let output = job.output.display();
    let memory = report.arena_bytes.map_or_else(
        || "peak memory depends on the dims".to_owned(),
        |bytes| format!("peak memory {}", tables::bytes(bytes)),
    );
    let (size, took) = (tables::bytes(report.artifact_bytes), tables::seconds(took));
    console.line(format!("  {} {output}  {size}   {memory}   {took}", label("done")))?;
    let targets = targets(job, report);
    let runs = |text: &&&str| text.parse::<Target>().is_ok_and(|target| host::runs_target(&target));
    let on_this_machine = targets.iter().find(runs);
    let taken = match on_this_machine {
        Some(target) => format!("this machine takes {target}"),
        None => "this machine runs none of them".to_owned(),
    };
    console.line(format!("  {} runs on {}; {taken}", " ".repeat(9), targets.join(", ")))?;
    if let precision @ (Precision::Bf16 | Precision::F16) = job.options.precision {
        let (rounded, all) = (report.rounded_contractions, report.launches);
        console.line(format!(
            "  {} {rounded} of {all} kernels multiply {precision} numbers; other arithmetic is f32",
            " ".repeat(9)
        ))?;
    }
    if report.has_gpu_plan {
        console.line(format!(
            "  {} GPUs and processors have plans of their own for products of 16-bit floats, and some weights twice",
            " ".repeat(9)
        ))?;
    }
    if report.halves_in_f32 > 0 {
        console.line(format!(
            "  {} {} products of 16-bit floats are in f32, as on processors; with `--target cuda` alone they are not",
            " ".repeat(9),
            report.halves_in_f32
        ))?;
    }
    for variant in report.variants.iter().filter(|variant| variant.tf32_kernels > 0) {
        let VariantReport { target, tf32_kernels, kernels, .. } = variant;
        let all = kernels.len();
        console
            .line(format!("  {} {tf32_kernels} of {all} kernels for {target} multiply tf32 numbers", " ".repeat(9)))?;
    }
    if report.recorded_choices > 0 {
        let count = report.recorded_choices;
        let choices = if count == 1 { "choice" } else { "choices" };
        console.line(format!("  {} {count} {choices} of how kernels are formed by records", " ".repeat(9)))?;
    }
    let by_records = [
        (report.recorded_schedules, "records".to_owned()),
        (report.builtin_schedules, format!("built-in records of {}", job.builtin_kind.unwrap_or_default())),
    ];
    for (count, what) in by_records.iter().filter(|(count, _)| *count > 0) {
        let all: usize = report.variants.iter().map(|variant| variant.kernels.len()).sum();
        console.line(format!("  {} {count} of {all} kernels are scheduled by {what}", " ".repeat(9)))?;
    }
    if !report.special_cases.is_empty() {
        let cases: Vec<String> = report.special_cases.iter().map(|special| special.case.to_string()).collect();
        console.line(format!("  {} with code of their own for {}", " ".repeat(9), cases.join("; ")))?;
    }
    // Whether there is a GPU nobody has asked.
    let next = if on_this_machine.is_some() { "bench" } else { "inspect" };
    console.line(format!("  {} infc {next} {output}", label("next")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_artifact_is_named_after_the_model() {
        assert_eq!(default_output(Path::new("a/b/net.v2.onnx")), Some("net.v2.infa".into()));
        assert_eq!(default_output(Path::new("..")), None);
    }
}
