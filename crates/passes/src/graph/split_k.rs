//! Long sums of products with few results are computed in parts (split-K): `Σₖ a·b = Σₚ Σᵢ a·b` with `k = p·I + i`.
//!
//! A GPU has a hundred processors and more, each of which takes a tile of the results. A late convolution of one image has a
//! dozen tiles and thousands of terms, so that most of the machine would wait. The sum over a part is a contraction with one
//! axis more, which blocks share like any other; another node adds the parts up, in one order, together with what follows.
//!
//! This pays where every target is a GPU, so it is no pass of the pipeline. It runs once, behind it: the pipeline would put
//! the two sums together again. Sums are of floats in another order, which [`ErrorClass::Reassociating`](crate::ErrorClass)
//! allows.

use super::Changed;
use super::movement::{canonical, var, view};
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::{Graph, Node, TensorType};
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::{ContractOp, MapOp, Op, ReduceOp};
use infc_ir::scalar::{Body, Const};
use infc_tensor::DType;
use std::sync::Arc;

/// Rows and columns of a block's tile where there are few results.
const TILE: i64 = 32;
/// Terms of a part at least: fewer cost more to add up than they save.
const TERMS: i64 = 512;
/// Blocks of so small tiles that a processor takes at a time: each waits for memory most of its time.
const AT_A_TIME: i64 = 4;
/// Terms of a part are a multiple of this, so that they are copied in whole pieces.
const PIECE: i64 = 32;

/// Splits the sums of a graph, and of the branches of its `If`s, that have fewer tiles of results than a GPU can work at, which
/// has something to do everywhere from so many `blocks` on.
pub fn run(graph: &mut Graph, blocks: i64) -> Changed {
    let mut changed = Changed::No;
    for id in std::mem::take(&mut graph.order) {
        if let Op::If(branches) = &mut graph.nodes[id].op {
            for branch in [&mut branches.then, &mut branches.otherwise] {
                changed = changed.or(run(Arc::make_mut(branch), blocks));
            }
        }
        if let Some(split) = Split::of(graph, id, blocks) {
            split.apply(graph, id);
            changed = Changed::Yes;
        }
        graph.order.push(id);
    }
    changed
}

/// Into how many parts the sum along a label is split.
struct Split {
    op: ContractOp,
    label: u8,
    parts: i64,
}

impl Split {
    fn of(graph: &Graph, id: NodeId, blocks: i64) -> Option<Self> {
        let node = &graph.nodes[id];
        let Op::Contract(op) = &node.op else { return None };
        let (&[lhs, rhs], &[result]) = (&node.inputs[..], &node.outputs[..]) else { return None };
        if !graph.ty(result).dtype.is_float() || graph.ty(result).dtype == DType::F64 {
            return None;
        }
        let extent = |label: u8| {
            let of = |labels: &[u8], value: ValueId| {
                let axis = labels.iter().position(|&own| own == label)?;
                graph.ty(value).shape[axis].as_const()
            };
            of(&op.lhs, lhs).or_else(|| of(&op.rhs, rhs))
        };
        let points = |labels: &[u8]| labels.iter().try_fold(1i64, |n, &l| n.checked_mul(extent(l)?));
        let kept = |in_lhs: bool, in_rhs: bool| {
            let is_one = |label: &u8| (op.lhs.contains(label), op.rhs.contains(label)) == (in_lhs, in_rhs);
            points(&op.output.iter().copied().filter(is_one).collect::<Vec<u8>>())
        };
        let (rows, columns, batch) = (kept(true, false)?, kept(false, true)?, kept(true, true)?);
        // Of one row each column is summed by many threads as it is.
        if rows.min(columns) < TILE / 2 {
            return None;
        }
        let tiles_along = |points: i64| points.saturating_add(TILE - 1) / TILE;
        let tiles = tiles_along(rows).checked_mul(tiles_along(columns))?.checked_mul(batch)?;
        let summed: Vec<u8> = op.lhs.iter().copied().filter(|l| op.rhs.contains(l) && !op.output.contains(l)).collect();
        let terms = points(&summed)?;
        let (label, along) =
            summed.iter().filter_map(|&label| Some((label, extent(label)?))).max_by_key(|&(_, n)| n)?;
        let has_room = |parts: i64| tiles.saturating_mul(parts) <= AT_A_TIME.saturating_mul(blocks);
        let can = |parts: i64| along % (parts * PIECE) == 0 && terms / parts >= TERMS && has_room(parts);
        let parts = (1..=4).map(|power| 1 << power).rfind(|&parts| can(parts))?;
        Some(Self { op: op.clone(), label, parts })
    }

