//! Bytes aligned for the widest vectors.

use std::ops::{Deref, DerefMut};

/// One cache line; makes the allocation of [`AlignedBytes`] 64-byte aligned without unsafe code.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growable-once byte buffer whose start is 64-byte aligned.
#[derive(Clone)]
pub struct AlignedBytes {
    lines: Vec<Line>,
    len_bytes: usize,
}

impl AlignedBytes {
    /// `len_bytes` zero bytes.
    #[must_use]
    pub fn zeroed(len_bytes: usize) -> Self {
        Self { lines: bytemuck::zeroed_vec(len_bytes.div_ceil(64)), len_bytes }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len_bytes]
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len_bytes]
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for AlignedBytes {}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len_bytes)
    }
}
