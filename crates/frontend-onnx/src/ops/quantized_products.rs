//! Products of quantised operands: `MatMulInteger`, `ConvInteger`, `QLinearMatMul`, `QLinearConv`.
//!
//! All are a contraction in i32 of operands without their zero points, so that padding is zero. What `QLinear*` adds is
//! the requantisation: the sum times `x_scale·w_scale / y_scale` in f32, rounded half to even, shifted, saturated. Operands of
//! `QLinearMatMul` may be floats of a byte (opset 21), which are multiplied in f32.

use super::Operator;
use super::conv::{add_bias, convolve, require_same_rank};
use super::matmul::product;
use super::quantize::{centered, require_integer, saturated, some_zero};
use crate::build::{Builder, Result, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::BinaryOp;
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("MatMulInteger", 10, |c| Ok(vec![matmul_sums(c, [0, 2], [1, 3])?])),
    Operator::new("ConvInteger", 10, |c| {
        let x = c.input(0)?;
        Ok(vec![conv_sums(c, x, 2, [1, 3])?])
    }),
    Operator::new("QLinearMatMul", 10, qlinear_matmul),
    Operator::new("QLinearConv", 10, |c| {
        let x = c.input(0)?;
        Ok(vec![qlinear_conv_of(c, x)?])
    }),
];

/// A quantised operand without its zero point, which broadcasts to it. Without one it stays as narrow as it is.
pub(super) fn without_zero(build: &mut Builder, x: &Tracked, zero: Option<Tracked>) -> Result<Tracked> {
    require_integer(x)?;
    let Some(zero) = some_zero(zero) else { return Ok(x.clone()) };
    // Were small constants computed now, passes could not see that they are quantised.
    let x = if x.constant().is_some() { build.as_data(x)? } else { x.clone() };
    build.map_over(x.shape().to_vec(), &[&x, &zero], |body, p| centered(body, p[0], Some(p[1])))
}

/// A scale or zero point of an operand of a matrix product, ready to broadcast to the operand or the product.
///
/// A vector belongs to the rows of the left operand, to the columns of the right one.
pub(super) fn of_lines(build: &mut Builder, parameter: &Tracked, rank: usize, rows: bool) -> Result<Tracked> {
    match parameter.shape() {
        [extent] if extent.is_const(1) => build.reshape(parameter, &[]),
        [extent] if rows && rank > 1 => {
            let column = [extent.clone(), Dim::constant(1)];
            build.reshape(parameter, &column)
        }
        shape if shape.len() > rank => Err(mismatch(format!("at most {rank} axes"), shape)),
        _ => Ok(parameter.clone()),
    }
}

/// The sums of a matrix product; each operand is given by the inputs that hold it and its zero point.
pub(super) fn matmul_sums(call: &mut Call<'_>, left: [usize; 2], right: [usize; 2]) -> Result<Tracked> {
    let mut operand = |[x, zero]: [usize; 2], rows: bool| -> Result<Tracked> {
        let (x, zero) = (call.build.widened(&call.input(x)?)?, call.optional(zero));
        let zero = zero.map(|zero| of_lines(call.build, &zero, x.rank(), rows)).transpose()?;
        without_zero(call.build, &x, zero)
    };
    let (a, b) = (operand(left, true)?, operand(right, false)?);
    product(call.build, &a, &b, DType::I32)
}

/// The sums of a convolution of `x`, whose zero point input `x_zero` holds, with weights, given by the inputs that hold
/// them and their zero points.
fn conv_sums(call: &mut Call<'_>, x: Tracked, x_zero: usize, weights: [usize; 2]) -> Result<Tracked> {
    let w = call.input(weights[0])?;
    require_same_rank(&x, &w)?;
    let x_zero = call.optional(x_zero).map(|zero| call.build.reshape(&zero, &[])).transpose()?;
    let w_zero = call.optional(weights[1]).map(|zero| per_channel(call, &zero, 0, &w)).transpose()?;
    let (x, w) = (without_zero(call.build, &x, x_zero)?, without_zero(call.build, &w, w_zero)?);
    convolve(call, &x, &w, DType::I32)
}

/// One value, or one per channel, along an axis of `like`.
fn per_channel(call: &mut Call<'_>, parameter: &Tracked, axis: usize, like: &Tracked) -> Result<Tracked> {
    match parameter.shape() {
        [extent] if !extent.is_const(1) => call.build.along_axis(parameter, axis, like.rank()),
        shape if shape.len() > 1 => Err(mismatch("one value, or one per output channel", shape)),
        _ => call.build.reshape(parameter, &[]),
    }
}

