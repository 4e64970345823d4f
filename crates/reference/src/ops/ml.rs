//! The operators of `ai.onnx.ml`: classical models on tables of features.

pub(crate) mod features;
pub(crate) mod forest;
pub(crate) mod labels;
pub(crate) mod linear;
pub(crate) mod maps;
pub(crate) mod post;
pub(crate) mod svm;
pub(crate) mod trees;

use crate::error::{EvalError, Result};
use crate::numeric::read_as_f64;
use infc_tensor::Tensor;

/// Rows of features: a matrix, or a vector as one row.
pub(crate) struct Rows {
    pub(crate) count: usize,
    pub(crate) width: usize,
    values: Vec<f64>,
}

impl Rows {
    pub(crate) fn of(x: &Tensor) -> Result<Self> {
        let (count, width) = match *x.shape() {
            [width] => (1, width),
            [count, width] => (count, width),
            _ => return Err(EvalError::InvalidInput { index: 0, reason: "a vector or a matrix is needed" }),
        };
        Ok(Self { count, width, values: read_as_f64(x)? })
    }

    pub(crate) fn row(&self, n: usize) -> &[f64] {
        &self.values[n * self.width..(n + 1) * self.width]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[f64]> {
        (0..self.count).map(|n| self.row(n))
    }
}

/// An attribute that must be as long as something else.
pub(crate) fn long_enough<T>(list: &[T], len: usize, name: &'static str) -> Result<()> {
    if list.len() == len {
        return Ok(());
    }
    Err(EvalError::InvalidAttribute { name, reason: "it is not as long as the others need it to be" })
}
