//! What a branch takes for granted, asked only of runs that take it.
//!
//! A decoder with a cache and one without are the branches of one model: the mask is as long as all keys in one, and as
//! long as the new ones in the other. So each branch is right by itself, where its own assumptions hold: values that it is
//! given are seen there under the extents that they are taken to have, and its results under those that both branches
//! agree about.

use super::Branch;
use crate::build::{Builder, var};
use infc_ir::access::AccessMap;
use infc_ir::entity::{NodeId, OriginId, ValueId};
use infc_ir::graph::{Assumption, Definition, Graph, Node, Relation, Requirement, SymbolSource, TensorType, Value};
use infc_ir::index::{Atom, Dim, Ranges};
use infc_ir::op::{Op, ViewOp};
use infc_ir::scalar::{Const, is_computable};

impl Branch {
    /// Whether the branch can be right by itself. Not if what it takes for granted contradicts itself, which other things may
    /// follow from; and of what no kernel computes with, nothing makes another type.
    pub(super) fn may_stand_alone(&self, outer: &Builder) -> bool {
        let ports = self.build.graph.inputs.iter();
        self.build.contradicts().is_none()
            && ports
                .map(|port| self.build.graph.ty(port.value))
                .all(|ty| !self.restates(ty, outer) || is_computable(ty.dtype))
    }

    /// Whether a type that the surroundings know is another one in the branch.
    fn restates(&self, ty: &TensorType, outer: &Builder) -> bool {
        let facts = &self.build.facts;
        ty.shape.iter().any(|dim| facts.apply(&outer.facts.apply(dim)) != outer.facts.apply(dim))
    }

    /// Puts everything that the branch takes for granted in its place. What it takes becomes what its graph requires.
    /// `name` is that of the node.
    pub(super) fn stand_alone(&mut self, outer: &mut Builder, name: &str) {
        self.keep_in_range(outer);
        let given: Vec<TensorType> =
            self.build.graph.inputs.iter().map(|p| self.build.graph.ty(p.value).clone()).collect();
        let facts = self.build.facts.clone();
        let replaced = self.planned_extents(&given, outer, name);
        self.build.graph.rewrite_dims(&|dim| {
            let dim = facts.apply(dim);
            replaced.iter().find(|(extent, _)| *extent == dim).map_or(dim, |(_, planned)| planned.clone())
        });
        self.require_assumptions();
        self.see_inputs(given, outer, name);
        let ranges = outer.ranges();
        for Requirement { left, right, .. } in &mut self.build.graph.requires {
            (*left, *right) = (defined(left, &ranges), defined(right, &ranges));
        }
        outer.facts.take_kinds_of(&self.build.facts);
    }

    /// What the branch takes for granted, as what its graph requires.
    fn require_assumptions(&mut self) {
        for assumption in std::mem::take(&mut self.build.graph.assumptions) {
            let origin = self.build.graph.origins.get(assumption.origin);
            let requirement = Requirement::of(&assumption, origin.map_or(&[], |names| names));
            self.build.graph.require(requirement);
        }
    }

    /// Gives inputs the types that they have outside; the branch sees them under those that it takes them to have.
    fn see_inputs(&mut self, given: Vec<TensorType>, outer: &Builder, name: &str) {
        for (n, ty) in given.into_iter().enumerate() {
            // Of a type that nothing is seen of, the branch reads none.
            if self.restates(&ty, outer) && is_computable(ty.dtype) {
                let seen = self.build.graph.ty(self.build.graph.inputs[n].value).shape.clone();
                self.require_equal(&ty.shape, &seen, name);
                see_input(&mut self.build.graph, n, ty, self.build.no_origin);
            } else {
                let value = self.build.graph.inputs[n].value;
                self.build.graph.values[value].ty = ty;
            }
        }
    }

    /// Lets numbers that are computed for the branch be in their ranges even where it is not taken and they would not be; that
    /// they are is taken for granted instead.
    fn keep_in_range(&mut self, outer: &mut Builder) {
        for at in self.sources.clone() {
            let Some((symbol, SymbolSource::Computed(value))) = outer.graph.sources.get(at).cloned() else { continue };
            let (min, max) = (outer.graph.symbols[symbol].min, outer.graph.symbols[symbol].max);
            let value = defined(&value, &outer.ranges());
            let interval = outer.ranges().interval(&value);
            let mut within = value.clone();
            let what = || format!("the range of {}", outer.graph.symbols[symbol].name);
            if interval.min.is_none_or(|least| least < min) {
                self.assume(what(), Dim::constant(min), value.clone());
                within = within.maximum(&Dim::constant(min));
            }
            if let Some(max) = max.filter(|&max| interval.max.is_none_or(|most| most > max)) {
                self.assume(what(), value.clone(), Dim::constant(max));
                within = within.minimum(&Dim::constant(max));
            }
            outer.graph.sources[at].1 = SymbolSource::Computed(within);
        }
    }

