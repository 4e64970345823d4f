//! Operators that the runtime evaluates by their definitions, because no expansion into core ops exists for them.
//!
//! That is so for operators whose results have a size that depends on data, for values that are no numbers, and where
//! what has to be known to expand a node (axes, a shape) is only known when the model runs. An operator that can be
//! expanded is: the host is asked only when its import has failed, and the failure is recorded as the reason.
//!
//! The graph needs the types of the outputs. [`types`] derives them for the operators it lists; for others the model
//! must declare them. Extents that are not known become symbols that the operation produces; what is declared is checked
//! when the model runs.

mod numbers;
mod reasons;
mod types;
pub(crate) mod unranked;

pub(crate) use numbers::{counted, counted_up_to, extents_of_floats, with_numbers};
pub use reasons::{HostOperator, host_operators};

use crate::attributes::node_attributes;
use crate::build::{Builder, Result};
use crate::call::Call;
use crate::custom::{self, CustomOp};
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::proto::GraphProto;
use crate::tracked::Tracked;
use infc_ir::entity::SymbolId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::op::{HostBody, HostOp, Produced};
use infc_ir::symbol::Symbol;
use infc_tensor::{Attributes, DType, DTypeClass, Subgraphs};
use std::rc::Rc;
use std::sync::Arc;

/// The greatest extent that evaluation gives where nothing limits it.
const MAX_EXTENT: i64 = 1 << 31;

/// True if a node that cannot be expanded for this reason may run on the host.
pub(crate) fn may_help(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::DynamicValue { .. }
            | Problem::UnsupportedType { .. }
            | Problem::UnsupportedAttribute { .. }
            | Problem::UnsupportedOutput { .. }
            | Problem::TooMuchWork { .. }
            | Problem::CustomInStep
    )
}

/// True if the runtime's host library defines the operator.
pub(crate) fn defines(op_type: &str, domain: &str, opset: i64) -> bool {
    infc_reference::registry::find(op_type, domain, opset).is_some()
}

/// A node whose outputs are to be typed.
pub(crate) struct Typing<'a, 'c> {
    pub(crate) call: &'a mut Call<'c>,
    pub(crate) attributes: &'a Attributes,
    fresh: Vec<SymbolId>,
    /// What is known of the values within outputs.
    elements: Vec<(usize, Rc<Element>)>,
}

impl Typing<'_, '_> {
    /// An extent that the evaluation tells, of an axis of an output; at most `max`, if that is known.
    pub(crate) fn fresh(&mut self, output: usize, axis: usize, max: Option<i64>) -> Dim {
        if max.is_some_and(|max| max <= 0) {
            return Dim::constant(0);
        }
        let name = self.call.node.output.get(output).map_or("", String::as_str);
        let name = if name.is_empty() { self.call.node.output.first().map_or("?", String::as_str) } else { name };
        let name = format!("{name}[{axis}]");
        let symbol = fresh_symbol(self.call.build, name, max);
        self.fresh.push(symbol);
        Dim::symbol(symbol)
    }

    /// Says what is known of the values within an output that is a sequence or an optional.
    pub(crate) fn tell(&mut self, output: usize, element: Option<Rc<Element>>) {
        self.elements.retain(|(n, _)| *n != output);
        self.elements.extend(element.map(|element| (output, element)));
    }

    /// The greatest number of elements that input `index` may have.
    pub(crate) fn max_elems(&self, index: usize) -> Result<Option<i64>> {
        let ranges = self.call.build.ranges();
        let mut product = Some(1i64);
        for dim in self.call.input(index)?.shape() {
            let max = ranges.interval(dim).max;
            product = product.zip(max).and_then(|(product, max)| product.checked_mul(max));
        }
        Ok(product)
    }

    /// The greatest value of an extent.
    pub(crate) fn max_of(&self, dim: &Dim) -> Option<i64> {
        self.call.build.ranges().interval(dim).max
    }
}

