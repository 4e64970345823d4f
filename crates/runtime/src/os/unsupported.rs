//! Systems without a way to make code executable: loading is refused before any pages are asked for.

use std::io;
use std::ptr::NonNull;

/// Never made: there is no value of it.
#[derive(Debug)]
pub(crate) enum CodePages {}

impl CodePages {
    /// Always the error that this system cannot do it.
    pub(crate) fn filled<E>(_len_bytes: usize, _fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E>
    where
        E: From<io::Error>,
    {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        match *self {}
    }
}

/// Always the error that this system cannot do it.
pub(crate) fn map_guarded(_len_bytes: usize) -> io::Result<NonNull<u8>> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Never called: nothing is ever mapped.
///
/// # Safety
/// None is needed.
#[expect(unsafe_code, reason = "the same on every system")]
pub(crate) unsafe fn unmap_guarded(_inner: NonNull<u8>, _len_bytes: usize) {}

/// Always the error that this system cannot do it.
pub(crate) fn map_zeroed(_len_bytes: usize) -> io::Result<NonNull<u8>> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Never called: nothing is ever mapped.
///
/// # Safety
/// None is needed.
#[expect(unsafe_code, reason = "the same on every system")]
pub(crate) unsafe fn unmap_zeroed(_start: NonNull<u8>, _len_bytes: usize) {}
