//! The names that a node may read: those of its own graph, and those of the graphs around it.
//!
//! A subgraph is read either in place, its nodes joining those of the graph around it, or as a graph of its own. Of the
//! latter, what it reads from outside becomes an input of it, except constants and dims, which it knows itself.

use super::Values;
use crate::build::{Builder, Contradiction};
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
    /// Values from outside by other names than they have there.
    given: HashMap<&'m str, Tracked>,
    /// Which of the builders its nodes go to.
    builder: usize,
    /// How many replacements of dims the values know of.
    restated: usize,
}

/// Values by name.
type ByName<'m> = HashMap<&'m str, Tracked>;

/// What the names of each scope stood for, its own and those from outside, and how many replacements of dims that knew of.
pub(super) struct Names<'m>(Vec<(ByName<'m>, ByName<'m>, usize)>);

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
            given: HashMap::new(),
            builder: self.builders.len() - 1,
            restated: 0,
        });
    }

    /// Ends what [`Scopes::enter`] began.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Begins a subgraph that becomes a graph of its own.
    pub(super) fn enter_graph(&mut self, proto: &'m GraphProto) {
        let mut build = self.build().nested();
        build.graph.name = proto.name().to_owned();
        build.may_use_host = self.build().may_use_host;
        self.builders.push(Built { build, captures: Vec::new() });
        self.enter(proto);
    }

    /// Ends what [`Scopes::enter_graph`] began: the graph, and the values outside that its inputs stand for. What it takes
    /// for granted of dims is still its own; [`Builder::adopt`] says what becomes of it.
    pub(super) fn leave_graph(&mut self) -> Option<(Builder, Vec<Tracked>)> {
        self.scopes.pop();
        let Built { mut build, captures } = self.builders.pop()?;
        self.build().take_symbols(&mut build);
        Some((build, captures))
    }

    /// Begins a graph that is thrown away: what a node would give, if its inputs were others. Names stay those of the scope.
    pub(super) fn begin_trial(&mut self) {
        let mut build = self.build().nested();
        build.may_use_host = self.build().may_use_host;
        build.graph.sources.clone_from(&self.build().graph.sources);
        // What is taken of dims would only take time.
        build.facts = build.facts.kinds_alone();
        build.is_trial = true;
        self.builders.push(Built { build, captures: Vec::new() });
    }

    /// Ends what [`Scopes::begin_trial`] began.
    pub(super) fn end_trial(&mut self) {
        self.builders.pop();
    }

    /// Lets all values know what has been taken for granted since the last time, so that it need not be taken twice.
    pub(super) fn restate(&mut self) {
        for scope in &mut self.scopes {
            let facts = &self.builders[scope.builder].build.facts;
            let known = facts.replaced_atoms();
            if std::mem::replace(&mut scope.restated, known) != known {
                let values = scope.values.values_mut().chain(scope.given.values_mut());
                values.for_each(|tracked| *tracked = tracked.restated(&|dim| facts.apply(dim)));
            }
        }
    }

    /// What all names stand for, to be given back.
    pub(super) fn names(&self) -> Names<'m> {
        Names(self.scopes.iter().map(|scope| (scope.values.clone(), scope.given.clone(), scope.restated)).collect())
    }

    /// Lets all names stand for what they stood for: what was taken for granted since is taken back.
    pub(super) fn return_to(&mut self, names: Names<'m>) {
        for (scope, (values, given, restated)) in self.scopes.iter_mut().zip(names.0) {
            (scope.values, scope.given, scope.restated) = (values, given, restated);
        }
    }

    /// The outermost graph, and what its names stand for.
    pub(super) fn finish(mut self) -> Result<(Graph, Values), Contradiction> {
        let build = self.builders.swap_remove(0).build;
        let names =
            self.scopes.swap_remove(0).values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let values = Values { names, symbols: build.graph.symbols.clone() };
        Ok((build.finish()?, values))
    }

    /// Gives a name of the innermost scope its value.
    pub(super) fn define(&mut self, name: &'m str, value: Tracked) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.values.insert(name, value);
        }
    }

    /// Gives a name of the innermost scope the value of something outside of it.
    pub(super) fn give(&mut self, name: &'m str, outer: Tracked) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.given.insert(name, outer);
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
        let tracked = if let Some(proto) = scope.initializers.get(name).filter(|_| !scope.given.contains_key(name)) {
            Tracked::of_constant(name, tensor_proto::read(proto)?)
        } else {
            if level == 0 {
                return Ok(None);
            }
            let outer = match scope.given.get(name) {
                Some(given) => Some(given.clone()),
                None => self.value_in(level - 1, name)?,
            };
            let Some(outer) = outer else { return Ok(None) };
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
                    let input = input.standing_for(&outer);
                    built.captures.push(outer);
                    input
                }
            }
        };
        self.scopes[level].values.insert(name, tracked.clone());
        Ok(Some(tracked))
    }
}
