//! `infc completions SHELL`.

use crate::app;
use crate::console::Console;
use crate::failure::{Exit, Failure};
use clap_complete::Shell;
use serde_json::json;

/// Print a completion script for a shell
///
/// It is to be kept where that shell looks for such scripts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc completions bash\n  infc completions zsh")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArgs, console: &Console) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut app::command(), "infc", &mut script);
    if console.is_json() {
        let script = String::from_utf8_lossy(&script);
        console
            .json(&json!({"schema": "infc.completions/1", "shell": arguments.shell.to_string(), "script": script}))?;
    } else {
        console.write(&script)?;
    }
    Ok(Exit::Done)
}
