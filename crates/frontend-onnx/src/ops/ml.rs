//! Classical models on tables of features: operators of `ai.onnx.ml` that kernels compute.

mod features;
mod interval;
mod linear;
mod post;
mod svm;
mod tables;
mod trees;
mod walk;
mod words;

use super::Operator;
use crate::build::{Builder, Result, mismatch};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_tensor::DType;

pub(super) const OPERATORS: &[&[Operator]] =
    &[features::OPERATORS, linear::OPERATORS, svm::OPERATORS, trees::OPERATORS];

/// A table of rows of features, as floats: a matrix, or a vector as its one row.
///
/// Integers are compared as `f64`, half types as `f32`.
fn table(build: &mut Builder, x: &Tracked) -> Result<Tracked> {
    let x = match x.shape() {
        [features] => build.reshape(x, &[Dim::constant(1), features.clone()])?,
        [_, _] => x.clone(),
        other => return Err(mismatch("a vector or a matrix", other)),
    };
    let dtype = match x.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::F64 | DType::I32 | DType::I64 => DType::F64,
        found => return Err(Problem::UnsupportedType { expected: "numbers", found }),
    };
    build.cast(&x, dtype)
}
