//! Memory of a GPU that is given back when nobody needs it.

use super::{Gpu, GpuAddress};
use crate::error::RuntimeError;
use std::sync::Arc;

/// A range of a GPU's memory.
#[derive(Debug)]
pub(crate) struct GpuBlock {
    gpu: Arc<dyn Gpu>,
    start: GpuAddress,
    /// There is no memory if this is 0.
    len_bytes: usize,
}

impl GpuBlock {
    /// No memory.
    pub(crate) fn empty(gpu: Arc<dyn Gpu>) -> Self {
        Self { gpu, start: 0, len_bytes: 0 }
    }

    /// Makes sure there are at least `len_bytes`; the contents are lost if it has to grow.
    pub(crate) fn reserve(&mut self, len_bytes: usize) -> Result<(), RuntimeError> {
        if self.len_bytes < len_bytes {
            self.release();
            self.start = self.gpu.allocate(len_bytes).map_err(|source| RuntimeError::gpu(&*self.gpu, source))?;
            self.len_bytes = len_bytes;
        }
        Ok(())
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> GpuAddress {
        self.start
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn release(&mut self) {
        if self.len_bytes > 0 {
            // A run that failed may have left launches behind; what they come to, nobody asks any more.
            let _ = self.gpu.synchronize();
            self.gpu.free(self.start);
        }
        (self.start, self.len_bytes) = (0, 0);
    }
}

impl Drop for GpuBlock {
    fn drop(&mut self) {
        self.release();
    }
}
