//! Copies that a plan cannot do without, made explicit as identity maps.
//!
//! - A part of a concatenation is written in place, into the buffer of the whole. What no kernel of ours writes there
//!   (inputs that do not grow in place, constants), or what is needed in two places, is copied.
//! - What a convolution reads with padding gets a halo, which lets the inner loops do without tests. An input of
//!   the model has none, nor has the part of a value that a slice leaves: they are copied.
//! - What a convolution reads through divisions too is copied without these ([`super::ungroup`]).
//! - Views of views that would be a long expression together are read from memory in between.
//! - Host operations read dense tensors: they get a copy of what our kernels lay out as they like.
//! - The right operand of a contraction of two computed values is turned round if its columns would lie scattered, or could
//!   not be taken by dot products ([`super::turned`]).

use super::append::{PlannedState, has_late_extent};
use super::expand::{Flat, is_merged_on_host};
use super::turned::turn;
use super::ungroup::ungroup;
use crate::graph::movement;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::{EntityId, NodeId, ValueId};
use infc_ir::graph::{Definition, Graph, TensorType};
use infc_ir::index::{Dim, IndexExpr, Proof, Ranges};
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{Body, Const};
use std::collections::{BTreeMap, BTreeSet};

/// Inserts the copies. The first part of a state that grows is in place already. Operands are turned round where `turns` says so
/// ([`super::FormOptions::turns`]).
pub(super) fn prepare(flat: &mut Flat, states: &[PlannedState], turns: bool) {
    let outputs: BTreeSet<ValueId> = flat.graph.outputs.iter().map(|p| p.value).collect();
    let mut parts: BTreeSet<ValueId> = BTreeSet::new();
    let mut windows: Windows = BTreeMap::new();
    let mut joined = BTreeMap::new();
    for id in std::mem::take(&mut flat.graph.order) {
        let first = flat.graph.nodes.next_id();
        let apart = flat.region(id).is_none();
        if apart || matches!(flat.graph.nodes[id].op, Op::Contract(_)) {
            match flat.graph.nodes[id].op {
                Op::Concat(_) => {
                    // Memory whose size the run tells is there when that is told, and its parts may be needed before; and
                    // before that nobody knows where parts begin that lie behind others whose size the run tells.
                    let whole = flat.graph.nodes[id].outputs[0];
                    let sized = std::iter::once(&whole).chain(&flat.graph.nodes[id].inputs);
                    let late = sized.into_iter().any(|&value| has_late_extent(&flat.graph, value));
                    let is_whole = |state: &PlannedState| flat.graph.outputs[state.output].value == whole;
                    let grows = states.iter().any(|state| state.append.is_some() && is_whole(state));
                    for n in usize::from(grows)..flat.graph.nodes[id].inputs.len() {
                        let part = flat.graph.nodes[id].inputs[n];
                        let is_ours = is_computed(&flat.graph, part) && !outputs.contains(&part);
                        if late || !is_ours || !parts.insert(part) {
                            let copied = copy(&mut flat.graph, part, id);
                            flat.graph.nodes[id].inputs[n] = copied;
                            parts.insert(copied);
                        }
                    }
                }
                Op::Contract(_) => {
                    for n in 0..flat.graph.nodes[id].inputs.len() {
                        if apart {
                            ungroup(flat, &mut joined, id, n);
                            isolate(flat, &mut windows, id, n);
                        }
                    }
                    if turns && !is_made_together(flat, id) {
                        turn(&mut flat.graph, id);
                    }
                }
                Op::View(_) => long_view(flat, id),
                Op::Host(_) => {
                    for n in 0..flat.graph.nodes[id].inputs.len() {
                        let operand = flat.graph.nodes[id].inputs[n];
                        if !lies_dense(&flat.graph, operand) {
                            flat.graph.nodes[id].inputs[n] = copy(&mut flat.graph, operand, id);
                        }
                    }
                }
                _ => {}
            }
            // Copies are made where they are needed.
            for made in first.index()..flat.graph.nodes.len() {
                flat.set_guard(NodeId::from_index(made), flat.guard(id));
            }
        }
        flat.graph.order.push(id);
    }
}

/// Whether the right operand of a contraction is made in the same kernel, as the weights of attention are: it is in no memory
/// that a copy could be made of.
fn is_made_together(flat: &Flat, contraction: NodeId) -> bool {
    let region = flat.region(contraction);
    let operand = flat.graph.nodes[contraction].inputs.get(1);
    let root = operand.map(|&operand| trace(&flat.graph, operand).0);
    region.is_some() && root.and_then(|root| flat.graph.producer(root)).is_some_and(|(n, _)| flat.region(n) == region)
}

