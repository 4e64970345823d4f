//! Composites written out: a flat graph of core operations that remembers which of them belong together.

use super::body::constant_splat;
use super::branches::{Joint, Taken, copies, tell_sizes};
use super::choices::{Choices, Way};
use super::{FormError, FormOptions};
use crate::ErrorClass;
use crate::graph::movement;
use infc_ir::access::AccessMap;
use infc_ir::entity::{EntityId, NodeId, OriginId, ValueId};
use infc_ir::graph::{Definition, Graph, Node, Port, Requirement, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::{CompositeKind, CompositeOp, ContractOp, IfOp, MapOp, Op, Produced};
use infc_ir::scalar::{Body, Const, is_computable};
use infc_tensor::DType;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Composites inside composites inside …: deeper than this is not a model.
const MAX_DEPTH: usize = 16;

/// Attention of fewer rows than this per head streams keys and values as quickly in kernels of its parts.
const MIN_ROWS: i64 = 8;

/// Nodes that came from one composite and are computed by one kernel.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// In order, without constants.
    pub(super) nodes: Vec<NodeId>,
    /// What the composite gave to the outside.
    pub(super) outputs: Vec<ValueId>,
}

/// A condition under which nodes are computed: those of a branch of an `if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    /// A bool without axes.
    pub(super) condition: ValueId,
    /// Whether it holds or does not.
    pub(super) holds: bool,
    /// The guard around.
    pub(super) parent: Option<usize>,
}

/// A graph without composites, the branches of its conditions side by side.
///
/// An `if` node stays: its inputs are the condition, the results of the first branch, and those of the second, of which
/// one set is computed; its outputs are that set.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    pub(super) graph: Graph,
    pub(super) regions: Vec<Region>,
    /// Per node, the region it belongs to.
    pub(super) region_of: Vec<Option<usize>>,
    pub(super) guards: Vec<Guard>,
    /// Per node, the innermost guard it stands under.
    guard_of: Vec<Option<usize>>,
    /// What must hold, and the guard under which.
    pub(super) requires: Vec<(Option<usize>, Requirement)>,
    pub(super) choices: Choices,
    /// Maps that are kernels of their own, whatever they read.
    pub(super) apart: BTreeSet<NodeId>,
}

impl Flat {
    /// A graph that has no composites.
    pub(super) fn of(graph: Graph) -> Self {
        Self {
            graph,
            regions: Vec::new(),
            region_of: Vec::new(),
            guards: Vec::new(),
            guard_of: Vec::new(),
            requires: Vec::new(),
            choices: Choices::default(),
            apart: BTreeSet::new(),
        }
    }

    /// The innermost guard of a node.
    pub(super) fn guard(&self, node: NodeId) -> Option<usize> {
        self.guard_of.get(node.index()).copied().flatten()
    }

    /// Puts a node under a guard.
    pub(super) fn set_guard(&mut self, node: NodeId, guard: Option<usize>) {
        if self.guard_of.len() <= node.index() {
            self.guard_of.resize(node.index() + 1, None);
        }
        self.guard_of[node.index()] = guard;
    }

    /// Puts all nodes from one on under a guard, and into no region.
    pub(super) fn guard_from(&mut self, first: NodeId, guard: Option<usize>) {
        for n in first.index()..self.graph.nodes.len() {
            self.set_guard(NodeId::from_index(n), guard);
            self.set_region(NodeId::from_index(n), None);
        }
    }

    /// The conditions of a guard and of those around it, from the outermost inwards.
    pub(super) fn path(&self, mut guard: Option<usize>) -> Vec<(ValueId, bool)> {
        let mut path = Vec::new();
        while let Some(n) = guard {
            path.push((self.guards[n].condition, self.guards[n].holds));
            guard = self.guards[n].parent;
        }
        path.reverse();
        path
    }

    fn set_region(&mut self, node: NodeId, region: Option<usize>) {
        if self.region_of.len() <= node.index() {
            self.region_of.resize(node.index() + 1, None);
        }
        self.region_of[node.index()] = region;
    }

    /// The region of a node; nodes made later belong to none.
    pub(super) fn region(&self, node: NodeId) -> Option<usize> {
        self.region_of.get(node.index()).copied().flatten()
    }
}

