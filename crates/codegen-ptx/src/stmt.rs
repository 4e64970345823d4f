//! Statements: loops, branches, stores, folds, copies.

use crate::builder::{Address, Reg, Space, Src, Ty};
use crate::emitter::{Binding, Emitter};
use crate::hoist::has_copies;
use crate::launch::{is_thread, position};
use crate::memory::{Element, Place, memory_type};
use crate::{PtxError, PtxTarget};
use infc_ir::access::Bound;
use infc_ir::entity::{BufferId, EntityId, ScalarId, VarId};
use infc_ir::index::{Atom, IndexExpr, Proof};
use infc_ir::kernel::Reducer;
use infc_ir::nest::{Expr, LoopKind, Stmt, Target};
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp, Source};
use infc_ir::schedule::GpuDim;
use infc_tensor::DType;
use std::collections::HashMap;

/// Copies that an unrolled loop may have.
const MAX_UNROLL: i64 = 1024;

/// Turns of a loop that are not all taken apart: of one that loads from global memory where threads meet again and again, and of one
/// over the pieces that a thread copies.
const MANY_TURNS: i64 = 16;

/// Whether threads of a block meet in some of the statements.
fn has_barrier(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| match stmt {
        Stmt::Barrier => true,
        Stmt::For { body, .. } => has_barrier(body),
        Stmt::If { then, otherwise, .. } => has_barrier(then) || has_barrier(otherwise),
        _ => false,
    })
}

