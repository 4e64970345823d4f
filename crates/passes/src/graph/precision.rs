//! Sums of products multiply numbers of 16 bits (`--precision bf16` and `f16`, ARCHITECTURE.md D11).
//!
//! Contractions with a constant factor whose columns fill vectors get both factors rounded to such a type, half to even;
//! products are summed in f32 as before. A factor that is computed is rounded once, where it is made, through movement,
//! concatenation and extrema, and whoever else computes with it reads the rounded number, too: so it is stored rounded
//! alone. Concatenations of which nothing but factors is made, point by point, are stored so as well, and so are sums that
//! wait for another one to make a factor with it.
//! So it is in the steps of recurrences ([`steps`]).
//! All other arithmetic (sums, additions of residuals, norms, softmax, functions) is f32, and so is what depthwise convolutions
//! and contractions of two computed values read, unless it is a factor for others. Inputs and outputs of the graph keep their
//! types.
//!
//! This changes what a graph means, so it is no pass of the pipeline. It runs once, behind it; constants are rounded by
//! the folding that follows.
//!
//! The same is done, and changes nothing of what a graph means, with factors that are such numbers already
//! ([`Which::Halves`]): those of a graph in FP16, which passes compute in f32. It is done where all targets multiply halves,
//! and of all contractions, and attention.

mod known;
mod steps;

use super::Changed;
use super::movement::constant;
use crate::fits::Fits;
use infc_ir::entity::{NodeId, OriginId, ScalarId, ValueId};
use infc_ir::graph::{Graph, Node, TensorType};
use infc_ir::op::{CompositeOp, ContractOp, MapOp, Op, ReduceOp, ViewOp};
use infc_ir::scalar::{BinaryOp, Body, Const, ScalarOp};
use infc_tensor::DType;
use known::Known;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Fewer products per result, or results per computed factor, take no dot products of whole vectors.
const FEWEST: i64 = 8;

/// Which factors become numbers of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of contractions with weights: they are rounded.
    Weighted,
    /// Those that are such numbers.
    Halves,
}

/// Makes factors of a graph's contractions numbers of a float type of 16 bits, and those of contractions in the branches of
/// its `If`s.
pub fn run(graph: &mut Graph, to: DType, which: Which) -> Changed {
    let mut changed = Changed::No;
    for id in graph.order.clone() {
        if let Op::If(branches) = &mut graph.nodes[id].op {
            for branch in [&mut branches.then, &mut branches.otherwise] {
                changed = changed.or(run(Arc::make_mut(branch), to, which));
            }
        }
    }
    let mut known = match which {
        Which::Weighted => None,
        Which::Halves => Some(Known::new(graph, to)),
    };
    let mut suits = |id: NodeId| known.as_mut().map_or_else(|| pays(graph, id), |known| known.multiplied(graph, id));
    let contractions: HashSet<NodeId> = graph.order.iter().copied().filter(|&id| suits(id)).collect();
    let in_steps: HashMap<NodeId, Vec<(NodeId, usize)>> = match which {
        Which::Weighted => graph.order.iter().map(|&id| (id, steps::multiplied(graph, id))).collect(),
        Which::Halves => HashMap::new(),
    };
    if contractions.is_empty() && in_steps.values().all(Vec::is_empty) {
        return changed;
    }
    // Inputs have no origin of their own.
    let origin = graph.order.iter().find(|id| contractions.contains(id)).map(|&id| graph.nodes[id].origin);
    let factors = match &mut known {
        None => factors(graph, &contractions),
        Some(known) => {
            let inputs = contractions.iter().flat_map(|&id| graph.nodes[id].inputs.clone());
            let halves = inputs.filter(|&value| known.holds(graph, value)).collect();
            let mut found = HashSet::new();
            add(graph, halves, &mut found);
            found
        }
    };
    let mut pass = Pass {
        to,
        which,
        factors,
        given: given(graph),
        rounded: HashMap::new(),
        for_steps: HashMap::new(),
        widened: HashMap::new(),
    };
    let order = std::mem::take(&mut graph.order);
    for input in graph.inputs.clone() {
        if let Some(origin) = origin.filter(|_| pass.factors.contains(&input.value)) {
            // Whoever else reads an input reads it as it is.
            let value = convert(graph, input.value, to, origin);
            pass.rounded.insert(input.value, value);
        }
    }
    for id in order {
        if contractions.contains(&id) {
            let read: Vec<ValueId> = graph.nodes[id].inputs.clone();
            for input in &mut graph.nodes[id].inputs {
                *input = pass.rounded.get(input).copied().unwrap_or(*input);
            }
            let now = &graph.nodes[id].inputs;
            let halves: Vec<bool> = read.iter().zip(now).map(|(before, now)| before != now).collect();
            if let Op::Composite(composite) = &mut graph.nodes[id].op {
                widen_inside(composite, to, &halves);
            }
            graph.order.push(id);
        } else {
            pass.read_rounded(graph, id);
            if let Some(inner) = in_steps.get(&id).filter(|inner| !inner.is_empty()) {
                pass.round_steps(graph, id, inner);
            }
            graph.order.push(id);
        }
        pass.round_outputs(graph, id);
    }
    Changed::Yes
}

