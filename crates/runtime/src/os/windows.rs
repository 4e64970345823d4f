//! Windows: `VirtualAlloc`, `VirtualProtect`, `VirtualFree`, and the instruction cache.

#![expect(unsafe_code, reason = "calls into kernel32")]

use crate::guarded::GUARD;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

const MEM_COMMIT: u32 = 0x1000;
const MEM_RESERVE: u32 = 0x2000;
const MEM_RELEASE: u32 = 0x8000;
const PAGE_NOACCESS: u32 = 0x01;
const PAGE_READWRITE: u32 = 0x04;
const PAGE_EXECUTE_READ: u32 = 0x20;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualAlloc(address: *mut c_void, size: usize, kind: u32, protect: u32) -> *mut c_void;
    fn VirtualProtect(address: *mut c_void, size: usize, protect: u32, old: *mut u32) -> i32;
    fn VirtualFree(address: *mut c_void, size: usize, kind: u32) -> i32;
    fn GetCurrentProcess() -> *mut c_void;
    fn FlushInstructionCache(process: *mut c_void, address: *const c_void, size: usize) -> i32;
}

/// Pages of this process: first writable, then executable, never both.
#[derive(Debug)]
pub(crate) struct CodePages {
    start: NonNull<u8>,
}

// SAFETY: the pages belong to this value alone, and after construction they are only read (and executed).
unsafe impl Send for CodePages {}
// SAFETY: as above.
unsafe impl Sync for CodePages {}

impl CodePages {
    /// Allocates pages, lets `fill` write them, and makes them read-execute if it returns `Ok`.
    pub(crate) fn filled<E>(len_bytes: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E>
    where
        E: From<io::Error>,
    {
        if len_bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no code").into());
        }
        // SAFETY: new pages at an address of the system's choice touch no memory in use.
        let start = unsafe { VirtualAlloc(std::ptr::null_mut(), len_bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE) };
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::last_os_error().into());
        };
        let pages = Self { start };
        // SAFETY: the pages are `len_bytes` long, zeroed, writable, and nobody else knows of them yet.
        fill(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len_bytes) })?;
        let mut old = 0;
        // SAFETY: exactly the pages allocated above; the slice handed to `fill` is gone; `old` outlives the call.
        if unsafe { VirtualProtect(start.as_ptr().cast(), len_bytes, PAGE_EXECUTE_READ, &mut old) } == 0 {
            return Err(io::Error::last_os_error().into());
        }
        // SAFETY: the pages allocated above, in this process. Failing is impossible for a valid range.
        unsafe { FlushInstructionCache(GetCurrentProcess(), start.as_ptr().cast(), len_bytes) };
        Ok(pages)
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for CodePages {
    fn drop(&mut self) {
        // SAFETY: the pages allocated in `filled`, freed once; MEM_RELEASE wants the size 0. Kernels run only while
        // their image is borrowed.
        unsafe { VirtualFree(self.start.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

/// The first of `len_bytes` zeroed bytes, a multiple of [`GUARD`], with so many inaccessible ones on both sides. The sum fits
/// `isize`.
pub(crate) fn map_guarded(len_bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: new pages at an address of the system's choice touch no memory in use.
    let start = unsafe { VirtualAlloc(std::ptr::null_mut(), len_bytes + 2 * GUARD, MEM_RESERVE, PAGE_NOACCESS) };
    let start = NonNull::new(start.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: within the pages, which reach `GUARD` bytes beyond.
    let inner = unsafe { start.add(GUARD) };
    // SAFETY: a part of the pages reserved above, which nobody knows of yet.
    if unsafe { VirtualAlloc(inner.as_ptr().cast(), len_bytes, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
        let error = io::Error::last_os_error();
        // SAFETY: the pages reserved above; MEM_RELEASE wants the size 0.
        unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
        return Err(error);
    }
    Ok(inner)
}

/// Gives the bytes back, and those on both sides.
///
/// # Safety
/// `inner` comes from [`map_guarded`] with this length, and is not used any more.
pub(crate) unsafe fn unmap_guarded(inner: NonNull<u8>, _len_bytes: usize) {
    // SAFETY: the pages begin `GUARD` bytes before; MEM_RELEASE wants the size 0.
    unsafe { VirtualFree(inner.as_ptr().sub(GUARD).cast(), 0, MEM_RELEASE) };
}

/// `len_bytes` zeroed bytes.
pub(crate) fn map_zeroed(len_bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: new pages at an address of the system's choice touch no memory in use.
    let start = unsafe { VirtualAlloc(std::ptr::null_mut(), len_bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE) };
    NonNull::new(start.cast::<u8>()).ok_or_else(io::Error::last_os_error)
}

/// Gives memory back.
///
/// # Safety
/// `start` comes from [`map_zeroed`], and is not used any more.
pub(crate) unsafe fn unmap_zeroed(start: NonNull<u8>, _len_bytes: usize) {
    // SAFETY: the pages that `map_zeroed` allocated; MEM_RELEASE wants the size 0.
    unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
}
