//! `cargo xtask cost-model`: how well the tuner's cost model orders schedules of models that it has not seen.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Logs of two models or more (`infc tune MODEL --search random --log LOG`); `--csv FILE` writes their samples
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The features of all crates together, as whole builds have them: nothing is built twice.
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bin", "infc-cost-model"])
        .current_dir(workspace::root())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("infc-cost-model cannot be built: {status}");
    }
    let program = workspace::root().join("target/debug/infc-cost-model");
    let status = Command::new(&program).args(&arguments.rest).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("infc-cost-model failed: {status}");
    }
    Ok(())
}
