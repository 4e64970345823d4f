//! The form that text has: what nothing needs is gone, and operations come in the order in which they print.
//!
//! Bodies mean the same in any order of their operations, so a structure and its canonical form are
//! interchangeable; the canonical form is what `parse(print(x))` gives.

use super::scalar::ordered;
use crate::entity::{EntityId, ScalarId};
use crate::graph::Graph;
use crate::kernel::{Kernel, Reducer};
use crate::op::{CompositeOp, ContractOp, IfOp, MapOp, Op, RecurrenceOp, ReduceOp, ScanOp, ViewOp};
use crate::scalar::{Body, Const, ScalarOp};
use crate::symbol::Symbols;
use std::collections::HashMap;
use std::sync::Arc;

/// A body in canonical form, and its results.
#[must_use]
pub fn canonical_body(body: &Body, roots: &[ScalarId]) -> (Body, Vec<ScalarId>) {
    // First without duplicates, as their number of uses decides what gets a name.
    let mut all: Vec<ScalarId> = body.ops.ids().collect();
    let mut needed = vec![false; all.len()];
    for root in roots.iter().filter(|r| r.index() < all.len()) {
        needed[root.index()] = true;
    }
    for &id in all.iter().rev() {
        if needed[id.index()] {
            body.ops[id].for_each_operand(&mut |o| {
                if o < id {
                    needed[o.index()] = true;
                }
            });
        }
    }
    all.retain(|id| needed[id.index()]);
    let (unique, roots) = rebuild(body, &all, roots);
    rebuild(&unique, &ordered(&unique, &roots), &roots)
}

/// The operations in the given order.
fn rebuild(body: &Body, order: &[ScalarId], roots: &[ScalarId]) -> (Body, Vec<ScalarId>) {
    let mut result = Body::default();
    let mut new: Vec<Option<ScalarId>> = vec![None; body.ops.len()];
    let renamed = |new: &[Option<ScalarId>], id: ScalarId| new.get(id.index()).copied().flatten().unwrap_or(id);
    for &id in order {
        let mut op = body.ops[id].map_operands(&mut |o| renamed(&new, o));
        if let ScalarOp::Load(load) = &mut op {
            load.gather.sort_by_key(|(axis, _, _)| *axis);
            if load.valid.is_empty() {
                load.otherwise = Const::zero(load.dtype);
            }
        }
        new[id.index()] = Some(result.push(op));
    }
    let roots = roots.iter().map(|&r| renamed(&new, r)).collect();
    (result, roots)
}

/// A reducer in canonical form.
#[must_use]
pub fn canonical_reducer(reducer: &Reducer) -> Reducer {
    let (combine, results) = canonical_body(&reducer.combine, &reducer.results);
    Reducer { init: reducer.init.clone(), combine, results }
}

/// A kernel in canonical form.
#[must_use]
pub fn canonical_kernel(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    for stage in kernel.stages.iter_mut() {
        (stage.body, stage.results) = canonical_body(&stage.body, &stage.results);
        stage.reducer = stage.reducer.as_ref().map(canonical_reducer);
    }
    kernel
}

/// A graph in canonical form: dead values and nodes are gone, the others are numbered in order; bodies are canonical;
/// labels of contractions are numbered by first appearance; composites have the symbols of the graph around them.
///
/// The graph must be valid ([`crate::verify::verify_graph`]): what dangles is left out.
#[must_use]
pub fn canonical_graph(graph: &Graph) -> Graph {
    renumbered(graph, &graph.symbols)
}

fn renumbered(graph: &Graph, symbols: &Symbols) -> Graph {
    let mut result = Graph {
        name: graph.name.clone(),
        symbols: symbols.clone(),
        requires: graph.requires.clone(),
        sources: graph.sources.clone(),
        usual: graph.usual.clone(),
        ..Graph::default()
    };
    let mut values = HashMap::new();
    for port in &graph.inputs {
        if let Some(value) = graph.values.get(port.value) {
            values.insert(port.value, result.add_input(&port.name, value.ty.clone()));
            result.inputs.last_mut().expect("added just now").declared.clone_from(&port.declared);
        }
    }
    let mut origins = HashMap::new();
    for node in graph.order.iter().filter_map(|&id| graph.nodes.get(id)) {
        let names = graph.origins.get(node.origin).cloned().unwrap_or_default();
        let table = &mut result.origins;
        let origin = *origins.entry(names.clone()).or_insert_with(|| table.push(names));
        let inputs: Vec<_> = node.inputs.iter().filter_map(|v| values.get(v).copied()).collect();
        let types = node.outputs.iter().filter_map(|&v| Some(graph.values.get(v)?.ty.clone())).collect();
        let outputs = result.add_node(canonical_op(&node.op, symbols), &inputs, types, origin);
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    for assumption in &graph.assumptions {
        let names = graph.origins.get(assumption.origin).cloned().unwrap_or_default();
        let table = &mut result.origins;
        let origin = *origins.entry(names.clone()).or_insert_with(|| table.push(names));
        result.assumptions.push(crate::graph::Assumption { origin, ..assumption.clone() });
    }
    for port in &graph.outputs {
        if let Some(&value) = values.get(&port.value) {
            result.outputs.push(crate::graph::Port { value, ..port.clone() });
        }
    }
    result
}

fn canonical_op(op: &Op, symbols: &Symbols) -> Op {
    match op {
        Op::Map(map) => {
            let (body, results) = canonical_body(&map.body, &map.results);
            Op::Map(MapOp { body, results })
        }
        Op::Reduce(reduce) => {
            let (body, elements) = canonical_body(&reduce.body, &reduce.elements);
            let reducer = canonical_reducer(&reduce.reducer);
            Op::Reduce(ReduceOp { axes: reduce.axes.clone(), body, elements, reducer })
        }
        Op::Scan(scan) => Op::Scan(ScanOp { reducer: canonical_reducer(&scan.reducer), ..scan.clone() }),
        Op::View(view) if view.map.valid.is_empty() => {
            Op::View(ViewOp { otherwise: Const::zero(view.otherwise.dtype), ..view.clone() })
        }
        Op::Contract(contract) => {
            let mut seen: Vec<u8> = Vec::new();
            let mut number = |labels: &[u8]| -> Vec<u8> {
                let mut one = |label: &u8| {
                    let known = seen.iter().position(|l| l == label);
                    known.unwrap_or_else(|| {
                        seen.push(*label);
                        seen.len() - 1
                    }) as u8
                };
                labels.iter().map(&mut one).collect()
            };
            let (lhs, rhs) = (number(&contract.lhs), number(&contract.rhs));
            Op::Contract(ContractOp { lhs, rhs, output: number(&contract.output) })
        }
        Op::Composite(composite) => {
            let body = Arc::new(renumbered(&composite.body, symbols));
            Op::Composite(CompositeOp { kind: composite.kind, body })
        }
        Op::If(branches) => {
            let canonical = |graph: &Graph| Arc::new(renumbered(graph, symbols));
            Op::If(IfOp {
                then: canonical(&branches.then),
                otherwise: canonical(&branches.otherwise),
                produces: branches.produces.clone(),
            })
        }
        Op::Recurrence(recurrence) => {
            let body = Arc::new(renumbered(&recurrence.body, symbols));
            Op::Recurrence(RecurrenceOp { body, ..recurrence.clone() })
        }
        Op::Constant(_) | Op::View(_) | Op::Gather(_) | Op::Concat(_) | Op::DimValue(_) | Op::Host(_) => op.clone(),
    }
}
