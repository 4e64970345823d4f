//! Statements: loops, branches, stores and reductions.

use super::address::LaneForm;
use super::expr::Evaluation;
use super::{Lane, Lower, LowerError, VarValue, known};
use crate::vir::builder::{Builder, Memory};
use crate::vir::{Cond, Elem, Type, Value};
use infc_ir::entity::{BufferId, EntityId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{OperandKind, Reducer};
use infc_ir::nest::{BufferKind, Expr, LoopKind, Stmt, Target};
use infc_ir::scalar::{BinaryOp, ScalarOp};
use infc_ir::schedule::Scope;
use infc_tensor::DType;
use std::collections::BTreeSet;

/// Local buffers start on cache lines.
const SCRATCH_ALIGN: i64 = 64;

impl Lower<'_> {
    /// A block: local buffers allocated in it are gone at its end.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), LowerError> {
        let scratch = self.scratch_next.clone();
        let mut rest = stmts;
        while let Some((stmt, after)) = rest.split_first() {
            rest = after;
            self.stmt(stmt)?;
            if let Stmt::Alloc(buffer) = stmt
                && let Some(sums) = self.in_tiles(*buffer, after)
            {
                rest = self.tiled_sums(sums, after)?;
            }
        }
        self.scratch_next = scratch;
        Ok(())
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        match stmt {
            Stmt::For { .. } if self.tile_nest(stmt)? => Ok(()),
            Stmt::For { var, extent, kind, body } => self.for_loop(*var, extent, *kind, body),
            Stmt::Let { var, value } => {
                let value = self.resolve(value);
                let value = self.index_value(&value)?;
                self.vars[var.index()] = Some(match self.b.as_const(value) {
                    Some(c) => VarValue::Const(c),
                    None => VarValue::Value(value),
                });
                Ok(())
            }
            Stmt::LetValue { var, value } => self.let_value(*var, value),
            Stmt::If { cond, then, otherwise } => self.branch(cond, then, otherwise),
            Stmt::Alloc(buffer) => self.alloc(*buffer),
            Stmt::Store { targets, value, valid } => self.store(targets, value, valid),
            Stmt::Reduce { targets, value, reducer, valid } => self.reduce(targets, value, reducer, valid),
            Stmt::Prefetch { target } => self.prefetch(target),
            Stmt::Barrier => self.unsupported("barriers are for GPUs"),
            Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::ProductsWait { .. } => {
                self.unsupported("asynchronous copies and products are for GPUs")
            }
        }
    }

    /// A variable that memory tells; the same for all lanes.
    fn let_value(&mut self, var: VarId, value: &Expr) -> Result<(), LowerError> {
        let &[root] = &value.roots[..] else { return self.unsupported("a variable of several values") };
        let mut at = Evaluation::new(self, &value.body, &[]);
        if self.lane.is_some() && !at.is_uniform(root) {
            return self.unsupported("a variable that differs between lanes");
        }
        let value = self.scalar(&mut at, root)?;
        self.vars[var.index()] = Some(VarValue::Value(value));
        Ok(())
    }

    fn alloc(&mut self, id: BufferId) -> Result<(), LowerError> {
        let buffer = &self.nest.buffers[id];
        match buffer.kind {
            BufferKind::Operand { .. } => self.unsupported("an operand is not allocated"),
            BufferKind::Local(Scope::Register) => {
                self.registers.insert(id, std::collections::BTreeMap::new());
                Ok(())
            }
            BufferKind::Local(_) => {
                let elem = self.memory_type(buffer.dtype)?;
                // Room for a whole vector behind the last element, so that unmasked vectors may be used.
                let bytes = (buffer.len_elems.clone()).scale(i64::from(elem.size_bytes())) + SCRATCH_ALIGN;
                let aligned = bytes.ceil_div(&IndexExpr::constant(SCRATCH_ALIGN)).scale(SCRATCH_ALIGN);
                let start = self.scratch_next.clone();
                self.scratch_next = (start.clone() + aligned).simplify(&self.ranges);
                self.scratch_peak = self.scratch_peak.maximum(&self.scratch_next).simplify(&self.ranges);
                let offset = self.index_value(&start)?;
                let scratch = self.b.param(3);
                self.bases[id.index()] = Some(self.b.add(scratch, offset));
                Ok(())
            }
        }
    }

    // -------------------------------------------------------------------------------------------------- loops --

    fn for_loop(&mut self, var: VarId, extent: &IndexExpr, kind: LoopKind, body: &[Stmt]) -> Result<(), LowerError> {
        let extent = self.resolve(extent);
        match kind {
            LoopKind::Bound(dim) => self.unsupported(format!("a loop bound to {dim}")),
            LoopKind::Unrolled => self.unrolled(var, &extent, body),
            LoopKind::Tensor(intrinsic) if intrinsic.is_tile() => {
                self.tiles_in_memory += 1;
                let serial = Stmt::For { var, extent, kind: LoopKind::Serial, body: body.to_vec() };
                self.stmt(&serial)
            }
            LoopKind::Tensor(intrinsic) => {
                if extent.is_const(intrinsic.turns()) && self.dot(intrinsic, var, body)? {
                    Ok(())
                } else {
                    self.unrolled(var, &extent, body)
                }
            }
            LoopKind::Vector { lanes } => {
                if self.lane.is_some() {
                    return self.unsupported("a vector loop inside another");
                }
                let Some(extent) = extent.as_const() else {
                    return self.unsupported("a vector loop of unknown length");
                };
                if extent == 0 {
                    return Ok(());
                }
                self.lane = Some(Lane { var, lanes, extent });
                self.vars[var.index()] = Some(VarValue::Lane);
                self.stmts(body)?;
                self.lane = None;
                self.vars[var.index()] = None;
                Ok(())
            }
            LoopKind::Serial => {
                let (start, end) = (self.b.iconst(0), self.index_value(&extent)?);
                let nonempty = self.ranges.interval(&extent).min.is_some_and(|m| m >= 1);
                self.forget_factors();
                let live = self.live_registers(body);
                let inits: Vec<Value> = live.iter().map(|(buffer, index)| self.registers[buffer][index]).collect();
                let outside = self.registers.clone();
                let (iv, carried) = self.b.loop_open(start, end, 1, nonempty, &inits);
                self.set_registers(&live, &carried);
                self.vars[var.index()] = Some(match self.b.as_const(iv) {
                    Some(c) => VarValue::Const(c),
                    None => VarValue::Value(iv),
                });
                self.stmts(body)?;
                let yields: Vec<Value> = live.iter().map(|(buffer, index)| self.registers[buffer][index]).collect();
                let results = self.b.loop_close(&yields);
                self.forget_factors();
                self.vars[var.index()] = None;
                self.registers = outside;
                self.set_registers(&live, &results);
                Ok(())
            }
        }
    }

    fn unrolled(&mut self, var: VarId, extent: &IndexExpr, body: &[Stmt]) -> Result<(), LowerError> {
        let Some(turns) = extent.as_const() else {
            return self.unsupported("an unrolled loop of unknown length");
        };
        for turn in 0..turns {
            self.vars[var.index()] = Some(VarValue::Const(turn));
            self.stmts(body)?;
        }
        self.vars[var.index()] = None;
        Ok(())
    }

    /// Register contents that exist now and that the statements change.
    fn live_registers(&self, stmts: &[Stmt]) -> Vec<(BufferId, i64)> {
        let mut written = BTreeSet::new();
        written_buffers(stmts, &mut written);
        let mut live = Vec::new();
        for buffer in written {
            if let Some(contents) = self.registers.get(&buffer) {
                live.extend(contents.keys().map(|&index| (buffer, index)));
            }
        }
        live
    }

    fn set_registers(&mut self, places: &[(BufferId, i64)], values: &[Value]) {
        for ((buffer, index), value) in places.iter().zip(values) {
            self.registers.entry(*buffer).or_default().insert(*index, *value);
        }
    }

    fn branch(&mut self, cond: &[infc_ir::access::Bound], then: &[Stmt], otherwise: &[Stmt]) -> Result<(), LowerError> {
        let condition = self.condition(cond)?;
        if condition.never {
            return self.stmts(otherwise);
        }
        if condition.lanes.is_some() {
            return self.unsupported("a branch that differs between lanes");
        }
        let Some(holds) = condition.scalar else { return self.stmts(then) };
        let mut live = self.live_registers(then);
        live.extend(self.live_registers(otherwise));
        live.sort_unstable();
        live.dedup();
        let outside = self.registers.clone();
        let now = |l: &Self| live.iter().map(|(buffer, index)| l.registers[buffer][index]).collect::<Vec<_>>();
        let ranges = self.ranges.clone();
        self.b.if_open(holds);
        self.ranges = known::within(&ranges, cond);
        self.stmts(then)?;
        let yields = now(self);
        self.b.if_else(&yields);
        self.registers = outside.clone();
        self.ranges = known::beyond(&ranges, cond);
        self.stmts(otherwise)?;
        self.ranges = ranges;
        let yields = now(self);
        let results = self.b.if_close(&yields);
        self.registers = outside;
        self.set_registers(&live, &results);
        Ok(())
    }

    // ------------------------------------------------------------------------------------------------- stores --

    fn store(&mut self, targets: &[Target], value: &Expr, valid: &[infc_ir::access::Bound]) -> Result<(), LowerError> {
        let condition = self.condition(valid)?;
        if condition.never {
            return Ok(());
        }
        let all_registers = targets.iter().all(|t| self.is_register(t.buffer));
        let lanes = self.lane_mask(super::mask::Condition { scalar: None, ..condition });
        let extent = self.extent_mask();
        let branch = if all_registers { None } else { condition.scalar };
        if let Some(holds) = branch {
            self.b.if_open(holds);
        }
        let mut at = Evaluation::new(self, &value.body, &[]);
        let mut values = Vec::new();
        for &root in &value.roots {
            values.push(self.vector(&mut at, root)?);
        }
        let uniform: Vec<bool> = value.roots.iter().map(|&r| at.is_uniform(r)).collect();
        for ((target, new), uniform) in targets.iter().zip(values).zip(uniform) {
            if self.is_register(target.buffer) {
                let mask = self.lane_mask(condition);
                self.set_register(target, new, mask, uniform)?;
            } else {
                let mask = self.intersect(lanes, extent);
                self.write(target, new, mask, uniform)?;
            }
        }
        if branch.is_some() {
            self.b.if_close(&[]);
        }
        Ok(())
    }

    /// Asks for the cache lines that the lanes of a vector write or read, if they lie side by side. Single elements are not
    /// worth an instruction each.
    fn prefetch(&mut self, target: &Target) -> Result<(), LowerError> {
        let elem = self.memory_type(self.nest.buffers[target.buffer].dtype)?;
        let flat = self.resolve(&target.index);
        if self.lanes() == 1 {
            return Ok(());
        }
        let LaneForm::Strided { rest, step: 1 } = self.lane_form(flat) else { return Ok(()) };
        let (base, disp) = self.address(target.buffer, &rest, elem.size_bytes())?;
        let write =
            matches!(self.nest.buffers[target.buffer].kind, BufferKind::Operand { role: OperandKind::Output, .. });
        // Arguments start on cache lines. A vector in the middle of a line leaves it to the first one there.
        let per_line = SCRATCH_ALIGN / i64::from(elem.size_bytes());
        let into_line = rest.modulo(&IndexExpr::constant(per_line)).simplify(&self.ranges).as_const();
        let first = into_line.map_or(0, |n| (per_line - n) % per_line);
        for element in (first..i64::from(self.lanes())).step_by(per_line as usize) {
            if let Ok(offset) = i32::try_from(element * i64::from(elem.size_bytes()))
                && let Some(disp) = disp.checked_add(offset)
            {
                self.b.prefetch(base, disp, write);
            }
        }
        Ok(())
    }

    pub(super) fn set_register(
        &mut self,
        target: &Target,
        new: Value,
        mask: Option<Value>,
        uniform: bool,
    ) -> Result<(), LowerError> {
        let flat = self.resolve(&target.index);
        let (rest, new) = match self.lane_form(flat) {
            LaneForm::Strided { rest, step: 1 } => (rest, new),
            LaneForm::Uniform(e) if self.lanes() == 1 => (e, new),
            LaneForm::Uniform(e) if uniform => {
                let first = self.b.extract_or_same(new);
                (e, first)
            }
            _ => return self.unsupported("a register buffer is written with a stride between lanes"),
        };
        let name = &self.nest.buffers[target.buffer].name;
        let Some(index) = rest.as_const() else {
            return self.unsupported(format!("register buffer `{name}` is written at the variable index {rest}"));
        };
        let contents = self.registers.entry(target.buffer).or_default();
        let value = match (mask, contents.get(&index).copied()) {
            (Some(mask), Some(old)) if self.b.ty(old) == self.b.ty(new) => self.select(mask, new, old),
            _ => new,
        };
        self.registers.entry(target.buffer).or_default().insert(index, value);
        Ok(())
    }

    /// Writes to memory the lanes of a mask.
    pub(super) fn write(
        &mut self,
        target: &Target,
        value: Value,
        mask: Option<Value>,
        uniform: bool,
    ) -> Result<(), LowerError> {
        let buffer = &self.nest.buffers[target.buffer];
        let dtype = buffer.dtype;
        let elem = self.memory_type(dtype)?;
        let flat = self.resolve(&target.index);
        if self.lanes() == 1 {
            let (base, disp) = self.address(target.buffer, &flat, elem.size_bytes())?;
            let raw = self.narrow(dtype, value);
            match mask {
                None => self.b.store(raw, base, disp),
                Some(mask) => {
                    self.b.if_open(mask);
                    self.b.store(raw, base, disp);
                    self.b.if_close(&[]);
                }
            }
            return Ok(());
        }
        match self.lane_form(flat) {
            LaneForm::Strided { rest, step: 1 } => {
                let (base, disp) = self.address(target.buffer, &rest, elem.size_bytes())?;
                let raw = self.narrow(dtype, value);
                let store = |b: &mut Builder| match mask {
                    None => b.store(raw, base, disp),
                    Some(mask) => b.store_masked(raw, base, disp, mask),
                };
                match self.memory(target.buffer) {
                    Memory::Scratch => store(&mut self.b),
                    Memory::ReadOnly | Memory::Written => self.b.outside_scratch(store),
                }
            }
            LaneForm::Uniform(e) if uniform => {
                let (base, disp) = self.address(target.buffer, &e, elem.size_bytes())?;
                let first = self.b.extract_or_same(value);
                let raw = self.narrow(dtype, first);
                self.b.store(raw, base, disp);
            }
            LaneForm::Uniform(e) => {
                // Coordinates are as many as points, so this axis turns out to have one point at most.
                let (base, disp) = self.address(target.buffer, &e, elem.size_bytes())?;
                let first = self.b.extract_or_same(value);
                let raw = self.narrow(dtype, first);
                match mask {
                    None => self.b.store(raw, base, disp),
                    Some(mask) => {
                        let is_on = self.b.extract_or_same(mask);
                        self.b.if_open(is_on);
                        self.b.store(raw, base, disp);
                        self.b.if_close(&[]);
                    }
                }
            }
            LaneForm::Strided { rest, step } => {
                let lane = self.lane.expect("lanes > 1").var;
                let index = self.index_vector(&IndexExpr::var(lane).scale(step))?;
                let (base, disp) = self.address(target.buffer, &rest, elem.size_bytes())?;
                let raw = self.narrow(dtype, value);
                self.b.scatter(raw, base, index, elem.size_bytes() as u8, disp, mask);
            }
            LaneForm::Irregular(e) => {
                let lane = self.lane.expect("lanes > 1");
                let on = mask.map_or(Some(u64::MAX), |mask| self.b.const_bits(mask));
                if let (Some(on), Some((step, rest))) = (on, e.linear_in(lane.var)) {
                    let raw = self.narrow(dtype, value);
                    for n in (0..lane.lanes).filter(|n| on >> n & 1 == 1) {
                        let at = rest.clone() + step.scale(i64::from(n));
                        let (base, disp) = self.address(target.buffer, &at, elem.size_bytes())?;
                        let one = self.b.extract(raw, n);
                        self.b.store(one, base, disp);
                    }
                    return Ok(());
                }
                let (rest, index) = self.irregular(e)?;
                let (base, disp) = self.address(target.buffer, &rest, elem.size_bytes())?;
                let raw = self.narrow(dtype, value);
                self.b.scatter(raw, base, index, elem.size_bytes() as u8, disp, mask);
            }
        }
        Ok(())
    }

    // --------------------------------------------------------------------------------------------- reductions --

    fn reduce(
        &mut self,
        targets: &[Target],
        value: &Expr,
        reducer: &Reducer,
        valid: &[infc_ir::access::Bound],
    ) -> Result<(), LowerError> {
        let condition = self.condition(valid)?;
        if condition.never {
            return Ok(());
        }
        let first = targets.first().map(|t| self.resolve(&t.index)).unwrap_or_default();
        let horizontal = self.lanes() > 1 && matches!(self.lane_form(first), LaneForm::Uniform(_));
        if horizontal {
            return self.reduce_lanes(targets, value, reducer, condition);
        }
        let mut at = Evaluation::new(self, &value.body, &[]);
        let mut old = Vec::new();
        for target in targets {
            old.push(self.read(target)?);
        }
        let new = self.combine_with(&mut at, value, reducer, &old)?;
        let mut mask = self.lane_mask(condition);
        for ((target, new), old) in targets.iter().zip(new).zip(old) {
            if self.is_register(target.buffer) {
                let new = match mask {
                    Some(mask) => self.select(mask, new, old),
                    None => new,
                };
                self.set_register(target, new, None, false)?;
            } else {
                let extent = self.extent_mask();
                mask = self.intersect(mask, extent);
                self.write(target, new, mask, false)?;
            }
        }
        Ok(())
    }

    /// `combine(old, value)`; a sum of products becomes a fused multiply-add.
    fn combine_with(
        &mut self,
        at: &mut Evaluation<'_>,
        value: &Expr,
        reducer: &Reducer,
        old: &[Value],
    ) -> Result<Vec<Value>, LowerError> {
        if reducer.as_binary() == Some(BinaryOp::Add)
            && let [root] = value.roots[..]
            && matches!(at.body.dtype(root), DType::F32 | DType::F64)
            && let ScalarOp::Binary(BinaryOp::Mul, a, b) = at.body.ops[root]
        {
            let (x, y) = (self.vector(at, a)?, self.vector(at, b)?);
            // A product starts a sum as well as one added to zero does; only the sign of a zero may differ.
            let starts = self.b.const_bits(old[0]) == Some(0);
            return Ok(vec![if starts { self.b.mul(x, y) } else { self.b.fma(x, y, old[0]) }]);
        }
        let mut params = old.to_vec();
        for &root in &value.roots {
            params.push(self.vector(at, root)?);
        }
        self.combine(reducer, &params)
    }

    fn combine(&mut self, reducer: &Reducer, params: &[Value]) -> Result<Vec<Value>, LowerError> {
        let lanes = self.b.ty(params[0]).lanes;
        // The combine function has no loads and no indices, so it runs at any width.
        let saved = self.lane;
        self.lane = (lanes > 1).then(|| Lane { var: VarId(u32::MAX), lanes, extent: i64::from(lanes) });
        let mut at = Evaluation::new(self, &reducer.combine, params);
        let results = reducer.results.iter().map(|&r| self.vector(&mut at, r)).collect();
        self.lane = saved;
        results
    }

    /// Folds all lanes into one element: halves are combined until one lane is left, in lane order.
    fn reduce_lanes(
        &mut self,
        targets: &[Target],
        value: &Expr,
        reducer: &Reducer,
        condition: super::mask::Condition,
    ) -> Result<(), LowerError> {
        let mut at = Evaluation::new(self, &value.body, &[]);
        let valid = self.lane_mask(condition);
        let extent = self.extent_mask();
        let mask = self.intersect(valid, extent);
        let mut parts = Vec::new();
        for (&root, init) in value.roots.iter().zip(&reducer.init) {
            let mut part = self.vector(&mut at, root)?;
            if let Some(mask) = mask {
                let neutral = self.constant(*init, self.lanes())?;
                part = self.select(mask, part, neutral);
            }
            parts.push(part);
        }
        while self.b.ty(parts[0]).lanes > 1 {
            let low: Vec<Value> = parts.iter().map(|&p| self.b.low_half(p)).collect();
            let high: Vec<Value> = parts.iter().map(|&p| self.b.high_half(p)).collect();
            let params: Vec<Value> = low.into_iter().chain(high).collect();
            parts = self.combine(reducer, &params)?;
        }
        let lane = self.lane.take();
        let mut params = Vec::new();
        for target in targets {
            params.push(self.read(target)?);
        }
        // A sum that starts with the first part may differ from one that starts with zero in the sign of a zero only.
        let starts = reducer.as_binary() == Some(BinaryOp::Add)
            && parts.len() == 1
            && self.b.ty(parts[0]).elem.is_float()
            && self.b.const_bits(params[0]) == Some(0);
        let new = if starts {
            parts
        } else {
            params.extend(parts);
            self.combine(reducer, &params)?
        };
        for (target, new) in targets.iter().zip(new) {
            if self.is_register(target.buffer) {
                self.set_register(target, new, None, true)?;
            } else {
                self.write(target, new, None, true)?;
            }
        }
        self.lane = lane;
        Ok(())
    }

    /// The present content of a target.
    pub(super) fn read(&mut self, target: &Target) -> Result<Value, LowerError> {
        let dtype = self.nest.buffers[target.buffer].dtype;
        let mut body = infc_ir::scalar::Body::default();
        let root = body.push(ScalarOp::Load(infc_ir::scalar::Load {
            source: infc_ir::scalar::Source::Buffer(target.buffer),
            index: vec![target.index.clone()],
            gather: Vec::new(),
            valid: Vec::new(),
            otherwise: infc_ir::scalar::Const::zero(dtype),
            dtype,
        }));
        let mut at = Evaluation::new(self, &body, &[]);
        self.vector(&mut at, root)
    }
}

