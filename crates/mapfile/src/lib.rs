//! Read-only file mapping behind a safe face.
//!
//! Both the frontend (external weights of many gigabytes) and the runtime (artifacts) read files in place. Mapping is
//! the one thing they share that needs `unsafe`, so it lives here alone.
//!
//! The caveat every mapping has: if another process truncates the file while it is mapped, touching the lost pages
//! raises SIGBUS. Writers of infc replace files by rename, which keeps old mappings whole.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// The contents of a file, mapped read-only and private.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole file.
    ///
    /// # Errors
    /// What the operating system says: the file is missing, not readable, or not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        #[expect(unsafe_code, reason = "mapping a file is this crate's purpose")]
        // SAFETY: the mapping is private and read-only, and nothing in this process writes to it. Truncation by
        // another process cannot be excluded by any means; it ends in a signal, not in undefined values, and is
        // documented at the top of this file.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self { map })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
