//! Verifiers: the invariants of each level, checked (ARCHITECTURE.md: "a check of what must hold after it").
//!
//! The header of each module lists what it checks. A verifier looks at the whole structure and reports everything it
//! finds; it never panics, whatever it is given. What a pass hands on is verified in debug builds, so a violation is a
//! bug of ours, unless the structure was parsed from text.

mod body;
pub mod graph;
mod index;
pub mod kernel;
pub mod nest;

pub use graph::verify_graph;
pub use kernel::verify_kernel;
pub use nest::verify_nest;

use infc_tensor::DType;
use std::fmt;

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {kind}")]
pub struct Violation {
    /// Where: the stage, node or statement.
    pub place: String,
    /// What.
    pub kind: ViolationKind,
}

/// How an invariant is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ViolationKind {
    #[error("the name `{name}` is used twice")]
    DuplicateName { name: String },
    #[error("{what} {id} does not exist")]
    Dangling { what: &'static str, id: String },
    #[error("{id} is used before it is defined")]
    OutOfOrder { id: String },
    #[error("expected {expected} {what}, found {found}")]
    WrongCount { what: &'static str, expected: usize, found: usize },
    #[error("{what} is of type {found}, expected {expected}")]
    WrongType { what: String, expected: DType, found: DType },
    #[error("{op} does not take values of type {dtype}")]
    UnsupportedType { op: String, dtype: DType },
    #[error("{what} has extent {found}, expected {expected}")]
    WrongExtent { what: String, expected: String, found: String },
    #[error("the constant {bits:#x} is not a value of type {dtype}")]
    BadConstant { dtype: DType, bits: u64 },
    #[error("variable {id} is not in scope")]
    VariableOutOfScope { id: String },
    #[error("a dim mentions variable {id}")]
    VariableInDim { id: String },
    #[error("`{expr}` divides by what is never positive")]
    BadDivisor { expr: String },
    #[error("symbol `{name}` has an empty or negative range")]
    BadRange { name: String },
    #[error("{what} is never positive or zero: `{extent}`")]
    NegativeExtent { what: String, extent: String },
    #[error("{what} is not allowed here")]
    NotAllowed { what: &'static str },
    #[error("{what} is missing")]
    Missing { what: &'static str },
    #[error("the stage reads itself where it is not shown to be at an earlier step of a sequential axis")]
    ReadsItself,
    #[error("output `{name}` is never written")]
    NeverWritten { name: String },
    #[error("`{name}` is read-only but written")]
    WriteToReadOnly { name: String },
    #[error("variable {id} is bound more than once")]
    BoundTwice { id: String },
    #[error("`{name}` lives in registers but is indexed by what is not a constant after unrolling: `{index}`")]
    RegisterIndex { name: String, index: String },
    #[error("`{name}` is used where it is not allocated")]
    NotAllocated { name: String },
}

/// Everything found wrong with a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// What was verified, by level and name.
    pub subject: String,
    /// At least one.
    pub violations: Vec<Violation>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is invalid:", self.subject)?;
        self.violations.iter().try_for_each(|v| write!(f, "\n  {v}"))
    }
}

impl std::error::Error for VerifyError {}

/// Collects violations.
#[derive(Default)]
struct Report {
    place: String,
    violations: Vec<Violation>,
}

impl Report {
    /// What follows is about this place.
    fn at(&mut self, place: impl Into<String>) {
        self.place = place.into();
    }

    fn push(&mut self, kind: ViolationKind) {
        self.violations.push(Violation { place: self.place.clone(), kind });
    }

    fn count(&mut self, what: &'static str, expected: usize, found: usize) -> bool {
        if expected != found {
            self.push(ViolationKind::WrongCount { what, expected, found });
        }
        expected == found
    }

    fn dtype(&mut self, what: &str, expected: DType, found: DType) {
        if expected != found {
            self.push(ViolationKind::WrongType { what: what.to_owned(), expected, found });
        }
    }

    /// No two names may be equal.
    fn unique<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let mut seen = std::collections::HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.push(ViolationKind::DuplicateName { name: name.to_owned() });
            }
        }
    }

    fn finish(self, subject: String) -> Result<(), VerifyError> {
        if self.violations.is_empty() { Ok(()) } else { Err(VerifyError { subject, violations: self.violations }) }
    }
}
