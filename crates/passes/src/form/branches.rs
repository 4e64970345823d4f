//! Results of the branches of an `if`: both write them to the same place, and the one that is computed tells their sizes.

use super::expand::Flat;
use crate::graph::movement;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{OriginId, ValueId};
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{HostOp, IfOp, MapOp, Op, Produced};
use infc_ir::scalar::{Body, CompareOp, Const, ScalarOp, is_computable};
use infc_tensor::DType;
use std::sync::Arc;

const REASON: &str = "the branch that is taken tells its size";

/// What a branch gives, and the guard under which it is computed.
pub(super) struct Taken {
    pub(super) values: Vec<ValueId>,
    pub(super) guard: Option<usize>,
}

/// The `if` as it is seen from around it.
pub(super) struct Joint<'a> {
    pub(super) condition: ValueId,
    /// Of its results.
    pub(super) types: &'a [TensorType],
    /// The extents of results that differ between the branches.
    pub(super) produces: &'a [Produced],
    /// The guard around it.
    pub(super) guard: Option<usize>,
    pub(super) origin: OriginId,
}

impl Joint<'_> {
    /// The axes of a result whose extents the branch tells.
    fn told_axes(&self, output: usize) -> Vec<&Produced> {
        self.produces.iter().filter(|p| p.output as usize == output).collect()
    }

    /// What is left of the `if`: its operands are the results of one branch, then those of the other.
    pub(super) fn choose(
        &self,
        flat: &mut Flat,
        results: &[ValueId],
        types: Vec<TensorType>,
        produces: Vec<Produced>,
    ) -> Vec<ValueId> {
        let inputs: Vec<ValueId> = std::iter::once(self.condition).chain(results.iter().copied()).collect();
        let first = flat.graph.nodes.next_id();
        let outputs = flat.graph.add_node(Op::If(chosen(&types, produces)), &inputs, types, self.origin);
        flat.guard_from(first, self.guard);
        outputs
    }
}

/// Makes the sizes of results known that differ between the branches and that kernels copy: each branch makes a value of
/// that shape without elements, and the shape of the one that was made is bound.
pub(super) fn tell_sizes(flat: &mut Flat, joint: &Joint<'_>, taken: &[Taken]) {
    let is_copied = |&n: &usize| is_computable(joint.types[n].dtype) && !joint.told_axes(n).is_empty();
    let outputs: Vec<usize> = (0..joint.types.len()).filter(is_copied).collect();
    if outputs.is_empty() {
        return;
    }
    let (mut types, mut produces) = (Vec::new(), Vec::new());
    for (place, &output) in outputs.iter().enumerate() {
        let axes = joint.told_axes(output);
        types.push(without_elements(axes.iter().map(|p| joint.types[output].shape[p.axis as usize].clone())));
        let told = axes.iter().enumerate();
        produces.extend(told.map(|(n, p)| Produced { output: place as u32, axis: n as u32, symbol: p.symbol }));
    }
    let mut told = Vec::new();
    for branch in taken {
        let first = flat.graph.nodes.next_id();
        for &output in &outputs {
            let own = &flat.graph.ty(branch.values[output]).shape;
            let extents = joint.told_axes(output).iter().map(|p| own[p.axis as usize].clone()).collect();
            told.push(shaped(&mut flat.graph, extents, joint.origin));
        }
        flat.guard_from(first, branch.guard);
    }
    joint.choose(flat, &told, types, produces);
}

fn without_elements(extents: impl Iterator<Item = Dim>) -> TensorType {
    TensorType::new(DType::F32, extents.chain([Dim::constant(0)]).collect())
}

/// A value of these extents, and an axis behind them that has no elements.
fn shaped(graph: &mut Graph, extents: Vec<Dim>, origin: OriginId) -> ValueId {
    let mut body = Body::default();
    let place = body.push(ScalarOp::Index(movement::var(0)));
    let mut extent = body.push(ScalarOp::Index(IndexExpr::constant(0)));
    for (n, dim) in extents.iter().enumerate() {
        let at = body.push(ScalarOp::Index(IndexExpr::constant(n as i64)));
        let (is_here, dim) = (body.compare(CompareOp::Eq, place, at), body.push(ScalarOp::Index(dim.clone())));
        extent = body.select(is_here, dim, extent);
    }
    let vector = TensorType::new(DType::I64, vec![Dim::constant(extents.len() as i64 + 1)]);
    let shape = graph.add(Op::Map(MapOp { body, results: vec![extent] }), &[], vector, origin);
    let op = HostOp::shaping(REASON);
    graph.add(Op::Host(Arc::new(op)), &[shape], without_elements(extents.into_iter()), origin)
}

/// The results of a branch, ready to be those of the `if`: copied by kernels, or by the host if they are of a type that no
/// kernel copies.
pub(super) fn copies(flat: &mut Flat, joint: &Joint<'_>, branch: &Taken) -> Vec<ValueId> {
    let first = flat.graph.nodes.next_id();
    let graph = &mut flat.graph;
    let copies = joint.types.iter().zip(&branch.values).enumerate().map(|(n, (ty, &value))| {
        let own = graph.ty(value).clone();
        if !is_computable(ty.dtype) {
            return graph.add(Op::Host(Arc::new(HostOp::identity(REASON))), &[value], own, joint.origin);
        }
        // Of the node's shape: extents that are the same may be written differently. Those that only the branch tells are
        // the node's if it is taken; nothing is read beyond them whatever the sizes are.
        let bound = |p: &Produced| {
            let axis = p.axis as usize;
            Bound { expr: movement::var(axis), lo: Dim::constant(0), hi: own.shape[axis].clone() }
        };
        let valid = joint.told_axes(n).into_iter().map(bound).collect();
        let map = AccessMap { valid, ..AccessMap::identity(ty.shape.len()) };
        let seen = movement::view(map, &ty.shape, Const::zero(ty.dtype));
        let seen = graph.add(seen, &[value], ty.clone(), joint.origin);
        let mut body = Body::default();
        let results = vec![body.param(0, ty.dtype)];
        graph.add(Op::Map(MapOp { body, results }), &[seen], ty.clone(), joint.origin)
    });
    let copies = copies.collect();
    flat.guard_from(first, branch.guard);
    copies
}

/// What is left of an `if` whose branches stand before it: its operands are the results of one branch, then those of the
/// other.
fn chosen(types: &[TensorType], produces: Vec<Produced>) -> IfOp {
    let branch = |first: usize| {
        let mut graph = Graph::default();
        let both = types.iter().chain(types).enumerate();
        let values: Vec<ValueId> = both.map(|(n, ty)| graph.add_input(&format!("x{n}"), ty.clone())).collect();
        let results = values[first..].iter().take(types.len()).enumerate();
        graph.outputs = results.map(|(n, &value)| Port::new(&format!("y{n}"), value)).collect();
        Arc::new(graph)
    };
    IfOp { then: branch(0), otherwise: branch(types.len()), produces }
}
