//! Why a model cannot be compiled.

use crate::Precision;
use infc_artifact::ArtifactError;
use infc_codegen_cpu::CodegenError;
use infc_frontend_onnx::ImportError;
use infc_passes::form::FormError;
use infc_passes::graph::PassError;
use infc_passes::schedule::ScheduleError;
use std::path::PathBuf;

/// An error of a compilation; each has a stable [`CompileError::code`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CompileError {
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("target `{target}`: {reason}")]
    UnknownTarget { target: String, reason: String },
    #[error("no targets to compile for")]
    NoTargets,
    #[error("nothing multiplies {precision} numbers on {}: only NVIDIA GPUs do", targets.join(", "))]
    Precision { precision: Precision, targets: Vec<String> },
    #[error("target `{target}` is given twice")]
    DuplicateTarget { target: String },
    #[error("the model has no {kind} `{name}` for a state, it has {}", known.join(", "))]
    UnknownState { kind: &'static str, name: String, known: Vec<String> },
    #[error("the states `{first}` and `{second}` share an output or an input")]
    DuplicateState { first: String, second: String },
    #[error("output `{output}` ({output_type}) cannot be input `{input}` ({input_type}) of the next run: {what}")]
    StateMismatch { output: String, output_type: String, input: String, input_type: String, what: &'static str },
    #[error(
        "the model has no dynamic dim `{dim}` to specialise, it has {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    UnknownSpecialCase { dim: String, known: Vec<String> },
    #[error("cannot specialise for {case}: {reason}")]
    BadSpecialCase { case: String, reason: String },
    #[error(
        "{found} special cases, which are all combinations of the values given: at most {limit} go into one artifact"
    )]
    TooManySpecialCases { found: usize, limit: usize },
    #[error("graph pass: {source}")]
    Pass { source: PassError },
    #[error(transparent)]
    Form(FormError),
    #[error("the value of dim `{symbol}` cannot be read from the shape of any input")]
    UnboundDim { symbol: String },
    #[error("the size {expr} is not one that artifacts can hold")]
    Size { expr: String },
    #[error("kernel `{kernel}` ({}) for {target}: {source}", origins.join(", "))]
    Schedule { kernel: String, origins: Vec<String>, target: String, source: ScheduleError },
    #[error("kernel `{kernel}` ({}) for {target}: {source}", origins.join(", "))]
    Codegen { kernel: String, origins: Vec<String>, target: String, source: CodegenError },
    #[error("the model has parts without code for {target}: {}", parts.join("; "))]
    NoGpuCode { target: String, parts: Vec<String> },
    #[error("the assembler `{}`: {reason}", program.display())]
    Ptxas { program: PathBuf, reason: String },
    #[error("constant `{name}`: {source}")]
    Weight { name: String, source: PassError },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(
        "a compilation cannot start from phase `{phase}`, only from {}",
        crate::start::STARTS.map(|phase| format!("`{phase}`")).join(" or ")
    )]
    CannotStart { phase: crate::Phase },
    #[error("the dump cannot be read: {reason}")]
    BadDump { reason: String },
    #[error(
        "{} of {nodes} nodes would run on the host: {}",
        on_host.len(),
        on_host.join(", ")
    )]
    Fallback { nodes: usize, on_host: Vec<String> },
    #[error("cannot write `{}`: {source}", path.display())]
    Dump { path: PathBuf, source: std::io::Error },
    #[error("{what}; this is a bug in infc")]
    Internal { what: String },
}

impl CompileError {
    /// The stable identifier of this kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Import(error) => error.code(),
            Self::UnknownTarget { .. } => "compile::unknown-target",
            Self::NoTargets => "compile::no-targets",
            Self::Precision { .. } => "compile::precision",
            Self::DuplicateTarget { .. } => "compile::duplicate-target",
            Self::UnknownState { .. } => "compile::unknown-state",
            Self::DuplicateState { .. } => "compile::duplicate-state",
            Self::StateMismatch { .. } => "compile::state-mismatch",
            Self::UnknownSpecialCase { .. } => "compile::unknown-special-case",
            Self::BadSpecialCase { .. } => "compile::bad-special-case",
            Self::TooManySpecialCases { .. } => "compile::too-many-special-cases",
            Self::Pass { .. } => "compile::pass",
            Self::Form(FormError::UnsupportedType { .. }) => "compile::unsupported-type",
            Self::Form(_) => "compile::plan",
            Self::UnboundDim { .. } => "compile::unbound-dim",
            Self::Size { .. } => "compile::size",
            Self::Schedule { .. } => "compile::schedule",
            Self::Codegen { .. } => "compile::codegen",
            Self::NoGpuCode { .. } => "compile::no-gpu-code",
            Self::Ptxas { .. } => "compile::ptxas",
            Self::Weight { .. } => "compile::weight",
            Self::Artifact(error) => error.code(),
            Self::CannotStart { .. } => "compile::cannot-start",
            Self::BadDump { .. } => "compile::bad-dump",
            Self::Fallback { .. } => "compile::fallback",
            Self::Dump { .. } => "compile::cannot-dump",
            Self::Internal { .. } => "compile::internal",
        }
    }

    /// All codes of this crate itself, for whoever documents them.
    pub const CODES: [&'static str; 25] = [
        "compile::bad-dump",
        "compile::bad-special-case",
        "compile::cannot-dump",
        "compile::cannot-start",
        "compile::codegen",
        "compile::duplicate-state",
        "compile::duplicate-target",
        "compile::fallback",
        "compile::internal",
        "compile::no-gpu-code",
        "compile::no-targets",
        "compile::pass",
        "compile::plan",
        "compile::precision",
        "compile::ptxas",
        "compile::schedule",
        "compile::size",
        "compile::state-mismatch",
        "compile::too-many-special-cases",
        "compile::unbound-dim",
        "compile::unknown-special-case",
        "compile::unknown-state",
        "compile::unknown-target",
        "compile::unsupported-type",
        "compile::weight",
    ];
}
