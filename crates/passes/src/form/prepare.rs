//! Copies that a plan cannot do without, made explicit as identity maps.
//!
//! - A part of a concatenation is written in place, into the buffer of the whole. What no kernel of ours writes there
//!   (inputs, constants), or what is needed in two places, is copied.
//! - An input of the model is dense. If a convolution reads it with padding, a copy with a zero halo lets the inner
//!   loops do without tests.
//! - An output of the model has a buffer of its own.

use super::expand::Flat;
use infc_ir::entity::{EntityId, NodeId, ValueId};
use infc_ir::graph::{Definition, Graph};
use infc_ir::op::{MapOp, Op, ViewOp};
use infc_ir::scalar::Body;
use std::collections::{BTreeMap, BTreeSet};

/// Inserts the copies.
pub(super) fn prepare(flat: &mut Flat) {
    let outputs: BTreeSet<ValueId> = flat.graph.outputs.iter().map(|p| p.value).collect();
    let mut parts: BTreeSet<ValueId> = BTreeSet::new();
    let mut haloed: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for id in std::mem::take(&mut flat.graph.order) {
        if flat.region(id).is_none() {
            match flat.graph.nodes[id].op {
                Op::Concat(_) => {
                    for n in 0..flat.graph.nodes[id].inputs.len() {
                        let part = flat.graph.nodes[id].inputs[n];
                        let is_ours = is_computed(&flat.graph, part) && !outputs.contains(&part);
                        if !is_ours || !parts.insert(part) {
                            let copied = copy(&mut flat.graph, part, id);
                            flat.graph.nodes[id].inputs[n] = copied;
                            parts.insert(copied);
                        }
                    }
                }
                Op::Contract(_) => {
                    for n in 0..flat.graph.nodes[id].inputs.len() {
                        pad_input(flat, &mut haloed, id, n);
                    }
                }
                _ => {}
            }
        }
        flat.graph.order.push(id);
    }
    let mut taken: BTreeSet<ValueId> = BTreeSet::new();
    for n in 0..flat.graph.outputs.len() {
        let value = flat.graph.outputs[n].value;
        if !is_computed(&flat.graph, value) || !taken.insert(value) {
            let Some(user) = flat.graph.order.last().copied() else { continue };
            flat.graph.outputs[n].value = copy(&mut flat.graph, value, user);
        }
    }
}

/// True if a kernel of ours computes the value (perhaps as a view of something else).
fn is_computed(graph: &Graph, value: ValueId) -> bool {
    match graph.values[value].definition {
        Definition::Input(_) => false,
        Definition::Node(node, _) => !matches!(graph.nodes[node].op, Op::Constant(_) | Op::DimValue(_)),
    }
}

/// A copy of a value, with the origin of the node it is made for.
fn copy(graph: &mut Graph, value: ValueId, user: NodeId) -> ValueId {
    let ty = graph.ty(value).clone();
    let mut body = Body::default();
    let result = body.param(0, ty.dtype);
    let origin = graph.nodes[user].origin;
    graph.add(Op::Map(MapOp { body, results: vec![result] }), &[value], ty, origin)
}

/// If the operand is an input of the graph seen through padding, makes it see a copy of the input instead.
fn pad_input(flat: &mut Flat, haloed: &mut BTreeMap<ValueId, ValueId>, user: NodeId, operand: usize) {
    let mut views: Vec<NodeId> = Vec::new();
    let mut value = flat.graph.nodes[user].inputs[operand];
    let mut pads = false;
    while let Definition::Node(node, _) = flat.graph.values[value].definition {
        let Op::View(ViewOp { map, otherwise, .. }) = &flat.graph.nodes[node].op else { return };
        pads |= !map.valid.is_empty() && otherwise.bits == 0;
        views.push(node);
        value = flat.graph.nodes[node].inputs[0];
    }
    if !pads {
        return;
    }
    let mut seen = match haloed.get(&value) {
        Some(&copied) => copied,
        None => {
            let copied = copy(&mut flat.graph, value, user);
            haloed.insert(value, copied);
            copied
        }
    };
    for view in views.into_iter().rev() {
        let node = flat.graph.nodes[view].clone();
        let ty = flat.graph.ty(node.outputs[0]).clone();
        seen = flat.graph.add(node.op, &[seen], ty, node.origin);
    }
    flat.graph.nodes[user].inputs[operand] = seen;
}

/// Who reads each value: nodes, and the outputs of the graph.
pub(super) struct Readers {
    nodes: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
}

impl Readers {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut readers = Self { nodes: vec![Vec::new(); graph.values.len()], is_output: vec![false; graph.values.len()] };
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
