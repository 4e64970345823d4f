//! Tensors in a GPU's memory, which belong to the program that uses the runtime.

use super::{Gpu, GpuAddress, GpuBlock};
use crate::error::RuntimeError;
use crate::view::{TensorView, dense_size};
use infc_tensor::{DType, Tensor};
use std::sync::Arc;

/// Zeros that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A dense, row-major tensor in the memory of a GPU: an input or an output of [`Session::run_on_gpu`](crate::Session::run_on_gpu),
/// which copies neither.
#[derive(Debug)]
pub struct GpuTensor {
    gpu: Arc<dyn Gpu>,
    block: GpuBlock,
    dtype: DType,
    shape: Vec<usize>,
    len_bytes: usize,
}

impl GpuTensor {
    /// A tensor of zeros. Models use it that were loaded onto the same GPU: see [`LoadOptions::gpu`](crate::LoadOptions::gpu) and
    /// [`Model::gpu`](crate::Model::gpu).
    ///
    /// # Errors
    /// `runtime::unsupported-type` for elements without bytes, `runtime::gpu-memory`, `runtime::gpu-failed`.
    pub fn zeros(gpu: &Arc<dyn Gpu>, dtype: DType, shape: &[usize]) -> Result<Self, RuntimeError> {
        if !dtype.has_bytes() {
            return Err(RuntimeError::UnsupportedType { dtype });
        }
        let len_bytes = dense_size(dtype, shape).ok_or(RuntimeError::OutOfMemory { len_bytes: usize::MAX })?;
        let mut block = GpuBlock::empty(Arc::clone(gpu));
        block.reserve(len_bytes)?;
        let new = Self { gpu: Arc::clone(gpu), block, dtype, shape: shape.to_vec(), len_bytes };
        let zeros = vec![0; len_bytes.min(PIECE_BYTES)];
        for start in (0..len_bytes).step_by(PIECE_BYTES) {
            new.copy(start, &zeros[..zeros.len().min(len_bytes - start)])?;
        }
        Ok(new)
    }

    /// A copy of a tensor.
    ///
    /// # Errors
    /// As [`GpuTensor::zeros`].
    pub fn from_view(gpu: &Arc<dyn Gpu>, from: &TensorView<'_>) -> Result<Self, RuntimeError> {
        let mut new = Self::zeros(gpu, from.dtype(), from.shape())?;
        new.write(from)?;
        Ok(new)
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Copies all elements to the GPU, and waits for that.
    ///
    /// # Errors
    /// `runtime::gpu-tensor` if type or shape is another, `runtime::gpu-failed`.
    pub fn write(&mut self, from: &TensorView<'_>) -> Result<(), RuntimeError> {
        if (from.dtype(), from.shape()) != (self.dtype, &self.shape[..]) {
            let reason = format!(
                "it is {}{:?}, and {}{:?} is to be copied to it",
                self.dtype,
                self.shape,
                from.dtype(),
                from.shape()
            );
            return Err(RuntimeError::GpuTensor { port: "a tensor".to_owned(), reason });
        }
        match from.dense_bytes() {
            Some(bytes) => self.copy(0, bytes),
            None => self.copy(0, from.to_tensor()?.bytes()),
        }
    }

    /// A copy of all elements.
    ///
    /// # Errors
    /// `runtime::bad-tensor` if it does not fit in memory, `runtime::gpu-failed`.
    pub fn read(&self) -> Result<Tensor, RuntimeError> {
        let mut tensor = Tensor::zeros(self.dtype, &self.shape)?;
        if self.len_bytes > 0 {
            let read = self.gpu.read(self.block.start(), tensor.bytes_mut());
            read.map_err(|source| RuntimeError::gpu(&*self.gpu, source))?;
        }
        Ok(tensor)
    }

    /// Whoever uses it next may do so from another thread, whose work does not wait for this one's.
    fn copy(&self, start: usize, bytes: &[u8]) -> Result<(), RuntimeError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written =
            self.gpu.write(self.block.start() + start as GpuAddress, bytes).and_then(|()| self.gpu.synchronize());
        written.map_err(|source| RuntimeError::gpu(&*self.gpu, source))
    }

    pub(crate) fn address(&self) -> GpuAddress {
        self.block.start()
    }

    /// Whether it is on a GPU as this handle has it.
    pub(crate) fn is_on(&self, gpu: &Arc<dyn Gpu>) -> bool {
        Arc::ptr_eq(&self.gpu, gpu)
    }

    /// What the GPU is called.
    pub(crate) fn gpu_name(&self) -> String {
        self.gpu.name()
    }
}
