//! Which values must be known as numbers, because shapes follow from them.
//!
//! Whether an input is data or says what shapes are shows only where it is read: a length may pass through ten
//! operators before a `Reshape` asks for it. So a first attempt takes all inputs for data; where a number is asked for
//! that is not known, it is traced back to where it comes from, and the import begins anew; if it is all of nodes just
//! before, these are imported once more instead, and the import goes on. What is not traced to a shape stays data, and costs
//! no new binding when it changes.

use super::{Importer, node_ref};
use crate::build::may_be_numbers;
use crate::error::NodeRef;
use crate::ops;
use crate::proto::GraphProto;
use crate::simplify::is_pure;
use crate::tracked::{Contents, Tracked};
use infc_ir::op::Op;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// How often the import begins anew because of what it learned.
const MAX_ROUNDS: usize = 256;

/// What earlier attempts have learned, by the names of values.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Inputs whose elements are numbers that shapes follow from.
    elements: HashSet<String>,
    /// Values that are computed as numbers whatever it takes.
    exact: HashSet<String>,
    /// Whether this attempt has added an input.
    grown: bool,
    /// Of the values computed as numbers, those that this attempt has added.
    added: Vec<String>,
    /// Whether some of them are known in this attempt by now, though not from its start.
    has_computed: bool,
    rounds: usize,
    /// Whether an attempt that failed had taken something for granted, so that another way to take it may not fail.
    pub(super) has_assumed: bool,
}

impl Demand {
    /// Whether the elements of an input are numbers.
    pub(super) fn has_elements(&self, name: &str) -> bool {
        self.elements.contains(name)
    }

    /// Whether any of these values is to be computed as numbers.
    pub(super) fn is_exact(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.exact.contains(name))
    }

    /// True if this attempt has learned something, so that another one would know more.
    pub(super) fn has_grown(&self) -> bool {
        self.grown || !self.added.is_empty()
    }

    /// How many values are to be computed as numbers that this attempt has added, and does not know.
    pub(super) fn missing(&self) -> usize {
        self.added.len()
    }

    /// True if another attempt knows more than the last one, or knows it earlier.
    pub(super) fn next(&mut self) -> bool {
        self.rounds += 1;
        let has_grown = self.has_grown() || std::mem::take(&mut self.has_computed);
        self.grown = false;
        self.added.clear();
        has_grown && self.rounds < MAX_ROUNDS
    }
}

/// The values that a value is computed from, by name; of a node with graphs also those that these take from around it.
pub(super) type Producers<'m> = HashMap<&'m str, Rc<[&'m str]>>;

impl<'m> Importer<'m, '_> {
    /// Notes that a shape depends on the elements of a value; true if another attempt would know more of it.
    pub(super) fn want(&mut self, name: &'m str) -> bool {
        let (mut seen, mut waiting) = (HashSet::new(), vec![name]);
        let mut learned = false;
        while let Some(name) = waiting.pop() {
            if !seen.insert(name) {
                continue;
            }
            let Some(value) = self.number(name) else { continue };
            if *value.contents() != Contents::Unknown {
                continue;
            }
            let Some(inputs) = self.producers.get(name) else {
                let is_new = self.demand.elements.insert(name.to_owned());
                self.demand.grown |= is_new;
                learned |= is_new;
                continue;
            };
            // What it is computed from may be numbers; if that is not enough, its operator has to do its utmost.
            if self.demand.exact.insert(name.to_owned()) {
                self.demand.added.push(name.to_owned());
                learned = true;
            }
            waiting.extend(inputs.iter());
        }
        learned
    }

    /// Imports those of some nodes once more that compute what has been asked for; true if there is nothing else to be learned.
    /// What has read their results keeps those that it has read, which are the same values: no node is one that the host
    /// evaluates or that draws random numbers.
    pub(super) fn compute_added(&mut self, graph: &'m GraphProto, before: &[usize]) -> bool {
        let added: HashSet<String> = self.demand.added.iter().cloned().collect();
        // They are near the end, so that large models are not searched for each.
        let (mut again, mut missing) = (Vec::new(), added.len());
        for &index in before.iter().rev() {
            if missing == 0 {
                break;
            }
            let given = graph.node[index].output.iter().filter(|name| added.contains(*name)).count();
            if given > 0 {
                again.push(index);
                missing = missing.saturating_sub(given);
            }
        }
        again.reverse();
        let is_expanded = |&index: &usize| {
            let node = &graph.node[index];
            let NodeRef { domain, opset, .. } = node_ref(self.model.proto(), node, index);
            is_pure(self.model.proto(), node) && ops::find(node.op_type(), &domain, opset).is_some()
        };
        if self.demand.grown || missing > 0 || !again.iter().all(is_expanded) {
            return false;
        }
        let there = self.scopes.build().graph.order.len();
        let is_known = again.into_iter().all(|index| self.node(graph, index).is_ok()) && !self.has_host_step(there);
        self.demand.has_computed |= is_known;
        if is_known {
            self.demand.added.retain(|name| !added.contains(name));
        }
        is_known && self.demand.added.is_empty()
    }

    /// Whether the host evaluates any of the graph's nodes from one on.
    fn has_host_step(&mut self, first: usize) -> bool {
        let graph = &self.scopes.build().graph;
        graph.order[first..].iter().any(|&node| matches!(graph.nodes[node].op, Op::Host(_)))
    }

    /// A value that has few elements, all integers.
    fn number(&mut self, name: &'m str) -> Option<Tracked> {
        self.scopes.value(name).ok().flatten().filter(|value| may_be_numbers(value.ty()))
    }
}
