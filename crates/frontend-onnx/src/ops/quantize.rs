//! Between real numbers and their quantised form: `QuantizeLinear`, `DequantizeLinear`, `DynamicQuantizeLinear`.
//!
//! A quantised number `q` stands for `(q − zero)·scale`. Scale and zero point belong to the whole tensor, to a slice
//! along `axis`, or since opset 21 to blocks of `block_size` elements along it. The quotient is rounded to the type in
//! which ONNX divides (the scale's, or `precision`), then half to even, then shifted and saturated.

use super::Operator;
use super::elementwise::{require_float, rounding};
use crate::build::{Builder, Result, compute_type, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp, UnaryOp, is_computable};
use infc_tensor::{DType, DTypeClass};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("QuantizeLinear", 10, quantize_linear),
    Operator::new("DequantizeLinear", 10, dequantize_linear),
    Operator::new("DynamicQuantizeLinear", 11, dynamic_quantize_linear),
];

/// `q − zero` as i32, in a body. Both are integers.
pub(super) fn centered(body: &mut Body, q: ScalarId, zero: Option<ScalarId>) -> ScalarId {
    let q = body.cast(DType::I32, q);
    match zero {
        None => q,
        Some(zero) => {
            let zero = body.cast(DType::I32, zero);
            body.binary(BinaryOp::Sub, q, zero)
        }
    }
}

/// `saturate(round(x) + zero)` in an integer type, in a body; `x` is a quotient. Types narrower than a byte have the
/// result in one.
pub(super) fn saturated(body: &mut Body, x: ScalarId, zero: Option<ScalarId>, dtype: DType) -> ScalarId {
    let shifted = match zero {
        None => x,
        Some(zero) => {
            let rounded = body.unary(UnaryOp::Round, x);
            let zero = body.cast(body.dtype(x), zero);
            body.binary(BinaryOp::Add, rounded, zero)
        }
    };
    if dtype.size_bits() >= 8 {
        return body.push(ScalarOp::CastSaturating(dtype, shifted));
    }
    let bits = dtype.size_bits() as i32;
    let signed = dtype.class() == DTypeClass::Signed;
    let (least, greatest) = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let wide = body.dtype(shifted);
    let (least, greatest) = (body.constant(wide, f64::from(least)), body.constant(wide, f64::from(greatest)));
    let raised = body.binary(BinaryOp::Max, shifted, least);
    let within = body.binary(BinaryOp::Min, raised, greatest);
    body.push(ScalarOp::CastSaturating(dtype.widened(), within))
}

/// A zero point that is zero everywhere is none.
pub(super) fn some_zero(zero: Option<Tracked>) -> Option<Tracked> {
    let is_zero = |t: &Tracked| {
        let all = |values: Vec<f64>| values.iter().all(|&v| v == 0.0);
        t.as_uniform().and_then(crate::known::Item::scalar).is_some_and(|s| s.to_f64() == 0.0)
            || t.constant().is_some() && t.floats().is_some_and(all)
    };
    zero.filter(|t| !is_zero(t))
}

/// Fails unless the value has integers that can be computed with.
pub(super) fn require_integer(x: &Tracked) -> Result<()> {
    if x.dtype().is_int() {
        return Ok(());
    }
    Err(Problem::UnsupportedType { expected: "integers", found: x.dtype() })
}

/// What a scale or zero point belongs to.
enum Granularity {
    Tensor,
    Axis(usize),
    Blocks { axis: usize, size: i64 },
}

impl Granularity {
    fn of(call: &Call<'_>, x: &Tracked, scale: &Tracked) -> Result<Self> {
        let size = call.int_or("block_size", 0)?;
        if size == 0 && scale.rank() <= 1 && scale.shape().iter().all(|d| d.is_const(1)) {
            return Ok(Self::Tensor);
        }
        let axis = call.axis("axis", 1, x.rank())?;
        match size {
            0 => Ok(Self::Axis(axis)),
            1.. => Ok(Self::Blocks { axis, size }),
            _ => {
                let found = size.to_string();
                Err(Problem::InvalidAttribute { attribute: "block_size", expected: "a number of elements", found })
            }
        }
    }

    /// A parameter, ready to broadcast to the shape of `x`.
    fn spread(&self, build: &mut Builder, parameter: &Tracked, x: &Tracked) -> Result<Tracked> {
        match *self {
            Self::Tensor => build.reshape(parameter, &[]),
            Self::Axis(axis) => {
                if parameter.rank() != 1 {
                    return Err(mismatch("one scale and zero point per slice", parameter.shape()));
                }
                build.require_equal("the number of scales and of slices", &parameter.shape()[0], &x.shape()[axis])?;
                // Were small parameters spread out now, passes could not see along what they are the same.
                let parameter = build.as_data(parameter)?;
                build.along_axis(&parameter, axis, x.rank())
            }
            Self::Blocks { axis, size } => {
                if parameter.rank() != x.rank() {
                    return Err(mismatch(format!("scales with {} axes", x.rank()), parameter.shape()));
                }
                let size = Dim::constant(size);
                for (n, (blocks, extent)) in parameter.shape().iter().zip(x.shape()).enumerate() {
                    let wanted = if n == axis { extent.ceil_div(&size) } else { extent.clone() };
                    build.require_equal("the number of scales and of blocks", blocks, &wanted)?;
                }
                let index = (0..x.rank()).map(|n| if n == axis { var(n).floor_div(&size) } else { var(n) });
                let index = index.collect();
                let parameter = build.as_data(parameter)?;
                build.view(&parameter, index, x.shape().to_vec())
            }
        }
    }
}

