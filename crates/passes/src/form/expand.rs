//! Composites written out: a flat graph of core operations that remembers which of them belong together.

use super::FormError;
use super::body::constant_splat;
use infc_ir::entity::{EntityId, NodeId, OriginId, ValueId};
use infc_ir::graph::{Definition, Graph, Port};
use infc_ir::op::{CompositeKind, Op};
use std::sync::Arc;

/// Composites inside composites inside …: deeper than this is not a model.
const MAX_DEPTH: usize = 16;

/// Nodes that came from one composite and are computed by one kernel.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// In order, without constants.
    pub(super) nodes: Vec<NodeId>,
    /// What the composite gave to the outside.
    pub(super) outputs: Vec<ValueId>,
}

/// A graph without composites.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    pub(super) graph: Graph,
    pub(super) regions: Vec<Region>,
    /// Per node, the region it belongs to.
    pub(super) region_of: Vec<Option<usize>>,
}

impl Flat {
    /// A graph that has no composites.
    pub(super) fn of(graph: Graph) -> Self {
        Self { graph, regions: Vec::new(), region_of: Vec::new() }
    }

    /// The region of a node; nodes made later belong to none.
    pub(super) fn region(&self, node: NodeId) -> Option<usize> {
        self.region_of.get(node.index()).copied().flatten()
    }
}

/// Replaces every composite by its body.
pub(super) fn expand(graph: &Graph) -> Result<Flat, FormError> {
    let mut flat = Flat {
        graph: Graph {
            name: graph.name.clone(),
            symbols: graph.symbols.clone(),
            origins: graph.origins.clone(),
            sources: graph.sources.clone(),
            assumptions: graph.assumptions.clone(),
            ..Graph::default()
        },
        regions: Vec::new(),
        region_of: Vec::new(),
    };
    let mut values: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    for port in &graph.inputs {
        values[port.value.index()] = Some(flat.graph.add_input(&port.name, graph.ty(port.value).clone()));
    }
    copy(&mut flat, graph, &mut values, None, None, 0)?;
    for port in &graph.outputs {
        let value = lookup(&values, port.value, &port.name)?;
        flat.graph.outputs.push(infc_ir::graph::Port { name: port.name.clone(), value });
    }
    Ok(flat)
}

fn lookup(values: &[Option<ValueId>], value: ValueId, place: &str) -> Result<ValueId, FormError> {
    values.get(value.index()).copied().flatten().ok_or_else(|| FormError::Malformed {
        place: place.to_owned(),
        what: format!("{value} is read before it is defined"),
    })
}

/// Copies the nodes of `from` in order. Inside a composite they keep the origin of the composite.
fn copy(
    flat: &mut Flat,
    from: &Graph,
    values: &mut [Option<ValueId>],
    region: Option<usize>,
    origin: Option<OriginId>,
    depth: usize,
) -> Result<(), FormError> {
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
            let inner = region.or_else(|| stays_together(composite.kind).then(|| new_region(flat)));
            let mut inside: Vec<Option<ValueId>> = vec![None; body.values.len()];
            for (port, &input) in body.inputs.iter().zip(&inputs) {
                inside[port.value.index()] = Some(input);
            }
            copy(flat, body, &mut inside, inner, Some(origin), depth + 1)?;
            for (port, &output) in body.outputs.iter().zip(&node.outputs) {
                let value = lookup(&inside, port.value, &port.name)?;
                values[output.index()] = Some(value);
                if let (Some(region), None) = (inner, region) {
                    flat.regions[region].outputs.push(value);
                }
            }
            continue;
        }
        let types = node.outputs.iter().map(|&o| from.ty(o).clone()).collect();
        let (mut op, mut inputs) = (node.op.clone(), inputs);
        if let Op::Recurrence(recurrence) = &mut op {
            if depth >= MAX_DEPTH {
                return Err(FormError::TooDeep { limit: MAX_DEPTH });
            }
            recurrence.body = Arc::new(expand_body(flat, &recurrence.body, &mut inputs)?);
        }
        let new = flat.graph.nodes.next_id();
        let outputs = flat.graph.add_node(op, &inputs, types, origin);
        for (&old, new) in node.outputs.iter().zip(outputs) {
            values[old.index()] = Some(new);
        }
        let region = region.filter(|_| !matches!(node.op, Op::Constant(_) | Op::DimValue(_)));
        flat.region_of.push(region);
        if let Some(region) = region {
            flat.regions[region].nodes.push(new);
        }
    }
    Ok(())
}

/// The body of a recurrence without composites. Its constants become constants of the graph around it, which are its
/// last inputs; those of one value stay.
fn expand_body(flat: &mut Flat, body: &Graph, inputs: &mut Vec<ValueId>) -> Result<Graph, FormError> {
    let mut inner = expand(body)?.graph;
    for id in std::mem::take(&mut inner.order) {
        let node = &inner.nodes[id];
        match &node.op {
            Op::Constant(constant) if constant_splat(&constant.tensor).is_none() => {
                let (constant, value) = (node.op.clone(), node.outputs[0]);
                let ty = inner.ty(value).clone();
                let origin = flat.graph.origins.push(Vec::new());
                inputs.push(flat.graph.add(constant, &[], ty, origin));
                flat.region_of.push(None);
                let n = u32::try_from(inner.inputs.len()).unwrap_or(u32::MAX);
                inner.values[value].definition = Definition::Input(n);
                inner.inputs.push(Port { name: format!("constant{n}"), value });
            }
            Op::Recurrence(_) => {
                let what = "a recurrence inside of a recurrence cannot be one kernel".to_owned();
                return Err(FormError::Malformed { place: "the body of a recurrence".to_owned(), what });
            }
            _ => inner.order.push(id),
        }
    }
    Ok(inner)
}

/// Attention has contractions of its own, each of which deserves a kernel; all others are one kernel.
fn stays_together(kind: CompositeKind) -> bool {
    kind != CompositeKind::Attention
}

fn new_region(flat: &mut Flat) -> usize {
    flat.regions.push(Region { nodes: Vec::new(), outputs: Vec::new() });
    flat.regions.len() - 1
}
