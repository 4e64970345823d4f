//! Rewriting every dim and index expression of a graph.

use super::{Graph, SymbolSource};
use crate::access::AccessMap;
use crate::entity::{EntityId, NodeId, SymbolId, ValueId};
use crate::index::{Atom, IndexExpr};
use crate::op::{CompositeOp, IfOp, MapOp, Op, RecurrenceOp, ReduceOp, ViewOp};
use crate::scalar::Body;
use std::cell::RefCell;
use std::sync::Arc;

impl Graph {
    /// Replaces every dim and index expression, in graphs inside of it too, by what `f` makes of it. Assumptions and sources of
    /// symbols stay: they say what must hold for the rewriting to be right.
    pub fn rewrite_dims(&mut self, f: &dyn Fn(&IndexExpr) -> IndexExpr) {
        self.rewrite_types(f);
        // A dim within may now depend on a symbol that came up later.
        let symbols = &self.symbols;
        let inner = |body: &mut Graph| {
            body.symbols.clone_from(symbols);
            body.rewrite_dims(f);
        };
        for node in self.nodes.iter_mut() {
            node.op = rewritten(&node.op, &inner, f);
        }
    }

    /// The types of values, and those that ports declare.
    fn rewrite_types(&mut self, f: &dyn Fn(&IndexExpr) -> IndexExpr) {
        let declared = self.inputs.iter_mut().chain(&mut self.outputs).filter_map(|port| port.declared.as_mut());
        for ty in self.values.iter_mut().map(|value| &mut value.ty).chain(declared) {
            ty.shape.iter_mut().for_each(|dim| *dim = f(dim));
        }
    }

    /// Forgets the nodes that no output depends on, and the types of their values. What has influence
    /// beside its results ([`Op::has_influence`]) stays: extents may depend on it.
    pub fn drop_dead_nodes(&mut self) {
        let mut wanted = vec![false; self.values.len()];
        for port in self.inputs.iter().chain(&self.outputs) {
            wanted[port.value.index()] = true;
        }
        let nodes = &self.nodes;
        let live = |id: NodeId, wanted: &[bool]| {
            nodes[id].op.has_influence() || nodes[id].outputs.iter().any(|o| wanted[o.index()])
        };
        let mut kept = Vec::with_capacity(self.order.len());
        for &id in self.order.iter().rev().filter(|&&id| nodes.get(id).is_some()) {
            if live(id, &wanted) {
                nodes[id].inputs.iter().chain(&nodes[id].outputs).for_each(|value| wanted[value.index()] = true);
                kept.push(id);
            }
        }
        kept.reverse();
        let dead: Vec<NodeId> = {
            let mut is_kept = vec![false; nodes.len()];
            kept.iter().for_each(|id| is_kept[id.index()] = true);
            nodes.ids().filter(|id| !is_kept[id.index()]).collect()
        };
        self.order = kept;
        for id in dead {
            self.nodes[id].op = Op::DimValue(IndexExpr::constant(0));
        }
        for (value, _) in wanted.iter().enumerate().filter(|(_, wanted)| !**wanted) {
            self.values[ValueId(value as u32)].ty.shape.clear();
        }
    }

    /// Which symbols something in the graph depends on or produces, in graphs inside of it too; sources of symbols aside.
    #[must_use]
    pub fn used_symbols(&self) -> Vec<bool> {
        let mut used = vec![false; self.symbols.len()];
        self.mark_produced(&mut used);
        let used = RefCell::new(used);
        let mut graph = self.clone();
        graph.sources.clear();
        graph.rewrite_all(&|e| {
            e.for_each_atom(&mut |atom| {
                if let Atom::Symbol(symbol) = atom
                    && let Some(used) = used.borrow_mut().get_mut(symbol.index())
                {
                    *used = true;
                }
            });
            e.clone()
        });
        used.into_inner()
    }

    fn mark_produced(&self, used: &mut [bool]) {
        for &node in &self.order {
            let op = &self.nodes[node].op;
            for produced in op.produces() {
                if let Some(used) = used.get_mut(produced.symbol.index()) {
                    *used = true;
                }
            }
            if let Op::If(branches) = op {
                branches.then.mark_produced(used);
                branches.otherwise.mark_produced(used);
            }
        }
    }

    /// Numbers the symbols that operations produce anew, in graphs inside of it too.
    fn renumber_produced(&mut self, new: &[SymbolId]) {
        for node in self.nodes.iter_mut() {
            let produces = match &mut node.op {
                Op::Host(host) => &mut Arc::make_mut(host).produces[..],
                Op::If(branches) => {
                    Arc::make_mut(&mut branches.then).renumber_produced(new);
                    Arc::make_mut(&mut branches.otherwise).renumber_produced(new);
                    &mut branches.produces
                }
                _ => &mut [],
            };
            for produced in produces {
                // What a dead node produced may not be kept.
                produced.symbol = new.get(produced.symbol.index()).copied().unwrap_or(produced.symbol);
            }
        }
    }

    /// Forgets the symbols that are not kept, which nothing may depend on, and numbers the others anew.
    pub fn keep_symbols(&mut self, kept: &[bool]) {
        let mut new: Vec<SymbolId> = Vec::with_capacity(kept.len());
        let mut next = 0;
        for &kept in kept {
            new.push(SymbolId(next));
            next += u32::from(kept);
        }
        let is_kept = |symbol: SymbolId| kept.get(symbol.index()).copied().unwrap_or(false);
        self.sources.retain(|(symbol, _)| is_kept(*symbol));
        for (symbol, _) in &mut self.sources {
            *symbol = new[symbol.index()];
        }
        let old = std::mem::take(&mut self.symbols);
        for (symbol, _) in old.iter_enumerated().filter(|(symbol, _)| is_kept(*symbol)) {
            self.symbols.push(old[symbol].clone());
        }
        self.renumber_produced(&new);
        let renumber = |atom: &Atom| match atom {
            Atom::Symbol(symbol) => Some(IndexExpr::symbol(*new.get(symbol.index())?)),
            _ => None,
        };
        self.rewrite_all(&|e| e.substitute(&renumber));
    }

