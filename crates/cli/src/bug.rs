//! What is said when infc itself is wrong: a panic ends with exit code 101 and a hint how to report it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic;

/// Where bugs are reported.
const TRACKER: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// Replaces the standard panic message.
pub(crate) fn install_hook() {
    panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("(no message)");
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
        let mut text = report(message, &place, &arguments.collect::<Vec<_>>());
        // Honours RUST_BACKTRACE, as the standard hook does.
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&backtrace.to_string());
        }
        // There is nobody left to tell if standard error is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }));
}

/// The whole message.
fn report(message: &str, place: &str, arguments: &[String]) -> String {
    format!(
        "bug: infc {} panicked at {place}: {message}\n  \
         this is a mistake in infc, not in your model or your command\n  \
         help: report it at {TRACKER} with the line above, the command (infc {}), and if you may the model\n",
        env!("CARGO_PKG_VERSION"),
        arguments.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_says_how_to_report_it() {
        let arguments = ["compile", "m.onnx"].map(str::to_owned);
        let text = report("index out of bounds", "src/x.rs:1:2", &arguments);
        for part in ["panicked at src/x.rs:1:2: index out of bounds", "(infc compile m.onnx)", "/issues"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
