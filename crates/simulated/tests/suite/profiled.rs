//! `infc profile` of a model on a GPU, whose time is the instructions that the simulator executes.

use super::{digits, run};
use serde_json::{Value, json};

#[test]
fn where_the_instructions_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = &digits();
    let compile = ["compile", model, "--target", "cuda", "--precision", "f16", "--dim", "N=2", "-o", "a.infa"];
    assert_eq!(run(&compile, folder.path()).0, Some(0));
    let profile = ["profile", "a.infa", "--html", "a.html", "--trace", "a.trace"];
    let (code, report) = run(&profile, folder.path());
    assert_eq!((code, &report["variant"]), (Some(0), &json!("cuda:sm_80")), "{report}");
    let rate = |name: &str| report["ceilings"][name].as_f64().unwrap_or_default();
    assert!(rate("tile_gflops") > rate("gflops") && rate("gflops") > 0.0, "{}", report["ceilings"]);
    let kernels = report["kernels"].as_array().expect("kernels");
    assert!(!kernels.is_empty() && kernels.iter().all(|kernel| kernel["of_roofline"].as_f64() > Some(0.0)), "{report}");
    let steps = |kernel: &Value| kernel["schedule"].as_str().is_some_and(|steps| steps.contains("tensorize"));
    assert!(kernels.iter().any(steps), "{report}");
    let page = std::fs::read_to_string(folder.path().join("a.html")).expect("a page");
    assert!(page.contains("in tiles of 16-bit floats") && page.contains("Roofline"));
    let trace = std::fs::read(folder.path().join("a.trace")).expect("a trace");
    let trace: Value = serde_json::from_slice(&trace).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > kernels.len()));
}
