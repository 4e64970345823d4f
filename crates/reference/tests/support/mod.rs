//! Short ways to write nodes and tensors.

#![allow(dead_code, reason = "every test file uses some of these")]

use infc_reference::{Attribute, Attributes, EvalError, Node, evaluate};
use infc_tensor::{Element, Tensor};

/// A node in the making.
pub(crate) struct Op {
    op_type: &'static str,
    opset: i64,
    attributes: Attributes,
    num_outputs: usize,
}

/// A node of ONNX's own domain with one output.
pub(crate) fn op(op_type: &'static str, opset: i64) -> Op {
    Op { op_type, opset, attributes: Attributes::new(), num_outputs: 1 }
}

impl Op {
    pub(crate) fn with(mut self, name: &str, value: impl Into<Attribute>) -> Self {
        self.attributes.insert(name, value);
        self
    }

    pub(crate) fn outputs(mut self, num_outputs: usize) -> Self {
        self.num_outputs = num_outputs;
        self
    }

    pub(crate) fn try_all(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, EvalError> {
        let node = Node {
            op_type: self.op_type,
            domain: "",
            opset: self.opset,
            attributes: &self.attributes,
            num_outputs: self.num_outputs,
        };
        evaluate(&node, inputs)
    }

    pub(crate) fn all(&self, inputs: &[&Tensor]) -> Vec<Tensor> {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().copied().map(Some).collect();
        self.try_all(&inputs).expect("the node evaluates")
    }

    /// The only output.
    pub(crate) fn run(&self, inputs: &[&Tensor]) -> Tensor {
        let [output] = <[Tensor; 1]>::try_from(self.all(inputs)).expect("one output");
        output
    }

    pub(crate) fn error(&self, inputs: &[&Tensor]) -> EvalError {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().copied().map(Some).collect();
        self.try_all(&inputs).expect_err("the node does not evaluate")
    }
}

pub(crate) fn t<T: Element>(shape: &[usize], elements: &[T]) -> Tensor {
    Tensor::from_elements(shape, elements).expect("the elements fill the shape")
}

pub(crate) fn vector<T: Element>(elements: &[T]) -> Tensor {
    t(&[elements.len()], elements)
}

/// 0, 1, 2, … in row-major order.
pub(crate) fn iota(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| i as f32).collect();
    t(shape, &values)
}

pub(crate) fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.elements::<f32>().expect("f32 elements").to_vec()
}

pub(crate) fn ints(tensor: &Tensor) -> Vec<i64> {
    tensor.to_i64_vec().expect("integer elements")
}

#[track_caller]
pub(crate) fn assert_close(actual: &Tensor, shape: &[usize], expected: &[f32]) {
    assert_eq!(actual.shape(), shape);
    let actual = floats(actual);
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= 1e-5 * e.abs().max(1.0), "element {i}: {a}, expected {e} ({actual:?})");
    }
    assert_eq!(actual.len(), expected.len());
}