/// Makes a composite read operands as numbers of a type, and convert them itself.
fn widen_inside(composite: &mut CompositeOp, stored: DType, converts: &[bool]) {
    let body = Arc::make_mut(&mut composite.body);
    let order = std::mem::take(&mut body.order);
    let Some(origin) = order.first().map(|&id| body.nodes[id].origin) else { return };
    let mut widened = HashMap::new();
    for (port, _) in body.inputs.clone().iter().zip(converts).filter(|(_, converts)| **converts) {
        body.values[port.value].ty.dtype = stored;
        widened.insert(port.value, convert(body, port.value, DType::F32, origin));
    }
    for &id in &order {
        for input in &mut body.nodes[id].inputs {
            *input = widened.get(input).copied().unwrap_or(*input);
        }
    }
    body.order.extend(order);
}

/// How many contractions and attentions of a graph, and of the branches of its `If`s, multiply numbers of a half type in f32.
#[must_use]
pub fn multiplied_in_f32(graph: &Graph) -> usize {
    let mut known = Known::new(graph, DType::F16);
    let halves = [DType::F16, DType::BF16];
    let multiplied = graph.order.iter().filter(|&&id| {
        halves.into_iter().any(|half| {
            known.to = half;
            known.multiplied(graph, id)
        })
    });
    let branches = graph.order.iter().filter_map(|&id| match &graph.nodes[id].op {
        Op::If(branches) => Some([&branches.then, &branches.otherwise]),
        _ => None,
    });
    multiplied.count() + branches.flatten().map(|branch| multiplied_in_f32(branch)).sum::<usize>()
}

/// Whether a node is a sum of products that is worth rounding its factors: one of them constant, with vectors of columns.
fn pays(graph: &Graph, id: NodeId) -> bool {
    let node = &graph.nodes[id];
    if !matches!(node.op, Op::Contract(_)) {
        return false;
    }
    let side = (0..2).find(|&side| is_constant(graph, node.inputs[side]));
    side.is_some_and(|side| has_vectors(graph, id, side))
}

/// Whether a contraction sums products of f32, enough and with columns enough for vectors where the weights are on a side.
fn has_vectors(graph: &Graph, id: NodeId, side: usize) -> bool {
    let node = &graph.nodes[id];
    let Op::Contract(op) = &node.op else { return false };
    let is_f32 = |value: ValueId| graph.ty(value).dtype == DType::F32;
    let [summed, columns] = points(graph, node, op, side);
    let are_enough = summed.is_some_and(|n| n >= FEWEST) && columns.is_some_and(|n| n >= FEWEST);
    are_enough && node.inputs.iter().chain(&node.outputs).all(|&value| is_f32(value))
}

/// How many points of the constant are summed, and how many results it has for each element of the other factor; `None`
/// where only a run tells.
fn points(graph: &Graph, node: &Node, op: &ContractOp, side: usize) -> [Option<i64>; 2] {
    let labels = [&op.lhs, &op.rhs];
    let axes = || labels[side].iter().zip(&graph.ty(node.inputs[side]).shape);
    let product = |wanted: &dyn Fn(u8) -> bool| {
        axes().filter(|(label, _)| wanted(**label)).try_fold(1i64, |n, (_, extent)| n.checked_mul(extent.as_const()?))
    };
    let is_shared = |label: u8| labels[1 - side].contains(&label);
    [
        product(&|label| is_shared(label) && !op.output.contains(&label)),
        product(&|label| !is_shared(label) && op.output.contains(&label)),
    ]
}

fn is_constant(graph: &Graph, value: ValueId) -> bool {
    constant(graph, moved_from(graph, value)).is_some()
}

