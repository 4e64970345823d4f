//! `infc explain CODE`: the page about an error.

use crate::console::Console;
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::tables::{Side, table};
use serde_json::json;

/// Explain an error code
///
/// What it means, an example, what to do. Without a code, all are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc explain onnx::unsupported-operator\n  infc explain")]
pub(crate) struct ExplainArgs {
    /// The code, as in `error[onnx::cycle]`
    code: Option<String>,
}

/// A page of `docs/errors`.
struct Page {
    code: &'static str,
    text: &'static str,
}

impl Page {
    /// The heading without the code: `# onnx::cycle: the nodes form a cycle`.
    fn title(&self) -> &'static str {
        let heading = self.text.lines().next().unwrap_or_default();
        heading.split_once(": ").map_or(heading, |(_, title)| title)
    }
}

// `PAGES`, sorted by code: made from the folder by the build script.
include!(concat!(env!("OUT_DIR"), "/pages.rs"));

pub(crate) fn run(arguments: &ExplainArgs, console: &Console) -> Result<Exit, Failure> {
    let Some(code) = &arguments.code else { return list(console) };
    // Pasted from a message it may have its brackets still.
    let code = code.trim().trim_start_matches("error").trim_matches(['[', ']', ':', '`']);
    let page = PAGES.iter().find(|page| page.code == code);
    let page = page.ok_or_else(|| CliError::UnknownCode { code: code.to_owned(), similar: similar(code) })?;
    if console.is_json() {
        let (code, title, text) = (page.code, page.title(), page.text);
        console.json(&json!({"schema": "infc.explain/1", "error": code, "title": title, "text": text}))?;
    } else {
        console.write(page.text.as_bytes())?;
    }
    Ok(Exit::Done)
}

fn list(console: &Console) -> Result<Exit, Failure> {
    if console.is_json() {
        let codes: Vec<_> = PAGES.iter().map(|page| json!({"error": page.code, "title": page.title()})).collect();
        console.json(&json!({"schema": "infc.explain/1", "errors": codes}))?;
    } else {
        let rows = PAGES.iter().map(|page| vec![page.code.to_owned(), page.title().to_owned()]);
        console.write(table(&[("code", Side::Left), ("meaning", Side::Left)], rows).as_bytes())?;
    }
    Ok(Exit::Done)
}

/// Codes that share a word with what was asked for, those that share most first.
fn similar(code: &str) -> Vec<&'static str> {
    const MOST: usize = 5;
    let words = |text: &str| -> Vec<String> {
        text.split([':', '-', '_', ' ']).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect()
    };
    let wanted = words(code);
    let mut found: Vec<(usize, &'static str)> = PAGES
        .iter()
        .map(|page| (words(page.code).iter().filter(|word| wanted.contains(word)).count(), page.code))
        .filter(|&(shared, _)| shared > 0)
        .collect();
    found.sort_by_key(|&(shared, code)| (std::cmp::Reverse(shared), code));
    found.into_iter().take(MOST).map(|(_, code)| code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Every string literal of the crates' sources that has the form of a code (`area::some-words`), tests aside.
    fn codes_in_sources() -> BTreeSet<String> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut codes = BTreeSet::new();
        // The simulator of PTX is for tests: its codes reach no user.
        let reaches_users = |path: &PathBuf| !path.ends_with("ptxsim");
        let crates = std::fs::read_dir(crates).unwrap().map(|item| item.unwrap().path()).filter(reaches_users);
        let mut folders: Vec<PathBuf> = crates.map(|path| path.join("src")).collect();
        while let Some(folder) = folders.pop() {
            let Ok(items) = std::fs::read_dir(&folder) else { continue };
            for item in items {
                let path = item.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let code = source.split("#[cfg(test)]").next().unwrap();
                    codes.extend(code.lines().filter_map(code_of_match_arm).map(str::to_owned));
                }
            }
        }
        codes
    }

    /// `=> "onnx::cycle",` is how every `code()` is written.
    fn code_of_match_arm(line: &str) -> Option<&str> {
        let literal = line.split_once("=> \"").map_or_else(|| line.trim().strip_prefix('"'), |(_, rest)| Some(rest))?;
        let (text, _) = literal.split_once('"')?;
        let (area, name) = text.split_once("::")?;
        let kebab = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (kebab(area) && kebab(name)).then_some(text)
    }

    #[test]
    fn every_code_has_a_page_and_every_page_a_code() {
        let codes = codes_in_sources();
        let pages: BTreeSet<String> = PAGES.iter().map(|page| page.code.to_owned()).collect();
        let missing: Vec<_> = codes.difference(&pages).collect();
        assert!(missing.is_empty(), "codes without a page in docs/errors: {missing:?}");
        let stale: Vec<_> = pages.difference(&codes).collect();
        assert!(stale.is_empty(), "pages in docs/errors without a code: {stale:?}");
    }

    #[test]
    fn pages_have_one_form() {
        for page in PAGES {
            let heading = page.text.lines().next().unwrap();
            assert!(heading.starts_with(&format!("# {}: ", page.code)), "{}: {heading}", page.code);
            for section in ["\n## Example\n", "\n## What to do\n"] {
                assert!(page.text.contains(section), "{} lacks {section:?}", page.code);
            }
            assert!(page.text.lines().all(|line| line.chars().count() <= 120), "{}", page.code);
        }
    }

    #[test]
    fn similar_codes_share_words() {
        assert_eq!(similar("onnx::unsupported-operators").first(), Some(&"onnx::unsupported-attribute"));
        assert!(similar("artifact::hash").contains(&"artifact::hash-mismatch"));
        assert!(similar("qwertz").is_empty());
    }
}
