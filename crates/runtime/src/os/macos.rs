//! macOS and iOS: what `mmap` is like there, and the instruction cache.

#![expect(unsafe_code, reason = "calls into the C library")]

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr::NonNull;

pub(super) const MAP_ANONYMOUS: c_int = 0x1000;

// The declarations of <sys/mman.h>; the value above is that of both architectures served.
unsafe extern "C" {
    pub(super) fn mmap(
        addr: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_longlong,
    ) -> *mut c_void;
    pub(super) fn mprotect(addr: *mut c_void, len: usize, prot: c_int) -> c_int;
    pub(super) fn munmap(addr: *mut c_void, len: usize) -> c_int;
    // <libkern/OSCacheControl.h>; does nothing on x86-64.
    fn sys_icache_invalidate(start: *mut c_void, len: usize);
}

/// Nothing: the system decides by itself.
///
/// # Safety
/// Whole pages that are mapped.
pub(super) unsafe fn advise_large_pages(_start: NonNull<u8>, _len_bytes: usize) {}

/// Lets this processor see new instructions in a mapping.
pub(super) fn sync_instruction_cache(start: NonNull<u8>, len_bytes: usize) {
    // SAFETY: only the range that the caller has mapped is named, and nothing of it changes.
    unsafe { sys_icache_invalidate(start.as_ptr().cast(), len_bytes) };
}
