//! The outer format: a header, a table of hashed sections, and the sections, each on pages of its own.
//!
//! All numbers are little-endian. The layout of format 1:
//!
//! 1. Bytes 0..8: [`MAGIC`]. Its first byte is not text, and a transfer that mangles line ends breaks it.
//! 2. Bytes 8..12: format major and minor, a `u16` each.
//! 3. Bytes 12..16: the number of sections, a `u32`.
//! 4. Bytes 16..24: the length of the file, a `u64`.
//! 5. Bytes 24..32: zero.
//! 6. Bytes 32..64: BLAKE3 of bytes 0..32 and of the section table.
//! 7. From byte 64: the table, 64 bytes a section: kind `u32`, flags `u32`, offset `u64`, length `u64`, schema `u32`,
//!    four zero bytes, BLAKE3 of the section (32 bytes).
//! 8. The sections, in the order of the table, each starting at a multiple of [`PAGE`]; zeros between. The file ends
//!    where the last section ends.
//!
//! A section of a kind the reader does not know is skipped, unless [`REQUIRED`] is among its flags. Other flags are for
//! later versions and ignored.

mod reader;
mod writer;

pub use reader::{Container, Section};
pub use writer::{ContainerWriter, Piece};

/// What every artifact begins with.
pub const MAGIC: [u8; 8] = *b"\x89INFA\r\n\x1a";
/// The major version written; a reader also reads the one before it (there is none before 1).
pub const FORMAT_MAJOR: u16 = 1;
/// The minor version written; a reader reads all minors up to its own.
pub const FORMAT_MINOR: u16 = 0;
/// Sections begin at multiples of this.
pub const PAGE: u64 = 4096;
/// The flag of a section that a reader must understand to use the file.
pub const REQUIRED: u32 = 1;

/// Bytes before the table.
const HEADER_LEN: usize = 64;
/// Bytes of the header that the header's hash covers.
const HASHED_HEADER_LEN: usize = 32;
/// Bytes per entry of the table.
const ENTRY_LEN: usize = 64;
/// Sections in one file.
const MAX_SECTIONS: u32 = 4096;

/// What a section holds. Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionKind(pub u32);

impl SectionKind {
    /// The [`Manifest`](crate::Manifest); exactly one.
    pub const MANIFEST: Self = Self(1);
    /// A [`VariantBody`](crate::VariantBody).
    pub const PROGRAM: Self = Self(2);
    /// Machine code of a variant.
    pub const CODE: Self = Self(3);
    /// Constants, mapped in place.
    pub const WEIGHTS: Self = Self(4);
    /// Kernels of a variant for NVIDIA GPUs as the text of one PTX module, an entry each.
    pub const PTX: Self = Self(5);
    /// Kernels of a variant as machine code of one generation of GPUs ([`Cubin`](crate::Cubin)); never required.
    pub const CUBIN: Self = Self(6);

    /// A word for messages and listings; `None` for kinds of later versions.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::MANIFEST => Some("manifest"),
            Self::PROGRAM => Some("program"),
            Self::CODE => Some("code"),
            Self::WEIGHTS => Some("weights"),
            Self::PTX => Some("ptx"),
            Self::CUBIN => Some("cubin"),
            _ => None,
        }
    }
}
