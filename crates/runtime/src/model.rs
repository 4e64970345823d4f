//! A loaded model.

use crate::arena::Arena;
use crate::code::{CodeImage, KernelEntry};
use crate::custom::Runtime;
use crate::error::RuntimeError;
use crate::gpu::{Gpu, GpuCode};
use crate::host;
use crate::pool::Pool;
use crate::select::{self, Selection};
use crate::session::{Session, SessionOptions};
use infc_artifact::{Artifact, Entry, Host, Manifest, PortSpec, VariantBody};
use infc_mapfile::MappedFile;
use infc_tensor::Tensor;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How a model is loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Also compare the hashes of the weights, which reads them all. Everything else is always verified.
    pub verify_weights: bool,
    /// Take the variant for exactly this target instead of the best one, or with `cuda` the best of those for GPUs. The machine
    /// must still be able to run it.
    pub target: Option<String>,
    /// The threads that sessions of this model use; `None` for [`Pool::shared`].
    pub pool: Option<Pool>,
    /// The custom operators that the model may call.
    pub runtime: Runtime,
    /// The GPU for artifacts that have code for one; `None` for the machine's first, if the feature `cuda` is on and the
    /// NVIDIA driver is installed.
    pub gpu: Option<Arc<dyn Gpu>>,
    /// Take code for the processor where an artifact has code for GPUs that cannot be used here. Otherwise that is an
    /// error: whoever compiles for a GPU should not find out by the time a run takes that it is not used.
    pub allow_cpu: bool,
}

/// A model, ready to make sessions. Cloning gives another handle on the same model.
#[derive(Clone, Debug)]
pub struct Model {
    loaded: Arc<Loaded>,
}

/// What all sessions of a model share.
#[derive(Debug)]
pub(crate) struct Loaded {
    bytes: ArtifactBytes,
    pub(crate) manifest: Manifest,
    /// Where each weight lies in `bytes`.
    weights: Vec<Range<usize>>,
    pub(crate) body: VariantBody,
    code: Code,
    selection: Selection,
    pub(crate) pool: Option<Pool>,
    runtime: Runtime,
}

/// The kernels of the variant in use, ready to run.
#[derive(Debug)]
enum Code {
    Cpu(CodeImage),
    Gpu(GpuCode),
}

/// Where the bytes of an artifact live.
#[derive(Debug)]
enum ArtifactBytes {
    Mapped(MappedFile),
    Static(&'static [u8]),
    Owned(Arena),
}

impl ArtifactBytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file,
            Self::Static(bytes) => bytes,
            Self::Owned(arena) => arena.bytes(),
        }
    }
}

