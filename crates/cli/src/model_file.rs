//! Artifacts as the commands take them: a file, or `-` for standard input.

use crate::console::Console;
use crate::error::CliError;
use crate::failure::Failure;
use crate::gpu;
use infc_artifact::features;
use infc_runtime::{GpuSelection, LoadOptions, Model, Pool};
use std::io::Read;
use std::path::Path;

/// How an artifact is loaded.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Execution")]
pub(crate) struct LoadArgs {
    /// Threads to run with; as many as the process may use unless given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Take the variant for this target instead of the best one for this machine
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Run on the processor if the artifact has code for GPUs that cannot be used here, and say so
    #[arg(long)]
    allow_cpu: bool,
    /// Read and write denormal numbers as zero
    #[arg(long)]
    pub(crate) ftz: bool,
}

impl LoadArgs {
    /// What the runtime takes.
    pub(crate) fn options(&self) -> LoadOptions {
        let pool = self.threads.map(|threads| Pool::builder().threads(threads.into()).build());
        let (target, allow_cpu) = (self.target.clone(), self.allow_cpu);
        LoadOptions { target, pool, allow_cpu, gpu: gpu::for_model(), ..LoadOptions::default() }
    }
}

/// Whether a path stands for a standard stream.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Everything that standard input holds.
pub(crate) fn read_stdin() -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|source| CliError::CannotRead { path: "-".into(), source })?;
    Ok(bytes)
}

/// Loads an artifact; says which GPU runs it and what it was given, and so if the processor does what was compiled for one.
pub(crate) fn open(path: &Path, options: &LoadOptions, console: &Console) -> Result<Model, Failure> {
    let model =
        if is_stream(path) { Model::from_vec_with(read_stdin()?, options) } else { Model::open_with(path, options) };
    if let Ok(model) = &model {
        let selection = model.selection();
        for skipped in selection.skipped.iter().filter(|s| features::arch_of(&s.target) == Some("cuda")) {
            console.note(format!("  on {} instead of {}: {}", selection.target, skipped.target, skipped.reason));
        }
        if let Some(gpu) = &selection.gpu {
            if let Some(reason) = &gpu.refused {
                console.note(format!("  its machine code is not taken: {reason}"));
            }
            if let Some(reason) = &gpu.refused_together {
                console.note(format!("  its kernels are translated one by one, not together: {reason}"));
            }
            console.note(format!("  on {}, {}", gpu.name, taken(gpu, &selection.target)));
        }
    }
    model.map_err(|error| match error {
        // It names the file already.
        infc_runtime::RuntimeError::Open { .. } => error.into(),
        error => Failure::from(error).at(format_args!("`{}`", path.display())),
    })
}

/// What a GPU was given of a target's code.
fn taken(gpu: &GpuSelection, target: &str) -> String {
    let GpuSelection { capability, is_machine_code, .. } = gpu;
    if *is_machine_code {
        format!("by the machine code for sm_{capability} of {target}")
    } else {
        format!("by the PTX of {target}, which the driver has translated for sm_{capability}")
    }
}
