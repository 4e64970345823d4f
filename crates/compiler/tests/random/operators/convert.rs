//! Conversions between element types, quantisation among them.

use super::Drawer;
use crate::draft::{Candidate, Draft, is_float};
use crate::random::cast as cast_tensor;
use infc_tensor::{DType, Tensor};

pub(super) const DRAWERS: &[Drawer] = &[cast, cast, cast, cast_like, quantize, dequantize, quantize_dynamically];

const TYPES: [DType; 23] = [
    DType::F32,
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::Bool,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::F4E2M1,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
];

fn cast(d: &mut Draft) -> Option<Candidate> {
    let x = d.any_type(|_| true)?;
    let to = *d.random.pick(&TYPES);
    let code = infc_reference::dtypes::to_onnx(to)?;
    let candidate = Candidate::new("Cast", &[x]).with("to", code);
    Some(if is_float(to) && to.size_bits() < 64 { candidate } else { candidate.exact() })
}

fn cast_like(d: &mut Draft) -> Option<Candidate> {
    let (x, like) = (d.any(|_| true)?, d.any(|_| true)?);
    let candidate = Candidate::new("CastLike", &[x, like]);
    Some(if is_float(d.dtype(like)) { candidate } else { candidate.exact() })
}

/// A scale, and a zero point of the type.
fn scale(d: &mut Draft, float: DType, dtype: DType) -> (usize, usize) {
    let scale = *d.random.pick(&[0.0625, 0.125, 0.25, 0.5]);
    let scale = d.constant(&cast_tensor(&Tensor::scalar(scale), float));
    (scale, d.weight(dtype, &[]))
}

fn quantize(d: &mut Draft) -> Option<Candidate> {
    let x = d.float()?;
    let (float, dtype) = (d.dtype(x), *d.random.pick(&[DType::I8, DType::U8]));
    let (scale, zero) = scale(d, float, dtype);
    Some(Candidate::new("QuantizeLinear", &[x, scale, zero]).exact())
}

fn dequantize(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| matches!(t.dtype(), DType::I8 | DType::U8))?;
    let dtype = d.dtype(x);
    let (scale, zero) = scale(d, DType::F32, dtype);
    Some(Candidate::new("DequantizeLinear", &[x, scale, zero]))
}

fn quantize_dynamically(d: &mut Draft) -> Option<Candidate> {
    let x = d.any(|t| t.dtype() == DType::F32 && t.len_elems() > 0)?;
    Some(Candidate::new("DynamicQuantizeLinear", &[x]).outputs(3).exact())
}
