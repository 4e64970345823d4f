//! One evaluation: a node and its inputs, with the look-ups that operators share.

use crate::error::{EvalError, Result};
use crate::subgraph::Held;
use crate::{Attribute, Node, dtypes};
use infc_tensor::{DType, Tensor};

/// A node together with its inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Node<'a>,
    pub(crate) inputs: &'a [Option<&'a Tensor>],
    /// The graphs that the node holds.
    pub(crate) held: Held<'a>,
}

impl<'a> Call<'a> {
    pub(crate) fn opset(&self) -> i64 {
        self.node.opset
    }

    /// Input `index`, which the operator cannot do without.
    pub(crate) fn input(&self, index: usize) -> Result<&'a Tensor> {
        self.optional(index).ok_or(EvalError::MissingInput { index })
    }

    /// Input `index`; `None` if it was left out.
    pub(crate) fn optional(&self, index: usize) -> Option<&'a Tensor> {
        self.inputs.get(index).copied().flatten()
    }

    /// All inputs of a variadic operator: at least one, none left out.
    pub(crate) fn variadic(&self) -> Result<Vec<&'a Tensor>> {
        if self.inputs.is_empty() {
            return Err(EvalError::MissingInput { index: 0 });
        }
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.node.attributes.int_or(name, default)?)
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> Result<f64> {
        Ok(f64::from(self.node.attributes.float_or(name, default)?))
    }

    pub(crate) fn string(&self, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.node.attributes.string_or(name, default)?)
    }

    pub(crate) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        Ok(self.node.attributes.ints(name)?)
    }

    /// The attribute `name`, which the operator cannot do without.
    pub(crate) fn required_int(&self, name: &'static str) -> Result<i64> {
        self.node.attributes.int(name)?.ok_or(EvalError::InvalidAttribute { name, reason: "it is missing" })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.node.attributes.contains(name)
    }

    /// An element type given by an attribute that holds ONNX's number for it.
    pub(crate) fn dtype(&self, name: &'static str) -> Result<Option<DType>> {
        match self.node.attributes.get(name) {
            // 0 stands for none.
            None | Some(Attribute::Int(0)) => Ok(None),
            Some(Attribute::Int(code)) => dtypes::from_onnx(*code)
                .map(Some)
                .ok_or(EvalError::InvalidAttribute { name, reason: "it names no tensor element type" }),
            // In its first opset, Cast named the type by a string.
            Some(Attribute::String(text)) => dtypes::from_onnx_name(text)
                .map(Some)
                .ok_or(EvalError::InvalidAttribute { name, reason: "it names no tensor element type" }),
            Some(_) => Err(EvalError::InvalidAttribute { name, reason: "it names no tensor element type" }),
        }
    }

    /// Input `index` as a list of integers, `None` if it was left out.
    pub(crate) fn int_list(&self, index: usize) -> Result<Option<Vec<i64>>> {
        self.optional(index).map(|t| int_list(t, index)).transpose()
    }

    /// A list of integers that was an attribute up to some opset and an input since.
    pub(crate) fn ints_or_input(&self, name: &str, input: usize, input_since: i64) -> Result<Option<Vec<i64>>> {
        if self.opset() < input_since { Ok(self.ints(name)?.map(<[i64]>::to_vec)) } else { self.int_list(input) }
    }

    /// Input `index` as one integer.
    pub(crate) fn int_scalar(&self, index: usize) -> Result<Option<i64>> {
        match self.int_list(index)? {
            None => Ok(None),
            Some(list) => match list[..] {
                [value] => Ok(Some(value)),
                _ => Err(EvalError::InvalidInput { index, reason: "one element is needed" }),
            },
        }
    }
}

/// A tensor of integers as a list.
pub(crate) fn int_list(tensor: &Tensor, index: usize) -> Result<Vec<i64>> {
    tensor.to_i64_vec().ok_or(EvalError::InvalidInput { index, reason: "integers are needed" })
}

/// The outcome of an operator with one output.
pub(crate) fn one(tensor: Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![tensor])
}
