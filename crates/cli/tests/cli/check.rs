//! `infc check`, `infc ops`, `infc doctor`: what can be told before anything is compiled.

use crate::support::{folder, infc, names};
use std::fs;

#[test]
fn a_model_in_figures() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let before = names(at);
    let text = infc(at, "check digits.onnx").ok().stdout;
    for part in ["all as kernels", "N in 0..", "figures are for 1", "multiply-adds", "x86-64-v4", "infc compile"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(names(at), before, "nothing is written");
    let figures = |arguments: &str| infc(at, &format!("check {arguments} --format json")).ok().json();
    let (one, many) = (figures("digits.onnx"), figures("digits.onnx --dim N=32"));
    assert_eq!(one["schema"], "infc.check/1");
    assert_eq!(one["on_host"].as_array().unwrap().len(), 0);
    for (field, factor) in [("macs", 32), ("weight_bytes", 1), ("arena_bytes", 32), ("kernels", 1)] {
        assert_eq!(many[field].as_u64().unwrap(), factor * one[field].as_u64().unwrap(), "{field}");
    }
    assert!(many["times"][0]["ms"].as_f64() > one["times"][0]["ms"].as_f64());

    // What the compiled artifact says of itself.
    for target in ["cpu", "x86-64-v3", "cuda"] {
        infc(at, &format!("compile digits.onnx --target {target} -o sized.infa")).ok();
        let bytes = fs::metadata(at.join("sized.infa")).unwrap().len() as f64;
        let figures = figures(&format!("digits.onnx --target {target}"));
        let foreseen = figures["artifact_bytes"].as_u64().unwrap() as f64;
        assert!((0.5..2.0).contains(&(foreseen / bytes)), "{target}: {foreseen} foreseen, {bytes} written");
        let times = figures["times"].as_array().unwrap().len();
        assert_eq!(
            times,
            match target {
                "cpu" => 3,
                "cuda" => 0,
                _ => 1,
            }
        );
    }
    infc(at, "check digits.onnx --target x86-63").fails(2, "compile::unknown-target");
    infc(at, "compile digits.onnx --target x86-64-v3").ok();
    let artifact = infc(at, "inspect digits.infa --dim N=32 --format json").ok().json();
    assert_eq!(artifact["variants"][0]["all_macs"], many["macs"]);
    assert_eq!(artifact["variants"][0]["all_bytes"], many["bytes"]);
    let planned = artifact["variant"]["programs"][0]["memory"]["lower_bound_bytes"].as_u64().unwrap();
    let forecast = many["arena_bytes"].as_u64().unwrap();
    assert!(forecast <= planned && planned <= 2 * forecast, "{forecast} foreseen, {planned} planned");
}

#[test]
fn a_model_that_cannot_be_compiled() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "check digits.onnx --dim M=3").fails_after_notes(2, "cli::usage");
    infc(at, "check nothing.onnx").fails(1, "onnx::cannot-read");
    fs::write(at.join("text.onnx"), "no model").unwrap();
    assert_eq!(infc(at, "check text.onnx").code, 1);
}

#[test]
fn operators_and_their_opsets() {
    let folder = folder();
    let text = infc(folder.path(), "ops conv").ok().stdout;
    assert!(text.contains("ConvTranspose") && text.contains("ai.onnx") && !text.contains("MatMul"), "{text}");
    let json = infc(folder.path(), "ops gelu --format json").ok().json();
    let operators = json["operators"].as_array().unwrap();
    assert!(operators.iter().any(|o| o["domain"] == "com.microsoft" && o["name"] == "Gelu"), "{json}");
    for operator in operators {
        let spans = operator["opsets"].as_array().unwrap();
        assert!(!spans.is_empty() && spans.iter().all(|s| s[0].as_i64() <= s[1].as_i64()), "{operator}");
    }
    // What is spelled as an operator is that one, told in full.
    let text = infc(folder.path(), "ops DFT").ok().stdout;
    assert!(text.contains("DFT on the host because the axis") && text.contains("1 operator"), "{text}");
    assert!(infc(folder.path(), "ops Unique").ok().stdout.contains("always"));
    let json = infc(folder.path(), "ops If --format json").ok().json();
    assert_eq!(json["operators"].as_array().unwrap().len(), 1, "{json}");
    infc(folder.path(), "ops flux").fails(2, "cli::usage");
}

#[test]
fn this_machine_is_healthy() {
    let folder = folder();
    let json = infc(folder.path(), "doctor --format json").ok().json();
    assert_eq!(json["healthy"], true);
    assert!(!json["targets"].as_array().unwrap().is_empty());
    assert!(infc(folder.path(), "doctor").ok().stdout.contains("infc works on this machine"));
    assert_eq!(names(folder.path()), [""; 0], "nothing is written");
}
