//! Composites: their definitions in core ops, and taking them apart again.
//!
//! The body of a composite has the symbols of the graph around it, so that dims mean the same in both.

use super::movement::broadcast;
use super::rewrite::{Operand, Replacement, Site, sweep};
use super::{Changed, PassContext};
use infc_ir::entity::ScalarId;
use infc_ir::entity::{IndexVec, OriginId, ValueId};
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::{CompositeKind, CompositeOp, MapOp, Op, ReduceOp};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp};
use infc_ir::symbol::Symbols;
use infc_tensor::DType;
use std::sync::Arc;

/// Builds the body of a composite.
struct Definer {
    graph: Graph,
    origin: OriginId,
}

impl Definer {
    fn new(symbols: &Symbols) -> Self {
        let mut graph = Graph { symbols: symbols.clone(), ..Graph::default() };
        let origin = graph.origins.push(Vec::new());
        Self { graph, origin }
    }

    /// A map over inputs of one type; `f` gets the parameters.
    fn map(&mut self, inputs: &[ValueId], f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId) -> ValueId {
        let mut body = Body::default();
        let params: Vec<ScalarId> =
            inputs.iter().enumerate().map(|(n, &v)| body.param(n as u8, self.graph.ty(v).dtype)).collect();
        let result = f(&mut body, &params);
        let ty = TensorType::new(body.dtype(result), self.graph.ty(inputs[0]).shape.clone());
        self.graph.add(Op::Map(MapOp { body, results: vec![result] }), inputs, ty, self.origin)
    }

    /// A reduction of the axes, spread over them again.
    fn reduce(&mut self, x: ValueId, axes: &[usize], reducer: Reducer) -> ValueId {
        let ty = self.graph.ty(x).clone();
        let rest: Vec<usize> = (0..ty.shape.len()).filter(|a| !axes.contains(a)).collect();
        let folded = TensorType::new(ty.dtype, rest.iter().map(|&a| ty.shape[a].clone()).collect());
        let mut body = Body::default();
        let element = body.param(0, ty.dtype);
        let op = ReduceOp { axes: axes.to_vec(), body, elements: vec![element], reducer };
        let result = self.graph.add(Op::Reduce(op), &[x], folded.clone(), self.origin);
        let spread = broadcast(&folded, &rest, &ty.shape);
        self.graph.add(spread, &[result], ty, self.origin)
    }

    fn mean(&mut self, x: ValueId, axes: &[usize], count: i64) -> ValueId {
        let dtype = self.graph.ty(x).dtype;
        let sum = self.reduce(x, axes, Reducer::sum(dtype));
        self.map(&[sum], |body, p| {
            let count = body.constant(dtype, count as f64);
            body.binary(BinaryOp::Div, p[0], count)
        })
    }

    fn finish(mut self, kind: CompositeKind, y: ValueId) -> CompositeOp {
        self.graph.name = format!("{kind:?}");
        self.graph.outputs.push(Port::new("y", y));
        CompositeOp { kind, body: Arc::new(self.graph) }
    }
}

/// `exp(x − max x) / Σ exp(x − max x)` over the axes.
#[must_use]
pub fn softmax(symbols: &Symbols, x: &TensorType, axes: &[usize]) -> CompositeOp {
    softmax_with(symbols, x, axes, |body, shifted| body.unary(UnaryOp::Exp, shifted))
}

/// The same with exponentials that are rounded to a half type, in the sum of them, too.
#[must_use]
pub fn softmax_of_rounded(symbols: &Symbols, x: &TensorType, axes: &[usize], half: DType) -> CompositeOp {
    softmax_with(symbols, x, axes, |body, shifted| {
        let exp = body.unary(UnaryOp::Exp, shifted);
        let rounded = body.cast(half, exp);
        body.cast(x.dtype, rounded)
    })
}

/// The same of f32, in which an exponential that is no normal number is 0: what it weighs, if that is finite, moves a weighted
/// sum by less than 1.2e-38 of itself. Processors take a hundred times as long to compute such numbers and to multiply them.
#[must_use]
pub fn softmax_of_normal(symbols: &Symbols, x: &TensorType, axes: &[usize]) -> CompositeOp {
    softmax_with(symbols, x, axes, |body, shifted| exp_if_normal(body, shifted, LEAST_EXPONENT))
}

