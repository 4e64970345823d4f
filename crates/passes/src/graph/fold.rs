//! Constant folding: what depends on constants alone is computed here.
//!
//! Broadcasts stay: a view that makes a constant larger is kept as a view, so that weights do not grow and readers see
//! that their operand is small. Other operations are folded over such views if the result is not much larger than what
//! they read ([`PassOptions::fold_limit_bytes`](super::PassOptions::fold_limit_bytes)), or takes long to compute.

use super::hoist::const_params;
use super::movement::static_len;
use super::{Changed, PassContext, PassError, aimed, evaluate};
use crate::schedule::operation_cost;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::Graph;
use infc_ir::index::Dim;
use infc_ir::interp;
use infc_ir::op::{ConstantOp, MapOp, Op, ReduceOp, ViewOp};
use infc_ir::scalar::{Body, ScalarOp};
use infc_tensor::{AlignedBytes, Tensor};
use std::sync::Arc;

/// Multiplications that folding a contraction may take.
const MAX_WORK: usize = 1 << 28;

/// Points that a run need not visit, for which a constant may have a byte more: every place of a scatter would ask every
/// update.
const POINTS_PER_BYTE: usize = 64;

/// Vector instructions that an operation takes for which an element of a table is worth a look-up: those of functions, not
/// quotients of places.
const TABLE_COST: f64 = 12.0;

/// Replaces nodes by the constants that they compute.
///
/// # Errors
/// [`PassError`] if a node reads what its operand does not have, in a graph that takes nothing for granted of its dims.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    let mut changed = Changed::No;
    for id in graph.order.clone() {
        let Some(tensors) = fold(graph, id, cx)? else { continue };
        changed = Changed::Yes;
        let name = constant_name(graph, id);
        match <[Tensor; 1]>::try_from(tensors) {
            Ok([tensor]) => {
                let node = &mut graph.nodes[id];
                node.op = Op::Constant(Arc::new(ConstantOp { name, tensor }));
                node.inputs.clear();
            }
            Err(tensors) => split(graph, id, &name, tensors),
        }
    }
    Ok(changed)
}

/// A node of several outputs becomes as many constants.
fn split(graph: &mut Graph, id: NodeId, name: &str, tensors: Vec<Tensor>) {
    let outputs = graph.nodes[id].outputs.clone();
    let origin = graph.nodes[id].origin;
    let at = graph.order.iter().position(|&n| n == id).unwrap_or(0);
    for (n, (tensor, old)) in tensors.into_iter().zip(outputs).enumerate() {
        let ty = graph.ty(old).clone();
        let op = Op::Constant(Arc::new(ConstantOp { name: format!("{name}.{n}"), tensor }));
        let new = graph.add(op, &[], ty, origin);
        if let Some(node) = graph.order.pop() {
            graph.order.insert(at, node);
        }
        graph.replace_uses(old, new);
    }
    graph.order.retain(|&n| n != id);
}

/// The name says what the constant was made from.
fn constant_name(graph: &Graph, id: NodeId) -> String {
    let mut names: Vec<String> = Vec::new();
    for &input in &graph.nodes[id].inputs {
        if let Some((tensor, _)) = source(graph, input)
            && !names.contains(&tensor.name)
        {
            names.push(tensor.name.clone());
        }
    }
    match &names[..] {
        [] => graph.nodes[id].op.name().to_owned(),
        [only] => only.clone(),
        // Long lists of names say nothing that the first does not.
        [first, ..] => format!("{first}+{}", names.len() - 1),
    }
}

/// A constant, and the view of it that is read.
pub(super) type Source<'a> = (&'a ConstantOp, Option<(NodeId, &'a ViewOp)>);

/// The constant behind a value: itself, or below one view.
fn source(graph: &Graph, value: ValueId) -> Option<Source<'_>> {
    let (id, node) = graph.producer(value)?;
    match &node.op {
        Op::Constant(constant) => Some((constant, None)),
        Op::View(view) => match &graph.producer(node.inputs[0])?.1.op {
            Op::Constant(constant) => Some((constant, Some((id, view)))),
            _ => None,
        },
        _ => None,
    }
}

