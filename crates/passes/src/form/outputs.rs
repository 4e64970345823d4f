//! Graph outputs that no node computes.
//!
//! An output may be an input, a constant, what a host operation makes, a view of one of these, or the same value as
//! another output. Buffers of the caller are filled by kernels, so each such output gets an identity map of its own: a
//! copy.

use super::expand::is_merged_on_host;
use infc_ir::entity::ValueId;
use infc_ir::graph::{Definition, Graph};
use infc_ir::op::{MapOp, Op};
use infc_ir::scalar::{Body, is_computable};
use std::collections::BTreeSet;

/// Puts an identity map before every output that needs one.
pub(super) fn compute_outputs(graph: &mut Graph) {
    let mut taken = BTreeSet::new();
    for n in 0..graph.outputs.len() {
        let value = graph.outputs[n].value;
        let root = root(graph, value);
        // No kernel copies strings; the runtime gives them as they are.
        if !is_computable(graph.ty(root).dtype) {
            continue;
        }
        let computed = match graph.values[root].definition {
            Definition::Input(_) => false,
            Definition::Node(node, n) => match &graph.nodes[node].op {
                Op::Constant(_) | Op::Host(_) => false,
                Op::If(branches) => !is_merged_on_host(branches, n as usize, graph.ty(root).dtype),
                _ => true,
            },
        };
        if taken.insert(root) && computed {
            continue;
        }
        let ty = graph.ty(value).clone();
        let origin = match graph.producer(value) {
            Some((_, node)) => node.origin,
            None => graph.origins.push(vec![graph.outputs[n].name.clone()]),
        };
        let mut body = Body::default();
        let results = vec![body.param(0, ty.dtype)];
        graph.outputs[n].value = graph.add(Op::Map(MapOp { body, results }), &[value], ty, origin);
    }
}

/// What a chain of views begins with.
fn root(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some((_, node)) = graph.producer(value)
        && matches!(node.op, Op::View(_))
    {
        value = node.inputs[0];
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use infc_ir::graph::{Port, TensorType};
    use infc_tensor::DType;

    #[test]
    fn inputs_and_repeated_values_are_copied() {
        let mut graph = Graph::default();
        let x = graph.add_input("x", TensorType::new(DType::F32, vec![3.into()]));
        graph.outputs = vec![Port::new("a", x), Port::new("b", x)];
        compute_outputs(&mut graph);
        let outputs: BTreeSet<ValueId> = graph.outputs.iter().map(|o| o.value).collect();
        assert_eq!(outputs.len(), 2);
        assert!(!outputs.contains(&x));
    }
}