impl Model {
    /// Loads a model from a file, which is mapped: weights are read when a run first touches them, and shared with
    /// other processes. Replace the file by renaming another over it, never by writing into it.
    ///
    /// Loading an artifact means trusting its machine code: do it only with files from sources whose programs you would
    /// run.
    ///
    /// # Errors
    /// `runtime::cannot-open`, any error about the artifact, `artifact::wrong-target` if no variant runs here.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RuntimeError> {
        Self::open_with(path, &LoadOptions::default())
    }

    /// As [`Model::open`], with options.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, RuntimeError> {
        let path = path.as_ref();
        let file = MappedFile::open(path);
        let file = file.map_err(|source| RuntimeError::Open { path: path.to_owned(), source })?;
        Self::load(ArtifactBytes::Mapped(file), options)
    }

    /// Loads a model that is part of the program; see [`include_artifact!`](crate::include_artifact). Weights are used
    /// where they are.
    ///
    /// # Errors
    /// As [`Model::open`], and `runtime::misaligned-static`.
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, RuntimeError> {
        Self::from_static_with(bytes, &LoadOptions::default())
    }

    /// As [`Model::from_static`], with options.
    ///
    /// # Errors
    /// As [`Model::from_static`].
    pub fn from_static_with(bytes: &'static [u8], options: &LoadOptions) -> Result<Self, RuntimeError> {
        let address = bytes.as_ptr().addr();
        if !address.is_multiple_of(64) {
            return Err(RuntimeError::MisalignedStatic { found: 1 << address.trailing_zeros() });
        }
        Self::load(ArtifactBytes::Static(bytes), options)
    }

    /// Loads a model from bytes in memory, which are copied to aligned memory.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn from_vec(bytes: Vec<u8>) -> Result<Self, RuntimeError> {
        Self::from_vec_with(bytes, &LoadOptions::default())
    }

    /// As [`Model::from_vec`], with options.
    ///
    /// # Errors
    /// As [`Model::open`].
    #[expect(clippy::needless_pass_by_value, reason = "frees the bytes before the model is used")]
    pub fn from_vec_with(bytes: Vec<u8>, options: &LoadOptions) -> Result<Self, RuntimeError> {
        // An allocator's 16 bytes of alignment would make every other vector load cross a cache line.
        Self::load(ArtifactBytes::Owned(Arena::copy_of(&bytes)?), options)
    }

    fn load(bytes: ArtifactBytes, options: &LoadOptions) -> Result<Self, RuntimeError> {
        let artifact = Artifact::read(bytes.get())?;
        let manifest = artifact.manifest();
        options.runtime.check(&manifest.custom_ops)?;
        // Every record was checked to lie within its section.
        let weights: Vec<Range<usize>> =
            (0..manifest.weights.len()).map_while(|index| artifact.weight_range(index)).collect();
        let load = |(mut selection, gpu): select::Chosen| -> Result<_, RuntimeError> {
            let body = artifact.variant(selection.variant)?;
            host::check(&body, &manifest.custom_ops)?;
            let code = match gpu {
                Some(gpu) => {
                    let file = (bytes.get(), weights.as_slice());
                    let (code, loaded) = GpuCode::load(&gpu, (&artifact, selection.variant), &body, file)?;
                    selection.gpu = Some(loaded);
                    Code::Gpu(code)
                }
                None => {
                    let (code, section) = artifact.code(selection.variant)?;
                    Code::Cpu(CodeImage::load(code, section.hash)?)
                }
            };
            Ok((selection, body, code))
        };
        let chosen = select::select(&manifest.variants, options)?;
        let target = chosen.0.target.clone();
        let (selection, body, code) = match load(chosen) {
            // A GPU that is lost, or has no room for the weights: the processor may step in for it.
            Err(error) if options.allow_cpu && error.is_of_gpu() => {
                load(select::without_gpu(&manifest.variants, options, (&target, &error)).ok_or(error)?)?
            }
            loaded => loaded?,
        };
        if options.verify_weights {
            artifact.verify_weights()?;
        }
        let manifest = artifact.into_manifest();
        let (pool, runtime) = (options.pool.clone(), options.runtime.clone());
        Ok(Self { loaded: Arc::new(Loaded { bytes, manifest, weights, body, code, selection, pool, runtime }) })
    }

    /// A session: memory of its own, to run one thing at a time. Any number may exist and run at once.
    ///
    /// # Errors
    /// `runtime::unknown-entry`; for models without symbolic dims also what is wrong with its sizes.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, RuntimeError> {
        Session::new(Arc::clone(&self.loaded), options)
    }

    /// What the artifact holds.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.loaded.manifest
    }

    /// Programs and kernels of the variant in use.
    #[must_use]
    pub fn variant(&self) -> &VariantBody {
        &self.loaded.body
    }

    /// The entry that sessions run unless told otherwise: the one named `main`, else the first.
    #[must_use]
    pub fn default_entry(&self) -> &Entry {
        let entries = &self.loaded.manifest.entries;
        // A manifest without entries is refused when it is read.
        entries.iter().find(|entry| entry.name == "main").unwrap_or(&entries[0])
    }

    /// The inputs of the default entry.
    #[must_use]
    pub fn inputs(&self) -> &[PortSpec] {
        &self.default_entry().inputs
    }

    /// The outputs of the default entry.
    #[must_use]
    pub fn outputs(&self) -> &[PortSpec] {
        &self.default_entry().outputs
    }

    /// Which variant was chosen, and why not the better ones.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        &self.loaded.selection
    }

    /// The GPU that runs the model, if one does: for tensors in its memory ([`GpuTensor`](crate::GpuTensor)), and for loading other
    /// models onto it.
    #[must_use]
    pub fn gpu(&self) -> Option<&Arc<dyn Gpu>> {
        self.loaded.gpu().map(|code| &code.gpu)
    }
}

impl Loaded {
    /// The outputs of an operator that no kernel computes; graphs within are evaluated as long as `goes_on`.
    pub(crate) fn evaluate(
        &self,
        step: &Host,
        inputs: &[Option<&Tensor>],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<Tensor>, String> {
        let custom = self.runtime.evaluate(&self.manifest.custom_ops, step, inputs);
        custom.unwrap_or_else(|| host::evaluate(step, inputs, goes_on))
    }

    /// The bytes of a weight.
    pub(crate) fn weight(&self, index: usize) -> &[u8] {
        &self.bytes.get()[self.weights[index].clone()]
    }

    /// Where a weight lies in the file.
    pub(crate) fn weight_range(&self, index: usize) -> &Range<usize> {
        &self.weights[index]
    }

    /// The address of a kernel's machine code.
    pub(crate) fn kernel(&self, index: usize) -> Option<KernelEntry> {
        match &self.code {
            Code::Cpu(image) => image.kernel(self.body.kernels.get(index)?.code_offset),
            Code::Gpu(_) => None,
        }
    }

    /// What the model has on a GPU, if that runs it.
    pub(crate) fn gpu(&self) -> Option<&GpuCode> {
        match &self.code {
            Code::Cpu(_) => None,
            Code::Gpu(code) => Some(code),
        }
    }
}
