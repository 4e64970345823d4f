//! Pages of code on systems with `mmap`; their numbers and declarations are in `linux` and `macos`.

#![expect(unsafe_code, reason = "calls into the C library")]

use super::system::{MAP_ANONYMOUS, mmap, mprotect, munmap, sync_instruction_cache};
use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

// The same on every system served.
pub(super) const PROT_NONE: c_int = 0;
pub(super) const PROT_READ: c_int = 1;
pub(super) const PROT_WRITE: c_int = 2;
const PROT_EXEC: c_int = 4;
pub(super) const MAP_PRIVATE: c_int = 0x02;

/// Anonymous pages of this process: first writable, then executable, never both.
#[derive(Debug)]
pub(crate) struct CodePages {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the pages belong to this value alone, and after construction they are only read (and executed).
unsafe impl Send for CodePages {}
// SAFETY: as above.
unsafe impl Sync for CodePages {}

impl CodePages {
    /// Maps pages, lets `fill` write them, and makes them read-execute if it returns `Ok`.
    pub(crate) fn filled<E>(len_bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E>
    where
        E: From<io::Error>,
    {
        if len_bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no code").into());
        }
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        };
        // MAP_FAILED is the address −1.
        let Some(start) = NonNull::new(start.cast::<u8>()).filter(|p| p.addr().get() != usize::MAX) else {
            return Err(io::Error::last_os_error().into());
        };
        let pages = Self { start, len_bytes };
        // SAFETY: the mapping is `len_bytes` long, zeroed, writable, and nobody else knows of it yet.
        fill(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len_bytes) })?;
        // SAFETY: exactly the mapping made above; the slice handed to `fill` is gone.
        if unsafe { mprotect(start.as_ptr().cast(), len_bytes, PROT_READ | PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error().into());
        }
        sync_instruction_cache(start, len_bytes);
        Ok(pages)
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for CodePages {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `filled`, unmapped once. Kernels run only while their image is borrowed. An error
        // would leave the pages mapped, which is harmless.
        unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
    }
}