impl crate::vir::builder::Builder {
    /// Lane 0 of a vector; a scalar is itself.
    fn extract_or_same(&mut self, value: Value) -> Value {
        let ty = self.ty(value);
        if ty.lanes == 1 {
            return value;
        }
        if let Some(&crate::vir::Op::Splat(scalar)) = self.op(value) {
            return scalar;
        }
        if ty.elem == Elem::Mask {
            let bits = self.mask_bits(value);
            let one = self.iconst(1);
            let low = self.and(bits, one);
            let zero = self.constant(Type::scalar(Elem::I64), 0);
            return self.compare(Cond::Ne, low, zero);
        }
        self.extract(value, 0)
    }
}

/// Buffers that statements write.
fn written_buffers(stmts: &[Stmt], written: &mut BTreeSet<BufferId>) {
    for stmt in stmts {
        match stmt {
            Stmt::For { body, .. } => written_buffers(body, written),
            Stmt::If { then, otherwise, .. } => {
                written_buffers(then, written);
                written_buffers(otherwise, written);
            }
            Stmt::Store { targets, .. } | Stmt::Reduce { targets, .. } => {
                written.extend(targets.iter().map(|t| t.buffer));
            }
            Stmt::AsyncCopy { target, .. } => {
                written.insert(target.buffer);
            }
            Stmt::Let { .. }
            | Stmt::LetValue { .. }
            | Stmt::Alloc(_)
            | Stmt::Barrier
            | Stmt::Prefetch { .. }
            | Stmt::AsyncCommit
            | Stmt::AsyncWait { .. }
            | Stmt::ProductsWait { .. } => {}
        }
    }
}
