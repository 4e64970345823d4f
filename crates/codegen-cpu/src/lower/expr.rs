//! Scalar expressions to values.
//!
//! In a vector loop, what does not depend on the lane is computed once as a scalar and splat where a vector needs it
//! (a uniform load becomes a broadcast load); the rest is computed in vectors.

use super::address::LaneForm;
use super::mask::Condition;
use super::quantize::quantization;
use super::{Lower, LowerError, memory_elem, register_type};
use crate::vir::builder::Memory;
use crate::vir::{Convert, Elem, Type, Value};
use infc_ir::entity::{BufferId, EntityId, ScalarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::OperandKind;
use infc_ir::nest::BufferKind;
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use infc_ir::schedule::Scope;
use infc_tensor::DType;

/// The evaluation of one body at one place.
pub(super) struct Evaluation<'e> {
    pub(super) body: &'e Body,
    /// Values of `Param(n)`, as wide as the present lanes.
    params: &'e [Value],
    /// What does not depend on the lane.
    uniform: Vec<bool>,
    scalars: Vec<Option<Value>>,
    vectors: Vec<Option<Value>>,
}

impl<'e> Evaluation<'e> {
    pub(super) fn new(lower: &Lower<'_>, body: &'e Body, params: &'e [Value]) -> Self {
        let mut uniform = Vec::with_capacity(body.ops.len());
        let lane_free = |e: &IndexExpr| lower.lane.is_none_or(|l| !e.uses_var(l.var));
        for op in body.ops.iter() {
            let own = match op {
                ScalarOp::Param(n, _) => lower.lanes() == 1 || lower.b.ty(params[usize::from(*n)]).lanes == 1,
                ScalarOp::Index(e) => lane_free(e),
                ScalarOp::InBounds(bounds) => {
                    bounds.iter().all(|b| lane_free(&b.expr) && lane_free(&b.lo) && lane_free(&b.hi))
                }
                ScalarOp::Load(load) => {
                    load.index.iter().all(lane_free)
                        && load.gather.iter().all(|(_, _, by)| lane_free(by))
                        && load.valid.iter().all(|b| lane_free(&b.expr) && lane_free(&b.lo) && lane_free(&b.hi))
                }
                _ => true,
            };
            let mut all = own;
            op.for_each_operand(&mut |o| all &= uniform[o.index()]);
            uniform.push(all);
        }
        Self { body, params, uniform, scalars: vec![None; body.ops.len()], vectors: vec![None; body.ops.len()] }
    }

    /// Whether the value is the same in all lanes.
    pub(super) fn is_uniform(&self, id: ScalarId) -> bool {
        self.uniform[id.index()]
    }

    fn known(&self, id: ScalarId, lanes: u16) -> Option<Value> {
        if lanes == 1 { self.scalars[id.index()] } else { self.vectors[id.index()] }
    }

    fn learn(&mut self, id: ScalarId, lanes: u16, value: Value) {
        let values = if lanes == 1 { &mut self.scalars } else { &mut self.vectors };
        values[id.index()] = Some(value);
    }
}

