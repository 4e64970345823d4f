//! Elements that a condition chooses: Compress, NonZero.
//!
//! A running count says where the chosen ones go, and how many there are, which becomes an extent
//! ([`counted_up_to`]). In short lists each chosen position is scattered to its place, and in those of which nobody knows how long
//! they are; in long ones each place searches the counts, which takes as many steps as a number has bits, but no time for what
//! is not chosen, and no order.

use super::Operator;
use super::gather::pick;
use super::scatter::sums_by_target;
use crate::build::{Builder, Result, index, mismatch, product, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::host::counted_up_to;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::ScanOp;
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::{DType, DTypeClass, Tensor};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new("Compress", 9, compress), Operator::new("NonZero", 9, non_zero)];

/// Lists of at most so many elements are scattered: where GPUs ask every element of every place, that is not too many.
const SHORT: i64 = 1 << 16;

/// Where lists may be longer, nobody knows how long they are: dims that nobody limited go up to a billion.
const LONG: i64 = 1 << 26;

/// The type of positions in a list that may have so many elements.
fn position_type(most: Option<i64>) -> DType {
    if most.is_some_and(|most| most < i64::from(i32::MAX)) { DType::I32 } else { DType::I64 }
}

/// Elements along an axis, or of all, at which a condition holds.
fn compress(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, condition) = (call.input(0)?, call.input(1)?);
    if condition.dtype() != DType::Bool {
        return Err(Problem::UnsupportedType { expected: "bools", found: condition.dtype() });
    }
    if condition.rank() != 1 {
        return Err(mismatch("a list of bools", condition.shape()));
    }
    let known = condition.items();
    let known = known.and_then(|items| items.iter().map(|item| item.dim()?.as_const()).collect::<Option<Vec<i64>>>());
    let (x, axis) = match call.int("axis")? {
        Some(along) => {
            let along = axis(along, x.rank())?;
            (x, along)
        }
        None => {
            let all = product(x.shape())?;
            (call.build.reshape(&x, &[all])?, 0)
        }
    };
    let extent = x.shape()[axis].clone();
    let Some(known) = known else {
        require_numbers(&x)?;
        // What a condition says beyond the end is left out, as ONNX Runtime does.
        let chosen = call.build.map(&[&condition], |body, p| {
            let (place, end) = (index(body, var(0)), index(body, extent.clone()));
            let exists = body.compare(CompareOp::Lt, place, end);
            body.binary(BinaryOp::And, p[0], exists)
        })?;
        let most = call.build.ranges().interval(&extent).max;
        let positions = positions(call.build, &chosen, most, "the condition")?;
        return Ok(vec![call.build.gather(&x, &positions, axis)?]);
    };
    // ONNX knows no condition that is longer than its axis; what one says beyond the end of an axis that is known to be
    // shorter is left out, and other axes must be as long as that.
    let most = call.build.ranges().interval(&extent).max.unwrap_or(i64::MAX);
    let taken: Vec<i64> =
        (0i64..).zip(&known).filter(|&(at, &holds)| holds != 0 && at < most).map(|(at, _)| at).collect();
    if let Some(last) = taken.last() {
        call.build.require_at_least("an axis that a condition chooses from", &extent, &Dim::constant(last + 1))?;
    }
    let indices = Tensor::from_elements(&[taken.len()], &taken).expect("as many as there are");
    let indices = call.build.constant("", indices);
    let positions: Vec<Dim> = taken.into_iter().map(Dim::constant).collect();
    Ok(vec![pick(call.build, &x, axis, &indices, &positions)?])
}

/// The coordinates of what is not 0: a row per axis.
fn non_zero(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let build = &mut *call.build;
    require_numbers(&x)?;
    let is_some = build.cast(&x, DType::Bool)?;
    // A number without axes is taken for a list of one, as by numpy once and by ONNX Runtime; ONNX says that it has no coordinates.
    let flat = build.reshape(&is_some, &[product(x.shape())?])?;
    let flat = positions(build, &flat, None, "how many elements are not 0")?;
    let count = flat.shape()[0].clone();
    if x.rank() == 0 {
        return Ok(vec![build.reshape(&flat, &[Dim::constant(1), count])?]);
    }
    let dtype = position_type(build.ranges().interval(&product(x.shape())?).max);
    let mut rest = build.cast(&flat, dtype)?;
    let mut rows = Vec::with_capacity(x.rank());
    for (n, extent) in x.shape().iter().enumerate().rev() {
        let (row, above) = if n == 0 {
            (rest.clone(), rest)
        } else {
            let [above, row] = [BinaryOp::Div, BinaryOp::Mod].map(|op| {
                build.map(&[&rest], |body, p| {
                    let extent = index(body, extent.clone());
                    let extent = body.cast(dtype, extent);
                    body.binary(op, p[0], extent)
                })
            });
            (row?, above?)
        };
        let row = build.cast(&row, DType::I64)?;
        rows.push(build.reshape(&row, &[Dim::constant(1), count.clone()])?);
        rest = above;
    }
    rows.reverse();
    Ok(vec![build.concat(&rows.iter().collect::<Vec<_>>(), 0)?])
}

