//! Linux and Android: what `mmap` is like there.

#![expect(unsafe_code, reason = "calls into the C library")]

pub(super) use crate::code::sync_instruction_cache;
use std::ffi::{c_int, c_long, c_void};
use std::ptr::NonNull;

pub(super) const MAP_ANONYMOUS: c_int = 0x20;
const MADV_HUGEPAGE: c_int = 14;

// The declarations of <sys/mman.h>; the values above are those of x86-64 and aarch64, the architectures served.
unsafe extern "C" {
    pub(super) fn mmap(
        addr: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut c_void;
    pub(super) fn mprotect(addr: *mut c_void, len: usize, prot: c_int) -> c_int;
    pub(super) fn munmap(addr: *mut c_void, len: usize) -> c_int;
    fn madvise(addr: *mut c_void, len: usize, advice: c_int) -> c_int;
}

/// Asks for large pages. That there are none is no error.
///
/// # Safety
/// Whole pages that are mapped.
pub(super) unsafe fn advise_large_pages(start: NonNull<u8>, len_bytes: usize) {
    // SAFETY: nothing of the contents changes.
    unsafe { madvise(start.as_ptr().cast(), len_bytes, MADV_HUGEPAGE) };
}
