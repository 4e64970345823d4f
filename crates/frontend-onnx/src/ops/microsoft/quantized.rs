//! Quantised operators of ONNX Runtime's domain `com.microsoft`, as its `ContribOperators.md` describes them.
//!
//! `QLinear*` compute in f32 what the operators of the same name do to the real numbers behind the quantised ones, and
//! quantise the result.

use crate::build::{Builder, Result, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::ops::Operator;
use crate::ops::matmul::product;
use crate::ops::pool::{average, global_average, maximum};
use crate::ops::quantize::{
    centered, dequantize_linear, quantize_dynamically, quantize_linear, require_integer, saturated, some_zero,
};
use crate::ops::quantized_products::{matmul_sums, multiplier, of_lines, qlinear_conv_of, requantized, without_zero};
use crate::ops::reduce::mean;
use crate::ops::softmax::softmax;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::op::CompositeKind;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("QuantizeLinear", 1, quantize_linear),
    Operator::new("DequantizeLinear", 1, dequantize_linear),
    Operator::new("QLinearAdd", 1, |c| two_operands(c, BinaryOp::Add)),
    Operator::new("QLinearMul", 1, |c| two_operands(c, BinaryOp::Mul)),
    Operator::new("QLinearSoftmax", 1, |c| through_floats(c, softmax_of)),
    Operator::new("QLinearSigmoid", 1, |c| one_operand(c, |body, x| body.unary(UnaryOp::Sigmoid, x))),
    Operator::new("QLinearLeakyRelu", 1, qlinear_leaky_relu),
    Operator::new("QLinearAveragePool", 1, |c| pooled(c, average)),
    Operator::new("QLinearGlobalAveragePool", 1, |c| pooled(c, |c, x| global_average(c, &x))),
    Operator::new("QLinearReduceMean", 1, |c| through_floats(c, mean_of)),
    Operator::new("QLinearConv", 1, qlinear_conv),
    Operator::new("NhwcMaxPool", 1, nhwc_max_pool),
    Operator::new("QLinearConcat", 1, qlinear_concat),
    Operator::new("QLinearWhere", 1, qlinear_where),
    Operator::new("QGemm", 1, qgemm),
    Operator::new("MatMulIntegerToFloat", 1, matmul_integer_to_float),
    Operator::new("DynamicQuantizeMatMul", 1, dynamic_quantize_matmul),
    Operator::new("DynamicQuantizeLSTM", 1, crate::ops::recurrent::dynamic_quantize_lstm),
];

/// A scale and a zero point, both scalars.
struct Quantization {
    scale: Tracked,
    zero: Option<Tracked>,
}

impl Quantization {
    /// Of the inputs `index` and `index + 1`.
    fn of(call: &mut Call<'_>, index: usize) -> Result<Self> {
        let scale = call.input(index)?;
        if scale.dtype() != DType::F32 {
            return Err(Problem::UnsupportedType { expected: "f32", found: scale.dtype() });
        }
        let zero = some_zero(call.optional(index + 1));
        let zero = zero.map(|zero| call.build.reshape(&zero, &[])).transpose()?;
        Ok(Self { scale: call.build.reshape(&scale, &[])?, zero })
    }

    fn parameters(&self) -> impl Iterator<Item = &Tracked> {
        [&self.scale].into_iter().chain(&self.zero)
    }

    /// The parameters of a body in the order of [`Quantization::parameters`].
    fn take(&self, p: &mut &[ScalarId]) -> (ScalarId, Option<ScalarId>) {
        let count = self.parameters().count();
        let (own, rest) = p.split_at(count);
        *p = rest;
        (own[0], own.get(1).copied())
    }
}

/// A quantised operand: the inputs `index` to `index + 2`.
struct Operand {
    q: Tracked,
    by: Quantization,
}

