//! Help texts: as they were agreed, and with examples that work.

use crate::support::{folder, infc};
use infc_tune::Proven;

/// Every command.
const COMMANDS: [&str; 17] = [
    "check",
    "compile",
    "run",
    "compare",
    "bench",
    "profile",
    "tune",
    "records",
    "inspect",
    "simplify",
    "demo",
    "targets",
    "ops",
    "doctor",
    "explain",
    "completions",
    "conformance",
];

/// What commands have commands of their own.
const ACTIONS: [&str; 4] = ["records ls", "records verify", "records merge", "records export"];

#[test]
fn the_commands_are_those_of_the_contract() {
    let folder = folder();
    let help = infc(folder.path(), "--help").ok().stdout;
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    assert!(infc(folder.path(), "--version").ok().stdout.starts_with("infc "));
    let nothing = infc(folder.path(), "-q");
    assert_eq!(nothing.code, 2);
}

#[test]
fn help_texts() {
    let folder = folder();
    for command in COMMANDS.into_iter().chain(ACTIONS) {
        let help = infc(folder.path(), &format!("{command} --help")).ok();
        assert_eq!(help.stderr, "");
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), help.stdout);
    }
    insta::assert_snapshot!("help", infc(folder.path(), "--help").ok().stdout);
}

/// The examples at the end of a help text.
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("Examples:\n").expect("every help ends with examples");
    examples.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_help_ends_with_two_examples_that_work() {
    let folder = folder();
    let at = folder.path();
    // What the examples assume to be there.
    infc(at, "demo --save .").ok();
    crate::conformance::case(&at.join("cases/node/test_abs"));
    for file in ["digits.records", "other.records"] {
        std::fs::write(at.join(file), crate::records::record(at, 0).to_line()).unwrap();
    }
    for command in COMMANDS.into_iter().chain(ACTIONS) {
        let help = infc(at, &format!("{command} --help")).ok().stdout;
        let examples = examples(&help);
        assert_eq!(examples.len(), 2, "{command}: {examples:?}");
        for example in examples {
            let arguments = example.strip_prefix("infc ").expect("an example is a command");
            assert!(arguments.starts_with(command), "{example}");
            infc(at, arguments).ok();
        }
    }
    for example in examples(&infc(at, "--help").ok().stdout) {
        assert!(example.starts_with("infc "), "{example}");
    }
}
