//! Graphs.

use super::body::{DTYPES, constant, reducer, value};
use super::index::expr;
use super::{Choices, generated};
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, OriginId, SymbolId, ValueId, VarId};
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::kernel::within;
use infc_ir::op::{ConcatOp, ConstantOp, ContractOp, GatherOp, MapOp, Op, ReduceOp, ScanOp, ViewOp};
use infc_ir::scalar::{Body, ScalarOp};
use infc_ir::symbol::Symbol;
use infc_tensor::{AlignedBytes, DType, Tensor};
use proptest::prelude::*;
use std::sync::Arc;

/// Graphs of a few nodes of every kind, with a symbol from 1 to 4.
pub fn graphs() -> impl Strategy<Value = Graph> + Clone {
    generated(300, graph)
}

fn graph(c: &mut Choices) -> Graph {
    let mut graph = Graph { name: "random".to_owned(), ..Graph::default() };
    graph.symbols.push(Symbol { name: "N".to_owned(), min: 1, max: Some(4) });
    for names in [vec![], vec!["/a".to_owned()], vec!["/a".to_owned(), "/b \"c\"".to_owned()]] {
        graph.origins.push(names);
    }
    for n in 0..1 + c.pick(2) {
        let ty = TensorType { dtype: c.of(&DTYPES), shape: shape(c) };
        graph.add_input(["x", "input.1"][n], ty);
    }
    for _ in 0..1 + c.pick(6) {
        add_node(c, &mut graph);
    }
    // The last value, and sometimes any other.
    let last = ValueId::from_index(graph.values.len() - 1);
    graph.outputs.push(Port::new("y", last));
    if c.once_in(2) {
        let value = any_value(c, &graph);
        graph.outputs.push(Port::new("also", value));
    }
    graph
}

fn extent(c: &mut Choices) -> Dim {
    match c.pick(4) {
        3 => IndexExpr::symbol(SymbolId(0)) + c.between(0, 2),
        _ => Dim::constant(c.between(1, 4)),
    }
}

fn shape(c: &mut Choices) -> Vec<Dim> {
    (0..c.pick(4)).map(|_| extent(c)).collect()
}

fn any_value(c: &mut Choices, graph: &Graph) -> ValueId {
    // The latest first, so that chains are usual.
    ValueId::from_index(graph.values.len() - 1 - c.pick(graph.values.len()))
}

