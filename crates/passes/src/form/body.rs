//! The scalar expression of a stage: a value at some coordinates, in terms of what is in memory or in other stages.
//!
//! Views become arithmetic on coordinates, maps and look-ups become operations, and conditions under which elements
//! exist are carried down to the loads, so that nothing is read that a view does not show.

use super::FormError;
use super::lower::{Lowering, Place};
use crate::graph::evaluate::splat;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, ValueId, VarId};
use infc_ir::index::{Dim, IndexExpr, Proof, Ranges};
use infc_ir::op::{ConcatOp, GatherOp, MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, Source};
use infc_tensor::DType;
use std::collections::HashMap;

/// Maps read maps read …: groups are limited, so this is never reached by what grouping makes.
const MAX_DEPTH: usize = 512;

/// Builds one body.
pub(super) struct BodyBuilder<'l, 'a> {
    pub(super) lowering: &'l mut Lowering<'a>,
    pub(super) body: Body,
    ranges: Ranges,
    made: HashMap<(ValueId, Vec<IndexExpr>, Vec<Bound>), ScalarId>,
    depth: usize,
}

/// A value seen through views.
struct Seen {
    root: ValueId,
    index: Vec<IndexExpr>,
    valid: Vec<Bound>,
    otherwise: Option<Const>,
}

impl<'l, 'a> BodyBuilder<'l, 'a> {
    /// A body over axes with the given ranges.
    pub(super) fn new(lowering: &'l mut Lowering<'a>, ranges: Ranges) -> Self {
        Self { lowering, body: Body::default(), ranges, made: HashMap::new(), depth: 0 }
    }

    /// The value at the coordinates, wherever it comes from.
    pub(super) fn read(&mut self, value: ValueId, index: &[IndexExpr], guard: &[Bound]) -> Result<ScalarId, FormError> {
        let index: Vec<IndexExpr> = index.iter().map(|e| e.simplify(&self.ranges)).collect();
        let key = (value, index, guard.to_vec());
        if let Some(&id) = self.made.get(&key) {
            return Ok(id);
        }
        if self.depth > MAX_DEPTH {
            return Err(FormError::TooMany { what: "nested maps in a kernel", count: self.depth, limit: MAX_DEPTH });
        }
        self.depth += 1;
        let id = self.look_through(value, &key.1, guard)?;
        self.depth -= 1;
        self.made.insert(key, id);
        Ok(id)
    }

    fn look_through(&mut self, value: ValueId, index: &[IndexExpr], guard: &[Bound]) -> Result<ScalarId, FormError> {
        let seen = self.see(value, index);
        let dtype = self.lowering.graph().ty(seen.root).dtype;
        let otherwise = seen.otherwise.unwrap_or(Const::zero(dtype));
        let mut valid: Vec<Bound> = Vec::new();
        for bound in seen.valid {
            match bound.proof(&self.ranges) {
                Proof::Yes => {}
                Proof::No => return Ok(self.body.push(ScalarOp::Const(otherwise))),
                Proof::Unknown if valid.contains(&bound) => {}
                Proof::Unknown => valid.push(bound),
            }
        }
        let all: Vec<Bound> = guard.iter().filter(|b| !valid.contains(b)).chain(&valid).cloned().collect();
        if let Some(source) = self.lowering.place(seen.root, &seen.index)? {
            let (source, index) = match source {
                Place::Operand(operand) => (Source::Operand(operand), seen.index),
                Place::Stage(stage, component, index) => (Source::Stage(stage, component), index),
                Place::Const(c) => {
                    let inside = self.body.push(ScalarOp::Const(c));
                    return Ok(self.only_if(valid, inside, otherwise));
                }
            };
            // A stage may hold its sum in a wider type than the value has.
            let held = match source {
                Source::Stage(stage, component) => self.lowering.stage_dtype(stage, component),
                Source::Operand(_) | Source::Buffer(_) => dtype,
            };
            if held != dtype {
                let load =
                    Load { source, index, gather: Vec::new(), valid: all, otherwise: Const::zero(held), dtype: held };
                let value = self.body.push(ScalarOp::Load(load));
                let value = self.body.cast(dtype, value);
                return Ok(self.only_if(valid, value, otherwise));
            }
            let load = Load { source, index, gather: Vec::new(), valid: all, otherwise, dtype };
            return Ok(self.body.push(ScalarOp::Load(load)));
        }
        let inside = self.compute(seen.root, &seen.index, &all)?;
        Ok(self.only_if(valid, inside, otherwise))
    }