/// The outputs of a node that the host evaluates because of a problem, or because it never is expanded; `None` if it
/// cannot, or their types are unknown.
///
/// # Errors
/// What is wrong with the node.
pub(crate) fn import(
    call: &mut Call<'_>,
    node: &NodeRef,
    graph: &GraphProto,
    problem: Option<&Problem>,
) -> std::result::Result<Option<Vec<Tracked>>, ImportError> {
    let in_node = |problem: Problem| ImportError::Node { node: Box::new(node.clone()), problem };
    if !call.build.may_use_host || !defines(&node.op_type, &node.domain, node.opset) {
        return Ok(None);
    }
    let is_value = |t: &Tracked| t.dtype().class() == DTypeClass::Value;
    let takes_values = infc_reference::registry::find(&node.op_type, &node.domain, node.opset);
    if call.inputs.iter().flatten().any(is_value) && !takes_values.is_some_and(|operator| operator.takes_values) {
        return Ok(None);
    }
    let Some(attributes) = node_attributes(call.node)? else { return Ok(None) };
    let mut typing = Typing { call, attributes: &attributes, fresh: Vec::new(), elements: Vec::new() };
    let types = match types::find(&node.op_type, &node.domain) {
        Some(rule) => match rule(&mut typing) {
            Err(problem @ Problem::DynamicValue { .. }) => {
                declared(&mut typing, graph).and_then(|types| types.map_or(Err(problem), |types| Ok(Some(types))))
            }
            types => types.map(Some),
        },
        None => match types::of_moved(&mut typing, (&node.op_type, &node.domain), problem) {
            Err(problem) if !may_help(&problem) => Err(problem),
            Ok(Some(types)) => Ok(Some(types)),
            Ok(None) | Err(_) => unruled(&mut typing, node, graph, problem),
        },
    };
    let Some(types) = types.map_err(in_node)? else { return Ok(None) };
    let (fresh, elements) = (typing.fresh, typing.elements);
    let reason = problem.map_or_else(|| "it is not worth a kernel".to_owned(), Problem::to_string);
    let held = (attributes, Subgraphs::default());
    let outputs = add(call, node, held, None, &types, &fresh, &reason).map_err(in_node)?;
    Ok(Some(with_elements(outputs, elements)))
}

/// The types of the outputs of an operator without a rule: as the model declares them, or of the rank that they have
/// whatever it is that is not known.
fn unruled(
    typing: &mut Typing<'_, '_>,
    node: &NodeRef,
    graph: &GraphProto,
    problem: Option<&Problem>,
) -> Result<Option<Vec<TensorType>>> {
    let is_strange = types::strange(typing.call, problem).is_some();
    match (declared(typing, graph), types::find_dynamic(&node.op_type, &node.domain)) {
        (Ok(None), Some(rule))
            if is_strange || matches!(problem, Some(Problem::DynamicValue { .. } | Problem::TooMuchWork { .. })) =>
        {
            rule(typing).map(Some)
        }
        (declared, _) => declared,
    }
}

/// The outputs of a custom operator's node; `None` where nothing is evaluated.
///
/// # Errors
/// What is wrong with the node.
pub(crate) fn import_custom(
    call: &mut Call<'_>,
    node: &NodeRef,
    custom: &CustomOp,
) -> std::result::Result<Option<Vec<Tracked>>, ImportError> {
    let in_node = |problem: Problem| ImportError::Node { node: Box::new(node.clone()), problem };
    if !call.build.may_use_host {
        return Err(in_node(Problem::CustomInStep));
    }
    let Some(attributes) = node_attributes(call.node)? else { return Ok(None) };
    let mut typing = Typing { call, attributes: &attributes, fresh: Vec::new(), elements: Vec::new() };
    let types = custom::types(&mut typing, custom).map_err(in_node)?;
    let fresh = typing.fresh;
    // The version that is declared is what the runtime knows it by.
    let declared = NodeRef { opset: custom.version, ..node.clone() };
    let held = (attributes, Subgraphs::default());
    add(call, &declared, held, None, &types, &fresh, "it is a custom operator").map(Some).map_err(in_node)
}

/// The outputs of a node that holds graphs, of these types. The values that the graphs take from around it are the last
/// inputs of the call.
///
/// # Errors
/// What is wrong with the node.
pub(crate) fn import_holder(
    call: &mut Call<'_>,
    node: &NodeRef,
    held: (Attributes, Subgraphs),
    body: Option<HostBody>,
    outputs: &[Element],
    reason: &str,
) -> Result<Vec<Tracked>> {
    let mut typing = Typing { call, attributes: &held.0, fresh: Vec::new(), elements: Vec::new() };
    let mut types = Vec::with_capacity(outputs.len());
    for (n, output) in outputs.iter().enumerate() {
        types.push(types::value(&mut typing, n, output)?);
    }
    if let Some(body) = body.as_ref().filter(|body| body.is_whole()) {
        // Extents that no step changes are those of the first values.
        let states = typing.call.inputs.iter().skip(HostBody::BEFORE_STATES).take(body.states()).flatten();
        for (state, (ty, first)) in types.iter_mut().zip(states).enumerate() {
            let axes = ty.shape.iter_mut().zip(first.shape()).enumerate();
            axes.filter(|(axis, _)| body.keeps(state, *axis)).for_each(|(_, (extent, first))| extent.clone_from(first));
        }
    }
    let (fresh, elements) = (typing.fresh, typing.elements);
    Ok(with_elements(add(call, node, held, body, &types, &fresh, reason)?, elements))
}

