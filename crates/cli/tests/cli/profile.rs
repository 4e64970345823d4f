//! `infc profile`.

use crate::support::{folder, infc};
use std::fs;

#[test]
fn where_the_time_goes() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "compile digits.onnx --target x86-64-v2").ok();
    let run = "profile digits.infa --threads 1 --html p.html --trace t.json";
    let json = infc(at, &format!("{run} --format json")).ok().json();
    assert_eq!(json["schema"], "infc.profile/1");
    let kernels = json["kernels"].as_array().unwrap();
    let shares: f64 = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    for kernel in kernels {
        // How large it is depends on what else this machine does now.
        assert!(kernel["of_roofline"].as_f64().unwrap() > 0.0, "{kernel}");
        assert!(!kernel["schedule"].as_str().unwrap().is_empty() && !kernel["origins"].as_array().unwrap().is_empty());
    }
    let ceilings = &json["ceilings"];
    let memory: Vec<f64> =
        ceilings["memory"].as_array().unwrap().iter().map(|c| c["gb_per_s"].as_f64().unwrap()).collect();
    assert!(ceilings["gflops"].as_f64().unwrap() > 0.1 && memory.is_sorted_by(|a, b| a >= b), "{ceilings}");

    let page = fs::read_to_string(at.join("p.html")).unwrap();
    for name in kernels.iter().map(|kernel| kernel["name"].as_str().unwrap()) {
        assert!(page.contains(name), "{name}");
    }
    for part in ["Roofline", "Memory between kernels", "<svg", "GFLOP/s"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains("<script"),
        "it needs nothing else"
    );

    let trace: serde_json::Value = serde_json::from_slice(&fs::read(at.join("t.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let launches: u64 = kernels.iter().map(|kernel| kernel["launches"].as_u64().unwrap()).sum();
    assert_eq!(events.iter().filter(|event| event["cat"] == "kernel").count() as u64, launches);
    let run_us = events[0]["dur"].as_f64().unwrap();
    for pair in events[1..].windows(2) {
        let end = pair[0]["ts"].as_f64().unwrap() + pair[0]["dur"].as_f64().unwrap();
        assert!(pair[1]["ts"].as_f64().unwrap() >= end - 1.0, "steps follow each other: {pair:?}");
    }
    assert!(events[1]["dur"].as_f64().unwrap() <= run_us);
}

#[test]
fn text_and_refusals() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "compile digits.onnx --target x86-64-v2").ok();
    let text = infc(at, "profile digits.infa --threads 1 -v").ok().stdout;
    for part in ["of roofline", "bound by", "quickest run", "ceilings", "GB/s up to", "parallel"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(infc(at, "profile digits.onnx").code, 1);
    assert_eq!(infc(at, "profile digits.infa --html nowhere/p.html").code, 1);
}