    /// Extents in the branch that would be less than none, or no numbers at all, in runs that do not take it, and what they are
    /// there: memory is planned for both branches. That they need not be replaced is required where they are computed.
    fn planned_extents(&mut self, given: &[TensorType], outer: &Builder, name: &str) -> Vec<(Dim, Dim)> {
        let (facts, ranges) = (&self.build.facts, outer.ranges());
        let is_as_given = |dim: &&Dim| facts.apply(dim) == outer.facts.apply(dim);
        let given = given.iter().flat_map(|ty| &ty.shape).filter(is_as_given);
        let given: Vec<Dim> = given.map(|dim| facts.apply(dim)).collect();
        let none = Dim::constant(0);
        let (mut replaced, mut short): (Vec<(Dim, Dim)>, Vec<Dim>) = (Vec::new(), Vec::new());
        for_each_extent(&self.build.graph, &mut |extent| {
            let extent = facts.apply(extent);
            if given.contains(&extent) || replaced.iter().any(|(known, _)| *known == extent) {
                return;
            }
            let mut planned = defined(&extent, &ranges);
            if ranges.interval(&outer.facts.apply(&planned)).min.is_none_or(|least| least < 0) {
                short.push(planned.clone());
                planned = planned.maximum(&none);
            }
            if planned != extent {
                replaced.push((extent, planned));
            }
        });
        for extent in short {
            self.assume(format!("extents within `{name}`"), none.clone(), extent);
        }
        replaced
    }

    fn assume(&mut self, what: String, least: Dim, size: Dim) {
        let origin = self.build.no_origin;
        let assumption = Assumption { what, left: least, relation: Relation::AtMost, right: size, origin };
        self.build.graph.assumptions.push(assumption);
    }

    /// Requires extents to be what they are seen as. Facts may say more than the assumptions that they were taken of: where there is
    /// nothing of one size, that says nothing of others beside it.
    fn require_equal(&mut self, extents: &[Dim], seen: &[Dim], name: &str) {
        for (left, right) in extents.iter().zip(seen).filter(|(left, right)| left != right) {
            let what = format!("extents within `{name}`");
            let requirement = Requirement { left: left.clone(), right: right.clone(), equal: true, what };
            self.build.graph.require(requirement);
        }
    }

    /// Lets a result have this shape, which is its own where the branch is taken, but for extents that only the branch tells.
    pub(super) fn conform_output(
        &mut self,
        output: usize,
        shape: &[Dim],
        is_told: &dyn Fn(usize, usize) -> bool,
        name: &str,
    ) {
        let value = self.build.graph.outputs[output].value;
        let own = self.build.graph.ty(value).clone();
        let extents = own.shape.iter().zip(shape).enumerate();
        let shape: Vec<Dim> =
            extents.map(|(axis, (own, joint))| if is_told(output, axis) { own } else { joint }.clone()).collect();
        if own.shape != shape {
            self.require_equal(&own.shape, &shape, name);
            let graph = &mut self.build.graph;
            let ty = TensorType::new(own.dtype, shape);
            graph.outputs[output].value = graph.add(same_elements(&ty), &[value], ty, self.build.no_origin);
        }
    }

    /// Whether only the branch tells an extent.
    pub(super) fn is_late(&self, extent: &Dim) -> bool {
        self.build.facts.is_late(extent)
    }

    /// Whether an extent of a result is that of the other branch, as far as this branch knows.
    pub(super) fn takes_to_be(&self, output: usize, own: &Dim, other: &Dim) -> bool {
        let value = self.build.graph.outputs[output].value;
        self.stands_alone && is_computable(self.build.graph.ty(value).dtype) && self.build.facts.equal(own, other)
    }
}

/// The same where it is a number, and a number where a divisor is none: division by what is not positive is not defined.
fn defined(e: &Dim, ranges: &Ranges) -> Dim {
    let both = |p: &(Dim, Dim)| (defined(&p.0, ranges), defined(&p.1, ranges));
    let positive = |divisor: Dim| match ranges.interval(&divisor).min {
        Some(1..) => divisor,
        _ => divisor.maximum(&Dim::constant(1)),
    };
    e.substitute(&|atom| match atom {
        Atom::FloorDiv(p) => Some(both(p)).map(|(a, b)| a.floor_div(&positive(b))),
        Atom::Mod(p) => Some(both(p)).map(|(a, b)| a.modulo(&positive(b))),
        _ => None,
    })
}

/// Calls `f` with every extent of what the nodes of a graph compute, and those of graphs within.
fn for_each_extent(graph: &Graph, f: &mut dyn FnMut(&Dim)) {
    for node in graph.order.iter().map(|&id| &graph.nodes[id]) {
        node.outputs.iter().flat_map(|&value| &graph.ty(value).shape).for_each(&mut *f);
        match &node.op {
            Op::Composite(composite) => for_each_extent(&composite.body, f),
            Op::Recurrence(recurrence) => for_each_extent(&recurrence.body, f),
            Op::If(branches) => {
                [&branches.then, &branches.otherwise].into_iter().for_each(|graph| for_each_extent(graph, f))
            }
            _ => {}
        }
    }
}

/// The elements of a tensor under a shape of this type, whose extents are equal.
fn same_elements(ty: &TensorType) -> Op {
    let index = (0..ty.shape.len()).map(var).collect();
    let map = AccessMap { rank: ty.shape.len(), index, valid: Vec::new() };
    Op::View(ViewOp { map, shape: ty.shape.clone(), otherwise: Const::zero(ty.dtype) })
}

/// Gives an input the type that it has outside; what reads it sees it under the type that it had.
fn see_input(graph: &mut Graph, input: usize, given: TensorType, origin: OriginId) {
    let seen: ValueId = graph.inputs[input].value;
    let ty = graph.ty(seen).clone();
    let definition = Definition::Input(input as u32);
    let value = graph.values.push(Value { ty: given, definition });
    graph.inputs[input].value = value;
    let node: NodeId = graph.nodes.next_id();
    graph.nodes.push(Node { op: same_elements(&ty), inputs: vec![value], outputs: vec![seen], origin });
    graph.values[seen].definition = Definition::Node(node, 0);
    graph.order.insert(0, node);
}
