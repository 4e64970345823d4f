//! Right operands of contractions of two computed values, as vectors of their columns want them.
//!
//! Constants are packed when compiling ([`super::pack`]). What is computed is copied: into a layout in which columns are
//! neighbours (`Σ q[m,k]·k[n,k]`), or follow those of the point before, or, of bytes, in groups along the sum, `[K/4][N][4]`,
//! which dot products take four points of the sum at a time from. A copy reads every element once, a product as often as there are rows.

use super::bijection::is_affine;
use super::prepare::{copy, is_made_of_constants, trace};
use super::reorder::memory_steps;
use crate::graph::movement;
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, ValueId, VarId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::Layout;
use infc_ir::op::{ContractOp, Op};
use infc_ir::scalar::Const;
use infc_ir::schedule::Intrinsic;

/// Fewer rows or columns than this are not worth turning an operand round.
const MIN_TURNED: i64 = 16;

/// What is read of an operand for each row that, if it lies apart, no first-level cache holds: 512 values of 64 floats. With
/// fewer a copy took 0 to 2 % longer (50 to 257 tokens of eight transformers), with 1,500 of them a ninth less.
const MANY_BYTES: i64 = 128 << 10;

/// Makes a contraction read a copy of its right operand if that is worth it.
pub(super) fn turn(graph: &mut Graph, user: NodeId) {
    let Some(product) = Product::new(graph, user) else { return };
    if let Some((label, points)) = product.grouped_label(graph) {
        let groups = product.groups(label, points);
        graph.nodes[user].inputs[1] = groups.copied(graph, user, product.rhs);
    } else if product.columns_lie_scattered(graph) || product.points_lie_apart(graph) {
        graph.nodes[user].inputs[1] = copy(graph, product.rhs, user);
    }
}

/// Whether an operand is read in groups: the last coordinate is a point's place within its group, another one the group, and
/// all others are sums of multiples.
pub(super) fn is_in_groups(map: &AccessMap) -> bool {
    let Some((place, others)) = map.index.split_last() else { return false };
    let sizes = Intrinsic::ALL.map(|intrinsic| IndexExpr::constant(intrinsic.turns()));
    (0..map.rank).map(movement::var).any(|point| {
        let by = |size: &IndexExpr| {
            *place == point.modulo(size) && others.iter().all(|e| is_affine(e) || *e == point.floor_div(size))
        };
        sizes.iter().any(by)
    })
}

/// A contraction of two computed values with rows and columns.
struct Product {
    op: ContractOp,
    lhs: ValueId,
    rhs: ValueId,
    /// The type of its sums.
    sum: TensorType,
}

impl Product {
    /// `None` if a copy of the right operand would not be read again and again.
    fn new(graph: &Graph, user: NodeId) -> Option<Self> {
        let node = &graph.nodes[user];
        let Op::Contract(op) = &node.op else { return None };
        let &[lhs, rhs] = &node.inputs[..] else { return None };
        let is_long = |labels: &[u8], value: ValueId, other: &[u8]| {
            let shape = &graph.ty(value).shape;
            let own = labels.iter().zip(shape).filter(|(label, _)| !other.contains(label));
            own.into_iter().any(|(_, extent)| extent.as_const().is_none_or(|extent| extent >= MIN_TURNED))
        };
        // A row that is used once is not worth a copy of the whole operand.
        let is_product = is_long(&op.lhs, lhs, &op.rhs) && is_long(&op.rhs, rhs, &op.lhs);
        let is_constant = |value: ValueId| is_made_of_constants(graph, value);
        let computed = is_product && !is_constant(lhs) && !is_constant(trace(graph, rhs).0);
        computed.then(|| Self { op: op.clone(), lhs, rhs, sum: graph.ty(node.outputs[0]).clone() })
    }

    /// Whether the label is summed.
    fn is_summed(&self, label: u8) -> bool {
        self.op.lhs.contains(&label) && self.op.rhs.contains(&label) && !self.op.output.contains(&label)
    }

    /// The label of which neighbours in memory are neighbours, if an operand has one.
    fn fastest(graph: &Graph, labels: &[u8], value: ValueId) -> Option<u8> {
        let (_, map) = trace(graph, value);
        let index = map.index.last()?;
        let steps_one = |n: usize| index.linear_in(VarId(n as u32)).is_some_and(|(step, _)| step.is_const(1));
        (0..labels.len()).rev().find(|&n| steps_one(n)).map(|n| labels[n])
    }

    /// Whether what is summed lies next to each other, and columns do not.
    fn columns_lie_scattered(&self, graph: &Graph) -> bool {
        Self::fastest(graph, &self.op.rhs, self.rhs).is_some_and(|label| self.is_summed(label))
    }

