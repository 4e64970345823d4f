//! Values that depend on no data: constants, shapes, ranges, window functions.

use super::Operator;
use crate::build::{Builder, Result, check_computable, compute_type, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::host::extents_of_floats;
use crate::known::{Item, MAX_ITEMS};
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::entity::ScalarId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, UnaryOp};
use infc_tensor::{DType, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Constant", 1, constant),
    Operator::new("ConstantOfShape", 9, constant_of_shape),
    Operator::new("Shape", 1, shape),
    Operator::new("Size", 1, size),
    Operator::new("Range", 11, range),
    Operator::new("EyeLike", 9, eye_like),
    Operator::new("HannWindow", 17, |c| cosine_window(c, &[0.5, -0.5])),
    Operator::new("HammingWindow", 17, |c| cosine_window(c, &[25.0 / 46.0, -21.0 / 46.0])),
    Operator::new("BlackmanWindow", 17, |c| cosine_window(c, &[0.42, -0.5, 0.08])),
];

fn constant(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let name = call.node.output.first().cloned().unwrap_or_default();
    let tensor = if let Some(tensor) = call.tensor("value")? {
        tensor
    } else if let Some(value) = call.float("value_float")? {
        Tensor::scalar(value as f32)
    } else if let Some(value) = call.int("value_int")? {
        Tensor::scalar(value)
    } else if let Some(values) = call.floats("value_floats")? {
        Tensor::from_elements(&[values.len()], values).expect("as many as there are")
    } else if let Some(values) = call.ints("value_ints")? {
        Tensor::from_elements(&[values.len()], values).expect("as many as there are")
    } else {
        let found = call.node.attribute.first().map_or("none", |a| a.name()).to_owned();
        return Err(Problem::UnsupportedAttribute { attribute: "value", expected: "a dense tensor or numbers", found });
    };
    Ok(vec![call.build.constant(&name, tensor)])
}

fn constant_of_shape(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let shape = call.sizes(0, "the shape")?;
    let shape: Vec<Dim> = shape.iter().map(|extent| call.build.short_extent("an extent", extent)).collect();
    let (dtype, item) = match call.tensor("value")? {
        None => (DType::F32, Item::from_const(Const::zero(DType::F32))),
        Some(tensor) => {
            let value = Tracked::of_constant("", tensor);
            let item = value.as_uniform().ok_or_else(|| mismatch("a value with one element", value.shape()))?;
            (value.dtype(), item.clone())
        }
    };
    let ty = TensorType::new(dtype, shape);
    call.build.check(&ty)?;
    Ok(vec![Tracked::uniform(ty, item)])
}

/// The extents from axis `start` to `end` (since opset 15).
fn shape(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let rank = x.rank() as i64;
    let clamp = |position: i64| if position < 0 { position.saturating_add(rank) } else { position }.clamp(0, rank);
    let start = clamp(call.int_or("start", 0)?);
    let end = clamp(call.int_or("end", rank)?).max(start);
    Ok(vec![Tracked::of_dims(x.shape()[start as usize..end as usize].to_vec())])
}

fn size(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let count = crate::build::product(x.shape())?;
    Ok(vec![Tracked::uniform(TensorType::new(DType::I64, Vec::new()), Item::Int(count))])
}

const ENDS: &str = "the ends of a range";

