//! The Python interpreter that the measuring and training scripts run in.

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tried in this order when no interpreter is named.
const USUAL_NAMES: [&str; 2] = ["python3", "python"];

/// The interpreter to use: the one asked for, else the first of the usual ones that can import all `modules`.
///
/// # Errors
///
/// If there is none, with what to install.
pub(crate) fn find(asked_for: Option<&Path>, modules: &[&str]) -> Result<PathBuf> {
    if let Some(python) = asked_for {
        if !imports(python, modules) {
            bail!("{} cannot import {}", python.display(), modules.join(", "));
        }
        return Ok(python.to_owned());
    }
    match USUAL_NAMES.iter().map(PathBuf::from).find(|python| imports(python, modules)) {
        Some(python) => Ok(python),
        None => bail!(
            "neither {} can import {}; name an interpreter that can with --python",
            USUAL_NAMES.join(" nor "),
            modules.join(", ")
        ),
    }
}

fn imports(python: &Path, modules: &[&str]) -> bool {
    Command::new(python)
        .args(["-c", &format!("import {}", modules.join(", "))])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
