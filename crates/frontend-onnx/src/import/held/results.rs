//! What nodes give that hold graphs and are evaluated by the host: what the graphs declare, or what comes of their nodes.

use super::super::Importer;
use super::is_value;
use crate::build::Result as Built;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_tensor::{DType, Subgraphs};
use std::rc::Rc;

impl<'m> Importer<'m, '_> {
    /// What the graph that a node holds declares of its outputs; where it says nothing, what comes of its nodes.
    pub(super) fn results_of_body(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: &[Option<Tracked>],
    ) -> Vec<Option<Element>> {
        let body = node.attribute.iter().find(|a| a.name() == "body").and_then(|a| a.g.as_ref());
        let Some(body) = body else { return Vec::new() };
        let mut results: Vec<Option<Element>> = body.output.iter().map(Element::of_declaration).collect();
        let is_open = |result: &Option<Element>| result.as_ref().is_none_or(|of| of.shape.is_none());
        // Graphs within graphs that are thrown away would take ever longer.
        if !results.iter().any(is_open) || self.scopes.build().is_trial {
            return results;
        }
        let Some(given) = given_to_body(node, node_ref, inputs).filter(|given| given.len() == body.input.len()) else {
            return results;
        };
        let asked = self.assumptions.asked();
        self.scopes.begin_trial();
        self.scopes.enter(body);
        let found = self.tried_body(body, &given);
        self.scopes.leave();
        self.scopes.end_trial();
        if self.assumptions.asked() != asked {
            // Which branch is taken decides what comes of it.
            self.assumptions.return_to(asked);
            return results;
        }
        let open = results.iter_mut().zip(found.ok().into_iter().flatten()).filter(|(known, _)| is_open(known));
        open.for_each(|(known, found)| *known = Some(found));
        results
    }

    /// What a graph that has been entered gives for inputs of these types.
    fn tried_body(&mut self, body: &'m GraphProto, given: &[Element]) -> Result<Vec<Element>, ImportError> {
        for (input, of) in body.input.iter().zip(given) {
            let stand_in = self.scopes.build().stand_in(input.name(), of).map_err(ImportError::value(input.name()))?;
            self.scopes.define(input.name(), stand_in);
        }
        Ok(self.block(body)?.iter().map(Element::of_value).collect())
    }
}

/// Says in the graph of a node of what type its outputs are, which is asked for where a loop takes no step.
pub(super) fn tell_results(held: &mut Subgraphs, results: &[Option<Element>]) {
    let root = held.roots.iter().find(|(name, _)| name == "body").map(|&(_, graph)| graph as usize);
    let Some(graph) = root.and_then(|root| held.graphs.get_mut(root)) else { return };
    for (output, of) in graph.outputs.iter_mut().zip(results) {
        if let Some(of) = of {
            let shape = of.shape.clone().unwrap_or_default();
            output.dtype = of.dtype;
            output.shape = shape.iter().map(|extent| extent.unwrap_or(0) as u64).collect();
        }
    }
}

/// The types of what the graph of a node is given for these inputs; `None` if not all have a value.
fn given_to_body(node: &NodeProto, node_ref: &NodeRef, inputs: &[Option<Tracked>]) -> Option<Vec<Element>> {
    // Extents may be others in each step.
    fn of_any_extent(of: Element) -> Element {
        let within = of.of.map(|of| Rc::new(of_any_extent((*of).clone())));
        Element { shape: of.shape.map(|shape| vec![None; shape.len()]), of: within, ..of }
    }
    let of = |input: &Option<Tracked>| Some(of_any_extent(Element::of_value(input.as_ref()?)));
    let without_axes = |dtype| Element { dtype, shape: Some(Vec::new()), of: None };
    let of_slice = |input: &Option<Tracked>| {
        let of = of(input)?;
        Some(Element { shape: of.shape.map(|shape| vec![None; shape.len().saturating_sub(1)]), ..of })
    };
    match node.op_type() {
        "Loop" => {
            let counted = [without_axes(DType::I64), without_axes(DType::Bool)].map(Some);
            counted.into_iter().chain(inputs.get(2..)?.iter().map(of)).collect()
        }
        // Before opset 9 there was a batch.
        "Scan" if node_ref.opset >= 9 => {
            let states = inputs.len().checked_sub(scanned(node))?;
            let (states, slices) = inputs.split_at(states);
            states.iter().map(of).chain(slices.iter().map(of_slice)).collect()
        }
        "SequenceMap" => {
            let of_each = |input: &Option<Tracked>| match input {
                Some(input) if input.dtype() == DType::Sequence && !input.is_unranked() => {
                    input.element().map(|element| of_any_extent((**element).clone()))
                }
                input => of(input),
            };
            inputs.iter().map(of_each).collect()
        }
        _ => None,
    }
}

