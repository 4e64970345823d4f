//! Which values of a graph are numbers of a half type already, though they are f32.

use super::{chooses, is_constant};
use crate::fits::Fits;
use infc_ir::entity::{EntityId, NodeId, ValueId};
use infc_ir::graph::{Graph, Node};
use infc_ir::op::{CompositeKind, Op};
use infc_ir::scalar::ScalarOp;
use infc_tensor::DType;
use std::collections::{HashMap, HashSet};

/// What is known of values: whether their numbers are of a half type.
pub(super) struct Known {
    pub(super) to: DType,
    of: HashMap<ValueId, Fits>,
}

impl Known {
    /// What there is in order, so that nothing is looked for behind more than views. Constants, and views of them, are looked
    /// at when they are asked for: there are many, and of most nobody does.
    pub(super) fn new(graph: &Graph, to: DType) -> Self {
        let mut known = Self { to, of: HashMap::new() };
        let mut constants: HashSet<ValueId> = HashSet::new();
        for node in graph.order.iter().map(|&id| &graph.nodes[id]) {
            let is_constant = match &node.op {
                Op::Constant(_) => true,
                Op::View(_) => constants.contains(&node.inputs[0]),
                _ => false,
            };
            if is_constant {
                constants.extend(&node.outputs);
            } else {
                for &output in &node.outputs {
                    known.fits(graph, output);
                }
            }
        }
        known
    }

    /// Whether a node multiplies such numbers, which some of the graph's values were.
    pub(super) fn multiplied(&mut self, graph: &Graph, id: NodeId) -> bool {
        let node = &graph.nodes[id];
        match &node.op {
            Op::Contract(_) => {
                // What is computed says first whether the graph is one of halves.
                let mut inputs = node.inputs.clone();
                inputs.sort_by_key(|&value| is_constant(graph, value));
                let all = inputs.iter().all(|&value| self.holds(graph, value));
                all && inputs.iter().any(|&value| self.fits(graph, value).was_half)
            }
            Op::Composite(op) if op.kind == CompositeKind::Attention => {
                node.inputs.iter().any(|&value| self.holds(graph, value) && self.fits(graph, value).was_half)
            }
            _ => false,
        }
    }

    /// Whether a value of f32 is made of such numbers.
    pub(super) fn holds(&mut self, graph: &Graph, value: ValueId) -> bool {
        graph.ty(value).dtype == DType::F32 && self.fits(graph, value).holds(self.to)
    }

    fn fits(&mut self, graph: &Graph, value: ValueId) -> Fits {
        let (mut at, mut around) = (value, Fits::ALL);
        let shown = loop {
            if let Some(&known) = self.of.get(&at) {
                break known;
            }
            match graph.producer(at) {
                Some((_, Node { op: Op::View(view), inputs, .. })) => {
                    if !view.map.valid.is_empty() {
                        around = around.and(Fits::of_const(view.otherwise));
                    }
                    at = inputs[0];
                }
                Some((_, node)) => {
                    let fits = self.of_output(graph, node, at);
                    self.of.insert(at, fits);
                    break fits;
                }
                None => break Fits::NONE,
            }
        };
        let fits = shown.and(around);
        self.of.insert(value, fits);
        fits
    }

    /// Of what is no view.
    fn of_output(&mut self, graph: &Graph, node: &Node, value: ValueId) -> Fits {
        match &node.op {
            Op::Constant(constant) => Fits::of_tensor(&constant.tensor),
            Op::Concat(_) => node.inputs.iter().fold(Fits::ALL, |all, &part| all.and(self.fits(graph, part))),
            Op::Reduce(reduce) if chooses(reduce) => {
                let begins = reduce.reducer.init.iter().fold(Fits::ALL, |all, init| all.and(Fits::of_const(*init)));
                begins.and(self.fits(graph, node.inputs[0]))
            }
            Op::Map(map) => {
                let read: Vec<Fits> = node.inputs.iter().map(|&input| self.fits(graph, input)).collect();
                let of_leaf = |op: &ScalarOp| match op {
                    ScalarOp::Param(n, DType::F32) => read[usize::from(*n)],
                    _ => Fits::NONE,
                };
                let ops = Fits::of_ops(&map.body, &of_leaf);
                let result = node.outputs.iter().position(|&output| output == value);
                result.map_or(Fits::NONE, |n| ops[map.results[n].index()])
            }
            _ => Fits::NONE,
        }
    }
}