impl Emitter<'_> {
    /// Prints statements in order.
    pub(crate) fn block(&mut self, stmts: &[Stmt]) -> Result<(), PtxError> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    pub(crate) fn stmt(&mut self, stmt: &Stmt) -> Result<(), PtxError> {
        match stmt {
            Stmt::For { var, extent, kind, body } => {
                let extent = self.resolve(extent);
                match kind {
                    LoopKind::Serial => self.serial(*var, &extent, body),
                    LoopKind::Unrolled => self.straight(*var, &extent, body),
                    LoopKind::Tensor(_) => self.unrolled(*var, &extent, body, None),
                    LoopKind::Vector { .. } => self.vector(*var, &extent, body),
                    LoopKind::Bound(dim) => self.bound(*var, &extent, *dim, body),
                }
            }
            Stmt::Let { var, value } => {
                let value = self.resolve(value);
                self.per_thread[var.index()] = self.varies(&value);
                self.note_coordinate(*var, &value);
                let binding = match value.as_const() {
                    Some(n) => Binding::Number(n),
                    None => Binding::Register(self.index(&value)?),
                };
                self.vars[var.index()] = Some(binding);
                Ok(())
            }
            Stmt::LetValue { var, value } => {
                let found = self.expressions(&value.body, &value.roots, None, &|_, _| None)?;
                self.per_thread[var.index()] = true;
                self.vars[var.index()] = Some(Binding::Register(found[0]));
                Ok(())
            }
            Stmt::If { cond, then, otherwise } => self.branch(cond, then, otherwise),
            // Places are made at the entry.
            Stmt::Alloc(_) => Ok(()),
            Stmt::Store { targets, value, valid } => self.store(targets, value, valid, None),
            Stmt::Reduce { targets, value, reducer, valid } => self.reduce(targets, value, reducer, valid, None),
            Stmt::Barrier => {
                if self.divergence > 0 {
                    return Err(PtxError::DivergentBarrier);
                }
                if self.multiplies_in_groups {
                    // What threads have written is seen by products of groups behind the barrier.
                    self.b.plain("fence.proxy.async.shared::cta");
                }
                self.b.plain("bar.sync 0");
                Ok(())
            }
            // A hint for caches that one thread has to itself.
            Stmt::Prefetch { .. } => Ok(()),
            Stmt::AsyncCopy { target, source, len_elems, valid } => self.async_copy(target, source, *len_elems, valid),
            Stmt::AsyncCommit => {
                self.b.plain("cp.async.commit_group");
                Ok(())
            }
            Stmt::AsyncWait { pending } => {
                self.b.plain(&format!("cp.async.wait_group {pending}"));
                Ok(())
            }
            Stmt::ProductsWait { pending } => {
                self.wait_for_products(*pending);
                Ok(())
            }
        }
    }

    /// True if the expression may differ between the threads of a block.
    pub(crate) fn varies(&self, expr: &IndexExpr) -> bool {
        let mut varies = false;
        expr.for_each_atom(&mut |atom| {
            if let Atom::Var(var) = atom {
                varies |= self.per_thread[var.index()];
            }
        });
        varies
    }

    fn serial(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), PtxError> {
        if extent.as_const().is_some_and(|n| n <= 0) {
            return Ok(());
        }
        // Copies of one turn differ by what their instructions say then.
        let are_pieces = !self.fixed.is_empty() && has_copies(body) && !has_barrier(body);
        if are_pieces && extent.as_const().is_some_and(|n| n < MANY_TURNS) {
            return self.unrolled(var, extent, body, None);
        }
        let wide = self.ranges.var(var).max.is_none_or(|m| m >= i64::from(i32::MAX));
        let ty = if wide { Ty::S64 } else { Ty::S32 };
        let end: Src = match extent.as_const() {
            Some(n) => Src::Int(n),
            None => self.index_as(extent, ty)?.into(),
        };
        if has_copies(body) && self.fixed.is_empty() {
            let known = self.vars.clone();
            self.scoped(|e| {
                e.hoist(body)?;
                e.turns(var, extent, (ty, end), body)
            })?;
            (self.vars, self.fixed) = (known, Vec::new());
            return Ok(());
        }
        self.turns(var, extent, (ty, end), body)
    }

    fn turns(&mut self, var: VarId, extent: &IndexExpr, (ty, end): (Ty, Src), body: &[Stmt]) -> Result<(), PtxError> {
        let counter = self.b.reg(ty.class());
        self.b.mov_into(counter, Src::Int(0));
        self.vars[var.index()] = Some(Binding::Register(counter));
        let divergent = self.varies(extent);
        let (top, done) = (self.b.new_label(), self.b.new_label());
        let may_be_empty = self.ranges.lt(&IndexExpr::constant(0), extent) != Proof::Yes;
        if may_be_empty {
            let some = self.b.setp("gt", ty, end, Src::Int(0));
            self.b.branch(done, Some((some, false)));
        }
        self.b.place(top);
        self.divergence += u32::from(divergent);
        let (meets, start) = (has_barrier(body), self.b.here());
        let waits_outside = self.waits_for_products;
        // In a loop whose threads meet, what it reads may be written anew.
        self.waits_for_products &= !meets;
        self.waits_for_products |= body.iter().any(|stmt| matches!(stmt, Stmt::ProductsWait { .. }));
        self.meetings += u32::from(meets);
        self.scoped(|e| e.block(body))?;
        self.meetings -= u32::from(meets);
        self.waits_for_products = waits_outside;
        self.divergence -= u32::from(divergent);
        // In the steps of a recurrence an assembler would take all turns of a sum apart, bring all of its weights to registers
        // at once, and run out of these.
        if self.meetings > 0 && !meets && extent.as_const().is_some_and(|n| n >= MANY_TURNS) {
            self.b.keep_rolled(start, "ld.global");
        }
        // Turns of products of groups go on while the next begins as they are: taken apart they only become longer.
        if meets {
            self.b.keep_rolled(start, "wgmma.mma_async");
        }
        self.b.op_into(counter, "add", ty, &[counter.into(), Src::Int(1)]);
        let more = self.b.setp("lt", ty, counter.into(), end);
        self.b.branch(top, Some((more, true)));
        if may_be_empty {
            self.b.place(done);
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// Turns of an unrolled loop.
    pub(crate) fn copies_of(&self, var: VarId, extent: &IndexExpr) -> Result<i64, PtxError> {
        extent.as_const().filter(|n| (0..=MAX_UNROLL).contains(n)).ok_or_else(|| PtxError::Unroll {
            name: self.nest.vars[var].name.clone(),
            extent: extent.to_string(),
            limit: MAX_UNROLL,
        })
    }

    pub(crate) fn unrolled(
        &mut self,
        var: VarId,
        extent: &IndexExpr,
        body: &[Stmt],
        lanes: Option<&Lanes>,
    ) -> Result<(), PtxError> {
        let count = self.copies_of(var, extent)?;
        for n in 0..count {
            self.vars[var.index()] = Some(Binding::Number(n));
            match (lanes, body) {
                (Some(lanes), [Stmt::Store { targets, value, valid }]) => {
                    self.store(targets, value, valid, Some((lanes, n as usize)))?;
                }
                (Some(lanes), [Stmt::Reduce { targets, value, reducer, valid }]) => {
                    self.reduce(targets, value, reducer, valid, Some((lanes, n as usize)))?;
                }
                _ => self.scoped(|e| e.block(body))?,
            }
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// Threads are the lanes of a GPU, so a vector loop is unrolled; what makes it one is that neighbouring elements are
    /// loaded and stored together.
    fn vector(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), PtxError> {
        let width = extent.as_const().and_then(|n| usize::try_from(n).ok());
        let (Some(width @ (2 | 4)), [single]) = (width, body) else { return self.unrolled(var, extent, body, None) };
        let (value, targets, valid) = match single {
            Stmt::Store { targets, value, valid } => (value, &targets[..], valid),
            Stmt::Reduce { value, valid, .. } => (value, &[][..], valid),
            _ => return self.unrolled(var, extent, body, None),
        };
        // A mask that differs between lanes would load what is not there.
        let masked = valid.iter().any(|b| [&b.expr, &b.lo, &b.hi].iter().any(|e| e.uses_var(var)));
        if masked {
            return self.unrolled(var, extent, body, None);
        }
        let guard = self.all(valid, None)?;
        let mut lanes = Lanes { width, ..Lanes::default() };
        for (id, op) in value.body.ops.iter_enumerated() {
            if let ScalarOp::Load(load) = op
                && let Some(regs) = self.load_neighbours(var, load, width, guard)?
            {
                lanes.loaded.insert(id, regs);
            }
        }
        for target in targets {
            let dtype = self.nest.buffers[target.buffer].dtype;
            lanes.stored.push(self.neighbours(var, target.buffer, &target.index, dtype, width)?.map(|_| Vec::new()));
        }
        let stored = lanes.stored.clone();
        let collected = std::mem::take(&mut lanes.stored);
        lanes.collect = std::cell::RefCell::new(collected);
        self.unrolled(var, extent, body, Some(&lanes))?;
        self.vars[var.index()] = Some(Binding::Number(0));
        for ((target, wanted), regs) in targets.iter().zip(stored).zip(lanes.collect.into_inner()) {
            let (Some(_), Some(regs)) = (wanted, regs) else { continue };
            if let Element::Memory(address) = self.element(target.buffer, &target.index)? {
                self.b.store(&regs, memory_type(self.nest.buffers[target.buffer].dtype)?, address, guard);
            }
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// The address for the first lane, if the lanes' elements are neighbours in memory and aligned as one.
    fn neighbours(
        &mut self,
        var: VarId,
        buffer: BufferId,
        index: &IndexExpr,
        dtype: DType,
        width: usize,
    ) -> Result<Option<Element>, PtxError> {
        let index = self.resolve(index);
        let Some((step, rest)) = index.linear_in(var) else { return Ok(None) };
        // A vector has at most 16 bytes, and predicates have no place in memory.
        let fits = dtype != DType::Bool && dtype.size_bytes().is_some_and(|size| size * width <= 16);
        if !step.is_const(1) || !rest.is_multiple_of(width as i64) || !fits {
            return Ok(None);
        }
        Ok(Some(self.element(buffer, &rest)?).filter(|e| matches!(e, Element::Memory(_))))
    }

    fn load_neighbours(
        &mut self,
        var: VarId,
        load: &Load,
        width: usize,
        guard: Option<Reg>,
    ) -> Result<Option<Vec<Reg>>, PtxError> {
        let (Source::Buffer(buffer), [index]) = (load.source, &load.index[..]) else { return Ok(None) };
        if !load.valid.is_empty() || !load.gather.is_empty() {
            return Ok(None);
        }
        if !self.resolve(index).uses_var(var) && matches!(self.places[buffer.index()], Some(Place::Memory { .. })) {
            // All lanes have the same one.
            return Ok(Some(vec![self.load(load, &[], &[], guard)?; width]));
        }
        let Some(Element::Memory(address)) = self.neighbours(var, buffer, index, load.dtype, width)? else {
            return Ok(None);
        };
        let ty = memory_type(load.dtype)?;
        let regs: Vec<Reg> = (0..width).map(|_| self.b.reg(ty.class())).collect();
        if guard.is_some() {
            // No register is ever read before something is written to it, also where the mask is off.
            let otherwise = self.scalar_constant(load.otherwise)?;
            regs.iter().for_each(|&r| self.b.mov_into(r, otherwise.into()));
        }
        self.b.load(&regs, ty, address, guard);
        Ok(Some(regs))
    }

    fn bound(&mut self, var: VarId, extent: &IndexExpr, dim: GpuDim, body: &[Stmt]) -> Result<(), PtxError> {
        let launched = if is_thread(dim) {
            IndexExpr::constant(i64::from(self.launch.block[position(dim)]))
        } else {
            self.launch.grid[position(dim)].clone()
        };
        self.bind(var, dim);
        let result = if self.ranges.le(&launched, extent) == Proof::Yes {
            self.scoped(|e| e.block(body))
        } else {
            // Other loops need more threads or blocks: those beyond this loop's extent sit it out.
            let within = Bound { expr: IndexExpr::var(var), lo: IndexExpr::constant(0), hi: extent.clone() };
            // What is known of the variable holds only within.
            let known = self.ranges.var(var);
            let max = self.ranges.interval(&launched).max.map(|m| m - 1);
            self.ranges.set_var(var, infc_ir::index::Interval { min: Some(0), max });
            let p = self.all(&[within], None);
            self.ranges.set_var(var, known);
            let p = p?;
            let done = self.b.new_label();
            if let Some(p) = p {
                self.b.branch(done, Some((p, false)));
            }
            self.divergence += u32::from(is_thread(dim));
            let result = self.scoped(|e| e.block(body));
            self.divergence -= u32::from(is_thread(dim));
            self.b.place(done);
            result
        };
        self.vars[var.index()] = None;
        result
    }

    fn branch(&mut self, cond: &[Bound], then: &[Stmt], otherwise: &[Stmt]) -> Result<(), PtxError> {
        let Some(p) = self.all(cond, None)? else { return self.scoped(|e| e.block(then)) };
        let divergent = cond.iter().any(|b| [&b.expr, &b.lo, &b.hi].into_iter().any(|e| self.varies(&self.resolve(e))));
        self.divergence += u32::from(divergent);
        let (other, done) = (self.b.new_label(), self.b.new_label());
        self.b.branch(other, Some((p, false)));
        self.scoped(|e| e.block(then))?;
        if !otherwise.is_empty() {
            self.b.branch(done, None);
        }
        self.b.place(other);
        if !otherwise.is_empty() {
            self.scoped(|e| e.block(otherwise))?;
            self.b.place(done);
        }
        self.divergence -= u32::from(divergent);
        Ok(())
    }

    fn store(
        &mut self,
        targets: &[Target],
        value: &Expr,
        valid: &[Bound],
        lane: Option<(&Lanes, usize)>,
    ) -> Result<(), PtxError> {
        let guard = self.all(valid, None)?;
        let values = self.expressions(&value.body, &value.roots, guard, &|id, _| known_lane(lane, id))?;
        // All values are computed before any is written: what is read from registers must not change under way.
        let values = if targets.len() > 1 { self.copies(&values) } else { values };
        for (n, (target, value)) in targets.iter().zip(values).enumerate() {
            if let Some((lanes, _)) = lane
                && let Some(Some(regs)) = lanes.collect.borrow_mut().get_mut(n)
            {
                regs.push(value);
                continue;
            }
            let element = self.element(target.buffer, &target.index)?;
            self.write(element, self.nest.buffers[target.buffer].dtype, value, guard)?;
        }
        Ok(())
    }

    fn copies(&mut self, regs: &[Reg]) -> Vec<Reg> {
        regs.iter()
            .map(|&r| {
                let copy = self.b.reg(r.class);
                self.b.mov_into(copy, r.into());
                copy
            })
            .collect()
    }

    fn reduce(
        &mut self,
        targets: &[Target],
        value: &Expr,
        reducer: &Reducer,
        valid: &[Bound],
        lane: Option<(&Lanes, usize)>,
    ) -> Result<(), PtxError> {
        let guard = self.all(valid, None)?;
        let mut elements = Vec::with_capacity(targets.len());
        let mut accumulators = Vec::with_capacity(targets.len());
        for target in targets {
            let element = self.element(target.buffer, &target.index)?;
            let dtype = self.nest.buffers[target.buffer].dtype;
            accumulators.push(self.read(element, dtype, guard)?);
            elements.push((element, dtype));
        }
        let results = match product_sum(reducer, &value.body, &value.roots) {
            Some((dtype, a, b)) => {
                let factors = self.expressions(&value.body, &[a, b], guard, &|id, _| known_lane(lane, id))?;
                vec![self.multiply_add(dtype, factors[0], factors[1], accumulators[0])?]
            }
            None => {
                let values = self.expressions(&value.body, &value.roots, guard, &|id, _| known_lane(lane, id))?;
                let params: Vec<Reg> = accumulators.iter().chain(&values).copied().collect();
                self.expressions(&reducer.combine, &reducer.results, guard, &|_, op| match op {
                    ScalarOp::Param(n, _) => params.get(usize::from(*n)).copied(),
                    _ => None,
                })?
            }
        };
        let results = if results.len() > 1 { self.copies(&results) } else { results };
        for ((element, dtype), result) in elements.into_iter().zip(results) {
            self.write(element, dtype, result, guard)?;
        }
        Ok(())
    }

    fn async_copy(
        &mut self,
        target: &Target,
        source: &Target,
        len_elems: u32,
        valid: &[Bound],
    ) -> Result<(), PtxError> {
        if !self.target.is_ampere() {
            let (what, target) = ("an asynchronous copy", self.target.to_string());
            return Err(PtxError::Generation { what, target, needed: PtxTarget::default().to_string() });
        }
        let (to, from) = (&self.nest.buffers[target.buffer], &self.nest.buffers[source.buffer]);
        let bytes = u64::from(len_elems) * from.dtype.size_bytes().unwrap_or(0) as u64;
        let error = || PtxError::AsyncCopy { bytes, from: from.name.clone(), to: to.name.clone() };
        let aligned = |e: &IndexExpr| e.is_multiple_of(i64::from(len_elems));
        let (to_index, from_index) = (self.resolve(&target.index), self.resolve(&source.index));
        if !matches!(bytes, 4 | 8 | 16) || !aligned(&to_index) || !aligned(&from_index) {
            return Err(error());
        }
        let (Element::Memory(to), Element::Memory(from)) =
            (self.element(target.buffer, &to_index)?, self.element(source.buffer, &from_index)?)
        else {
            return Err(error());
        };
        if to.space != Space::Shared || from.space != Space::Global {
            return Err(error());
        }
        let Some(holds) = self.all(valid, None)? else {
            self.b.cp_async(to, from, bytes, None);
            return Ok(());
        };
        // Nothing is read where the conditions fail, and the address is one of the buffer all the same.
        let Some(Place::Memory { base: start, .. }) = self.places[source.buffer.index()] else { return Err(error()) };
        let there = match from.offset_bytes {
            0 => from.base,
            offset => self.b.op("add", Ty::S64, &[from.base.into(), Src::Int(offset)]),
        };
        let base = self.b.selp(Ty::S64, there.into(), start.into(), holds);
        let read = self.b.selp(Ty::U32, Src::Int(bytes as i64), Src::Int(0), holds);
        self.b.cp_async(to, Address { base, offset_bytes: 0, ..from }, bytes, Some(read));
        Ok(())
    }
}

/// What the lanes of a vector loop load and store together.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    width: usize,
    /// Per load, a register per lane.
    loaded: HashMap<ScalarId, Vec<Reg>>,
    /// Per target that is stored as a vector.
    stored: Vec<Option<Vec<Reg>>>,
    collect: std::cell::RefCell<Vec<Option<Vec<Reg>>>>,
}

fn known_lane(lane: Option<(&Lanes, usize)>, id: ScalarId) -> Option<Reg> {
    let (lanes, n) = lane?;
    debug_assert!(n < lanes.width);
    lanes.loaded.get(&id)?.get(n).copied()
}

/// The factors, if the reduction sums products.
pub(crate) fn product_sum(reducer: &Reducer, body: &Body, roots: &[ScalarId]) -> Option<(DType, ScalarId, ScalarId)> {
    let [root] = roots else { return None };
    match body.ops[*root] {
        ScalarOp::Binary(BinaryOp::Mul, a, b) if reducer.as_binary() == Some(BinaryOp::Add) => {
            Some((body.dtype(a), a, b)).filter(|(dtype, ..)| value_is_word(*dtype))
        }
        _ => None,
    }
}

/// Narrow integers wrap after each operation, halves round, and bools are no numbers: these go the long way.
fn value_is_word(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64)
}
