//! `cargo xtask peer-run`: infc in the shape that `peers.py` expects of a program it measures.
//!
//! `peers.py` starts `COMMAND ... MODEL THREADS RUNS`, passes files in environment variables and times the process from
//! its start to its end. `infc` compiles ahead of time and reads no environment variables, so this adapter turns the one
//! into the other and then *becomes* `infc bench` (`exec`): what it adds to a cold start is its own start, about a
//! millisecond. The one line that `infc bench --format json` prints has the fields `peers.py` reads.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `peers.py` says which `.npz` file holds the inputs.
const INPUTS: &str = "PEERS_INPUTS";
/// Where `peers.py` says to which `.npz` file the outputs may be written.
const OUTPUTS: &str = "PEERS_OUTPUTS";

/// How infc compiles models; passed on to `infc compile`.
#[derive(clap::Args)]
pub(crate) struct CompileFlags {
    /// Targets to compile for (default: those of `infc compile`).
    #[arg(long, value_name = "TARGETS")]
    target: Option<String>,
    /// Numbers to multiply (default: f32).
    #[arg(long, value_name = "TYPE")]
    precision: Option<String>,
    /// Change no order of floating-point additions, as `infc compile --strict`.
    #[arg(long)]
    strict: bool,
}

impl CompileFlags {
    /// The words of a command line.
    pub(crate) fn words(&self) -> Vec<&str> {
        let flags = [("--target", &self.target), ("--precision", &self.precision)];
        let valued = flags.iter().filter_map(|(flag, value)| Some([*flag, value.as_deref()?])).flatten();
        valued.chain(self.strict.then_some("--strict")).collect()
    }
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The command `infc`.
    #[arg(long, value_name = "PATH")]
    infc: PathBuf,
    #[command(flatten)]
    flags: CompileFlags,
    /// Folder of compiled models; a model that is not in it, or is older there, is compiled first.
    cache: PathBuf,
    /// The ONNX model.
    model: PathBuf,
    /// Threads to run with.
    threads: u32,
    /// Runs to time.
    runs: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let artifact = artifact_path(&arguments.cache, &arguments.model)?;
    if !is_current(&artifact, &[&arguments.model, &arguments.infc]) {
        compile(&arguments.infc, &arguments.model, &artifact, &arguments.flags)?;
    }
    let mut bench = Command::new(&arguments.infc);
    bench.args(bench_arguments(
        &artifact,
        arguments.threads,
        arguments.runs,
        std::env::var_os(INPUTS),
        std::env::var_os(OUTPUTS),
    ));
    become_command(bench)
}

/// Where the compiled form of `model` is kept.
pub(crate) fn artifact_path(cache: &Path, model: &Path) -> Result<PathBuf> {
    let stem = model.file_stem().with_context(|| format!("{} names no file", model.display()))?;
    let mut name = stem.to_owned();
    name.push(".infa");
    Ok(cache.join(name))
}

/// Compiles `model` to `artifact`; `infc` puts the file in place only when it is complete.
pub(crate) fn compile(infc: &Path, model: &Path, artifact: &Path, flags: &CompileFlags) -> Result<()> {
    if let Some(folder) = artifact.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = Command::new(infc);
    command.arg("compile").arg(model).arg("-o").arg(artifact).args(flags.words());
    let output = command.output().with_context(|| format!("cannot start {}", infc.display()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("infc compile {}: {}\n{}", model.display(), output.status, message.trim_end());
    }
    Ok(())
}

/// Whether `file` is there and not older than any of `sources`.
fn is_current(file: &Path, sources: &[&Path]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    match modified(file) {
        Some(made) => sources.iter().all(|source| modified(source).is_none_or(|changed| changed <= made)),
        None => false,
    }
}

/// The arguments of `infc` for one turn.
///
/// A turn of one run is a cold start, in which the other engines stop at their first result: it writes no outputs.
fn bench_arguments(
    artifact: &Path,
    threads: u32,
    runs: u32,
    inputs: Option<OsString>,
    outputs: Option<OsString>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["bench".into(), artifact.into()];
    let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    option("--threads", threads.to_string().into());
    option("--runs", runs.to_string().into());
    option("--warmup", "0".into());
    option("--format", "json".into());
    if let Some(inputs) = inputs {
        option("--inputs", inputs);
    }
    if let Some(outputs) = outputs.filter(|_| runs > 1) {
        option("--save-output", outputs);
    }
    arguments
}

/// Replaces this process by `command`; returns only if that fails.
#[cfg(unix)]
fn become_command(mut command: Command) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))
}

/// Runs `command` and fails as it does.
#[cfg(not(unix))]
fn become_command(mut command: Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{}: {status}", program.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_cold_start_writes_no_outputs() {
        let arguments = |runs| {
            bench_arguments(Path::new("m.infa"), 2, runs, Some("in.npz".into()), Some("out.npz".into()))
                .into_iter()
                .map(|argument| argument.into_string().expect("ASCII above"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(arguments(1), "bench m.infa --threads 2 --runs 1 --warmup 0 --format json --inputs in.npz");
        assert_eq!(
            arguments(5),
            "bench m.infa --threads 2 --runs 5 --warmup 0 --format json --inputs in.npz --save-output out.npz"
        );
    }

    #[test]
    fn the_artifact_is_named_after_the_model() {
        let path = artifact_path(Path::new("cache"), Path::new("/models/resnet50.onnx")).expect("a file name");
        assert_eq!(path, Path::new("cache").join("resnet50.infa"));
        assert!(artifact_path(Path::new("cache"), Path::new("..")).is_err());
    }

    #[test]
    fn a_changed_source_makes_an_artifact_stale() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("infc-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (source, made) = (folder.join("model.onnx"), folder.join("model.infa"));
        assert!(!is_current(&made, &[&source]));
        std::fs::write(&source, "model")?;
        std::fs::write(&made, "artifact")?;
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let touch = |path: &Path, seconds| std::fs::File::options().write(true).open(path)?.set_modified(at(seconds));
        touch(&source, 100)?;
        touch(&made, 200)?;
        assert!(is_current(&made, &[&source]));
        touch(&source, 300)?;
        assert!(!is_current(&made, &[&source]));
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }
}
