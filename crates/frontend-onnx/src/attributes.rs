//! The attributes of a node as data that needs no protobuf.

use crate::error::ImportError;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, NodeProto};
use crate::tensor_proto;
use bytes::Bytes;
use infc_tensor::{Attribute, Attributes};

/// The attributes of a node; `None` if one holds what is no number, text or tensor: a graph. Types are left out: whoever
/// evaluates sees the values.
///
/// # Errors
/// [`ImportError`] about a tensor that is damaged.
pub(crate) fn node_attributes(node: &NodeProto) -> Result<Option<Attributes>, ImportError> {
    let mut attributes = Attributes::new();
    for proto in node.attribute.iter().filter(|a| a.r#type() != AttributeType::TypeProto) {
        let Some(value) = attribute_value(proto)? else { return Ok(None) };
        attributes.insert(proto.name(), value);
    }
    Ok(Some(attributes))
}

/// The value of an attribute; `None` if it is no number, text or tensor.
pub(crate) fn attribute_value(proto: &AttributeProto) -> Result<Option<Attribute>, ImportError> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(match proto.r#type() {
        AttributeType::Int => Attribute::Int(proto.i()),
        AttributeType::Float => Attribute::Float(proto.f()),
        AttributeType::String => Attribute::String(proto.s.as_ref().map(text).unwrap_or_default()),
        AttributeType::Ints => Attribute::Ints(proto.ints.clone()),
        AttributeType::Floats => Attribute::Floats(proto.floats.clone()),
        AttributeType::Strings => Attribute::Strings(proto.strings.iter().map(text).collect()),
        AttributeType::Tensor => match &proto.t {
            Some(value) => Attribute::Tensor(tensor_proto::read(value)?),
            None => return Ok(None),
        },
        AttributeType::Tensors => {
            Attribute::Tensors(proto.tensors.iter().map(tensor_proto::read).collect::<Result<_, _>>()?)
        }
        _ => return Ok(None),
    }))
}
