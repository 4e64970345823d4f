//! Contractions with a constant operand, whose weights may be exchanged for others of the same shape.

use super::contract::constant_side;
use super::movement::{constant, view};
use super::rewrite::{Operand, Replacement, Site};
use infc_ir::access::AccessMap;
use infc_ir::entity::ValueId;
use infc_ir::graph::{Graph, Node, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{ConstantOp, ContractOp, MapOp, Op};
use infc_ir::scalar::{BinaryOp, Body, Const};
use infc_tensor::Tensor;
use std::sync::Arc;

/// Weights that others read too are changed (and so doubled) only up to this size.
const SHARED_LIMIT_BYTES: usize = 64 << 10;

/// A contraction with a constant operand.
pub(super) struct Weighted<'a> {
    pub(super) node: &'a Node,
    pub(super) op: &'a ContractOp,
    /// Which operand is constant.
    pub(super) side: usize,
}

impl<'a> Weighted<'a> {
    /// `None` if neither operand is a constant of floats, or one that is too large to have twice.
    pub(super) fn new(site: &Site<'a>, node: &'a Node) -> Option<Self> {
        let Op::Contract(op) = &node.op else { return None };
        let side = constant_side(site.graph, &node.inputs)?;
        let this = Self { node, op, side };
        let tensor = &constant(site.graph, this.weights())?.tensor;
        if site.use_count(this.weights()) > 1 && tensor.bytes().len() > SHARED_LIMIT_BYTES {
            site.cx.note(site.id, "weights stay as they are: other nodes read them too");
            return None;
        }
        tensor.dtype().is_float().then_some(this)
    }

    /// The constant operand.
    pub(super) fn weights(&self) -> ValueId {
        self.node.inputs[self.side]
    }

    /// Its labels.
    pub(super) fn labels(&self) -> &'a [u8] {
        if self.side == 0 { &self.op.lhs } else { &self.op.rhs }
    }

    /// Those of the other operand.
    pub(super) fn other_labels(&self) -> &'a [u8] {
        if self.side == 0 { &self.op.rhs } else { &self.op.lhs }
    }

    /// The type of the weights.
    pub(super) fn ty(&self, graph: &'a Graph) -> &'a TensorType {
        graph.ty(self.weights())
    }

    /// Adds the contraction with other weights to a replacement.
    pub(super) fn with_weights(&self, graph: &Graph, new: &mut Replacement, weights: Operand) -> Operand {
        let mut inputs: Vec<Operand> = self.node.inputs.iter().map(|&v| v.into()).collect();
        inputs[self.side] = weights;
        new.add(self.node.op.clone(), &inputs, graph.ty(self.node.outputs[0]).clone())
    }
}

/// Adds a constant to a replacement.
pub(super) fn add_constant(new: &mut Replacement, name: &str, tensor: Tensor) -> Operand {
    let shape = tensor.shape().iter().map(|&d| Dim::constant(d as i64)).collect();
    let ty = TensorType::new(tensor.dtype(), shape);
    new.add(Op::Constant(Arc::new(ConstantOp { name: name.to_owned(), tensor })), &[], ty)
}

/// Adds `weights ∘ other` to a replacement, where `other` is read through `map` from the coordinates of the weights and
/// is zero where the map is not valid.
pub(super) fn combine(
    new: &mut Replacement,
    (weights, ty): (Operand, &TensorType),
    op: BinaryOp,
    other: Operand,
    map: AccessMap,
) -> Operand {
    let spread = new.add(view(map, &ty.shape, Const::zero(ty.dtype)), &[other], ty.clone());
    let mut body = Body::default();
    let (w, x) = (body.param(0, ty.dtype), body.param(1, ty.dtype));
    let result = body.binary(op, w, x);
    new.add(Op::Map(MapOp { body, results: vec![result] }), &[weights, spread], ty.clone())
}
