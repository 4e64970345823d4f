//! Files of records.

use crate::console::Console;
use crate::error::CliError;
use crate::failure::Failure;
use infc_tune::RecordFile;
use std::path::{Path, PathBuf};

/// Reads files of records. What in them cannot be used is said, and left out.
pub(super) fn read(paths: &[PathBuf], console: &Console) -> Result<RecordFile, Failure> {
    let mut all = RecordFile::default();
    for path in paths {
        all.records.extend(read_one(path, console)?.records);
    }
    Ok(all)
}

/// Reads one file.
pub(super) fn read_one(path: &Path, console: &Console) -> Result<RecordFile, Failure> {
    let bytes = std::fs::read(path).map_err(|source| CliError::CannotRead { path: path.to_owned(), source })?;
    let file = RecordFile::parse(&String::from_utf8_lossy(&bytes));
    for bad in &file.bad {
        console.note(format!("  record not taken  {}, {bad}", path.display()));
    }
    Ok(file)
}
