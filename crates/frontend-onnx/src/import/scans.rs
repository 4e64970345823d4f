//! `Scan`: states, and slices along any axis, from either end.
//!
//! ONNX operator `Scan` (opset 8; since 9 without a batch).

use super::Importer;
use super::counted::State;
use super::steps::{Body, Condition, MAX_WRITTEN_OUT, body_of, in_node, row, wrong_body};
use crate::build::Builder;
use crate::call::{Call, axis};
use crate::error::{ImportError, NodeRef, Problem};
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use infc_ir::index::Dim;

impl<'m> Importer<'m, '_> {
    /// The outputs of a `Scan` node.
    pub(super) fn scan(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let graph = body_of(node, node_ref)?;
        let mut inputs = inputs;
        let batched = node_ref.opset < 9;
        if batched && inputs.first().is_some_and(Option::is_some) {
            let (attribute, expected) = ("sequence_lens", "sequences of one length");
            return Err(in_node(Problem::UnsupportedAttribute { attribute, expected, found: "an input".to_owned() }));
        }
        if batched && !inputs.is_empty() {
            inputs.remove(0);
        }
        let values: Option<Vec<Tracked>> = inputs.into_iter().collect();
        let values = values.ok_or_else(|| in_node(Problem::MissingInput { index: 0 }))?;
        let of = Scanned::of(&self.call(node, node_ref), graph, values.len(), batched).map_err(&in_node)?;
        if !batched {
            return self.scan_of(node_ref, graph, &of, &values);
        }
        // Sequences of a batch know nothing of each other.
        let batch = values.first().and_then(|t| t.shape().first()).and_then(Dim::as_const);
        let batch = batch.filter(|n| (1..=MAX_WRITTEN_OUT).contains(n));
        let batch = batch.ok_or_else(|| in_node(Problem::DynamicValue { what: "the batch of a Scan" }))?;
        let mut results: Vec<Vec<Tracked>> = Vec::new();
        for n in 0..batch {
            let build = self.scopes.build();
            let row = |build: &mut Builder, t: &Tracked| row(build, t, &Dim::constant(n));
            let rows = values.iter().map(|t| row(build, t)).collect::<Result<Vec<_>, _>>().map_err(&in_node)?;
            let outputs = self.scan_of(node_ref, graph, &of, &rows)?;
            results.resize(outputs.len(), Vec::new());
            for (all, output) in results.iter_mut().zip(outputs) {
                all.push(self.scopes.build().insert_axis(&output, 0).map_err(&in_node)?);
            }
        }
        let build = self.scopes.build();
        let whole = |parts: Vec<Tracked>| build.concat(&parts.iter().collect::<Vec<_>>(), 0);
        results.into_iter().map(whole).collect::<Result<_, _>>().map_err(in_node)
    }

    fn scan_of(
        &mut self,
        node_ref: &NodeRef,
        graph: &'m GraphProto,
        of: &Scanned,
        values: &[Tracked],
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let (states, scanned) = values.split_at(of.states);
        let build = self.scopes.build();
        let mut slices = Vec::new();
        for (value, (given, reverse)) in scanned.iter().zip(&of.inputs) {
            slices.push(first_axis(build, value, *given, *reverse).map_err(&in_node)?);
        }
        let steps = slices.first().and_then(|t| t.shape().first()).cloned();
        let steps = steps.ok_or_else(|| in_node(Problem::MissingInput { index: of.states }))?;
        let body = Body {
            graph,
            firsts: states.to_vec(),
            states: vec![State::Carried; states.len()],
            slices,
            is_loop: false,
            condition: Condition::Known,
        };
        let results = self.steps(node_ref, &body, Some(&steps))?;
        let build = self.scopes.build();
        let mut outputs = results.states;
        for (stacked, (given, reverse)) in results.stacked.iter().zip(&of.outputs) {
            outputs.push(from_first_axis(build, stacked, *given, *reverse).map_err(&in_node)?);
        }
        Ok(outputs)
    }
}

/// What the attributes of a `Scan` say.
struct Scanned {
    states: usize,
    /// Axis and direction of each scanned input, and of each scanned output.
    inputs: Vec<(i64, bool)>,
    outputs: Vec<(i64, bool)>,
}

impl Scanned {
    fn of(call: &Call<'_>, graph: &GraphProto, inputs: usize, batched: bool) -> Result<Self, Problem> {
        let scanned = call.int_or("num_scan_inputs", 0)?;
        let count = usize::try_from(scanned).ok().filter(|n| (1..=inputs).contains(n));
        let states = inputs
            - count.ok_or_else(|| Problem::InvalidAttribute {
                attribute: "num_scan_inputs",
                expected: "how many of the inputs are scanned",
                found: scanned.to_string(),
            })?;
        if graph.input.len() != inputs || graph.output.len() < states {
            return Err(wrong_body(graph, inputs, states));
        }
        let list = |name: &'static str, len: usize| -> Result<Vec<i64>, Problem> {
            let given = call.ints(name)?.map_or_else(|| vec![0; len], <[i64]>::to_vec);
            let found = format!("{given:?}");
            let expected = "a number per scanned input or output";
            if given.len() == len {
                Ok(given)
            } else {
                Err(Problem::InvalidAttribute { attribute: name, expected, found })
            }
        };
        let both = |axes: Vec<i64>, directions: Vec<i64>| {
            axes.into_iter().zip(directions.into_iter().map(|d| d != 0)).collect()
        };
        let (scanned, results) = (inputs - states, graph.output.len() - states);
        if batched {
            let directions = list("directions", scanned)?;
            let (inputs, outputs) = (both(vec![0; scanned], directions), both(vec![0; results], vec![0; results]));
            return Ok(Self { states, inputs, outputs });
        }
        let inputs = both(list("scan_input_axes", scanned)?, list("scan_input_directions", scanned)?);
        let outputs = both(list("scan_output_axes", results)?, list("scan_output_directions", results)?);
        Ok(Self { states, inputs, outputs })
    }
}

/// The given axis as the first one, its end as its beginning if that is asked for.
fn first_axis(build: &mut Builder, x: &Tracked, given: i64, reverse: bool) -> Result<Tracked, Problem> {
    let first = axis(given, x.rank())?;
    let order: Vec<usize> = std::iter::once(first).chain((0..x.rank()).filter(|&n| n != first)).collect();
    let moved = build.transpose(x, &order)?;
    if reverse { build.flip(&moved, 0) } else { Ok(moved) }
}

/// The inverse of [`first_axis`].
fn from_first_axis(build: &mut Builder, x: &Tracked, given: i64, reverse: bool) -> Result<Tracked, Problem> {
    let x = if reverse { build.flip(x, 0)? } else { x.clone() };
    let to = axis(given, x.rank())?;
    let mut order: Vec<usize> = (1..x.rank()).collect();
    order.insert(to, 0);
    build.transpose(&x, &order)
}
