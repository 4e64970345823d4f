//! Where everything that people or scripts read is written: results on standard output, the rest on standard error.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// The form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object on one line, for scripts.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless the environment variable NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    fn resolve(self, terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

/// A way to make text stand out on a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    /// Errors.
    Error,
    /// What succeeded.
    Good,
    /// Headings and labels.
    Label,
    /// What matters less.
    Dim,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Error => "\x1b[1;31m",
            Self::Good => "\x1b[32m",
            Self::Label => "\x1b[1;36m",
            Self::Dim => "\x1b[2m",
        }
    }

    fn paint(self, text: &str, colors: bool) -> String {
        if colors { format!("{}{text}\x1b[0m", self.code()) } else { text.to_owned() }
    }
}

/// The two output streams, and how much of what goes where.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    format: Format,
    quiet: bool,
    verbose: bool,
    color_out: bool,
    color_err: bool,
}

impl Console {
    pub(crate) fn new(format: Format, color: ColorChoice, quiet: bool, verbose: bool) -> Self {
        Self {
            format,
            quiet,
            verbose,
            color_out: color.resolve(io::stdout().is_terminal()),
            color_err: color.resolve(io::stderr().is_terminal()),
        }
    }

    /// Whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether only results and errors are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether details are wanted.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Text for standard output, painted if that takes colours.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        style.paint(text, self.color_out)
    }

    /// Text for standard error, painted if that takes colours.
    pub(crate) fn paint_err(&self, style: Style, text: &str) -> String {
        style.paint(text, self.color_err)
    }

    /// Writes a result as it is.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::stdout)
    }

    /// Writes a result, with a newline.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.write(format!("{}\n", text.as_ref()).as_bytes())
    }

    /// Writes a result as one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).expect("results have string keys and no failing serializers");
        self.line(text)
    }

    /// Writes a line to standard error, unless that is to be quiet.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.stderr(text.as_ref());
        }
    }

    /// Writes a line to standard error if details are wanted.
    pub(crate) fn detail(&self, text: impl AsRef<str>) {
        if self.verbose && !self.quiet {
            self.stderr(text.as_ref());
        }
    }

    /// Writes a line to standard error, even if that is to be quiet.
    pub(crate) fn stderr(&self, text: &str) {
        // Nobody is left to be told that standard error is closed.
        let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_when_asked_for_or_on_a_terminal() {
        assert!(ColorChoice::Always.resolve(false));
        assert!(!ColorChoice::Never.resolve(true));
        assert!(!ColorChoice::Auto.resolve(false));
        assert_eq!(Style::Error.paint("x", false), "x");
        assert_eq!(Style::Good.paint("x", true), "\x1b[32mx\x1b[0m");
    }
}
