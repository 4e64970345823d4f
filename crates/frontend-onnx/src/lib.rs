//! Reads ONNX models into infc's graph.
//!
//! ```text
//! file ── prost ──▶ proto::ModelProto ── check, external ──▶ Model ── import ──▶ infc_ir::graph::Graph
//! ```
//!
//! [`Model::load`] decodes and checks everything that needs no knowledge of operators; tensor data stays in the mapped
//! files. [`import`] walks the nodes and expands each into core ops: one operator family per file in `ops`, all built
//! from the primitives in `build`. Movement becomes access maps, sums of products become contractions, and arithmetic
//! on shapes becomes dims, so that `Shape → Gather → Concat → Reshape` leaves nothing behind. [`simplify`] puts what an
//! import learns back into the model, and [`encode`] writes models.
//!
//! Files come from outside: nothing in them can make this crate panic, read outside of the model's folder, or use
//! more memory than a multiple of their size.

#![forbid(unsafe_code)]

mod attributes;
mod build;
mod call;
mod check;
mod custom;
mod element;
mod error;
mod external;
mod functions;
mod host;
mod import;
mod known;
mod model;
mod ops;
pub mod proto;
mod save;
mod simplify;
mod subgraphs;
mod tensor_proto;
mod tracked;
mod truth;
mod values_proto;

pub use custom::CustomOps;
pub use element::declared_dtype;
pub use error::{ImportError, NodeRef, Problem, UnsupportedOperator};
pub use host::{HostOperator, host_operators};
pub use import::{DimChoice, ImportOptions, ShapeDim, import, with_ranks};
pub use model::{LoadOptions, Model, NEWEST_IR_VERSION, NEWEST_OPSET, OLDEST_OPSET};
pub use ops::{operator_opsets, supported_operators};
pub use save::{Encoded, MAX_INLINE_BYTES, TensorData, encode};
pub use simplify::{Simplified, simplify};
pub use subgraphs::node_graphs;
pub use tensor_proto::{decode_tensor, dtype_from_onnx, dtype_to_onnx, encode_tensor, to_proto};
pub use values_proto::decode_value;
