//! Processes that must not take longer than there is time.

use anyhow::{Context, Result, bail};
use std::io::{Read, Seek, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a process is asked whether it is done.
const PAUSE: Duration = Duration::from_millis(5);

/// What a process said.
#[derive(Clone, Debug)]
pub struct Said {
    /// How it ended; one that was killed at the deadline has no code.
    pub status: ExitStatus,
    /// Whether it was killed at the deadline.
    pub is_late: bool,
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub errors: String,
}

/// Runs a command with this on standard input; `None` if there is no such command.
///
/// # Errors
/// It cannot be started, or has not ended at the deadline; then it is killed.
pub fn run(command: &mut Command, input: &str, deadline: Instant) -> Result<Option<Said>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = run_until(command, input, deadline)?;
    if said.as_ref().is_some_and(|said| said.is_late) {
        bail!("{name} took longer than there was time");
    }
    Ok(said)
}

/// As [`run`], but of one that has not ended at the deadline what it has said until then.
///
/// # Errors
/// It cannot be started.
pub fn run_until(command: &mut Command, input: &str, deadline: Instant) -> Result<Option<Said>> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files take as much as there is while nobody reads.
    let (mut output, mut errors, mut given) = (tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?);
    given.write_all(input.as_bytes())?;
    given.rewind()?;
    command.stdin(Stdio::from(given)).stdout(Stdio::from(output.try_clone()?)).stderr(Stdio::from(errors.try_clone()?));
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        child => child.with_context(|| name.clone())?,
    };
    let (status, is_late) = loop {
        if let Some(status) = child.try_wait()? {
            break (status, false);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            break (child.wait()?, true);
        }
        std::thread::sleep(PAUSE);
    };
    let text = |file: &mut std::fs::File| -> Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Some(Said { status, is_late, output: text(&mut output)?, errors: text(&mut errors)? }))
}