/// True if a kernel of ours computes the value (perhaps as a view of something else).
fn is_computed(graph: &Graph, value: ValueId) -> bool {
    match graph.values[value].definition {
        Definition::Input(_) => false,
        Definition::Node(node, n) => match &graph.nodes[node].op {
            Op::Constant(_) | Op::DimValue(_) | Op::Host(_) => false,
            Op::If(branches) => !is_merged_on_host(branches, n as usize, graph.ty(value).dtype),
            _ => true,
        },
    }
}

/// True if the value is in memory, dense and row-major, without us.
fn lies_dense(graph: &Graph, value: ValueId) -> bool {
    match graph.values[value].definition {
        Definition::Input(_) => true,
        Definition::Node(node, n) => match &graph.nodes[node].op {
            Op::Constant(_) | Op::Host(_) => true,
            Op::If(branches) => is_merged_on_host(branches, n as usize, graph.ty(value).dtype),
            _ => false,
        },
    }
}

/// Puts what a view sees into memory, if that is a view itself and both would be a long expression together.
fn long_view(flat: &mut Flat, id: NodeId) {
    let graph = &flat.graph;
    let node = &graph.nodes[id];
    let Op::View(outer) = &node.op else { return };
    let operand = node.inputs[0];
    let (root, inner) = trace(graph, operand);
    if root != operand && movement::composed(&inner, &outer.map, &outer.shape, &graph.symbols).is_none() {
        let copied = copy(&mut flat.graph, operand, id);
        flat.apart.extend(flat.graph.producer(copied).map(|(made, _)| made));
        flat.graph.nodes[id].inputs[0] = copied;
    }
}

/// A copy of a value, with the origin of the node it is made for.
pub(super) fn copy(graph: &mut Graph, value: ValueId, user: NodeId) -> ValueId {
    let ty = graph.ty(value).clone();
    let mut body = Body::default();
    let result = body.param(0, ty.dtype);
    let origin = graph.nodes[user].origin;
    graph.add(Op::Map(MapOp { body, results: vec![result] }), &[value], ty, origin)
}

/// True if the value is a constant, or a view of one.
pub(super) fn comes_from_constant(graph: &Graph, mut value: ValueId) -> bool {
    while let Some((_, node)) = graph.producer(value) {
        match &node.op {
            Op::View(_) => value = node.inputs[0],
            op => return matches!(op, Op::Constant(_)),
        }
    }
    false
}

/// True if the value is computed of constants, element by element: a contraction makes it where it reads it.
pub(super) fn is_made_of_constants(graph: &Graph, value: ValueId) -> bool {
    let mut work = vec![value];
    let mut seen = BTreeSet::new();
    while let Some(value) = work.pop() {
        let Some((id, node)) = graph.producer(value) else { return false };
        match &node.op {
            Op::Constant(_) => {}
            Op::View(_) | Op::Map(_) if !node.inputs.is_empty() => {
                if seen.insert(id) {
                    work.extend(&node.inputs);
                }
            }
            _ => return false,
        }
    }
    true
}

/// A range of coordinates that a padded view shows of its root: per axis, where it begins and how long it is.
type Window = Vec<(Dim, Dim)>;

/// Copies of a part of a value, by the conditions under which they are made.
type Windows = BTreeMap<(Option<usize>, ValueId, Window, u64), ValueId>;

/// A value seen through views, composed.
struct Padded {
    root: ValueId,
    map: AccessMap,
    padding: Const,
}

/// If a contraction sees the operand through padding that no halo of the operand can stand for (it is an input of the
/// graph, or only a part of it is padded), makes it see a copy of that part instead.
fn isolate(flat: &mut Flat, copies: &mut Windows, user: NodeId, operand: usize) {
    let value = flat.graph.nodes[user].inputs[operand];
    let Some(Padded { root, map, padding }) = padded(&flat.graph, value) else { return };
    let extents = flat.graph.ty(root).shape.clone();
    let ranges = Ranges::of_symbols(&flat.graph.symbols);
    let Some(window) = window(&map, &extents, &ranges) else { return };
    let is_all = window.iter().zip(&extents).all(|((start, len), extent)| start.is_const(0) && len == extent);
    if is_all && is_computed(&flat.graph, root) {
        return;
    }
    let origin = flat.graph.nodes[user].origin;
    let dtype = flat.graph.ty(root).dtype;
    let key = (flat.guard(user), root, window.clone(), padding.bits);
    let part = match copies.get(&key) {
        Some(&part) => part,
        None => {
            let shape: Vec<Dim> = window.iter().map(|(_, len)| len.clone()).collect();
            let index = window.iter().enumerate().map(|(n, (start, _))| movement::var(n) + start.clone()).collect();
            let crop = AccessMap { rank: shape.len(), index, valid: Vec::new() };
            let ty = TensorType::new(dtype, shape.clone());
            let seen = if is_all {
                root
            } else {
                flat.graph.add(movement::view(crop, &shape, Const::zero(dtype)), &[root], ty, origin)
            };
            let part = copy(&mut flat.graph, seen, user);
            copies.insert(key, part);
            part
        }
    };
    let index: Vec<IndexExpr> =
        map.index.iter().zip(&window).map(|(e, (start, _))| e.clone() - start.clone()).collect();
    let valid = index
        .iter()
        .zip(&window)
        .zip(&map.index)
        .filter(|(_, before)| map.valid.iter().any(|b| !(b.expr.clone() - (*before).clone()).uses_vars()))
        .map(|((e, (_, len)), _)| Bound { expr: e.clone(), lo: IndexExpr::constant(0), hi: len.clone() })
        .collect();
    let ty = flat.graph.ty(value).clone();
    let map = AccessMap { rank: map.rank, index, valid };
    let seen = flat.graph.add(movement::view(map, &ty.shape.clone(), padding), &[part], ty, origin);
    flat.graph.nodes[user].inputs[operand] = seen;
}

