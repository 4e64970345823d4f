//! Rewriting every dim and index expression of a graph.

use super::Graph;
use crate::access::AccessMap;
use crate::index::IndexExpr;
use crate::op::{CompositeOp, IfOp, MapOp, Op, RecurrenceOp, ReduceOp, ViewOp};
use crate::scalar::Body;
use std::sync::Arc;

impl Graph {
    /// Replaces every dim and index expression, in graphs inside of it too, by what `f` makes of it. Assumptions and sources of
    /// symbols stay: they say what must hold for the rewriting to be right.
    pub fn rewrite_dims(&mut self, f: &dyn Fn(&IndexExpr) -> IndexExpr) {
        for value in self.values.iter_mut() {
            for dim in &mut value.ty.shape {
                *dim = f(dim);
            }
        }
        for ty in self.inputs.iter_mut().chain(&mut self.outputs).filter_map(|port| port.declared.as_mut()) {
            ty.shape.iter_mut().for_each(|dim| *dim = f(dim));
        }
        for node in self.nodes.iter_mut() {
            node.op = rewritten(&node.op, f);
        }
    }
}

fn in_graph(body: &Graph, f: &dyn Fn(&IndexExpr) -> IndexExpr) -> Arc<Graph> {
    let mut body = body.clone();
    body.rewrite_dims(f);
    Arc::new(body)
}

fn rewritten(op: &Op, f: &dyn Fn(&IndexExpr) -> IndexExpr) -> Op {
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
            Op::Composite(CompositeOp { kind: composite.kind, body: in_graph(&composite.body, f) })
        }
        Op::Recurrence(recurrence) => Op::Recurrence(RecurrenceOp {
            steps: f(&recurrence.steps),
            body: in_graph(&recurrence.body, f),
            ..recurrence.clone()
        }),
        Op::If(branches) => {
            Op::If(IfOp { then: in_graph(&branches.then, f), otherwise: in_graph(&branches.otherwise, f) })
        }
        Op::Constant(_) | Op::Contract(_) | Op::Gather(_) | Op::Concat(_) | Op::Scan(_) | Op::Host(_) => op.clone(),
    }
}