/// `start + i·delta`, as many as lie before `limit`.
fn range(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let [start, limit, delta] = [call.input(0)?, call.input(1)?, call.input(2)?];
    let dtype = start.dtype();
    let unknown = || Problem::DynamicValue { what: ENDS };
    let number = |t: &Tracked| t.as_uniform().and_then(Item::scalar).map(|s| s.to_f64());
    if dtype.is_float()
        && let (Some(first), Some(last), Some(step)) = (number(&start), number(&limit), number(&delta))
    {
        let count = ((last - first) / step).ceil().max(0.0);
        if !count.is_finite() || count > (1u64 << 40) as f64 {
            return Err(Problem::DimOverflow { shape: count.to_string() });
        }
        let shape = vec![Dim::constant(count as i64)];
        let result = call.build.generate(shape, |body| {
            let (first, step) = (body.constant(dtype, first), body.constant(dtype, step));
            stepped(body, dtype, first, step)
        })?;
        return Ok(vec![result]);
    }
    let mut ends = Vec::with_capacity(3);
    for (index, end) in [&start, &limit, &delta].into_iter().enumerate() {
        if dtype.is_float() {
            match whole(call.build, end)? {
                Some(end) => ends.push(end),
                None => return Ok(vec![told_range(call.build, &start, &limit, &delta)?]),
            }
            continue;
        }
        let [end] = &call.dims(index, ENDS)?[..] else {
            return Err(mismatch("a scalar", start.shape()));
        };
        ends.push(end.clone());
    }
    let [start, limit, delta] = &ends[..] else { return Err(Problem::MissingInput { index: 2 }) };
    let (start, limit) = (start.clone(), limit.clone());
    let Some(step) = delta.as_const() else { return Ok(vec![chosen_range(call.build, dtype, &start, &limit, delta)?]) };
    if step == 0 {
        return Err(unknown());
    }
    let ranges = call.build.ranges();
    let span = if step > 0 { limit - start.clone() } else { start.clone() - limit };
    let count = span.ceil_div(&Dim::constant(step.saturating_abs())).simplify(&ranges).maximum(&Dim::constant(0));
    let count = call.build.size("the length of a range", &count.simplify(&ranges))?;
    if let Some(n) = count.as_const().filter(|&n| n as usize <= MAX_ITEMS) {
        let items = (0..n).map(|i| Item::Int(start.clone() + i.saturating_mul(step))).collect();
        return Ok(vec![Tracked::of_items(TensorType::new(dtype, vec![count]), items)]);
    }
    let result = call.build.generate(vec![count], |body| {
        let value = index(body, start + var(0).scale(step));
        body.cast(dtype, value)
    })?;
    Ok(vec![result])
}

/// A float as a whole number, if it is known to be one: exporters count the cells of a grid in floats.
fn whole(build: &mut Builder, end: &Tracked) -> Result<Option<Dim>> {
    // As far as all whole numbers are floats.
    let most: i64 = match end.dtype() {
        DType::F64 => 1 << 53,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        _ => 1 << 8,
    };
    match end.as_uniform() {
        Some(Item::Int(dim)) => build.number("an end of a range of floats", dim, -most, most).map(Some),
        Some(item) => {
            let value = item.scalar().map_or(f64::NAN, |value| value.to_f64());
            let is_whole = value.fract() == 0.0 && value.abs() <= most as f64;
            Ok(is_whole.then(|| Dim::constant(value as i64)))
        }
        None => Ok(None),
    }
}

/// A range of floats that only the run will tell: a kernel counts them.
fn told_range(build: &mut Builder, start: &Tracked, limit: &Tracked, delta: &Tracked) -> Result<Tracked> {
    let dtype = start.dtype();
    let mut scalar = |end: &Tracked| {
        if end.dtype() != dtype {
            return Err(Problem::TypeMismatch { left: dtype, right: end.dtype() });
        }
        build.reshape(end, &[])
    };
    let (start, limit, delta) = (scalar(start)?, scalar(limit)?, scalar(delta)?);
    let count = build.map(&[&start, &limit, &delta], |body, p| {
        let [start, limit, delta] = [0, 1, 2].map(|n| body.cast(DType::F64, p[n]));
        let span = body.binary(BinaryOp::Sub, limit, start);
        let count = body.binary(BinaryOp::Div, span, delta);
        let count = body.unary(UnaryOp::Ceil, count);
        // Without a step the end is never reached.
        let (zero, refused) = (body.constant(DType::F64, 0.0), body.constant(DType::F64, f64::INFINITY));
        let stays = body.compare(CompareOp::Eq, delta, zero);
        body.select(stays, refused, count)
    })?;
    let count = extents_of_floats(build, &[&count], ENDS)?;
    build.map_over(count, &[&start, &delta], |body, p| stepped(body, dtype, p[0], p[1]))
}

