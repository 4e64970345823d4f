//! The names that a node may read: those of its own graph, and those of the graphs around it.
//!
//! A subgraph is read either in place, its nodes joining those of the graph around it, or as a graph of its own. Of the
//! latter, what it reads from outside becomes an input of it, except constants and dims, which it knows itself.

use crate::build::Builder;
use crate::error::ImportError;
use crate::proto::{GraphProto, TensorProto};
use crate::tensor_proto;
use crate::tracked::Tracked;
use infc_ir::graph::Graph;
use std::collections::HashMap;

/// The names of one graph.
struct Scope<'m> {
    initializers: HashMap<&'m str, &'m TensorProto>,
    /// Everything defined so far, by name. Initializers, and names from outside, enter when first read.
    values: HashMap<&'m str, Tracked>,
    /// Which of the builders its nodes go to.
    builder: usize,
}

/// A graph of its own, and what it reads from the one around it.
struct Built {
    build: Builder,
    captures: Vec<Tracked>,
}

/// Scopes, and the graphs that are under construction, from the outermost inwards.
pub(super) struct Scopes<'m> {
    scopes: Vec<Scope<'m>>,
    builders: Vec<Built>,
}

impl<'m> Scopes<'m> {
    pub(super) fn new(graph: Graph, proto: &'m GraphProto) -> Self {
        let builders = vec![Built { build: Builder::new(graph), captures: Vec::new() }];
        let mut scopes = Self { scopes: Vec::new(), builders };
        scopes.enter(proto);
        scopes
    }

    /// The graph that nodes are added to.
    pub(super) fn build(&mut self) -> &mut Builder {
        let last = self.builders.len() - 1;
        &mut self.builders[last].build
    }

    /// Begins a subgraph whose nodes join those of the graph around it.
    pub(super) fn enter(&mut self, proto: &'m GraphProto) {
        self.scopes.push(Scope {
            initializers: proto.initializer.iter().map(|t| (t.name(), t)).collect(),
            values: HashMap::new(),
            builder: self.builders.len() - 1,
        });
    }

    /// Ends what [`Scopes::enter`] began.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Begins a subgraph that becomes a graph of its own.
    pub(super) fn enter_graph(&mut self, proto: &'m GraphProto) {
        let symbols = self.build().graph.symbols.clone();
        let graph = Graph { name: proto.name().to_owned(), symbols, ..Graph::default() };
        self.builders.push(Built { build: Builder::new(graph), captures: Vec::new() });
        self.enter(proto);
    }

    /// Ends what [`Scopes::enter_graph`] began: the graph, and the values outside that its inputs stand for.
    pub(super) fn leave_graph(&mut self) -> (Graph, Vec<Tracked>) {
        self.scopes.pop();
        let Some(Built { build, captures }) = self.builders.pop() else { return Default::default() };
        // A symbol that came up inside is one of the whole model.
        self.build().graph.symbols.clone_from(&build.graph.symbols);
        (build.graph, captures)
    }

    /// The outermost graph.
    pub(super) fn finish(mut self) -> Graph {
        self.builders.swap_remove(0).build.graph
    }

    /// Gives a name of the innermost scope its value.
    pub(super) fn define(&mut self, name: &'m str, value: Tracked) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.insert(name, value);
        }
    }

    /// The value of a name; `None` if nothing defined it (an output that its operator does not have).
    pub(super) fn value(&mut self, name: &'m str) -> Result<Option<Tracked>, ImportError> {
        self.value_in(self.scopes.len() - 1, name)
    }

    fn value_in(&mut self, level: usize, name: &'m str) -> Result<Option<Tracked>, ImportError> {
        let scope = &self.scopes[level];
        if let Some(tracked) = scope.values.get(name) {
            return Ok(Some(tracked.clone()));
        }
        let tracked = if let Some(proto) = scope.initializers.get(name) {
            Tracked::of_constant(name, tensor_proto::read(proto)?)
        } else {
            if level == 0 {
                return Ok(None);
            }
            let Some(outer) = self.value_in(level - 1, name)? else { return Ok(None) };
            let builder = self.scopes[level].builder;
            if builder == self.scopes[level - 1].builder {
                return Ok(Some(outer));
            }
            match outer.in_another_graph() {
                Some(known) => known,
                None => {
                    let built = &mut self.builders[builder];
                    let value = ImportError::value(name);
                    let input = built.build.input(name, outer.ty().clone()).map_err(value)?;
                    built.captures.push(outer);
                    input
                }
            }
        };
        self.scopes[level].values.insert(name, tracked.clone());
        Ok(Some(tracked))
    }
}
