//! Common subexpression elimination: nodes with equal operations and operands become one.
//!
//! Constants are equal if type, shape and bytes are. They are hashed by a sample of their bytes, so that only
//! candidates are compared in full.

use super::rewrite::Forward;
use super::{Changed, PassContext, PassError};
use indexmap::IndexMap;
use infc_ir::entity::{NodeId, ValueId};
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use infc_tensor::Tensor;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bytes of a constant that its hash looks at, in chunks of eight.
const SAMPLES: usize = 64;

/// Merges equal nodes.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, _cx: &PassContext) -> Result<Changed, PassError> {
    let mut seen: IndexMap<u64, Vec<NodeId>> = IndexMap::new();
    let mut forward = Forward::new(graph);
    let mut changed = false;
    for node in std::mem::take(&mut graph.order) {
        forward.resolve_inputs(graph, node);
        let bucket = seen.entry(hash(graph, node)).or_default();
        if let Some(&twin) = bucket.iter().find(|&&twin| equal(graph, twin, node)) {
            let origin = graph.merge_origins(graph.nodes[twin].origin, graph.nodes[node].origin);
            graph.nodes[twin].origin = origin;
            let pairs: Vec<(ValueId, ValueId)> =
                graph.nodes[node].outputs.iter().copied().zip(graph.nodes[twin].outputs.iter().copied()).collect();
            pairs.into_iter().for_each(|(old, new)| forward.set(old, new));
            changed = true;
        } else {
            bucket.push(node);
            graph.order.push(node);
        }
    }
    forward.resolve_outputs(graph);
    Ok(changed.into())
}

fn hash(graph: &Graph, node: NodeId) -> u64 {
    let node = &graph.nodes[node];
    let mut hasher = DefaultHasher::new();
    node.op.name().hash(&mut hasher);
    node.inputs.hash(&mut hasher);
    for &output in &node.outputs {
        graph.ty(output).hash(&mut hasher);
    }
    match &node.op {
        Op::Constant(c) => sample(&c.tensor, &mut hasher),
        Op::Map(map) => (&map.body, &map.results).hash(&mut hasher),
        Op::View(view) => (&view.map, view.otherwise).hash(&mut hasher),
        Op::Reduce(reduce) => (&reduce.axes, &reduce.body, &reduce.elements, &reduce.reducer).hash(&mut hasher),
        Op::Contract(contract) => contract.hash(&mut hasher),
        Op::Gather(gather) => gather.hash(&mut hasher),
        Op::Concat(concat) => concat.hash(&mut hasher),
        Op::Scan(scan) => (scan.axis, scan.reverse, scan.exclusive, &scan.reducer).hash(&mut hasher),
        Op::Recurrence(op) => (&op.steps, op.states, op.slices).hash(&mut hasher),
        // Equality decides.
        Op::If(_) | Op::Host(_) => {}
        Op::DimValue(dim) => dim.hash(&mut hasher),
        Op::Composite(composite) => composite.kind.hash(&mut hasher),
    }
    hasher.finish()
}

fn sample(tensor: &Tensor, hasher: &mut DefaultHasher) {
    tensor.dtype().hash(hasher);
    tensor.shape().hash(hasher);
    let bytes = tensor.bytes();
    let step = (bytes.len() / SAMPLES).max(8);
    for at in (0..bytes.len()).step_by(step) {
        bytes[at..(at + 8).min(bytes.len())].hash(hasher);
    }
}

fn equal(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let (a, b) = (&graph.nodes[a], &graph.nodes[b]);
    let types = |n: &infc_ir::graph::Node| n.outputs.iter().map(|&o| graph.ty(o).clone()).collect::<Vec<_>>();
    a.inputs == b.inputs
        && match (&a.op, &b.op) {
            // Names do not matter.
            (Op::Constant(x), Op::Constant(y)) => x.tensor == y.tensor,
            // Two that make random numbers do not make the same ones.
            (Op::Host(_), Op::Host(_)) => false,
            (x, y) => x == y,
        }
        && types(a) == types(b)
}
