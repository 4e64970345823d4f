//! Types as the import knows them, for those who read the model.

use super::Known;
use crate::proto::tensor_shape_proto::{Dimension, dimension};
use crate::proto::{GraphProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto};
use crate::tensor_proto::dtype_to_onnx;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::symbol::Symbols;
use std::collections::HashSet;

/// Says the types of all values, and what is now known of the extents of inputs and outputs.
pub(super) fn declare(graph: &mut GraphProto, known: &Known) {
    let symbols = &known.values.symbols;
    for input in &mut graph.input {
        if let Some(value) = known.value(input.name()) {
            narrow(input, value, symbols);
        }
    }
    let made: HashSet<&str> = graph.node.iter().flat_map(|n| &n.output).map(String::as_str).collect();
    // Of what is no tensor, and where sizes are taken for granted, what the model declares is all that is sure.
    graph
        .value_info
        .retain(|info| made.contains(info.name()) && (!known.certain || known.value(info.name()).is_none()));
    if !known.certain {
        return;
    }
    for output in &mut graph.output {
        if let Some(value) = known.value(output.name()) {
            narrow(output, value, symbols);
        }
    }
    let ports: HashSet<&str> = graph.output.iter().map(|o| o.name()).collect();
    let inner = graph.node.iter().flat_map(|n| &n.output).filter(|name| !ports.contains(name.as_str()));
    let infos = inner.filter_map(|name| Some(info(name, known.value(name)?, symbols)));
    graph.value_info.extend(infos.collect::<Vec<_>>());
}

fn info(name: &str, value: &Tracked, symbols: &Symbols) -> ValueInfoProto {
    let dim = value.shape().iter().map(|dim| Dimension { denotation: None, value: extent(dim, symbols) }).collect();
    let tensor =
        type_proto::Tensor { elem_type: Some(dtype_to_onnx(value.dtype())), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}

/// A number, or the name of a symbol; an expression has no word in ONNX.
fn extent(dim: &Dim, symbols: &Symbols) -> Option<dimension::Value> {
    if let Some(number) = dim.as_const() {
        return Some(dimension::Value::DimValue(number));
    }
    let symbol = symbols.iter_enumerated().find(|(id, _)| *dim == Dim::symbol(*id))?.1;
    Some(dimension::Value::DimParam(symbol.name.clone()))
}

/// Replaces extents that are numbers now; all others are called what the model calls them.
fn narrow(port: &mut ValueInfoProto, value: &Tracked, symbols: &Symbols) {
    let declared = port.r#type.as_mut().and_then(|ty| match &mut ty.value {
        Some(type_proto::Value::TensorType(tensor)) => tensor.shape.as_mut(),
        _ => None,
    });
    match declared {
        Some(shape) if shape.dim.len() == value.rank() => {
            for (declared, dim) in shape.dim.iter_mut().zip(value.shape()) {
                if let Some(number) = dim.as_const() {
                    declared.value = Some(dimension::Value::DimValue(number));
                }
            }
        }
        _ => port.r#type = info(port.name(), value, symbols).r#type,
    }
}