/// `start + i·delta`; half types are rounded once.
fn stepped(body: &mut Body, dtype: DType, start: ScalarId, delta: ScalarId) -> ScalarId {
    let wide = compute_type(dtype);
    let i = index(body, var(0));
    let [i, start, delta] = [i, start, delta].map(|operand| body.cast(wide, operand));
    let offset = body.binary(BinaryOp::Mul, i, delta);
    let value = body.binary(BinaryOp::Add, start, offset);
    body.cast(dtype, value)
}

/// A range of integers whose direction only the run will tell.
fn chosen_range(build: &mut Builder, dtype: DType, start: &Dim, limit: &Dim, delta: &Dim) -> Result<Tracked> {
    let span = (limit.clone() - start.clone()) * truth::sign(delta);
    let step = build.number("the step of a range", &truth::magnitude(delta), 1, 1 << 40)?;
    let count = span.maximum(&Dim::constant(0)).ceil_div(&step);
    let count = build.size("the length of a range", &count)?;
    build.generate(vec![count], |body| {
        let value = index(body, start.clone() + var(0) * delta.clone());
        body.cast(dtype, value)
    })
}

fn eye_like(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    if x.rank() != 2 {
        return Err(mismatch("a matrix", x.shape()));
    }
    let dtype = call.dtype("dtype")?.unwrap_or(x.dtype());
    check_computable(dtype)?;
    let diagonal = call.int_or("k", 0)?;
    let result = call.build.generate(x.shape().to_vec(), |body| {
        let distance = index(body, var(1) - var(0));
        let k = body.push(infc_ir::scalar::ScalarOp::Const(Const::from_i64(DType::I64, diagonal)));
        let on = body.compare(CompareOp::Eq, distance, k);
        body.cast(dtype, on)
    })?;
    Ok(vec![result])
}

/// `Σ cₖ · cos(2πkn / M)` at sample `n`, with `M` the size, or one less for a symmetric window. Computed in f64.
fn cosine_window(call: &mut Call<'_>, coefficients: &[f64]) -> Result<Vec<Tracked>> {
    let dtype = call.dtype("output_datatype")?.unwrap_or(DType::F32);
    check_computable(dtype)?;
    let size = call.sizes(0, "the size of the window")?;
    let [size] = &size[..] else { return Err(mismatch("one number", call.input(0)?.shape())) };
    let period = if call.flag("periodic", true)? { size.clone() } else { size.clone() - 1 };
    call.build.require_at_least("the size of the window", size, &Dim::constant(0))?;
    let result = call.build.generate(vec![size.clone()], |body| {
        let number = |body: &mut Body, e: Dim| {
            let e = index(body, e);
            body.cast(DType::F64, e)
        };
        let (n, period) = (number(body, var(0)), number(body, period));
        let turn = body.binary(BinaryOp::Div, n, period);
        let mut sum = body.constant(DType::F64, 0.0);
        for (k, &c) in coefficients.iter().enumerate() {
            let turns = body.constant(DType::F64, 2.0 * std::f64::consts::PI * k as f64);
            let angle = body.binary(BinaryOp::Mul, turn, turns);
            let cosine = if k == 0 { body.constant(DType::F64, 1.0) } else { body.unary(UnaryOp::Cos, angle) };
            let c = body.constant(DType::F64, c);
            let term = body.binary(BinaryOp::Mul, c, cosine);
            sum = body.binary(BinaryOp::Add, sum, term);
        }
        body.cast(dtype, sum)
    })?;
    Ok(vec![result])
}
