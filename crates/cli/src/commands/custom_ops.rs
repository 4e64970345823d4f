//! `--custom-ops FILE.toml`: declarations of operators that are not infc's.

use crate::error::CliError;
use crate::failure::Failure;
use infc::CustomOps;
use std::path::PathBuf;

/// All operators that the files declare.
pub(crate) fn read(paths: &[PathBuf]) -> Result<CustomOps, Failure> {
    let mut all = CustomOps::default();
    for path in paths {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Failure::from(CliError::CannotRead { path: path.clone(), source }))?;
        let joined = CustomOps::parse(&text).and_then(|declared| all.and(declared));
        all = joined.map_err(|error| Failure::from(error).at(path.display()))?;
    }
    Ok(all)
}
