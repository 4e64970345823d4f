//! The code section of a variant, copied to pages of its own and made executable.

use super::HOST_ARCH;
use crate::error::RuntimeError;
use crate::os::CodePages;
use infc_artifact::{ArtifactError, Hash};
use std::io;
use std::ptr::NonNull;

/// Executable code; kernels are entered at checked offsets.
#[derive(Debug)]
pub(crate) struct CodeImage {
    /// `None` for a variant whose Programs launch nothing.
    pages: Option<CodePages>,
    len_bytes: usize,
}

/// The address of a kernel inside a [`CodeImage`]; valid while the image is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelEntry(pub(super) NonNull<u8>);

// SAFETY: an address inside pages that no thread writes.
#[expect(unsafe_code, reason = "a pointer to immutable code")]
unsafe impl Send for KernelEntry {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer to immutable code")]
unsafe impl Sync for KernelEntry {}

/// Why loading failed: the system refused, or the copy is not what the file says.
enum LoadError {
    Os(io::Error),
    Damaged(ArtifactError),
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

impl CodeImage {
    /// Copies `code` and compares the hash of the *copy*, so that nobody who can write the file can change the code
    /// between check and use.
    pub(crate) fn load(code: &[u8], expected: Hash) -> Result<Self, RuntimeError> {
        let len_bytes = code.len();
        if len_bytes == 0 {
            return Ok(Self { pages: None, len_bytes });
        }
        let pages = CodePages::filled(len_bytes, |pages| {
            pages.copy_from_slice(code);
            let found = Hash::of(pages);
            if found == expected {
                return Ok(());
            }
            let what = "the code section".to_owned();
            Err(LoadError::Damaged(ArtifactError::HashMismatch { what, expected, found }))
        });
        match pages {
            Ok(pages) => Ok(Self { pages: Some(pages), len_bytes }),
            Err(LoadError::Damaged(error)) => Err(error.into()),
            Err(LoadError::Os(source)) => Err(RuntimeError::CodeMemory { len_bytes, source }),
        }
    }

    /// The kernel that begins at `offset`; `None` if that is outside the image or the host cannot run kernels.
    pub(crate) fn kernel(&self, offset: u64) -> Option<KernelEntry> {
        HOST_ARCH?;
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.len_bytes)?;
        let start = self.pages.as_ref()?.start();
        #[expect(unsafe_code, reason = "an address inside the image")]
        // SAFETY: `offset` is below the length of the mapping.
        Some(KernelEntry(unsafe { start.add(offset) }))
    }
}

/// Lets this thread fetch instructions that another has made visible ([`sync_instruction_cache`]); x86 does so by itself.
/// What it fetched before, from an address that is used again, may be waiting in its pipeline otherwise (Arm ARM, B2.4.4).
pub(crate) fn synchronize_instructions() {
    #[cfg(target_arch = "aarch64")]
    #[expect(unsafe_code, reason = "a barrier has no other access")]
    // SAFETY: a barrier, which changes neither registers nor memory; every process may execute it.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags))
    };
}

/// Makes freshly written instructions visible to instruction fetch; x86 does so by itself.
#[cfg(all(any(target_os = "linux", target_os = "android"), not(target_arch = "aarch64")))]
pub(crate) fn sync_instruction_cache(_start: NonNull<u8>, _len_bytes: usize) {}

/// Makes freshly written instructions visible to instruction fetch (Arm ARM, B2.4.4).
#[cfg(all(any(target_os = "linux", target_os = "android"), target_arch = "aarch64"))]
pub(crate) fn sync_instruction_cache(start: NonNull<u8>, len_bytes: usize) {
    let (start, end) = (start.addr().get(), start.addr().get() + len_bytes);
    let ctr: u64;
    #[expect(unsafe_code, reason = "cache maintenance has no other access")]
    // SAFETY: reads the cache type register, which Linux lets every process read.
    unsafe {
        std::arch::asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags))
    };
    // Line sizes are given as log2 of 4-byte words.
    let data_line = 4usize << ((ctr >> 16) & 0xf);
    let code_line = 4usize << (ctr & 0xf);
    for line in (start & !(data_line - 1)..end).step_by(data_line) {
        #[expect(unsafe_code, reason = "cache maintenance has no other access")]
        // SAFETY: cleans a cache line of readable memory; contents do not change.
        unsafe {
            std::arch::asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags))
        };
    }
    #[expect(unsafe_code, reason = "cache maintenance has no other access")]
    // SAFETY: a barrier.
    unsafe {
        std::arch::asm!("dsb ish", options(nostack, preserves_flags))
    };
    for line in (start & !(code_line - 1)..end).step_by(code_line) {
        #[expect(unsafe_code, reason = "cache maintenance has no other access")]
        // SAFETY: invalidates a line of the instruction cache.
        unsafe {
            std::arch::asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags))
        };
    }
    #[expect(unsafe_code, reason = "cache maintenance has no other access")]
    // SAFETY: barriers.
    unsafe {
        std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags))
    };
}
