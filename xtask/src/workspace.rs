//! Where the workspace lies, and how its programs are built.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace's root folder.
///
/// Known at compile time: a task is always run from the tree it was built in.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the workspace's root")
}

/// The folder for what tasks produce, `target` or whatever Cargo was told to use instead.
///
/// Found from this very program, which Cargo put into `<target>/<profile>/`.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where xtask itself lies")?;
    let target = program.parent().and_then(Path::parent);
    Ok(target.with_context(|| format!("{} is not inside a target folder", program.display()))?.to_owned())
}

/// Builds the command `infc` in release mode and returns the path of the program.
///
/// # Errors
///
/// If Cargo cannot be started, the build fails, or it produces no such program.
pub(crate) fn build_infc() -> Result<PathBuf> {
    build("infc-cli", "infc")
}

/// The same for `infc-simulated`, the command on a machine whose GPU is the simulator.
///
/// # Errors
///
/// As [`build_infc`].
pub(crate) fn build_simulated() -> Result<PathBuf> {
    build("infc-simulated", "infc-simulated")
}

fn build(package: &str, program: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--package", package, "--bin", program])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("building {program} failed");
    }
    let found = program_in(&String::from_utf8_lossy(&output.stdout), program);
    found.with_context(|| format!("cargo did not say where it put {program}"))
}

/// The executable of a target among Cargo's messages, one JSON object per line.
fn program_in(messages: &str, program: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == program)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_the_library_of_the_same_name() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"infc","kind":["lib"]},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"infc","kind":["bin"]},"executable":"/t/release/infc"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(program_in(messages, "infc"), Some(PathBuf::from("/t/release/infc")));
        assert_eq!(program_in("not json", "infc"), None);
    }

    /// What nobody uses still has to be downloaded, built, licensed and kept up to date.
    #[test]
    fn every_dependency_is_used() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
        let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo starts");
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
        let mut unused = Vec::new();
        for package in metadata["packages"].as_array().expect("packages") {
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let mut sources = String::new();
            read_sources(manifest.parent().expect("a folder"), &mut sources);
            for dependency in package["dependencies"].as_array().expect("dependencies") {
                let name = dependency["rename"].as_str().or(dependency["name"].as_str()).expect("a name");
                // A word of its own, so that `infc` is not found in `infc_ir`.
                let words = sources.split(|c: char| !c.is_alphanumeric() && c != '_');
                if !words.into_iter().any(|word| word == name.replace('-', "_")) {
                    unused.push(format!("{name} of {}", package["name"]));
                }
            }
        }
        assert!(unused.is_empty(), "dependencies that no source names: {unused:?}");
    }

    /// The Rust sources below a folder, one after the other.
    fn read_sources(folder: &Path, sources: &mut String) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                read_sources(&path, sources);
            } else if path.extension().is_some_and(|e| e == "rs") {
                sources.push_str(&std::fs::read_to_string(&path).expect("a source"));
            }
        }
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }
}
