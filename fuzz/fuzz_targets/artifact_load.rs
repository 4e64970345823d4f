//! Whatever the bytes, loading an artifact ends in a model or an error. Its code is mapped, but never run.
//!
//! Hashes would end nearly every input at the first section, so each is also tried with its hashes put right, as
//! somebody malicious would do.

#![no_main]

use infc_artifact::container::MAGIC;
use infc_artifact::{Artifact, Hash};
use infc_runtime::{LoadOptions, Model};
use libfuzzer_sys::fuzz_target;
use std::ops::Range;

const HEADER_LEN: usize = 64;
const ENTRY_LEN: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    load(bytes);
    if let Some(sealed) = seal(bytes) {
        load(&sealed);
    }
});

/// Reads everything that there is to read.
fn load(bytes: &[u8]) {
    if let Ok(artifact) = Artifact::read(bytes) {
        let _ = artifact.verify_all();
        for variant in 0..artifact.manifest().variants.len() {
            let _ = artifact.variant(variant);
            let _ = artifact.code(variant);
        }
        for weight in 0..artifact.manifest().weights.len() {
            let _ = artifact.weight_range(weight);
        }
    }
    let _ = Model::from_vec_with(bytes.to_vec(), &LoadOptions { verify_weights: true, ..LoadOptions::default() });
}

/// The bytes with magic, length, and all hashes of header and sections as they should be; `None` if there is no room
/// for a header and the table it speaks of.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut sealed = bytes.to_vec();
    sealed.get_mut(..HEADER_LEN)?[..MAGIC.len()].copy_from_slice(&MAGIC);
    let len = sealed.len() as u64;
    sealed[16..24].copy_from_slice(&len.to_le_bytes());

    let count = u32::from_le_bytes(sealed[12..16].try_into().ok()?) as usize;
    let table = HEADER_LEN..count.checked_mul(ENTRY_LEN)?.checked_add(HEADER_LEN)?;
    sealed.get(table.clone())?;
    let mut end = table.end;
    for entry in table.clone().step_by(ENTRY_LEN) {
        // What is out of order, or not within the file, is refused whatever its hash.
        let Some(range) = section_range(&sealed[entry..entry + ENTRY_LEN]).filter(|r| r.start >= end) else { break };
        end = range.end;
        let Some(section) = sealed.get(range) else { break };
        let hash = Hash::of(section);
        sealed[entry + 32..entry + ENTRY_LEN].copy_from_slice(&hash.0);
    }
    let header = Hash::of(&[&sealed[..32], &sealed[table]].concat());
    sealed[32..HEADER_LEN].copy_from_slice(&header.0);
    Some(sealed)
}

/// Where the section of a table entry lies.
fn section_range(entry: &[u8]) -> Option<Range<usize>> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
    let (offset, len) = (u64_at(8)?, u64_at(16)?);
    Some(usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(len)?).ok()?)
}
