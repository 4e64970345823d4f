//! Calling a kernel.

#![expect(unsafe_code, reason = "calling machine code is this module's purpose")]

use super::KernelEntry;
use crate::arena::Span;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The kernel ABI: `args` is the block of buffer addresses, values and the reserved word; chunks `begin..end` of the
/// flattened parallel axis are computed; `scratch` is this thread's.
#[cfg(target_arch = "x86_64")]
type KernelFn = unsafe extern "sysv64" fn(args: *const u64, begin: u64, end: u64, scratch: *mut u8);
#[cfg(not(target_arch = "x86_64"))]
type KernelFn = unsafe extern "C" fn(args: *const u64, begin: u64, end: u64, scratch: *mut u8);

/// The launch in progress: one per session, filled by the thread that runs the session, read by the pool's workers.
///
/// All fields are atomics, written only while no worker is inside a region and published by the pool's region counter
/// (release/acquire), so relaxed accesses suffice.
#[derive(Debug)]
pub(crate) struct KernelCall {
    entry: AtomicPtr<u8>,
    /// As long as the longest argument block of the entry's launches.
    args: Box<[AtomicU64]>,
    scratch: AtomicPtr<u8>,
    /// Distance between the scratch memories of neighbouring lanes.
    scratch_stride: AtomicUsize,
}

impl KernelCall {
    /// A call with room for `words` argument words.
    pub(crate) fn with_capacity(words: usize) -> Self {
        Self {
            entry: AtomicPtr::new(std::ptr::null_mut()),
            args: (0..words).map(|_| AtomicU64::new(0)).collect(),
            scratch: AtomicPtr::new(std::ptr::null_mut()),
            scratch_stride: AtomicUsize::new(0),
        }
    }

    /// Sets argument word `index` to the address of `span`.
    pub(crate) fn set_address(&self, index: usize, span: Span) {
        self.args[index].store(span.address(), Ordering::Relaxed);
    }

    /// Sets argument word `index` to a number.
    pub(crate) fn set_value(&self, index: usize, value: i64) {
        self.args[index].store(value.cast_unsigned(), Ordering::Relaxed);
    }

    /// Chooses the kernel and where the lanes' scratch memories lie.
    pub(crate) fn set_kernel(&self, entry: KernelEntry, scratch: Span, scratch_stride: usize) {
        self.entry.store(entry.0.as_ptr(), Ordering::Relaxed);
        self.scratch.store(scratch.as_mut_ptr(), Ordering::Relaxed);
        self.scratch_stride.store(scratch_stride, Ordering::Relaxed);
    }

    /// Forgets the kernel: later calls of [`KernelCall::run_chunks`] do nothing.
    pub(crate) fn clear(&self) {
        self.entry.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Computes chunks `begin..end` with the scratch memory of `lane`.
    pub(crate) fn run_chunks(&self, begin: u64, end: u64, lane: usize) {
        let entry = self.entry.load(Ordering::Relaxed);
        if entry.is_null() {
            return;
        }
        let scratch = self.scratch.load(Ordering::Relaxed);
        let scratch = scratch.wrapping_add(lane * self.scratch_stride.load(Ordering::Relaxed));
        // SAFETY: `entry` came from a `KernelEntry`, that is, from a checked offset into executable pages; the session
        // keeps their image alive, and clears the entry at the end of a run.
        let kernel = unsafe { std::mem::transmute::<*mut u8, KernelFn>(entry) };
        // SAFETY: every address in `args` was made from a `Span` by the session that is inside `run` now: it borrows
        // the caller's buffers, owns arena and scratch (one stride per lane, and the pool gives each thread of a region
        // its own lane), and does not return before the region is over. The offsets were checked against the spans'
        // lengths. That the kernel stays within them is what the compiler that made the artifact vouches for; loading
        // an artifact is documented as trusting it.
        unsafe { kernel(self.args.as_ptr().cast::<u64>(), begin, end, scratch) };
    }
}