/// Fails for what the host alone moves around, before it is asked how much of it there is.
fn require_numbers(x: &Tracked) -> Result<()> {
    match x.dtype().class() {
        DTypeClass::String | DTypeClass::Value | DTypeClass::Complex => {
            Err(Problem::UnsupportedType { expected: "numbers or bools", found: x.dtype() })
        }
        _ => Ok(()),
    }
}

/// The positions (i64) at which a list of bools is true, in their order: fewer than `below`, if that is known.
///
/// # Errors
/// [`Problem::DynamicValue`] where no value can become an extent.
fn positions(build: &mut Builder, chosen: &Tracked, below: Option<i64>, what: &'static str) -> Result<Tracked> {
    if !build.may_use_host {
        return Err(Problem::DynamicValue { what });
    }
    let len = &chosen.shape()[0];
    let most = build.ranges().interval(len).max;
    let count_most = most.into_iter().chain(below).min();
    if count_most.is_some_and(|most| most <= 0) {
        let none = Tensor::from_elements::<i64>(&[0], &[]).expect("none");
        return Ok(build.constant("", none));
    }
    let dtype = position_type(most);
    let marks = build.cast(chosen, dtype)?;
    let all = build.reduce(&[&marks], &[0], Reducer::sum(dtype), |_, p| p.to_vec())?;
    let all = build.cast(&all[0], DType::I64)?;
    let count = counted_up_to(build, &all, count_most, what)?;
    let scan = |exclusive| ScanOp { axis: 0, reverse: false, exclusive, reducer: Reducer::sum(dtype) };
    if let Some(most) = most.filter(|&most| most > SHORT && most <= LONG) {
        let counts = build.scan(&marks, scan(false))?;
        return search(build, &counts, count, most);
    }
    let before = build.scan(&marks, scan(true))?;
    let targets = build.map(&[chosen, &before], |body, p| {
        let (target, nowhere) = (body.cast(DType::I64, p[1]), body.constant(DType::I64, -1.0));
        body.select(p[0], target, nowhere)
    })?;
    sums_by_target(build, &targets, 0, count, DType::I64, index)
}

/// For each of `count` places how many of the ascending `counts` are no larger than it: bit by bit of that number, which is no
/// larger than `most`.
fn search(build: &mut Builder, counts: &Tracked, count: Dim, most: i64) -> Result<Tracked> {
    let len = counts.shape()[0].clone();
    let shape = vec![count];
    let mut found = build.map_over(shape.clone(), &[], |body, _| body.constant(DType::I64, 0.0))?;
    for bit in (0..=most.ilog2()).rev() {
        let tried = build.map(&[&found], |body, p| {
            let more = body.constant(DType::I64, f64::from(1u32 << bit));
            body.binary(BinaryOp::Add, p[0], more)
        })?;
        let last = build.map(&[&tried], |body, p| {
            let (end, one) = (index(body, len.clone()), body.constant(DType::I64, 1.0));
            let tried = body.binary(BinaryOp::Min, p[0], end);
            body.binary(BinaryOp::Sub, tried, one)
        })?;
        let before = build.gather(counts, &last, 0)?;
        found = build.map_over(shape.clone(), &[&found, &tried, &before], |body, p| {
            let (place, end) = (index(body, var(0)), index(body, len.clone()));
            let before = body.cast(DType::I64, p[2]);
            let (no_larger, exists) =
                (body.compare(CompareOp::Le, before, place), body.compare(CompareOp::Le, p[1], end));
            let holds = body.binary(BinaryOp::And, no_larger, exists);
            body.select(holds, p[1], p[0])
        })?;
    }
    Ok(found)
}