    fn only_if(&mut self, valid: Vec<Bound>, inside: ScalarId, otherwise: Const) -> ScalarId {
        if valid.is_empty() {
            return inside;
        }
        let holds = self.body.push(ScalarOp::InBounds(valid));
        let otherwise = self.body.push(ScalarOp::Const(otherwise));
        self.body.select(holds, inside, otherwise)
    }

    /// Follows views as long as what they write outside agrees.
    fn see(&self, value: ValueId, index: &[IndexExpr]) -> Seen {
        let mut seen = Seen { root: value, index: index.to_vec(), valid: Vec::new(), otherwise: None };
        let graph = self.lowering.graph();
        while !self.lowering.is_placed(seen.root)
            && let Some((_, node)) = graph.producer(seen.root)
            && let Op::View(view) = &node.op
        {
            let through = |e: &IndexExpr| e.substitute_vars(&seen.index).simplify(&self.ranges);
            let valid: Vec<Bound> = view.map.valid.iter().map(|b| b.map(through)).collect();
            let index = view.map.index.iter().map(through).collect();
            match seen.otherwise {
                Some(known) if !valid.is_empty() && known != view.otherwise => break,
                None if !valid.is_empty() => seen.otherwise = Some(view.otherwise),
                _ => {}
            }
            seen.valid.extend(valid);
            seen.index = index;
            seen.root = node.inputs[0];
        }
        seen
    }

    /// A value that is computed here.
    fn compute(&mut self, value: ValueId, index: &[IndexExpr], guard: &[Bound]) -> Result<ScalarId, FormError> {
        let graph = self.lowering.graph();
        let Some((_, node)) = graph.producer(value) else {
            return Err(malformed(value, "an input that is not in memory"));
        };
        match &node.op {
            Op::Map(map) => {
                let output = node.outputs.iter().position(|&o| o == value).unwrap_or(0);
                self.map(map, &node.inputs, output, index, guard)
            }
            Op::DimValue(dim) => Ok(self.body.push(ScalarOp::Index(dim.clone()))),
            Op::Gather(gather) => self.gather(gather, node.inputs[0], node.inputs[1], index, guard),
            Op::Concat(concat) => self.concat(concat, &node.inputs, index, guard),
            // What `see` stopped at: it pads with another value than the views before it.
            Op::View(_) => self.read(value, index, guard),
            Op::Constant(_)
            | Op::Reduce(_)
            | Op::Contract(_)
            | Op::Scan(_)
            | Op::Recurrence(_)
            | Op::If(_)
            | Op::Host(_)
            | Op::Composite(_) => Err(malformed(value, "a reduction or constant that has no place in its kernel")),
        }
    }

    fn map(
        &mut self,
        map: &MapOp,
        inputs: &[ValueId],
        output: usize,
        index: &[IndexExpr],
        guard: &[Bound],
    ) -> Result<ScalarId, FormError> {
        let result = map.results[output];
        let arguments = self.arguments(&map.body, &[result], inputs, index, guard)?;
        Ok(self.import(&map.body, &[result], &arguments, index)[0])
    }

