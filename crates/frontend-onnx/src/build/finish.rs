//! The end of an import: what is taken for granted is put in its place, if it can all be.

use super::{Builder, mismatch};
use crate::error::Problem;
use infc_ir::entity::OriginId;
use infc_ir::graph::{Graph, Relation, Requirement, SymbolSource};
use infc_ir::index::{Dim, Facts, Proof};
use infc_ir::symbol::Symbol;

/// Dims that a model takes for granted, and that contradict each other.
#[derive(Debug)]
pub(crate) struct Contradiction {
    /// The name of the node that cannot be as it is then.
    pub(crate) node: String,
    pub(crate) problem: Problem,
    /// The dims of inputs that are taken to be numbers, by name. Known from the start, other things may follow from them:
    /// that an extent is 1 and broadcasts, say.
    pub(crate) fixed: Vec<(String, i64)>,
}

impl Builder {
    /// The graph, with everything that is taken for granted of dims put in its place.
    ///
    /// # Errors
    /// [`Contradiction`] if that cannot all be.
    pub(crate) fn finish(mut self) -> Result<Graph, Contradiction> {
        let broken = self.broken_assumption();
        let facts = self.take_requirements();
        self.share_bounds();
        // Two requirements that contradict each other can never be met, whatever else is taken for granted.
        let broken = broken.or_else(|| self.broken_requirement(&facts));
        let fixed = self.fixed_dims(&facts);
        self.state_facts();
        self.drop_unused_symbols();
        let Some((origin, problem)) = broken.or_else(|| self.negative_extent()) else { return Ok(self.graph) };
        // What is required says itself which node needs it.
        let node = self.graph.origins[origin].first().unwrap_or(&self.graph.name).clone();
        Err(Contradiction { node, problem, fixed })
    }

    /// Takes what must be equal to be equal: a run that has it otherwise ends where that is checked, before anything relies
    /// on it. What only becomes known on the way is checked there, too, behind what may rely on it; so it stays a requirement
    /// alone. The result has that as well.
    fn take_requirements(&mut self) -> Facts {
        let ranges = self.ranges();
        let mut all = self.facts.clone();
        for Requirement { left, right, .. } in self.graph.requires.iter().filter(|r| r.equal) {
            all.take_equal(left, right, &ranges);
            if !self.facts.is_late(left) && !self.facts.is_late(right) {
                self.facts.take_equal(left, right, &ranges);
            }
        }
        all
    }

    /// A symbol that stands for another one is within the bounds of both. Bounds that exclude each other stay as they are: no
    /// run meets both. So do those of what is known early and stands for what is known late: a run that does not meet the
    /// late ones would end before anybody could say what does not hold.
    fn share_bounds(&mut self) {
        let is_late = |symbol| self.facts.is_late(&Dim::symbol(symbol));
        for (symbol, by) in self.facts.same_symbols().filter(|&(symbol, by)| is_late(by) || !is_late(symbol)) {
            let &Symbol { min, max, .. } = &self.graph.symbols[symbol];
            let by = &mut self.graph.symbols[by];
            let least = by.min.max(min);
            let most = [by.max, max].into_iter().flatten().min();
            if most.is_none_or(|most| least <= most) {
                (by.min, by.max) = (least, most);
            }
        }
    }

    fn fixed_dims(&self, facts: &Facts) -> Vec<(String, i64)> {
        let is_of_axis = |symbol| matches!(self.graph.source(symbol), Some(SymbolSource::Axis { .. }));
        let fixed = facts.fixed_symbols().filter(|(symbol, _)| is_of_axis(*symbol));
        fixed.map(|(symbol, value)| (self.graph.symbols[symbol].name.clone(), value)).collect()
    }

    /// What cannot all be of that which is taken for granted.
    pub(crate) fn contradicts(&self) -> Option<Problem> {
        let broken = self.broken_assumption().or_else(|| self.broken_requirement(&self.facts));
        broken.or_else(|| self.negative_extent()).map(|(_, problem)| problem)
    }

    /// An assumption that cannot hold where the others do: it was taken of an expression before more was taken of the
    /// symbols in it.
    fn broken_assumption(&self) -> Option<(OriginId, Problem)> {
        let ranges = self.ranges();
        self.graph.assumptions.iter().find_map(|assumption| {
            let [left, right] = [&assumption.left, &assumption.right].map(|e| self.facts.apply_to_symbols(e));
            let (holds, relation) = match assumption.relation {
                Relation::Equal => (ranges.eq(&left, &right), "equal"),
                Relation::AtMost => (ranges.le(&left, &right), "at most"),
            };
            let expected = format!("{} to be {relation}", assumption.what);
            let found = format!("{left} and {right}");
            (holds == Proof::No).then_some((assumption.origin, Problem::ShapeMismatch { expected, found }))
        })
    }

    /// Extents that are required to differ and cannot, with these facts: that an axis is 1 shows behind the `Squeeze` that
    /// was to leave it.
    fn broken_requirement(&self, facts: &Facts) -> Option<(OriginId, Problem)> {
        let ranges = self.ranges();
        self.graph.requires.iter().filter(|r| !r.equal).find_map(|r| {
            let [left, right] = [&r.left, &r.right].map(|e| facts.apply_to_symbols(e));
            let expected = format!("{} to differ", r.what);
            let found = format!("{left} and {right}");
            (ranges.eq(&left, &right) == Proof::Yes)
                .then_some((self.no_origin, Problem::ShapeMismatch { expected, found }))
        })
    }

    /// An extent that is negative with everything that is taken for granted.
    fn negative_extent(&self) -> Option<(OriginId, Problem)> {
        let ranges = self.ranges();
        let is_negative = |dim: &Dim| ranges.interval(dim).max.is_some_and(|max| max < 0);
        self.graph.order.iter().map(|&id| &self.graph.nodes[id]).find_map(|node| {
            let shapes = node.outputs.iter().map(|&value| &self.graph.ty(value).shape);
            let shape = shapes.into_iter().find(|shape| shape.iter().any(is_negative))?;
            Some((node.origin, mismatch("extents of at least 0", shape)))
        })
    }
}
