//! Grid and block: what the loops bound to GPU dimensions say together.

use crate::PtxError;
use infc_ir::index::{Dim, Proof, Ranges};
use infc_ir::nest::{LoopKind, LoopNest, Stmt};
use infc_ir::schedule::GpuDim;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y, z; over the nest's symbols.
    pub grid: [Dim; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
}

/// The position of a dimension among its three.
pub(crate) fn position(dim: GpuDim) -> usize {
    match dim {
        GpuDim::BlockX | GpuDim::ThreadX => 0,
        GpuDim::BlockY | GpuDim::ThreadY => 1,
        GpuDim::BlockZ | GpuDim::ThreadZ => 2,
    }
}

/// True for the dimensions of a block.
pub(crate) fn is_thread(dim: GpuDim) -> bool {
    matches!(dim, GpuDim::ThreadX | GpuDim::ThreadY | GpuDim::ThreadZ)
}

impl Launch {
    /// The launch of a nest: along every dimension the largest extent that a loop needs. The parallel axis goes along x
    /// of the grid.
    pub(crate) fn of(nest: &LoopNest, ranges: &Ranges) -> Result<Self, PtxError> {
        let one = || Dim::constant(1);
        let mut this = Self { grid: [one(), one(), one()], block: [1; 3] };
        let mut bound = Vec::new();
        if let Some(parallel) = &nest.parallel {
            if parallel.step_chunks.is_some() {
                return Err(PtxError::StepsInGrid);
            }
            this.widen(GpuDim::BlockX, &parallel.chunks, ranges)?;
            bound.push(GpuDim::BlockX);
        }
        this.visit(&nest.body, &mut bound, ranges)?;
        let threads = this.block.iter().map(|&d| u64::from(d)).product();
        if threads > 1024 {
            return Err(PtxError::BlockTooLarge { threads });
        }
        Ok(this)
    }

    fn visit(&mut self, body: &[Stmt], bound: &mut Vec<GpuDim>, ranges: &Ranges) -> Result<(), PtxError> {
        for stmt in body {
            match stmt {
                Stmt::For { extent, kind: LoopKind::Bound(dim), body, .. } => {
                    if bound.contains(dim) {
                        return Err(PtxError::BoundTwice { dim: *dim });
                    }
                    self.widen(*dim, extent, ranges)?;
                    bound.push(*dim);
                    self.visit(body, bound, ranges)?;
                    bound.pop();
                }
                Stmt::For { body, .. } => self.visit(body, bound, ranges)?,
                Stmt::If { then, otherwise, .. } => {
                    self.visit(then, bound, ranges)?;
                    self.visit(otherwise, bound, ranges)?;
                }
                Stmt::Let { .. }
                | Stmt::LetValue { .. }
                | Stmt::Alloc(_)
                | Stmt::Store { .. }
                | Stmt::Reduce { .. }
                | Stmt::Barrier
                | Stmt::Prefetch { .. }
                | Stmt::AsyncCopy { .. }
                | Stmt::AsyncCommit
                | Stmt::AsyncWait { .. }
                | Stmt::ProductsWait { .. } => {}
            }
        }
        Ok(())
    }

    fn widen(&mut self, dim: GpuDim, extent: &Dim, ranges: &Ranges) -> Result<(), PtxError> {
        let error = |expected| PtxError::Extent { dim, extent: extent.to_string(), expected };
        if is_thread(dim) {
            let threads = extent.as_const().and_then(|e| u32::try_from(e).ok()).filter(|&e| e > 0);
            let threads = threads.ok_or_else(|| error("number of threads"))?;
            let block = &mut self.block[position(dim)];
            *block = threads.max(*block);
            return Ok(());
        }
        if extent.uses_vars() {
            return Err(error("number of blocks that does not depend on loops"));
        }
        let grid = &mut self.grid[position(dim)];
        *grid = match (ranges.le(extent, grid), ranges.le(grid, extent)) {
            (Proof::Yes, _) => grid.clone(),
            (_, Proof::Yes) => extent.clone(),
            _ => grid.maximum(extent),
        };
        Ok(())
    }
}