/// How many inputs of a `Scan` are scanned.
fn scanned(node: &NodeProto) -> usize {
    let scanned = node.attribute.iter().find(|a| a.name() == "num_scan_inputs").map_or(0, |a| a.i());
    usize::try_from(scanned).unwrap_or(0)
}

/// What is known of the outputs from the inputs, and from what the graph of the node gives; `None` if that is too little.
pub(super) fn output_types(
    node: &NodeProto,
    inputs: &[Option<Tracked>],
    results: Vec<Option<Element>>,
) -> Built<Option<Vec<Element>>> {
    Ok(match node.op_type() {
        "Loop" => {
            let states = inputs.get(2..).unwrap_or_default();
            if results.len() <= states.len() {
                return Ok(None);
            }
            let mut types = Vec::with_capacity(results.len());
            for (n, result) in results.into_iter().skip(1).enumerate() {
                types.push(match (states.get(n), result) {
                    (Some(Some(state)), Some(result)) => state_of(&Element::of_value(state), &result)?,
                    (Some(Some(state)), None) if state.is_unranked() => Element::of_value(state),
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
            let Some(states) = inputs.len().checked_sub(scanned(node)) else { return Ok(None) };
            let mut types = Vec::with_capacity(results.len());
            for (n, result) in results.into_iter().enumerate() {
                let Some(result) = result else { return Ok(None) };
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
            results.into_iter().map(|result| result.map(sequence)).collect()
        }
        _ => None,
    })
}

/// A state: of the rank of its first value, if each step keeps that, and of the extents that the model declares to stay as they
/// are, since each step may give it others. An empty sequence says little about the values that it will hold.
fn state_of(first: &Element, result: &Element) -> Built<Element> {
    if first.of.as_ref().is_some_and(|value| first.dtype == DType::Optional && value.dtype == result.dtype) {
        // What may be missing at first is there after a step.
        return Ok(Element { shape: result.shape.as_ref().map(|shape| vec![None; shape.len()]), ..result.clone() });
    }
    if first.dtype != result.dtype {
        return Err(Problem::TypeMismatch { left: first.dtype, right: result.dtype });
    }
    let is_empty = first.shape.as_deref() == Some(&[Some(0)]);
    let of = match (&first.of, &result.of) {
        (Some(first), Some(result)) if !is_empty => Some(Rc::new(first.join(result)?)),
        (first, result) => result.clone().or_else(|| first.clone()),
    };
    let shape = match (&first.shape, &result.shape) {
        (Some(first), Some(result)) if first.len() == result.len() => {
            Some(first.iter().zip(result).map(|(a, b)| a.filter(|_| a == b)).collect())
        }
        (Some(first), None) => Some(vec![None; first.len()]),
        // Steps give it another number of axes, of which nobody knows how often.
        (Some(_), Some(_)) | (None, _) => None,
    };
    Ok(Element { dtype: first.dtype, shape, of })
}

/// What steps give, along a new first axis.
fn stacked(part: Element) -> Element {
    let shape = part.shape.map(|shape| [vec![None], shape].concat());
    Element { shape, ..part }
}
