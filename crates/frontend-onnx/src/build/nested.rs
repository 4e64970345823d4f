//! Graphs under construction inside of another: what they know of it, and what it learns from them.

use super::{Builder, Result};
use crate::tracked::Tracked;
use infc_ir::graph::{Assumption, Graph};
use infc_ir::op::{CompositeKind, CompositeOp, Op};
use std::sync::Arc;

impl Builder {
    /// A builder for a graph inside of this one, which knows the same symbols and facts.
    pub(crate) fn nested(&self) -> Builder {
        let graph = Graph { symbols: self.graph.symbols.clone(), ..Graph::default() };
        Builder {
            facts: self.facts.clone(),
            folded: self.folded.clone(),
            exact: self.exact,
            strict: self.strict,
            may_use_host: false,
            extents_differ: self.extents_differ,
            is_trial: self.is_trial,
            ..Builder::new(graph)
        }
    }

    /// What a graph inside of this one takes for granted, the node that has it does: it knows all that this one knew when
    /// it was begun, and nothing may have been learned here since.
    pub(crate) fn adopt(&mut self, body: &mut Builder) {
        self.facts = std::mem::take(&mut body.facts);
        self.take_symbols(body);
        for assumption in body.graph.assumptions.drain(..) {
            self.graph.assumptions.push(Assumption { origin: self.origin, ..assumption });
        }
    }

    /// Symbols that came up in a graph inside of this one are those of the whole model.
    pub(crate) fn take_symbols(&mut self, body: &mut Builder) {
        if body.graph.symbols.len() > self.graph.symbols.len() {
            self.graph.symbols.clone_from(&body.graph.symbols);
        }
        self.graph.sources.append(&mut body.graph.sources);
    }

    /// A pattern that keeps its name; `define` builds its meaning from fresh inputs.
    pub(crate) fn composite(
        &mut self,
        kind: CompositeKind,
        inputs: &[&Tracked],
        define: impl FnOnce(&mut Builder, &[Tracked]) -> Result<Tracked>,
    ) -> Result<Tracked> {
        let mut body = self.nested();
        let parameters: Vec<Tracked> = inputs
            .iter()
            .enumerate()
            .map(|(n, t)| body.input(&format!("x{n}"), t.ty().clone()))
            .collect::<Result<_>>()?;
        let result = define(&mut body, &parameters)?;
        body.output("y", &result)?;
        body.graph.requires.drain(..).for_each(|r| self.graph.require(r));
        self.adopt(&mut body);
        let values = self.values(inputs)?;
        self.add(Op::Composite(CompositeOp { kind, body: Arc::new(body.graph) }), &values, result.ty().clone())
    }
}
