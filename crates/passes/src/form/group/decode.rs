//! Operands that a contraction makes where it reads them: what constants stand for in fewer bytes (numbers packed into
//! bytes with a scale per block, halves).
//!
//! As a kernel of their own they would be written to memory and read again in every run, several times the bytes of the
//! constants. So a group without an anchor that reads constants alone, and that only contractions read, is dissolved: the
//! kernels of its readers compute it, each for itself.

use super::{Grouping, Home, Unit};
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::op::Op;
use std::collections::BTreeSet;

/// Scalar operations per element beyond which the element is rather computed once per run.
const MOST_OPS: usize = 32;

impl Grouping<'_> {
    /// Makes a contraction compute an operand that is made of constants; gives the nodes that do so.
    pub(super) fn decode(&mut self, contraction: NodeId, operand: ValueId) -> Vec<NodeId> {
        let (root, _) = self.trace(operand);
        // Another contraction may have had it taken apart already.
        let id = match self.home(root) {
            None => return self.decoding(root, operand),
            Some(Home::Group(id)) => id,
            Some(_) => return Vec::new(),
        };
        let Some(group) = &self.groups[id] else { return Vec::new() };
        let alone =
            group.anchor.is_none() && group.tails.len() == 1 && self.guard(group) == self.flat.guard(contraction);
        if !alone
            || self.is_seen_reshaped(root)
            || !self.is_decoding(&group.nodes)
            || !self.only_contractions_read(root)
        {
            return Vec::new();
        }
        self.dissolve(id)
    }

    /// The nodes between constants and a value that nobody puts into memory.
    fn decoding(&self, root: ValueId, operand: ValueId) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        let mut work = vec![operand, root];
        while let Some(value) = work.pop() {
            let Some((id, node)) = self.flat.graph.producer(value) else { continue };
            if !matches!(node.op, Op::Constant(_)) && self.home(value).is_none() && !nodes.contains(&id) {
                nodes.push(id);
                work.extend(&node.inputs);
            }
        }
        nodes
    }

    /// True for nodes that compute something per element of constants, each element once, and little of it.
    fn is_decoding(&self, nodes: &[NodeId]) -> bool {
        let graph = &self.flat.graph;
        let mut ops = 0;
        let plain = nodes.iter().all(|&n| match &graph.nodes[n].op {
            Op::Map(map) => {
                ops += map.body.ops.len();
                true
            }
            Op::View(view) => view.map.valid.is_empty(),
            _ => false,
        });
        let is_constant =
            |value: ValueId| matches!(graph.producer(value), Some((_, n)) if matches!(n.op, Op::Constant(_)));
        let inside = |value: ValueId| graph.producer(value).is_some_and(|(n, _)| nodes.contains(&n));
        let mut roots = nodes.iter().flat_map(|&n| self.unit_inputs(Unit::Node(n))).map(|value| self.trace(value).0);
        plain && ops <= MOST_OPS && roots.all(|root| is_constant(root) || inside(root))
    }

    /// True if contractions, and nobody else, read the value through views.
    fn only_contractions_read(&self, value: ValueId) -> bool {
        let mut work = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(value) = work.pop() {
            if self.readers.is_output(value) {
                return false;
            }
            for &reader in self.readers.nodes(value) {
                let node = &self.flat.graph.nodes[reader];
                match &node.op {
                    Op::Contract(_) if self.flat.region(reader).is_none() => {}
                    Op::View(_) if seen.insert(reader) => work.extend(&node.outputs),
                    Op::View(_) => {}
                    _ => return false,
                }
            }
        }
        true
    }
}