    /// Reads the operands that a body over parameters needs.
    pub(super) fn arguments(
        &mut self,
        body: &Body,
        results: &[ScalarId],
        inputs: &[ValueId],
        index: &[IndexExpr],
        guard: &[Bound],
    ) -> Result<Vec<Option<ScalarId>>, FormError> {
        let mut arguments = vec![None; inputs.len()];
        for n in used_params(body, results) {
            let input = *inputs.get(n).ok_or_else(|| FormError::Malformed {
                place: "a map".to_owned(),
                what: format!("it uses parameter {n} of {}", inputs.len()),
            })?;
            arguments[n] = Some(self.read(input, index, guard)?);
        }
        Ok(arguments)
    }

    /// Copies a body over parameters, at the given coordinates.
    pub(super) fn import(
        &mut self,
        body: &Body,
        results: &[ScalarId],
        arguments: &[Option<ScalarId>],
        index: &[IndexExpr],
    ) -> Vec<ScalarId> {
        let ranges = &self.ranges;
        let at = |e: &IndexExpr| e.substitute_vars(index).simplify(ranges);
        self.body.import(body, results, &mut |out, op| match op {
            ScalarOp::Param(n, _) => arguments.get(usize::from(*n)).copied().flatten(),
            ScalarOp::Index(e) => Some(out.push(ScalarOp::Index(at(e)))),
            ScalarOp::InBounds(bounds) => {
                let open: Vec<Bound> =
                    bounds.iter().map(|b| b.map(at)).filter(|b| b.proof(ranges) != Proof::Yes).collect();
                let always = ScalarOp::Const(Const { dtype: DType::Bool, bits: 1 });
                Some(out.push(if open.is_empty() { always } else { ScalarOp::InBounds(open) }))
            }
            _ => None,
        })
    }

    /// A position as an element that there is: counted from the end if negative, and clamped.
    fn within(&mut self, position: ScalarId, extent: &Dim, last: ScalarId) -> ScalarId {
        let position = self.body.cast(DType::I64, position);
        let zero = self.body.push(ScalarOp::Const(Const::zero(DType::I64)));
        let extent_value = self.index_value(extent);
        let is_negative = self.body.compare(CompareOp::Lt, position, zero);
        let wrapped = self.body.binary(BinaryOp::Add, position, extent_value);
        let position = self.body.select(is_negative, wrapped, position);
        let position = self.body.binary(BinaryOp::Max, position, zero);
        self.body.binary(BinaryOp::Min, position, last)
    }

    fn gather(
        &mut self,
        op: &GatherOp,
        data: ValueId,
        indices: ValueId,
        index: &[IndexExpr],
        guard: &[Bound],
    ) -> Result<ScalarId, FormError> {
        let graph = self.lowering.graph();
        let looked_up = graph.ty(indices).shape.len();
        let ty = graph.ty(data).clone();
        let position = self.read(indices, &index[op.axis..op.axis + looked_up], guard)?;
        let extent = &ty.shape[op.axis];
        let last = self.index_value(&(extent.clone() - 1));
        let is_byte = self.body.dtype(position) == DType::U8;
        let position = if is_byte && extent.as_const().is_some_and(|extent| extent > u8::MAX.into()) {
            // There is an element for every byte.
            position
        } else {
            self.within(position, extent, last)
        };
        let mut at: Vec<IndexExpr> = index[..op.axis].to_vec();
        at.push(IndexExpr::constant(0));
        at.extend_from_slice(&index[op.axis + looked_up..]);
        let (source, at, axis, held) = match self.lowering.place(data, &at)? {
            Some(Place::Operand(operand)) => (Source::Operand(operand), at, Some((op.axis, position)), ty.dtype),
            Some(Place::Const(c)) => return Ok(self.body.push(ScalarOp::Const(c))),
            Some(Place::Stage(stage, component, mut at)) => {
                // A stage has no axes of one element, of which there is only one to look up.
                let axis = match self.lowering.stage_axis(data, op.axis) {
                    Some((axis, None)) => Some((axis, position)),
                    Some((axis, Some(_))) => {
                        at[axis] = IndexExpr::constant(0);
                        let position = self.body.cast(DType::I64, position);
                        Some((axis, self.body.binary(BinaryOp::Sub, last, position)))
                    }
                    None if extent.is_const(1) => None,
                    None => return Err(malformed(data, "a look-up in a value that is only read at one point")),
                };
                (Source::Stage(stage, component), at, axis, self.lowering.stage_dtype(stage, component))
            }
            None => return Err(malformed(data, "a look-up in a value that is not in memory")),
        };
        let mut gather = Vec::new();
        if let Some((axis, position)) = axis {
            let axis = u8::try_from(axis).map_err(|_| malformed(data, "more than 255 axes"))?;
            gather.push((axis, position, IndexExpr::constant(1)));
        }
        let valid = guard.to_vec();
        let load = Load { source, index: at, gather, valid, otherwise: Const::zero(held), dtype: held };
        let found = self.body.push(ScalarOp::Load(load));
        Ok(self.body.cast(ty.dtype, found))
    }

