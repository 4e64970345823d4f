//! Contractions of one input with several constant operands become one: the Q, K and V projections of attention.
//!
//! The constants are concatenated along the label that only they have, and views take the result apart; readers that
//! fuse views read it in place. Where all results go through the same function with constants along that label (biases) and
//! nowhere else, these are concatenated as well, and the views come behind the function. Off unless [`PassOptions::horizontal`](super::PassOptions::horizontal) says so: wide
//! enough products gain nothing.

use super::movement::{constant, var, view};
use super::rewrite::Forward;
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, NodeId, OriginId, ValueId};
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{ConcatOp, ContractOp, MapOp, Op};
use infc_ir::scalar::Const;
use infc_tensor::DType;

/// Contractions with more columns than this are wide enough on their own.
const WIDE: i64 = 4096;

/// Merges contractions.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    if !cx.options.horizontal {
        return Ok(Changed::No);
    }
    let mut groups: Vec<Vec<Candidate>> = Vec::new();
    for &id in &graph.order {
        let Some(candidate) = Candidate::new(graph, id, cx) else { continue };
        match groups.iter_mut().find(|g| g[0].joins(graph, &candidate)) {
            Some(group) => group.push(candidate),
            None => groups.push(vec![candidate]),
        }
    }
    let uses = graph.use_counts();
    let mut merged: Vec<Merged> = groups.into_iter().flat_map(|group| by_function(graph, group, &uses, cx)).collect();
    merged.retain(|merged| merged.group.len() > 1);
    if merged.is_empty() {
        return Ok(Changed::No);
    }
    let mut forward = Forward::new(graph);
    for id in std::mem::take(&mut graph.order) {
        forward.resolve_inputs(graph, id);
        if let Some(merged) = merged.iter().find(|merged| merged.group[0].id == id) {
            merge(graph, merged, &mut forward);
        }
        let is_replaced =
            |m: &Merged| m.group.iter().any(|c| c.id == id) || m.functions.iter().any(|function| function.id == id);
        if !merged.iter().any(is_replaced) {
            graph.order.push(id);
        }
    }
    forward.resolve_outputs(graph);
    Ok(Changed::Yes)
}

/// A contraction whose second operand is constant and has one label of its own.
struct Candidate {
    id: NodeId,
    lhs: ValueId,
    rhs: ValueId,
    op: ContractOp,
    /// The axis of the constant, and of the result, along which the constants are put together.
    axis: usize,
    result_axis: usize,
    extent: i64,
}

impl Candidate {
    fn new(graph: &Graph, id: NodeId, cx: &PassContext) -> Option<Self> {
        let node = &graph.nodes[id];
        let Op::Contract(op) = &node.op else { return None };
        let [lhs, rhs] = node.inputs[..] else { return None };
        constant(graph, rhs)?;
        let mut own = op.rhs.iter().enumerate().filter(|(_, l)| !op.lhs.contains(l));
        let (Some((axis, label)), None) = (own.next(), own.next()) else { return None };
        let result_axis = op.output.iter().position(|l| l == label)?;
        let extent = graph.ty(rhs).shape[axis].as_const()?;
        if extent > WIDE {
            cx.note(id, "not merged with its neighbours: wide enough on its own");
            return None;
        }
        Some(Self { id, lhs, rhs, op: op.clone(), axis, result_axis, extent })
    }

    fn joins(&self, graph: &Graph, other: &Self) -> bool {
        self.lhs == other.lhs && self.op == other.op && graph.ty(self.rhs).dtype == graph.ty(other.rhs).dtype
    }
}

/// A function of a result, and of constants along the label that only its constant has.
struct Function {
    id: NodeId,
    op: MapOp,
    /// Per input, the constant; `None` for the result itself.
    constants: Vec<Option<ValueId>>,
}

/// Contractions that become one.
struct Merged {
    group: Vec<Candidate>,
    /// What each of their results goes through, and nowhere else; all of them the same. None if they go elsewhere.
    functions: Vec<Function>,
}

/// Takes a group apart by the functions behind its results. What goes through one by itself is left out: it would do so in a kernel
/// of its own.
fn by_function(graph: &Graph, group: Vec<Candidate>, uses: &[u32], cx: &PassContext) -> Vec<Merged> {
    let mut parts: Vec<Merged> = Vec::new();
    for candidate in group {
        let function = function(graph, &candidate, uses);
        if function.is_none() && map_behind(graph, &candidate, uses).is_some() {
            cx.note(candidate.id, "not merged with its neighbours: another function is behind it");
            continue;
        }
        let same = |part: &&mut Merged| match (&function, part.functions.first()) {
            (Some(own), Some(first)) => own.is_like(first, graph),
            (None, None) => true,
            _ => false,
        };
        match parts.iter_mut().find(same) {
            Some(part) => {
                part.group.push(candidate);
                part.functions.extend(function);
            }
            None => parts.push(Merged { group: vec![candidate], functions: function.into_iter().collect() }),
        }
    }
    parts
}

impl Function {
    /// Whether both do the same, but for what their constants are.
    fn is_like(&self, other: &Self, graph: &Graph) -> bool {
        let dtypes = |constants: &[Option<ValueId>]| -> Vec<Option<DType>> {
            constants.iter().map(|constant| constant.map(|constant| graph.ty(constant).dtype)).collect()
        };
        self.op == other.op && dtypes(&self.constants) == dtypes(&other.constants)
    }
}

