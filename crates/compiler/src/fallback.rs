//! What of a model runs on the host library instead of as kernels: said aloud, and refused under `deny_fallback`.

use crate::bodies;
use crate::{CompileError, CompileOptions, CustomOps, HostNode, Steps};
use infc_ir::op::{HostBody, HostOp};
use infc_passes::form::GraphPlan;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The ONNX nodes of a plan that no kernel computes, and those for which sizes are read, in the order in which they run.
pub(crate) fn on_host(
    plan: &GraphPlan,
    bodies: &[Arc<HostBody>],
    custom_ops: &CustomOps,
) -> (Vec<HostNode>, Vec<HostNode>) {
    let (mut computed, mut told) = (Vec::new(), Vec::new());
    for host in &plan.hosts {
        let nodes = if plan.tells_sizes(host) { &mut told } else { &mut computed };
        for node in &host.origins {
            let op_type = host.op.innermost_operator();
            // One node may be several operations: what takes its values out of sequences, and what evaluates it.
            let is_part = matches!(&*host.op.op_type, "SequenceConstruct" | "SequenceMap" | "SequenceAt");
            let same = |known: &&mut HostNode| is_part && known.node == *node && known.reason == host.op.reason;
            if let Some(known) = nodes.iter_mut().find(same) {
                if op_type != host.op.op_type {
                    op_type.clone_into(&mut known.op_type);
                }
                continue;
            }
            nodes.push(HostNode {
                node: node.clone(),
                op_type: op_type.to_owned(),
                reason: host.op.reason.clone(),
                custom: custom_name(&host.op, custom_ops),
                steps: bodies::body_of(bodies, &host.op).map(|n| Steps::of(&bodies[n])),
            });
        }
    }
    (computed, told)
}

/// The name of a custom operator, as the runtime wants it; `None` for all others.
fn custom_name(op: &HostOp, custom_ops: &CustomOps) -> Option<String> {
    let is_custom = custom_ops.declares(&op.op_type, &op.domain, op.opset);
    is_custom.then(|| format!("{}::{}@{}", op.domain, op.op_type, op.opset))
}

/// The custom operators that a run of a plan needs, each once, sorted.
pub(crate) fn needed_custom_ops(on_host: &[HostNode]) -> BTreeSet<&str> {
    on_host.iter().filter_map(|host| host.custom.as_deref()).collect()
}

/// Refuses what the options do not want.
pub(crate) fn check(on_host: &[HostNode], nodes: usize, options: &CompileOptions) -> Result<(), CompileError> {
    let fallback: Vec<&HostNode> =
        on_host.iter().filter(|host| host.custom.is_none() && host.steps != Some(Steps::Compiled)).collect();
    if options.deny_fallback && !fallback.is_empty() {
        let on_host =
            fallback.iter().map(|host| format!("{} ({}: {})", host.node, host.op_type, host.reason)).collect();
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
            custom: None,
            steps: None,
        };
        let nodes = [host("/a"), host("/b")];
        let deny = CompileOptions { deny_fallback: true, ..CompileOptions::default() };
        assert!(check(&nodes, 7, &CompileOptions::default()).is_ok() && check(&[], 7, &deny).is_ok());
        let custom = HostNode { custom: Some("my::Op@1".to_owned()), ..host("/c") };
        assert!(check(std::slice::from_ref(&custom), 7, &deny).is_ok());
        assert_eq!(needed_custom_ops(&[custom.clone(), host("/a"), custom]), BTreeSet::from(["my::Op@1"]));
        let error = check(&nodes, 7, &deny).expect_err("two nodes on the host");
        assert_eq!(error.code(), "compile::fallback");
        assert_eq!(
            error.to_string(),
            "2 of 7 nodes would run on the host: /a (Unique: it sorts), /b (Unique: it sorts)"
        );
    }
}
