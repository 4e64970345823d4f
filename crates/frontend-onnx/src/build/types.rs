//! Which element types scalar operations take.
//!
//! The operators' imports need not ask: what a body computes is checked here, before it enters the graph.

use super::Result;
use crate::error::Problem;
use crate::known::is_computable;
use infc_ir::entity::ScalarId;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, ScalarOp, UnaryOp};
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
