//! The one branch of an `If` that makes sense, where the other does not.
//!
//! What a model gives the run to decide may be decided by the shapes that it is compiled for: the branch of another
//! sampling rate does not fit frames of this length. Such a branch is no reason to refuse the model. That it is not taken
//! becomes a requirement, which the artifact checks when it runs.

use super::super::Importer;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use infc_ir::graph::Requirement;
use infc_ir::index::Dim;
use infc_tensor::DType;

/// True if a graph cannot be run by anybody, as its shapes are; not if it is infc that cannot compile it.
fn makes_no_sense(error: &ImportError) -> bool {
    matches!(
        error,
        ImportError::Node { problem: Problem::ShapeMismatch { .. }, .. }
            | ImportError::Value { problem: Problem::ShapeMismatch { .. }, .. }
    )
}

impl<'m> Importer<'m, '_> {
    /// The outputs of the one branch that makes sense, required to be taken. `error` says what is wrong with both
    /// together.
    pub(super) fn possible(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        condition: &Tracked,
        [then, otherwise]: [&'m GraphProto; 2],
        error: ImportError,
    ) -> Result<Vec<Tracked>, ImportError> {
        // What an attempt has learned may help the branch that fails.
        if self.demand.has_grown() {
            return Err(error);
        }
        let taken = match (self.graph_of(then, None), self.graph_of(otherwise, None)) {
            (Ok(_), Err(other)) if makes_no_sense(&other) => true,
            (Err(other), Ok(_)) if makes_no_sense(&other) => false,
            _ => return Err(error),
        };
        // Where the condition can be traced to an input, the import begins anew with its number.
        if self.demand.has_grown() || node.input.first().is_some_and(|name| self.want(name)) {
            return Err(error);
        }
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let build = self.scopes.build();
        build.set_origin(&node_ref.name);
        let truth = match condition.dims().and_then(|dims| dims.first().cloned()) {
            Some(truth) => truth,
            None if build.may_use_host => {
                let number = build.reshape(condition, &[]).and_then(|number| build.cast(&number, DType::I64));
                let number = number.map_err(in_node)?;
                host::counted(build, &number, "which branch is taken depends on what is computed").map_err(in_node)?
            }
            None => return Err(error),
        };
        build.graph.require(Requirement {
            left: truth,
            right: Dim::constant(i64::from(taken)),
            equal: true,
            what: format!("the condition of `{}` and the only one under which its shapes fit", node_ref.name),
        });
        self.in_place(if taken { then } else { otherwise })
    }
}