pub(super) fn quantize_linear(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, scale) = (call.input(0)?, call.build.widened(&call.input(1)?)?);
    let zero = call.optional(2);
    let named = call.dtype("output_dtype")?;
    let dtype = zero.as_ref().map(Tracked::dtype).or(named).unwrap_or(DType::U8);
    if !dtype.is_int() && (!dtype.is_float() || is_computable(dtype)) {
        return Err(Problem::UnsupportedType { expected: "integers, or floats of at most 8 bits", found: dtype });
    }
    // Quotients by integers are floats that hold either.
    let of_scale = if scale.dtype().is_int() { DType::F64 } else { scale.dtype() };
    let precision = call.dtype("precision")?.unwrap_or(of_scale);
    if !scale.dtype().is_int() {
        require_float(&scale)?;
    }
    if !matches!(precision, DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
        return Err(Problem::UnsupportedType { expected: "floats", found: precision });
    }
    let granularity = Granularity::of(call, &x, &scale)?;
    let scale = granularity.spread(call.build, &scale, &x)?;
    // Floats have zero points of zero.
    let zero = some_zero(zero).filter(|_| dtype.is_int()).map(|zero| call.build.widened(&zero)).transpose()?;
    let zero = zero.map(|zero| granularity.spread(call.build, &zero, &x)).transpose()?;
    let inputs: Vec<&Tracked> = [&x, &scale].into_iter().chain(&zero).collect();
    let rounding = rounding(call)?;
    let quantized = call.build.map_over(x.shape().to_vec(), &inputs, |body, p| {
        let wide = compute_type(precision);
        let (x, scale) = (body.cast(wide, p[0]), body.cast(wide, p[1]));
        let quotient = body.binary(BinaryOp::Div, x, scale);
        // A quotient of halves is one.
        let rounded = body.cast(precision, quotient);
        let quotient = body.cast(wide, rounded);
        if dtype.is_float() { quotient } else { saturated(body, quotient, p.get(2).copied(), dtype) }
    })?;
    // Integers of less than a byte are within their range already.
    Ok(vec![call.build.cast_rounding(&quantized, dtype, rounding)?])
}

pub(super) fn dequantize_linear(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, scale) = (call.build.widened(&call.input(0)?)?, call.build.widened(&call.input(1)?)?);
    require_float(&scale)?;
    let dtype = call.dtype("output_dtype")?.unwrap_or(call.input(1)?.dtype());
    if !is_computable(dtype) {
        return Err(Problem::UnsupportedType { expected: "an output of f16, bf16, f32 or f64", found: dtype });
    }
    let granularity = Granularity::of(call, &x, &scale)?;
    let scale = granularity.spread(call.build, &scale, &x)?;
    let zero = some_zero(call.optional(2)).map(|zero| call.build.widened(&zero)).transpose()?;
    let zero = zero.map(|zero| granularity.spread(call.build, &zero, &x)).transpose()?;
    // Were small constants computed now, passes could not see that they are quantised.
    let x = call.build.as_data(&x)?;
    let inputs: Vec<&Tracked> = [&x, &scale].into_iter().chain(&zero).collect();
    let real = call.build.map_over(x.shape().to_vec(), &inputs, |body, p| {
        let wide = compute_type(body.dtype(p[1]));
        let q = if body.dtype(p[0]).is_float() { p[0] } else { centered(body, p[0], p.get(2).copied()) };
        let (q, scale) = (body.cast(wide, q), body.cast(wide, p[1]));
        let product = body.binary(BinaryOp::Mul, q, scale);
        body.cast(dtype, product)
    })?;
    Ok(vec![real])
}

/// To `u8`, with the scale that maps the range of the data (and 0) to all of it.
fn dynamic_quantize_linear(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if x.dtype() != DType::F32 {
        return Err(Problem::UnsupportedType { expected: "f32", found: x.dtype() });
    }
    let (q, scale, zero) = quantize_dynamically(call.build, &x)?;
    Ok(vec![q, scale, zero])
}

/// The quantised value, its scale (f32) and its zero point (u8), both scalars.
pub(super) fn quantize_dynamically(build: &mut Builder, x: &Tracked) -> Result<(Tracked, Tracked, Tracked)> {
    // The range includes 0: folds start there.
    let mut extremum = |op: BinaryOp| -> Result<Tracked> {
        let reducer = Reducer::binary(op, Const::zero(DType::F32));
        let axes: Vec<usize> = (0..x.rank()).collect();
        if axes.is_empty() {
            return build.map(&[x], |body, p| {
                let zero = body.constant(DType::F32, 0.0);
                body.binary(op, p[0], zero)
            });
        }
        Ok(build.reduce(&[x], &axes, reducer, |_, p| vec![p[0]])?.swap_remove(0))
    };
    let (low, high) = (extremum(BinaryOp::Min)?, extremum(BinaryOp::Max)?);
    let scale = build.map(&[&low, &high], |body, p| {
        let range = body.binary(BinaryOp::Sub, p[1], p[0]);
        let steps = body.constant(DType::F32, 255.0);
        let scale = body.binary(BinaryOp::Div, range, steps);
        // All zeros would give a scale of zero, by which nothing can be divided.
        let one = body.constant(DType::F32, 1.0);
        let is_flat = body.compare(CompareOp::Eq, p[0], p[1]);
        body.select(is_flat, one, scale)
    })?;
    let zero = build.map(&[&low, &scale], |body, p| {
        let steps = body.binary(BinaryOp::Div, p[0], p[1]);
        let zero = body.unary(UnaryOp::Neg, steps);
        body.push(ScalarOp::CastSaturating(DType::U8, zero))
    })?;
    let q = build.map(&[x, &scale, &zero], |body, p| {
        let quotient = body.binary(BinaryOp::Div, p[0], p[1]);
        saturated(body, quotient, Some(p[2]), DType::U8)
    })?;
    Ok((q, scale, zero))
}
