//! Nodes that hold graphs and are evaluated by their definitions: because their values are sequences or optionals, or
//! because what they do depends on data in a way that no kernel does.

use super::Importer;
use crate::build::Result as Built;
use crate::call::Call;
use crate::check;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::proto::{GraphProto, NodeProto};
use crate::subgraphs::node_graphs;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_tensor::{DType, DTypeClass};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

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
        let on_host = self.held(node, node_ref, inputs, "its values are sequences")?;
        on_host.ok_or_else(|| {
            let found = "operators without a definition".to_owned();
            let problem =
                Problem::UnsupportedAttribute { attribute: "body", expected: "operators that are defined", found };
            ImportError::Node { node: Box::new(node_ref.clone()), problem }
        })
    }

    /// The outputs of a node that holds graphs and that the host evaluates; `None` if it cannot.
    pub(super) fn held(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        mut inputs: Vec<Option<Tracked>>,
        reason: &str,
    ) -> Result<Option<Vec<Tracked>>, ImportError> {
        if !self.scopes.build().may_use_host || !host::defines(&node_ref.op_type, &node_ref.domain, node_ref.opset) {
            return Ok(None);
        }
        let Some((attributes, held)) = node_graphs(self.model, node)? else { return Ok(None) };
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let mut captured: HashMap<&str, Tracked> = HashMap::new();
        let Some(types) = output_types(node, &inputs).map_err(in_node)? else { return Ok(None) };
        // Behind the inputs that the operator has. The names are those of the model, which outlives the scopes.
        for name in check::reads(node) {
            if held.captures.iter().any(|captured| captured == name) {
                captured.insert(name, self.scopes.value(name)?.ok_or_else(|| super::dangling(name))?);
            }
        }
        let is_unranked = inputs.iter().flatten().chain(captured.values()).any(Tracked::is_unranked);
        if is_unranked || types.iter().any(|of| of.shape.is_none()) {
            return self.held_of_any_rank(node, node_ref, inputs, (attributes, held), &types).map(Some);
        }
        inputs.extend(held.captures.iter().map(|name| captured.get(name.as_str()).cloned()));
        let build = self.scopes.build();
        let mut call = Call { node, opset: node_ref.opset, inputs, build, wanted: Cell::default() };
        let outputs = host::import_holder(&mut call, node_ref, (attributes, held), &types, reason);
        outputs.map(Some).map_err(in_node)
    }
}

/// What is known of the outputs from the inputs, and from what the graphs declare of theirs; `None` if that is too little.
fn output_types(node: &NodeProto, inputs: &[Option<Tracked>]) -> Built<Option<Vec<Element>>> {
    let graph = |name: &str| node.attribute.iter().find(|a| a.name() == name).and_then(|a| a.g.as_ref());
    let declared = |graph: &GraphProto, skipped: usize| -> Option<Vec<Element>> {
        let outputs = graph.output.get(skipped..)?;
        outputs.iter().map(|output| Element::declared(output.r#type.as_ref()?)).collect()
    };
    Ok(match node.op_type() {
        "Loop" => {
            let states = inputs.get(2..).unwrap_or_default();
            let Some(results) = graph("body").and_then(|body| body.output.get(1..)) else { return Ok(None) };
            if results.len() < states.len() {
                return Ok(None);
            }
            let mut types = Vec::with_capacity(results.len());
            for (n, result) in results.iter().enumerate() {
                let result = result.r#type.as_ref().and_then(Element::declared);
                types.push(match (states.get(n), result) {
                    (Some(Some(state)), Some(result)) => state_of(&Element::of_value(state), &result)?,
                    // A state that is a tensor keeps its type, if not its extents.
                    (Some(Some(state)), None) if !is_value(state.dtype()) => {
                        Element { dtype: state.dtype(), shape: Some(vec![None; state.rank()]), of: None }
                    }
                    (None, Some(result)) => stacked(result),
                    _ => return Ok(None),
                });
            }
            Some(types)
        }
        // Of one step; what steps give is stacked along any axis.
        "Scan" => {
            let scanned = node.attribute.iter().find(|a| a.name() == "num_scan_inputs").map_or(0, |a| a.i());
            let states = usize::try_from(scanned).ok().and_then(|scanned| inputs.len().checked_sub(scanned));
            let Some((states, results)) = states.zip(graph("body").and_then(|body| declared(body, 0))) else {
                return Ok(None);
            };
            let mut types = Vec::with_capacity(results.len());
            for (n, result) in results.into_iter().enumerate() {
                types.push(match inputs.get(n).filter(|_| n < states) {
                    Some(Some(state)) => state_of(&Element::of_value(state), &result)?,
                    Some(None) => return Ok(None),
                    None => {
                        let stacked = stacked(result);
                        Element { shape: stacked.shape.map(|shape| vec![None; shape.len()]), ..stacked }
                    }
                });
            }
            Some(types)
        }
        "SequenceMap" => {
            let len = inputs.first().and_then(Option::as_ref).and_then(|x| x.shape().first().and_then(Dim::as_const));
            let sequence =
                |element| Element { dtype: DType::Sequence, shape: Some(vec![len]), of: Some(Rc::new(element)) };
            let results = graph("body").and_then(|body| declared(body, 0));
            results.map(|results| results.into_iter().map(sequence).collect())
        }
        _ => {
            let both = graph("then_branch").zip(graph("else_branch"));
            let both = both.and_then(|(a, b)| declared(a, 0).zip(declared(b, 0)));
            both.map(|(a, b)| a.iter().zip(&b).map(|(a, b)| a.join(b)).collect::<Built<_>>()).transpose()?
        }
    })
}

/// A state: of the rank of its first value, and of the extents that the model declares to stay as they are, since each
/// step may give it others. An empty sequence says little about the values that it will hold.
fn state_of(first: &Element, result: &Element) -> Built<Element> {
    if first.of.as_ref().is_some_and(|value| first.dtype == DType::Optional && value.dtype == result.dtype) {
        // What may be missing at first is there after a step.
        return Ok(Element { shape: result.shape.as_ref().map(|shape| vec![None; shape.len()]), ..result.clone() });
    }
    if first.dtype != result.dtype {
        return Err(Problem::TypeMismatch { left: first.dtype, right: result.dtype });
    }
    let of = result.of.clone().or_else(|| first.of.clone());
    let shape = match (&first.shape, &result.shape) {
        (Some(first), Some(result)) if first.len() == result.len() => {
            Some(first.iter().zip(result).map(|(a, b)| a.filter(|_| a == b)).collect())
        }
        (first, result) => first.as_ref().or(result.as_ref()).map(|shape| vec![None; shape.len()]),
    };
    Ok(Element { dtype: first.dtype, shape, of })
}

/// What steps give, along a new first axis.
fn stacked(part: Element) -> Element {
    let shape = part.shape.map(|shape| [vec![None], shape].concat());
    Element { shape, ..part }
}
