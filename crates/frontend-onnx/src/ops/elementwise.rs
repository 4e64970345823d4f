//! Arithmetic, comparison, logic and conversion, element by element.
//!
//! Inputs broadcast as in NumPy; before opset 7 only the second one does, along axes that the node may name. Half types
//! are computed in f32 and rounded once.

use super::Operator;
use crate::build::{Result, Rounding, ScaleRounding, mismatch};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Scalar, UnaryOp};
use infc_tensor::{DType, DTypeClass};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Add", 1, |c| binary(c, BinaryOp::Add)),
    Operator::new("Sub", 1, |c| binary(c, BinaryOp::Sub)),
    Operator::new("Mul", 1, |c| binary(c, BinaryOp::Mul)),
    Operator::new("Div", 1, |c| binary(c, BinaryOp::Div)),
    Operator::new("And", 1, |c| binary(c, BinaryOp::And)),
    Operator::new("Or", 1, |c| binary(c, BinaryOp::Or)),
    Operator::new("Xor", 1, |c| binary(c, BinaryOp::Xor)),
    Operator::new("BitwiseAnd", 18, |c| binary(c, BinaryOp::And)),
    Operator::new("BitwiseOr", 18, |c| binary(c, BinaryOp::Or)),
    Operator::new("BitwiseXor", 18, |c| binary(c, BinaryOp::Xor)),
    Operator::new("BitwiseNot", 18, |c| unary(c, UnaryOp::Not)),
    Operator::new("BitShift", 11, bit_shift),
    Operator::new("Mod", 10, modulo),
    Operator::new("Pow", 1, power),
    Operator::new("Equal", 1, |c| compare(c, CompareOp::Eq)),
    Operator::new("Less", 1, |c| compare(c, CompareOp::Lt)),
    Operator::new("Greater", 1, |c| compare(c, CompareOp::Gt)),
    Operator::new("LessOrEqual", 12, |c| compare(c, CompareOp::Le)),
    Operator::new("GreaterOrEqual", 12, |c| compare(c, CompareOp::Ge)),
    Operator::new("Min", 1, |c| fold(c, BinaryOp::Min)),
    Operator::new("Max", 1, |c| fold(c, BinaryOp::Max)),
    Operator::new("Sum", 1, |c| fold(c, BinaryOp::Add)),
    Operator::new("Mean", 1, mean),
    Operator::new("Not", 1, |c| unary(c, UnaryOp::Not)),
    Operator::new("Abs", 1, |c| unary(c, UnaryOp::Abs)),
    Operator::new("Neg", 1, |c| unary(c, UnaryOp::Neg)),
    Operator::new("Sign", 9, |c| unary(c, UnaryOp::Sign)),
    Operator::new("Sqrt", 1, |c| float_unary(c, UnaryOp::Sqrt)),
    Operator::new("Reciprocal", 1, |c| float_unary(c, UnaryOp::Reciprocal)),
    Operator::new("Exp", 1, |c| float_unary(c, UnaryOp::Exp)),
    Operator::new("Log", 1, |c| float_unary(c, UnaryOp::Log)),
    Operator::new("Sin", 7, |c| float_unary(c, UnaryOp::Sin)),
    Operator::new("Cos", 7, |c| float_unary(c, UnaryOp::Cos)),
    Operator::new("Tan", 7, |c| float_unary(c, UnaryOp::Tan)),
    Operator::new("Asin", 7, |c| float_unary(c, UnaryOp::Asin)),
    Operator::new("Acos", 7, |c| float_unary(c, UnaryOp::Acos)),
    Operator::new("Atan", 7, |c| float_unary(c, UnaryOp::Atan)),
    Operator::new("Sinh", 9, |c| float_unary(c, UnaryOp::Sinh)),
    Operator::new("Cosh", 9, |c| float_unary(c, UnaryOp::Cosh)),
    Operator::new("Asinh", 9, |c| float_unary(c, UnaryOp::Asinh)),
    Operator::new("Acosh", 9, |c| float_unary(c, UnaryOp::Acosh)),
    Operator::new("Atanh", 9, |c| float_unary(c, UnaryOp::Atanh)),
    Operator::new("Tanh", 1, |c| float_unary(c, UnaryOp::Tanh)),
    Operator::new("Sigmoid", 1, |c| float_unary(c, UnaryOp::Sigmoid)),
    Operator::new("Erf", 9, |c| float_unary(c, UnaryOp::Erf)),
    Operator::new("Floor", 1, |c| float_unary(c, UnaryOp::Floor)),
    Operator::new("Ceil", 1, |c| float_unary(c, UnaryOp::Ceil)),
    Operator::new("Round", 11, |c| float_unary(c, UnaryOp::Round)),
    Operator::new("IsNaN", 9, |c| float_unary(c, UnaryOp::IsNan)),
    Operator::new("IsInf", 10, is_inf),
    Operator::new("Clip", 1, clip),
    Operator::new("Cast", 1, cast),
    Operator::new("CastLike", 15, cast_like),
    Operator::new("BitCast", 26, bit_cast),
    Operator::new("Where", 9, select),
];

