//! Writing a container, to any [`Write`]: hashes are computed first, so nothing is sought back to.

use super::{
    ENTRY_LEN, FORMAT_MAJOR, FORMAT_MINOR, HASHED_HEADER_LEN, HEADER_LEN, MAGIC, MAX_SECTIONS, PAGE, SectionKind,
};
use crate::ArtifactError;
use std::borrow::Cow;
use std::io::Write;

/// How much of a [`Piece`] that is read here and there is written at once.
///
/// Linux keeps what one call writes in blocks of up to 2 MiB, and touching a byte of a mapped file brings the whole block
/// into the process's resident set: 128 rows of a table of 64 MB make all of it resident, and 8 MB in blocks of this size
/// (which Linux maps at once in any case). What is read from end to end is better off in large blocks.
const SCATTERED_WRITE_BYTES: usize = 1 << 16;

/// Bytes of a section, and how many zeros precede them.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// Zeros before the bytes; less than a [`PAGE`].
    pub padding: usize,
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
    /// Whether runs read few places of it.
    pub scattered: bool,
}

impl<'a> Piece<'a> {
    /// Bytes without padding.
    #[must_use]
    pub fn new(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { padding: 0, bytes: bytes.into(), scattered: false }
    }
}

#[derive(Clone, Debug)]
struct Pending<'a> {
    kind: SectionKind,
    flags: u32,
    schema: u32,
    pieces: Vec<Piece<'a>>,
    len_bytes: u64,
}

/// Collects sections, then writes them.
#[derive(Clone, Debug, Default)]
pub struct ContainerWriter<'a> {
    sections: Vec<Pending<'a>>,
}

impl<'a> ContainerWriter<'a> {
    /// Adds a section made of `pieces` and returns its index.
    pub fn section(&mut self, kind: SectionKind, flags: u32, schema: u32, pieces: Vec<Piece<'a>>) -> u32 {
        let len_bytes = pieces.iter().map(|p| p.padding as u64 + p.bytes.len() as u64).sum();
        self.sections.push(Pending { kind, flags, schema, pieces, len_bytes });
        u32::try_from(self.sections.len() - 1).unwrap_or(u32::MAX)
    }

    /// The length of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let last = self.offsets().last().copied().unwrap_or(self.head_len());
        last + self.sections.last().map_or(0, |s| s.len_bytes)
    }

    /// Writes header, table and sections.
    ///
    /// # Errors
    /// [`ArtifactError::Write`] with what the writer said; [`ArtifactError::TooLarge`] for too many sections.
    pub fn write_to(&self, out: &mut impl Write) -> Result<(), ArtifactError> {
        if self.sections.len() > MAX_SECTIONS as usize {
            return Err(ArtifactError::TooLarge {
                what: "sections of an artifact".into(),
                limit: MAX_SECTIONS.into(),
                found: self.sections.len() as u64,
            });
        }
        let head = self.head();
        out.write_all(&head).map_err(ArtifactError::Write)?;
        let mut at = head.len() as u64;
        for (section, offset) in self.sections.iter().zip(self.offsets()) {
            write_zeros(out, offset - at)?;
            section.feed(&mut |bytes| out.write_all(bytes)).map_err(ArtifactError::Write)?;
            at = offset + section.len_bytes;
        }
        Ok(())
    }

    fn head_len(&self) -> u64 {
        (HEADER_LEN + ENTRY_LEN * self.sections.len()) as u64
    }

    fn offsets(&self) -> Vec<u64> {
        let mut end = self.head_len();
        let place = |section: &Pending<'_>| {
            let offset = end.next_multiple_of(PAGE);
            end = offset + section.len_bytes;
            offset
        };
        self.sections.iter().map(place).collect()
    }

    fn head(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(ENTRY_LEN * self.sections.len());
        for (section, offset) in self.sections.iter().zip(self.offsets()) {
            table.extend_from_slice(&section.kind.0.to_le_bytes());
            table.extend_from_slice(&section.flags.to_le_bytes());
            table.extend_from_slice(&offset.to_le_bytes());
            table.extend_from_slice(&section.len_bytes.to_le_bytes());
            table.extend_from_slice(&section.schema.to_le_bytes());
            table.extend_from_slice(&[0; 4]);
            table.extend_from_slice(section.hash().as_bytes());
        }
        let mut head = Vec::with_capacity(HEADER_LEN + table.len());
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&FORMAT_MAJOR.to_le_bytes());
        head.extend_from_slice(&FORMAT_MINOR.to_le_bytes());
        head.extend_from_slice(&u32::try_from(self.sections.len()).unwrap_or(u32::MAX).to_le_bytes());
        head.extend_from_slice(&self.len_bytes().to_le_bytes());
        head.resize(HASHED_HEADER_LEN, 0);
        let hash = blake3::Hasher::new().update(&head).update(&table).finalize();
        head.extend_from_slice(hash.as_bytes());
        head.extend_from_slice(&table);
        head
    }
}

impl Pending<'_> {
    /// Hands the section's bytes to `sink`, padding included.
    fn feed<E>(&self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        for piece in &self.pieces {
            let mut padding = piece.padding;
            while padding > 0 {
                let now = padding.min(ZEROS.len());
                sink(&ZEROS[..now])?;
                padding -= now;
            }
            let at_once = if piece.scattered { SCATTERED_WRITE_BYTES } else { piece.bytes.len().max(1) };
            piece.bytes.chunks(at_once).try_for_each(&mut *sink)?;
        }
        Ok(())
    }

    fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let fed: Result<(), std::convert::Infallible> = self.feed(&mut |bytes| {
            hasher.update(bytes);
            Ok(())
        });
        match fed {
            Ok(()) => hasher.finalize(),
        }
    }
}

/// Writes fewer than a [`PAGE`] of zeros.
fn write_zeros(out: &mut impl Write, count: u64) -> Result<(), ArtifactError> {
    let zeros = [0u8; PAGE as usize];
    out.write_all(&zeros[..(count % PAGE) as usize]).map_err(ArtifactError::Write)
}
