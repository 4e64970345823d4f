//! Small ONNX models, the way exporters write them, and sessions of them.

#![allow(dead_code, reason = "every test uses a part of it")]

use infc::{Compilation, CompileError, CompileOptions, Source};
use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use infc_frontend_onnx::{dtype_to_onnx, to_proto};
use infc_runtime::{Model, Session, SessionOptions};
use infc_tensor::{Attribute, DType, Tensor};
use prost::Message;

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attr<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Text(&'a str),
    Graph(&'a GraphProto),
}

/// A model under construction.
pub(crate) struct Net {
    graph: GraphProto,
    opset: i64,
}

impl Net {
    pub(crate) fn new(opset: i64) -> Self {
        Self { graph: GraphProto { name: Some("test".to_owned()), ..GraphProto::default() }, opset }
    }

    /// An input; extents that are no numbers are names.
    pub(crate) fn input(mut self, name: &str, dtype: DType, shape: &[&str]) -> Self {
        let dim = |extent: &&str| match extent.parse() {
            Ok(number) => dimension::Value::DimValue(number),
            Err(_) => dimension::Value::DimParam((*extent).to_owned()),
        };
        self.graph.input.push(port(name, dtype, shape.iter().map(dim).collect()));
        self
    }

    /// An input with as many axes as each run has.
    pub(crate) fn unranked_input(mut self, name: &str, dtype: DType) -> Self {
        let mut input = port(name, dtype, Vec::new());
        if let Some(type_proto::Value::TensorType(tensor)) = input.r#type.as_mut().and_then(|ty| ty.value.as_mut()) {
            tensor.shape = None;
        }
        self.graph.input.push(input);
        self
    }

    pub(crate) fn constant(mut self, name: &str, tensor: &Tensor) -> Self {
        self.graph.initializer.push(to_proto(name, tensor));
        self
    }

    pub(crate) fn node(mut self, op: &str, inputs: &[&str], outputs: &[&str], attrs: &[(&str, Attr<'_>)]) -> Self {
        let names = |names: &[&str]| names.iter().map(|&s| s.to_owned()).collect();
        let attribute = |(name, value): &(&str, Attr<'_>)| {
            let value = match *value {
                Attr::Int(value) => Attribute::Int(value),
                Attr::Ints(values) => Attribute::Ints(values.to_vec()),
                Attr::Text(text) => Attribute::String(text.to_owned()),
                Attr::Graph(graph) => {
                    return AttributeProto {
                        name: Some((*name).to_owned()),
                        g: Some(graph.clone()),
                        r#type: Some(AttributeType::Graph as i32),
                        ..AttributeProto::default()
                    };
                }
            };
            attribute(name, &value)
        };
        self.graph.node.push(NodeProto {
            op_type: Some(op.to_owned()),
            input: names(inputs),
            output: names(outputs),
            attribute: attrs.iter().map(attribute).collect(),
            ..NodeProto::default()
        });
        self
    }

    pub(crate) fn output(mut self, name: &str) -> Self {
        self.graph.output.push(ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() });
        self
    }

    /// What is made so far, as the graph of a node.
    pub(crate) fn graph(self) -> GraphProto {
        self.graph
    }

    /// The model on the best target of this machine.
    #[track_caller]
    pub(crate) fn session(self) -> Session {
        session(&self.compile(&CompileOptions::default()).unwrap_or_else(|e| panic!("{e}")))
    }

    pub(crate) fn compile(self, options: &CompileOptions) -> Result<Compilation, CompileError> {
        infc::compile(&Source::bytes(self.into_bytes()), options, &mut ())
    }

    /// The model as a file holds it.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(self.opset) };
        let model = ModelProto {
            ir_version: Some(8),
            opset_import: vec![opset],
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }
}

/// A session of what was compiled, on the best target of this machine.
#[track_caller]
pub(crate) fn session(compilation: &Compilation) -> Session {
    let model = Model::from_vec(compilation.to_bytes().expect("an artifact")).expect("a model");
    model.session(&SessionOptions::default()).expect("a session")
}

/// An input of a graph.
pub(crate) fn port(name: &str, dtype: DType, dims: Vec<dimension::Value>) -> ValueInfoProto {
    let dim = |value| Dimension { denotation: None, value: Some(value) };
    let shape = Some(TensorShapeProto { dim: dims.into_iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(dtype)), shape };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}

/// An attribute of a node.
pub(crate) fn attribute(name: &str, value: &Attribute) -> AttributeProto {
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
        other => panic!("no test has {}", other.kind()),
    };
    proto.r#type = Some(ty as i32);
    proto
}