/// What a value shows elements of.
fn moved_from(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some((_, Node { op: Op::View(_), inputs, .. })) = graph.producer(value) {
        value = inputs[0];
    }
    value
}

/// All values that are rounded: the factors, what they are moved, put together or chosen from, and what is stored on the
/// way to factors alone.
fn factors(graph: &Graph, contractions: &HashSet<NodeId>) -> HashSet<ValueId> {
    let mut found = HashSet::new();
    add(graph, contractions.iter().flat_map(|&id| graph.nodes[id].inputs.clone()).collect(), &mut found);
    let mut readers: HashMap<ValueId, Vec<NodeId>> = HashMap::new();
    for &id in &graph.order {
        for &input in &graph.nodes[id].inputs {
            readers.entry(input).or_default().push(id);
        }
    }
    let places: HashMap<NodeId, usize> = graph.order.iter().enumerate().map(|(place, &id)| (id, place)).collect();
    // Of several sums that meet in a map, it is the kernel of the last one that computes it.
    let meets_later_sum = |id: NodeId, reader: &NodeId| {
        graph.nodes[*reader].inputs.iter().any(|&input| match graph.producer(input) {
            Some((other, Node { op: Op::Contract(_), .. })) => places.get(&other) > places.get(&id),
            _ => false,
        })
    };
    let is_output = |value: ValueId| graph.outputs.iter().any(|output| output.value == value);
    // Behind others that are put together in turn, so that these are known to be rounded.
    for &id in graph.order.iter().rev() {
        let node = &graph.nodes[id];
        let makes_factors = |reader: &NodeId| {
            let reader = &graph.nodes[*reader];
            matches!(reader.op, Op::Map(_)) && reader.outputs.iter().all(|output| found.contains(output))
        };
        let on_the_way = |value: &ValueId| {
            let is_f32 = graph.ty(*value).dtype == DType::F32;
            is_f32 && !is_output(*value) && readers.get(value).is_some_and(|readers| readers.iter().all(makes_factors))
        };
        let is_stored = match node.op {
            Op::Concat(_) => true,
            Op::Contract(_) => readers
                .get(&node.outputs[0])
                .is_some_and(|readers| readers.iter().all(|reader| meets_later_sum(id, reader))),
            _ => false,
        };
        if is_stored && on_the_way(&node.outputs[0]) {
            add(graph, vec![node.outputs[0]], &mut found);
        }
    }
    found
}

/// Adds values and what they are elements of: the largest of rounded numbers is the largest number rounded.
fn add(graph: &Graph, mut work: Vec<ValueId>, found: &mut HashSet<ValueId>) {
    while let Some(value) = work.pop() {
        if !found.insert(value) {
            continue;
        }
        match graph.producer(value) {
            Some((_, Node { op: Op::View(_) | Op::Concat(_), inputs, .. })) => work.extend(inputs),
            Some((_, Node { op: Op::Reduce(reduce), inputs, .. })) if chooses(reduce) => work.extend(inputs),
            _ => {}
        }
    }
}

/// Whether a reduction gives one of the elements that it reads.
fn chooses(reduce: &ReduceOp) -> bool {
    let is_extremum = matches!(reduce.reducer.as_binary(), Some(BinaryOp::Min | BinaryOp::Max));
    let is_plain = |&element: &ScalarId| matches!(reduce.body.ops[element], ScalarOp::Param(..));
    is_extremum && reduce.elements.iter().all(is_plain)
}

struct Pass {
    /// The type that factors are rounded to.
    to: DType,
    which: Which,
    factors: HashSet<ValueId>,
    /// See [`given`].
    given: HashSet<ValueId>,
    /// Values as such numbers, once these are made.
    rounded: HashMap<ValueId, ValueId>,
    /// Values as such numbers that only steps of recurrences read so.
    for_steps: HashMap<ValueId, ValueId>,
    /// Those for all as f32 again, for nodes that do not convert what they read.
    widened: HashMap<ValueId, ValueId>,
}

