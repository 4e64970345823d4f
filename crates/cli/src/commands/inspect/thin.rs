//! `--thin TARGET`: an artifact with one variant of another, and the weights which that needs.

use crate::console::Console;
use crate::failure::Failure;
use crate::model_file;
use crate::output_file::OutputFile;
use crate::tables;
use infc_artifact::Artifact;
use std::path::Path;

/// Writes the variant for `target` to `output`.
pub(super) fn write(
    artifact: &Artifact<'_>,
    bytes: &[u8],
    target: &str,
    output: &Path,
    console: &Console,
) -> Result<(), Failure> {
    // What is written gets new hashes, so damage must be found now.
    artifact.verify_all()?;
    let encoded = artifact.thin(target)?;
    let len_bytes = encoded.len_bytes();
    if model_file::is_stream(output) {
        return console.write(&encoded.to_vec()?);
    }
    let mut file = OutputFile::create(output)?;
    encoded.write_to(&mut file).map_err(|error| match error {
        infc_artifact::ArtifactError::Write(source) => Failure::from(file.error(source)),
        error => error.into(),
    })?;
    file.commit()?;
    let (saved, before) = (tables::bytes(len_bytes), tables::bytes(bytes.len() as u64));
    if console.is_json() {
        let report = serde_json::json!({
            "schema": "infc.inspect/1", "artifact": output.display().to_string(), "target": target, "bytes": len_bytes,
        });
        return console.json(&report);
    }
    console.note(format!("  thin      {}  {saved} of {before}, {target} alone", output.display()));
    Ok(())
}
