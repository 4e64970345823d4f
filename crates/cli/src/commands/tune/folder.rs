//! A folder for artifacts of single kernels, which goes away with the process, however that ends.
//!
//! What a process does when it ends is not done when it is killed. So another one waits for the end of a pipe that the system
//! closes with this one, and removes the folder then. It is in a group of its own, so that Ctrl-C does not reach it.

use crate::error::CliError;
use crate::failure::Failure;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How such folders are called: others are not removed.
const PREFIX: &str = "infc-tune-";
/// Processes of trials may still write for a moment.
const ATTEMPTS: u32 = 50;

/// See the module.
#[derive(Debug)]
pub(in crate::commands) struct Folder {
    folder: tempfile::TempDir,
    /// `None` where no process can be begun: then the folder stays if this one is killed.
    janitor: Option<Child>,
}

impl Folder {
    /// A new one, in the system's folder for temporary files.
    pub(in crate::commands) fn new() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir();
        let folder = folder.map_err(|source| CliError::CannotWrite { path: std::env::temp_dir(), source })?;
        let janitor = std::env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.arg("tune").arg("--removes").arg(folder.path());
            apart(&mut command);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        });
        Ok(Self { folder, janitor: janitor.ok() })
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(janitor) = &mut self.janitor {
            drop(janitor.stdin.take());
            // It says nothing that would be of use.
            drop(janitor.wait());
        }
    }
}

/// Waits until whoever began this process is gone, and removes the folder.
pub(super) fn remove_when_alone(folder: &Path) -> Result<(), Failure> {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.starts_with(PREFIX) {
        return Err(CliError::usage(format!("--removes: expected a folder of infc's, `{PREFIX}…`")).into());
    }
    // Nothing ever comes; an error means that the other end is gone, too.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    for _ in 0..ATTEMPTS {
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// In a group of its own.
#[cfg(unix)]
fn apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// `CREATE_NEW_PROCESS_GROUP`.
#[cfg(windows)]
fn apart(command: &mut Command) {
    use std::os::windows::process::CommandExt;
    command.creation_flags(0x200);
}

#[cfg(not(any(unix, windows)))]
fn apart(_: &mut Command) {}