impl Pass {
    /// Makes a node read rounded values wherever there are some that are stored.
    fn read_rounded(&mut self, graph: &mut Graph, id: NodeId) {
        let node = graph.nodes[id].clone();
        let stored = |value: &ValueId| self.rounded.get(value).copied().filter(|_| !self.given.contains(value));
        let rounded: Vec<Option<ValueId>> = node.inputs.iter().map(stored).collect();
        if rounded.iter().all(Option::is_none) {
            return;
        }
        let inputs: Vec<ValueId> = match &node.op {
            Op::Map(_) | Op::Reduce(_) | Op::Contract(_) => {
                node.inputs.iter().zip(&rounded).map(|(&value, rounded)| rounded.unwrap_or(value)).collect()
            }
            // The rounded view or concatenation takes its place.
            Op::View(_) | Op::Concat(_) => return,
            Op::Constant(_)
            | Op::Gather(_)
            | Op::Scan(_)
            | Op::Recurrence(_)
            | Op::If(_)
            | Op::DimValue(_)
            | Op::Host(_)
            | Op::Composite(_) => {
                let widened = |(&value, rounded): (&ValueId, &Option<ValueId>)| match rounded {
                    None => value,
                    Some(rounded) => *self
                        .widened
                        .entry(*rounded)
                        .or_insert_with(|| convert(graph, *rounded, DType::F32, node.origin)),
                };
                node.inputs.iter().zip(&rounded).map(widened).collect()
            }
        };
        let converts = |n: u8| rounded.get(usize::from(n)).copied().flatten().is_some();
        match &mut graph.nodes[id].op {
            Op::Map(map) => (map.body, map.results) = reading(self.to, &map.body, &map.results, &converts),
            Op::Reduce(reduce) => {
                (reduce.body, reduce.elements) = reading(self.to, &reduce.body, &reduce.elements, &converts);
            }
            _ => {}
        }
        graph.nodes[id].inputs = inputs;
    }

    /// Rounds what a node makes, if it is to be.
    fn round_outputs(&mut self, graph: &mut Graph, id: NodeId) {
        let node = graph.nodes[id].clone();
        for &value in &node.outputs {
            let parts: Option<Vec<ValueId>> =
                node.inputs.iter().map(|input| self.rounded.get(input).copied()).collect();
            let ty = TensorType::new(self.to, graph.ty(value).shape.clone());
            let rounded = match (&node.op, parts) {
                _ if graph.ty(value).dtype != DType::F32 || self.rounded.contains_key(&value) => continue,
                // What lies around the elements need not be such a number, where nothing is rounded.
                (Op::View(view), Some(_)) if self.which == Which::Halves && !surrounds(view, self.to) => continue,
                (Op::View(view), Some(parts)) => {
                    let view = ViewOp { otherwise: Const::from_f64(self.to, view.otherwise.to_f64()), ..view.clone() };
                    graph.add(Op::View(view), &parts, ty, node.origin)
                }
                (Op::Concat(concat), Some(parts)) => graph.add(Op::Concat(concat.clone()), &parts, ty, node.origin),
                _ if self.factors.contains(&value) => convert(graph, value, self.to, node.origin),
                _ => continue,
            };
            self.rounded.insert(value, rounded);
        }
    }
}

/// Whether a type holds what a view shows where there is no element.
fn surrounds(view: &ViewOp, dtype: DType) -> bool {
    view.map.valid.is_empty() || Fits::of_const(view.otherwise).holds(dtype)
}

/// The values that are not computed but inputs, constants, or put together of such, so that they are there in f32 in any case.
fn given(graph: &Graph) -> HashSet<ValueId> {
    let mut given: HashSet<ValueId> = graph.inputs.iter().map(|input| input.value).collect();
    for &id in &graph.order {
        let node = &graph.nodes[id];
        let is_given = match node.op {
            Op::Constant(_) => true,
            Op::View(_) | Op::Concat(_) => node.inputs.iter().all(|part| given.contains(part)),
            _ => false,
        };
        if is_given {
            given.extend(&node.outputs);
        }
    }
    given
}

/// A body that reads some of its operands as numbers of a type.
fn reading(stored: DType, body: &Body, results: &[ScalarId], converts: &dyn Fn(u8) -> bool) -> (Body, Vec<ScalarId>) {
    let mut new = Body::default();
    let results = new.import(body, results, &mut |new, op| match op {
        ScalarOp::Param(n, dtype) if converts(*n) => {
            let param = new.param(*n, stored);
            Some(new.cast(*dtype, param))
        }
        _ => None,
    });
    (new, results)
}

fn convert(graph: &mut Graph, value: ValueId, to: DType, origin: OriginId) -> ValueId {
    let ty = graph.ty(value).clone();
    let mut body = Body::default();
    let param = body.param(0, ty.dtype);
    let result = body.cast(to, param);
    graph.add(Op::Map(MapOp { body, results: vec![result] }), &[value], TensorType::new(to, ty.shape), origin)
}
