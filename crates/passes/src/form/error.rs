//! What kernel formation can fail with.

use infc_tensor::DType;

/// A graph that cannot be turned into kernels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum FormError {
    #[error("{place}: {what}")]
    Malformed { place: String, what: String },
    #[error("{place}: elements of type {dtype} have no kernels")]
    UnsupportedType { place: String, dtype: DType },
    #[error("composites are nested more than {limit} deep")]
    TooDeep { limit: usize },
    #[error("the graph needs {count} {what}, more than {limit}")]
    TooMany { what: &'static str, count: usize, limit: usize },
}
