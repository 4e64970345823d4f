//! What of a model runs on the host library instead of as kernels: said aloud, and refused under `deny_fallback`.

use crate::{CompileError, CompileOptions};
use infc_ir::graph::Graph;
use infc_ir::op::Op;
use std::collections::BTreeSet;

/// The ONNX nodes, by name, of a planned graph that no kernel computes.
pub(crate) fn on_host(graph: &Graph) -> Vec<String> {
    let nodes = graph.order.iter().map(|&id| &graph.nodes[id]).filter(|node| stays_on_host(&node.op));
    let names: BTreeSet<&String> = nodes.flat_map(|node| &graph.origins[node.origin]).collect();
    names.into_iter().cloned().collect()
}

fn stays_on_host(op: &Op) -> bool {
    match op {
        Op::Constant(_)
        | Op::Map(_)
        | Op::View(_)
        | Op::Reduce(_)
        | Op::Contract(_)
        | Op::Gather(_)
        | Op::Concat(_)
        | Op::Scan(_)
        | Op::Recurrence(_)
        | Op::If(_)
        | Op::DimValue(_)
        | Op::Composite(_) => false,
    }
}

/// Refuses what the options do not want.
pub(crate) fn check(on_host: &[String], nodes: usize, options: &CompileOptions) -> Result<(), CompileError> {
    if options.deny_fallback && !on_host.is_empty() {
        return Err(CompileError::Fallback { nodes, on_host: on_host.to_vec() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_on_the_host_is_refused_only_on_demand() {
        let nodes = ["/Unique".to_owned(), "/Tokenize".to_owned()];
        let deny = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
        assert!(check(&nodes, 7, &CompileOptions::default()).is_ok() && check(&[], 7, &deny).is_ok());
        let error = check(&nodes, 7, &deny).expect_err("two nodes on the host");
        assert_eq!(error.code(), "compile::fallback");
        assert_eq!(error.to_string(), "2 of 7 nodes would run on the host: /Unique, /Tokenize");
    }
}
