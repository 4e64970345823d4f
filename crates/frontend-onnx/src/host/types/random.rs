//! Random numbers.

use super::Typing;
use crate::build::Result;
use crate::error::Problem;
use crate::tensor_proto::dtype_from_onnx;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::DType;

/// The element type that the attribute `dtype` names.
pub(super) fn dtype(t: &Typing<'_, '_>, default: DType) -> Result<DType> {
    let Some(number) = t.call.int("dtype")? else { return Ok(default) };
    i32::try_from(number).ok().and_then(dtype_from_onnx).ok_or_else(|| Problem::InvalidAttribute {
        attribute: "dtype",
        expected: "an element type",
        found: number.to_string(),
    })
}

pub(super) fn given(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let invalid = |found: String| Problem::InvalidAttribute { attribute: "shape", expected: "extents", found };
    let shape = t.call.ints("shape")?.ok_or_else(|| invalid("none".to_owned()))?;
    if let Some(negative) = shape.iter().find(|&&extent| extent < 0) {
        return Err(invalid(negative.to_string()));
    }
    let shape = shape.iter().map(|&extent| Dim::constant(extent)).collect();
    Ok(vec![TensorType::new(dtype(t, DType::F32)?, shape)])
}

pub(super) fn like(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    Ok(vec![TensorType::new(dtype(t, x.dtype())?, x.shape().to_vec())])
}

/// What it keeps, and which elements that is.
pub(super) fn dropout(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    Ok(vec![x.ty().clone(), TensorType::new(DType::Bool, x.shape().to_vec())])
}

pub(super) fn multinomial(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let rows = t.call.input(0)?.shape().first().cloned().unwrap_or_else(|| Dim::constant(1));
    let samples = Dim::constant(t.call.int_or("sample_size", 1)?.max(0));
    Ok(vec![TensorType::new(dtype(t, DType::I32)?, vec![rows, samples])])
}
