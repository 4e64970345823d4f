//! Values whose number of axes only a run tells.
//!
//! In the graph, where every type has a known number of axes, such a value is a sequence of one tensor. What a node makes of it
//! is a `SequenceMap` (ONNX, opset 17) over the graph of that node alone, so that the host takes the tensor out, evaluates the
//! node by its definition, and puts the results into sequences again. Where the number of axes is known again, a `SequenceAt`
//! (opset 11) brings the tensor out.

use super::fresh_symbol;
use crate::build::{Builder, Result};
use crate::element::Element;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{HostOp, Produced};
use infc_ir::symbol::Symbol;
use infc_tensor::{Attributes, DType, Subgraph, SubgraphNode, SubgraphOutput, Subgraphs, Tensor};

/// Extents of stand-ins go up to this, which says nothing of those of results.
const STAND_IN_EXTENT: i64 = 1 << 30;

/// What is known of a value that the host makes.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) of: Element,
    /// The least and the greatest value of each extent that is no number; anything where that is not said.
    pub(crate) bounds: Vec<(i64, Option<i64>)>,
}

impl Outcome {
    /// Of any extents that the type leaves open.
    pub(crate) fn new(of: Element) -> Self {
        Self { of, bounds: Vec::new() }
    }
}

/// Why the host has to do with them.
const REASON: &str = "only a run tells how many axes its values have";

fn operation(op_type: &str, opset: i64, inputs: usize) -> HostOp {
    HostOp {
        op_type: op_type.to_owned(),
        domain: String::new(),
        opset,
        attributes: Attributes::new(),
        graphs: Subgraphs::default(),
        body: None,
        inputs: vec![true; inputs],
        outputs: vec![true],
        produces: Vec::new(),
        reason: REASON.to_owned(),
    }
}

/// A sequence of one value.
fn one_value() -> TensorType {
    TensorType::new(DType::Sequence, vec![Dim::constant(1)])
}

/// A value as one of any number of axes.
pub(crate) fn unranked(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    if x.is_unranked() {
        return Ok(x.clone());
    }
    Ok(Tracked::unranked(&in_sequence(build, x)?, x.dtype()))
}

/// A sequence of this value alone.
fn in_sequence(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    let mut made = build.host(operation("SequenceConstruct", 11, 1), &[x], vec![one_value()])?;
    Ok(made.remove(0))
}

/// The one value in a sequence, of a known number of axes, which the run checks. Extents that are not known are symbols, named
/// after `name`.
pub(crate) fn ranked(build: &mut Builder, name: &str, sequence: &Tracked, known: &Outcome) -> Result<Tracked> {
    let of = &known.of;
    let shape = of.shape.as_ref().ok_or(Problem::DynamicValue { what: "the number of axes" })?;
    let mut op = operation("SequenceAt", 11, 2);
    let mut dims = Vec::with_capacity(shape.len());
    for (axis, extent) in shape.iter().enumerate() {
        dims.push(extent.map_or_else(
            || {
                let any = (0, if of.dtype == DType::Optional { Some(1) } else { None });
                let (min, max) = known.bounds.get(axis).copied().unwrap_or(any);
                let symbol = fresh_symbol(build, format!("{name}[{axis}]"), max);
                let range = &mut build.graph.symbols[symbol];
                range.min = range.max.map_or(min, |max| min.min(max));
                op.produces.push(Produced { output: 0, axis: axis as u32, symbol });
                Dim::symbol(symbol)
            },
            Dim::constant,
        ));
    }
    let position = build.scalar(DType::I64, 0.0);
    let ty = TensorType::new(of.dtype, dims);
    build.check_shape(&ty)?;
    let value = build.host(op, &[sequence, &position], vec![ty])?.remove(0);
    Ok(value.with_element(of.of.clone()))
}

