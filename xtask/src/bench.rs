//! `cargo xtask bench`: measures kernels against the machine's roofline (`crates/bench`), built in release mode.

use crate::workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Passed on to `infc-bench`, for example `--filter conv3x3`; `-- --help` lists what it takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

#[expect(clippy::print_stdout, reason = "the heading is output of the task")]
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--release", "--quiet", "--package", "infc-bench", "--"])
        .args(&arguments.rest)
        .current_dir(workspace::root())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("infc-bench failed: {status}");
    }
    // What a program reads has nothing behind it.
    if arguments.rest.iter().any(|a| matches!(a.as_str(), "-h" | "--help" | "--json")) {
        return Ok(());
    }
    println!("\nTo keep these numbers, append them to docs/perf-log.md as a code block under this heading:\n");
    println!("{}", heading(&commit()?, &processor(), &arguments.rest));
    Ok(())
}

/// What an entry of the log begins with: all that another run needs to be compared with this one.
fn heading(commit: &str, processor: &str, arguments: &[String]) -> String {
    let command = ["cargo", "xtask", "bench"].into_iter().chain(arguments.iter().map(String::as_str));
    format!("## {commit}\n\n{processor}; `{}`.", command.collect::<Vec<_>>().join(" "))
}

/// The day and the name of the commit that was measured, and whether there are changes beyond it.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
        let output = output.context("cannot start git")?;
        if !output.status.success() {
            bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["log", "-1", "--format=%cs, %h"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if changed { commit + " with changes" } else { commit })
}

/// The processor's name, where the system tells it.
fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").ok();
    known.as_deref().and_then(model_name).unwrap_or("unknown processor").to_owned()
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn options_are_passed_on() {
        let line = Line::parse_from(["bench", "--filter", "conv3x3", "-v"]);
        assert_eq!(line.arguments.rest, ["--filter", "conv3x3", "-v"]);
        let line = Line::parse_from(["bench", "--", "--help"]);
        assert_eq!(line.arguments.rest, ["--help"]);
    }

    #[test]
    fn the_heading_says_what_was_measured() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel\t\t: 7\n";
        let processor = model_name(cpuinfo).expect("there is one");
        let heading = heading("2026-01-31, abc1234", processor, &["--filter".to_owned(), "gemm".to_owned()]);
        let expected = "## 2026-01-31, abc1234\n\nSome CPU @ 2 GHz; `cargo xtask bench --filter gemm`.";
        assert_eq!(heading, expected);
        assert_eq!(model_name("CPU architecture: 8\n"), None);
    }
}
