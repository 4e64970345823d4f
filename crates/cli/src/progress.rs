//! How a compilation gets on: a line per phase on standard error, and on a terminal what is being done right now.

use crate::console::{Console, Style};
use crate::stats::millis;
use crate::tables;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use infc::{Phase, Progress};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Prints the phases of a compilation.
pub(crate) struct Stages<'c> {
    console: &'c Console,
    bar: Option<ProgressBar>,
}

impl<'c> Stages<'c> {
    pub(crate) fn new(console: &'c Console) -> Self {
        Self { console, bar: bar(console, "  {msg:9} {spinner}") }
    }
}

/// A line that says what is being done, on a terminal.
pub(crate) fn spinner(console: &Console) -> ProgressBar {
    bar(console, "  {spinner} {msg}").unwrap_or_else(ProgressBar::hidden)
}

/// `None` if nobody would see it.
fn bar(console: &Console, template: &str) -> Option<ProgressBar> {
    (io::stderr().is_terminal() && !console.is_quiet()).then(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    })
}

impl Drop for Stages<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Stages<'_> {
    fn begin(&mut self, phase: Phase) {
        if let Some(bar) = &self.bar {
            bar.set_message(phase.name());
        }
    }

    fn end(&mut self, phase: Phase, elapsed: Duration, summary: &str) {
        let line = || {
            let name = self.console.paint_err(Style::Label, &format!("{:9}", phase.name()));
            self.console.note(format!("  {name} {summary:58} {:>9}", tables::millis(millis(elapsed))));
        };
        match &self.bar {
            Some(bar) => bar.suspend(line),
            None => line(),
        }
    }
}
