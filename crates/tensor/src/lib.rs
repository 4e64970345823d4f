//! Element types and host tensors: the vocabulary that every other crate of infc shares.
//!
//! [`DType`] names the element types of ONNX; [`Tensor`] is a dense, row-major tensor on the host; [`Attributes`] are what
//! an ONNX node says besides its inputs. Nothing here computes: `reference` does that for ONNX operators, `ir` for the
//! compiler's own levels. What the bits of an element mean is known here, for narrow types too ([`minifloat`],
//! [`Tensor::widened`]).

#![forbid(unsafe_code)]

mod attributes;
mod buffer;
mod dtype;
mod element;
mod halves;
mod integer;
mod map;
pub mod minifloat;
mod serial;
mod subgraph;
mod tensor;
mod widen;

pub use attributes::{Attribute, AttributeError, Attributes};
pub use buffer::AlignedBytes;
pub use dtype::{DType, DTypeClass};
pub use element::Element;
pub use half::{bf16, f16};
pub use halves::{nearest_bf16, nearest_f16, nearest_tf32};
pub use integer::integer_element;
pub use subgraph::{MAX_SUBGRAPHS, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs};
pub use tensor::{Tensor, TensorError};
