//! The kernel files of `tests/filetests/kernel`.

use crate::filetest::FileTest;
use infc_ir::kernel::Kernel;
use std::path::{Path, PathBuf};

/// All file tests of a subject (a folder of `tests/filetests`), by name.
///
/// # Panics
/// If the folder cannot be read or a file is not a file test.
#[must_use]
pub fn filetests(subject: &str) -> Vec<FileTest> {
    filetests_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests").join(subject))
}

/// All file tests in a folder, by name.
///
/// # Panics
/// If the folder cannot be read or a file is not a file test.
#[must_use]
pub fn filetests_in(folder: &Path) -> Vec<FileTest> {
    let entries = folder.read_dir().unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "infc"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let name = path.file_stem().expect("has an extension").to_string_lossy();
            FileTest::new(&name, &text)
        })
        .collect()
}

/// The kernels of `tests/filetests/kernel` with the names of their files, sorted.
///
/// # Panics
/// If a file does not parse.
#[must_use]
pub fn kernels() -> Vec<(String, Kernel)> {
    filetests("kernel").into_iter().map(|test| (test.name.clone(), test.kernel())).collect()
}

/// The kernel of one file.
///
/// # Panics
/// If there is no such file, or it does not parse.
#[must_use]
pub fn kernel(name: &str) -> Kernel {
    let found = kernels().into_iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("no kernel file `{name}`")).1
}