fn with_elements(mut outputs: Vec<Tracked>, elements: Vec<(usize, Rc<Element>)>) -> Vec<Tracked> {
    for (output, element) in elements {
        if let Some(known) = outputs.get_mut(output) {
            *known = known.with_element(Some(element));
        }
    }
    outputs
}

/// A symbol that an evaluation is to tell, of a name that no other has.
fn fresh_symbol(build: &mut Builder, mut name: String, max: Option<i64>) -> SymbolId {
    let symbols = &mut build.graph.symbols;
    while symbols.iter().any(|symbol| symbol.name == name) {
        name.push('\'');
    }
    let max = Some(max.unwrap_or(MAX_EXTENT).clamp(0, MAX_EXTENT));
    let symbol = symbols.push(Symbol { name, min: 0, max });
    build.facts.take_as_late(symbol);
    symbol
}

fn add(
    call: &mut Call<'_>,
    node: &NodeRef,
    (attributes, graphs): (Attributes, Subgraphs),
    body: Option<HostBody>,
    types: &[TensorType],
    fresh: &[SymbolId],
    reason: &str,
) -> Result<Vec<Tracked>> {
    let count = call.output_count();
    if count > types.len() {
        return Err(Problem::UnsupportedOutput { index: types.len(), supported: types.len() });
    }
    let mut wanted: Vec<bool> = (0..count).map(|index| call.wants_output(index)).collect();
    // An output that nobody reads may have to tell an extent of one that is read.
    let mut produced_by: Vec<(usize, usize, SymbolId)> = Vec::new();
    for &symbol in fresh {
        let places = || {
            types.iter().enumerate().flat_map(|(output, ty)| {
                let axis = ty.shape.iter().position(|dim| dim.as_symbol() == Some(symbol))?;
                Some((output, axis))
            })
        };
        let place = places().find(|&(output, _)| wanted.get(output) == Some(&true)).or_else(|| places().next());
        let Some((output, axis)) = place else { continue };
        if wanted.len() <= output {
            wanted.resize(output + 1, false);
        }
        wanted[output] = true;
        produced_by.push((output, axis, symbol));
    }
    let number = |output: usize| wanted[..output].iter().filter(|&&wanted| wanted).count() as u32;
    let produces = produced_by.iter().map(|&(output, axis, symbol)| Produced {
        output: number(output),
        axis: axis as u32,
        symbol,
    });
    let op = HostOp {
        op_type: node.op_type.clone(),
        domain: node.domain.clone(),
        opset: node.opset,
        attributes,
        graphs,
        body: body.map(Arc::new),
        inputs: call.inputs.iter().map(Option::is_some).collect(),
        produces: produces.collect(),
        outputs: wanted.clone(),
        reason: reason.to_owned(),
    };
    let inputs: Vec<Tracked> = call.inputs.iter().flatten().cloned().collect();
    let asked = types.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(ty, _)| ty.clone()).collect();
    let mut made = call.build.host(op, &inputs.iter().collect::<Vec<_>>(), asked)?.into_iter();
    // Outputs that nobody asked for have no value; no name leads to them.
    let placeholder = call.build.scalar(DType::I64, 0.0);
    let output = |wanted: &bool| if *wanted { made.next() } else { None }.unwrap_or_else(|| placeholder.clone());
    Ok(wanted.iter().map(output).collect())
}

/// The types that the model declares for the outputs; `None` if it does not say the rank of one that is read.
fn declared(typing: &mut Typing<'_, '_>, graph: &GraphProto) -> Result<Option<Vec<TensorType>>> {
    let mut found = Vec::new();
    for name in &typing.call.node.output {
        found.push(match Element::declared_in(graph, name) {
            _ if name.is_empty() => None,
            Some(Element { dtype, shape: Some(shape), of }) => Some((dtype, shape, of)),
            _ => return Ok(None),
        });
    }
    let mut types = Vec::new();
    for (output, known) in found.into_iter().enumerate() {
        let Some((dtype, shape, of)) = known else {
            types.push(TensorType::new(DType::I64, Vec::new()));
            continue;
        };
        let mut dims = Vec::new();
        let max = if dtype == DType::Optional { Some(1) } else { None };
        for (axis, extent) in shape.into_iter().enumerate() {
            dims.push(extent.map_or_else(|| typing.fresh(output, axis, max), Dim::constant));
        }
        typing.tell(output, of);
        let ty = TensorType::new(dtype, dims);
        typing.call.build.check_shape(&ty)?;
        types.push(ty);
    }
    Ok(Some(types))
}
