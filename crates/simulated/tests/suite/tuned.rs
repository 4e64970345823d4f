//! `infc tune` for a GPU, whose time is the instructions that the simulator executes, and what compilations make of its records.

use super::{digits, run, said};
use infc::{CompileOptions, DimChoice, Phase, Source};
use serde_json::{Value, json};

/// The hash of one kernel of the demo's model, by the node that it computes.
fn kernel(node: &str) -> String {
    let options = CompileOptions {
        targets: vec!["cuda".to_owned()],
        dims: vec![("N".to_owned(), DimChoice::Fixed(2))],
        stop_after: Some(Phase::Plan),
        ..CompileOptions::default()
    };
    let compilation = infc::compile(&Source::file(digits()), &options, &mut ()).expect("it compiles");
    let tasks = infc::tasks(&compilation.plans());
    let task = tasks.iter().find(|task| task.origins.iter().any(|origin| origin == node)).expect("a kernel");
    task.key.to_string()
}

#[test]
fn a_record_of_a_gpu_is_found_and_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, key) = (&digits(), &kernel("/linear2/Gemm"));
    let cuda = ["--target", "cuda", "--dim", "N=2"];
    let tune = ["tune", model, "--kernel", key, "--trials", "5", "--records", "a.records", "--log", "a.jsonl"];
    let (code, report) = run(&[&tune[..], &cuda].concat(), folder.path());
    assert_eq!((code, &report["target"]), (Some(0), &json!("cuda:sm_80")), "{report}");
    assert_eq!(report["kernels"].as_array().map(Vec::len), Some(1), "{report}");
    assert!(report["best_ms"].as_f64() < report["default_ms"].as_f64(), "{report}");

    // What it was measured on is the GPU, and the steps are all that there is of the schedule.
    let text = std::fs::read_to_string(folder.path().join("a.records")).expect("a file");
    let record: Value = serde_json::from_str(text.trim()).expect("one line");
    assert_eq!((&record["kernel"], &record["machine"]), (&json!(key), &json!("simulator, compute capability 8.0")));
    assert!(record["schedule"].as_str().is_some_and(|steps| steps.contains("to thread.x")), "{record}");
    let (code, report) = run(&["records", "verify", "a.records"], folder.path());
    assert_eq!((code, &report["checked"][0]["found"]), (Some(0), &json!("measured")), "{report}");

    let compile = ["compile", model, "--records", "a.records", "-o", "a.infa"];
    let (code, report) = run(&[&compile[..], &cuda].concat(), folder.path());
    assert_eq!((code, &report["recorded_kernels"]), (Some(0), &json!(1)), "{report}");
    let (code, report) = run(&["compare", "a.infa", "--model", model, "--layers"], folder.path());
    assert_eq!((code, &report["agrees"]), (Some(0), &Value::Bool(true)), "{report}");

    // Going on begins with what was found; a cost model learns of GPUs from logs of GPUs.
    let resume = [&tune[..6], &["--records", "a.records", "--resume", "--learn", "a.jsonl"], &cuda].concat();
    let (code, again) = run(&resume, folder.path());
    assert!(code == Some(0) && again["best_ms"].as_f64() < again["default_ms"].as_f64(), "{again}");
}

#[test]
fn schedules_that_a_gpu_cannot_run_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, key) = (&digits(), &kernel("/linear2/Gemm"));
    let cuda = ["--target", "cuda", "--dim", "N=2"];
    let tune = ["tune", model, "--kernel", key, "--trials", "5", "--records", "a.records"];
    assert_eq!(run(&[&tune[..], &cuda].concat(), folder.path()).0, Some(0));
    let text = std::fs::read_to_string(folder.path().join("a.records")).expect("a file");
    let record: Value = serde_json::from_str(text.trim()).expect("one line");
    for (schedule, why) in [
        ("round sum0 load 0", "nobody asked for"),
        ("parallel out1: n", "it is for processors"),
        ("cache sum0 load 9 -> t", "no such load"),
        ("rfactor sum0.k by 0 -> p, q", "must be 1 to"),
    ] {
        let mut changed = record.clone();
        changed["schedule"] = json!(schedule);
        std::fs::write(folder.path().join("bad.records"), format!("{changed}\n")).expect("a file");
        let compile = ["compile", model, "--records", "bad.records", "-o", "b.infa"];
        let (code, said) = said(&[&compile[..], &cuda].concat(), folder.path());
        assert!(code == Some(0) && said.contains("record not taken"), "{schedule}: {said}");
        assert!(said.contains(why), "{schedule}: {said}");
    }
    // There is nothing that threads of processors could do.
    let (code, said) = said(&["tune", model, "--target", "cuda", "--threads", "2"], folder.path());
    assert!(code != Some(0) && said.contains("--threads"), "{said}");
}