/// Exponentials of f32 are normal numbers from here on: the least of these is 2⁻¹²⁶, and -126·ln 2 = -87.336544….
const LEAST_EXPONENT: f64 = -87.33654;

/// `exp(x)`, or 0 if `x` is below `least`, without computing a smaller one.
pub(crate) fn exp_if_normal(body: &mut Body, x: ScalarId, least: f64) -> ScalarId {
    let least = body.constant(DType::F32, least);
    let is_small = body.compare(CompareOp::Lt, x, least);
    let bounded = body.select(is_small, least, x);
    let exp = body.unary(UnaryOp::Exp, bounded);
    let zero = body.constant(DType::F32, 0.0);
    body.select(is_small, zero, exp)
}

/// A softmax whose exponentials are what `exponential` makes of what they are of.
fn softmax_with(
    symbols: &Symbols,
    x: &TensorType,
    axes: &[usize],
    exponential: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
) -> CompositeOp {
    let mut d = Definer::new(symbols);
    let input = d.graph.add_input("x", x.clone());
    let least = Const::from_f64(x.dtype, f64::NEG_INFINITY);
    let max = d.reduce(input, axes, Reducer::binary(BinaryOp::Max, least));
    let exp = d.map(&[input, max], |body, p| {
        let shifted = body.binary(BinaryOp::Sub, p[0], p[1]);
        exponential(body, shifted)
    });
    let sum = d.reduce(exp, axes, Reducer::sum(x.dtype));
    let y = d.map(&[exp, sum], |body, p| body.binary(BinaryOp::Div, p[0], p[1]));
    d.finish(CompositeKind::Softmax, y)
}

/// `(x − mean x) / √(mean (x − mean x)² + ε)` over the axes, which together have `count` elements. Scale and shift are
/// not part of it.
#[must_use]
pub fn layer_norm(symbols: &Symbols, x: &TensorType, axes: &[usize], count: i64, epsilon: f64) -> CompositeOp {
    let mut d = Definer::new(symbols);
    let input = d.graph.add_input("x", x.clone());
    let mean = d.mean(input, axes, count);
    let centered = d.map(&[input, mean], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]));
    let squares = d.map(&[centered], |body, p| body.binary(BinaryOp::Mul, p[0], p[0]));
    let variance = d.mean(squares, axes, count);
    let y = d.map(&[centered, variance], |body, p| {
        let epsilon = body.constant(x.dtype, epsilon);
        let shifted = body.binary(BinaryOp::Add, p[1], epsilon);
        let root = body.unary(UnaryOp::Sqrt, shifted);
        body.binary(BinaryOp::Div, p[0], root)
    });
    d.finish(CompositeKind::LayerNorm, y)
}

/// Which GELU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeluForm {
    /// `x/2·(1 + erf(x/√2))`.
    Erf,
    /// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    Tanh,
}

/// The factor of x³ in GELU's tanh form.
pub const GELU_CUBIC: f64 = 0.044_715;

/// GELU of every element.
#[must_use]
pub fn gelu(symbols: &Symbols, x: &TensorType, form: GeluForm) -> CompositeOp {
    let mut d = Definer::new(symbols);
    let input = d.graph.add_input("x", x.clone());
    let y = d.map(&[input], |body, p| gelu_body(body, p[0], x.dtype, form));
    d.finish(CompositeKind::Gelu, y)
}

fn gelu_body(body: &mut Body, x: ScalarId, dtype: DType, form: GeluForm) -> ScalarId {
    let inner = match form {
        GeluForm::Erf => {
            let c = body.constant(dtype, std::f64::consts::FRAC_1_SQRT_2);
            let scaled = body.binary(BinaryOp::Mul, x, c);
            body.unary(UnaryOp::Erf, scaled)
        }
        GeluForm::Tanh => {
            let cubic = body.constant(dtype, GELU_CUBIC);
            let square = body.binary(BinaryOp::Mul, x, x);
            let cube = body.binary(BinaryOp::Mul, square, x);
            let cube = body.binary(BinaryOp::Mul, cube, cubic);
            let sum = body.binary(BinaryOp::Add, x, cube);
            let c = body.constant(dtype, (2.0 / std::f64::consts::PI).sqrt());
            let scaled = body.binary(BinaryOp::Mul, sum, c);
            body.unary(UnaryOp::Tanh, scaled)
        }
    };
    let one = body.constant(dtype, 1.0);
    let sum = body.binary(BinaryOp::Add, inner, one);
    let half = body.constant(dtype, 0.5);
    let halved = body.binary(BinaryOp::Mul, x, half);
    body.binary(BinaryOp::Mul, halved, sum)
}

