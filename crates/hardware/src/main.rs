//! `infc-hardware`: everything that has to be seen on a GPU, in one command.
//!
//! ```text
//! cargo build --release -p infc-cli -p infc-hardware
//! target/release/infc-hardware --out seen --models model.onnx …
//! ```
//!
//! The executables need nothing but the driver, so that they can be carried to a machine that has a GPU and no compiler; there
//! they are started in a checkout of the project, whose kernel files they read. Each part is a process of its own, since a kernel
//! that fails takes the driver's context with it.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "what a command says")]

mod arguments;
mod parts;

use anyhow::{Context, Result};
use arguments::Arguments;
use clap::Parser;
use infc_hardware::child;
use infc_hardware::report::Report;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let deadline = Instant::now() + Duration::from_secs(arguments.seconds);
    std::fs::create_dir_all(&arguments.out).with_context(|| arguments.out.display().to_string())?;
    let report = match arguments.only[..] {
        [part] => parts::see(part, &arguments, deadline)?,
        _ => each_alone(&arguments, deadline)?,
    };
    report.write(&arguments.out)?;
    print!("{}", report.text());
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All parts that are wanted, each in a process of its own. What one has written is kept, even if it does not come to its end.
fn each_alone(arguments: &Arguments, deadline: Instant) -> Result<Report> {
    let mut report = Report::default();
    let own = std::env::current_exe()?;
    for part in arguments.parts() {
        let name = part.name();
        println!("{name} …");
        let left = deadline.saturating_duration_since(Instant::now()).as_secs();
        if left == 0 {
            report.failed.push((name.to_owned(), "no time was left".to_owned()));
            continue;
        }
        let folder = tempfile::tempdir_in(&arguments.out)?;
        let mut command = Command::new(&own);
        command.args(arguments.alone(part, folder.path(), left));
        let ended = child::run(&mut command, "", deadline + GRACE);
        let seen = Report::read(folder.path());
        let saw_nothing = seen.is_none();
        seen.into_iter().for_each(|seen| report.absorb(seen));
        match ended {
            Err(error) => report.broken(name, &error),
            Ok(Some(said)) if saw_nothing || said.status.code().is_none_or(|code| code > 1) => {
                report.ended(name, &format!("{}: {}", said.status, said.errors.trim()));
            }
            Ok(_) => {}
        }
        keep(folder.path(), &arguments.out)?;
        report.write(&arguments.out)?;
    }
    Ok(report)
}

/// What a part may take longer than it should, to write what it has.
const GRACE: Duration = Duration::from_secs(5);

/// Takes over what a part has written but for its report.
fn keep(from: &Path, to: &Path) -> Result<()> {
    for name in parts::FILES {
        if from.join(name).is_file() {
            std::fs::copy(from.join(name), to.join(name)).with_context(|| name.to_owned())?;
        }
    }
    Ok(())
}
