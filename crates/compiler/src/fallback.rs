//! What of a model runs on the host library instead of as kernels: said aloud, and refused under `deny_fallback`.

use crate::{CompileError, CompileOptions, HostNode};
use infc_passes::form::GraphPlan;

/// The ONNX nodes of a plan that no kernel computes, in the order in which they run.
pub(crate) fn on_host(plan: &GraphPlan) -> Vec<HostNode> {
    let nodes = plan.hosts.iter().flat_map(|host| {
        host.origins.iter().map(|node| HostNode {
            node: node.clone(),
            op_type: host.op.op_type.clone(),
            reason: host.op.reason.clone(),
        })
    });
    nodes.collect()
}

/// Refuses what the options do not want.
pub(crate) fn check(on_host: &[HostNode], nodes: usize, options: &CompileOptions) -> Result<(), CompileError> {
    if options.deny_fallback && !on_host.is_empty() {
        let on_host = on_host.iter().map(|host| format!("{} ({}: {})", host.node, host.op_type, host.reason)).collect();
        return Err(CompileError::Fallback { nodes, on_host });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_on_the_host_is_refused_only_on_demand() {
        let host = |node: &str| HostNode {
            node: node.to_owned(),
            op_type: "Unique".to_owned(),
            reason: "it sorts".to_owned(),
        };
        let nodes = [host("/a"), host("/b")];
        let deny = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
        assert!(check(&nodes, 7, &CompileOptions::default()).is_ok() && check(&[], 7, &deny).is_ok());
        let error = check(&nodes, 7, &deny).expect_err("two nodes on the host");
        assert_eq!(error.code(), "compile::fallback");
        assert_eq!(
            error.to_string(),
            "2 of 7 nodes would run on the host: /a (Unique: it sorts), /b (Unique: it sorts)"
        );
    }
}
