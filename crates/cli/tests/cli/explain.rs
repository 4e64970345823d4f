//! `infc explain`, `infc targets`, `infc completions`.

use crate::support::{folder, infc};

#[test]
fn a_page_by_its_code() {
    let folder = folder();
    let outcome = infc(folder.path(), "explain onnx::cycle").ok();
    assert!(outcome.stdout.starts_with("# onnx::cycle: the nodes form a cycle\n"), "{}", outcome.stdout);
    // As it is pasted from a message.
    assert_eq!(infc(folder.path(), "explain error[onnx::cycle]:").ok().stdout, outcome.stdout);
    let json = infc(folder.path(), "explain onnx::cycle --format json").ok().json();
    assert_eq!((&json["schema"], &json["error"]), (&"infc.explain/1".into(), &"onnx::cycle".into()));
}

#[test]
fn all_codes_and_unknown_ones() {
    let folder = folder();
    let all = infc(folder.path(), "explain").ok();
    assert!(all.stdout.contains("artifact::truncated"), "{}", all.stdout);
    let unknown = infc(folder.path(), "explain onnx::cycles-found").fails(2, "cli::unknown-code");
    assert!(unknown.stderr.contains("similar: "), "{}", unknown.stderr);
}

#[test]
fn targets_and_what_they_need() {
    let folder = folder();
    let text = infc(folder.path(), "targets").ok().stdout;
    assert!(text.contains("x86-64-v4") && text.contains("avx512f"), "{text}");
    let json = infc(folder.path(), "targets --format json").ok().json();
    assert_eq!(json["schema"], "infc.targets/1");
    assert_eq!(json["cpu"], serde_json::json!(["x86-64-v4", "x86-64-v3", "x86-64-v2"]));
    if cfg!(target_arch = "x86_64") {
        assert!(json["native"].as_str().unwrap().starts_with("x86-64"));
    }
}

#[test]
fn completions_for_every_shell() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = infc(folder.path(), &format!("completions {shell}")).ok().stdout;
        assert!(script.contains("bench"), "{shell}");
    }
    infc(folder.path(), "completions csh").fails(2, "cli::usage");
}
