//! Products of matrices by the 32 threads of a warp: `ldmatrix` and `mma.sync` (PTX ISA 9.7.14.5).
//!
//! A schedule spreads the sum's points over the threads as the instruction has them, 16 rows and 8 columns: thread `4g + t`
//! has rows `g` and `g + 8` of columns `2t` and `2t + 1`. So the nest is right as it stands, each thread summing products of
//! what it reads from shared memory:
//!
//! ```text
//! for half in 0..2 unrolled { for lane in 0..32 thread.x { let g, t
//!   for pair in 0..2 unrolled { for k in 0..16 mma16 { sum[…] = fold sum a[…]·b[…] } } } }
//! ```
//!
//! What is found here is that `a` moves along rows `g + 8·half` and `k` alone, and `b` along columns `2t + pair` and `k`, so that
//! the instruction computes the same. If anything is otherwise, the loops stay what they are. Products are exact; in which
//! order they are summed, and how the sum is rounded on its way, is the machine's.

use crate::PtxError;
use crate::builder::{Address, Class, Reg, Space, Ty};
use crate::emitter::{Binding, Emitter};
use crate::memory::{Element, Place};
use crate::stmt::product_sum;
use infc_ir::entity::{BufferId, EntityId, ScalarId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::nest::{Expr, LoopKind, Stmt, Target};
use infc_ir::scalar::{Body, Load, ScalarOp, Source, UnaryOp};
use infc_ir::schedule::{GpuDim, Intrinsic};
use infc_tensor::DType;

/// Threads of a warp.
pub(crate) const WARP: i64 = 32;
/// Bytes of a matrix's row in shared memory.
const ROW_BYTES: i64 = 16;
/// Columns of a right factor that one product takes.
const COLUMNS: i64 = 8;

/// A turn of a loop that is being taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    var: VarId,
    number: i64,
    count: i64,
}

/// The loops of one product.
pub(crate) struct Tile<'s> {
    half: VarId,
    lane: VarId,
    lets: &'s [Stmt],
    pair: VarId,
    k: VarId,
    pub(crate) depth: i64,
    pub(crate) intrinsic: Intrinsic,
    pub(crate) target: &'s Target,
    value: &'s Expr,
    factors: (DType, ScalarId, ScalarId),
}

/// A factor: element `(row, k)`, or `(column, k)`, is at `start + row·by_row + k·by_k`.
pub(crate) struct Factor {
    pub(crate) buffer: BufferId,
    pub(crate) dtype: DType,
    pub(crate) start: IndexExpr,
    /// In terms of the loops around it, also of those that are being taken apart.
    index: IndexExpr,
    pub(crate) by_row: i64,
    pub(crate) by_k: i64,
}