    /// Whether many rows read columns that lie next to each other, but with more between those of one point of the sum and those
    /// of the next: the values of one head among those of all heads. They share sets of the caches with what nobody reads
    /// meanwhile.
    fn points_lie_apart(&self, graph: &Graph) -> bool {
        let (lhs, rhs) = (&graph.ty(self.lhs).shape, &graph.ty(self.rhs).shape);
        let rows = self.op.lhs.iter().zip(lhs).filter(|(label, _)| !self.op.rhs.contains(label));
        let has_many_rows = rows.into_iter().any(|(_, extent)| extent.as_const().is_some_and(|n| n >= MIN_TURNED));
        let Some(label) = Self::fastest(graph, &self.op.rhs, self.rhs).filter(|&label| !self.is_summed(label)) else {
            return false;
        };
        let summed: Vec<usize> = (0..rhs.len()).filter(|&n| self.is_summed(self.op.rhs[n])).collect();
        let ([summed], Some(column)) = (&summed[..], self.op.rhs.iter().position(|&l| l == label)) else {
            return false;
        };
        let (root, map) = trace(graph, self.rhs);
        let steps = memory_steps(&Layout::dense(&graph.ty(root).shape), &map.index, rhs.len());
        let known = [rhs[*summed].as_const(), rhs[column].as_const(), steps[*summed]];
        let [Some(points), Some(columns), Some(step)] = known else { return false };
        let bytes =
            points.saturating_mul(columns).saturating_mul(graph.ty(self.rhs).dtype.size_bytes().unwrap_or(1) as i64);
        has_many_rows && step > columns && bytes >= MANY_BYTES
    }

    /// What is summed several points at a time, and how many, if an instruction takes the operands' types and the left one
    /// has these points next to each other.
    fn grouped_label(&self, graph: &Graph) -> Option<(u8, i64)> {
        let dtypes = [self.lhs, self.rhs].map(|value| graph.ty(value).dtype);
        let intrinsic = Intrinsic::of(self.sum.dtype, dtypes).filter(|intrinsic| intrinsic.is_exact())?;
        let label = Self::fastest(graph, &self.op.lhs, self.lhs).filter(|&label| self.is_summed(label))?;
        let at = self.op.rhs.iter().position(|&l| l == label)?;
        let extent = graph.ty(self.rhs).shape[at].as_const()?;
        (extent % intrinsic.turns() == 0).then_some((label, intrinsic.turns()))
    }

    /// The right operand in groups of so many points of a label that is summed: what is shared with the left one first, then
    /// the groups, then the columns, and the points of a group last.
    fn groups(&self, label: u8, points: i64) -> Groups {
        let labels = &self.op.rhs;
        let is_column = |l: &u8| !self.op.lhs.contains(l);
        let others = |columns: bool| labels.iter().copied().filter(move |l| *l != label && is_column(l) == columns);
        let order: Vec<u8> = others(false).chain([label]).chain(others(true)).collect();
        let axes = order.iter().filter_map(|l| labels.iter().position(|m| m == l)).collect();
        let summed = labels.iter().position(|&l| l == label).unwrap_or_default();
        Groups { axes, summed, points }
    }
}

/// An order of a value's axes in which one is taken apart: its groups take its place, and their points come last.
struct Groups {
    axes: Vec<usize>,
    summed: usize,
    points: i64,
}

impl Groups {
    /// A view, in the value's shape, of a copy in groups.
    fn copied(&self, graph: &mut Graph, user: NodeId, value: ValueId) -> ValueId {
        let ty = graph.ty(value).clone();
        let origin = graph.nodes[user].origin;
        let points = IndexExpr::constant(self.points);
        let mut shape: Vec<Dim> = self.axes.iter().map(|&axis| ty.shape[axis].clone()).collect();
        let mut to_value = vec![IndexExpr::constant(0); ty.shape.len()];
        let mut to_copy = Vec::with_capacity(shape.len() + 1);
        for (at, &axis) in self.axes.iter().enumerate() {
            if axis == self.summed {
                shape[at] = ty.shape[axis].floor_div(&points);
                to_value[axis] = movement::var(at).scale(self.points) + movement::var(self.axes.len());
                to_copy.push(movement::var(axis).floor_div(&points));
            } else {
                to_value[axis] = movement::var(at);
                to_copy.push(movement::var(axis));
            }
        }
        shape.push(points.clone());
        to_copy.push(movement::var(self.summed).modulo(&points));
        let zero = Const::zero(ty.dtype);
        let map = AccessMap { rank: shape.len(), index: to_value, valid: Vec::new() };
        let grouped = TensorType::new(ty.dtype, shape.clone());
        let seen = graph.add(movement::view(map, &shape, zero), &[value], grouped, origin);
        let copied = copy(graph, seen, user);
        let map = AccessMap { rank: ty.shape.len(), index: to_copy, valid: Vec::new() };
        graph.add(movement::view(map, &ty.shape.clone(), zero), &[copied], ty, origin)
    }
}
