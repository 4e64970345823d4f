//! What can go wrong when a model is loaded or run.

use crate::gpu::{Gpu, GpuError};
use infc_artifact::{ArtifactError, EvalError};
use infc_tensor::{DType, TensorError};
use std::io;
use std::path::PathBuf;

/// Why a model could not be loaded or run. After a failed run the session can be used again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RuntimeError {
    #[error("cannot open `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },

    #[error(transparent)]
    Artifact(#[from] ArtifactError),

    #[error("this build of the runtime cannot run machine code: expected a 64-bit x86 or ARM processor, found {found}")]
    UnsupportedHost { found: String },

    #[error("cannot make {len_bytes} bytes of code executable; does a security policy forbid it?")]
    CodeMemory { len_bytes: usize, source: io::Error },

    #[error(
        "the code for {target} cannot be used here: {reason}; {}",
        if *has_cpu_code {
            "allow the processor instead with `--allow-cpu`"
        } else {
            "to run without a GPU as well, compile with `--target cpu,cuda` and load with `--allow-cpu`"
        }
    )]
    NoGpu { target: String, reason: String, has_cpu_code: bool },

    #[error("GPU `{gpu}` cannot take kernel `{kernel}` ({origins}): {log}")]
    GpuKernel { kernel: String, origins: String, gpu: String, log: String },

    #[error("GPU `{gpu}`: {needed_bytes} bytes of its memory are needed, {free_bytes} are free")]
    GpuMemory { gpu: String, needed_bytes: usize, free_bytes: usize },

    #[error("GPU `{gpu}`: {what}: it takes longer than the driver lets a kernel run")]
    GpuTimeLimit { gpu: String, what: String },

    #[error("{port} in a GPU's memory: {reason}")]
    GpuTensor { port: String, reason: String },

    #[error("GPU `{gpu}`: {source}")]
    Gpu { gpu: String, source: GpuError },

    #[error("cannot get {len_bytes} bytes of memory")]
    OutOfMemory { len_bytes: usize },

    #[error(
        "a static artifact must be 64-byte aligned, its address is a multiple of {found} only; \
         embed it with `include_artifact!`"
    )]
    MisalignedStatic { found: usize },

    #[error("the model has no entry `{wanted}`, it has {known}")]
    UnknownEntry { wanted: String, known: String },

    #[error("the model has no input `{wanted}`, it has {known}")]
    UnknownInput { wanted: String, known: String },

    #[error("input `{name}` ({expected}) is missing")]
    MissingInput { name: String, expected: String },

    #[error("input `{name}` is given twice")]
    DuplicateInput { name: String },

    #[error("the model has no state `{wanted}`, it has {known}")]
    UnknownState { wanted: String, known: String },

    #[error("state `{state}` has a capacity of {capacity} along axis {axis}, found {found}")]
    StateFull { state: String, axis: usize, capacity: u64, found: usize },

    #[error("the entry takes {expected} inputs, found {found}")]
    InputCount { expected: usize, found: usize },

    #[error("the entry has {expected} outputs, found buffers for {found}")]
    OutputCount { expected: usize, found: usize },

    #[error("{port}: expected elements of type {expected}, found {found}")]
    WrongType { port: String, expected: DType, found: DType },

    #[error("{port}: expected {expected}, found shape {found:?}")]
    WrongShape { port: String, expected: String, found: Vec<usize> },

    #[error("symbol `{symbol}` (axis {axis} of `{input}`): expected {expected}, found {found}")]
    DimOutOfRange { symbol: String, input: String, axis: usize, expected: String, found: usize },

    #[error("{symbol} ({place}): expected {expected}, found {found}")]
    ValueOutOfRange { symbol: String, place: String, expected: String, found: String },

    #[error("the sizes of this model follow from the values of input `{input}` ({symbol}), not from shapes alone")]
    ValueNeeded { symbol: String, input: String },

    #[error("a {dtype} buffer of shape {shape:?} needs {expected} bytes, found {found}")]
    WrongBufferSize { dtype: DType, shape: Vec<usize>, expected: String, found: usize },

    #[error("strides {strides:?} from element {offset} of shape {shape:?} ({dtype}): {problem}")]
    BadStrides { dtype: DType, shape: Vec<usize>, strides: Vec<isize>, offset: usize, problem: &'static str },

    #[error("elements of type {dtype} cannot be passed as a buffer")]
    UnsupportedType { dtype: DType },

    #[error("the sizes of this artifact make no sense for these inputs: {what}: {source}")]
    BadSize { what: String, source: EvalError },

    #[error("the sizes of this artifact make no sense for these inputs: {what}: expected {expected}, found {found}")]
    BadProgram { what: String, expected: String, found: String },

    #[error("{what} are {left} and {right}, which must {}", if *equal { "be equal" } else { "differ" })]
    UnmetRequirement { what: String, left: i64, right: i64, equal: bool },
    #[error("{place}: {what} must be {expected}, found {found}")]
    AssumptionFailed { place: String, what: String, expected: String, found: String },

    #[error("the model needs custom operators that this runtime does not have: {names}")]
    CustomOps { names: String },

    #[error("custom operator `{name}`: expected {expected}")]
    OperatorName { name: String, expected: &'static str },

    #[error(
        "the model needs operators that this runtime does not evaluate: {names}{}",
        if *has_library { "" } else { "; it was built without the feature `host-ops`" }
    )]
    HostOps { names: String, has_library: bool },

    #[error("{op_type} node {nodes}: {reason}")]
    HostStep { op_type: String, nodes: String, reason: String },

    #[error("an operator was evaluated to {found}, where the model says {expected}")]
    UnexpectedResult { expected: String, found: String },

    #[error("the shape of output `{output}` depends on what the model computes; it is known after a run")]
    LateShape { output: String },

    #[error("the run was cancelled before step {step} of {steps}")]
    Cancelled { step: usize, steps: usize },

    #[error("the deadline passed before step {step} of {steps}")]
    DeadlineExceeded { step: usize, steps: usize },

    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl RuntimeError {
    /// Whether extents are not as an entry takes them to be: one that takes less for granted may do better.
    pub(crate) fn is_of_extents(&self) -> bool {
        matches!(
            self,
            Self::AssumptionFailed { .. }
                | Self::UnexpectedResult { .. }
                | Self::UnmetRequirement { .. }
                | Self::BadSize { .. }
                | Self::DimOutOfRange { .. }
        )
    }

    /// Whether another way to compute the same would end so, too: whoever runs it has had enough, or there is no memory.
    pub(crate) fn is_final(&self) -> bool {
        let interrupted =
            matches!(self, Self::Cancelled { .. } | Self::DeadlineExceeded { .. } | Self::OutOfMemory { .. });
        interrupted || self.is_of_gpu()
    }

    /// Whether it is a GPU that has failed, or refused.
    pub(crate) fn is_of_gpu(&self) -> bool {
        matches!(self, Self::GpuKernel { .. } | Self::GpuMemory { .. } | Self::GpuTimeLimit { .. } | Self::Gpu { .. })
    }

    /// What a GPU has failed to do.
    pub(crate) fn gpu(gpu: &dyn Gpu, source: GpuError) -> Self {
        let gpu = gpu.name();
        match source {
            GpuError::OutOfMemory { needed_bytes, free_bytes } => Self::GpuMemory { gpu, needed_bytes, free_bytes },
            GpuError::TimeLimit { what } => Self::GpuTimeLimit { gpu, what },
            source => Self::Gpu { gpu, source },
        }
    }

    /// Every code of this crate, for `infc explain` and its tests; those of [`ArtifactError`] come on top.
    pub const CODES: &'static [&'static str] = &[
        "runtime::cannot-open",
        "runtime::unsupported-host",
        "runtime::code-memory",
        "runtime::no-gpu",
        "runtime::gpu-kernel",
        "runtime::gpu-memory",
        "runtime::gpu-time-limit",
        "runtime::gpu-tensor",
        "runtime::gpu-failed",
        "runtime::out-of-memory",
        "runtime::misaligned-static",
        "runtime::unknown-entry",
        "runtime::unknown-input",
        "runtime::missing-input",
        "runtime::duplicate-input",
        "runtime::unknown-state",
        "runtime::state-full",
        "runtime::input-count",
        "runtime::output-count",
        "runtime::wrong-type",
        "runtime::wrong-shape",
        "runtime::dim-out-of-range",
        "runtime::value-out-of-range",
        "runtime::value-needed",
        "runtime::wrong-buffer-size",
        "runtime::bad-strides",
        "runtime::unsupported-type",
        "runtime::bad-size",
        "runtime::bad-program",
        "runtime::unmet-requirement",
        "runtime::assumption-failed",
        "runtime::custom-ops",
        "runtime::operator-name",
        "runtime::no-host-op",
        "runtime::host-step-failed",
        "runtime::unexpected-result",
        "runtime::late-shape",
        "runtime::cancelled",
        "runtime::deadline-exceeded",
        "runtime::bad-tensor",
    ];

    /// The stable code of this error, as `infc explain` takes it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } => "runtime::cannot-open",
            Self::Artifact(error) => error.code(),
            Self::UnsupportedHost { .. } => "runtime::unsupported-host",
            Self::CodeMemory { .. } => "runtime::code-memory",
            Self::NoGpu { .. } => "runtime::no-gpu",
            Self::GpuKernel { .. } => "runtime::gpu-kernel",
            Self::GpuMemory { .. } => "runtime::gpu-memory",
            Self::GpuTimeLimit { .. } => "runtime::gpu-time-limit",
            Self::GpuTensor { .. } => "runtime::gpu-tensor",
            Self::Gpu { .. } => "runtime::gpu-failed",
            Self::OutOfMemory { .. } => "runtime::out-of-memory",
            Self::MisalignedStatic { .. } => "runtime::misaligned-static",
            Self::UnknownEntry { .. } => "runtime::unknown-entry",
            Self::UnknownInput { .. } => "runtime::unknown-input",
            Self::MissingInput { .. } => "runtime::missing-input",
            Self::DuplicateInput { .. } => "runtime::duplicate-input",
            Self::UnknownState { .. } => "runtime::unknown-state",
            Self::StateFull { .. } => "runtime::state-full",
            Self::InputCount { .. } => "runtime::input-count",
            Self::OutputCount { .. } => "runtime::output-count",
            Self::WrongType { .. } => "runtime::wrong-type",
            Self::WrongShape { .. } => "runtime::wrong-shape",
            Self::DimOutOfRange { .. } => "runtime::dim-out-of-range",
            Self::ValueOutOfRange { .. } => "runtime::value-out-of-range",
            Self::ValueNeeded { .. } => "runtime::value-needed",
            Self::WrongBufferSize { .. } => "runtime::wrong-buffer-size",
            Self::BadStrides { .. } => "runtime::bad-strides",
            Self::UnsupportedType { .. } => "runtime::unsupported-type",
            Self::BadSize { .. } => "runtime::bad-size",
            Self::BadProgram { .. } => "runtime::bad-program",
            Self::UnmetRequirement { .. } => "runtime::unmet-requirement",
            Self::AssumptionFailed { .. } => "runtime::assumption-failed",
            Self::CustomOps { .. } => "runtime::custom-ops",
            Self::OperatorName { .. } => "runtime::operator-name",
            Self::HostOps { .. } => "runtime::no-host-op",
            Self::HostStep { .. } => "runtime::host-step-failed",
            Self::UnexpectedResult { .. } => "runtime::unexpected-result",
            Self::LateShape { .. } => "runtime::late-shape",
            Self::Cancelled { .. } => "runtime::cancelled",
            Self::DeadlineExceeded { .. } => "runtime::deadline-exceeded",
            Self::Tensor(_) => "runtime::bad-tensor",
        }
    }
}