fn fold(graph: &Graph, id: NodeId, cx: &PassContext) -> Result<Option<Vec<Tensor>>, PassError> {
    let node = &graph.nodes[id];
    if let Op::DimValue(dim) = &node.op {
        return Ok(dim.as_const().map(|d| vec![Tensor::scalar(d)]));
    }
    if let Op::Map(op) = &node.op
        && node.inputs.is_empty()
    {
        return table(graph, id, op, cx);
    }
    if node.inputs.is_empty() || matches!(node.op, Op::Constant(_)) {
        return Ok(None);
    }
    if let Some(empty) = empty(graph, id) {
        return Ok(Some(empty));
    }
    let Some(sources) = node.inputs.iter().map(|&v| source(graph, v)).collect::<Option<Vec<_>>>() else {
        return fold_through_map(graph, id, cx);
    };
    let mut out_bytes = 0usize;
    for &output in &node.outputs {
        let ty = graph.ty(output);
        let Some(bytes) = static_len(&ty.shape).and_then(|len| ty.dtype.storage_bytes(len)) else { return Ok(None) };
        out_bytes = out_bytes.saturating_add(bytes);
    }
    if let Op::View(op) = &node.op {
        let (tensor, view) = &sources[0];
        let grows = static_len(&op.shape).is_none_or(|len| len > tensor.tensor.len_elems());
        // What is padded a little may grow a little.
        let padded = !op.map.valid.is_empty() && out_bytes <= tensor.tensor.bytes().len().saturating_mul(2);
        if view.is_some() || (grows && !padded) {
            return Ok(None);
        }
        return Ok(element_view(graph, id, op, &tensor.tensor, cx)?.map(|t| vec![t]));
    }
    if let Op::Map(_) = &node.op
        && is_spread(graph, id)
    {
        // Hoisting makes it a map over fewer axes first.
        return Ok(None);
    }
    let in_bytes = sources.iter().map(|(c, _)| c.tensor.bytes().len()).sum::<usize>();
    let worth_bytes = work(graph, id).map_or(0, |work| work / POINTS_PER_BYTE);
    if out_bytes > in_bytes.max(cx.options.fold_limit_bytes).max(worth_bytes) {
        cx.note(id, "not folded: the result would be much larger than the constants it is made from");
        return Ok(None);
    }
    if let Op::Reduce(op) = &node.op
        && let Some(folded) = aimed::reduce(graph, id, op, &sources)?
    {
        return Ok(Some(folded));
    }
    if work(graph, id).is_none_or(|work| work > MAX_WORK) {
        cx.note(id, "not folded: that would take too long");
        return Ok(None);
    }
    let mut inputs = Vec::with_capacity(sources.len());
    for (constant, view) in sources {
        inputs.push(match view {
            None => constant.tensor.clone(),
            Some((id, op)) => match element_view(graph, id, op, &constant.tensor, cx)? {
                Some(tensor) => tensor,
                None => return Ok(None),
            },
        });
    }
    if let Op::Map(op) = &node.op {
        let shape: Vec<usize> = inputs[0].shape().to_vec();
        return evaluate::map(id, op, &shape, &inputs.iter().collect::<Vec<_>>());
    }
    if let Op::Reduce(op) = &node.op {
        let shape: Vec<usize> = inputs[0].shape().to_vec();
        if let Some(tensor) = evaluate::reduce(id, op, &shape, &inputs.iter().collect::<Vec<_>>())? {
            return Ok(Some(vec![tensor]));
        }
    }
    Ok(interpret(graph, id, inputs))
}

/// A map of coordinates alone, where a look-up takes less time than computing it: sines of a transform are a table, masks of
/// positions are not.
fn table(graph: &Graph, id: NodeId, op: &MapOp, cx: &PassContext) -> Result<Option<Vec<Tensor>>, PassError> {
    let node = &graph.nodes[id];
    let cost = op.body.ops.iter().map(operation_cost).fold(0.0, f64::max);
    let bytes = |&value: &ValueId| {
        let ty = graph.ty(value);
        static_len(&ty.shape).and_then(|len| ty.dtype.storage_bytes(len))
    };
    let bytes = node.outputs.iter().map(bytes).try_fold(0usize, |all, bytes| all.checked_add(bytes?));
    if cost < TABLE_COST || bytes.is_none_or(|bytes| bytes > cx.options.fold_limit_bytes) {
        return Ok(None);
    }
    let shape = graph.ty(node.outputs[0]).shape.iter();
    let extent = |dim: &Dim| usize::try_from(dim.as_const()?).ok();
    let Some(shape) = shape.map(extent).collect::<Option<Vec<_>>>() else { return Ok(None) };
    evaluate::map(id, op, &shape, &[])
}

