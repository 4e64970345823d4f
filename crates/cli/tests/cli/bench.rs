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
