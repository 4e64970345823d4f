//! `--thin TARGET`: an artifact with one variant of another, and the weights which that needs.

use super::report::no_such_target;
use crate::console::Console;
use crate::failure::Failure;
use crate::model_file;
use crate::output_file::OutputFile;
use crate::tables;
use infc_artifact::{Artifact, ArtifactBuilder, NewWeight, Program, Slot, VariantBuilder};
use std::path::Path;

/// Writes the variant for `target` to `output`.
pub(super) fn write(
    artifact: &Artifact<'_>,
    bytes: &[u8],
    target: &str,
    output: &Path,
    console: &Console,
) -> Result<(), Failure> {
    let manifest = artifact.manifest();
    let index = manifest.variants.iter().position(|info| info.target == target);
    let index = index.ok_or_else(|| no_such_target(artifact, target))?;
    let body = artifact.variant(index)?;
    // What is written gets new hashes, so damage must be found now.
    artifact.verify_all()?;

    let mut builder = ArtifactBuilder::new(manifest.provenance.clone());
    for entry in &manifest.entries {
        builder.entry(entry.clone());
    }
    for name in &manifest.custom_ops {
        builder.custom_op(name.clone());
    }
    let mut new_index: Vec<Option<u32>> = vec![None; manifest.weights.len()];
    for weight in used_weights(&body.programs) {
        let (Some(record), Some(range)) = (manifest.weights.get(weight), artifact.weight_range(weight)) else {
            // Slots were checked when the variant was read.
            continue;
        };
        let weight_info = NewWeight {
            name: record.name.clone(),
            original_names: record.original_names.clone(),
            dtype: record.dtype,
            shape: record.shape.clone(),
            recipe: record.recipe.clone(),
            layout: record.layout.clone(),
        };
        new_index[weight] = Some(builder.weight(weight_info, &bytes[range]));
    }
    let info = &manifest.variants[index];
    let features: Vec<&str> = info.required_features.iter().map(String::as_str).collect();
    let mut variant = VariantBuilder::new(target, &features);
    let (code, _) = artifact.code(index)?;
    for kernel in &body.kernels {
        // Within the section: checked when the variant was read.
        let start = kernel.code_offset as usize;
        variant.kernel(kernel.clone(), &code[start..start + kernel.code_len as usize]);
    }
    for program in body.programs {
        variant.program(renumbered(program, &new_index));
    }
    builder.variant(variant);
    let encoded = builder.finish()?;
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

/// The weights that Programs use, ascending.
fn used_weights(programs: &[Program]) -> Vec<usize> {
    let slots = programs.iter().flat_map(|program| &program.slots);
    let mut used: Vec<usize> =
        slots.filter_map(|slot| if let Slot::Weight(weight) = slot { Some(*weight as usize) } else { None }).collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn renumbered(mut program: Program, new_index: &[Option<u32>]) -> Program {
    for slot in &mut program.slots {
        if let Slot::Weight(weight) = slot {
            *weight = new_index.get(*weight as usize).copied().flatten().unwrap_or(*weight);
        }
    }
    program
}