pub(super) fn require_float(x: &Tracked) -> Result<()> {
    if matches!(x.dtype(), DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
        return Ok(());
    }
    Err(Problem::UnsupportedType { expected: "floats", found: x.dtype() })
}

fn require_same(a: &Tracked, b: &Tracked) -> Result<()> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(Problem::TypeMismatch { left: a.dtype(), right: b.dtype() })
}

fn unary(call: &mut Call<'_>, op: UnaryOp) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    Ok(vec![call.build.compute(&[&x], |body, p| body.unary(op, p[0]))?])
}

fn float_unary(call: &mut Call<'_>, op: UnaryOp) -> Result<Vec<Tracked>> {
    require_float(&call.input(0)?)?;
    unary(call, op)
}

/// The operands of a binary operator, which broadcast as in NumPy.
///
/// Before opset 7 the attribute `axis` could say with which axes of the first operand those of the second one match:
/// the ones from there on, instead of the last ones.
fn operands(call: &mut Call<'_>) -> Result<(Tracked, Tracked)> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let aligned = call.opset < 7 && call.flag("broadcast", false)?;
    let Some(first) = call.int("axis")?.filter(|_| aligned) else { return Ok((a, b)) };
    let first = axis(first, a.rank())?;
    let Some(behind) = a.rank().checked_sub(first + b.rank()) else {
        return Err(mismatch(format!("at most {} axes, those from axis {first} on", a.rank() - first), b.shape()));
    };
    let shape = [b.shape(), &vec![Dim::constant(1); behind]].concat();
    let b = call.build.reshape(&b, &shape)?;
    Ok((a, b))
}

fn binary(call: &mut Call<'_>, op: BinaryOp) -> Result<Vec<Tracked>> {
    let (a, b) = operands(call)?;
    require_same(&a, &b)?;
    Ok(vec![call.build.compute(&[&a, &b], |body, p| body.binary(op, p[0], p[1]))?])
}

fn compare(call: &mut Call<'_>, op: CompareOp) -> Result<Vec<Tracked>> {
    let (a, b) = operands(call)?;
    require_same(&a, &b)?;
    Ok(vec![call.build.map(&[&a, &b], |body, p| body.compare(op, p[0], p[1]))?])
}

/// How many inputs one map folds; more are folded by several.
const FOLDED_AT_ONCE: usize = 16;

fn fold_all(call: &mut Call<'_>, op: BinaryOp, finish: impl Fn(&mut Body, ScalarId) -> ScalarId) -> Result<Tracked> {
    let inputs = call.variadic()?;
    let mut rest: Vec<&Tracked> = inputs.iter().collect();
    rest.iter().try_for_each(|t| require_same(&inputs[0], t))?;
    let mut sum: Option<Tracked> = None;
    loop {
        let now: Vec<&Tracked> = rest.drain(..rest.len().min(FOLDED_AT_ONCE)).collect();
        let last = rest.is_empty();
        let all: Vec<&Tracked> = sum.iter().chain(now).collect();
        let folded = call.build.compute(&all, |body, p| {
            let folded = p[1..].iter().fold(p[0], |a, &b| body.binary(op, a, b));
            if last { finish(body, folded) } else { folded }
        })?;
        if last {
            return Ok(folded);
        }
        sum = Some(folded);
    }
}

fn fold(call: &mut Call<'_>, op: BinaryOp) -> Result<Vec<Tracked>> {
    if call.variadic()?.len() == 1 {
        return Ok(vec![call.input(0)?]);
    }
    Ok(vec![fold_all(call, op, |_, x| x)?])
}

fn mean(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let count = call.variadic()?.len() as f64;
    let divide = |body: &mut Body, x: ScalarId| {
        let count = body.constant(body.dtype(x), count);
        body.binary(BinaryOp::Div, x, count)
    };
    Ok(vec![fold_all(call, BinaryOp::Add, divide)?])
}

/// Shifting by a negative distance, or by the width or more, leaves only the sign of what is shifted right, else 0.
fn bit_shift(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let direction = call.string("direction", "")?;
    match direction.as_str() {
        "LEFT" => binary(call, BinaryOp::Shl),
        "RIGHT" if call.input(0)?.dtype().class() == DTypeClass::Signed => {
            // Shr gives 0 for such a distance; the greatest distance within the width leaves the sign.
            let (a, b) = (call.input(0)?, call.input(1)?);
            require_same(&a, &b)?;
            Ok(vec![call.build.compute(&[&a, &b], |body, p| {
                let dtype = body.dtype(p[1]);
                let zero = body.constant(dtype, 0.0);
                let greatest = body.constant(dtype, (dtype.size_bits() - 1) as f64);
                let negative = body.compare(CompareOp::Lt, p[1], zero);
                let within = body.binary(BinaryOp::Min, p[1], greatest);
                let distance = body.select(negative, greatest, within);
                body.binary(BinaryOp::Shr, p[0], distance)
            })?])
        }
        "RIGHT" => binary(call, BinaryOp::Shr),
        _ => Err(Problem::InvalidAttribute { attribute: "direction", expected: "LEFT or RIGHT", found: direction }),
    }
}

