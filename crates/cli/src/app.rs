//! From the command line to the exit code.

use crate::commands::Command;
use crate::console::{ColorChoice, Console, Format};
use crate::failure::{Exit, Failure};
use crate::process::Start;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// What precedes or follows the command.
#[derive(Debug, Parser)]
#[command(
    name = "infc",
    version,
    about = "Compile ONNX models ahead of time into one file of native code, and run them",
    long_about = "Compiles an ONNX model ahead of time into one file of native code, weights and plan, which a small \
                  runtime runs: no Python, no vendor library, neither where it is compiled nor where it runs.",
    after_help = "Examples:\n  infc demo\n  infc compile model.onnx",
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The form of results: text, or one JSON object on one line
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    format: Format,
    /// When to use colours: auto, always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, hide_possible_values = true)]
    color: ColorChoice,
    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more of what happens
    #[arg(short, long, global = true)]
    verbose: bool,
}

/// Runs the command that the process was started with.
pub(crate) fn main(started: Start) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &arguments).into(),
    };
    let GlobalArgs { format, color, quiet, verbose } = cli.global;
    let console = Console::new(format, color, quiet, verbose);
    let name = cli.command.name();
    let exit = cli.command.run(&console, started).unwrap_or_else(|failure| {
        failure.report(&console, name);
        failure.exit()
    });
    exit.into()
}

/// The whole command line, for completions.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Answers a command line that was not accepted, or that asked for help.
fn usage(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let early = EarlyOptions::find(arguments);
    let console = Console::new(early.format, early.color, false, false);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let text = if early.color == ColorChoice::Always { text.ansi().to_string() } else { text.to_string() };
            match console.line(text.trim_end()) {
                Ok(()) => Exit::Done,
                Err(failure) => failure.exit(),
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            console.stderr(error.render().to_string().trim_end());
            Exit::Usage
        }
        _ => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // What clap says after the first line are tips and the usage.
            let (message, help) = text.split_once("\n\n").map_or((text, None), |(first, rest)| (first, Some(rest)));
            let help = help.map(|help| help.trim().replace("\n\n", "\n").replace('\n', "\n        "));
            let failure = Failure::usage(message.trim().to_owned(), help);
            failure.report(&console, early.command.as_deref().unwrap_or("error"));
            failure.exit()
        }
    }
}

/// What can be told of a command line that was not accepted.
#[derive(Debug, Default, PartialEq, Eq)]
struct EarlyOptions {
    format: Format,
    color: ColorChoice,
    /// The command, if it is one.
    command: Option<String>,
}

impl EarlyOptions {
    fn find(arguments: &[OsString]) -> Self {
        let mut found = Self::default();
        let texts: Vec<&str> = arguments.iter().skip(1).filter_map(|argument| OsStr::to_str(argument)).collect();
        for (index, text) in texts.iter().enumerate() {
            let value = |name: &str| match text.strip_prefix(name)? {
                "" => texts.get(index + 1).copied(),
                rest => rest.strip_prefix('='),
            };
            match value("--format") {
                Some("json") => found.format = Format::Json,
                Some("text") => found.format = Format::Text,
                _ => {}
            }
            match value("--color") {
                Some("always") => found.color = ColorChoice::Always,
                Some("never") => found.color = ColorChoice::Never,
                _ => {}
            }
        }
        let commands = command();
        let is_command = |text: &&&str| commands.get_subcommands().any(|command| command.get_name() == **text);
        found.command = texts.iter().find(is_command).map(|&text| text.to_owned());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn options_are_found_in_a_wrong_command_line() {
        let find = |text: &str| EarlyOptions::find(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        let found = find("infc run --nonsense --format json x");
        assert_eq!((found.format, found.command.as_deref()), (Format::Json, Some("run")));
        assert_eq!(find("infc --format=json --color=never").color, ColorChoice::Never);
        assert_eq!(find("infc frobnicate"), EarlyOptions::default());
    }
}