/// A reduction of a map of constants that is itself too large to keep, such as the sums of bytes of which a zero point is
/// subtracted. Its elements are made block by block while they are folded.
fn fold_through_map(graph: &Graph, id: NodeId, cx: &PassContext) -> Result<Option<Vec<Tensor>>, PassError> {
    let node = &graph.nodes[id];
    let (Op::Reduce(reduce), [operand]) = (&node.op, &node.inputs[..]) else { return Ok(None) };
    let Some((map_id, producer)) = graph.producer(*operand) else { return Ok(None) };
    let (Op::Map(map), &[result]) = (&producer.op, &producer.outputs[..]) else { return Ok(None) };
    let sources = producer.inputs.iter().map(|&v| source(graph, v)).collect::<Option<Vec<_>>>();
    let Some(sources) = sources.filter(|_| result == *operand && !producer.inputs.is_empty()) else { return Ok(None) };
    if sources.iter().any(|(_, view)| view.is_some()) || is_spread(graph, map_id) {
        return Ok(None);
    }
    if work(graph, map_id).is_none_or(|work| work > MAX_WORK) {
        cx.note(id, "not folded: that would take too long");
        return Ok(None);
    }
    let mut body = Body::default();
    let element = body.import(&map.body, &map.results, &mut |_, _| None)[0];
    let elements = body.import(&reduce.body, &reduce.elements, &mut |_, op| match op {
        ScalarOp::Param(..) => Some(element),
        _ => None,
    });
    let composed = ReduceOp { body, elements, ..reduce.clone() };
    let inputs: Vec<&Tensor> = sources.iter().map(|(constant, _)| &constant.tensor).collect();
    let shape = inputs[0].shape().to_vec();
    Ok(evaluate::reduce(id, &composed, &shape, &inputs)?.map(|tensor| vec![tensor]))
}

/// The elements of a view; `None` where they depend on symbols, or where the view reads outside of a constant and the model
/// may never run it: what it takes for granted of its dims, or requires on the way there, does not hold then.
fn element_view(
    graph: &Graph,
    id: NodeId,
    op: &ViewOp,
    constant: &Tensor,
    cx: &PassContext,
) -> Result<Option<Tensor>, PassError> {
    match evaluate::view(id, op, constant) {
        Err(PassError::OutOfBounds { .. }) if cx.may_never_run(graph) => {
            cx.note(id, "not folded: it reads outside of a constant");
            Ok(None)
        }
        result => result,
    }
}

/// The results of a node if they have no elements, whatever it is computed from. What the host evaluates may refuse to.
fn empty(graph: &Graph, id: NodeId) -> Option<Vec<Tensor>> {
    let node = &graph.nodes[id];
    if matches!(node.op, Op::Host(_) | Op::If(_)) {
        return None;
    }
    let tensor = |&output: &ValueId| {
        let ty = graph.ty(output);
        let shape: Option<Vec<usize>> = ty.shape.iter().map(|d| usize::try_from(d.as_const()?).ok()).collect();
        let shape = shape.filter(|shape| shape.contains(&0))?;
        Tensor::from_bytes(ty.dtype, shape, AlignedBytes::zeroed(0)).ok()
    };
    node.outputs.iter().map(tensor).collect()
}

/// True if the value of a map of constants repeats along an axis.
fn is_spread(graph: &Graph, id: NodeId) -> bool {
    let node = &graph.nodes[id];
    let shape = &graph.ty(node.outputs[0]).shape;
    let params = const_params(graph, &node.inputs, shape);
    let used = |axis| params.iter().flatten().any(|p| p.axes.contains(&axis));
    (0..shape.len()).any(|axis| !shape[axis].is_const(1) && !used(axis))
}

/// Points visited, at most the product of all the extents that occur.
fn work(graph: &Graph, id: NodeId) -> Option<usize> {
    let node = &graph.nodes[id];
    let len = |v: ValueId| static_len(&graph.ty(v).shape);
    match &node.op {
        Op::Contract(op) => {
            let mut extents = [1usize; 256];
            for (labels, &input) in [&op.lhs, &op.rhs].into_iter().zip(&node.inputs) {
                for (&label, extent) in labels.iter().zip(&graph.ty(input).shape) {
                    extents[usize::from(label)] = usize::try_from(extent.as_const()?).ok()?;
                }
            }
            extents.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
        }
        _ => node.inputs.iter().chain(&node.outputs).map(|&v| len(v)).try_fold(0usize, |n, d| n.checked_add(d?)),
    }
}

/// The node as a graph of its own, through the interpreter: for what is rare.
fn interpret(graph: &Graph, id: NodeId, inputs: Vec<Tensor>) -> Option<Vec<Tensor>> {
    let node = &graph.nodes[id];
    let mut single = Graph::default();
    let origin = single.origins.push(Vec::new());
    let values: Vec<ValueId> =
        node.inputs.iter().enumerate().map(|(n, &v)| single.add_input(&format!("x{n}"), graph.ty(v).clone())).collect();
    let types = node.outputs.iter().map(|&o| graph.ty(o).clone()).collect();
    for (n, value) in single.add_node(node.op.clone(), &values, types, origin).into_iter().enumerate() {
        single.outputs.push(infc_ir::graph::Port::new(&format!("y{n}"), value));
    }
    // What the interpreter refuses (a type without arithmetic, say) stays as it is.
    interp::run_graph(&single, &[], &inputs).ok()
}
