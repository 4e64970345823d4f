//! Large zeroed memory on systems with `mmap`.

#![expect(unsafe_code, reason = "calls into the C library")]

use super::pages::{MAP_PRIVATE, PROT_READ, PROT_WRITE};
use super::system::{MAP_ANONYMOUS, advise_large_pages, mmap, munmap};
use std::io;
use std::ptr::NonNull;

/// Bytes of a large page: those of x86-64, and of aarch64 with small pages of 4 KiB.
const LARGE_PAGE: usize = 2 << 20;

/// `len_bytes` zeroed bytes from a multiple of [`LARGE_PAGE`] on. Nothing of them takes memory before it is touched; whole large
/// pages take it at once, where the system has them.
pub(crate) fn map_zeroed(len_bytes: usize) -> io::Result<NonNull<u8>> {
    let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
    let kept = len_bytes.checked_next_multiple_of(LARGE_PAGE).ok_or_else(too_large)?;
    let all = kept.checked_add(LARGE_PAGE).filter(|&all| isize::try_from(all).is_ok()).ok_or_else(too_large)?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { mmap(std::ptr::null_mut(), all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    // MAP_FAILED is the address −1.
    let Some(start) = NonNull::new(start.cast::<u8>()).filter(|p| p.addr().get() != usize::MAX) else {
        return Err(io::Error::last_os_error());
    };
    let before = start.addr().get().next_multiple_of(LARGE_PAGE) - start.addr().get();
    // SAFETY: what is before and behind the part that is kept are whole pages of the mapping made above, which is `all` long
    // (`before` is less than a large page, so that there is always something behind); nobody knows of it yet. Errors would
    // leave them mapped, which is harmless.
    unsafe {
        let inner = start.add(before);
        if before > 0 {
            munmap(start.as_ptr().cast(), before);
        }
        munmap(inner.add(kept).as_ptr().cast(), LARGE_PAGE - before);
        // Of the last page only what is asked for is to take memory.
        advise_large_pages(inner, len_bytes / LARGE_PAGE * LARGE_PAGE);
        Ok(inner)
    }
}

/// Gives memory back.
///
/// # Safety
/// `start` comes from [`map_zeroed`] with this length, and is not used any more.
pub(crate) unsafe fn unmap_zeroed(start: NonNull<u8>, len_bytes: usize) {
    // SAFETY: what `map_zeroed` kept. An error would leave it mapped, which is harmless.
    unsafe { munmap(start.as_ptr().cast(), len_bytes.next_multiple_of(LARGE_PAGE)) };
}
