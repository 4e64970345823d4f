//! Small ONNX models that the command makes itself, to measure what code for them does.

use infc_frontend_onnx::proto::attribute_proto::AttributeType;
use infc_frontend_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use infc_frontend_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use infc_frontend_onnx::{dtype_to_onnx, to_proto};
use infc_tensor::{DType, Tensor};

/// A model in the making; all values are of 32-bit floats.
#[derive(Default)]
pub(crate) struct SmallModel {
    graph: GraphProto,
}

impl SmallModel {
    /// An input of the model.
    pub(crate) fn input(&mut self, name: &str, shape: &[usize]) {
        self.graph.input.push(port(name, Some(shape)));
    }

    /// An output of the model, of whatever shape it is.
    pub(crate) fn output(&mut self, name: &str) {
        self.graph.output.push(port(name, None));
    }

    /// A constant.
    pub(crate) fn weight(&mut self, name: &str, shape: &[usize]) {
        self.graph.initializer.push(to_proto(name, &pattern(shape)));
    }

    /// A constant of integers.
    pub(crate) fn integers(&mut self, name: &str, values: &[i64]) {
        let tensor = Tensor::from_elements(&[values.len()], values).unwrap_or_else(|_| Tensor::scalar(0i64));
        self.graph.initializer.push(to_proto(name, &tensor));
    }

    /// A node with one output.
    pub(crate) fn node(&mut self, op_type: &str, inputs: &[&str], output: &str, attributes: &[(&str, &[i64])]) {
        let attribute = attributes.iter().map(|&(name, values)| AttributeProto {
            name: Some(name.to_owned()),
            r#type: Some(AttributeType::Ints as i32),
            ints: values.to_vec(),
            ..AttributeProto::default()
        });
        self.graph.node.push(NodeProto {
            op_type: Some(op_type.to_owned()),
            name: Some(output.to_owned()),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            attribute: attribute.collect(),
            ..NodeProto::default()
        });
    }

    /// Gives the last node an attribute that is one integer.
    pub(crate) fn with_integer(&mut self, name: &str, value: i64) {
        if let Some(node) = self.graph.node.last_mut() {
            node.attribute.push(AttributeProto {
                name: Some(name.to_owned()),
                r#type: Some(AttributeType::Int as i32),
                i: Some(value),
                ..AttributeProto::default()
            });
        }
    }

    /// The model.
    pub(crate) fn finish(self) -> ModelProto {
        ModelProto {
            ir_version: Some(8),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(17) }],
            graph: Some(GraphProto { name: Some("small".to_owned()), ..self.graph }),
            ..ModelProto::default()
        }
    }
}

/// Numbers near 1, none of which is like its neighbours.
pub(crate) fn pattern(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let elements: Vec<f32> = (0..count).map(|n: usize| 0.5 + (n % 251) as f32 / 256.0).collect();
    Tensor::from_elements(shape, &elements).unwrap_or_else(|_| Tensor::scalar(0.0f32))
}

fn port(name: &str, shape: Option<&[usize]>) -> ValueInfoProto {
    let extent =
        |&extent: &usize| Dimension { denotation: None, value: Some(dimension::Value::DimValue(extent as i64)) };
    let shape = shape.map(|shape| TensorShapeProto { dim: shape.iter().map(extent).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(dtype_to_onnx(DType::F32)), shape };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) }),
        ..ValueInfoProto::default()
    }
}