    fn index_value(&mut self, e: &IndexExpr) -> ScalarId {
        match e.as_const() {
            Some(value) => self.body.push(ScalarOp::Const(Const::from_i64(DType::I64, value))),
            None => self.body.push(ScalarOp::Index(e.clone())),
        }
    }

    /// Inside of a composite: each part is read where it is.
    fn concat(
        &mut self,
        op: &ConcatOp,
        parts: &[ValueId],
        index: &[IndexExpr],
        guard: &[Bound],
    ) -> Result<ScalarId, FormError> {
        let mut start = IndexExpr::constant(0);
        let mut result: Option<ScalarId> = None;
        for &part in parts {
            let extent = self.lowering.graph().ty(part).shape[op.axis].clone();
            let mut at = index.to_vec();
            at[op.axis] = (index[op.axis].clone() - start.clone()).simplify(&self.ranges);
            let here = Bound { expr: at[op.axis].clone(), lo: IndexExpr::constant(0), hi: extent.clone() };
            start = start + extent;
            let mut inner = guard.to_vec();
            inner.push(here.clone());
            let value = self.read(part, &at, &inner)?;
            result = Some(match result {
                None => value,
                Some(before) => {
                    let holds = self.body.push(ScalarOp::InBounds(vec![here]));
                    self.body.select(holds, value, before)
                }
            });
        }
        result.ok_or_else(|| FormError::Malformed { place: "a concatenation".to_owned(), what: "no parts".to_owned() })
    }
}

fn malformed(value: ValueId, what: &str) -> FormError {
    FormError::Malformed { place: value.to_string(), what: what.to_owned() }
}

/// The parameters that results depend on, ascending.
fn used_params(body: &Body, results: &[ScalarId]) -> Vec<usize> {
    let mut needed = vec![false; body.ops.len()];
    for result in results {
        needed[result.index()] = true;
    }
    let mut params = Vec::new();
    for (id, op) in body.ops.iter_enumerated().rev() {
        if needed[id.index()] {
            op.for_each_operand(&mut |o| needed[o.index()] = true);
            if let ScalarOp::Param(n, _) = op {
                params.push(usize::from(*n));
            }
        }
    }
    params.sort_unstable();
    params.dedup();
    params
}

/// A constant that is the same everywhere.
pub(super) fn constant_splat(tensor: &infc_tensor::Tensor) -> Option<Const> {
    if tensor.len_elems() == 0 { None } else { splat(tensor) }
}

/// The coordinates of a stage's axes, where axes of extent 1 were left out.
pub(super) fn coordinates(kept: &[bool]) -> Vec<IndexExpr> {
    let mut next = 0;
    kept.iter()
        .map(|&kept| {
            if !kept {
                return IndexExpr::constant(0);
            }
            next += 1;
            IndexExpr::var(VarId(next - 1))
        })
        .collect()
}
