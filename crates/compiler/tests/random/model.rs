//! A draft as an ONNX model.

use crate::draft::{Draft, Extent, Id, Origin};
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use infc_frontend_onnx::{dtype_to_onnx, to_proto};
use infc_tensor::{Attribute, DType};
use prost::Message;

/// The inputs that the model has, in order.
pub(crate) fn inputs(draft: &Draft) -> Vec<Id> {
    let is_input = |id: &Id| matches!(draft.values[*id].origin, Origin::Input(_) | Origin::Numbers);
    (0..draft.values.len()).filter(is_input).filter(|&id| is_read(draft, id)).collect()
}

fn is_read(draft: &Draft, id: Id) -> bool {
    draft.nodes.iter().any(|node| node.inputs.contains(&Some(id)))
}

fn name(id: Id) -> String {
    format!("v{id}")
}

/// The model's bytes.
pub(crate) fn bytes(draft: &Draft) -> Vec<u8> {
    let mut graph = GraphProto { name: Some("random".to_owned()), ..GraphProto::default() };
    for id in inputs(draft) {
        let tensor = draft.at(id);
        let extents = match &draft.values[id].origin {
            Origin::Input(extents) => extents.clone(),
            _ => tensor.shape().iter().map(|&size| Extent { name: None, size }).collect(),
        };
        graph.input.push(value_info(id, tensor.dtype(), &extents));
    }
    for (id, value) in draft.values.iter().enumerate() {
        if matches!(value.origin, Origin::Constant) && is_read(draft, id) {
            graph.initializer.push(to_proto(&name(id), &value.samples[0]));
        }
    }
    for (n, node) in draft.nodes.iter().enumerate() {
        let attributes = &node.operation.attributes;
        graph.node.push(NodeProto {
            name: Some(format!("{}{n}", node.operation.op_type)),
            op_type: Some(node.operation.op_type.to_owned()),
            input: node.inputs.iter().map(|id| id.map_or_else(String::new, name)).collect(),
            output: (node.first..node.first + node.operation.outputs).map(name).collect(),
            attribute: attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..NodeProto::default()
        });
    }
    for &id in &draft.outputs {
        graph.output.push(ValueInfoProto { name: Some(name(id)), ..ValueInfoProto::default() });
    }
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(draft.opset) };
    let model =
        ModelProto { ir_version: Some(10), opset_import: vec![opset], graph: Some(graph), ..ModelProto::default() };
    model.encode_to_vec()
}

fn value_info(id: Id, dtype: DType, extents: &[Extent]) -> ValueInfoProto {
    let dim = |extent: &Extent| Dimension {
        denotation: None,
        value: Some(match &extent.name {
            Some(name) => dimension::Value::DimParam(name.clone()),
            None => dimension::Value::DimValue(extent.size as i64),
        }),
    };
    let shape = Some(TensorShapeProto { dim: extents.iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(dtype)), shape };
    ValueInfoProto {
        name: Some(name(id)),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}

fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let ty = match value {
        Attribute::Int(value) => {
            proto.i = Some(*value);
            AttributeType::Int
        }
        Attribute::Float(value) => {
            proto.f = Some(*value);
            AttributeType::Float
        }
        Attribute::String(value) => {
            proto.s = Some(value.clone().into_bytes().into());
            AttributeType::String
        }
        Attribute::Tensor(value) => {
            proto.t = Some(to_proto("", value));
            AttributeType::Tensor
        }
        Attribute::Ints(values) => {
            proto.ints.clone_from(values);
            AttributeType::Ints
        }
        Attribute::Floats(values) => {
            proto.floats.clone_from(values);
            AttributeType::Floats
        }
        Attribute::Strings(values) => {
            proto.strings = values.iter().map(|text| text.clone().into_bytes().into()).collect();
            AttributeType::Strings
        }
        other => panic!("no operator that is drawn has {}", other.kind()),
    };
    proto.r#type = Some(ty as i32);
    proto
}