    /// A value with the axis of the label as two: parts, and what is in one.
    fn taken_apart(&self, graph: &mut Graph, value: ValueId, labels: &[u8], node: &Node) -> ValueId {
        let Some(axis) = labels.iter().position(|&label| label == self.label) else { return value };
        let ty = graph.ty(value).clone();
        let inner = ty.shape[axis].as_const().unwrap_or_default() / self.parts;
        let mut shape = ty.shape.clone();
        shape[axis] = Dim::constant(inner);
        shape.insert(axis, Dim::constant(self.parts));
        let at = |own: usize| match own {
            own if own < axis => var(own),
            own if own > axis => var(own + 1),
            _ => var(axis).scale(inner) + var(axis + 1),
        };
        let split = AccessMap { rank: shape.len(), index: (0..ty.shape.len()).map(at).collect(), valid: Vec::new() };
        let (from, map, otherwise) = match graph.producer(value) {
            Some((_, Node { op: Op::View(of), inputs, .. })) => (inputs[0], of.map.compose(&split), of.otherwise),
            _ => (value, split, Const::zero(ty.dtype)),
        };
        let map = canonical(&map, &shape, &graph.symbols);
        let op = view(map, &shape, otherwise);
        graph.add(op, &[from], TensorType::new(ty.dtype, shape), node.origin)
    }

    fn apply(self, graph: &mut Graph, id: NodeId) {
        let node = graph.nodes[id].clone();
        let part = (0..=u8::MAX)
            .find(|label| ![&self.op.lhs, &self.op.rhs, &self.op.output].iter().any(|labels| labels.contains(label)))
            .expect("a contraction has fewer labels than a byte has values");
        let with_part = |labels: &[u8]| {
            let both = |&label: &u8| if label == self.label { vec![part, label] } else { vec![label] };
            labels.iter().flat_map(both).collect::<Vec<u8>>()
        };
        let lhs = self.taken_apart(graph, node.inputs[0], &self.op.lhs, &node);
        let rhs = self.taken_apart(graph, node.inputs[1], &self.op.rhs, &node);
        let output = std::iter::once(part).chain(self.op.output.iter().copied()).collect();
        let op = ContractOp { lhs: with_part(&self.op.lhs), rhs: with_part(&self.op.rhs), output };
        let result = graph.ty(node.outputs[0]).clone();
        let mut shape = result.shape.clone();
        shape.insert(0, Dim::constant(self.parts));
        // Sums of halves are those of f32, rounded once.
        let parts = graph.add(Op::Contract(op), &[lhs, rhs], TensorType::new(DType::F32, shape), node.origin);
        let mut body = Body::default();
        let element = body.param(0, DType::F32);
        let sum =
            Op::Reduce(ReduceOp { axes: vec![0], body, elements: vec![element], reducer: Reducer::sum(DType::F32) });
        if result.dtype == DType::F32 {
            graph.nodes[id].op = sum;
            graph.nodes[id].inputs = vec![parts];
        } else {
            let sum = graph.add(sum, &[parts], TensorType::new(DType::F32, result.shape.clone()), node.origin);
            let mut body = Body::default();
            let param = body.param(0, DType::F32);
            let rounded = body.cast(result.dtype, param);
            graph.nodes[id].op = Op::Map(MapOp { body, results: vec![rounded] });
            graph.nodes[id].inputs = vec![sum];
        }
    }
}
