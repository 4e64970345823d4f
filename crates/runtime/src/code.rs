//! Machine code: loading it, calling it, and the processor state it runs under.
//!
//! This is where trust changes hands. Everything in an artifact but its code is checked; the code cannot be. What Rust
//! guarantees to a kernel is stated at [`KernelCall`]; what a kernel must keep to in return is the kernel ABI: it reads
//! and writes only its buffers and scratch, calls nothing, does not unwind, and preserves the registers that the
//! calling convention says.

mod call;
mod fpu;
mod image;

pub(crate) use call::KernelCall;
pub(crate) use fpu::{FpMode, FpScope};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use image::sync_instruction_cache;
pub(crate) use image::{CodeImage, KernelEntry, synchronize_instructions};

/// Whether this build of the runtime can call kernels at all.
pub(crate) const HOST_ARCH: Option<&str> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some("x86-64")
} else if cfg!(all(target_arch = "aarch64", target_endian = "little", target_pointer_width = "64")) {
    Some("aarch64")
} else {
    None
};