/// Replaces every composite by its body, and every `if` by both branches.
///
/// In the body of a recurrence, which is one kernel, branches are computed both and their results chosen from
/// (`speculate`).
pub(super) fn expand(graph: &Graph, speculate: bool, options: &FormOptions) -> Result<Flat, FormError> {
    let mut flat = Flat::of(Graph {
        name: graph.name.clone(),
        symbols: graph.symbols.clone(),
        origins: graph.origins.clone(),
        sources: graph.sources.clone(),
        assumptions: graph.assumptions.clone(),
        ..Graph::default()
    });
    flat.choices = Choices::new(options);
    let mut values: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    for port in &graph.inputs {
        values[port.value.index()] = Some(flat.graph.add_input(&port.name, graph.ty(port.value).clone()));
        flat.graph.inputs.last_mut().expect("added just now").declared.clone_from(&port.declared);
    }
    let place = Place { region: None, origin: None, guard: None, speculate, options, depth: 0 };
    copy(&mut flat, graph, &mut values, place)?;
    for port in &graph.outputs {
        let value = lookup(&values, port.value, &port.name)?;
        flat.graph.outputs.push(infc_ir::graph::Port { value, ..port.clone() });
    }
    Ok(flat)
}

/// Where nodes are copied to.
#[derive(Clone, Copy)]
struct Place<'o> {
    region: Option<usize>,
    /// Of the composite around; without one, nodes keep theirs.
    origin: Option<OriginId>,
    guard: Option<usize>,
    speculate: bool,
    options: &'o FormOptions,
    depth: usize,
}

fn lookup(values: &[Option<ValueId>], value: ValueId, place: &str) -> Result<ValueId, FormError> {
    values.get(value.index()).copied().flatten().ok_or_else(|| FormError::Malformed {
        place: place.to_owned(),
        what: format!("{value} is read before it is defined"),
    })
}

/// Copies the nodes of `from` in order. Inside a composite they keep the origin of the composite.
fn copy(flat: &mut Flat, from: &Graph, values: &mut [Option<ValueId>], place: Place<'_>) -> Result<(), FormError> {
    let Place { region, origin, guard, depth, .. } = place;
    flat.requires.extend(from.requires.iter().map(|r| (guard, r.clone())));
    for &id in &from.order {
        let node = &from.nodes[id];
        let inputs = node
            .inputs
            .iter()
            .map(|&v| lookup(values, v, node.op.name()))
            .collect::<Result<Vec<ValueId>, FormError>>()?;
        let origin = origin.unwrap_or(node.origin);
        if let Op::Composite(composite) = &node.op {
            if depth >= MAX_DEPTH {
                return Err(FormError::TooDeep { limit: MAX_DEPTH });
            }
            let body = &composite.body;
            let malformed = |what: &str| FormError::Malformed {
                place: format!("composite {:?}", composite.kind),
                what: what.to_owned(),
            };
            let known = body.symbols.iter().zip(flat.graph.symbols.iter()).all(|(a, b)| a.name == b.name);
            if !known || body.symbols.len() > flat.graph.symbols.len() {
                return Err(malformed("its body has other symbols than the graph"));
            }
            if body.inputs.len() != inputs.len() || body.outputs.len() != node.outputs.len() {
                return Err(malformed("its body has another number of inputs or outputs"));
            }
            let inner =
                region.or_else(|| is_one_kernel(flat, composite, origin, place.options).then(|| new_region(flat)));
            let mut inside: Vec<Option<ValueId>> = vec![None; body.values.len()];
            for (port, &input) in body.inputs.iter().zip(&inputs) {
                inside[port.value.index()] = Some(input);
            }
            let place = Place { region: inner, origin: Some(origin), depth: depth + 1, ..place };
            copy(flat, body, &mut inside, place)?;
            for (port, &output) in body.outputs.iter().zip(&node.outputs) {
                let value = lookup(&inside, port.value, &port.name)?;
                values[output.index()] = Some(value);
                if let (Some(region), None) = (inner, region) {
                    flat.regions[region].outputs.push(value);
                }
            }
            continue;
        }
        if let Op::If(branches) = &node.op {
            if depth >= MAX_DEPTH {
                return Err(FormError::TooDeep { limit: MAX_DEPTH });
            }
            let merged = both(flat, from, node, branches, &inputs, Place { depth: depth + 1, ..place })?;
            for (&old, new) in node.outputs.iter().zip(merged) {
                values[old.index()] = Some(new);
            }
            continue;
        }
        let types = node.outputs.iter().map(|&o| from.ty(o).clone()).collect();
        let (mut op, mut inputs) = (node.op.clone(), inputs);
        if let Op::Recurrence(recurrence) = &mut op {
            if depth >= MAX_DEPTH {
                return Err(FormError::TooDeep { limit: MAX_DEPTH });
            }
            recurrence.body = Arc::new(expand_body(flat, &recurrence.body, &mut inputs, place)?);
        }
        let new = flat.graph.nodes.next_id();
        let outputs = flat.graph.add_node(op, &inputs, types, origin);
        for (&old, new) in node.outputs.iter().zip(outputs) {
            values[old.index()] = Some(new);
        }
        let region = region.filter(|_| !matches!(node.op, Op::Constant(_) | Op::DimValue(_)));
        flat.set_region(new, region);
        flat.set_guard(new, guard);
        if let Some(region) = region {
            flat.regions[region].nodes.push(new);
        }
    }
    Ok(())
}

