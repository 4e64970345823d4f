//! `cargo xtask demo-train`: trains the network of `infc demo` again (see `demo/README.md`).

use crate::{python, workspace};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

const MODULES: [&str; 5] = ["torch", "sklearn", "numpy", "onnx", "onnxruntime"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Python interpreter with torch, scikit-learn, onnx and onnxruntime.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Passed on to `demo/train.py`, for example `--out DIR` or `--validate`.
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.python.as_deref(), &MODULES)?;
    let status = Command::new(&python)
        .arg(workspace::root().join("demo").join("train.py"))
        .args(&arguments.rest)
        .status()
        .with_context(|| format!("cannot start {}", python.display()))?;
    if !status.success() {
        bail!("training failed: {status}");
    }
    Ok(())
}
