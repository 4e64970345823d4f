//! Statements with their expressions flattened.

use super::super::InterpError;
use super::super::body::{Program, bind, bind_bounds};
use super::super::fold::Fold;
use super::super::index_fn::{BoundFn, IndexFn};
use crate::entity::{BufferId, EntityId};
use crate::index::Dim;
use crate::nest::{LoopKind, LoopNest, Stmt, Target};
use crate::schedule::GpuDim;

/// A place in a buffer.
pub(super) struct Place {
    pub(super) buffer: usize,
    pub(super) index: IndexFn,
}

/// Statements and what is allocated among them.
pub(super) struct Block {
    pub(super) code: Vec<Code>,
    pub(super) allocs: Vec<usize>,
    /// There is a barrier inside that chunks (or blocks) meet at, at any depth.
    pub(super) meets: bool,
    /// There is a barrier inside that the threads of a block meet at: one within a loop bound to threads.
    pub(super) threads_meet: bool,
}

/// A statement.
pub(super) enum Code {
    For { var: usize, extent: IndexFn, kind: LoopKind, body: Block },
    Let { var: usize, value: IndexFn },
    LetValue { var: usize, value: Program },
    If { cond: Vec<BoundFn>, then: Block, otherwise: Block },
    Alloc(usize),
    Store { targets: Vec<Place>, value: Program, valid: Vec<BoundFn> },
    Reduce { targets: Vec<Place>, value: Program, fold: Fold, valid: Vec<BoundFn> },
    Barrier,
    AsyncCopy { target: Place, source: Place, len: u32, valid: Vec<BoundFn> },
    AsyncCommit,
    AsyncWait { pending: u32 },
}

/// True if the loop is a thread dimension of a launch.
pub(super) fn is_thread_dim(kind: LoopKind) -> bool {
    matches!(kind, LoopKind::Bound(GpuDim::ThreadX | GpuDim::ThreadY | GpuDim::ThreadZ))
}

/// True if the loop is a block dimension of a launch.
pub(super) fn is_block_dim(kind: LoopKind) -> bool {
    matches!(kind, LoopKind::Bound(GpuDim::BlockX | GpuDim::BlockY | GpuDim::BlockZ))
}

/// The value of a dim.
pub(super) fn eval_dim(place: &str, dim: &Dim, symbols: &[i64]) -> Result<i64, InterpError> {
    bind(place, dim, symbols)?
        .eval(&[])
        .ok_or_else(|| InterpError::UndefinedIndex { place: place.to_owned(), expr: dim.to_string() })
}

/// Flattens the body of a nest.
pub(super) fn compile(nest: &LoopNest, symbols: &[i64]) -> Result<Block, InterpError> {
    Compiler { nest, symbols }.block(&nest.body)
}

struct Compiler<'a> {
    nest: &'a LoopNest,
    symbols: &'a [i64],
}

impl Compiler<'_> {
    fn block(&self, stmts: &[Stmt]) -> Result<Block, InterpError> {
        let code = stmts.iter().filter_map(|s| self.stmt(s).transpose()).collect::<Result<Vec<_>, _>>()?;
        let allocs = code.iter().filter_map(|c| if let Code::Alloc(b) = c { Some(*b) } else { None }).collect();
        let (mut meets, mut threads_meet) = (false, false);
        for code in &code {
            match code {
                Code::Barrier => meets = true,
                Code::For { kind, body, .. } if is_thread_dim(*kind) => {
                    threads_meet |= body.meets || body.threads_meet;
                }
                Code::For { body, .. } => {
                    meets |= body.meets;
                    threads_meet |= body.threads_meet;
                }
                Code::If { then, otherwise, .. } => {
                    meets |= then.meets || otherwise.meets;
                    threads_meet |= then.threads_meet || otherwise.threads_meet;
                }
                _ => {}
            }
        }
        Ok(Block { code, allocs, meets, threads_meet })
    }

    /// A statement; `None` for a hint, and for a wait that is none here.
    fn stmt(&self, stmt: &Stmt) -> Result<Option<Code>, InterpError> {
        let name = &self.nest.name;
        Ok(Some(match stmt {
            // Products are done where they stand.
            Stmt::Prefetch { .. } | Stmt::ProductsWait { .. } => return Ok(None),
            Stmt::For { var, extent, kind, body } => Code::For {
                var: var.index(),
                extent: bind(name, extent, self.symbols)?,
                kind: *kind,
                body: self.block(body)?,
            },
            Stmt::Let { var, value } => Code::Let { var: var.index(), value: bind(name, value, self.symbols)? },
            Stmt::LetValue { var, value } => {
                let value = Program::new(name, &value.body, &value.roots, self.symbols)?;
                self.same_count(1, value.dtypes().len())?;
                Code::LetValue { var: var.index(), value }
            }
            Stmt::If { cond, then, otherwise } => Code::If {
                cond: bind_bounds(name, cond, self.symbols)?,
                then: self.block(then)?,
                otherwise: self.block(otherwise)?,
            },
            Stmt::Alloc(buffer) => Code::Alloc(self.buffer(*buffer)?),
            Stmt::Store { targets, value, valid } => {
                let value = Program::new(name, &value.body, &value.roots, self.symbols)?;
                self.same_count(targets.len(), value.dtypes().len())?;
                let valid = bind_bounds(name, valid, self.symbols)?;
                Code::Store { targets: self.places(targets)?, value, valid }
            }
            Stmt::Reduce { targets, value, reducer, valid } => {
                let value = Program::new(name, &value.body, &value.roots, self.symbols)?;
                let fold = Fold::new(name, reducer, value.dtypes().len(), self.symbols)?;
                self.same_count(targets.len(), value.dtypes().len())?;
                let valid = bind_bounds(name, valid, self.symbols)?;
                Code::Reduce { targets: self.places(targets)?, value, fold, valid }
            }
            Stmt::Barrier => Code::Barrier,
            Stmt::AsyncCopy { target, source, len_elems, valid } => Code::AsyncCopy {
                target: self.place(target)?,
                source: self.place(source)?,
                len: *len_elems,
                valid: bind_bounds(name, valid, self.symbols)?,
            },
            Stmt::AsyncCommit => Code::AsyncCommit,
            Stmt::AsyncWait { pending } => Code::AsyncWait { pending: *pending },
        }))
    }

    fn places(&self, targets: &[Target]) -> Result<Vec<Place>, InterpError> {
        targets.iter().map(|t| self.place(t)).collect()
    }

    fn place(&self, target: &Target) -> Result<Place, InterpError> {
        Ok(Place { buffer: self.buffer(target.buffer)?, index: bind(&self.nest.name, &target.index, self.symbols)? })
    }

    fn buffer(&self, id: BufferId) -> Result<usize, InterpError> {
        if self.nest.buffers.get(id).is_none() {
            return Err(InterpError::Malformed { place: self.nest.name.clone(), what: "a buffer that does not exist" });
        }
        Ok(id.index())
    }

    fn same_count(&self, targets: usize, values: usize) -> Result<(), InterpError> {
        if targets == values {
            return Ok(());
        }
        let what = "a store whose values and targets differ in number";
        Err(InterpError::Malformed { place: self.nest.name.clone(), what })
    }
}