/// True if a result of an `if` is what a host operation makes of that of the branch: it has another size in each, or is of
/// a type that no kernel copies.
pub(super) fn is_merged_on_host(branches: &IfOp, output: usize, dtype: DType) -> bool {
    branches.produces.iter().any(|p| p.output as usize == output) || !is_computable(dtype)
}

/// Both branches of an `if`, and the values that are the results of the one that is computed.
fn both(
    flat: &mut Flat,
    from: &Graph,
    node: &Node,
    branches: &IfOp,
    inputs: &[ValueId],
    mut place: Place<'_>,
) -> Result<Vec<ValueId>, FormError> {
    let malformed = |what: &str| FormError::Malformed { place: "an if".to_owned(), what: what.to_owned() };
    // Only the branch that is taken tells the sizes.
    place.speculate &= !node.outputs.iter().enumerate().any(|(n, &o)| is_merged_on_host(branches, n, from.ty(o).dtype));
    let (&condition, captured) = inputs.split_first().ok_or_else(|| malformed("it has no condition"))?;
    let origin = place.origin.unwrap_or(node.origin);
    let mut taken = Vec::new();
    for (graph, holds) in [(&branches.then, true), (&branches.otherwise, false)] {
        if graph.inputs.len() != captured.len() || graph.outputs.len() != node.outputs.len() {
            return Err(malformed("a branch has another number of inputs or outputs"));
        }
        let mut place = place;
        if !place.speculate {
            flat.guards.push(Guard { condition, holds, parent: place.guard });
            place.guard = Some(flat.guards.len() - 1);
        }
        // Origins are those of the branch's own table.
        let first = flat.graph.origins.len();
        let own = place.origin.is_none();
        let mut graph = graph.as_ref().clone();
        if own {
            for names in graph.origins.iter() {
                flat.graph.origins.push(names.clone());
            }
            for id in graph.nodes.ids() {
                let origin = &mut graph.nodes[id].origin;
                *origin = OriginId::from_index(first + origin.index());
            }
        }
        let mut inside: Vec<Option<ValueId>> = vec![None; graph.values.len()];
        for (port, &input) in graph.inputs.iter().zip(captured) {
            inside[port.value.index()] = Some(input);
        }
        copy(flat, &graph, &mut inside, place)?;
        let values =
            graph.outputs.iter().map(|port| lookup(&inside, port.value, &port.name)).collect::<Result<_, _>>()?;
        taken.push(Taken { values, guard: place.guard });
    }
    let types: Vec<TensorType> = node.outputs.iter().map(|&o| from.ty(o).clone()).collect();
    let joint = Joint { condition, types: &types, produces: &branches.produces, guard: place.guard, origin };
    tell_sizes(flat, &joint, &taken);
    let results: Vec<ValueId> = taken.iter().flat_map(|branch| copies(flat, &joint, branch)).collect();
    if !place.speculate {
        // Kernels write what they copy where it belongs; sizes of all else are told here.
        let is_told_here = |p: &&Produced| !is_computable(types[p.output as usize].dtype);
        let produces = branches.produces.iter().filter(is_told_here).copied().collect();
        return Ok(joint.choose(flat, &results, types.clone(), produces));
    }
    let (first, second) = results.split_at(types.len());
    let mut chosen = Vec::new();
    for ((ty, &a), &b) in types.into_iter().zip(first).zip(second) {
        let map = AccessMap { rank: ty.shape.len(), index: Vec::new(), valid: Vec::new() };
        let bools = TensorType::new(DType::Bool, ty.shape.clone());
        let view = movement::view(map, &ty.shape, Const::zero(DType::Bool));
        let condition = flat.graph.add(view, &[condition], bools, origin);
        let mut body = Body::default();
        let (holds, x, y) = (body.param(0, DType::Bool), body.param(1, ty.dtype), body.param(2, ty.dtype));
        let results = vec![body.select(holds, x, y)];
        chosen.push(flat.graph.add(Op::Map(MapOp { body, results }), &[condition, a, b], ty, origin));
    }
    Ok(chosen)
}

