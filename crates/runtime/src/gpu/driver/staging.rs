//! Memory of the host that the GPU reads and writes by itself.
//!
//! What is copied from other memory a driver has to bring to such memory first, and the host has to wait until it has.
//! So small copies, such as a model's inputs, go through a ring that is kept: the host goes on as soon as its bytes are there.

use super::{GpuError, NvidiaGpu};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes of the ring; what is longer does not go through it.
const RING_BYTES: usize = 4 << 20;
/// Places within begin at multiples of this.
const ALIGN: usize = 256;

/// The ring.
#[derive(Debug, Default)]
pub(super) struct Staging {
    memory: Memory,
    /// Behind what copies that nobody has waited for may be using.
    next: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Memory {
    #[default]
    NotYet,
    Allocated(NonNull<u8>),
    /// The driver has none.
    Unavailable,
}

impl Staging {
    /// So many bytes that no copy is using; `None` if they do not go through the ring. Waits for the GPU only where the ring
    /// begins again.
    pub(super) fn place(&mut self, gpu: &NvidiaGpu, len_bytes: usize) -> Result<Option<NonNull<u8>>, GpuError> {
        if len_bytes > RING_BYTES {
            return Ok(None);
        }
        if let Memory::NotYet = self.memory {
            self.memory = gpu.allocate_pinned(RING_BYTES).map_or(Memory::Unavailable, Memory::Allocated);
        }
        let Memory::Allocated(start) = self.memory else { return Ok(None) };
        if RING_BYTES - self.next < len_bytes {
            gpu.wait()?;
            self.next = 0;
        }
        let place = self.next;
        self.next = (place + len_bytes).next_multiple_of(ALIGN).min(RING_BYTES);
        // SAFETY: the place is within the ring: what is left of it behind `next` has room for the bytes, or all of it has.
        Ok(Some(unsafe { start.add(place) }))
    }

    /// Notes that the GPU has been waited for.
    pub(super) fn is_unused(&mut self) {
        self.next = 0;
    }

    /// The memory, to be given back.
    pub(super) fn take(&mut self) -> Option<*mut c_void> {
        match std::mem::take(&mut self.memory) {
            Memory::Allocated(start) => Some(start.as_ptr().cast()),
            Memory::NotYet | Memory::Unavailable => None,
        }
    }
}
