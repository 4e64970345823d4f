//! Functions of one byte are looked up: `f(q)` becomes element `q` of a table with 256 bytes.
//!
//! Quantised models round between the steps of a function too: GELU is spelled out with a division, an error function, an
//! addition and two products, and bytes in between. Where a map makes a byte of nothing but another byte, all 256 results
//! are computed here, by the definition of each operation, so that a table changes nothing but the last bits of functions
//! that the generated code approximates.
//!
//! Maps fuse with maps but not with look-ups, so this is no pass of the pipeline. It runs once, behind it.

use super::map::{as_map, compact};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::scalar::{replace, simplify};
use super::{Changed, PassContext};
use crate::schedule::operation_cost;
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{ConstantOp, GatherOp, MapOp, Op};
use infc_ir::scalar::{Body, Const, ScalarOp};
use infc_tensor::{AlignedBytes, DType, Tensor};
use std::sync::Arc;

/// Values of a byte.
const VALUES: usize = 256;

/// Vector instructions from which on a function is looked up: with AVX2 a look-up takes about three for each of eight lanes.
const WORTH_A_TABLE: f64 = 24.0;

const RULES: &[Rule] = &[look_up];

/// Makes tables of functions in the maps of a graph, and in those of the branches of its `If`s.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Changed {
    let mut changed = Changed::No;
    for id in graph.order.clone() {
        if let Op::If(branches) = &mut graph.nodes[id].op {
            for branch in [&mut branches.then, &mut branches.otherwise] {
                changed = changed.or(run(Arc::make_mut(branch), cx));
            }
        }
    }
    // Each sweep takes one function out of every map.
    while sweep(graph, cx, RULES) == Changed::Yes {
        changed = Changed::Yes;
    }
    changed
}

// map(f(g(x)), x) = map(table[g(x)], x), where g and f give bytes and f depends on nothing else
fn look_up(site: &Site<'_>) -> Option<Replacement> {
    let map = as_map(site.node())?;
    let span = dearest(&map.body)?;
    let table = span.table(&map.body)?;
    let inputs: Vec<Operand> = site.node().inputs.iter().map(|&input| input.into()).collect();
    let shape = &site.output_type(0).shape;
    let mut new = Replacement::new();
    let at = span.position(map, &inputs, shape, &mut new)?;
    let results = table.dtype();
    let ty = TensorType::new(results, vec![Dim::constant(VALUES as i64)]);
    let table = new.add(Op::Constant(Arc::new(ConstantOp { name: "table".to_owned(), tensor: table })), &[], ty);
    let found = new.add(Op::Gather(GatherOp { axis: 0 }), &[table, at], TensorType::new(results, shape.clone()));
    if map.results == [span.to] {
        new.set_outputs(vec![found]);
        return Some(new);
    }
    // What is left of the map reads what was found; its function may be of interest to others still.
    let param = u8::try_from(inputs.len()).ok()?;
    let (body, left) =
        replace(&map.body, &map.results, &mut |body, id| (id == span.to).then(|| body.param(param, results)));
    let mut operands = inputs;
    operands.push(found);
    let (rest, kept) = compact(&body, &left, &operands)?;
    let node = new.add_node(Op::Map(rest), &kept, site.output_types());
    new.set_outputs((0..left.len()).map(|n| Operand::New(node, n)).collect());
    Some(new)
}

/// Part of a body: what turns the byte `from` into the byte `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    from: ScalarId,
    to: ScalarId,
    cost: f64,
}

/// The part of a body that saves most as a table, if any does.
fn dearest(body: &Body) -> Option<Span> {
    let is_byte = |&id: &ScalarId| {
        let is_constant = matches!(body.ops[id], ScalarOp::Const(_));
        !is_constant && matches!(body.dtype(id), DType::I8 | DType::U8)
    };
    let bytes: Vec<ScalarId> = body.ops.iter_enumerated().map(|(id, _)| id).filter(is_byte).collect();
    let pairs = bytes.iter().flat_map(|&to| bytes.iter().filter(move |&&from| from < to).map(move |&from| (from, to)));
    let spans = pairs.filter_map(|(from, to)| Some(Span { from, to, cost: cost_between(body, from, to)? }));
    spans.filter(|span| span.cost >= WORTH_A_TABLE).max_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// What it takes to make `to` of `from`; `None` if it takes something else too.
fn cost_between(body: &Body, from: ScalarId, to: ScalarId) -> Option<f64> {
    let mut needed = vec![false; body.ops.len()];
    needed[to.index()] = true;
    let mut cost = 0.0;
    for (id, op) in body.ops.iter_enumerated().rev() {
        if !needed[id.index()] || id == from {
            continue;
        }
        if matches!(op, ScalarOp::Param(..) | ScalarOp::Index(_) | ScalarOp::InBounds(_) | ScalarOp::Load(_)) {
            return None;
        }
        cost += operation_cost(op);
        op.for_each_operand(&mut |operand| needed[operand.index()] = true);
    }
    Some(cost)
}

impl Span {
    /// The results for all bytes, in the order of their unsigned values.
    fn table(self, body: &Body) -> Option<Tensor> {
        let from = body.dtype(self.from);
        let result = |bits: u8| {
            let number = Const { dtype: from, bits: bits.into() };
            let (known, root) = replace(body, &[self.to], &mut |body, id| {
                (id == self.from).then(|| body.push(ScalarOp::Const(number)))
            });
            let (known, root) = simplify(&known, &root);
            match known.ops[root[0]] {
                ScalarOp::Const(result) => Some(result.bits as u8),
                _ => None,
            }
        };
        let bytes: Vec<u8> = (0..=u8::MAX).map(result).collect::<Option<_>>()?;
        Tensor::from_bytes(body.dtype(self.to), vec![VALUES], AlignedBytes::from_slice(&bytes)).ok()
    }

    /// Where in the table a point finds its result: its byte, as an unsigned number.
    fn position(self, map: &MapOp, inputs: &[Operand], shape: &[Dim], new: &mut Replacement) -> Option<Operand> {
        if let ScalarOp::Param(n, DType::U8) = map.body.ops[self.from] {
            return inputs.get(usize::from(n)).copied();
        }
        let mut body = map.body.clone();
        let byte = match body.dtype(self.from) {
            DType::U8 => self.from,
            _ => body.bit_cast(DType::U8, self.from),
        };
        let (first, kept) = compact(&body, &[byte], inputs)?;
        Some(new.add(Op::Map(first), &kept, TensorType::new(DType::U8, shape.to_vec())))
    }
}
