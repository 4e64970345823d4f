//! Memory whose neighbourhood nobody may touch.

#![expect(unsafe_code, reason = "views of mapped memory")]

use crate::os;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Inaccessible bytes before and behind: a multiple of every system's pages.
pub(crate) const GUARD: usize = 64 << 10;

/// At which of its ends memory touches what is inaccessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The byte before the first one is inaccessible.
    Start,
    /// The byte behind the last one is inaccessible.
    End,
}

impl Flush {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Start, Self::End];
}

/// Zeroed bytes between inaccessible pages: who reads or writes beyond the end that is flush with them, be it a byte, is
/// ended by the system. For finding out whether code stays within its buffers.
#[derive(Debug)]
pub struct GuardedBytes {
    /// Of the pages in between, of which there are some even for no bytes.
    pages: NonNull<u8>,
    pages_bytes: usize,
    offset: usize,
    len_bytes: usize,
}

// SAFETY: the pages belong to this value alone, as a `Box<[u8]>` does; `&GuardedBytes` gives only shared access.
unsafe impl Send for GuardedBytes {}
// SAFETY: as above.
unsafe impl Sync for GuardedBytes {}

impl GuardedBytes {
    /// `len_bytes` zero bytes.
    ///
    /// # Errors
    /// What the system says: there is not so much memory, or it has no such pages.
    pub fn zeroed(len_bytes: usize, flush: Flush) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let pages_bytes = len_bytes.max(1).checked_next_multiple_of(GUARD).ok_or_else(too_large)?;
        // Behind them and before them there is as much as `GUARD`.
        pages_bytes.checked_add(2 * GUARD).filter(|&all| isize::try_from(all).is_ok()).ok_or_else(too_large)?;
        let offset = match flush {
            Flush::Start => 0,
            Flush::End => pages_bytes - len_bytes,
        };
        Ok(Self { pages: os::map_guarded(pages_bytes)?, pages_bytes, offset, len_bytes })
    }
}

impl Deref for GuardedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `offset + len_bytes` is at most `pages_bytes`, all of which are mapped, zeroed and readable until `drop`.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().add(self.offset), self.len_bytes) }
    }
}

impl DerefMut for GuardedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `deref`; they are writable, too, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_ptr().add(self.offset), self.len_bytes) }
    }
}

impl Drop for GuardedBytes {
    fn drop(&mut self) {
        // SAFETY: mapped by `zeroed` with this length, and nobody else has the address.
        unsafe { os::unmap_guarded(self.pages, self.pages_bytes) };
    }
}

#[cfg(all(test, any(unix, windows)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_flush_with_its_end() {
        for len_bytes in [0, 1, 63, 4096, GUARD - 1, GUARD, GUARD + 1, 300_000] {
            for flush in Flush::ALL {
                let mut bytes = GuardedBytes::zeroed(len_bytes, flush).expect("memory");
                assert!(bytes.len() == len_bytes && bytes.iter().all(|&byte| byte == 0));
                bytes.fill(7);
                assert!(bytes.iter().all(|&byte| byte == 7));
                let edge = match flush {
                    Flush::Start => bytes.as_ptr().addr(),
                    Flush::End => bytes.as_ptr_range().end.addr(),
                };
                assert_eq!(edge % 4096, 0, "{len_bytes} bytes, {flush:?}");
            }
        }
        assert!(GuardedBytes::zeroed(usize::MAX, Flush::End).is_err());
        assert!(GuardedBytes::zeroed(usize::MAX - 4 * GUARD, Flush::End).is_err());
    }

    /// The map of the process says what may be done where: nothing on either side.
    #[cfg(target_os = "linux")]
    #[test]
    fn both_sides_are_inaccessible() {
        let bytes = GuardedBytes::zeroed(100_000, Flush::Start).expect("memory");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
        let rights = |address: usize| {
            maps.lines().find_map(|line| {
                let (range, rest) = line.split_once(' ')?;
                let (start, end) = range.split_once('-')?;
                let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).expect("an address"));
                (start..end).contains(&address).then(|| rest[..4].to_owned())
            })
        };
        let (start, pages) = (bytes.pages.as_ptr().addr(), bytes.pages_bytes);
        for (address, expected) in [
            (start - GUARD, "---p"),
            (start - 1, "---p"),
            (start, "rw-p"),
            (start + pages - 1, "rw-p"),
            (start + pages, "---p"),
            (start + pages + GUARD - 1, "---p"),
        ] {
            assert_eq!(rights(address).as_deref(), Some(expected), "{address:x} of {start:x}");
        }
    }
}