/// The only reader of a result, if that is a function of elements.
fn map_behind<'g>(graph: &'g Graph, candidate: &Candidate, uses: &[u32]) -> Option<(NodeId, &'g MapOp)> {
    let result = graph.nodes[candidate.id].outputs[0];
    let reads = |&&id: &&NodeId| graph.nodes[id].inputs.contains(&result);
    let id = *graph.order.iter().find(reads).filter(|_| uses[result.index()] == 1)?;
    match &graph.nodes[id].op {
        Op::Map(op) => Some((id, op)),
        _ => None,
    }
}

fn function(graph: &Graph, candidate: &Candidate, uses: &[u32]) -> Option<Function> {
    let result = graph.nodes[candidate.id].outputs[0];
    let (id, op) = map_behind(graph, candidate, uses)?;
    let node = &graph.nodes[id];
    // Places in it would be others in the merged one.
    if node.outputs.len() != 1 || op.body.reads_place() {
        return None;
    }
    let along = |value: ValueId| -> Option<ValueId> {
        let (_, node) = graph.producer(value)?;
        let Op::View(of) = &node.op else { return None };
        let [axis] = &of.map.index[..] else { return None };
        let is_plain = of.map.valid.is_empty() && *axis == var(candidate.result_axis);
        let whole = graph.ty(node.inputs[0]).shape[0].is_const(candidate.extent);
        (is_plain && whole && constant(graph, node.inputs[0]).is_some()).then_some(node.inputs[0])
    };
    let constants = node.inputs.iter().map(|&input| if input == result { Some(None) } else { along(input).map(Some) });
    let constants = constants.collect::<Option<Vec<_>>>()?;
    constants.iter().any(Option::is_some).then(|| Function { id, op: op.clone(), constants })
}

/// Constants of a group, one behind the other along an axis. They may stand later in the order than the first contraction, so they
/// are put here again.
fn concatenated(graph: &mut Graph, constants: &[ValueId], axis: usize, total: i64, origin: OriginId) -> ValueId {
    let mut parts = Vec::new();
    for &constant in constants {
        if let Some((_, node)) = graph.producer(constant) {
            let op = node.op.clone();
            let ty = graph.ty(constant).clone();
            parts.push(graph.add(op, &[], ty, origin));
        }
    }
    let mut ty = graph.ty(constants[0]).clone();
    ty.shape[axis] = Dim::constant(total);
    graph.add(Op::Concat(ConcatOp { axis }), &parts, ty, origin)
}

fn merge(graph: &mut Graph, Merged { group, functions }: &Merged, forward: &mut Forward) {
    let first = &group[0];
    let origin = group
        .iter()
        .fold(graph.nodes[first.id].origin, |origin, c| graph.merge_origins(origin, graph.nodes[c.id].origin));
    let lhs = forward.resolve(first.lhs);
    let total: i64 = group.iter().map(|c| c.extent).sum();
    let weights: Vec<ValueId> = group.iter().map(|candidate| candidate.rhs).collect();
    let weights = concatenated(graph, &weights, first.axis, total, origin);
    let widened = |graph: &Graph, value: ValueId| {
        let mut ty = graph.ty(value).clone();
        ty.shape[first.result_axis] = Dim::constant(total);
        ty
    };
    let result_type = widened(graph, graph.nodes[first.id].outputs[0]);
    let mut product = graph.add(Op::Contract(first.op.clone()), &[lhs, weights], result_type.clone(), origin);
    if let Some(function) = functions.first() {
        let mut inputs = Vec::new();
        for n in 0..function.constants.len() {
            let constants: Option<Vec<ValueId>> = functions.iter().map(|function| function.constants[n]).collect();
            inputs.push(match constants {
                None => product,
                Some(constants) => {
                    let all = concatenated(graph, &constants, 0, total, origin);
                    let rank = result_type.shape.len();
                    let map = AccessMap { rank, index: vec![var(first.result_axis)], valid: Vec::new() };
                    let dtype = graph.ty(all).dtype;
                    let along = view(map, &result_type.shape, Const::zero(dtype));
                    graph.add(along, &[all], TensorType::new(dtype, result_type.shape.clone()), origin)
                }
            });
        }
        let ty = widened(graph, graph.nodes[function.id].outputs[0]);
        product = graph.add(Op::Map(function.op.clone()), &inputs, ty, origin);
    }
    let mut offset = 0;
    for (n, candidate) in group.iter().enumerate() {
        let replaced = functions.get(n).map_or(candidate.id, |function| function.id);
        let old = graph.nodes[replaced].outputs[0];
        let ty = graph.ty(old).clone();
        let index = (0..ty.shape.len())
            .map(|axis| if axis == candidate.result_axis { var(axis) + offset } else { var(axis) })
            .collect();
        let map = AccessMap { rank: ty.shape.len(), index, valid: Vec::new() };
        let slice = view(map, &ty.shape, Const::zero(ty.dtype));
        let new = graph.add(slice, &[product], ty, graph.nodes[replaced].origin);
        forward.set(old, new);
        offset += candidate.extent;
    }
}