fn modulo(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let op = if call.flag("fmod", false)? { BinaryOp::Rem } else { BinaryOp::Mod };
    binary(call, op)
}

/// `a^b` in the type of `a`; `b` may have another type (since opset 12).
fn power(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b) = operands(call)?;
    let square = b.as_uniform().and_then(crate::known::Item::scalar).is_some_and(|e| e.to_f64() == 2.0);
    let dtype = a.dtype();
    let result = call.build.compute(&[&a, &b], |body, p| {
        if square {
            return body.binary(BinaryOp::Mul, p[0], p[0]);
        }
        // An integer to a float power is computed as a float and truncated.
        let wide = if body.dtype(p[0]).is_float() { body.dtype(p[0]) } else { body.dtype(p[1]) };
        let (base, exponent) = (body.cast(wide, p[0]), body.cast(wide, p[1]));
        let power = body.binary(BinaryOp::Pow, base, exponent);
        body.cast(crate::build::compute_type(dtype), power)
    })?;
    Ok(vec![result])
}

fn is_inf(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let (negative, positive) = (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?);
    let result = call.build.map(&[&x], |body, p| {
        let infinite = body.unary(UnaryOp::IsInf, p[0]);
        let zero = body.constant(x.dtype(), 0.0);
        let side = match (negative, positive) {
            (true, true) => return infinite,
            (true, false) => body.compare(CompareOp::Lt, p[0], zero),
            (false, true) => body.compare(CompareOp::Gt, p[0], zero),
            (false, false) => body.constant(DType::Bool, 0.0),
        };
        body.binary(BinaryOp::And, infinite, side)
    })?;
    Ok(vec![result])
}

/// Bounds are attributes before opset 11, inputs from then on.
fn clip(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let bound = |call: &Call<'_>, name: &'static str, index: usize| -> Result<Option<Tracked>> {
        if call.opset < 11 {
            return Ok(call.float(name)?.map(|value| call.build.scalar(x.dtype(), value)));
        }
        let Some(bound) = call.optional(index) else { return Ok(None) };
        require_same(&x, &bound)?;
        Ok(Some(bound))
    };
    let (lo, hi) = (bound(call, "min", 1)?, bound(call, "max", 2)?);
    let result = match (&lo, &hi) {
        (None, None) => x.clone(),
        (Some(lo), None) => call.build.compute(&[&x, lo], |body, p| body.binary(BinaryOp::Max, p[0], p[1]))?,
        (None, Some(hi)) => call.build.compute(&[&x, hi], |body, p| body.binary(BinaryOp::Min, p[0], p[1]))?,
        (Some(lo), Some(hi)) => call.build.compute(&[&x, lo, hi], |body, p| {
            let raised = body.binary(BinaryOp::Max, p[0], p[1]);
            body.binary(BinaryOp::Min, raised, p[2])
        })?,
    };
    Ok(vec![result])
}

fn target_type(call: &Call<'_>) -> Result<DType> {
    call.dtype("to")?.ok_or(Problem::InvalidAttribute {
        attribute: "to",
        expected: "an element type",
        found: "missing".to_owned(),
    })
}

fn cast(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let to = target_type(call)?;
    let rounding = rounding(call)?;
    Ok(vec![call.build.cast_rounding(&x, to, rounding)?])
}

fn cast_like(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, like) = (call.input(0)?, call.input(1)?);
    let rounding = rounding(call)?;
    Ok(vec![call.build.cast_rounding(&x, like.dtype(), rounding)?])
}

/// What the attributes say of values that narrow floats do not have.
pub(super) fn rounding(call: &Call<'_>) -> Result<Rounding> {
    let mode = call.string("round_mode", "up")?;
    let scale = match mode.as_str() {
        "up" => ScaleRounding::Up,
        "down" => ScaleRounding::Down,
        "nearest" => ScaleRounding::Nearest,
        _ => {
            let expected = "up, down or nearest";
            return Err(Problem::InvalidAttribute { attribute: "round_mode", expected, found: mode });
        }
    };
    Ok(Rounding { saturate: call.flag("saturate", true)?, scale })
}

fn bit_cast(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let to = target_type(call)?;
    Ok(vec![call.build.bit_cast(&x, to)?])
}

fn select(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (c, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if c.dtype() != DType::Bool {
        return Err(Problem::UnsupportedType { expected: "bools", found: c.dtype() });
    }
    require_same(&a, &b)?;
    // A condition known everywhere chooses an input; only its shape still counts.
    let known = c.as_uniform().and_then(crate::known::Item::scalar).map(Scalar::is_true);
    let shape = call.build.broadcast_shape(&[c.shape(), a.shape(), b.shape()])?;
    let result = match known {
        Some(true) => call.build.broadcast(&a, &shape)?,
        Some(false) => call.build.broadcast(&b, &shape)?,
        None => call.build.map(&[&c, &a, &b], |body, p| body.select(p[0], p[1], p[2]))?,
    };
    Ok(vec![result])
}