/// The body of a recurrence without composites. Its constants become constants of the graph around it, which are its
/// last inputs; those of one value stay.
fn expand_body(flat: &mut Flat, body: &Graph, inputs: &mut Vec<ValueId>, place: Place<'_>) -> Result<Graph, FormError> {
    let expanded = expand(body, true, place.options)?;
    flat.requires.extend(expanded.requires.into_iter().map(|(_, r)| (place.guard, r)));
    let mut inner = expanded.graph;
    for id in std::mem::take(&mut inner.order) {
        let node = &inner.nodes[id];
        match &node.op {
            Op::Constant(constant) if constant_splat(&constant.tensor).is_none() => {
                let (constant, value) = (node.op.clone(), node.outputs[0]);
                let ty = inner.ty(value).clone();
                let origin = flat.graph.origins.push(Vec::new());
                inputs.push(flat.graph.add(constant, &[], ty, origin));
                let n = u32::try_from(inner.inputs.len()).unwrap_or(u32::MAX);
                inner.values[value].definition = Definition::Input(n);
                inner.inputs.push(Port::new(&format!("constant{n}"), value));
            }
            Op::Recurrence(_) | Op::Host(_) => {
                let what = format!("a {} inside of it cannot be part of one kernel", node.op.name());
                return Err(FormError::Malformed { place: "the body of a recurrence".to_owned(), what });
            }
            _ => inner.order.push(id),
        }
    }
    Ok(inner)
}

/// Whether a composite is one kernel. Attention may be ([`attends`]), and is if it has rows enough to share what they read:
/// blocks of scores stay in cache then. Of an unknown size it is no choice: what is quicker for short sequences would keep all scores of
/// long ones in memory.
fn is_one_kernel(flat: &mut Flat, composite: &CompositeOp, origin: OriginId, options: &FormOptions) -> bool {
    if composite.kind != CompositeKind::Attention {
        return true;
    }
    let estimated = if has_rows(composite) { Way::Together } else { Way::Apart };
    if !attends(composite, options) {
        return false;
    }
    let question = || format!("attention\n{}", composite.body);
    let ways = if is_known(composite) { &[Way::Together, Way::Apart][..] } else { &[estimated] };
    let answered = flat.choices.answer(question, ways, estimated, &flat.graph.origins[origin]);
    answered.unwrap_or(estimated) == Way::Together
}

/// Whether attention has rows enough to be one kernel.
fn has_rows(composite: &CompositeOp) -> bool {
    let body = &composite.body;
    let mut contractions = body.order.iter().filter_map(|&id| match &body.nodes[id].op {
        Op::Contract(op) => Some((op, &body.ty(body.nodes[id].inputs[0]).shape)),
        _ => None,
    });
    // A sequence of unknown length is mostly long.
    contractions.all(|(op, shape): (&ContractOp, &Vec<Dim>)| {
        let free = op.lhs.iter().zip(shape).filter(|(label, _)| !op.rhs.contains(label));
        let rows: Option<i64> = free.map(|(_, extent)| extent.as_const()).product();
        rows.is_none_or(|rows| rows >= MIN_ROWS)
    })
}

/// Whether attention may be one kernel. Its sums are divided late ([`crate::formulate::defer`]) then, in another order than it
/// says, and scores are kept.
fn attends(composite: &CompositeOp, options: &FormOptions) -> bool {
    let fits = is_known(composite) || options.keeps_any_size || options.attends_any_size;
    options.allowed >= ErrorClass::Reassociating && fits
}

/// Whether all sizes in a composite are known.
fn is_known(composite: &CompositeOp) -> bool {
    let body = &composite.body;
    let mut values = body.order.iter().flat_map(|&id| &body.nodes[id].outputs);
    values.all(|&value| body.ty(value).static_shape().is_some())
}

fn new_region(flat: &mut Flat) -> usize {
    flat.regions.push(Region { nodes: Vec::new(), outputs: Vec::new() });
    flat.regions.len() - 1
}
