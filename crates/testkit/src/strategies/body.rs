//! Well-typed scalar bodies.

use super::Choices;
use infc_ir::entity::ScalarId;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};
use infc_tensor::DType;

/// Types of values.
pub(super) const DTYPES: [DType; 7] =
    [DType::F32, DType::I32, DType::I64, DType::U8, DType::F16, DType::F64, DType::I8];

/// Adds random operations over what is there until a value of the type results.
///
/// `leaf` makes a leaf of the wanted type.
pub(super) fn value(
    c: &mut Choices,
    body: &mut Body,
    dtype: DType,
    depth: usize,
    leaf: &mut dyn FnMut(&mut Choices, &mut Body, DType) -> ScalarId,
) -> ScalarId {
    if depth == 0 {
        return leaf(c, body, dtype);
    }
    let float = dtype.is_float();
    match c.pick(8) {
        0 => leaf(c, body, dtype),
        1 => body.push(infc_ir::scalar::ScalarOp::Const(constant(c, dtype))),
        2 => {
            let a = value(c, body, dtype, depth - 1, leaf);
            let op = if float && c.is_exact() {
                c.of(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Floor])
            } else if float {
                c.of(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Floor, UnaryOp::Erf])
            } else {
                c.of(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not, UnaryOp::Sign])
            };
            body.unary(op, a)
        }
        3 | 4 => {
            let a = value(c, body, dtype, depth - 1, leaf);
            let b = if c.once_in(4) { a } else { value(c, body, dtype, depth - 1, leaf) };
            let op = if float && c.is_exact() {
                c.of(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Max, BinaryOp::Min])
            } else if float || c.once_in(2) {
                c.of(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min])
            } else {
                c.of(&[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor, BinaryOp::Div, BinaryOp::Mod, BinaryOp::Shr])
            };
            body.binary(op, a, b)
        }
        5 => {
            let other = c.of(&[DType::F32, DType::I32, DType::F64]);
            let a = value(c, body, other, depth - 1, leaf);
            if !float && other.is_float() {
                // Other conversions of large floats to integers differ between machines.
                return body.push(infc_ir::scalar::ScalarOp::CastSaturating(dtype, a));
            }
            body.cast(dtype, a)
        }
        6 => {
            let (a, b) = (value(c, body, dtype, depth - 1, leaf), value(c, body, dtype, depth - 1, leaf));
            let condition = body.compare(c.of(&[CompareOp::Lt, CompareOp::Ge, CompareOp::Eq]), a, b);
            let otherwise = value(c, body, dtype, depth - 1, leaf);
            body.select(condition, a, otherwise)
        }
        _ => {
            let a = leaf(c, body, dtype);
            body.binary(if float && c.is_exact() { BinaryOp::Add } else { BinaryOp::Mul }, a, a)
        }
    }
}

/// A number of the type.
pub(super) fn constant(c: &mut Choices, dtype: DType) -> Const {
    match dtype {
        DType::Bool => Const::from_i64(dtype, c.between(0, 1)),
        _ if dtype.is_float() => Const::from_f64(dtype, c.between(-20, 20) as f64 / 8.0),
        DType::U8 => Const::from_i64(dtype, c.between(0, 20)),
        _ => Const::from_i64(dtype, c.between(-10, 10)),
    }
}

/// A fold over so many values of a type.
pub(super) fn reducer(c: &mut Choices, dtype: DType, components: usize) -> Reducer {
    let zero = Const::zero(dtype);
    if components == 1 {
        let start = constant(c, dtype);
        return match c.pick(3) {
            0 => Reducer::sum(dtype),
            1 => Reducer::binary(BinaryOp::Max, start),
            _ => Reducer::binary(BinaryOp::Min, start),
        };
    }
    // Every component on its own, with one that follows another's choice.
    let mut combine = Body::default();
    let n = components as u8;
    let mut results = Vec::new();
    for i in 0..n {
        let (a, e) = (combine.param(i, dtype), combine.param(n + i, dtype));
        results.push(match i {
            0 => combine.binary(BinaryOp::Max, a, e),
            1 => {
                let (first, other) = (combine.param(0, dtype), combine.param(n, dtype));
                let better = combine.compare(CompareOp::Lt, first, other);
                combine.select(better, e, a)
            }
            _ => combine.binary(BinaryOp::Add, a, e),
        });
    }
    Reducer { init: vec![zero; components], combine, results }
}
