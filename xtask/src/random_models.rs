//! `cargo xtask random-models`: many random models against the definitions of their operators
//! (`crates/compiler/tests/random`), which everyday tests do for a few.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many models.
    #[arg(long, default_value_t = 10_000)]
    models: u64,
    /// The number of the first one, of which it is drawn.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only for this target: x86-64-v4, x86-64-v3, x86-64-v2, one of these with further features, or cuda, which the simulator
    /// runs.
    #[arg(long)]
    target: Option<String>,
    /// Without optimisation and with all checks, as everyday tests are built.
    #[arg(long)]
    dev: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--quiet", "--package", "infc", "--test", "random"]);
    if !arguments.dev {
        command.arg("--release");
    }
    if let Some(target) = &arguments.target {
        command.env("INFC_RANDOM_TARGET", target);
    }
    let status = command
        .args(["--", "--nocapture"])
        .env("INFC_RANDOM_MODELS", arguments.models.to_string())
        .env("INFC_RANDOM_SEED", arguments.seed.to_string())
        .current_dir(workspace::root())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("the models above fail; --seed N --models 1 repeats one");
    }
    Ok(())
}