impl Emitter<'_> {
    /// An unrolled loop, perhaps around products of matrices and nothing else: their factors are loaded once then.
    pub(crate) fn straight(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), PtxError> {
        let can = self.target.is_ampere() && self.divergence == 0 && i64::from(self.launch.block[0]) == WARP;
        if can && self.multiplies_in_groups && self.is_groups(var, extent, body) {
            self.begin_group();
            self.scoped(|e| e.groups(var, extent, body))?;
            self.end_group();
            return Ok(());
        }
        if !can || !self.is_products(var, extent, body) {
            return self.unrolled(var, extent, body, None);
        }
        let outermost = self.fragments.is_none();
        if outermost {
            self.fragments = Some(std::collections::HashMap::new());
        }
        let done =
            if outermost { self.scoped(|e| e.products(var, extent, body)) } else { self.products(var, extent, body) };
        if outermost {
            self.fragments = None;
        }
        done
    }

    /// True if the loop is a product, or only unrolled loops are between it and one.
    fn is_products(&self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> bool {
        if self.tile(var, extent, body).is_some_and(|tile| self.factors(&tile).is_some()) {
            return true;
        }
        match body {
            [Stmt::For { var, extent, kind: LoopKind::Unrolled, body }] => self.is_products(*var, extent, body),
            _ => false,
        }
    }

    /// True if the loop is a product by a group of warps, or only unrolled loops are between it and one.
    fn is_groups(&self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> bool {
        let deeper = || match body {
            [Stmt::For { var, extent, kind: LoopKind::Unrolled, body }] => self.is_groups(*var, extent, body),
            _ => false,
        };
        self.group(var, extent, body).is_some() || deeper()
    }

    /// The products of groups of warps that unrolled loops are.
    fn groups(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), PtxError> {
        if let Some(group) = self.group(var, extent, body) {
            return self.multiply_in_group(var, body, &group);
        }
        let [Stmt::For { var: inner, extent: inner_extent, kind: LoopKind::Unrolled, body }] = body else {
            return Err(PtxError::Undefined { what: "a product of matrices by a group of warps".to_owned() });
        };
        for n in 0..self.copies_of(var, extent)? {
            self.vars[var.index()] = Some(Binding::Number(n));
            self.groups(*inner, inner_extent, body)?;
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// Copies of an unrolled loop that see each other's registers: no jump is between them.
    fn products(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), PtxError> {
        if let Some(tile) = self.tile(var, extent, body)
            && let Some((a, b)) = self.factors(&tile)
        {
            return self.product(&tile, &a, &b);
        }
        let count = self.copies_of(var, extent)?;
        for n in 0..count {
            self.vars[var.index()] = Some(Binding::Number(n));
            self.turns.push(Turn { var, number: n, count });
            let done = self.block(body);
            self.turns.pop();
            done?;
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// The loops of a product, if these are some.
    pub(crate) fn tile<'s>(&self, half: VarId, extent: &IndexExpr, body: &'s [Stmt]) -> Option<Tile<'s>> {
        let [Stmt::For { var: lane, extent: lanes, kind: LoopKind::Bound(GpuDim::ThreadX), body }] = body else {
            return None;
        };
        let (last, lets) = body.split_last()?;
        let Stmt::For { var: pair, extent: pairs, kind: LoopKind::Unrolled, body } = last else { return None };
        let [Stmt::For { var: k, extent: depth, kind: LoopKind::Tensor(intrinsic), body }] = &body[..] else {
            return None;
        };
        let is_matrices = matches!(intrinsic, Intrinsic::Mma8 | Intrinsic::Mma16 | Intrinsic::Mma32);
        let ([Stmt::Reduce { targets, value, reducer, valid }], true) =
            (&body[..], is_matrices || intrinsic.is_of_group())
        else {
            return None;
        };
        let whole = extent.is_const(2) && pairs.is_const(2) && lanes.is_const(WARP) && valid.is_empty();
        let named = lets.iter().all(|stmt| matches!(stmt, Stmt::Let { .. }));
        let ([target], true) = (&targets[..], whole && named) else { return None };
        let factors = product_sum(reducer, &value.body, &value.roots)?;
        let depth = depth.as_const()?;
        Some(Tile { half, lane: *lane, lets, pair: *pair, k: *k, depth, intrinsic: *intrinsic, target, value, factors })
    }

    /// The factors, that of the rows first, if they are where the instruction takes them from.
    pub(crate) fn factors(&self, tile: &Tile<'_>) -> Option<(Factor, Factor)> {
        let (sum, x, y) = tile.factors;
        // Which variables say `g` and `t`.
        let lane = IndexExpr::var(tile.lane);
        let named = |value: IndexExpr| {
            tile.lets.iter().find_map(|stmt| match stmt {
                Stmt::Let { var, value: found } if *found == value => Some(*var),
                _ => None,
            })
        };
        // Four sums of a thread in four registers, of the type that they are summed in.
        let target = tile.target.buffer;
        let sums =
            matches!(self.places[target.index()], Some(Place::Registers(_))) && self.nest.buffers[target].dtype == sum;
        let (by_half, at) = self.resolve(&tile.target.index).linear_in(tile.half)?;
        let (by_pair, _) = at.linear_in(tile.pair)?;
        let (by_half, by_pair) = (by_half.as_const()?, by_pair.as_const()?);
        if !sums || by_half == 0 || by_pair == 0 || by_half.abs() == by_pair.abs() {
            return None;
        }
        let (group, thread) = (named(lane.floor_div(&4.into()))?, named(lane.modulo(&4.into()))?);
        let rows =
            |id: ScalarId| self.factor(&tile.value.body, id, tile, (group, 1), (tile.half, 8), thread, tile.pair);
        let columns =
            |id: ScalarId| self.factor(&tile.value.body, id, tile, (tile.pair, 1), (thread, 2), group, tile.half);
        let (a, b) = rows(x).zip(columns(y)).or_else(|| rows(y).zip(columns(x)))?;
        let floats =
            a.dtype == b.dtype && matches!(a.dtype, DType::F16 | DType::BF16 | DType::F32) && sum == DType::F32;
        let bytes = [&a, &b].iter().all(|f| matches!(f.dtype, DType::I8 | DType::U8)) && sum == DType::I32;
        let size = a.dtype.size_bytes()? as i64;
        ((floats || bytes) && tile.depth * size == 2 * ROW_BYTES).then_some((a, b))
    }

    /// What a factor is, if it moves along `near` by its row's distance, along `far` by so many times that, and along
    /// neither of the other two.
    #[expect(clippy::too_many_arguments, reason = "the four variables, in two roles")]
    fn factor(
        &self,
        body: &Body,
        id: ScalarId,
        tile: &Tile<'_>,
        near: (VarId, i64),
        far: (VarId, i64),
        not: VarId,
        nor: VarId,
    ) -> Option<Factor> {
        let (load, rounded) = match &body.ops[id] {
            ScalarOp::Cast(_, inner) => (&body.ops[*inner], false),
            ScalarOp::Unary(UnaryOp::Tf32, inner) => (&body.ops[*inner], true),
            op => (op, false),
        };
        let ScalarOp::Load(Load { source: Source::Buffer(buffer), index, gather, valid, dtype, .. }) = load else {
            return None;
        };
        // Words are multiplied as TF32, which they have to be asked for.
        if !gather.is_empty() || !valid.is_empty() || rounded != (*dtype == DType::F32) {
            return None;
        }
        let (by_k, rest) = self.resolve(&index[0]).linear_in(tile.k)?;
        let (by_near, rest) = rest.linear_in(near.0)?;
        let (by_far, start) = rest.linear_in(far.0)?;
        let (by_k, by_row) = (by_k.as_const()?, by_near.as_const()?);
        let named = tile.lets.iter().any(|stmt| matches!(stmt, Stmt::Let { var, .. } if start.uses_var(*var)));
        let alone = !named && ![tile.lane, tile.k, near.0, far.0, not, nor].iter().any(|&var| start.uses_var(var));
        let in_step = near.1 == 1 && by_far.is_const(by_row * far.1);
        let size = dtype.size_bytes()? as i64;
        let (piece, shared) =
            (ROW_BYTES / size, matches!(self.places[buffer.index()], Some(Place::Memory { space: Space::Shared, .. })));
        // Rows of matrices are pieces of 16 aligned bytes: along `k`, or for halves across. Words come one by one, too.
        let aligned = start.is_multiple_of(piece);
        let pieces = (by_k == 1 && by_row % piece == 0 && aligned)
            || (by_row == 1 && by_k % piece == 0 && size == 2 && aligned)
            || (by_row == 1 && size == 4);
        let fits = alone && in_step && pieces && shared;
        let index = index[0].clone();
        fits.then_some(Factor { buffer: *buffer, dtype: *dtype, start, index, by_row, by_k })
    }

    fn product(&mut self, tile: &Tile<'_>, a: &Factor, b: &Factor) -> Result<(), PtxError> {
        self.name_lanes(tile)?;
        let lane = IndexExpr::var(tile.lane);
        let part = |by: i64, of: i64| lane.floor_div(&by.into()).modulo(&of.into());
        let [group, thread] = [part(4, 8), part(1, 4)];
        // Matrices of A: rows 0 to 7 and 8 to 15, then the same of the second half of `k`. Eight lanes each say where rows lie.
        let at = if a.by_word() {
            group.clone() + thread.scale(a.by_k)
        } else if a.by_k == 1 {
            part(1, 16).scale(a.by_row) + part(16, 2).scale(ROW_BYTES / size(a))
        } else {
            (part(1, 8) + part(16, 2).scale(8)).scale(a.by_k) + part(8, 2).scale(8)
        };
        let left = self.fragment(a, at, 4)?;
        // Matrices of B: the first half of `k`, then the second.
        let at = if b.by_word() {
            group + thread.scale(b.by_k)
        } else if b.by_k == 1 {
            part(1, 8).scale(b.by_row) + part(8, 2).scale(ROW_BYTES / size(b))
        } else {
            part(1, 16).scale(b.by_k)
        };
        let right = if self.has_next(b) {
            // Those of the next eight columns come with them, which the other lanes say the rows of.
            self.both(b, at, part(16, 2).scale(COLUMNS * b.by_row))?
        } else {
            self.fragment(b, at, 2)?
        };
        let sums = self.sums(tile)?;
        self.b.multiply_matrices(tile.depth, [name(a), name(b)], &left, &right, &sums);
        Ok(())
    }

    /// Gives the variables of a product's threads their values.
    pub(crate) fn name_lanes(&mut self, tile: &Tile<'_>) -> Result<(), PtxError> {
        if self.vars[tile.lane.index()].is_none() {
            self.bind(tile.lane, GpuDim::ThreadX);
        }
        tile.lets.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// The four registers in which a thread has its part of a fragment's sums.
    pub(crate) fn sums(&mut self, tile: &Tile<'_>) -> Result<Vec<Reg>, PtxError> {
        let mut sums = Vec::with_capacity(4);
        for n in 0..4 {
            self.vars[tile.half.index()] = Some(Binding::Number(n / 2));
            self.vars[tile.pair.index()] = Some(Binding::Number(n % 2));
            let Element::Register(sum) = self.element(tile.target.buffer, &tile.target.index)? else {
                let name = self.nest.buffers[tile.target.buffer].name.clone();
                return Err(PtxError::RegisterIndex { name, index: tile.target.index.to_string(), len: 0 });
            };
            sums.push(sum);
        }
        (self.vars[tile.half.index()], self.vars[tile.pair.index()]) = (None, None);
        Ok(sums)
    }

    /// Whether the next turn of a loop that is being taken apart multiplies by the next columns.
    fn has_next(&self, b: &Factor) -> bool {
        let moves_on =
            |turn: &&Turn| b.index.linear_in(turn.var).is_some_and(|(by, _)| by.is_const(COLUMNS * b.by_row));
        let turn = self.turns.iter().rev().find(moves_on);
        !b.by_word() && self.fragments.is_some() && turn.is_some_and(|t| t.number % 2 == 0 && t.number + 1 < t.count)
    }

    /// The matrices of a right factor and those of the next columns, whose rows begin `further` on for the upper half of the lanes.
    /// Gives the former, and knows the latter from then on.
    fn both(&mut self, b: &Factor, at: IndexExpr, further: IndexExpr) -> Result<Vec<Reg>, PtxError> {
        let index = b.start.clone() + at;
        let next = index.clone() + IndexExpr::constant(COLUMNS * b.by_row);
        let known = self.fragments.as_ref().and_then(|known| known.get(&(b.buffer, index.clone())));
        if let Some(regs) = known {
            return Ok(regs.clone());
        }
        let from = self.in_memory(b, &(index.clone() + further))?;
        let mut regs = self.b.load_matrices(4, b.by_k != 1, from);
        if b.dtype == DType::F32 {
            regs.iter_mut().for_each(|word| *word = self.b.narrow_tf32(*word));
        }
        let of_next = regs.split_off(2);
        if let Some(known) = &mut self.fragments {
            known.insert((b.buffer, next), of_next);
            known.insert((b.buffer, index), regs.clone());
        }
        Ok(regs)
    }

    /// Where an element of a factor is.
    fn in_memory(&mut self, factor: &Factor, index: &IndexExpr) -> Result<Address, PtxError> {
        match self.element(factor.buffer, index)? {
            Element::Memory(from) => Ok(from),
            _ => Err(PtxError::Undefined { what: self.nest.buffers[factor.buffer].name.clone() }),
        }
    }

    /// So many matrices of a factor, whose rows begin at `start + at`.
    fn fragment(&mut self, factor: &Factor, at: IndexExpr, count: usize) -> Result<Vec<Reg>, PtxError> {
        let index = factor.start.clone() + at;
        let key = (factor.buffer, index.clone());
        if let Some(regs) = self.fragments.as_ref().and_then(|known| known.get(&key)) {
            return Ok(regs.clone());
        }
        let mut regs = if factor.by_word() {
            let mut regs = Vec::with_capacity(count);
            for n in 0..count as i64 {
                // Rows eight apart, of the left factor, before the second half of `k`.
                let (row, k) = if count == 4 { (8 * (n % 2), 4 * (n / 2)) } else { (0, 4 * n) };
                let from = self.in_memory(factor, &(index.clone() + IndexExpr::constant(row + k * factor.by_k)))?;
                let word = self.b.reg(Class::F32);
                self.b.load(&[word], Ty::F32, from, None);
                regs.push(word);
            }
            regs
        } else {
            let from = self.in_memory(factor, &index)?;
            self.b.load_matrices(count, factor.by_k != 1, from)
        };
        if factor.dtype == DType::F32 {
            regs.iter_mut().for_each(|word| *word = self.b.narrow_tf32(*word));
        }
        if let Some(known) = &mut self.fragments {
            known.insert(key, regs.clone());
        }
        Ok(regs)
    }
}

impl Factor {
    /// Whether a thread loads its elements each by itself: `ldmatrix` turns nothing round but pairs of bytes.
    fn by_word(&self) -> bool {
        self.dtype == DType::F32 && self.by_k != 1
    }
}

pub(crate) fn size(factor: &Factor) -> i64 {
    factor.dtype.size_bytes().map_or(1, |size| size as i64)
}

pub(crate) fn name(factor: &Factor) -> &'static str {
    match factor.dtype {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "tf32",
        DType::I8 => "s8",
        _ => "u8",
    }
}
