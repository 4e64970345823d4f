//! Look-up by position: Gather and OneHot.

use super::Operator;
use crate::build::{AxisSlice, Builder, Result, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::host::extents_of_floats;
use crate::known::Item;
use crate::tracked::Tracked;
use infc_ir::graph::LOOKED_UP_POSITION;
use infc_ir::index::{Dim, IndexExpr, Proof};
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Gather", 1, gather), Operator::new("OneHot", 9, one_hot)];

/// What is taken for granted of known positions.
const LOOKED_UP: &str = "the elements of an axis that is looked up";

fn gather(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, data.rank())?;
    Ok(vec![gather_along(call.build, &data, &indices, axis)?])
}

/// The elements of an axis at positions, which may be known.
pub(super) fn gather_along(build: &mut Builder, data: &Tracked, indices: &Tracked, axis: usize) -> Result<Tracked> {
    if !matches!(indices.dtype(), DType::I64 | DType::I32) {
        return Err(Problem::UnsupportedType { expected: "i64 or i32 indices", found: indices.dtype() });
    }
    let Some(positions) = indices.dims() else { return build.gather(data, indices, axis) };
    let positions = from_start(build, &positions, &data.shape()[axis])?;
    pick(build, data, axis, indices, &positions)
}

/// Counts negative positions from the start, and checks those that can be checked.
fn from_start(build: &mut Builder, positions: &[Dim], extent: &Dim) -> Result<Vec<Dim>> {
    let outside = |p: &Dim| Problem::ShapeMismatch {
        expected: format!("positions within an axis of {extent}"),
        found: format!("position {p}"),
    };
    let mut resolved = Vec::with_capacity(positions.len());
    for p in positions {
        let at = super::slice::from_start(build, LOOKED_UP_POSITION, p, extent)?;
        let ranges = build.ranges();
        if ranges.lt(&at, extent) == Proof::No || ranges.interval(&at).max.is_some_and(|max| max < 0) {
            return Err(outside(p));
        }
        // An axis of none has no last element either.
        build.require_at_least(LOOKED_UP, &at, &Dim::constant(0))?;
        build.require_at_least(LOOKED_UP, extent, &(at.clone() + 1))?;
        resolved.push(at);
    }
    Ok(resolved)
}

/// Elements at known positions along an axis: a view if the positions are evenly spaced, else a look-up.
pub(super) fn pick(
    build: &mut Builder,
    data: &Tracked,
    axis: usize,
    indices: &Tracked,
    positions: &[Dim],
) -> Result<Tracked> {
    let mut shape = data.shape()[..axis].to_vec();
    shape.extend_from_slice(indices.shape());
    shape.extend_from_slice(&data.shape()[axis + 1..]);
    if let Some((start, step)) = evenly_spaced(positions) {
        let mut slices: Vec<AxisSlice> = data.shape().iter().map(Builder::whole).collect();
        slices[axis] = AxisSlice { start, step: Dim::constant(step), len: Dim::constant(positions.len() as i64) };
        let sliced = build.slice(data, &slices)?;
        return build.reshape(&sliced, &shape);
    }
    if let Some(found) = pick_known(data, axis, positions) {
        return Ok(Tracked::of_items(infc_ir::graph::TensorType::new(data.dtype(), shape), found));
    }
    build.gather(data, indices, axis)
}

/// First position and distance, if all distances are the same number.
fn evenly_spaced(positions: &[Dim]) -> Option<(Dim, i64)> {
    match positions {
        [] => Some((Dim::constant(0), 1)),
        [one] => Some((one.clone(), 1)),
        [first, second, ..] => {
            let step = (second.clone() - first.clone()).as_const()?;
            let even = positions.windows(2).all(|p| (p[1].clone() - p[0].clone()).is_const(step));
            even.then(|| (first.clone(), step))
        }
    }
}

fn pick_known(data: &Tracked, axis: usize, positions: &[Dim]) -> Option<Vec<Item>> {
    let items = data.items()?;
    let extents: Vec<usize> =
        data.shape().iter().map(|d| usize::try_from(d.as_const()?).ok()).collect::<Option<_>>()?;
    let count = |part: &[usize]| part.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let (inner, outer) = (count(&extents[axis + 1..])?, count(&extents[..axis])?);
    if outer.checked_mul(positions.len())?.checked_mul(inner)? > crate::known::MAX_ITEMS {
        return None;
    }
    let mut found = Vec::new();
    for row in 0..outer {
        for position in positions {
            let at = (row * extents[axis] + usize::try_from(position.as_const()?).ok()?) * inner;
            found.extend_from_slice(items.get(at..at + inner)?);
        }
    }
    Some(found)
}

/// `y[…, d, …] = indices[…] == d ? on : off`
fn one_hot(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (indices, values) = (call.input(0)?, call.input(2)?);
    const DEPTH: &str = "the depth";
    let given = call.input(1)?;
    let known = given.as_uniform().and_then(|item| match item.scalar() {
        Some(number) => Some(Dim::constant(number.to_i64())),
        None => item.dim().cloned(),
    });
    let depth = match known {
        Some(depth) => call.build.size(DEPTH, &depth)?,
        None if given.dtype().is_float() => {
            let depth = call.build.map(&[&given], |body, p| {
                let depth = body.cast(DType::F64, p[0]);
                let (zero, refused) = (body.constant(DType::F64, 0.0), body.constant(DType::F64, f64::INFINITY));
                let is_size = body.compare(CompareOp::Ge, depth, zero);
                body.select(is_size, depth, refused)
            })?;
            extents_of_floats(call.build, &[&depth], DEPTH)?.remove(0)
        }
        None => return Err(call.unknown(1, DEPTH)),
    };
    if values.rank() != 1 || !values.shape()[0].is_const(2) {
        return Err(mismatch("two values, off and on", values.shape()));
    }
    let axis = call.axis("axis", -1, indices.rank() + 1)?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, depth.clone());
    let spread = call.build.insert_axis(&indices, axis)?;
    let spread = call.build.broadcast(&spread, &shape)?;
    let scalar = |build: &mut Builder, n: i64| -> Result<Tracked> {
        let one = build.slice_axis(&values, 0, Dim::constant(n), Dim::constant(1))?;
        build.reshape(&one, &[])
    };
    let (off, on) = (scalar(call.build, 0)?, scalar(call.build, 1)?);
    let result = call.build.map_over(shape, &[&spread, &off, &on], |body, p| {
        let position = body.cast(DType::I64, p[0]);
        let zero = body.constant(DType::I64, 0.0);
        let end: IndexExpr = depth.clone();
        let depth = index(body, end);
        let negative = body.compare(CompareOp::Lt, position, zero);
        let wrapped = body.binary(BinaryOp::Add, position, depth);
        let position = body.select(negative, wrapped, position);
        let here = index(body, var(axis));
        let hot = body.compare(CompareOp::Eq, position, here);
        body.select(hot, p[2], p[1])
    })?;
    Ok(vec![result])
}