impl Operand {
    fn of(call: &mut Call<'_>, index: usize) -> Result<Self> {
        let q = call.input(index)?;
        require_integer(&q)?;
        Ok(Self { q, by: Quantization::of(call, index + 1)? })
    }

    fn real(&self, body: &mut Body, p: &mut &[ScalarId]) -> ScalarId {
        let (q, rest) = p.split_at(1);
        *p = rest;
        let (scale, zero) = self.by.take(p);
        let steps = centered(body, q[0], zero);
        let steps = body.cast(DType::F32, steps);
        body.binary(BinaryOp::Mul, steps, scale)
    }
}

/// An element-wise function of other values and of the real numbers behind quantised operands, in this order, quantised
/// to the type of the first operand.
fn elementwise(
    build: &mut Builder,
    others: &[&Tracked],
    operands: &[Operand],
    to: &Quantization,
    f: impl FnOnce(&mut Body, &[ScalarId]) -> ScalarId,
) -> Result<Tracked> {
    let shapes: Vec<_> = others.iter().copied().chain(operands.iter().map(|o| &o.q)).map(Tracked::shape).collect();
    let shape = build.broadcast_shape(&shapes)?;
    let quantised = operands.iter().flat_map(|o| [&o.q].into_iter().chain(o.by.parameters()));
    let inputs: Vec<&Tracked> = others.iter().copied().chain(quantised).chain(to.parameters()).collect();
    build.map_over(shape, &inputs, |body, p| {
        let (others, mut p) = p.split_at(others.len());
        let mut values = others.to_vec();
        values.extend(operands.iter().map(|o| o.real(body, &mut p)));
        let y = f(body, &values);
        let (scale, zero) = to.take(&mut p);
        let quotient = body.binary(BinaryOp::Div, y, scale);
        saturated(body, quotient, zero, operands[0].q.dtype())
    })
}

fn one_operand(call: &mut Call<'_>, f: impl FnOnce(&mut Body, ScalarId) -> ScalarId) -> Result<Vec<Tracked>> {
    let (x, to) = (Operand::of(call, 0)?, Quantization::of(call, 3)?);
    Ok(vec![elementwise(call.build, &[], &[x], &to, |body, p| f(body, p[0]))?])
}

fn two_operands(call: &mut Call<'_>, op: BinaryOp) -> Result<Vec<Tracked>> {
    let (a, b, to) = (Operand::of(call, 0)?, Operand::of(call, 3)?, Quantization::of(call, 6)?);
    Ok(vec![elementwise(call.build, &[], &[a, b], &to, |body, p| body.binary(op, p[0], p[1]))?])
}

fn qlinear_where(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let condition = call.input(0)?;
    if condition.dtype() != DType::Bool {
        return Err(Problem::UnsupportedType { expected: "bools", found: condition.dtype() });
    }
    let (a, b, to) = (Operand::of(call, 1)?, Operand::of(call, 4)?, Quantization::of(call, 7)?);
    Ok(vec![elementwise(call.build, &[&condition], &[a, b], &to, |body, p| body.select(p[0], p[1], p[2]))?])
}

fn qlinear_leaky_relu(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let alpha = call.float_or("alpha", 0.01)?;
    one_operand(call, |body, x| {
        let alpha = body.constant(DType::F32, alpha);
        let below = body.binary(BinaryOp::Mul, x, alpha);
        let zero = body.constant(DType::F32, 0.0);
        let is_negative = body.compare(CompareOp::Lt, x, zero);
        body.select(is_negative, below, x)
    })
}

