//! Machine code of GPUs beside the PTX that it was assembled from.
//!
//! A cubin runs on one generation alone, PTX on it and all later ones, so cubins are an extra: sections that are not
//! [`REQUIRED`](crate::container::REQUIRED), which a loader takes where its GPU is of exactly that generation, and which older
//! runtimes skip. One holds all kernels of a variant.
//!
//! ```text
//! 0   u32   index of the variant's program section
//! 4   u32   compute capability, major·10 + minor
//! 8         zeros
//! 64        the image, an ELF file as an assembler writes it
//! ```
//! Numbers are little-endian.

use crate::container::SectionKind;
use crate::{Artifact, ArtifactError};

/// The version of this encoding.
pub(crate) const CUBIN_SCHEMA: u32 = 1;
/// Bytes before the image, which keep it aligned.
const HEADER_LEN: usize = 64;

/// The kernels of a variant as machine code of one generation of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin<'a> {
    /// Index of the section among all.
    pub section: usize,
    /// Compute capability, major·10 + minor.
    pub capability: u32,
    /// What the driver loads, unverified.
    pub image: &'a [u8],
}

/// What stands before an image.
pub(crate) fn header(program_section: u32, capability: u32) -> Vec<u8> {
    let mut header = [program_section.to_le_bytes(), capability.to_le_bytes()].concat();
    header.resize(HEADER_LEN, 0);
    header
}

impl<'a> Artifact<'a> {
    /// The cubins of variant `index`, in the order of the file; those of later versions of this format are left out.
    ///
    /// # Errors
    /// `artifact::malformed` if one is too short for what it begins with.
    pub fn cubins(&self, index: usize) -> Result<Vec<Cubin<'a>>, ArtifactError> {
        let program = self.manifest().variants.get(index).map(|info| info.program_section);
        let mut found = Vec::new();
        for (n, section) in self.container().sections().iter().enumerate() {
            if section.kind != SectionKind::CUBIN || section.schema != CUBIN_SCHEMA {
                continue;
            }
            let bytes = self.container().section_bytes(n).unwrap_or_default();
            let parts = bytes.split_at_checked(HEADER_LEN);
            let Some(([a, b, c, d, e, f, g, h, ..], image)) = parts else {
                let what = format!("section {n} (cubin)");
                return Err(ArtifactError::malformed(what, format!("at least {HEADER_LEN} bytes"), bytes.len()));
            };
            if program == Some(u32::from_le_bytes([*a, *b, *c, *d])) {
                found.push(Cubin { section: n, capability: u32::from_le_bytes([*e, *f, *g, *h]), image });
            }
        }
        Ok(found)
    }
}
