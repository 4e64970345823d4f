//! What goes where: results, notes, errors, colours, broken pipes, bugs.

use crate::support::{folder, identity_folder, infc};
use std::process::{Command, Stdio};

#[test]
fn errors_are_objects_too() {
    let folder = folder();
    let outcome = infc(folder.path(), "run no.infa --random --format json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""));
    let json = outcome.json();
    assert_eq!(json["schema"], "infc.run/1");
    assert_eq!(json["code"], "runtime::cannot-open");
    assert!(json["message"].as_str().unwrap().contains("no.infa"));
    assert!(json["nodes"].as_array().unwrap().is_empty());
    assert!(json.as_object().unwrap().contains_key("help"));
    // Even those of the parser.
    let json = infc(folder.path(), "bench --nonsense --format=json x").json();
    assert_eq!((&json["schema"], &json["code"]), (&"infc.bench/1".into(), &"cli::usage".into()));
}

#[test]
fn mistakes_in_the_command_line_are_exit_code_two() {
    let folder = folder();
    for arguments in ["frobnicate", "run", "run a b", "--format xml targets", "-q -v targets"] {
        let outcome = infc(folder.path(), arguments).fails(2, "cli::usage");
        assert!(!outcome.stderr.contains("infc explain cli::usage"), "{}", outcome.stderr);
    }
}

#[test]
fn colours_only_when_asked_for() {
    let folder = identity_folder();
    let colours = |arguments: &str| infc(folder.path(), arguments).stdout.contains('\x1b');
    assert!(!colours("run id.infa --random"));
    assert!(colours("run id.infa --random --color always"));
    assert!(infc(folder.path(), "run x.infa --color always").stderr.contains('\x1b'));
    assert!(!infc(folder.path(), "run x.infa").stderr.contains('\x1b'));
}

#[cfg(unix)]
#[test]
fn a_broken_pipe_is_silent_success() {
    let folder = folder();
    for arguments in ["explain", "targets --format json", "completions zsh", "bench --help"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_infc"))
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_infc"))
        .arg("targets")
        .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error[cli::cannot-write]"));
}