/// What `f` makes of the real numbers behind input 0, quantised.
fn through_floats(
    call: &mut Call<'_>,
    f: impl FnOnce(&mut Call<'_>, Tracked) -> Result<Tracked>,
) -> Result<Vec<Tracked>> {
    let (x, to) = (Operand::of(call, 0)?, Quantization::of(call, 3)?);
    let inputs: Vec<&Tracked> = [&x.q].into_iter().chain(x.by.parameters()).collect();
    let real = call.build.map_over(x.q.shape().to_vec(), &inputs, |body, mut p| x.real(body, &mut p))?;
    let y = f(call, real)?;
    let inputs: Vec<&Tracked> = [&y].into_iter().chain(to.parameters()).collect();
    let quantized = call.build.map_over(y.shape().to_vec(), &inputs, |body, p| {
        let (scale, zero) = to.take(&mut &p[1..]);
        let quotient = body.binary(BinaryOp::Div, p[0], scale);
        saturated(body, quotient, zero, x.q.dtype())
    })?;
    Ok(vec![quantized])
}

fn pooled(call: &mut Call<'_>, pool: fn(&mut Call<'_>, Tracked) -> Result<Tracked>) -> Result<Vec<Tracked>> {
    let channels_last = call.flag("channels_last", false)?;
    through_floats(call, |call, x| if channels_last { with_channels_last(call, &x, pool) } else { pool(call, x) })
}

/// What `f` makes of `x`, whose channels are last, behind the spatial axes, as those of the result are.
fn with_channels_last(
    call: &mut Call<'_>,
    x: &Tracked,
    f: impl FnOnce(&mut Call<'_>, Tracked) -> Result<Tracked>,
) -> Result<Tracked> {
    let rank = x.rank();
    if rank < 3 {
        return f(call, x.clone());
    }
    let channels_second: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let back: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = call.build.transpose(x, &channels_second)?;
    let y = f(call, x)?;
    call.build.transpose(&y, &back)
}

/// `QLinearConv`, as of ONNX but for `channels_last`; weights are as of ONNX in either order.
fn qlinear_conv(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let channels_last = call.flag("channels_last", false)?;
    let y = if channels_last { with_channels_last(call, &x, qlinear_conv_of) } else { qlinear_conv_of(call, x) };
    Ok(vec![y?])
}

/// `NhwcMaxPool`: `MaxPool` with channels last, of bytes.
fn nhwc_max_pool(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    Ok(vec![with_channels_last(call, &x, maximum)?])
}

/// Along one axis, or before opset 13 of the standard's operator over all from it on.
fn softmax_of(call: &mut Call<'_>, x: Tracked) -> Result<Tracked> {
    let axis = call.axis("axis", -1, x.rank())?;
    let axes: Vec<usize> = if call.int_or("opset", 13)? < 13 { (axis..x.rank()).collect() } else { vec![axis] };
    let kind = CompositeKind::Softmax;
    call.build.composite(kind, &[&x], |build, inputs| softmax(build, &inputs[0], &axes, kind, false))
}

/// `ReduceMean` with its axes as an attribute.
fn mean_of(call: &mut Call<'_>, x: Tracked) -> Result<Tracked> {
    call.inputs = vec![Some(x)];
    mean(call)?.pop().ok_or(Problem::MissingInput { index: 0 })
}

/// First the scale and zero point of the result, then operands with theirs.
fn qlinear_concat(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let to = Quantization::of(call, 0)?;
    let mut parts = Vec::new();
    for index in (2..call.inputs.len()).step_by(3) {
        let operand = Operand::of(call, index)?;
        parts.push(elementwise(call.build, &[], &[operand], &to, |_, p| p[0])?);
    }
    let first = parts.first().ok_or(Problem::MissingInput { index: 2 })?;
    let axis = call.axis("axis", 0, first.rank())?;
    Ok(vec![call.build.concat(&parts.iter().collect::<Vec<_>>(), axis)?])
}

/// `sums · a_scale · b_scale (+ bias)`
pub(super) fn scaled(
    build: &mut Builder,
    sums: &Tracked,
    scales: [&Tracked; 2],
    bias: Option<Tracked>,
) -> Result<Tracked> {
    let inputs: Vec<&Tracked> = [sums].into_iter().chain(scales).chain(&bias).collect();
    build.map_over(sums.shape().to_vec(), &inputs, |body, p| {
        let sum = body.cast(DType::F32, p[0]);
        let scale = body.binary(BinaryOp::Mul, p[1], p[2]);
        let scaled = body.binary(BinaryOp::Mul, sum, scale);
        p.get(3).map_or(scaled, |&bias| body.binary(BinaryOp::Add, scaled, bias))
    })
}

/// `alpha·(A·B + C)`, A and B maybe transposed, of quantised matrices and integers C: real numbers, or quantised if the
/// result has a scale.
fn qgemm(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let mut operand = |index: usize, flag: &'static str, rows: bool| -> Result<(Tracked, Tracked)> {
        let q = call.build.widened(&call.input(index)?)?;
        if q.rank() != 2 {
            return Err(mismatch("a matrix", q.shape()));
        }
        let q = if call.flag(flag, false)? { call.build.transpose(&q, &[1, 0])? } else { q };
        let scale = call.input(index + 1)?;
        let scale = of_lines(call.build, &scale, q.rank(), rows)?;
        let zero = call.optional(index + 2).map(|zero| of_lines(call.build, &zero, q.rank(), rows)).transpose()?;
        Ok((without_zero(call.build, &q, zero)?, scale))
    };
    let ((a, a_scale), (b, b_scale)) = (operand(0, "transA", true)?, operand(3, "transB", false)?);
    let mut sums = product(call.build, &a, &b, DType::I32)?;
    if let Some(c) = call.optional(6) {
        if c.dtype() != DType::I32 {
            return Err(Problem::UnsupportedType { expected: "i32", found: c.dtype() });
        }
        let shape = sums.shape().to_vec();
        sums = call.build.map_over(shape, &[&sums, &c], |body, p| body.binary(BinaryOp::Add, p[0], p[1]))?;
    }
    let alpha = call.float_or("alpha", 1.0)?;
    let alpha = call.build.scalar(DType::F32, alpha);
    let a_scale = call.build.map(&[&a_scale, &alpha], |body, p| body.binary(BinaryOp::Mul, p[0], p[1]))?;
    let Some(y_scale) = call.optional(7) else {
        return Ok(vec![scaled(call.build, &sums, [&a_scale, &b_scale], None)?]);
    };
    let (y_scale, y_zero) = (call.build.reshape(&y_scale, &[])?, call.input(8)?);
    let y_zero = call.build.reshape(&y_zero, &[])?;
    let multiplier = multiplier(call.build, &a_scale, &b_scale, &y_scale)?;
    Ok(vec![requantized(call.build, &sums, &multiplier, &y_zero)?])
}

