//! Offsets come out of integer contractions: `contract(a + c, b) = contract(a, b) + c·Σb`.
//!
//! Zero points are such offsets, and so is what turns signed bytes into unsigned ones. The sum of the other operand is
//! folded if that is constant, and a small reduction otherwise.

use super::super::movement::{self, constant};
use super::super::rewrite::{Operand, Replacement, Site};
use super::operand::{Parameter, Seen, range};
use infc_ir::access::AccessMap;
use infc_ir::entity::ValueId;
use infc_ir::graph::TensorType;
use infc_ir::kernel::Reducer;
use infc_ir::op::{ConstantOp, ContractOp, MapOp, Op, ReduceOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp};
use infc_tensor::{AlignedBytes, DType, Tensor};
use std::sync::Arc;

/// An offset over the output of the contraction.
enum Offset {
    Number(i64),
    /// Integers of the output's shape, to be subtracted.
    Minus(Operand, DType),
}

/// An integer contraction one of whose operands is about to be replaced.
struct Rewrite<'a> {
    site: &'a Site<'a>,
    op: &'a ContractOp,
    /// The operand that changes.
    side: usize,
}

impl<'a> Rewrite<'a> {
    /// The contraction at the site, if it sums in i32 and all that is summed runs along the operand that stays.
    fn of(site: &'a Site<'a>, side: usize) -> Option<Self> {
        let Op::Contract(op) = &site.node().op else { return None };
        let this = Self { site, op, side };
        let along_other = this.labels().iter().all(|l| op.output.contains(l) || this.other_labels().contains(l));
        (site.output_type(0).dtype == DType::I32 && along_other).then_some(this)
    }

    fn labels(&self) -> &'a [u8] {
        if self.side == 0 { &self.op.lhs } else { &self.op.rhs }
    }

    fn other_labels(&self) -> &'a [u8] {
        if self.side == 0 { &self.op.rhs } else { &self.op.lhs }
    }

    fn other(&self) -> ValueId {
        self.site.node().inputs[1 - self.side]
    }

    /// Whether there are fewer sums of the other operand than results.
    fn shares_total(&self) -> bool {
        let shape = &self.site.output_type(0).shape;
        let other = self.other_labels();
        self.op.output.iter().zip(shape).any(|(label, extent)| !extent.is_const(1) && !other.contains(label))
    }

    /// `w − z − c` of a constant as signed bytes, and `c`, if they fit and are worth the sum of the other operand: for
    /// bytes, and where the sum is shared.
    fn narrowed(&self, constant: &ConstantOp, z: i64) -> Option<(ConstantOp, i64)> {
        let dtype = constant.tensor.dtype();
        if !dtype.is_int() || dtype.size_bits() > 32 {
            return None;
        }
        let elements = constant.tensor.to_i64_vec()?;
        let (low, high) = (*elements.iter().min()? - z, *elements.iter().max()? - z);
        if high - low > 255 {
            self.site.cx.note(self.site.id, "the constant does not fit into bytes");
            return None;
        }
        let c = if low >= -128 && high <= 127 { 0 } else { low + 128 };
        let other = self.site.graph.ty(self.other()).dtype;
        if c != 0 && !(is_byte(other) && self.shares_total()) {
            return None;
        }
        let bytes: Vec<u8> = elements.iter().map(|&v| ((v - z - c) as i8).cast_unsigned()).collect();
        let shape = constant.tensor.shape().to_vec();
        let tensor = Tensor::from_bytes(DType::I8, shape, AlignedBytes::from_slice(&bytes)).ok()?;
        Some((ConstantOp { name: constant.name.clone(), tensor }, c))
    }

    /// `contract(operand, other) + offset·Σ other`.
    fn finish(&self, mut new: Replacement, operand: Operand, offset: Offset) -> Replacement {
        let out = self.site.output_type(0);
        let mut operands = [self.other().into(); 2];
        operands[self.side] = operand;
        let product = new.add(Op::Contract(self.op.clone()), &operands, out.clone());
        if matches!(offset, Offset::Number(0)) {
            new.set_outputs(vec![product]);
            return new;
        }
        let total = self.total(&mut new);
        let mut body = Body::default();
        let (sum, total_id) = (body.param(0, DType::I32), body.param(1, DType::I32));
        let mut inputs = vec![product, total];
        let result = match offset {
            Offset::Number(c) => {
                let c = body.push(ScalarOp::Const(Const::from_i64(DType::I32, c)));
                let moved = body.binary(BinaryOp::Mul, total_id, c);
                body.binary(BinaryOp::Add, sum, moved)
            }
            Offset::Minus(zero, dtype) => {
                inputs.push(zero);
                let zero = body.param(2, dtype);
                let zero = body.cast(DType::I32, zero);
                let moved = body.binary(BinaryOp::Mul, total_id, zero);
                body.binary(BinaryOp::Sub, sum, moved)
            }
        };
        let corrected = new.add(Op::Map(MapOp { body, results: vec![result] }), &inputs, out.clone());
        new.set_outputs(vec![corrected]);
        new
    }

    /// The other operand, summed as the contraction sums it, over the output's shape.
    fn total(&self, new: &mut Replacement) -> Operand {
        let graph = self.site.graph;
        let ty = graph.ty(self.other());
        let labels = self.other_labels();
        let summed: Vec<usize> = (0..labels.len()).filter(|&n| !self.op.output.contains(&labels[n])).collect();
        let kept: Vec<usize> = (0..labels.len()).filter(|n| !summed.contains(n)).collect();
        let mut body = Body::default();
        let x = body.param(0, ty.dtype);
        let element = body.cast(DType::I32, x);
        let shape = kept.iter().map(|&n| ty.shape[n].clone()).collect();
        let small = TensorType::new(DType::I32, shape);
        let total = if summed.is_empty() {
            new.add(Op::Map(MapOp { body, results: vec![element] }), &[self.other().into()], small)
        } else {
            let reducer = Reducer::sum(DType::I32);
            let op = ReduceOp { axes: summed, body, elements: vec![element], reducer };
            new.add(Op::Reduce(op), &[self.other().into()], small)
        };
        let out = self.site.output_type(0);
        let place = |&n: &usize| self.op.output.iter().position(|&l| l == labels[n]);
        let index = kept.iter().filter_map(place).map(movement::var).collect();
        let map = AccessMap { rank: out.shape.len(), index, valid: Vec::new() };
        new.add(movement::view(map, &out.shape, Const::zero(DType::I32)), &[total], out.clone())
    }
}

fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::I8)
}

/// Constants are narrowed instead, once they are computed.
fn is_of_constant(site: &Site<'_>, mut value: ValueId) -> bool {
    while let Some(node) = site.producer(value)
        && let Op::View(_) = &node.op
    {
        value = node.inputs[0];
    }
    constant(site.graph, value).is_some()
}

// contract(a − z, b) = contract(a, b) − z·Σb, if z does not vary along what is summed; padding of a is z instead of 0
pub(super) fn zero_point(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(op) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let rewrite = Rewrite::of(site, side)?;
        let seen = Seen::of(site.graph, site.node().inputs[side])?;
        let zero = seen.map.zero.filter(|_| seen.map.dtype == DType::I32 && seen.map.scale.is_none())?;
        let q = site.graph.ty(seen.map.q);
        if is_of_constant(site, seen.map.q) {
            return None;
        }
        let pads = seen.view.is_some_and(|v| !v.map.valid.is_empty());
        let mut new = Replacement::new();
        let (padding, offset) = match zero {
            Parameter::Number(c) => {
                let zero = c.to_f64() as i64;
                let (low, high) = range(q.dtype);
                if pads && !(low..=high).contains(&zero) {
                    return None;
                }
                (Const::from_i64(q.dtype, zero), Offset::Number(-zero))
            }
            Parameter::Value(_) if pads => {
                site.cx.note(site.id, "a zero point that is computed stays: it would have to be the padding");
                return None;
            }
            Parameter::Value(value) => {
                let labels = if side == 0 { &op.lhs } else { &op.rhs };
                let spread =
                    seen.spread(site.graph, value, (labels, &op.output), &site.output_type(0).shape, &mut new)?;
                (Const::zero(q.dtype), Offset::Minus(spread, site.graph.ty(value).dtype))
            }
        };
        let operand = seen.look_at(&mut new, seen.map.q.into(), q.dtype, padding);
        Some(rewrite.finish(new, operand, offset))
    })
}