/// The value's root and the map there, if the views between pad, all with the same.
fn padded(graph: &Graph, value: ValueId) -> Option<Padded> {
    let padding = padding(graph, value)?;
    let (root, map) = trace(graph, value);
    (!map.valid.is_empty() && !comes_from_constant(graph, root)).then_some(Padded { root, map, padding })
}

/// What stands for elements outside of what a chain of views begins with; `None` if that is not one value for all. Zero if
/// there are none outside.
pub(super) fn padding(graph: &Graph, value: ValueId) -> Option<Const> {
    let mut at = value;
    let mut padding = None;
    while let Some((_, node)) = graph.producer(at)
        && let Op::View(view) = &node.op
    {
        if !view.map.valid.is_empty() && *padding.get_or_insert(view.otherwise) != view.otherwise {
            return None;
        }
        at = node.inputs[0];
    }
    Some(padding.unwrap_or(Const::zero(graph.ty(value).dtype)))
}

/// What a chain of views begins with, and the map there from the value's coordinates.
pub(super) fn trace(graph: &Graph, value: ValueId) -> (ValueId, AccessMap) {
    let shape = &graph.ty(value).shape;
    let mut map = AccessMap::identity(shape.len());
    let mut root = value;
    while let Some((_, node)) = graph.producer(root)
        && let Op::View(view) = &node.op
    {
        map = view.map.compose(&map);
        root = node.inputs[0];
    }
    (root, movement::canonical(&map, shape, &graph.symbols))
}

/// The part of the root that the view's conditions leave, if every condition is about one axis. It lies within the root:
/// conditions promise that of what is read alone, not of all that they leave.
fn window(map: &AccessMap, extents: &[Dim], ranges: &Ranges) -> Option<Window> {
    let mut window: Window = extents.iter().map(|extent| (Dim::constant(0), extent.clone())).collect();
    let mut bounded = vec![false; extents.len()];
    for bound in &map.valid {
        // A condition that nothing changes is on no axis, even where a coordinate is constant too.
        if !bound.expr.uses_vars() {
            return None;
        }
        // The condition is on the coordinate itself, or on one that a slice has moved.
        let axis = map.index.iter().position(|e| !(e.clone() - bound.expr.clone()).uses_vars())?;
        if std::mem::replace(&mut bounded[axis], true) || bound.lo.uses_vars() || bound.hi.uses_vars() {
            return None;
        }
        let moved = map.index[axis].clone() - bound.expr.clone();
        let (start, end) = (bound.lo.clone() + moved.clone(), bound.hi.clone() + moved);
        let zero = Dim::constant(0);
        let is_within = ranges.le(&zero, &start) == Proof::Yes && ranges.le(&end, &extents[axis]) == Proof::Yes;
        if !is_within || ranges.le(&start, &end) != Proof::Yes {
            return None;
        }
        window[axis] = (start, bound.hi.clone() - bound.lo.clone());
    }
    Some(window)
}

/// Who reads each value: nodes, and the outputs of the graph.
pub(super) struct Readers {
    nodes: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
}

impl Readers {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut readers =
            Self { nodes: vec![Vec::new(); graph.values.len()], is_output: vec![false; graph.values.len()] };
        for &node in &graph.order {
            for input in &graph.nodes[node].inputs {
                let list = &mut readers.nodes[input.index()];
                if list.last() != Some(&node) {
                    list.push(node);
                }
            }
        }
        for port in &graph.outputs {
            readers.is_output[port.value.index()] = true;
        }
        readers
    }

    /// The nodes that read a value, each once.
    pub(super) fn nodes(&self, value: ValueId) -> &[NodeId] {
        &self.nodes[value.index()]
    }

    /// Whether the value is an output of the graph.
    pub(super) fn is_output(&self, value: ValueId) -> bool {
        self.is_output[value.index()]
    }

    /// True if anybody reads the value.
    pub(super) fn is_read(&self, value: ValueId) -> bool {
        self.is_output(value) || !self.nodes(value).is_empty()
    }
}
