//! `--specialize`: what commands tell of code for single values of dynamic dims.

use crate::records;
use crate::support::{folder, infc};
use infc_tune::Proven;

/// A folder with the demo's model, and `cases.infa`, which has code of its own for one image and for eight.
fn with_cases() -> tempfile::TempDir {
    let folder = folder();
    infc(folder.path(), "demo --save .").ok();
    infc(folder.path(), "compile digits.onnx --specialize N=8,1 -o cases.infa").ok();
    folder
}

#[test]
fn commands_tell_which_case_ran() {
    let folder = with_cases();
    let at = folder.path();
    let case = |arguments: &str| infc(at, &format!("{arguments} --format json")).ok().json();
    let ran = |n: usize| case(&format!("run cases.infa --random --dim N={n}"))["data_sets"][0]["special_case"].clone();
    assert_eq!((ran(1), ran(2), ran(8)), ("N=1".into(), serde_json::Value::Null, "N=8".into()));
    let text = infc(at, "run cases.infa --random --dim N=8 -v").ok();
    assert!(text.stdout.contains("(N=8)") && text.stderr.contains("code for N=8"), "{text:?}");

    // Whatever fits the data has to agree: the case, and the general code.
    let compared = case("compare cases.infa --model digits.onnx --dim N=8");
    let sets = compared["data_sets"].as_array().unwrap();
    assert_eq!(sets.iter().map(|set| set["special_case"].as_str()).collect::<Vec<_>>(), [Some("N=8"), None]);
    assert_eq!(compared["agrees"], true);
    assert_eq!(case("compare cases.infa --model digits.onnx --dim N=3")["data_sets"].as_array().unwrap().len(), 1);
    let layers = case("compare cases.infa --model digits.onnx --layers --dim N=1");
    let of = |which: Option<&str>| {
        layers["layers"].as_array().unwrap().iter().filter(|layer| layer["special_case"].as_str() == which).count()
    };
    assert!(layers["agrees"] == true && of(Some("N=1")) > 0 && of(None) > 0, "{layers}");

    let bench = case("bench cases.infa --runs 2 --dim N=1 --kernels");
    assert_eq!(bench["special_case"], "N=1");
    assert!(!bench["kernels"].as_array().unwrap().is_empty());
    assert_eq!(case("bench cases.infa --runs 2 --dim N=2")["special_case"], serde_json::Value::Null);
    let profile = case("profile cases.infa --dim N=8 --html page.html --trace trace.json");
    assert_eq!(profile["special_case"], "N=8");
    assert!(profile["kernels"].as_array().unwrap().iter().all(|kernel| kernel["macs"].is_u64()), "{profile}");
}

#[test]
fn what_is_in_the_file() {
    let folder = with_cases();
    let at = folder.path();
    let json = infc(at, "inspect cases.infa --format json --verify").ok().json();
    let entries = json["entries"].as_array().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["main", "main[N=1]", "main[N=8]"]);
    assert_eq!(entries[2]["special_case"], serde_json::json!({"N": 8}));
    let programs = json["variant"]["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 3);
    assert!(programs.iter().all(|program| program["memory"]["arena_bytes"].is_u64()), "{json}");
    let text = infc(at, "inspect cases.infa").ok().stdout;
    assert!(text.contains("Entry main[N=8]") && text.contains("taken by runs with N = 8"), "{text}");
    infc(at, "inspect cases.infa --dim N=8 --graph eight.dot").ok();
    // One variant alone has the cases, too.
    infc(at, "inspect cases.infa --thin x86-64-v2 -o thin.infa").ok();
    let thin = infc(at, "run thin.infa --random --dim N=8 --format json").ok().json();
    assert_eq!(thin["data_sets"][0]["special_case"], "N=8");

    let json = infc(at, "compile digits.onnx --specialize N=1 --target x86-64-v2 -o a.infa --format json").ok().json();
    let cases = json["special_cases"].as_array().unwrap();
    assert_eq!(cases.len(), 1);
    assert_eq!(cases[0]["dims"], serde_json::json!({"N": 1}));
    assert!(cases[0]["arena_bytes"].is_u64() && json["arena_bytes"].is_null(), "{json}");
    let text = infc(at, "compile digits.onnx --specialize N=1,8 --target x86-64-v2 -o b.infa").ok().stdout;
    assert!(text.contains("with code of their own for N=1; N=8"), "{text}");
}

#[test]
fn special_cases_that_make_no_sense() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let fails = |arguments: &str, code: &str| {
        infc(at, &format!("compile digits.onnx -q {arguments}")).fails(2, code);
    };
    fails("--specialize M=1", "compile::unknown-special-case");
    fails("--dim N=1..4 --specialize N=8", "compile::bad-special-case");
    fails("--specialize N=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "compile::too-many-special-cases");
    fails("--specialize N=1..8", "cli::usage");
    fails("--specialize N", "cli::usage");
    fails("--specialize N=1 --start-from plan", "cli::usage");
}

/// A schedule that was found for the kernel of a case is taken for it.
#[test]
fn cases_are_tuned() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let keys = |arguments: &str| {
        let arguments = format!("tune digits.onnx --target x86-64-v2 --trials 0 --format json{arguments}");
        let kernels = infc(at, &arguments).ok().json()["kernels"].as_array().unwrap().clone();
        kernels.iter().map(|kernel| kernel["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (general, all) = (keys(""), keys(" --specialize N=1"));
    let key = all.iter().find(|key| !general.contains(key)).expect("a kernel of the case alone");
    let tasks = records::tasks(at, vec![("N".to_owned(), vec![1])]);
    let task = tasks.iter().find(|task| task.key.to_string() == *key).expect("the library finds what the command does");
    std::fs::write(at.join("found"), records::plain(task).to_line()).unwrap();
    let compile = |arguments: &str| {
        infc(at, &format!("compile digits.onnx --target x86-64-v2 -o out.infa{arguments}")).ok();
        let json = infc(at, "inspect out.infa --format json").ok().json();
        let kernels = json["variant"]["kernels"].as_array().unwrap().clone();
        kernels.iter().filter(|kernel| kernel["schedule"] == "").count()
    };
    assert_eq!(compile(" --specialize N=1 --records found"), compile(" --specialize N=1") + 1);
    assert_eq!(compile(" --records found"), compile(""));
    infc(at, "compile digits.onnx --specialize N=1 --records found -o tuned.infa").ok();
    infc(at, "compare tuned.infa --model digits.onnx --dim N=1").ok();
}
