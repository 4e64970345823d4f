//! Nodes that hold graphs and that the host evaluates or drives: because their values are sequences or optionals, or
//! because what they do depends on data in a way that no kernel does. Steps of loops are kernels all the same ([`super::body`]).

mod results;

use super::Importer;
use super::body::{Around, Compiled};
use super::unranked::names_of;
use crate::call::Call;
use crate::check;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::host::unranked::Outcome;
use crate::proto::NodeProto;
use crate::subgraphs::{captures, node_graphs};
use crate::tracked::Tracked;
use infc_tensor::{Attributes, DType, DTypeClass, Subgraphs};
use results::{output_types, tell_results};
use std::cell::Cell;

/// How a node that holds graphs may be on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// If its steps are compiled.
    Compiled,
    /// Evaluated, too.
    Any,
}

/// True for sequences, optionals and maps.
pub(super) fn is_value(dtype: DType) -> bool {
    dtype.class() == DTypeClass::Value
}

impl<'m> Importer<'m, '_> {
    /// The outputs of a `SequenceMap` node.
    pub(super) fn map_sequence(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let on_host = self.held(node, node_ref, inputs, Held::Any, "its values are sequences")?;
        on_host.ok_or_else(|| {
            let found = "operators without a definition".to_owned();
            let problem =
                Problem::UnsupportedAttribute { attribute: "body", expected: "operators that are defined", found };
            ImportError::Node { node: Box::new(node_ref.clone()), problem }
        })
    }

    /// The outputs of a node that holds graphs and that the host evaluates, or whose steps it counts; `None` if it cannot.
    pub(super) fn held(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        mut inputs: Vec<Option<Tracked>>,
        how: Held,
        reason: &str,
    ) -> Result<Option<Vec<Tracked>>, ImportError> {
        if !self.scopes.build().may_use_host || !host::defines(&node_ref.op_type, &node_ref.domain, node_ref.opset) {
            return Ok(None);
        }
        let defined = node_graphs(self.model, node)?;
        let is_defined = defined.is_some();
        // Where something has no definition, the steps have to be compiled for all that they may be given.
        let undefined = || (Attributes::new(), Subgraphs { captures: captures(node), ..Subgraphs::default() });
        let (attributes, mut held) = defined.unwrap_or_else(undefined);
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        // The names are those of the model, which outlives the scopes.
        let reads = check::reads(node);
        let mut captured: Vec<(&str, Tracked)> = Vec::with_capacity(held.captures.len());
        for name in held.captures.iter().filter_map(|captured| reads.iter().copied().find(|name| captured == name)) {
            captured.push((name, self.scopes.value(name)?.ok_or_else(|| super::dangling(name))?));
        }
        let compiled = self.compiled_steps(node, &inputs, &captured);
        let is_whole = compiled.as_ref().is_some_and(|compiled| compiled.body.is_whole());
        if (how == Held::Compiled && compiled.is_none()) || (!is_defined && !is_whole) {
            return Ok(None);
        }
        let results = match compiled.as_ref().filter(|_| is_whole) {
            Some(compiled) => compiled.results(),
            None => self.results_of_body(node, node_ref, &inputs),
        };
        tell_results(&mut held, &results);
        let Some(types) = output_types(node, &inputs, results).map_err(in_node)? else { return Ok(None) };
        let is_unranked =
            inputs.iter().flatten().chain(captured.iter().map(|(_, value)| value)).any(Tracked::is_unranked);
        if is_unranked || types.iter().any(|of| of.shape.is_none()) {
            if !is_defined {
                return Ok(None);
            }
            let mut values = names_of(node, inputs);
            for (name, value) in captured {
                if values.iter().all(|(known, _)| *known != name) {
                    values.push((name, value));
                }
            }
            let named = node.output.iter().zip(types).filter(|(name, _)| !name.is_empty());
            let outputs: Vec<Outcome> = named.map(|(_, of)| Outcome::new(of)).collect();
            return self.evaluated(node, node_ref, (attributes, held), values, &outputs).map(Some);
        }
        // Behind the inputs that the operator has.
        inputs.extend(captured.into_iter().map(|(_, value)| Some(value)));
        let build = self.scopes.build();
        let mut call = Call { node, opset: node_ref.opset, inputs, build, wanted: Cell::default() };
        let outputs = host::import_holder(
            &mut call,
            node_ref,
            (attributes, held),
            compiled.map(|compiled| compiled.body),
            &types,
            reason,
        );
        outputs.map(Some).map_err(in_node)
    }

    /// The graph of one step of a `Loop` with these inputs; `captured` is what it reads from around it, by name.
    fn compiled_steps(
        &mut self,
        node: &'m NodeProto,
        inputs: &[Option<Tracked>],
        captured: &[(&'m str, Tracked)],
    ) -> Option<Compiled> {
        let body = node.attribute.iter().find(|a| a.name() == "body").and_then(|a| a.g.as_ref());
        let body = body.filter(|_| node.op_type() == "Loop")?;
        let states = inputs.get(2..).unwrap_or_default().iter().map(Option::as_ref).collect::<Option<_>>()?;
        self.compiled_body(body, &Around { states, captured, first_captured: inputs.len() })
    }
}
