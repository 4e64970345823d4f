//! `infc bench`.

use crate::support::{identity_folder, infc, names, npy};
use std::fs;

#[test]
fn the_fields_that_scripts_read() {
    let folder = identity_folder();
    let at = folder.path();
    let json = infc(at, "bench id.infa --threads 1 --runs 5 --warmup 0 --format json").ok().json();
    assert_eq!(json["schema"], "infc.bench/1");
    assert_eq!(json["latencies_ms"].as_array().unwrap().len(), 5);
    assert_eq!(json["latencies_ms"][0], json["first_ms"], "without warm-up the first run is timed");
    for field in ["load_ms", "first_ms", "cold_ms"] {
        assert!(json[field].as_f64().unwrap() > 0.0, "{field}: {json}");
    }
    assert!(json["cold_ms"].as_f64() >= json["load_ms"].as_f64());
    let summary = &json["latency_ms"];
    assert!(summary["min"].as_f64() <= summary["median"].as_f64());
    assert!(summary["median"].as_f64() <= summary["p90"].as_f64());
    assert_eq!(json["threads"], 1);
    assert!(json["machine"].is_string() && json["variant"].is_string());
    if cfg!(target_os = "linux") {
        assert!(json["peak_rss_mb"].as_f64().unwrap() > 0.5);
    }
}

#[test]
fn made_up_inputs_are_said_to_be() {
    let folder = identity_folder();
    let outcome = infc(folder.path(), "bench id.infa --runs 3").ok();
    assert!(outcome.stderr.contains("made up with seed 0: x f32[1, 3]"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("median"), "{}", outcome.stdout);
    let quiet = infc(folder.path(), "bench id.infa --runs 3 -q").ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn outputs_can_be_saved() {
    let folder = identity_folder();
    let at = folder.path();
    fs::write(at.join("x.npy"), npy(&[1, 3], &[7.0, 8.0, 9.0])).unwrap();
    infc(at, "bench id.infa --input x=x.npy --runs 2 --save-output out.npz").ok();
    infc(at, "compare id.infa --input x=x.npy --expected out.npz").ok();
    assert_eq!(names(at), ["id.infa", "out.npz", "x.npy"]);
}

#[test]
fn several_artifacts() {
    let folder = identity_folder();
    let at = folder.path();
    fs::copy(at.join("id.infa"), at.join("other.infa")).unwrap();
    let json = infc(at, "bench id.infa other.infa --runs 20 --format json").ok().json();
    let lanes = json["artifacts"].as_array().unwrap();
    assert_eq!(lanes.len(), 2);
    assert!(lanes.iter().all(|lane| lane["latencies_ms"].as_array().unwrap().len() == 20));
    assert!(json.get("latencies_ms").is_none(), "of which artifact?");
    infc(at, "bench id.infa other.infa --save-output x.npz").fails(2, "cli::usage");
}

#[test]
fn for_so_long() {
    let folder = identity_folder();
    let json = infc(folder.path(), "bench id.infa --duration 0.05 --format json").ok().json();
    let latencies: Vec<f64> =
        json["latencies_ms"].as_array().unwrap().iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(latencies.iter().sum::<f64>() >= 45.0 || latencies.len() == 1_000_000);
    infc(folder.path(), "bench id.infa --duration 1 --runs 1").fails(2, "cli::usage");
    infc(folder.path(), "bench id.infa --runs 0").fails(2, "cli::usage");
    infc(folder.path(), "bench").fails(2, "cli::usage");
}

#[test]
fn the_same_artifact_is_not_called_slower() {
    let folder = identity_folder();
    let at = folder.path();
    // Whatever else this machine does, a half more is not noise of the median of turns.
    let outcome =
        infc(at, "bench id.infa --against id.infa --fail-if 50% --duration 0.1 --markdown t.md --format json");
    let json = outcome.ok().json();
    let comparison = &json["comparison"];
    assert_eq!((&comparison["by"], &comparison["fails"]), (&"turns".into(), &false.into()));
    let slowdown = |field: &str| comparison["slowdown"][field].as_f64().unwrap();
    assert!(slowdown("lower") <= slowdown("median") && slowdown("median") <= slowdown("upper"));
    assert!(comparison["turns"].as_u64().unwrap() >= 20);
    assert_eq!(comparison["outputs"], serde_json::json!({"agrees": true, "worst_abs": null}));
    let table = fs::read_to_string(at.join("t.md")).unwrap();
    assert!(table.starts_with("| artifact | against |") && table.contains("| 50.0 % |"), "{table}");
}

#[test]
fn stored_timings_count_under_the_same_conditions() {
    let folder = identity_folder();
    let at = folder.path();
    let run = "bench id.infa --threads 1 --runs 300 --format json";
    let mut stored = infc(at, run).ok().json();
    let write = |name: &str, json: &serde_json::Value| fs::write(at.join(name), json.to_string()).unwrap();
    write("same.json", &stored);
    let json = infc(at, &format!("{run} --baseline same.json --fail-if 900%")).ok().json();
    assert_eq!(json["comparison"]["by"], "stored");
    // As if it had been a hundred times as fast once.
    for ms in stored["artifacts"][0]["latencies_ms"].as_array_mut().unwrap() {
        *ms = (ms.as_f64().unwrap() / 100.0 + 1e-9).into();
    }
    write("fast.json", &stored);
    let slower = infc(at, &format!("{run} --baseline fast.json --fail-if 100%"));
    assert_eq!(slower.code, 3, "{slower:?}");
    assert_eq!(slower.json()["comparison"]["fails"], true);
    stored["machine"] = "another".into();
    write("elsewhere.json", &stored);
    fs::write(at.join("bad.json"), "{}").unwrap();
    for (arguments, code, error) in [
        ("--baseline elsewhere.json", 1, "bench::other-conditions"),
        ("--baseline bad.json", 1, "bench::bad-baseline"),
        ("--baseline same.json --threads 2", 2, "cli::usage"),
        ("--fail-if 3%", 2, "cli::usage"),
        ("--against id.infa --baseline same.json", 2, "cli::usage"),
    ] {
        let outcome = infc(at, &format!("{run} {arguments}"));
        assert_eq!((outcome.code, &outcome.json()["code"]), (code, &error.into()), "{arguments}");
    }
    let other_threads = infc(at, "bench id.infa --threads 2 --runs 300 --format json --baseline same.json");
    assert_eq!(other_threads.json()["code"], "bench::other-conditions");
}
