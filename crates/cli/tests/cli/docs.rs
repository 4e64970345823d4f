//! What the documentation says is what the command does.

use crate::support::{folder, infc, workspace};
use infc_frontend_onnx::{NEWEST_OPSET, OLDEST_OPSET};
use infc_tune::Proven;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// The page `docs/operators.md`, made from what `infc ops` says.
fn operators_page() -> String {
    let folder = folder();
    let said = infc(folder.path(), "ops --format json").ok().json();
    let all = said["operators"].as_array().expect("operators");
    let of = |domain: &str, on_host: bool| -> Vec<&Value> {
        let is_of = |operator: &&Value| operator["domain"] == domain && operator["always_on_host"] == on_host;
        all.iter().filter(is_of).collect()
    };
    let name = |operator: &Value| operator["name"].as_str().expect("a name").to_owned();
    let types = |operator: &Value, which: &str| -> String {
        let types = operator[which].as_array().expect("types");
        types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let opsets = |operator: &Value| -> String {
        let spans = operator["opsets"].as_array().expect("spans");
        spans.iter().map(|span| format!("{}…{}", span[0], span[1])).collect::<Vec<_>>().join(", ")
    };
    let cases = |operator: &Value| match operator["cases"][1].as_u64() {
        Some(0) | None => String::new(),
        Some(all) => format!("{} of {all}", operator["cases"][0]),
    };
    let own = of("", false);
    let status = fs::read_to_string(workspace().join("tests/conformance/status.txt")).unwrap();
    let slow = status.lines().filter(|line| line.contains("runtime::gpu-time-limit")).count();
    let mut page = format!(
        "# Operators\n\nThe {} operators of ONNX that infc imports, in opsets {OLDEST_OPSET} to {NEWEST_OPSET}, with the \
         element types that kernels compute and those of\nwhich the host computes a part, as ONNX's own cases of a single \
         node show (`tests/conformance/operators.txt`; types that no case has\nare not named), and how many of these \
         cases pass on all targets (but for {slow} that take the simulator of GPUs too long). A test keeps this page as it is; whether a \
         particular node is supported\nalso depends on its attributes, which `infc check` tells. `infc ops NAME` tells of one.\n\n\
         | operator | opsets | in kernels | on the host | cases |\n| --- | --- | --- | --- | --- |\n",
        own.len()
    );
    for operator in &own {
        let (native, host) = (types(operator, "native"), types(operator, "host"));
        page.push_str(&format!(
            "| `{}` | {} | {native} | {host} | {} |\n",
            name(operator),
            opsets(operator),
            cases(operator)
        ));
    }
    for (domain, about) in [
        ("ai.onnx.ml", "Of classical models (`ai.onnx.ml`)"),
        ("com.microsoft", "Of ONNX Runtime's domain `com.microsoft`"),
        ("ai.onnx.preview.training", "Of `ai.onnx.preview.training`"),
        ("ai.onnx.preview", "Of `ai.onnx.preview`"),
    ] {
        let names: Vec<String> = of(domain, false).into_iter().map(name).collect();
        page.push_str(&format!("\n{about}:\n\n"));
        list(&mut page, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    page.push_str(
        "\n## On the host\n\nThese are evaluated by their definitions (the runtime's feature `host-ops`), whatever the \
         node is like:\n\n| domain | operator | cases | why |\n| --- | --- | --- | --- |\n",
    );
    for operator in all.iter().filter(|operator| operator["always_on_host"] == true) {
        let domain = operator["domain"].as_str().filter(|domain| !domain.is_empty()).unwrap_or("ai.onnx");
        let why = operator["why"].as_str().expect("a reason");
        page.push_str(&format!("| {domain} | `{}` | {} | {why} |\n", name(operator), cases(operator)));
    }
    page.push_str(
        "\nThese become kernels, but for nodes that ask for what no kernel does, as in some of ONNX's cases:\n\n\
         | operator | element types | why |\n| --- | --- | --- |\n",
    );
    for operator in own.iter().filter(|operator| operator["why"].is_string()) {
        let why = operator["why"].as_str().expect("a reason");
        page.push_str(&format!("| `{}` | {} | {why} |\n", name(operator), types(operator, "host")));
    }
    page.push_str(
        "\n`infc check` names such nodes of a model, `infc compile` says why, `--deny-fallback` refuses them.\n",
    );
    page
}

fn list(page: &mut String, operators: &[&str]) {
    // Lines of a width that is easy to read.
    let mut line = String::new();
    for (index, operator) in operators.iter().enumerate() {
        let last = index + 1 == operators.len();
        let item = format!("`{operator}`{}", if last { "" } else { "," });
        if line.len() + 1 + item.len() > 118 {
            page.push_str(line.trim_end());
            page.push('\n');
            line.clear();
        }
        line.push_str(&item);
        line.push(' ');
    }
    page.push_str(line.trim_end());
    page.push('\n');
}

/// With `INFC_BLESS=1` the page is written anew.
#[test]
fn the_list_of_operators_is_current() {
    let path = workspace().join("docs/operators.md");
    if std::env::var_os("INFC_BLESS").is_some() {
        fs::write(&path, operators_page()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == operators_page(), "docs/operators.md is out of date; INFC_BLESS=1 writes it");
}

#[test]
fn the_readme_tells_how_many_operators_become_kernels() {
    let said = infc(folder().path(), "ops --format json").ok().json();
    let own = said["operators"].as_array().expect("operators").iter().filter(|operator| operator["domain"] == "");
    let (on_host, native): (Vec<_>, Vec<_>) = own.partition(|operator| operator["always_on_host"] == true);
    let numbers = format!("{} of {} in native code", native.len(), native.len() + on_host.len());
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    assert!(readme.contains(&numbers), "README.md does not say {numbers:?}");
}

/// The pages of the project, with the folder that their links are relative to.
fn pages() -> Vec<(PathBuf, String)> {
    let root = workspace();
    let in_docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = [root.join("README.md"), root.join("ARCHITECTURE.md")].into_iter().chain(in_docs);
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn files_that_pages_link_to_are_there() {
    for (path, text) in pages() {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
        for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            assert!(path.with_file_name(file).exists(), "{} links to {link}", path.display());
        }
    }
}

/// The page for newcomers shows code of the tree as it is.
#[test]
fn the_worked_operator_is_in_the_tree() {
    let root = workspace();
    let page = fs::read_to_string(root.join("docs/add-an-op.md")).unwrap();
    let files = ["src/ops/cumulative.rs", "tests/suite/values/reduce.rs"];
    let sources: String =
        files.iter().map(|file| fs::read_to_string(root.join("crates/frontend-onnx").join(file)).unwrap()).collect();
    for block in page.split("```rust\n").skip(1) {
        let (code, _) = block.split_once("```").unwrap();
        // Between items there may be others in the file.
        for item in code.split("\n\n") {
            assert!(sources.contains(item.trim_end()), "docs/add-an-op.md shows what is not there:\n{item}");
        }
    }
}

/// Every field of every object that the JSON page shows is one that the command prints, and the other way round.
#[test]
fn json_fields_are_documented() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    fs::write(at.join("some.records"), crate::records::record(at, 0).to_line()).unwrap();
    let page = fs::read_to_string(workspace().join("docs/json.md")).unwrap();
    let commands = [
        ("check", "check digits.onnx --format json"),
        ("compile", "compile digits.onnx --format json"),
        ("run", "run digits.infa --random --format json"),
        ("compare", "compare digits.infa --data . --format json"),
        ("bench", "bench digits.infa --runs 2 --format json"),
        ("inspect", "inspect digits.infa --format json"),
        ("demo", "demo --format json"),
        ("targets", "targets --format json"),
        ("ops", "ops --format json"),
        ("doctor", "doctor --format json"),
        ("explain", "explain onnx::cycle --format json"),
        ("completions", "completions bash --format json"),
        ("simplify", "simplify digits.onnx -o simple.onnx --format json"),
        ("profile", "profile digits.infa --format json"),
        ("records", "records ls some.records --format json"),
        ("records", "records verify some.records --format json"),
        ("records", "records merge some.records -o all.records --format json"),
        ("tune", "tune digits.onnx --trials 0 --format json"),
    ];
    for (command, arguments) in commands {
        let json = infc(at, arguments).ok().json();
        let (_, section) = page.split_once(&format!("\n## {command}\n")).unwrap_or_else(|| panic!("{command}"));
        let section = section.split("\n## ").next().unwrap();
        for field in json.as_object().unwrap().keys().filter(|field| *field != "schema") {
            assert!(section.contains(&format!("`{field}`")), "docs/json.md lacks `{field}` of {command}");
        }
    }
}

/// The artifact in the example is of the current format and reads digits; how to make it anew stands in the example.
#[test]
fn the_example_artifact_loads() {
    let folder = folder();
    let at = folder.path();
    let artifact = workspace().join("examples/include/src/digits.infa");
    let json = infc(at, &format!("inspect {} --verify --format json", artifact.display())).ok().json();
    assert_eq!(json["entries"][0]["inputs"][0]["type"], "f32[1, 1, 8, 8]");
    let model = workspace().join("demo/digits.onnx");
    infc(at, &format!("compare {} --model {}", artifact.display(), model.display())).ok();
}
