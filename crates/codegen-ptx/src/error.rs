//! Why a nest cannot be printed as PTX.

use infc_ir::entity::VarId;
use infc_ir::schedule::GpuDim;
use infc_tensor::DType;

/// What a nest asks for that this backend does not do. All of them mean that a schedule does not suit the GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PtxError {
    #[error("elements of type {dtype} have no PTX registers here")]
    Type { dtype: DType },
    #[error("`{operation}` on {dtype} has no PTX form here")]
    Operation { operation: String, dtype: DType },
    #[error("the extent `{extent}` of a loop bound to {dim} must be a {expected}")]
    Extent { dim: GpuDim, extent: String, expected: &'static str },
    #[error("chunks that wait for others have no order in a grid")]
    StepsInGrid,
    #[error("{dim} is bound twice, one loop within the other")]
    BoundTwice { dim: GpuDim },
    #[error("a block of {threads} threads: at most 1024 fit")]
    BlockTooLarge { threads: u64 },
    #[error("the unrolled loop `{name}` has the extent `{extent}`, which is no number up to {limit}")]
    Unroll { name: String, extent: String, limit: i64 },
    #[error("buffer `{name}` needs a length known when compiling, found `{len}`")]
    LocalLength { name: String, len: String },
    #[error("buffer `{name}` lives in registers, but its index `{index}` is not a number below {len}")]
    RegisterIndex { name: String, index: String, len: usize },
    #[error("{bytes} bytes of shared memory are more than {target} has for a block ({limit})")]
    SharedMemory { bytes: u64, limit: u64, target: String },
    #[error("{target} has no {what}, which takes {needed} or later")]
    Generation { what: &'static str, target: String, needed: String },
    #[error("a barrier that not all threads of the block reach")]
    DivergentBarrier,
    #[error(
        "an asynchronous copy of {bytes} bytes between {from} and {to}: it takes 4, 8 or 16, aligned, global to shared"
    )]
    AsyncCopy { bytes: u64, from: String, to: String },
    #[error("`{what}` is not defined where it is read")]
    Undefined { what: String },
    #[error("{var} is not bound where it is read")]
    Unbound { var: VarId },
}
