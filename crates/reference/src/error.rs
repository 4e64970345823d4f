//! What can keep an operator from being evaluated.

use crate::AttributeError;
use infc_tensor::{DType, TensorError};

/// Why an operator has no value for the given inputs.
///
/// The messages do not name the node: the caller knows it better than a type and a domain would tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum EvalError {
    #[error("operator `{op_type}` of domain `{domain}` has no definition at opset {opset}")]
    Unsupported { op_type: String, domain: String, opset: i64 },
    #[error("input {index} is missing")]
    MissingInput { index: usize },
    #[error("the node asks for {found} outputs, the operator has {available}")]
    TooManyOutputs { found: usize, available: usize },
    #[error("elements of type {dtype} are not supported here")]
    UnsupportedType { dtype: DType },
    #[error("inputs of one type are needed, found {left} and {right}")]
    TypeMismatch { left: DType, right: DType },
    #[error("shapes {left:?} and {right:?} do not fit together: {reason}")]
    ShapeMismatch { left: Vec<usize>, right: Vec<usize>, reason: &'static str },
    #[error("input {index}: {reason}")]
    InvalidInput { index: usize, reason: &'static str },
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    #[error("attribute `{name}`: {reason}")]
    InvalidAttribute { name: &'static str, reason: &'static str },
    #[error("axis {axis} is outside of a tensor of rank {rank}")]
    AxisOutOfRange { axis: i64, rank: usize },
    #[error("index {index} is outside of an axis of length {len}")]
    IndexOutOfRange { index: i64, len: usize },
    #[error("an extent cannot be negative, found {extent}")]
    NegativeExtent { extent: i64 },
    #[error("integer division by zero")]
    DivisionByZero,
    #[error("a {dtype} tensor of shape {shape:?} is larger than the evaluator may make")]
    TooLarge { dtype: DType, shape: Vec<usize> },
    #[error("more than {limit} steps would be needed")]
    TooMuchWork { limit: u64 },
    #[error("the caller did not want to wait longer")]
    Interrupted,
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// The result of anything in this crate.
pub(crate) type Result<T> = std::result::Result<T, EvalError>;
