//! Dead code elimination: what no output depends on leaves the order.

use super::{Changed, PassContext, PassError};
use infc_ir::graph::{Definition, Graph};

/// Removes nodes without influence on the outputs.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, _cx: &PassContext) -> Result<Changed, PassError> {
    let mut living = vec![false; graph.nodes.len()];
    let mut work: Vec<_> = graph.outputs.iter().map(|o| o.value).collect();
    // What produces symbols may be needed for them alone, and what requires something for that.
    let nodes = graph.order.iter().map(|&id| &graph.nodes[id]);
    work.extend(nodes.filter(|node| node.op.has_influence()).flat_map(|node| node.outputs.first()));
    while let Some(value) = work.pop() {
        if let Definition::Node(node, _) = graph.values[value].definition
            && !std::mem::replace(&mut living[node.0 as usize], true)
        {
            work.extend(&graph.nodes[node].inputs);
        }
    }
    let before = graph.order.len();
    graph.order.retain(|node| living[node.0 as usize]);
    Ok((graph.order.len() != before).into())
}
