//! Products of matrices by groups of four warps, which read both factors from shared memory: `wgmma.mma_async` (PTX ISA 9.7.15).
//!
//! The loops are those of a warp's product ([`crate::matrix`]), and the one over fragments of columns around them: warp `w` of a
//! group has rows `16w` to `16w + 15` of 64, and all columns. What is found here is that it is so, and that the factors lie as the
//! instruction wants them: lines of 128 bytes whose pieces are swizzled, along what is summed, or for halves of the right factor along
//! columns, 64 of them in each of several panels. Then a descriptor says where a factor begins. If anything is otherwise, the loops
//! stay what they are.
//!
//! The warps go on while the product is computed. [`infc_ir::nest::Stmt::ProductsWait`] says when sums are there and factors no longer
//! read; without it in a loop around a product, it is waited for at once.

use crate::PtxError;
use crate::builder::{Class, Reg, Src, Ty};
use crate::emitter::{Binding, Emitter};
use crate::matrix::{Factor, WARP, name, size};
use crate::memory::{Element, LINE_BYTES, SWIZZLED_ROWS as LINES};
use infc_ir::entity::{EntityId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::nest::{LoopKind, LoopNest, Stmt};
use infc_tensor::DType;

/// Warps of a group.
const WARPS: i64 = 4;
/// Rows of a warp, and columns of a fragment.
const ROWS: i64 = 16;
const COLUMNS: i64 = 8;
/// Columns that one instruction takes at most.
const MOST_COLUMNS: i64 = 256;
/// Bytes of what is summed that one instruction takes.
const SLICE_BYTES: i64 = 32;
/// Where factors begin: the last bits of an address tell the swizzle's place.
pub(crate) const ALIGN_BYTES: u64 = (LINE_BYTES * LINES) as u64;

/// A product by a group.
pub(crate) struct Group {
    a: Descriptor,
    b: Descriptor,
    columns: i64,
}

/// A factor in shared memory.
struct Descriptor {
    factor: Factor,
    /// The first element.
    start: IndexExpr,
    /// Bytes from eight lines to the next eight, and from a panel to the next.
    stride_bytes: i64,
    panel_bytes: i64,
    /// Whether a line is along rows or columns, not along what is summed.
    is_across: bool,
}

impl Descriptor {
    /// The descriptor but for the address: distances in units of 16 bytes, and lines of 128 bytes that are swizzled.
    ///
    /// Source: PTX ISA 9.7.15.5.1.2.2, "Matrix Descriptor Format".
    fn bits(&self) -> i64 {
        ((self.panel_bytes >> 4) << 16) | ((self.stride_bytes >> 4) << 32) | (1 << 62)
    }
}

/// Whether a nest has products by groups.
pub(crate) fn has_groups(nest: &LoopNest) -> bool {
    fn visit(body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For { kind: LoopKind::Tensor(intrinsic), .. } => intrinsic.is_of_group(),
            Stmt::For { body, .. } => visit(body),
            Stmt::If { then, otherwise, .. } => visit(then) || visit(otherwise),
            _ => false,
        })
    }
    visit(&nest.body)
}