/// The axes that the first reduction of a composite's body folds: those of a softmax or norm.
#[must_use]
pub fn reduced_axes(op: &CompositeOp) -> Option<&[usize]> {
    op.body.order.iter().find_map(|&n| match &op.body.nodes[n].op {
        Op::Reduce(reduce) => Some(&reduce.axes[..]),
        _ => None,
    })
}

/// Some nodes of a graph as a composite. `nodes` are in order; the result is that of the last, whose first output is
/// the only one read outside. Returns the operation and its operands.
#[must_use]
pub fn outline(
    graph: &Graph,
    kind: CompositeKind,
    nodes: &[infc_ir::entity::NodeId],
) -> Option<(CompositeOp, Vec<ValueId>)> {
    let mut d = Definer::new(&graph.symbols);
    let mut inputs: Vec<ValueId> = Vec::new();
    let mut inner: Vec<(ValueId, ValueId)> = Vec::new();
    for &id in nodes {
        let node = &graph.nodes[id];
        let mut operands = Vec::with_capacity(node.inputs.len());
        for &value in &node.inputs {
            let known = inner.iter().find(|(outer, _)| *outer == value).map(|&(_, i)| i);
            operands.push(known.unwrap_or_else(|| {
                let new = d.graph.add_input(&format!("x{}", inputs.len()), graph.ty(value).clone());
                inputs.push(value);
                inner.push((value, new));
                new
            }));
        }
        let types = node.outputs.iter().map(|&o| graph.ty(o).clone()).collect();
        let outputs = d.graph.add_node(node.op.clone(), &operands, types, d.origin);
        inner.extend(node.outputs.iter().copied().zip(outputs));
    }
    let result = graph.nodes[*nodes.last()?].outputs.first()?;
    let y = inner.iter().find(|(outer, _)| outer == result)?.1;
    Some((d.finish(kind, y), inputs))
}

/// Replaces every composite by its body, also within bodies.
pub fn inline_composites(graph: &mut Graph, cx: &PassContext) -> Changed {
    let mut any = Changed::No;
    // Bodies are finite trees, so this ends; only composites in bodies need another round.
    while graph.order.iter().any(|&n| matches!(graph.nodes[n].op, Op::Composite(_))) {
        any = any.or(sweep(graph, cx, &[inline]));
    }
    any
}

// composite(x) = body(x)
fn inline(site: &Site<'_>) -> Option<Replacement> {
    let Op::Composite(op) = &site.node().op else { return None };
    let body = &op.body;
    let mut new = Replacement::new();
    let mut values: IndexVec<ValueId, Option<Operand>> = body.values.iter().map(|_| None).collect();
    for (port, &value) in body.inputs.iter().zip(&site.node().inputs) {
        values[port.value] = Some(value.into());
    }
    for &id in &body.order {
        let node = &body.nodes[id];
        let inputs: Option<Vec<Operand>> = node.inputs.iter().map(|&v| values[v]).collect();
        let types = node.outputs.iter().map(|&o| body.ty(o).clone()).collect();
        let at = new.add_node(node.op.clone(), &inputs?, types);
        for (n, &output) in node.outputs.iter().enumerate() {
            values[output] = Some(Operand::New(at, n));
        }
    }
    let outputs: Option<Vec<Operand>> = body.outputs.iter().map(|o| values[o.value]).collect();
    new.set_outputs(outputs?);
    Some(new)
}

/// The extent of some axes together, if it is a number.
#[must_use]
pub fn count_of(shape: &[Dim], axes: &[usize]) -> Option<i64> {
    axes.iter().try_fold(1i64, |n, &a| n.checked_mul(shape.get(a)?.as_const()?))
}

/// True if the reducer's element is its first parameter unchanged.
#[must_use]
pub fn folds_input_itself(op: &ReduceOp) -> bool {
    matches!(op.elements[..], [e] if matches!(op.body.ops[e], ScalarOp::Param(0, _)))
}
