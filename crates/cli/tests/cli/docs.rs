//! What the documentation says is what the command does.

use crate::support::{folder, infc, workspace};
use infc_frontend_onnx::{NEWEST_OPSET, OLDEST_OPSET, host_operators, supported_operators};
use infc_tune::Proven;
use std::fs;
use std::path::PathBuf;

/// The list in `docs/operators.md`, made from what the frontend says.
fn operators_page() -> String {
    let operators = supported_operators("");
    let mut page = format!(
        "# Operators\n\nThe {} operators of ONNX that infc imports, in opsets {OLDEST_OPSET} to {NEWEST_OPSET}. A test \
         keeps this list as it is; whether a\nparticular node is supported also depends on its attributes and types, \
         which `infc compile` tells.\n\n",
        operators.len()
    );
    list(&mut page, &operators);
    page.push_str("\nOf ONNX Runtime's domain `com.microsoft`:\n\n");
    list(&mut page, &supported_operators("com.microsoft"));
    page.push_str("\nOf `ai.onnx.preview.training`:\n\n");
    list(&mut page, &supported_operators("ai.onnx.preview.training"));
    page.push_str("\nOf `ai.onnx.preview`:\n\n`FlexAttention`\n\n## On the host\n\n");
    page.push_str(
        "These are evaluated by their definitions (the runtime's feature `host-ops`), whatever the node is like:\n\n",
    );
    page.push_str("| domain | operator | why |\n| --- | --- | --- |\n");
    for operator in host_operators() {
        let domain = if operator.domain.is_empty() { "ai.onnx" } else { operator.domain };
        page.push_str(&format!("| {domain} | `{}` | {} |\n", operator.name, operator.why));
    }
    page.push_str(
        "\nOthers are where a node asks for what no kernel does: axes, a target shape or a count that is computed and \
         that no\ninput tells, strings as elements, sequences as states of a `Loop`. `infc compile` and `infc check` \
         name such nodes,\n`infc compile` says why, `--deny-fallback` refuses them.\n",
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
    let files = ["src/ops/scan.rs", "tests/suite/values/reduce.rs"];
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