impl Builder {
    /// An input of a graph that is thrown away, in the place of a value of which this is known.
    pub(crate) fn stand_in(&mut self, name: &str, of: &Element) -> Result<Tracked> {
        let Some(shape) = &of.shape else { return self.unranked_input(name, of.dtype) };
        let mut extents = Vec::with_capacity(shape.len());
        for extent in shape {
            let unnamed = Symbol { name: "?".to_owned(), min: 0, max: Some(STAND_IN_EXTENT) };
            extents.push(match extent {
                Some(extent) => Dim::constant(*extent),
                None => Dim::symbol(self.graph.symbols.push(unnamed)),
            });
        }
        Ok(self.input(name, TensorType::new(of.dtype, extents))?.with_element(of.of.clone()))
    }
}

/// What a graph makes of values, of which some may have any number of axes: its inputs are the values, its outputs those of
/// which it is said what is known. `graphs` has it first, behind it those that its nodes hold.
pub(crate) fn evaluated(
    build: &mut Builder,
    mut graphs: Vec<Subgraph>,
    values: &[Tracked],
    outputs: &[Outcome],
) -> Result<Vec<Tracked>> {
    let mut inputs = Vec::with_capacity(values.len());
    for value in values {
        // Sequences are taken for one value each.
        let is_plain = value.dtype() == DType::Sequence && !value.is_unranked();
        inputs.push(if is_plain { in_sequence(build, value)? } else { value.clone() });
    }
    let first = inputs.iter().position(|input| input.dtype() == DType::Sequence).unwrap_or(0);
    let Some(graph) = graphs.first_mut().filter(|graph| graph.inputs.len() == inputs.len() && !inputs.is_empty())
    else {
        return Err(Problem::DynamicValue { what: "the number of axes" });
    };
    if inputs[first].dtype() != DType::Sequence {
        inputs[first] = in_sequence(build, &inputs[first])?;
    }
    inputs.swap(0, first);
    graph.inputs.swap(0, first);
    let names: Vec<String> = graph.outputs.iter().map(|output| output.name.clone()).collect();
    let held = Subgraphs { roots: vec![("body".to_owned(), 0)], captures: Vec::new(), graphs };
    if let Some(expected) = held.problem() {
        let found = format!("{} graphs", held.graphs.len());
        return Err(Problem::UnsupportedAttribute { attribute: "body", expected, found });
    }
    let op = HostOp { graphs: held, outputs: vec![true; outputs.len()], ..operation("SequenceMap", 17, inputs.len()) };
    let results = build.host(op, &inputs.iter().collect::<Vec<_>>(), vec![one_value(); outputs.len()])?;
    let known = results.iter().zip(outputs).zip(&names);
    known
        .map(|((result, known), name)| match known.of.shape {
            Some(_) => ranked(build, name, result, known),
            None => Ok(Tracked::unranked(result, known.of.dtype)),
        })
        .collect()
}

/// The one element of a value of any number of axes.
pub(crate) fn scalar(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    let no_axes = Tensor::zeros(DType::I64, &[0]).map_err(|_| Problem::DimOverflow { shape: "0".to_owned() })?;
    let dtype = Element::of_value(x).dtype;
    let [x_name, shape, y] = ["x", "shape", "y"].map(str::to_owned);
    let graph = Subgraph {
        inputs: vec![x_name.clone()],
        constants: vec![(shape.clone(), no_axes)],
        nodes: vec![SubgraphNode {
            op_type: "Reshape".to_owned(),
            domain: String::new(),
            opset: 14,
            attributes: Attributes::new(),
            graphs: Vec::new(),
            inputs: vec![x_name, shape],
            outputs: vec![y.clone()],
        }],
        outputs: vec![SubgraphOutput { name: y, dtype, shape: Vec::new() }],
    };
    let known = Outcome::new(Element { dtype, shape: Some(Vec::new()), of: None });
    Ok(evaluated(build, vec![graph], std::slice::from_ref(x), &[known])?.remove(0))
}
