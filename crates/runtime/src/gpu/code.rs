//! What a model has on a GPU: its kernels and its weights.

use super::{Gpu, GpuAddress, GpuBlock, GpuError, GpuFunction, GpuImage, GpuModule};
use crate::error::RuntimeError;
use crate::select::GpuSelection;
use infc_artifact::{Artifact, ArtifactError, Hash, KernelInfo, VariantBody};
use std::ops::Range;
use std::sync::Arc;

/// The kernels of a variant, loaded, and the weights in one block.
#[derive(Debug)]
pub(crate) struct GpuCode {
    pub(crate) gpu: Arc<dyn Gpu>,
    modules: Vec<GpuModule>,
    /// Per kernel of the variant.
    functions: Vec<GpuFunction>,
    /// All bytes of the file from the first weight to the last.
    weights: GpuBlock,
    /// Where those bytes begin in the file.
    first_weight: usize,
}

impl GpuCode {
    /// Loads the kernels of a variant, by its index: machine code of this very generation if there is some that the driver
    /// takes, else PTX. Copies the weights, which are ranges of `file`.
    pub(crate) fn load(
        gpu: &Arc<dyn Gpu>,
        (artifact, variant): (&Artifact<'_>, usize),
        body: &VariantBody,
        (file, weights): (&[u8], &[Range<usize>]),
    ) -> Result<(Self, GpuSelection), RuntimeError> {
        let empty = GpuBlock::empty(Arc::clone(gpu));
        let (modules, functions) = (Vec::new(), Vec::new());
        let mut this = Self { gpu: Arc::clone(gpu), modules, functions, weights: empty, first_weight: 0 };
        let mut selection = GpuSelection { name: gpu.name(), capability: gpu.capability(), ..GpuSelection::default() };
        for cubin in artifact.cubins(variant)?.iter().filter(|cubin| cubin.capability == gpu.capability()) {
            artifact.container().verified(cubin.section)?;
            match this.load_image(GpuImage::Cubin(cubin.image), &body.kernels) {
                Ok(()) => selection.is_machine_code = true,
                Err(error) => {
                    this.unload();
                    selection.refused = Some(error.to_string());
                }
            }
        }
        if !selection.is_machine_code {
            let (ptx, section) = artifact.code(variant)?;
            selection.refused_together = this.load_ptx(ptx, section.hash, body)?;
        }
        if let (Some(start), Some(end)) = (weights.iter().map(|w| w.start).min(), weights.iter().map(|w| w.end).max()) {
            this.first_weight = start;
            this.weights.reserve(end - start)?;
            if end > start {
                let bytes = &file[start..end];
                gpu.write(this.weights.start(), bytes).map_err(|source| RuntimeError::gpu(&**gpu, source))?;
            }
        }
        Ok((this, selection))
    }

    /// One image of all kernels.
    fn load_image(&mut self, image: GpuImage<'_>, kernels: &[KernelInfo]) -> Result<(), GpuError> {
        let module = self.gpu.load(image)?;
        self.modules.push(module);
        for kernel in kernels {
            let device = kernel.device.as_ref().ok_or_else(|| GpuError::Refused { log: fault(kernel).to_string() })?;
            self.functions.push(self.gpu.function(module, device)?);
        }
        Ok(())
    }

    /// The module whose entries the kernels are, as a whole: drivers take long to begin with each module that they translate,
    /// and newer ones translate the entries of one on several threads. If it is refused, each entry as a module of its own,
    /// to tell which of them is at fault; if none is, why they were refused as a whole.
    fn load_ptx(&mut self, ptx: &[u8], hash: Hash, body: &VariantBody) -> Result<Option<String>, RuntimeError> {
        let found = Hash::of(ptx);
        if found != hash {
            let what = "the PTX section".to_owned();
            return Err(ArtifactError::HashMismatch { what, expected: hash, found }.into());
        }
        let head = body.head(ptx);
        let mut refused = None;
        // Older files have no head, as each kernel is a module with one of its own.
        if !head.is_empty() {
            let whole = text_of(ptx, || "the PTX section".to_owned())?;
            match self.load_image(GpuImage::Ptx(whole), &body.kernels) {
                Ok(()) => return Ok(None),
                Err(GpuError::Refused { log }) => {
                    self.unload();
                    refused = Some(log);
                }
                Err(source) => return Err(RuntimeError::gpu(&*self.gpu, source)),
            }
        }
        for kernel in &body.kernels {
            let what = || format!("kernel `{}`", kernel.name);
            // The range was checked when the artifact was read.
            let range = (kernel.code_offset as usize)..(kernel.code_offset + kernel.code_len) as usize;
            let entry = text_of(ptx.get(range).unwrap_or_default(), what)?;
            let module = format!("{}{entry}", text_of(head, what)?);
            self.load_image(GpuImage::Ptx(&module), std::slice::from_ref(kernel)).map_err(|source| match source {
                GpuError::Refused { log } => RuntimeError::GpuKernel {
                    kernel: kernel.name.clone(),
                    origins: kernel.origins.join(", "),
                    gpu: self.gpu.name(),
                    log,
                },
                source => RuntimeError::gpu(&*self.gpu, source),
            })?;
        }
        Ok(refused)
    }

    fn unload(&mut self) {
        self.functions.clear();
        self.modules.drain(..).for_each(|module| self.gpu.unload(module));
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

/// Bytes of a PTX section as text that a driver takes.
fn text_of(bytes: &[u8], what: impl FnOnce() -> String) -> Result<&str, RuntimeError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| RuntimeError::BadProgram {
        what: what(),
        expected: "PTX".to_owned(),
        found: "bytes that are no text".to_owned(),
    })
}

/// Of a kernel that is for no GPU.
fn fault(kernel: &KernelInfo) -> RuntimeError {
    RuntimeError::BadProgram {
        what: format!("kernel `{}`", kernel.name),
        expected: "how it is started".to_owned(),
        found: "nothing".to_owned(),
    }
}

impl Drop for GpuCode {
    fn drop(&mut self) {
        // What is still running of a run that failed may be using them.
        let _ = self.gpu.synchronize();
        self.unload();
    }
}