    /// As [`Graph::rewrite_dims`], but everything there is.
    fn rewrite_all(&mut self, f: &dyn Fn(&IndexExpr) -> IndexExpr) {
        self.rewrite_types(f);
        let symbols = &self.symbols;
        let inner = |body: &mut Graph| {
            body.symbols.clone_from(symbols);
            body.rewrite_all(f);
        };
        for node in self.nodes.iter_mut() {
            node.op = rewritten(&node.op, &inner, f);
        }
        for requirement in &mut self.requires {
            (requirement.left, requirement.right) = (f(&requirement.left), f(&requirement.right));
        }
        for assumption in &mut self.assumptions {
            (assumption.left, assumption.right) = (f(&assumption.left), f(&assumption.right));
        }
        for (_, source) in &mut self.sources {
            if let SymbolSource::Computed(value) = source {
                *value = f(value);
            }
        }
    }
}

fn in_graph(body: &Graph, f: &dyn Fn(&mut Graph)) -> Arc<Graph> {
    let mut body = body.clone();
    f(&mut body);
    Arc::new(body)
}

/// The operation with `f` applied to its expressions and `inner` to the graphs that it holds.
fn rewritten(op: &Op, inner: &dyn Fn(&mut Graph), f: &dyn Fn(&IndexExpr) -> IndexExpr) -> Op {
    let in_body = |body: &Body| Body { ops: body.ops.iter().map(|op| op.map_indices(f)).collect() };
    match op {
        Op::Map(map) => Op::Map(MapOp { body: in_body(&map.body), results: map.results.clone() }),
        Op::View(view) => Op::View(ViewOp {
            map: AccessMap {
                rank: view.map.rank,
                index: view.map.index.iter().map(f).collect(),
                valid: view.map.valid.iter().map(|b| b.map(f)).collect(),
            },
            shape: view.shape.iter().map(f).collect(),
            otherwise: view.otherwise,
        }),
        Op::Reduce(reduce) => Op::Reduce(ReduceOp { body: in_body(&reduce.body), ..reduce.clone() }),
        Op::DimValue(dim) => Op::DimValue(f(dim)),
        Op::Composite(composite) => {
            Op::Composite(CompositeOp { kind: composite.kind, body: in_graph(&composite.body, inner) })
        }
        Op::Recurrence(recurrence) => Op::Recurrence(RecurrenceOp {
            steps: f(&recurrence.steps),
            body: in_graph(&recurrence.body, inner),
            ..recurrence.clone()
        }),
        Op::If(branches) => Op::If(IfOp {
            then: in_graph(&branches.then, inner),
            otherwise: in_graph(&branches.otherwise, inner),
            produces: branches.produces.clone(),
        }),
        Op::Constant(_) | Op::Contract(_) | Op::Gather(_) | Op::Concat(_) | Op::Scan(_) | Op::Host(_) => op.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Port, TensorType};
    use crate::op::CompositeKind;
    use crate::symbol::Symbol;
    use infc_tensor::DType;

    #[test]
    fn graphs_within_know_the_symbols_that_their_dims_become() {
        let symbol = |name: &str| Symbol { name: name.to_owned(), min: 0, max: Some(8) };
        let mut graph = Graph::default();
        graph.symbols.push(symbol("N"));
        let ty = TensorType::new(DType::F32, vec![IndexExpr::symbol(SymbolId(0))]);
        let mut body = Graph { symbols: graph.symbols.clone(), ..Graph::default() };
        let inner = body.add_input("x", ty.clone());
        body.outputs.push(Port::new("y", inner));
        let x = graph.add_input("x", ty.clone());
        let origin = graph.origins.push(Vec::new());
        let op = CompositeOp { kind: CompositeKind::Softmax, body: Arc::new(body) };
        graph.add(Op::Composite(op), &[x], ty, origin);
        let late = IndexExpr::symbol(graph.symbols.push(symbol("M")));
        graph.rewrite_dims(&|e| e.substitute(&|atom| matches!(atom, Atom::Symbol(SymbolId(0))).then(|| late.clone())));
        let Op::Composite(op) = &graph.nodes.iter().next().expect("one").op else { panic!("a composite") };
        assert_eq!(op.body.ty(inner).shape, [late]);
        assert_eq!(op.body.symbols.len(), 2);
    }

    #[test]
    fn declared_types_depend_on_symbols() {
        let mut graph = Graph::default();
        for name in ["M", "N"] {
            graph.symbols.push(Symbol { name: name.to_owned(), min: 0, max: Some(8) });
        }
        // Two elements of four bits in each byte.
        let n = IndexExpr::symbol(SymbolId(1));
        let bytes = n.ceil_div(&IndexExpr::constant(2));
        let value = graph.add_input("x", TensorType::new(DType::U8, vec![bytes]));
        let declared = TensorType::new(DType::U4, vec![n]);
        graph.outputs.push(Port { declared: Some(declared), ..Port::new("y", value) });
        assert_eq!(graph.used_symbols(), [false, true]);
        graph.keep_symbols(&[false, true]);
        assert_eq!(graph.port_type(&graph.outputs[0]).shape, [IndexExpr::symbol(SymbolId(0))]);
    }
}
