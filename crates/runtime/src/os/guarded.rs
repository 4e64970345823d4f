//! Pages between inaccessible ones on systems with `mmap`.

#![expect(unsafe_code, reason = "calls into the C library")]

use super::pages::{MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE};
use super::system::{MAP_ANONYMOUS, mmap, mprotect, munmap};
use crate::guarded::GUARD;
use std::io;
use std::ptr::NonNull;

/// The first of `len_bytes` zeroed bytes, a multiple of [`GUARD`], with so many inaccessible ones on both sides. The sum fits
/// `isize`.
pub(crate) fn map_guarded(len_bytes: usize) -> io::Result<NonNull<u8>> {
    let all = len_bytes + 2 * GUARD;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { mmap(std::ptr::null_mut(), all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
    // MAP_FAILED is the address −1.
    let Some(start) = NonNull::new(start.cast::<u8>()).filter(|p| p.addr().get() != usize::MAX) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: within the mapping, which is `all` long.
    let inner = unsafe { start.add(GUARD) };
    // SAFETY: a part of the mapping made above, of whole pages, which nobody knows of yet.
    if unsafe { mprotect(inner.as_ptr().cast(), len_bytes, PROT_READ | PROT_WRITE) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: the mapping made above.
        unsafe { munmap(start.as_ptr().cast(), all) };
        return Err(error);
    }
    Ok(inner)
}

/// Gives the bytes back, and those on both sides.
///
/// # Safety
/// `inner` comes from [`map_guarded`] with this length, and is not used any more.
pub(crate) unsafe fn unmap_guarded(inner: NonNull<u8>, len_bytes: usize) {
    // SAFETY: the mapping begins `GUARD` bytes before and is as long as `map_guarded` made it. An error would leave it
    // mapped, which is harmless.
    unsafe { munmap(inner.as_ptr().sub(GUARD).cast(), len_bytes + 2 * GUARD) };
}
