//! What a model has on a GPU: its kernels and its weights.

use super::{Gpu, GpuAddress, GpuBlock, GpuError, GpuFunction};
use crate::error::RuntimeError;
use infc_artifact::{ArtifactError, Hash, KernelInfo};
use std::ops::Range;
use std::sync::Arc;

/// The kernels of a variant, loaded, and the weights in one block.
#[derive(Debug)]
pub(crate) struct GpuCode {
    pub(crate) gpu: Arc<dyn Gpu>,
    /// Per kernel of the variant.
    functions: Vec<GpuFunction>,
    /// All bytes of the file from the first weight to the last.
    weights: GpuBlock,
    /// Where those bytes begin in the file.
    first_weight: usize,
}

impl GpuCode {
    /// Loads every kernel, whose texts are ranges of `ptx`, and copies the weights, which are ranges of `file`.
    pub(crate) fn load(
        gpu: &Arc<dyn Gpu>,
        (ptx, hash): (&[u8], Hash),
        kernels: &[KernelInfo],
        (file, weights): (&[u8], &[Range<usize>]),
    ) -> Result<Self, RuntimeError> {
        let found = Hash::of(ptx);
        if found != hash {
            let what = "the PTX section".to_owned();
            return Err(ArtifactError::HashMismatch { what, expected: hash, found }.into());
        }
        let empty = GpuBlock::empty(Arc::clone(gpu));
        let mut this = Self { gpu: Arc::clone(gpu), functions: Vec::new(), weights: empty, first_weight: 0 };
        for kernel in kernels {
            this.functions.push(this.function(ptx, kernel)?);
        }
        if let (Some(start), Some(end)) = (weights.iter().map(|w| w.start).min(), weights.iter().map(|w| w.end).max()) {
            this.first_weight = start;
            this.weights.reserve(end - start)?;
            if end > start {
                let bytes = &file[start..end];
                gpu.write(this.weights.start(), bytes).map_err(|source| RuntimeError::gpu(&**gpu, source))?;
            }
        }
        Ok(this)
    }

    fn function(&self, ptx: &[u8], kernel: &KernelInfo) -> Result<GpuFunction, RuntimeError> {
        let fault = |expected: &str, found: &str| RuntimeError::BadProgram {
            what: format!("kernel `{}`", kernel.name),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        let device = kernel.device.as_ref().ok_or_else(|| fault("how it is started", "nothing"))?;
        // The range was checked when the artifact was read.
        let text = (kernel.code_offset as usize)..(kernel.code_offset + kernel.code_len) as usize;
        let text = ptx.get(text).and_then(|bytes| std::str::from_utf8(bytes).ok()).filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| fault("PTX", "bytes that are no text"))?;
        self.gpu.load(text, device).map_err(|source| match source {
            GpuError::Refused { log } => RuntimeError::GpuKernel {
                kernel: kernel.name.clone(),
                origins: kernel.origins.join(", "),
                gpu: self.gpu.name(),
                log,
            },
            source => RuntimeError::gpu(&*self.gpu, source),
        })
    }

    /// The kernel of this index.
    pub(crate) fn kernel(&self, index: usize) -> Option<GpuFunction> {
        self.functions.get(index).copied()
    }

    /// Where the weight is that lies in this range of the file.
    pub(crate) fn weight(&self, range: &Range<usize>) -> GpuAddress {
        self.weights.start() + range.start.saturating_sub(self.first_weight) as u64
    }
}

impl Drop for GpuCode {
    fn drop(&mut self) {
        // What is still running of a run that failed may be using them.
        let _ = self.gpu.synchronize();
        self.functions.iter().for_each(|&function| self.gpu.unload(function));
    }
}
