//! Reading a container in place. Nothing is touched but the header and the table until a section is asked for.

use super::{
    ENTRY_LEN, FORMAT_MAJOR, FORMAT_MINOR, HASHED_HEADER_LEN, HEADER_LEN, MAGIC, MAX_SECTIONS, PAGE, REQUIRED,
    SectionKind,
};
use crate::{ArtifactError, Hash};
use std::ops::Range;

/// One line of the section table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// [`REQUIRED`], or flags of later versions.
    pub flags: u32,
    /// Where it lies in the file.
    pub range: Range<usize>,
    /// The version of its contents' encoding.
    pub schema: u32,
    /// What its bytes must hash to.
    pub hash: Hash,
}

/// A container over bytes in memory, its header and table checked.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    bytes: &'a [u8],
    format: (u16, u16),
    sections: Vec<Section>,
}

impl<'a> Container<'a> {
    /// Checks magic, version, header hash and section table. Section contents are not read.
    ///
    /// # Errors
    /// `artifact::not-an-artifact`, `newer-format`, `older-format`, `truncated`, `hash-mismatch`, `unknown-section` or
    /// `malformed`.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ArtifactError> {
        let found = &bytes[..bytes.len().min(MAGIC.len())];
        if found != &MAGIC[..found.len()] || found.is_empty() {
            return Err(ArtifactError::NotAnArtifact { expected: MAGIC, found: found.to_vec() });
        }
        let header = take(bytes, "the header", 0, HEADER_LEN as u64)?;
        let format = (u16_at(header, 8), u16_at(header, 10));
        // The version comes before the hash: a later format may lay out everything after it differently.
        check_format(format)?;

        let count = u32_at(header, 12);
        if count > MAX_SECTIONS {
            let (limit, found) = (MAX_SECTIONS.into(), count.into());
            return Err(ArtifactError::TooLarge { what: "sections of an artifact".into(), limit, found });
        }
        let table_len = u64::from(count) * ENTRY_LEN as u64;
        let table = take(bytes, "the section table", HEADER_LEN as u64, table_len)?;
        let expected = hash_at(header, HASHED_HEADER_LEN);
        let found = blake3::Hasher::new().update(&header[..HASHED_HEADER_LEN]).update(table).finalize();
        let found = Hash(*found.as_bytes());
        if expected != found {
            return Err(ArtifactError::HashMismatch { what: "the header".into(), expected, found });
        }

        let len_bytes = u64_at(header, 16);
        if len_bytes > bytes.len() as u64 {
            let (what, len) = ("the file".into(), bytes.len() as u64);
            return Err(ArtifactError::Truncated { what, start: 0, end: len_bytes, len_bytes: len });
        }
        if len_bytes < bytes.len() as u64 {
            return Err(ArtifactError::malformed("the file's length", len_bytes, bytes.len()));
        }
        let sections = read_table(bytes, table)?;
        Ok(Self { bytes, format, sections })
    }

    /// The format version of the file: major, minor.
    #[must_use]
    pub fn format(&self) -> (u16, u16) {
        self.format
    }

    /// All sections, in file order.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The bytes of section `index`, unverified; `None` if there is no such section.
    #[must_use]
    pub fn section_bytes(&self, index: usize) -> Option<&'a [u8]> {
        // The ranges were checked against the same bytes by `read_table`.
        self.sections.get(index).map(|s| &self.bytes[s.range.clone()])
    }

    /// The bytes of section `index`, after comparing their hash.
    ///
    /// # Errors
    /// `artifact::hash-mismatch`, or `artifact::malformed` if there is no such section.
    pub fn verified(&self, index: usize) -> Result<&'a [u8], ArtifactError> {
        let (Some(section), Some(bytes)) = (self.sections.get(index), self.section_bytes(index)) else {
            return Err(ArtifactError::malformed("a section index", format!("below {}", self.sections.len()), index));
        };
        let found = Hash::of(bytes);
        if found == section.hash {
            Ok(bytes)
        } else {
            Err(ArtifactError::HashMismatch { what: describe(index, section.kind), expected: section.hash, found })
        }
    }
}

fn describe(index: usize, kind: SectionKind) -> String {
    format!("section {index} ({})", kind.name().unwrap_or("of unknown kind"))
}

fn check_format((major, minor): (u16, u16)) -> Result<(), ArtifactError> {
    if (major, minor) > (FORMAT_MAJOR, FORMAT_MINOR) {
        let (own_major, own_minor) = (FORMAT_MAJOR, FORMAT_MINOR);
        return Err(ArtifactError::NewerFormat { found_major: major, found_minor: minor, own_major, own_minor });
    }
    if major < FORMAT_MAJOR {
        return Err(ArtifactError::OlderFormat { found_major: major, found_minor: minor, own_major: FORMAT_MAJOR });
    }
    Ok(())
}

fn read_table(bytes: &[u8], table: &[u8]) -> Result<Vec<Section>, ArtifactError> {
    let mut sections = Vec::with_capacity(table.len() / ENTRY_LEN);
    let mut end = (HEADER_LEN + table.len()) as u64;
    for (index, entry) in table.chunks_exact(ENTRY_LEN).enumerate() {
        let kind = SectionKind(u32_at(entry, 0));
        let (flags, offset, len) = (u32_at(entry, 4), u64_at(entry, 8), u64_at(entry, 16));
        let what = describe(index, kind);
        if kind.name().is_none() && flags & REQUIRED != 0 {
            return Err(ArtifactError::UnknownSection { index, kind: kind.0 });
        }
        if !offset.is_multiple_of(PAGE) {
            return Err(ArtifactError::malformed(format!("offset of {what}"), "a multiple of 4096", offset));
        }
        if offset < end {
            return Err(ArtifactError::malformed(format!("offset of {what}"), format!("at least {end}"), offset));
        }
        take(bytes, &what, offset, len)?;
        end = offset + len;
        let range = offset as usize..end as usize;
        sections.push(Section { kind, flags, range, schema: u32_at(entry, 24), hash: hash_at(entry, 32) });
    }
    Ok(sections)
}

/// `len` bytes from `start`, or the error that says what is missing.
fn take<'a>(bytes: &'a [u8], what: &str, start: u64, len: u64) -> Result<&'a [u8], ArtifactError> {
    let end = start.saturating_add(len);
    if end > bytes.len() as u64 {
        let len_bytes = bytes.len() as u64;
        return Err(ArtifactError::Truncated { what: what.to_owned(), start, end, len_bytes });
    }
    // Both fit in usize, since they lie within a slice.
    Ok(&bytes[start as usize..end as usize])
}

// The readers below are only given slices of HEADER_LEN or ENTRY_LEN bytes and offsets within them.

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn hash_at(bytes: &[u8], at: usize) -> Hash {
    Hash(array_at(bytes, at))
}