impl Emitter<'_> {
    /// The product by a group that a loop over fragments of columns is, if it is one.
    pub(crate) fn group(&self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Option<Group> {
        let [x, y, z] = self.launch.block;
        let whole = i64::from(x) == WARP && i64::from(y) % WARPS == 0 && z == 1 && self.divergence == 0;
        let [Stmt::For { var: half, extent: halves, kind: LoopKind::Unrolled, body }] = body else { return None };
        let tile = self.tile(*half, halves, body).filter(|tile| tile.intrinsic.is_of_group())?;
        let columns = extent.as_const()?.checked_mul(COLUMNS)?;
        if !(whole && self.multiplies_in_groups && columns <= MOST_COLUMNS) {
            return None;
        }
        let (a, b) = self.factors(&tile)?;
        // PTX ISA 9.7.15.2: of bytes fewer numbers of columns.
        if size(&b) == 1 && columns % 16 != 0 && columns != 8 && columns != 24 {
            return None;
        }
        let (by_fragment, _) = self.resolve(&tile.target.index).linear_in(var)?;
        if by_fragment.as_const().is_none_or(|by| by == 0) {
            return None;
        }
        let (by_column, start) = b.start.linear_in(var)?;
        let moves =
            by_column.is_const(COLUMNS * b.by_row) && !a.start.uses_var(var) && tile.depth * size(&a) == SLICE_BYTES;
        let first = self.of_whole_group(&a)?;
        let (a, b) = (self.descriptor(a, first, 64)?, self.descriptor(b, start, columns)?);
        let fits = moves && !a.is_across && !self.varies(&b.start);
        fits.then_some(Group { a, b, columns })
    }

    /// Where the 64 rows of a group begin, of which a warp has 16.
    fn of_whole_group(&self, a: &Factor) -> Option<IndexExpr> {
        let y = IndexExpr::var(VarId::from_index(1));
        let is_warp = |var: &VarId| self.coordinates[var.index()].as_ref() == Some(&y);
        let warp =
            (0..self.nest.vars.len()).map(VarId::from_index).find(|var| is_warp(var) && a.start.uses_var(*var))?;
        let (by_warp, rest) = a.start.linear_in(warp)?;
        if !by_warp.is_const(ROWS * a.by_row) || self.varies(&rest) {
            return None;
        }
        let group = IndexExpr::var(warp).floor_div(&WARPS.into());
        Some(rest + group.scale(WARPS * ROWS * a.by_row))
    }

    /// A factor of so many rows or columns, if it lies as the instruction takes it.
    fn descriptor(&self, factor: Factor, start: IndexExpr, points: i64) -> Option<Descriptor> {
        let buffer = &self.nest.buffers[factor.buffer];
        let (row, size) = (i64::from(buffer.swizzle_bytes?), size(&factor));
        let panel_rows = buffer.panel_rows.map(i64::from);
        let lines = |rows: i64| rows * row / size;
        let (_, near) = start.split_multiples(lines(LINES));
        // Slices of a line, by their number.
        let places = self.ranges.interval(&near);
        let is_slice = near.is_multiple_of(SLICE_BYTES / size)
            && places.min.is_some_and(|min| min >= 0)
            && places.max.is_some_and(|max| max * size < LINE_BYTES);
        let along_sum = factor.by_k == 1 && factor.by_row * size == LINE_BYTES && row == LINE_BYTES;
        let across = factor.by_row == 1 && factor.by_k * size == row && size == 2;
        let fits = if along_sum {
            is_slice && points % COLUMNS == 0
        } else {
            across && near.is_const(0) && (row == LINE_BYTES || panel_rows.is_some()) && points * size <= row
        };
        let panel_bytes = panel_rows.map_or(16, |rows| rows * LINE_BYTES);
        fits.then_some(Descriptor {
            factor,
            start,
            stride_bytes: LINE_BYTES * LINES,
            panel_bytes,
            is_across: !along_sum,
        })
    }

    /// Starts a product whose loops are taken apart; sums that threads have touched since the last one are there for it.
    pub(crate) fn multiply_in_group(&mut self, var: VarId, body: &[Stmt], group: &Group) -> Result<(), PtxError> {
        let tile = match body {
            [Stmt::For { var: half, extent, body, .. }] => self.tile(*half, extent, body),
            _ => None,
        };
        let undefined = || PtxError::Undefined { what: "a product of matrices by a group of warps".to_owned() };
        let tile = tile.ok_or_else(undefined)?;
        self.name_lanes(&tile)?;
        let (a, b) = (self.described(&group.a)?, self.described(&group.b)?);
        let mut sums = Vec::new();
        for fragment in 0..group.columns / COLUMNS {
            self.vars[var.index()] = Some(Binding::Number(fragment));
            sums.extend(self.sums(&tile)?);
        }
        self.vars[var.index()] = None;
        let across =
            (group.b.factor.dtype != DType::I8 && group.b.factor.dtype != DType::U8).then_some(group.b.is_across);
        let types = [name(&group.a.factor), name(&group.b.factor)];
        let adds = self.constant(Class::Pred, 1);
        self.b.multiply_in_group(tile.depth, types, [a, b], adds, across, &sums);
        Ok(())
    }

    /// The register with a factor's descriptor.
    fn described(&mut self, descriptor: &Descriptor) -> Result<Reg, PtxError> {
        let Element::Memory(from) = self.element(descriptor.factor.buffer, &descriptor.start)? else {
            let what = self.nest.buffers[descriptor.factor.buffer].name.clone();
            return Err(PtxError::Undefined { what });
        };
        // Addresses of shared memory have 18 bits, of which the last four are zero.
        let at = self.b.op("add", Ty::S64, &[from.base.into(), Src::Int(from.offset_bytes)]);
        let at = self.b.op("shr", Ty::U64, &[at.into(), Src::Int(4)]);
        Ok(self.b.op("or", Ty::B64, &[at.into(), Src::Int(descriptor.bits())]))
    }

    /// In front of products by groups: what threads have written to their sums is there for them. What they have written to shared
    /// memory they show in front of the barrier.
    pub(crate) fn begin_group(&mut self) {
        self.b.plain("wgmma.fence.sync.aligned");
    }

    /// Behind them: they are a group of instructions, which is waited for here unless the nest says where.
    pub(crate) fn end_group(&mut self) {
        self.b.plain("wgmma.commit_group.sync.aligned");
        if !self.waits_for_products {
            self.wait_for_products(0);
        }
    }

    /// Waits until at most so many groups are under way.
    pub(crate) fn wait_for_products(&mut self, pending: u32) {
        if self.multiplies_in_groups {
            self.b.plain(&format!("wgmma.wait_group.sync.aligned {pending}"));
        }
    }
}
