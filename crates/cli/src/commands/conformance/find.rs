//! The cases below a folder.

use crate::error::CliError;
use std::path::{Path, PathBuf};

/// How deep cases may lie.
const MAX_DEPTH: usize = 8;

/// A folder with a model and data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    /// The path below the folder of cases, with `/` between its parts.
    pub(super) name: String,
    pub(super) folder: PathBuf,
}

/// All cases whose name matches, by name.
pub(super) fn cases(folder: &Path, filter: Option<&str>) -> Result<Vec<Case>, CliError> {
    let mut found = Vec::new();
    walk(folder, "", 0, &mut found)?;
    found.retain(|case| filter.is_none_or(|filter| matches(filter.as_bytes(), case.name.as_bytes())));
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, name: &str, depth: usize, found: &mut Vec<Case>) -> Result<(), CliError> {
    if folder.join("model.onnx").is_file() {
        found.push(Case { name: name.to_owned(), folder: folder.to_owned() });
        return Ok(());
    }
    if depth == MAX_DEPTH {
        return Ok(());
    }
    let wrap = |source| CliError::CannotRead { path: folder.to_owned(), source };
    for item in std::fs::read_dir(folder).map_err(wrap)? {
        let item = item.map_err(wrap)?;
        let part = item.file_name().to_string_lossy().into_owned();
        let path = item.path();
        if path.is_dir() {
            let name = if name.is_empty() { part } else { format!("{name}/{part}") };
            walk(&path, &name, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Whether a text is what a pattern of `*`, `?` and plain characters says.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // After a star that fails to match, it takes one character more.
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star, taken)) = retry else { return false };
                retry = Some((star, taken + 1));
                p = star + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let matches = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        assert!(matches("node/test_abs", "node/test_abs"));
        assert!(matches("*", "") && matches("*abs*", "node/test_abs_x") && matches("*_a?s", "test_a_abs"));
        assert!(matches("a*b*c", "aXbXbc") && matches("**", "x"));
        assert!(!matches("abs", "node/abs") && !matches("a?", "a") && !matches("a*b", "abc") && !matches("", "a"));
    }

    #[test]
    fn cases_lie_anywhere_below() {
        let root = tempfile::tempdir().unwrap();
        for name in ["node/test_b", "node/test_a", "simple/c/d"] {
            let folder = root.path().join(name);
            std::fs::create_dir_all(folder.join("test_data_set_0")).unwrap();
            std::fs::write(folder.join("model.onnx"), b"").unwrap();
        }
        std::fs::create_dir(root.path().join("empty")).unwrap();
        let names =
            |filter| -> Vec<String> { cases(root.path(), filter).unwrap().into_iter().map(|case| case.name).collect() };
        assert_eq!(names(None), ["node/test_a", "node/test_b", "simple/c/d"]);
        assert_eq!(names(Some("node/*_b")), ["node/test_b"]);
    }
}
