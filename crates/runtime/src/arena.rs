//! Memory for a session, and spans of memory as kernels see them.

#![expect(unsafe_code, reason = "aligned memory and untyped views of it are this module's purpose")]

use crate::error::RuntimeError;
use crate::os::{map_zeroed, unmap_zeroed};
use infc_tensor::Element;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

/// Start of every arena: a cache line, and the widest vector.
const ALIGN: usize = 64;

/// From this length on, arenas are mapped by themselves: with less, little is gained by large pages, and a call of the system
/// costs more than the allocator.
const MAPPED_FROM: usize = 2 << 20;

/// Zeroed, 64-byte aligned memory. Unlike a `Vec`, it reports failure instead of ending the process.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Dangling if `len_bytes` is 0.
    start: NonNull<u8>,
    len_bytes: usize,
    /// Whether the system has mapped it by itself (`map_zeroed`), instead of the allocator.
    is_mapped: bool,
}

// SAFETY: an arena owns its memory as a `Box<[u8]>` does; `&Arena` gives only shared access.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without memory.
    pub(crate) fn empty() -> Self {
        Self { start: NonNull::<Line>::dangling().cast(), len_bytes: 0, is_mapped: false }
    }

    /// `len_bytes` zero bytes.
    pub(crate) fn zeroed(len_bytes: usize) -> Result<Self, RuntimeError> {
        let out_of_memory = || RuntimeError::OutOfMemory { len_bytes };
        if len_bytes == 0 {
            return Ok(Self::empty());
        }
        if len_bytes >= MAPPED_FROM
            && let Ok(start) = map_zeroed(len_bytes)
        {
            return Ok(Self { start, len_bytes, is_mapped: true });
        }
        let layout = Layout::from_size_align(len_bytes, ALIGN).map_err(|_| out_of_memory())?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        Ok(Self { start: NonNull::new(start).ok_or_else(out_of_memory)?, len_bytes, is_mapped: false })
    }

    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Self, RuntimeError> {
        let mut arena = Self::zeroed(bytes.len())?;
        arena.bytes_mut().copy_from_slice(bytes);
        Ok(arena)
    }

    /// Makes sure there are at least `len_bytes`; the contents are lost if it has to grow.
    pub(crate) fn reserve(&mut self, len_bytes: usize) -> Result<(), RuntimeError> {
        if self.len_bytes < len_bytes {
            // The old memory goes first: the peak is the larger of the two, not their sum.
            *self = Self::empty();
            *self = Self::zeroed(len_bytes)?;
        }
        Ok(())
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and zeroed with this length (or dangling with length 0), and borrowed from `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }

    /// All bytes, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }

    /// The whole arena as a span that kernels may write.
    pub(crate) fn span(&mut self) -> Span {
        Span { start: self.start.as_ptr(), len_bytes: self.len_bytes }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: mapped by `zeroed` with exactly this length.
            unsafe { unmap_zeroed(self.start, self.len_bytes) };
        } else if self.len_bytes > 0 {
            // SAFETY: allocated by `zeroed` with exactly this layout, which was valid then.
            unsafe { dealloc(self.start.as_ptr(), Layout::from_size_align_unchecked(self.len_bytes, ALIGN)) };
        }
    }
}

/// Only for its alignment.
#[repr(align(64))]
struct Line;

/// Where some memory is and how long it is. A span does not keep its memory alive: the session that makes spans keeps
/// to the run in which the memory is borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: *mut u8,
    len_bytes: usize,
}

// SAFETY: a span is an address and a length; who follows the address answers for it.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// No memory.
    pub(crate) const EMPTY: Self = Self { start: std::ptr::dangling_mut::<u8>(), len_bytes: 0 };

    /// Memory that is only read through this span: the caller puts it where nothing writes (inputs and weights, which
    /// the artifact's checks keep from being written).
    pub(crate) fn read_only(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr().cast_mut(), len_bytes: bytes.len() }
    }

    /// Memory that may be written while `bytes` is borrowed.
    pub(crate) fn writable(bytes: &mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), len_bytes: bytes.len() }
    }

    /// The first byte, if there is one. Kernels that write it have returned.
    pub(crate) fn first_byte(self) -> Option<u8> {
        // SAFETY: the span covers initialised memory of this length; reads between steps meet no writer.
        (self.len_bytes > 0).then(|| unsafe { self.start.read() })
    }

    /// The address, as kernels take it.
    pub(crate) fn address(self) -> u64 {
        // Exposed, since machine code makes a pointer of it again.
        self.start.expose_provenance() as u64
    }

    pub(crate) fn as_mut_ptr(self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len_bytes(self) -> usize {
        self.len_bytes
    }

    /// The part of the span in `range`; `None` if it reaches beyond.
    pub(crate) fn get(self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len_bytes {
            return None;
        }
        Some(Self { start: self.start.wrapping_add(range.start), len_bytes: range.end - range.start })
    }

    /// Copies `len_bytes` from the start of `self` to the start of `to`; false if either is shorter.
    pub(crate) fn copy_to(self, to: Span, len_bytes: usize) -> bool {
        if len_bytes > self.len_bytes || len_bytes > to.len_bytes {
            return false;
        }
        // SAFETY: both spans are memory of the run in progress (see `Span`), long enough as just checked; `to` is an
        // output or an arena slot, which the artifact's checks make sure of. `copy` allows overlap.
        unsafe { std::ptr::copy(self.start, to.start, len_bytes) };
        true
    }

    /// Lets `fill` write the bytes, of memory that may be written ([`Span::writable`], [`Arena::span`]).
    pub(crate) fn fill<T>(self, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        // SAFETY: memory of the run in progress (see `Span`) that its makers let be written: an output, a state, or a slot
        // of the arena, to which a GPU's contents are brought; inputs and weights are on the host from the start and the
        // artifact's checks let no step write them (`Residency::begin`, `validate`), so nothing is ever brought there.
        // While the slice lives nobody else reads or writes it: this is called between steps, by the thread that runs
        // them.
        fill(unsafe { std::slice::from_raw_parts_mut(self.start, self.len_bytes) })
    }

    /// The bytes, for the observer of a step that is over and before the next begins.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: memory of the run in progress (see `Span`); address and length came from a slice or an arena, and
        // between two steps nobody writes.
        unsafe { std::slice::from_raw_parts(self.start, self.len_bytes) }
    }
}

/// The bytes of typed elements.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: `Element` requires `Pod`: no padding, so every byte is initialised; a byte slice needs no alignment.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of typed elements, for writing.
pub(crate) fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as `bytes_of`; every bit pattern is a valid element, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `os` can map memory here.
    const MAPS: bool = cfg!(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "ios",
        target_os = "windows"
    ));

    /// From the allocator, or mapped: with room for one large page, not quite for two, and for more.
    #[test]
    fn zeroed_of_any_length() {
        for len_bytes in [0, 1, 4097, MAPPED_FROM - 1, MAPPED_FROM, (4 << 20) - 1, (6 << 20) + 12345] {
            let mut arena = Arena::zeroed(len_bytes).expect("memory");
            let is_mapped = len_bytes >= MAPPED_FROM && MAPS;
            assert_eq!(arena.is_mapped, is_mapped, "{len_bytes}");
            // What is to be in large pages begins with one.
            assert!(cfg!(windows) || !is_mapped || arena.start.addr().get().is_multiple_of(MAPPED_FROM), "{len_bytes}");
            assert_eq!((arena.bytes().len(), arena.start.addr().get() % ALIGN), (len_bytes, 0));
            assert!(arena.bytes().iter().all(|&byte| byte == 0), "{len_bytes}");
            arena.bytes_mut().fill(1);
            arena.reserve(len_bytes).expect("it is there");
            assert!(arena.bytes().iter().all(|&byte| byte == 1), "{len_bytes}");
            arena.reserve(len_bytes + 1).expect("memory");
            assert!(arena.bytes().iter().all(|&byte| byte == 0), "{len_bytes}");
        }
    }

    #[test]
    fn more_than_there_is() {
        for len_bytes in [usize::MAX, usize::MAX / 2, usize::MAX / 2 - (4 << 20), 1 << 62] {
            let error = Arena::zeroed(len_bytes).map(drop).expect_err("too much");
            assert_eq!(error.code(), "runtime::out-of-memory", "{len_bytes}");
        }
    }
}
