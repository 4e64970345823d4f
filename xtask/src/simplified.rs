//! `cargo xtask simplified`: what `infc simplify` writes is valid ONNX, and gives the outputs of the original.
//!
//! ONNX's checker and ONNX Runtime say so; the Python script `tests/simplify/check.py` asks them.

use crate::{python, workspace};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Models as ONNX files. Without any, the demo's and those with recorded data, as far as they are on this machine.
    #[arg(value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Python interpreter with the packages onnx and onnxruntime.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The command `infc`; built in release mode unless given.
    #[arg(long, value_name = "PATH")]
    infc: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.python.as_deref(), &["numpy", "onnx", "onnxruntime"])?;
    let infc = match &arguments.infc {
        Some(path) => std::fs::canonicalize(path).with_context(|| path.display().to_string())?,
        None => workspace::build_infc()?,
    };
    let models = if arguments.models.is_empty() { known_models()? } else { arguments.models.clone() };
    let folder = workspace::target_dir()?.join("simplified");
    std::fs::create_dir_all(&folder)?;
    let status = Command::new(&python)
        .arg(workspace::root().join("tests/simplify/check.py"))
        .args([&infc, &folder])
        .args(&models)
        .env("PYTHONWARNINGS", "ignore")
        .status()
        .with_context(|| format!("cannot start {}", python.display()))?;
    if status.success() { Ok(()) } else { bail!("some models are not what they were") }
}

/// The demo's model, and those in folders of their own beside the workspace.
#[expect(clippy::print_stdout, reason = "what is skipped is output of the task")]
fn known_models() -> Result<Vec<PathBuf>> {
    let mut models = vec![workspace::root().join("demo/digits.onnx")];
    let folder = workspace::root().join("../shared/models");
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            let entries: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
            models.extend(entries.iter().map(|path| path.join("model.onnx")).filter(|path| Path::is_file(path)));
            models.sort();
        }
        Err(_) => println!("skipped: there are no models in {}", folder.display()),
    }
    Ok(models)
}
