//! A whole artifact, read from bytes in memory.

use crate::container::{Container, Section, SectionKind};
use crate::{ArtifactError, Manifest, VariantBody, validate, wire};
use std::ops::Range;

/// Sections that are decoded into memory may be at most this long: decoding can take some ten times as much, and real
/// ones are a few hundred kilobytes.
const MAX_METADATA_BYTES: u64 = 32 << 20;

/// An artifact whose header and manifest have been verified. The rest is read, and verified, when asked for.
#[derive(Clone, Debug)]
pub struct Artifact<'a> {
    container: Container<'a>,
    manifest: Manifest,
}

impl<'a> Artifact<'a> {
    /// Verifies header and manifest. Touches none of the other sections.
    ///
    /// # Errors
    /// Any [`ArtifactError`] about reading.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ArtifactError> {
        let container = Container::read(bytes)?;
        let mut manifests = (0..).zip(container.sections()).filter(|(_, s)| s.kind == SectionKind::MANIFEST);
        let (Some((index, section)), None) = (manifests.next(), manifests.next()) else {
            let count = container.sections().iter().filter(|s| s.kind == SectionKind::MANIFEST).count();
            return Err(ArtifactError::malformed("the section table", "exactly one manifest", count));
        };
        let manifest = wire::decode_manifest(section.schema, metadata(&container, index, section)?)?;
        validate::manifest(&manifest, container.sections())?;
        Ok(Self { container, manifest })
    }

    /// What the file holds.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What the file holds, without the borrow of its bytes.
    #[must_use]
    pub fn into_manifest(self) -> Manifest {
        self.manifest
    }

    /// The sections beneath, for listings.
    #[must_use]
    pub fn container(&self) -> &Container<'a> {
        &self.container
    }

    /// Verifies, decodes and checks Programs and kernel table of variant `index` of the manifest.
    ///
    /// # Errors
    /// Any [`ArtifactError`] about reading.
    pub fn variant(&self, index: usize) -> Result<VariantBody, ArtifactError> {
        let info = self.manifest.variants.get(index).ok_or_else(|| {
            ArtifactError::malformed("a variant index", format!("below {}", self.manifest.variants.len()), index)
        })?;
        let (program, code) = (info.program_section as usize, info.code_section as usize);
        let sections = self.container.sections();
        // `validate::manifest` has checked that both sections exist and are of the right kind.
        let section = &sections[program];
        let bytes = metadata(&self.container, program, section)?;
        let entry_names: Vec<&str> = self.manifest.entries.iter().map(|entry| entry.name.as_str()).collect();
        let body = wire::decode_body(section.schema, bytes, &entry_names)?;
        validate::body(&body, &self.manifest, sections[code].kind, sections[code].range.len() as u64)?;
        Ok(body)
    }

    /// The machine code, or the PTX, of variant `index`, with the section that says what it must hash to. It is not verified here:
    /// a loader copies it first and verifies the copy, so that nobody can change it in between.
    ///
    /// # Errors
    /// `artifact::malformed` if there is no such variant.
    pub fn code(&self, index: usize) -> Result<(&'a [u8], &Section), ArtifactError> {
        let info = self.manifest.variants.get(index);
        let section = info.map(|info| info.code_section as usize);
        match section.and_then(|s| self.container.section_bytes(s).zip(self.container.sections().get(s))) {
            Some(found) => Ok(found),
            None => Err(ArtifactError::malformed(
                "a variant index",
                format!("below {}", self.manifest.variants.len()),
                index,
            )),
        }
    }

    /// Where the weight of this index lies in the file; `None` if there is no such weight.
    #[must_use]
    pub fn weight_range(&self, index: usize) -> Option<Range<usize>> {
        let record = self.manifest.weights.get(index)?;
        let section = self.container.sections().get(record.section as usize)?;
        // `validate::manifest` has checked that the record lies within its section.
        let start = section.range.start + record.offset_bytes as usize;
        Some(start..start + record.len_bytes as usize)
    }

    /// The stored bytes of the weight of this index, unverified; `None` if there is no such weight.
    #[must_use]
    pub fn weight_bytes(&self, index: usize) -> Option<&'a [u8]> {
        let record = self.manifest.weights.get(index)?;
        let (start, len) = (record.offset_bytes as usize, record.len_bytes as usize);
        self.container.section_bytes(record.section as usize)?.get(start..)?.get(..len)
    }

    /// Verifies the hash of every section, weights included: reads the whole file.
    ///
    /// # Errors
    /// `artifact::hash-mismatch` for the first damaged section.
    pub fn verify_all(&self) -> Result<(), ArtifactError> {
        (0..self.container.sections().len()).try_for_each(|index| self.container.verified(index).map(drop))
    }

    /// Verifies the weights sections alone.
    ///
    /// # Errors
    /// `artifact::hash-mismatch` for the first damaged one.
    pub fn verify_weights(&self) -> Result<(), ArtifactError> {
        let sections = self.container.sections().iter().enumerate();
        sections
            .filter(|(_, section)| section.kind == SectionKind::WEIGHTS)
            .try_for_each(|(index, _)| self.container.verified(index).map(drop))
    }
}

/// The verified bytes of a section that is about to be decoded.
fn metadata<'a>(container: &Container<'a>, index: usize, section: &Section) -> Result<&'a [u8], ArtifactError> {
    let found = section.range.len() as u64;
    if found > MAX_METADATA_BYTES {
        let what = format!("bytes of section {index} ({})", section.kind.name().unwrap_or("unknown"));
        return Err(ArtifactError::TooLarge { what, limit: MAX_METADATA_BYTES, found });
    }
    container.verified(index)
}