impl Lower<'_> {
    /// The value as a vector of the present lanes (a scalar outside vector loops).
    pub(super) fn vector(&mut self, at: &mut Evaluation<'_>, id: ScalarId) -> Result<Value, LowerError> {
        self.value(at, id, self.lanes())
    }

    /// The value as a scalar; it must be uniform.
    pub(super) fn scalar(&mut self, at: &mut Evaluation<'_>, id: ScalarId) -> Result<Value, LowerError> {
        self.value(at, id, 1)
    }

    /// The value in so many lanes. Operands come first, left to right, from a stack of our own: a chain is as long as its
    /// author made it.
    fn value(&mut self, at: &mut Evaluation<'_>, id: ScalarId, lanes: u16) -> Result<Value, LowerError> {
        let mut wanted = vec![(id, lanes)];
        while let Some(&(id, lanes)) = wanted.last() {
            if at.known(id, lanes).is_some() {
                wanted.pop();
                continue;
            }
            let before = wanted.len();
            self.missing(at, id, lanes, &mut wanted);
            if wanted.len() > before {
                wanted[before..].reverse();
                continue;
            }
            let value = match &at.body.ops[id] {
                ScalarOp::Load(load) if lanes > 1 && at.is_uniform(id) && load.gather.is_empty() => {
                    self.broadcast(load)?
                }
                ScalarOp::Const(_) => self.operation(at, id, lanes)?,
                _ if lanes > 1 && at.is_uniform(id) => {
                    let scalar = self.scalar(at, id)?;
                    self.splat(scalar, lanes)
                }
                _ => self.operation(at, id, lanes)?,
            };
            at.learn(id, lanes, value);
            wanted.pop();
        }
        Ok(at.known(id, lanes).expect("computed above"))
    }

    /// What has to be computed before a value is.
    fn missing(&self, at: &Evaluation<'_>, id: ScalarId, lanes: u16, wanted: &mut Vec<(ScalarId, u16)>) {
        let op = &at.body.ops[id];
        let mut want = |id, lanes| {
            if at.known(id, lanes).is_none() {
                wanted.push((id, lanes));
            }
        };
        match op {
            ScalarOp::Const(_) | ScalarOp::Param(..) | ScalarOp::Index(_) | ScalarOp::InBounds(_) => {}
            ScalarOp::Load(load) if load.gather.is_empty() => {}
            _ if lanes > 1 && at.is_uniform(id) => want(id, 1),
            ScalarOp::Load(load) => {
                let uniform = load.gather.iter().all(|(_, v, _)| at.is_uniform(*v));
                load.gather.iter().for_each(|(_, v, _)| want(*v, if uniform { 1 } else { lanes }));
            }
            ScalarOp::Select(c, a, b) => match at.known(*c, lanes).map(|mask| self.choice(mask, lanes)) {
                None => want(*c, lanes),
                Some(choice) => {
                    if choice != Some(false) {
                        want(*a, lanes);
                    }
                    if choice != Some(true) {
                        want(*b, lanes);
                    }
                }
            },
            _ => match quantization(at.body, id, self.fuses) {
                Some(quantization) => want(quantization.value, lanes),
                None => op.for_each_operand(&mut |o| want(o, lanes)),
            },
        }
    }

    /// Which side a mask chooses, if it is known to choose the same in all lanes.
    fn choice(&self, mask: Value, lanes: u16) -> Option<bool> {
        let all = u64::MAX >> (64 - u32::from(lanes).min(64));
        match self.b.const_bits(mask)? & all {
            0 => Some(false),
            bits if bits == all => Some(true),
            _ => None,
        }
    }

    /// A scalar in all lanes; masks too.
    pub(super) fn splat(&mut self, scalar: Value, lanes: u16) -> Value {
        if lanes == 1 {
            return scalar;
        }
        if self.b.ty(scalar).elem == Elem::Mask {
            let (all, none) = (self.b.iconst(i64::from(lanes)), self.b.iconst(0));
            let count = self.b.select(scalar, all, none);
            return self.b.first_lanes(count, lanes);
        }
        self.b.splat(scalar, lanes)
    }

    pub(super) fn constant(&mut self, c: Const, lanes: u16) -> Result<Value, LowerError> {
        let Some(ty) = register_type(c.dtype, lanes) else {
            return self.unsupported(format!("constants of type {} in generated code", c.dtype));
        };
        Ok(match ty.elem {
            Elem::Mask => self.b.constant(ty, if c.bits == 0 { 0 } else { u64::MAX }),
            Elem::F32 => self.b.fconst(ty, c.to_f64()),
            Elem::F64 => self.b.constant(ty, c.bits),
            // Narrow integers are held extended.
            _ => {
                let extended = infc_ir::scalar::Scalar::from_const(c).to_i64();
                self.b.constant(ty, extended.cast_unsigned())
            }
        })
    }

    fn operation(&mut self, at: &mut Evaluation<'_>, id: ScalarId, lanes: u16) -> Result<Value, LowerError> {
        let body = at.body;
        match &body.ops[id] {
            ScalarOp::Const(c) => self.constant(*c, lanes),
            ScalarOp::Param(n, _) => {
                let value = at.params[usize::from(*n)];
                Ok(if self.b.ty(value).lanes == lanes { value } else { self.splat(value, lanes) })
            }
            ScalarOp::Index(e) => {
                let e = self.resolve(e);
                if lanes == 1 { self.index_value(&e) } else { self.index_vector_of(&e, Elem::I64) }
            }
            ScalarOp::InBounds(bounds) => {
                let condition = self.condition(bounds)?;
                if lanes == 1 {
                    let ty = Type::scalar(Elem::Mask);
                    return Ok(match (condition.never, condition.scalar) {
                        (true, _) => self.b.constant(ty, 0),
                        (false, Some(c)) => c,
                        (false, None) => self.b.constant(ty, 1),
                    });
                }
                let mask = self.lane_mask(condition);
                Ok(match mask {
                    Some(mask) => mask,
                    None => self.b.constant(Type::vector(Elem::Mask, lanes), u64::MAX),
                })
            }
            ScalarOp::Load(load) => self.load(at, load, lanes),
            ScalarOp::Unary(op, a) => {
                let value = self.value(at, *a, lanes)?;
                self.unary(*op, body.dtype(*a), value)
            }
            ScalarOp::Binary(op, a, b) => {
                let dtype = body.dtype(*a);
                let (x, y) = (self.value(at, *a, lanes)?, self.value(at, *b, lanes)?);
                self.binary(*op, dtype, x, y)
            }
            ScalarOp::Compare(op, a, b) => {
                let dtype = body.dtype(*a);
                let (x, y) = (self.value(at, *a, lanes)?, self.value(at, *b, lanes)?);
                self.compare(*op, dtype, x, y)
            }
            ScalarOp::Select(c, a, b) => {
                let mask = self.value(at, *c, lanes)?;
                // What a known choice leaves out is not computed: among formulas that unrolled loops choose from, it
                // would be most of the code.
                match self.choice(mask, lanes) {
                    Some(true) => return self.value(at, *a, lanes),
                    Some(false) => return self.value(at, *b, lanes),
                    None => {}
                }
                let (x, y) = (self.value(at, *a, lanes)?, self.value(at, *b, lanes)?);
                Ok(self.select(mask, x, y))
            }
            ScalarOp::Cast(to, a) => {
                let value = self.value(at, *a, lanes)?;
                self.cast(body.dtype(*a), *to, value)
            }
            ScalarOp::CastSaturating(to, a) => match quantization(body, id, self.fuses) {
                Some(parts) => {
                    let value = self.value(at, parts.value, lanes)?;
                    Ok(self.quantize(&parts, value))
                }
                None => {
                    let value = self.value(at, *a, lanes)?;
                    self.cast_saturating(body.dtype(*a), *to, value)
                }
            },
            ScalarOp::BitCast(to, a) => {
                let value = self.value(at, *a, lanes)?;
                self.bit_cast(body.dtype(*a), *to, value)
            }
        }
    }

    // -------------------------------------------------------------------------------------------------- loads --

    pub(super) fn buffer_of(&self, load: &Load) -> Result<BufferId, LowerError> {
        match load.source {
            Source::Buffer(buffer) => Ok(buffer),
            _ => self.unsupported("a load that is not from a buffer"),
        }
    }

    pub(super) fn is_register(&self, buffer: BufferId) -> bool {
        self.nest.buffers[buffer].kind == BufferKind::Local(Scope::Register)
    }

    pub(super) fn memory(&self, buffer: BufferId) -> Memory {
        match self.nest.buffers[buffer].kind {
            BufferKind::Operand { role: OperandKind::Input | OperandKind::Constant, .. } => Memory::ReadOnly,
            BufferKind::Operand { role: OperandKind::Output, .. } => Memory::Written,
            BufferKind::Local(_) => Memory::Scratch,
        }
    }

    /// A uniform load, in all lanes.
    fn broadcast(&mut self, load: &Load) -> Result<Value, LowerError> {
        let lanes = self.lanes();
        let buffer = self.buffer_of(load)?;
        let flat = self.resolve(&load.index[0]);
        let condition = self.readable(buffer, load)?;
        if self.is_register(buffer) {
            return self.where_valid(condition, load.otherwise, lanes, &mut |l| {
                let value = l.register(buffer, &flat)?;
                Ok(if l.b.ty(value).lanes == lanes { value } else { l.splat(value, lanes) })
            });
        }
        self.guarded(condition, load.otherwise, lanes, &mut |l| {
            let elem = l.memory_type(load.dtype)?;
            let (base, disp) = l.address(buffer, &flat, elem.size_bytes())?;
            let memory = l.memory(buffer);
            let raw = l.b.load_splat(Type::vector(elem, lanes), base, disp, memory);
            l.widen(load.dtype, raw)
        })
    }

    /// Where a load reads. Of a buffer without elements nothing is read: only where there is nothing to compute can a
    /// kernel ask for it, but what is read may stand in front of the loop that is empty.
    fn readable(&mut self, buffer: BufferId, load: &Load) -> Result<Condition, LowerError> {
        let condition = self.condition(&load.valid)?;
        let is_empty = self.nest.buffers[buffer].len_elems.is_const(0);
        Ok(Condition { never: condition.never || is_empty, ..condition })
    }

    /// What is in registers where a condition holds, else a constant; reading more than that does no harm.
    fn where_valid(
        &mut self,
        condition: Condition,
        otherwise: Const,
        lanes: u16,
        read: &mut dyn FnMut(&mut Self) -> Result<Value, LowerError>,
    ) -> Result<Value, LowerError> {
        if condition.never {
            return self.constant(otherwise, lanes);
        }
        let value = read(self)?;
        let mask = if lanes == self.lanes() { self.lane_mask(condition) } else { condition.scalar };
        match mask {
            Some(mask) => {
                let otherwise = self.constant(otherwise, lanes)?;
                Ok(self.select(mask, value, otherwise))
            }
            None => Ok(value),
        }
    }

    /// A load where a condition holds for all lanes alike, else a constant.
    fn guarded(
        &mut self,
        condition: Condition,
        otherwise: Const,
        lanes: u16,
        read: &mut dyn FnMut(&mut Self) -> Result<Value, LowerError>,
    ) -> Result<Value, LowerError> {
        if condition.never {
            return self.constant(otherwise, lanes);
        }
        let Some(holds) = condition.scalar else { return read(self) };
        let fallback = self.constant(otherwise, lanes)?;
        // Masks cannot be carried out of a branch in every emitter; bools travel as integers.
        let is_mask = self.b.ty(fallback).elem == Elem::Mask;
        let pack = |l: &mut Self, v: Value| {
            if is_mask { l.b.convert(Convert::MaskToInt, v, Elem::I32) } else { v }
        };
        self.b.if_open(holds);
        let value = read(self)?;
        let value = pack(self, value);
        self.b.if_else(&[value]);
        let fallback = pack(self, fallback);
        let result = self.b.if_close(&[fallback])[0];
        if is_mask {
            let ty = self.b.ty(result);
            let zero = self.b.constant(ty, 0);
            return Ok(self.b.compare(crate::vir::Cond::Ne, result, zero));
        }
        Ok(result)
    }

    fn load(&mut self, at: &mut Evaluation<'_>, load: &Load, lanes: u16) -> Result<Value, LowerError> {
        let buffer = self.buffer_of(load)?;
        let flat = self.resolve(&load.index[0]);
        if self.is_register(buffer) {
            let condition = self.readable(buffer, load)?;
            return self.where_valid(condition, load.otherwise, lanes, &mut |l| {
                let rest = match l.lane_form(flat.clone()) {
                    LaneForm::Uniform(e) => e,
                    LaneForm::Strided { rest, step: 1 } => rest,
                    _ => return l.unsupported("a register buffer is read with a stride between lanes"),
                };
                let value = l.register(buffer, &rest)?;
                let have = l.b.ty(value).lanes;
                Ok(match (have, lanes) {
                    (1, n) if n > 1 => l.splat(value, n),
                    (n, 1) if n > 1 => l.b.extract(value, 0),
                    _ => value,
                })
            });
        }
        let condition = self.readable(buffer, load)?;
        if condition.never {
            return self.constant(load.otherwise, lanes);
        }
        if lanes == 1 {
            let mut address = None;
            if !load.gather.is_empty() {
                address = Some(self.gathered_scalar(at, load)?);
            }
            return self.guarded(condition, load.otherwise, 1, &mut |l| {
                let elem = l.memory_type(load.dtype)?;
                let (base, disp) = l.address(buffer, &flat, elem.size_bytes())?;
                let base = l.displaced(base, address, elem);
                let memory = l.memory(buffer);
                let raw = l.b.load(Type::scalar(elem), base, disp, memory);
                l.widen(load.dtype, raw)
            });
        }
        self.load_lanes(at, load, buffer, flat, condition)
    }

    /// A load that differs between lanes.
    fn load_lanes(
        &mut self,
        at: &mut Evaluation<'_>,
        load: &Load,
        buffer: BufferId,
        flat: IndexExpr,
        condition: Condition,
    ) -> Result<Value, LowerError> {
        let lanes = self.lanes();
        let elem = self.memory_type(load.dtype)?;
        let memory = self.memory(buffer);
        if memory == Memory::ReadOnly && load.looks_up(at.body, &self.nest.buffers[buffer].len_elems) {
            let index = self.vector(at, load.gather[0].1)?;
            let (base, disp) = self.address(buffer, &flat, elem.size_bytes())?;
            let raw = self.b.lookup(base, disp, index);
            return self.widen(load.dtype, raw);
        }
        let always = condition.is_always();
        let valid = self.lane_mask(condition);
        let extent = self.extent_mask();
        let uniform_gather = load.gather.iter().all(|(_, v, _)| at.is_uniform(*v));
        let form = self.lane_form(flat);
        let raw = match form {
            LaneForm::Strided { rest, step: 1 } if uniform_gather => {
                let offset = if load.gather.is_empty() { None } else { Some(self.gathered_scalar(at, load)?) };
                let fits = offset.is_none() && self.whole_vector_fits(buffer, &rest, lanes);
                let mask = if always && fits { None } else { self.intersect(valid, extent) };
                let (base, disp) = self.address(buffer, &rest, elem.size_bytes())?;
                let base = self.displaced(base, offset, elem);
                let ty = Type::vector(elem, lanes);
                match mask {
                    None => self.b.load(ty, base, disp, memory),
                    Some(mask) => self.b.load_masked(ty, base, disp, mask, memory),
                }
            }
            form => {
                let mask = self.intersect(valid, extent);
                let (rest, mut index) = match form {
                    LaneForm::Uniform(e) => (e, None),
                    LaneForm::Strided { rest, step } => {
                        let lane_only = IndexExpr::var(self.lane.expect("lanes > 1").var).scale(step);
                        (rest, Some(self.index_vector(&lane_only)?))
                    }
                    LaneForm::Irregular(e) => {
                        let (rest, index) = self.irregular(e)?;
                        (rest, Some(index))
                    }
                };
                let mut offset = None;
                if uniform_gather && !load.gather.is_empty() {
                    offset = Some(self.gathered_scalar(at, load)?);
                } else if !load.gather.is_empty() {
                    let gathered = self.gathered_vector(at, load)?;
                    index = Some(match index {
                        None => gathered,
                        Some(i) => {
                            let wide = self.widen_index(i);
                            self.b.add(gathered, wide)
                        }
                    });
                }
                let index = match index {
                    Some(index) => index,
                    None => self.b.constant(Type::vector(Elem::I32, lanes), 0),
                };
                let (base, disp) = self.address(buffer, &rest, elem.size_bytes())?;
                let base = self.displaced(base, offset, elem);
                let scale = elem.size_bytes() as u8;
                self.b.gather(elem, base, index, scale, disp, mask, memory)
            }
        };
        let value = self.widen(load.dtype, raw)?;
        match valid {
            Some(mask) if load.otherwise.bits != 0 => {
                let otherwise = self.constant(load.otherwise, lanes)?;
                Ok(self.select(mask, value, otherwise))
            }
            _ => Ok(value),
        }
    }

    /// `Σ v·factor` in elements, where no part depends on the lane.
    fn gathered_scalar(&mut self, at: &mut Evaluation<'_>, load: &Load) -> Result<Value, LowerError> {
        let mut sum: Option<Value> = None;
        for (_, v, factor) in &load.gather {
            let value = self.scalar(at, *v)?;
            let value = self.i64_of(value);
            let factor = self.resolve(factor);
            let factor = self.index_value(&factor)?;
            let part = self.b.mul(value, factor);
            sum = Some(sum.map_or(part, |s| self.b.add(s, part)));
        }
        Ok(sum.expect("called with a gather"))
    }

    fn gathered_vector(&mut self, at: &mut Evaluation<'_>, load: &Load) -> Result<Value, LowerError> {
        let mut sum: Option<Value> = None;
        for (_, v, factor) in &load.gather {
            let value = self.vector(at, *v)?;
            let value = self.widen_index(value);
            let factor = self.resolve(factor);
            let factor = self.index_vector_of(&factor, Elem::I64)?;
            let part = self.b.mul(value, factor);
            sum = Some(sum.map_or(part, |s| self.b.add(s, part)));
        }
        Ok(sum.expect("called with a gather"))
    }

    fn widen_index(&mut self, index: Value) -> Value {
        if self.b.ty(index).elem == Elem::I64 { index } else { self.b.convert(Convert::SignExtend, index, Elem::I64) }
    }

    /// `base + offset` elements.
    fn displaced(&mut self, base: Value, offset: Option<Value>, elem: Elem) -> Value {
        let Some(offset) = offset else { return base };
        let size = self.b.iconst(i64::from(elem.size_bytes()));
        let bytes = self.b.mul(offset, size);
        self.b.add(base, bytes)
    }

    /// The content of a register buffer.
    pub(super) fn register(&self, buffer: BufferId, index: &IndexExpr) -> Result<Value, LowerError> {
        let name = &self.nest.buffers[buffer].name;
        let Some(index) = index.as_const() else {
            return self.unsupported(format!("register buffer `{name}` is read at the variable index {index}"));
        };
        match self.registers.get(&buffer).and_then(|r| r.get(&index)) {
            Some(value) => Ok(*value),
            None => self.unsupported(format!("register buffer `{name}` is read at {index} before it is written")),
        }
    }

    pub(super) fn memory_type(&self, dtype: DType) -> Result<Elem, LowerError> {
        match memory_elem(dtype) {
            Some(elem) => Ok(elem),
            None => self.unsupported(format!("memory of type {dtype} in generated code")),
        }
    }
}