/// What a sum is multiplied by: `x_scale·w_scale / y_scale`.
pub(super) fn multiplier(build: &mut Builder, x: &Tracked, w: &Tracked, y: &Tracked) -> Result<Tracked> {
    build.map(&[x, w, y], |body, p| {
        let [x, w, y] = [p[0], p[1], p[2]].map(|s| body.cast(DType::F32, s));
        let product = body.binary(BinaryOp::Mul, x, w);
        body.binary(BinaryOp::Div, product, y)
    })
}

/// `saturate(round(sum · multiplier) + zero)` in the zero point's type.
pub(super) fn requantized(build: &mut Builder, sum: &Tracked, multiplier: &Tracked, zero: &Tracked) -> Result<Tracked> {
    let dtype = zero.dtype();
    if !dtype.is_int() || dtype.size_bits() < 8 {
        return Err(Problem::UnsupportedType { expected: "integers of at least 8 bits", found: dtype });
    }
    let zero = some_zero(Some(zero.clone()));
    let inputs: Vec<&Tracked> = [sum, multiplier].into_iter().chain(&zero).collect();
    build.map_over(sum.shape().to_vec(), &inputs, |body, p| {
        let sum = body.cast(DType::F32, p[0]);
        let scaled = body.binary(BinaryOp::Mul, sum, p[1]);
        saturated(body, scaled, p.get(2).copied(), dtype)
    })
}

/// The sums of a product of which a factor has floats of a byte, in f32.
fn float_sums(call: &mut Call<'_>, left: [usize; 2], right: [usize; 2]) -> Result<Tracked> {
    let mut operand = |[x, zero]: [usize; 2], rows: bool| -> Result<Tracked> {
        let x = call.input(x)?;
        let x = call.build.cast(&x, DType::F32)?;
        let Some(zero) = some_zero(call.optional(zero)) else { return Ok(x) };
        let zero = call.build.cast(&zero, DType::F32)?;
        let zero = of_lines(call.build, &zero, x.rank(), rows)?;
        call.build.map_over(x.shape().to_vec(), &[&x, &zero], |body, p| body.binary(BinaryOp::Sub, p[0], p[1]))
    };
    let (a, b) = (operand(left, true)?, operand(right, false)?);
    product(call.build, &a, &b, DType::F32)
}

/// A sum times the multiplier, shifted and converted to the zero point's type, floats of a byte.
fn refloated(build: &mut Builder, sum: &Tracked, multiplier: &Tracked, zero: &Tracked) -> Result<Tracked> {
    let dtype = zero.dtype();
    let zero = build.cast(zero, DType::F32)?;
    let scaled = build.map_over(sum.shape().to_vec(), &[sum, multiplier, &zero], |body, p| {
        let sum = body.cast(DType::F32, p[0]);
        let scaled = body.binary(BinaryOp::Mul, sum, p[1]);
        body.binary(BinaryOp::Add, scaled, p[2])
    })?;
    build.cast(&scaled, dtype)
}

fn qlinear_matmul(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b, zero) = (call.input(0)?, call.input(3)?, call.input(7)?);
    let sum = if a.dtype().is_float() || b.dtype().is_float() { float_sums } else { matmul_sums };
    let sums = sum(call, [0, 2], [3, 5])?;
    let rank = sums.rank();
    let mut lines = |index: usize, rows: bool| -> Result<Tracked> {
        let parameter = call.input(index)?;
        of_lines(call.build, &parameter, rank, rows)
    };
    let [a, b, y, zero_lines] = [lines(1, true)?, lines(4, false)?, lines(6, true)?, lines(7, true)?];
    let multiplier = multiplier(call.build, &a, &b, &y)?;
    let quantise = if zero.dtype().is_float() { refloated } else { requantized };
    Ok(vec![quantise(call.build, &sums, &multiplier, &zero_lines)?])
}

/// `QLinearConv` of `x`, which stands for input 0, with channels second.
pub(super) fn qlinear_conv_of(call: &mut Call<'_>, x: Tracked) -> Result<Tracked> {
    let sums = conv_sums(call, x, 2, [3, 5])?;
    let sums = add_bias(call, &sums, 8)?;
    let mut scalar = |index: usize| -> Result<Tracked> {
        let parameter = call.input(index)?;
        call.build.reshape(&parameter, &[])
    };
    let [x, y, zero] = [scalar(1)?, scalar(6)?, scalar(7)?];
    let w = call.input(4)?;
    let w = per_channel(call, &w, 1, &sums)?;
    let multiplier = multiplier(call.build, &x, &w, &y)?;
    requantized(call.build, &sums, &multiplier, &zero)
}
