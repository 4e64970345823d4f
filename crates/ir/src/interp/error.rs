//! What can go wrong when interpreting.

use infc_tensor::{DType, TensorError};

/// Why a structure cannot be interpreted with the given inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InterpError {
    #[error("expected {expected} {what}, found {found}")]
    WrongCount { what: &'static str, expected: usize, found: usize },
    #[error("`{name}` is of type {expected}, found {found}")]
    WrongType { name: String, expected: DType, found: DType },
    #[error("`{name}` has shape {expected:?}, found {found:?}")]
    WrongShape { name: String, expected: Vec<i64>, found: Vec<usize> },
    #[error("symbol `{name}` is {value}, outside of {min}..={}", max.map_or_else(String::new, |m| m.to_string()))]
    SymbolOutOfRange { name: String, value: i64, min: i64, max: Option<i64> },
    #[error("`{name}` is of type {dtype}, which has no scalar arithmetic")]
    UnsupportedType { name: String, dtype: DType },
    #[error("`{name}` has a negative extent: {shape:?}")]
    NegativeExtent { name: String, shape: Vec<i64> },
    #[error("`{name}` of shape {shape:?} is too large to interpret")]
    TooLarge { name: String, shape: Vec<i64> },
    #[error("`{expr}` in `{place}` overflows or divides by zero")]
    UndefinedIndex { place: String, expr: String },
    #[error("`{reader}` reads `{name}` at {index:?}, outside of its shape {shape:?}")]
    ReadOutOfBounds { reader: String, name: String, index: Vec<i64>, shape: Vec<i64> },
    #[error("`{writer}` writes `{name}` at {index:?}, outside of its shape {shape:?}")]
    WriteOutOfBounds { writer: String, name: String, index: Vec<i64>, shape: Vec<i64> },
    #[error("`{reader}` reads `{name}` at {index:?} before that is computed")]
    NotYetComputed { reader: String, name: String, index: Vec<i64> },
    #[error("`{name}` is written twice at {index:?}")]
    WrittenTwice { name: String, index: Vec<i64> },
    #[error("element {index} of `{name}` is never written")]
    NeverWritten { name: String, index: usize },
    #[error("`{name}` is {value} in `{place}`, outside of its declared range {min:?} to {max:?}")]
    VariableOutOfRange { place: String, name: String, value: i64, min: Option<i64>, max: Option<i64> },
    #[error("`{name}` is used where it is not allocated")]
    NotAllocated { name: String },
    #[error("`{name}` is read-only but written")]
    WriteToReadOnly { name: String },
    #[error("`{place}` touches element {index} of `{name}`, which another chunk wrote without a barrier in between")]
    Race { place: String, name: String, index: i64 },
    #[error("{what} are {left} and {right}, which this graph does not allow")]
    Unmet { what: String, left: i64, right: i64 },
    #[error("`{place}` runs on the host, which says: {reason}")]
    Host { place: String, reason: String },
    #[error("malformed `{place}`: {what}")]
    Malformed { place: String, what: &'static str },
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
