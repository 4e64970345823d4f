//! What is tuned: the kernels of a model, or those that are built in, and for which machine.

use super::formation::{self, Formation, Formed};
use super::report::ProfileReport;
use super::{Arena, Keeper, TuneArgs, machine, suite};
use crate::commands::dims;
use crate::console::Console;
use crate::error::CliError;
use crate::failure::Failure;
use crate::host;
use indicatif::ProgressBar;
use infc::{CompileOptions, Phase, Precision, Records, Source, Task, VariantTarget};
use infc_ir::schedule::Step;
use infc_passes::schedule::AnyMachine;
use infc_passes::schedule::gpu::GpuMachine;
use std::path::Path;

/// What is tuned.
pub(super) struct Subject {
    pub(super) target: VariantTarget,
    /// Of a machine that was measured.
    pub(super) profile: Option<ProfileReport>,
    pub(super) tasks: Vec<Task>,
    /// What was found of how kernels are formed.
    pub(super) formed: Formed,
}

/// The kernels of a model, formed as is best, or those that are built in, for the machine that is measured first.
pub(super) fn subject(
    arguments: &TuneArgs,
    file: &Path,
    folder: &Path,
    bar: &ProgressBar,
    console: &Console,
) -> Result<Subject, Failure> {
    let allowed = arguments.allowed();
    let Some(model) = &arguments.model else {
        // Of GPUs there is no profile.
        if arguments.target.starts_with("cuda") {
            let target = target(&arguments.target, console)?;
            let tasks = suite::tasks(&target, arguments.strict)?;
            return Ok(Subject { target, profile: None, tasks, formed: Formed::default() });
        }
        let place = machine::place(&arguments.target)?;
        let tasks = suite::tasks(&place.target.clone().into(), arguments.strict)?;
        // The profile says what one core does.
        let fixed = place.target.clone().into();
        let arena = Arena { target: &fixed, allowed, threads: 1, folder };
        let (target, profile) = machine::profile(&place, arena, &tasks, |doing| bar.set_message(doing))?;
        return Ok(Subject { target: target.into(), profile: Some(profile), tasks, formed: Formed::default() });
    };
    let target = target(&arguments.target, console)?;
    let known = formation::known(file, &target, arguments)?;
    let mut formation = Formation::new(arguments, model, &target, folder, &known);
    let formed = formation.search(&mut Keeper::new(file, &target, arguments), bar, console)?;
    let settled = formation.settled.clone();
    drop(formation);
    let tasks = of_model(model, &target, arguments, settled)?;
    Ok(Subject { target, profile: None, tasks, formed })
}

/// How a model is compiled, by the words of the command.
pub(super) fn model_options(target: &VariantTarget, arguments: &TuneArgs) -> Result<CompileOptions, Failure> {
    Ok(CompileOptions {
        targets: vec![target.to_string()],
        byte_targets: Vec::new(),
        bf16_targets: Vec::new(),
        dims: arguments.dim.iter().map(|text| dims::parse_dim(text)).collect::<Result<_, _>>()?,
        specialize: arguments.specialize.iter().map(|text| dims::parse_specialize(text)).collect::<Result<_, _>>()?,
        strict: arguments.strict,
        precision: arguments.precision.into(),
        ..CompileOptions::default()
    })
}

/// The kernels of a model, formed as is settled.
fn of_model(
    model: &Path,
    target: &VariantTarget,
    arguments: &TuneArgs,
    settled: Records,
) -> Result<Vec<Task>, Failure> {
    let options =
        CompileOptions { records: settled, stop_after: Some(Phase::Plan), ..model_options(target, arguments)? };
    let compilation = infc::compile(&Source::file(model), &options, &mut ())?;
    let mut tasks = infc::tasks(&compilation.plans());
    let allowed = arguments.allowed();
    // Nothing that was not rounded is held against what is.
    if let (AnyMachine::Gpu(machine), true) = (target.machine(), options.precision != Precision::F32) {
        let machine = AnyMachine::Gpu(GpuMachine { rounds_to_tf32: true, ..machine });
        let rounds = |step: &Step| matches!(step, Step::Round { .. });
        tasks.retain(|task| !machine.choose(&task.kernel, allowed).steps.iter().any(rounds));
    }
    Ok(tasks)
}

/// The target that schedules are for, and the machine that they have in mind.
fn target(text: &str, console: &Console) -> Result<VariantTarget, Failure> {
    let target = match text {
        "native" => {
            let native = host::native().ok_or_else(|| CliError::usage("infc makes no code for this machine"))?;
            native.note().into_iter().for_each(|note| console.note(format!("  {note}")));
            native.target.into()
        }
        _ => text.parse().map_err(|error| CliError::usage(format!("--target {text}: {error}")))?,
    };
    host::check_runs(&target).map_err(|reason| CliError::usage(format!("--target {target}: {reason}")))?;
    Ok(target)
}
