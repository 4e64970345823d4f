//! Values that are seen under another shape where they lie.
//!
//! A position that data tells cannot go through a view's arithmetic: what it is looked up in is a value in memory. If that is a
//! reshape of one that lies row-major, it needs no copy, but is the same memory under another shape.

use super::{Grouping, Home};
use crate::form::bijection::keeps_order;
use infc_ir::entity::{EntityId, NodeId, ValueId};
use infc_ir::op::Op;

impl Grouping<'_> {
    /// Whether another value lies in this one's memory: it stays where it is.
    pub(super) fn is_seen_reshaped(&self, value: ValueId) -> bool {
        self.roots_of_reshaped.contains(&value)
    }

    /// Sees a value in the memory of another of which it is a reshape, if both may lie row-major and are themselves in memory
    /// as wholes.
    pub(super) fn reshape(&mut self, value: ValueId) -> bool {
        let (seen, map) = self.trace(value);
        let root = match self.home(seen) {
            Some(Home::Reshaped(root)) => root,
            _ if self.is_seen_reshaped(seen) || self.may_lie_row_major(seen) => seen,
            _ => return false,
        };
        let graph = &self.flat.graph;
        let is_alone = !self.becomes_a_part(value) && !self.readers.is_output(value);
        if !is_alone || !keeps_order(&map, &graph.ty(value).shape, &graph.ty(seen).shape) {
            return false;
        }
        self.homes[value.index()] = Some(Home::Reshaped(root));
        self.reshaped.push((value, root));
        self.roots_of_reshaped.insert(root);
        true
    }

    /// Whether a value lies row-major, or may: what contractions make or read would rather lie otherwise.
    fn may_lie_row_major(&self, value: ValueId) -> bool {
        let by_itself = match self.home(value) {
            Some(Home::Input | Home::Host(_)) => true,
            Some(Home::Group(id)) => {
                let is_pointwise = self.groups[id].as_ref().is_some_and(|group| group.anchor.is_none());
                is_pointwise && !self.contractions_read(value)
            }
            Some(Home::Whole(_) | Home::Reshaped(_)) | None => false,
        };
        by_itself && !self.becomes_a_part(value)
    }

    /// Whether a value lies within another that is put together of it.
    fn becomes_a_part(&self, value: ValueId) -> bool {
        let is_whole = |&n: &NodeId| matches!(self.flat.graph.nodes[n].op, Op::Concat(_) | Op::If(_));
        self.readers.nodes(value).iter().any(is_whole)
    }

    /// Whether contractions read a value, itself or through views.
    fn contractions_read(&self, value: ValueId) -> bool {
        let graph = &self.flat.graph;
        let mut work = vec![value];
        while let Some(value) = work.pop() {
            for &reader in self.readers.nodes(value) {
                match &graph.nodes[reader].op {
                    Op::Contract(_) => return true,
                    Op::View(_) => work.extend(&graph.nodes[reader].outputs),
                    _ => {}
                }
            }
        }
        false
    }
}