fn matmul_integer_to_float(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let sums = matmul_sums(call, [0, 4], [1, 5])?;
    let (a, b) = (call.input(2)?, call.input(3)?);
    let a = of_lines(call.build, &a, sums.rank(), true)?;
    let b = of_lines(call.build, &b, sums.rank(), false)?;
    let bias = call.optional(6);
    Ok(vec![scaled(call.build, &sums, [&a, &b], bias)?])
}

fn dynamic_quantize_matmul(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (a, b, b_scale) = (call.input(0)?, call.build.widened(&call.input(1)?)?, call.input(2)?);
    if a.dtype() != DType::F32 {
        return Err(Problem::UnsupportedType { expected: "f32", found: a.dtype() });
    }
    let (a, a_scale, a_zero) = quantize_dynamically(call.build, &a)?;
    let b_zero = call.optional(3).map(|zero| of_lines(call.build, &zero, b.rank(), false)).transpose()?;
    let (a, b) = (without_zero(call.build, &a, Some(a_zero))?, without_zero(call.build, &b, b_zero)?);
    let sums = product(call.build, &a, &b, DType::I32)?;
    let b_scale = of_lines(call.build, &b_scale, sums.rank(), false)?;
    let bias = call.optional(4);
    Ok(vec![scaled(call.build, &sums, [&a_scale, &b_scale], bias)?])
}
