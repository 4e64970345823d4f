//! What can be wrong with IR text.

use infc_tensor::DType;

/// An error and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {kind}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub kind: ParseErrorKind,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ParseErrorKind {
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: String },
    #[error("unexpected character `{found}`")]
    UnexpectedCharacter { found: char },
    #[error("this text does not end")]
    UnterminatedString,
    #[error("`{name}` is not a known {what}")]
    Unknown { what: &'static str, name: String },
    #[error("`{name}` is already defined")]
    Duplicate { name: String },
    #[error("the number `{text}` does not fit {what}")]
    NumberOutOfRange { text: String, what: String },
    #[error("`{text}` is not a value of type {dtype}")]
    WrongLiteral { text: String, dtype: DType },
    #[error("the type of this number is unknown; write for example `f32({text})`")]
    UntypedLiteral { text: String },
    #[error("expected {expected} {what}, found {found}")]
    WrongCount { what: &'static str, expected: usize, found: usize },
    #[error("division of an index by a constant that is not positive")]
    BadDivisor,
    #[error("more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
}