// contract(a, w − z) = contract(a, w − z − c) + c·Σa for a constant w: signed bytes are made of it without widening it
// first, which for large constants nobody does.
pub(super) fn constant_zero_point(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(_) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let rewrite = Rewrite::of(site, side)?;
        let seen = Seen::of(site.graph, site.node().inputs[side])?;
        if seen.map.dtype != DType::I32 || seen.map.scale.is_some() {
            return None;
        }
        let Some(Parameter::Number(zero)) = seen.map.zero else { return None };
        let constant = constant(site.graph, seen.map.q)?;
        let (narrow, c) = rewrite.narrowed(constant, zero.to_f64() as i64)?;
        if seen.view.is_some_and(|v| !v.map.valid.is_empty()) && i8::try_from(-c).is_err() {
            return None;
        }
        let mut new = Replacement::new();
        let ty = TensorType::new(DType::I8, site.graph.ty(seen.map.q).shape.clone());
        let bytes = new.add(Op::Constant(Arc::new(narrow)), &[], ty);
        let operand = seen.look_at(&mut new, bytes, DType::I8, Const::from_i64(DType::I8, -c));
        Some(rewrite.finish(new, operand, Offset::Number(c)))
    })
}

// contract(a, w) = contract(a, w − c) + c·Σa, with c such that all of the constant w − c are signed bytes
pub(super) fn byte_constant(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(_) = &site.node().op else { return None };
    (0..2).find_map(|side| {
        let rewrite = Rewrite::of(site, side)?;
        let value = site.node().inputs[side];
        let constant = constant(site.graph, value)?;
        let dtype = constant.tensor.dtype();
        if dtype == DType::I8 || !dtype.is_int() || dtype.size_bits() > 32 {
            return None;
        }
        // Unsigned bytes beside signed ones are what is wanted.
        if dtype == DType::U8 && site.graph.ty(rewrite.other()).dtype == DType::I8 {
            return None;
        }
        let (narrow, c) = rewrite.narrowed(constant, 0)?;
        let mut new = Replacement::new();
        let ty = TensorType::new(DType::I8, site.graph.ty(value).shape.clone());
        let operand = new.add(Op::Constant(Arc::new(narrow)), &[], ty);
        Some(rewrite.finish(new, operand, Offset::Number(c)))
    })
}

// contract(a, b) of signed bytes = contract(a + 128, b) − 128·Σb, of unsigned ones contract(a − 128, b) + 128·Σb: the
// same bits with the highest turned over, as bytes of the other sign
pub(super) fn equal_signs(site: &Site<'_>) -> Option<Replacement> {
    let Op::Contract(_) = &site.node().op else { return None };
    let inputs = &site.node().inputs;
    let dtypes = [site.graph.ty(inputs[0]).dtype, site.graph.ty(inputs[1]).dtype];
    if dtypes[0] != dtypes[1] || !is_byte(dtypes[0]) {
        return None;
    }
    // Signed constants stay, unsigned ones are turned by `byte_constant`; else the operand on the left is the
    // unsigned one.
    let signed = dtypes[0] == DType::I8;
    let side = match (0..2).find(|&side| is_of_constant(site, inputs[side])) {
        Some(side) => 1 - side,
        None => usize::from(!signed),
    };
    let rewrite = Rewrite::of(site, side)?;
    let (from, to) = if signed { (DType::I8, DType::U8) } else { (DType::U8, DType::I8) };
    let mut new = Replacement::new();
    let flipped = |new: &mut Replacement, value: ValueId| {
        let mut body = Body::default();
        let x = body.param(0, from);
        let x = body.cast(to, x);
        let top = body.push(ScalarOp::Const(Const { dtype: to, bits: 0x80 }));
        let result = body.binary(BinaryOp::Xor, x, top);
        let ty = TensorType::new(to, site.graph.ty(value).shape.clone());
        new.add(Op::Map(MapOp { body, results: vec![result] }), &[value.into()], ty)
    };
    // Below the view, so that each element is turned once.
    let operand = match site.producer(inputs[side]) {
        Some(node) if let Op::View(view) = &node.op => {
            let turned = flipped(&mut new, node.inputs[0]);
            let otherwise = Const { dtype: to, bits: view.otherwise.bits ^ 0x80 };
            let op = ViewOp { otherwise, ..view.clone() };
            new.add(Op::View(op), &[turned], TensorType::new(to, view.shape.clone()))
        }
        _ => flipped(&mut new, inputs[side]),
    };
    let offset = Offset::Number(if signed { -128 } else { 128 });
    Some(rewrite.finish(new, operand, offset))
}
