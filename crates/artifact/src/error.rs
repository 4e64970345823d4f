//! What can be wrong with an artifact.

use crate::{Hash, SizeExpr};

/// Why bytes are not an artifact that this version can use, or why one could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ArtifactError {
    #[error(
        "not an infc artifact: expected the file to begin with {expected:02x?}, found {found:02x?}; \
         make one with `infc compile MODEL.onnx`"
    )]
    NotAnArtifact { expected: [u8; 8], found: Vec<u8> },

    #[error(
        "the artifact is cut off: {what} needs bytes {start}..{end}, the file has {len_bytes}; \
         copy or compile it again"
    )]
    Truncated { what: String, start: u64, end: u64, len_bytes: u64 },

    #[error(
        "the artifact has format {found_major}.{found_minor}, this version of infc reads up to \
         {own_major}.{own_minor}; update infc, or compile the model again with `infc compile`"
    )]
    NewerFormat { found_major: u16, found_minor: u16, own_major: u16, own_minor: u16 },

    #[error(
        "the artifact has format {found_major}.{found_minor}, this version of infc reads from {own_major}.0 on; \
         compile the model again with `infc compile`"
    )]
    OlderFormat { found_major: u16, found_minor: u16, own_major: u16 },

    #[error("{what} is damaged: expected hash {expected}, found {found}; copy or compile the artifact again")]
    HashMismatch { what: String, expected: Hash, found: Hash },

    #[error("section {index} has kind {kind}, which this version of infc does not know but must; update infc")]
    UnknownSection { index: usize, kind: u32 },

    #[error("{what} has schema {found}, this version of infc reads {expected}; update infc or compile the model again")]
    UnknownSchema { what: &'static str, expected: u32, found: u32 },

    #[error("step {step} of entry `{entry}` has code {code}, which this version of infc does not know; update infc")]
    UnknownStep { entry: String, step: usize, code: u32 },

    #[error("weight `{weight}` is stored as `{encoding}`, which this version of infc cannot decode; update infc")]
    UnknownEncoding { weight: String, encoding: String },

    #[error("the artifact is malformed: {what}: expected {expected}, found {found}; compile the model again")]
    Malformed { what: String, expected: String, found: String },

    #[error("{what}: at most {limit} are allowed, found {found}")]
    TooLarge { what: String, limit: u64, found: u64 },

    #[error("`{expr}` for {what}: {source}")]
    Size { what: String, expr: SizeExpr, source: crate::EvalError },

    #[error(
        "no code in this artifact can run here: it was built for {available}, this machine {machine}; \
         compile it with `--target {suggestion}`"
    )]
    WrongTarget { available: String, machine: String, suggestion: String },

    #[error("the artifact has no code for target `{wanted}`: it was built for {available}")]
    NoSuchTarget { wanted: String, available: String },

    #[error("cannot write the artifact")]
    Write(#[source] std::io::Error),
}

impl ArtifactError {
    /// Every code of this crate, for `infc explain` and its tests.
    pub const CODES: &'static [&'static str] = &[
        "artifact::not-an-artifact",
        "artifact::truncated",
        "artifact::newer-format",
        "artifact::older-format",
        "artifact::hash-mismatch",
        "artifact::unknown-section",
        "artifact::unknown-schema",
        "artifact::unknown-step",
        "artifact::unknown-encoding",
        "artifact::malformed",
        "artifact::too-large",
        "artifact::bad-size",
        "artifact::wrong-target",
        "artifact::no-such-target",
        "artifact::cannot-write",
    ];

    /// The stable code of this error, as `infc explain` takes it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAnArtifact { .. } => "artifact::not-an-artifact",
            Self::Truncated { .. } => "artifact::truncated",
            Self::NewerFormat { .. } => "artifact::newer-format",
            Self::OlderFormat { .. } => "artifact::older-format",
            Self::HashMismatch { .. } => "artifact::hash-mismatch",
            Self::UnknownSection { .. } => "artifact::unknown-section",
            Self::UnknownSchema { .. } => "artifact::unknown-schema",
            Self::UnknownStep { .. } => "artifact::unknown-step",
            Self::UnknownEncoding { .. } => "artifact::unknown-encoding",
            Self::Malformed { .. } => "artifact::malformed",
            Self::TooLarge { .. } => "artifact::too-large",
            Self::Size { .. } => "artifact::bad-size",
            Self::WrongTarget { .. } => "artifact::wrong-target",
            Self::NoSuchTarget { .. } => "artifact::no-such-target",
            Self::Write(_) => "artifact::cannot-write",
        }
    }

    /// A malformed part: what it is, what was expected there, what was found.
    pub(crate) fn malformed(
        what: impl Into<String>,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::Malformed { what: what.into(), expected: expected.to_string(), found: found.to_string() }
    }
}
