//! Operators on text.

use super::Typing;
use crate::build::{Result, mismatch};
use crate::error::Problem;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::DType;

pub(super) fn concat(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (a, b) = (t.call.input(0)?, t.call.input(1)?);
    let shape = t.call.build.broadcast_shape(&[a.shape(), b.shape()])?;
    Ok(vec![TensorType::new(DType::String, shape)])
}

/// Parts along a new axis, and how many there are.
pub(super) fn split(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let mut shape = x.shape().to_vec();
    shape.push(t.fresh(0, x.rank(), None));
    Ok(vec![TensorType::new(DType::String, shape), TensorType::new(DType::I64, x.shape().to_vec())])
}

/// What is left of a row, one element at least.
pub(super) fn normalize(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let mut shape = t.call.input(0)?.shape().to_vec();
    let axis = shape.len().checked_sub(1).ok_or_else(|| mismatch("a vector, or one row", &shape))?;
    let max = t.max_of(&shape[axis]).map(|max| max.max(1));
    shape[axis] = t.fresh(0, axis, max);
    Ok(vec![TensorType::new(DType::String, shape)])
}

pub(super) fn full_match(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![TensorType::new(DType::Bool, t.call.input(0)?.shape().to_vec())])
}

/// A column per n-gram.
pub(super) fn tf_idf(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let places = t.call.ints("ngram_indexes")?.unwrap_or_default();
    let last = places.iter().copied().max().unwrap_or(-1);
    let Some(width) = last.checked_add(1).filter(|&width| width >= 0) else {
        let found = last.to_string();
        return Err(Problem::InvalidAttribute { attribute: "ngram_indexes", expected: "places in the output", found });
    };
    let mut shape = x.shape().to_vec();
    if shape.pop().is_none() {
        return Err(mismatch("a vector or a matrix", x.shape()));
    }
    shape.push(Dim::constant(width));
    Ok(vec![TensorType::new(DType::F32, shape)])
}
