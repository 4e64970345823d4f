//! Hand-built models for tests.

use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use infc_frontend_onnx::{ImportError, ImportOptions, Model, dtype_to_onnx, import, to_proto};
use infc_ir::graph::Graph;
use infc_tensor::{DType, Tensor};
use prost::Message;

/// One extent of an input: a number or a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    Number(i64),
    Named(&'a str),
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(i64),
    Float(f32),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Tensor(Tensor),
    Graph(GraphProto),
}

pub(crate) fn attribute(name: &str, value: Value) -> AttributeProto {
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let ty = match value {
        Value::Int(v) => {
            proto.i = Some(v);
            AttributeType::Int
        }
        Value::Float(v) => {
            proto.f = Some(v);
            AttributeType::Float
        }
        Value::Text(v) => {
            proto.s = Some(v.into_bytes().into());
            AttributeType::String
        }
        Value::Texts(v) => {
            proto.strings = v.into_iter().map(|s| s.into_bytes().into()).collect();
            AttributeType::Strings
        }
        Value::Ints(v) => {
            proto.ints = v;
            AttributeType::Ints
        }
        Value::Floats(v) => {
            proto.floats = v;
            AttributeType::Floats
        }
        Value::Tensor(v) => {
            proto.t = Some(to_proto("", &v));
            AttributeType::Tensor
        }
        Value::Graph(v) => {
            proto.g = Some(v);
            AttributeType::Graph
        }
    };
    proto.r#type = Some(ty as i32);
    proto
}

pub(crate) fn node(op_type: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value)]) -> NodeProto {
    NodeProto {
        op_type: Some(op_type.to_owned()),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: outputs.iter().map(|&s| s.to_owned()).collect(),
        attribute: attributes.iter().map(|(name, value)| attribute(name, value.clone())).collect(),
        ..NodeProto::default()
    }
}

pub(crate) fn named(name: &str, node: NodeProto) -> NodeProto {
    NodeProto { name: Some(name.to_owned()), ..node }
}

pub(crate) fn value_info(name: &str, dtype: DType, shape: Option<&[Extent<'_>]>) -> ValueInfoProto {
    let dims = |extents: &[Extent<'_>]| TensorShapeProto {
        dim: extents
            .iter()
            .map(|extent| Dimension {
                denotation: None,
                value: match extent {
                    Extent::Number(n) => Some(dimension::Value::DimValue(*n)),
                    Extent::Named(name) => Some(dimension::Value::DimParam((*name).to_owned())),
                },
            })
            .collect(),
    };
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(dtype)), shape: shape.map(dims) };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}

/// A model under construction.
pub(crate) struct Builder {
    pub(crate) model: ModelProto,
}

impl Builder {
    pub(crate) fn new(opset: i64) -> Self {
        Self {
            model: ModelProto {
                ir_version: Some(8),
                opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(opset) }],
                graph: Some(GraphProto { name: Some("test".to_owned()), ..GraphProto::default() }),
                ..ModelProto::default()
            },
        }
    }

    /// Imports another domain.
    pub(crate) fn import_opset(mut self, domain: &str, version: i64) -> Self {
        let import = OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) };
        self.model.opset_import.push(import);
        self
    }

    pub(crate) fn graph(&mut self) -> &mut GraphProto {
        self.model.graph.as_mut().expect("made with one")
    }

    pub(crate) fn input(mut self, name: &str, dtype: DType, shape: &[Extent<'_>]) -> Self {
        self.graph().input.push(value_info(name, dtype, Some(shape)));
        self
    }

    /// An f32 input of fixed shape.
    pub(crate) fn f32(self, name: &str, shape: &[i64]) -> Self {
        let shape: Vec<Extent<'_>> = shape.iter().map(|&n| Extent::Number(n)).collect();
        self.input(name, DType::F32, &shape)
    }

    pub(crate) fn initializer(mut self, name: &str, tensor: &Tensor) -> Self {
        self.graph().initializer.push(to_proto(name, tensor));
        self
    }

    pub(crate) fn raw_initializer(mut self, tensor: TensorProto) -> Self {
        self.graph().initializer.push(tensor);
        self
    }

    pub(crate) fn node(mut self, node: NodeProto) -> Self {
        self.graph().node.push(node);
        self
    }

    pub(crate) fn output(mut self, name: &str) -> Self {
        self.graph().output.push(ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() });
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    pub(crate) fn load(&self) -> Result<Model, ImportError> {
        Model::from_bytes(self.bytes(), None)
    }

    pub(crate) fn import(&self) -> Result<Graph, ImportError> {
        self.import_with(&ImportOptions::default())
    }

    pub(crate) fn import_with(&self, options: &ImportOptions) -> Result<Graph, ImportError> {
        import(&self.load()?, options)
    }
}

pub(crate) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_elements(&[values.len()], values).expect("a vector")
}
