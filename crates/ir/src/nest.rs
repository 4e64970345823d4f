//! Loop nests: how a kernel is computed, explicitly. The input of every backend.
//!
//! A nest has buffers with memory scopes, loop variables, and structured statements. Only
//! `passes::schedule::apply` makes nests. They print but do not parse.

use crate::access::Bound;
use crate::entity::{BufferId, IndexVec, OperandId, ScalarId, VarId};
use crate::index::{Dim, IndexExpr, Interval};
use crate::kernel::{OperandKind, Reducer};
use crate::scalar::Body;
use crate::schedule::{GpuDim, Intrinsic, Scope};
use crate::symbol::Symbols;
use infc_tensor::DType;
use std::sync::Arc;

/// Where a buffer's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// The n-th buffer argument of the kernel.
    Operand {
        /// Which operand of the kernel.
        operand: OperandId,
        /// Position among the kernel's buffer arguments.
        argument: u32,
        /// What the kernel does with it. An input is never written by its name, but an output may lie in its memory;
        /// nobody writes a constant as long as the model is loaded.
        role: OperandKind,
    },
    /// Local to a thread (or block); allocated where [`Stmt::Alloc`] stands.
    Local(Scope),
}

/// A linear array of elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// For people.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// See [`BufferKind`].
    pub kind: BufferKind,
    /// Number of elements; for locals an upper bound over all iterations.
    pub len_elems: Dim,
    /// For shared memory: rows of so many bytes, a power of two from 128 on, in which pieces of 16 bytes change places by the
    /// row's number, so that eight rows at one column are in different banks. That is a matter of addresses; elements are numbered
    /// as if there were no such thing.
    pub swizzle_bytes: Option<u32>,
    /// Of such rows that are longer than 128 bytes: so many rows are a tile, in which the first 128 bytes of all rows come before the
    /// next ones. That, too, is a matter of addresses.
    pub panel_rows: Option<u32>,
}

/// What is known of a loop variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopVar {
    /// For people: stage and loop.
    pub name: String,
    /// Bounds over all iterations.
    pub range: (Option<i64>, Option<i64>),
}

impl LoopVar {
    /// The bounds as an interval.
    #[must_use]
    pub fn interval(&self) -> Interval {
        Interval { min: self.range.0, max: self.range.1 }
    }
}

/// How a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One turn after the other.
    Serial,
    /// As straight-line code; the extent is constant.
    Unrolled,
    /// As the lanes of vectors; the extent is constant and at most `lanes`.
    Vector {
        /// Width in elements; lanes at and beyond the extent are off.
        lanes: u16,
    },
    /// As one operation of the machine per lane of the loop around it; the extent is what the operation takes. Backends
    /// that have none, or find something else in the loop, run it as [`LoopKind::Unrolled`]; where the operation takes four loops
    /// ([`Intrinsic::is_tile`]), each of which is of this kind, as [`LoopKind::Serial`].
    Tensor(Intrinsic),
    /// As a dimension of a GPU launch.
    Bound(GpuDim),
}

/// A scalar expression with its root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expr {
    /// Loads have [`crate::scalar::Source::Buffer`] and one flat index.
    pub body: Body,
    /// The values, one per component.
    pub roots: Vec<ScalarId>,
}

/// An element written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Which buffer.
    pub buffer: BufferId,
    /// Flat element index.
    pub index: IndexExpr,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// `for var in 0..extent`.
    For {
        /// Loop variable; each is bound by exactly one loop, `Let` or the parallel axis.
        var: VarId,
        /// Number of turns.
        extent: IndexExpr,
        /// See [`LoopKind`].
        kind: LoopKind,
        /// What is repeated.
        body: Vec<Stmt>,
    },
    /// Names the value of an index expression.
    Let {
        /// The variable.
        var: VarId,
        /// Its value.
        value: IndexExpr,
    },
    /// Names an integer that memory tells: the value of an expression of type `i64`.
    LetValue {
        /// The variable.
        var: VarId,
        /// Its value; one root.
        value: Expr,
    },
    /// Runs `then` if all conditions hold, else `otherwise`.
    If {
        /// The conditions.
        cond: Vec<Bound>,
        /// If they hold.
        then: Vec<Stmt>,
        /// If not.
        otherwise: Vec<Stmt>,
    },
    /// The local buffer begins to exist; it is gone at the end of the enclosing block. Contents are undefined.
    Alloc(BufferId),
    /// Writes one value per target (all are computed before any is written).
    Store {
        /// Where.
        targets: Vec<Target>,
        /// What.
        value: Expr,
        /// Nothing is written unless all of these hold.
        valid: Vec<Bound>,
    },
    /// `targets = combine(targets, value)`.
    Reduce {
        /// The accumulators, one per component.
        targets: Vec<Target>,
        /// The elements, one per component.
        value: Expr,
        /// How.
        reducer: Arc<Reducer>,
        /// Nothing is folded unless all of these hold.
        valid: Vec<Bound>,
    },
    /// All threads of the block (GPU) or region (CPU) meet here.
    Barrier,
    /// A hint that memory is going to be written soon, or read if the operand is read-only. It changes nothing, also
    /// where the index lies outside of the buffer.
    Prefetch {
        /// Where; in an operand.
        target: Target,
    },
    /// Starts a copy from operand memory to shared memory; [`Stmt::AsyncWait`] waits for it.
    AsyncCopy {
        /// Where.
        target: Target,
        /// From where.
        source: Target,
        /// Elements copied.
        len_elems: u32,
        /// Unless all of these hold, nothing is read and zeros are written.
        valid: Vec<Bound>,
    },
    /// The copies that a thread has started since the last one are a group, which may be empty.
    AsyncCommit,
    /// Waits until at most this many groups of asynchronous copies are under way. What other threads copy is there after a
    /// barrier.
    AsyncWait {
        /// Groups that may remain.
        pending: u32,
    },
    /// Waits until at most this many of the loops that are products of matrices by four warps together
    /// ([`crate::schedule::Intrinsic::is_of_group`]) are under way: until then they may read their factors, and sums are not to be
    /// touched. Where no such statement is in the loop around one, the product is waited for at once.
    ProductsWait {
        /// Loops, as those over the points of a turn, that may remain.
        pending: u32,
    },
}

/// The parallel axis: the chunk number, from 0 to `chunks − 1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParallelAxis {
    /// Bound to the chunk number.
    pub var: VarId,
    /// Number of chunks; fixed by the schedule, not by the number of threads.
    pub chunks: Dim,
    /// Where chunks read what others write: so many make a step, and a chunk may run when those of all steps before have.
    /// Without it chunks are independent. Nests made by `passes::schedule` go through odd steps backwards, and the runtime hands
    /// chunks out so that threads keep their places; only speed depends on that.
    pub step_chunks: Option<Dim>,
}

/// How to compute a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The kernel's name.
    pub name: String,
    /// The kernel's symbols.
    pub symbols: Symbols,
    /// All buffers.
    pub buffers: IndexVec<BufferId, Buffer>,
    /// All loop variables.
    pub vars: IndexVec<VarId, LoopVar>,
    /// See [`ParallelAxis`]; without it there is one chunk.
    pub parallel: Option<ParallelAxis>,
    /// What one chunk does.
    pub body: Vec<Stmt>,
}
