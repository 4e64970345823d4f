//! Which element types scalar operations take, and in which ones values are computed.
//!
//! The operators' imports need not ask: what a body computes is checked here, before it enters the graph.

use super::{Builder, Result};
use crate::error::Problem;
use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, ScalarOp, UnaryOp, is_computable};
use infc_tensor::DType;

/// Fails for types that no value of a graph can have.
pub(crate) fn check_storable(dtype: DType) -> Result<()> {
    if dtype.is_float() || dtype.is_int() || dtype == DType::Bool {
        return Ok(());
    }
    Err(Problem::UnsupportedType { expected: "integers, floats or bools", found: dtype })
}

/// Fails for types whose elements are only moved and converted.
pub(crate) fn check_computable(found: DType) -> Result<()> {
    if is_computable(found) {
        return Ok(());
    }
    Err(Problem::UnsupportedType { expected: "numbers of at least 8 bits, or floats of at least 16", found })
}

/// Fails if an operation does not exist for the type that it is applied to.
pub(crate) fn check_body(body: &Body) -> Result<()> {
    for (_, op) in body.ops.iter_enumerated() {
        match op {
            ScalarOp::Unary(op, a) => check_unary(*op, body.dtype(*a))?,
            ScalarOp::Binary(op, a, b) => {
                check_same(body, *a, *b)?;
                check_binary(*op, body.dtype(*a))?;
            }
            ScalarOp::Compare(op, a, b) => {
                check_same(body, *a, *b)?;
                if body.dtype(*a) == DType::Bool && !matches!(op, CompareOp::Eq | CompareOp::Ne) {
                    return Err(Problem::UnsupportedType { expected: "numbers", found: DType::Bool });
                }
            }
            ScalarOp::Select(_, a, b) => check_same(body, *a, *b)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_same(body: &Body, a: ScalarId, b: ScalarId) -> Result<()> {
    let (left, right) = (body.dtype(a), body.dtype(b));
    if left == right { Ok(()) } else { Err(Problem::TypeMismatch { left, right }) }
}

fn check_unary(op: UnaryOp, found: DType) -> Result<()> {
    let (takes, expected) = match op {
        UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign => (found != DType::Bool, "numbers"),
        UnaryOp::Not => (found == DType::Bool || found.is_int(), "integers or bools"),
        _ => (found.is_float(), "floats"),
    };
    if takes { Ok(()) } else { Err(Problem::UnsupportedType { expected, found }) }
}

fn check_binary(op: BinaryOp, found: DType) -> Result<()> {
    let (takes, expected) = match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => (found == DType::Bool || found.is_int(), "integers or bools"),
        BinaryOp::Shl | BinaryOp::Shr => (found.is_int(), "integers"),
        _ => (found != DType::Bool, "numbers"),
    };
    if takes { Ok(()) } else { Err(Problem::UnsupportedType { expected, found }) }
}

/// The type in which values of a type are computed: half types in f32.
pub(crate) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

impl Builder {
    /// The type of what lies between the operations of an operator that ONNX defines by others, where its inputs are of
    /// a type: that type if strict, so that half types are rounded wherever the definition names a value, else the one
    /// that is computed in.
    pub(crate) fn step_type(&self, dtype: DType) -> DType {
        if self.strict { dtype } else { compute_type(dtype) }
    }

    /// The type that such a definition's sums are made in: ONNX's reference implementation adds f16 in f32 and rounds
    /// once, but rounds every partial sum of bf16.
    pub(crate) fn sum_type(&self, dtype: DType) -> DType {
        if dtype == DType::BF16 { self.step_type(dtype) } else { compute_type(dtype) }
    }
}