fn add_node(c: &mut Choices, graph: &mut Graph) {
    let origin = OriginId::from_index(c.pick(graph.origins.len()));
    let x = any_value(c, graph);
    let ty = graph.ty(x).clone();
    let rank = ty.shape.len();
    match c.pick(9) {
        1 => {
            let shape = shape(c);
            let index: Vec<IndexExpr> = (0..rank).map(|_| expr(c, 2, shape.len() as u32, 1)).collect();
            let valid = within(&index, &ty.shape);
            let otherwise = constant(c, ty.dtype);
            let map = AccessMap { rank: shape.len(), index, valid };
            let op = Op::View(ViewOp { map, shape: shape.clone(), otherwise });
            graph.add(op, &[x], TensorType { dtype: ty.dtype, shape }, origin);
        }
        2 if rank > 0 => {
            let axes: Vec<usize> = (0..rank).filter(|_| c.once_in(2)).collect();
            let kept = (0..rank).filter(|a| !axes.contains(a)).map(|a| ty.shape[a].clone()).collect();
            let components = 1 + c.pick(3);
            let mut body = Body::default();
            let elements = (0..components).map(|_| element(c, &mut body, &[ty.dtype], rank, ty.dtype)).collect();
            let reducer = reducer(c, ty.dtype, components);
            let types = vec![TensorType { dtype: ty.dtype, shape: kept }; components];
            graph.add_node(Op::Reduce(ReduceOp { axes, body, elements, reducer }), &[x], types, origin);
        }
        3 => {
            // x with itself, some of its labels kept.
            let labels: Vec<u8> = (0..rank as u8).map(|l| 7 * l + 3).collect();
            let kept: Vec<usize> = (0..rank).filter(|_| !c.once_in(2)).collect();
            let output: Vec<u8> = kept.iter().map(|&a| labels[a]).collect();
            let shape = kept.iter().map(|&a| ty.shape[a].clone()).collect();
            let op = Op::Contract(ContractOp { lhs: labels.clone(), rhs: labels, output });
            graph.add(op, &[x, x], TensorType { dtype: ty.dtype, shape }, origin);
        }
        4 if rank > 0 && ty.dtype.is_int() => {
            let axis = c.pick(rank);
            let mut shape = ty.shape[..axis].to_vec();
            shape.extend_from_slice(&ty.shape);
            shape.extend_from_slice(&ty.shape[axis + 1..]);
            // Ranks would grow without bound.
            if shape.len() < 6 {
                graph.add(Op::Gather(GatherOp { axis }), &[x, x], TensorType { dtype: ty.dtype, shape }, origin);
            }
        }
        5 if rank > 0 => {
            let axis = c.pick(rank);
            let mut shape = ty.shape.clone();
            shape[axis] = shape[axis].scale(2);
            graph.add(Op::Concat(ConcatOp { axis }), &[x, x], TensorType { dtype: ty.dtype, shape }, origin);
        }
        6 if rank > 0 => {
            let (axis, reverse, exclusive) = (c.pick(rank), c.once_in(2), c.once_in(2));
            let reducer = reducer(c, ty.dtype, 1);
            graph.add(Op::Scan(ScanOp { axis, reverse, exclusive, reducer }), &[x], ty, origin);
        }
        7 => {
            let ty = TensorType { dtype: DType::I64, shape: Vec::new() };
            graph.add(Op::DimValue(IndexExpr::symbol(SymbolId(0)).scale(3) - 1), &[], ty, origin);
        }
        8 => {
            let dtype = c.of(&DTYPES);
            let len = 1 + c.pick(20);
            let size = dtype.size_bytes().expect("whole bytes");
            let mut bytes = AlignedBytes::zeroed(len * size);
            for to in bytes.chunks_exact_mut(size) {
                to.copy_from_slice(&constant(c, dtype).bits.to_le_bytes()[..size]);
            }
            let tensor = Tensor::from_bytes(dtype, vec![len], bytes).expect("as many bytes as needed");
            let op = Op::Constant(Arc::new(ConstantOp { name: "weights \\ 1".to_owned(), tensor }));
            graph.add(op, &[], TensorType { dtype, shape: vec![Dim::constant(len as i64)] }, origin);
        }
        _ => {
            let same: Vec<ValueId> = graph.values.ids().filter(|&v| graph.ty(v).shape == ty.shape).collect();
            let inputs: Vec<ValueId> = (0..1 + c.pick(2)).map(|_| c.of(&same)).collect();
            let dtypes: Vec<DType> = inputs.iter().map(|&v| graph.ty(v).dtype).collect();
            let mut body = Body::default();
            let outputs: Vec<DType> = (0..1 + c.pick(2)).map(|_| c.of(&DTYPES)).collect();
            let results = outputs.iter().map(|&d| element(c, &mut body, &dtypes, rank, d)).collect();
            let types = outputs.iter().map(|&dtype| TensorType { dtype, shape: ty.shape.clone() }).collect();
            graph.add_node(Op::Map(MapOp { body, results }), &inputs, types, origin);
        }
    }
}

/// A value over parameters and coordinates.
fn element(c: &mut Choices, body: &mut Body, params: &[DType], rank: usize, dtype: DType) -> infc_ir::entity::ScalarId {
    let mut leaf = |c: &mut Choices, body: &mut Body, wanted: DType| {
        let chosen = c.pick(params.len() + 1);
        let value = match params.get(chosen) {
            Some(&found) => body.param(chosen as u8, found),
            None if rank > 0 => body.push(ScalarOp::Index(VarId::from_index(c.pick(rank)).into())),
            None => body.push(ScalarOp::Index(IndexExpr::constant(3))),
        };
        if !wanted.is_float() && body.dtype(value).is_float() {
            return body.push(ScalarOp::CastSaturating(wanted, value));
        }
        body.cast(wanted, value)
    };
    value(c, body, dtype, 3, &mut leaf)
}
