//! Writing at positions given by a tensor: ScatterElements, ScatterND and the old Scatter.
//!
//! Every element of the result asks which updates are meant for it, as a reduction over the updates: kernels write each
//! element once, whatever the indices are. That is how it is written down; schedules fold each update where it belongs
//! (`scatter`, `passes::schedule`). Without a reduction the last update for an element wins; only its number is searched
//! for, and its value looked up, so that long slices cost no more than copying them. Where positions are known to be a grid
//! nothing is searched for ([`assigned`]).

mod assigned;

use super::Operator;
use super::gather_elements::{components, elements_along, flat_positions, require_indices, require_within, strides};
use super::reduce::{largest_value, smallest_value};
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::access::{AccessMap, Bound};
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr, Proof};
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("Scatter", 9, scatter_elements).until(11),
    Operator::new("ScatterElements", 11, scatter_elements),
    Operator::new("ScatterND", 11, scatter_nd),
    Operator::new("TensorScatter", 24, tensor_scatter),
];

/// How updates combine with what is there; `None` replaces it.
fn reduction(call: &Call<'_>) -> Result<Option<BinaryOp>> {
    let name = call.string("reduction", "none")?;
    Ok(Some(match name.as_str() {
        "none" => return Ok(None),
        "add" => BinaryOp::Add,
        "mul" => BinaryOp::Mul,
        "max" => BinaryOp::Max,
        "min" => BinaryOp::Min,
        _ => {
            let expected = "none, add, mul, max or min";
            return Err(Problem::InvalidAttribute { attribute: "reduction", expected, found: name });
        }
    }))
}

/// What changes nothing.
fn neutral(op: BinaryOp, dtype: DType) -> Const {
    match op {
        BinaryOp::Mul => Const::from_f64(dtype, 1.0),
        BinaryOp::Max => smallest_value(dtype),
        BinaryOp::Min => largest_value(dtype),
        _ => Const::zero(dtype),
    }
}

fn require_same_type(x: &Tracked, updates: &Tracked) -> Result<()> {
    if x.dtype() == updates.dtype() {
        return Ok(());
    }
    Err(Problem::TypeMismatch { left: x.dtype(), right: updates.dtype() })
}

/// Whether there is no update, as exporters write an assignment to a slice that has no elements.
fn is_empty(updates: &[Dim]) -> bool {
    updates.iter().any(|extent| extent.is_const(0))
}

/// Which updates an element of the result is asked about: those along one more, last axis.
struct Candidates {
    /// Where each update goes (i64, from the start), over the axes of the result and the updates' axis.
    target: Tracked,
    /// What `target` must be equal to, at the coordinates of the result.
    place: IndexExpr,
}

impl Candidates {
    fn axis(&self) -> usize {
        self.target.rank() - 1
    }

    /// The number of the last update for every element; −1 if there is none.
    fn last(&self, build: &mut Builder) -> Result<Tracked> {
        let axis = self.axis();
        let reducer = Reducer::binary(BinaryOp::Max, Const::from_i64(DType::I64, -1));
        let last = build.reduce(&[&self.target], &[axis], reducer, |body, p| {
            let here = self.is_here(body, p[0]);
            let (number, none) = (index(body, var(axis)), body.constant(DType::I64, -1.0));
            vec![body.select(here, number, none)]
        })?;
        Ok(last[0].clone())
    }

    /// All updates for every element, combined with what is there; both are of the updates' computing type.
    fn combined(&self, build: &mut Builder, x: &Tracked, updates: &Tracked, op: BinaryOp) -> Result<Tracked> {
        let dtype = x.dtype();
        let wide = compute_type(dtype);
        let neutral = neutral(op, wide);
        let folded =
            build.reduce(&[&self.target, updates], &[self.axis()], Reducer::binary(op, neutral), |body, p| {
                let here = self.is_here(body, p[0]);
                let update = body.cast(wide, p[1]);
                let nothing = body.push(ScalarOp::Const(neutral));
                vec![body.select(here, update, nothing)]
            })?;
        build.map(&[x, &folded[0]], |body, p| {
            let x = body.cast(wide, p[0]);
            let y = body.binary(op, x, p[1]);
            body.cast(dtype, y)
        })
    }

    fn is_here(&self, body: &mut Body, target: ScalarId) -> ScalarId {
        let place = index(body, self.place.clone());
        body.compare(CompareOp::Eq, target, place)
    }
}

/// For each of `extent` places along an axis, the sum of what the elements along it give whose target it is; targets are
/// `i64`, and those that are no place give nothing. `value` is told the coordinate of an element.
pub(super) fn sums_by_target(
    build: &mut Builder,
    targets: &Tracked,
    axis: usize,
    extent: Dim,
    dtype: DType,
    value: impl FnOnce(&mut Body, IndexExpr) -> ScalarId,
) -> Result<Tracked> {
    let rank = targets.rank();
    let mut shape = targets.shape().to_vec();
    let elements = std::mem::replace(&mut shape[axis], extent);
    shape.push(elements);
    let along = (0..rank).map(|n| if n == axis { var(rank) } else { var(n) }).collect();
    let each = build.view(targets, along, shape)?;
    let sums = build.reduce(&[&each], &[rank], Reducer::sum(dtype), |body, p| {
        let place = index(body, var(axis));
        let here = body.compare(CompareOp::Eq, p[0], place);
        let (value, nothing) = (value(body, var(rank)), body.push(ScalarOp::Const(Const::zero(dtype))));
        vec![body.select(here, value, nothing)]
    })?;
    Ok(sums[0].clone())
}

/// The updates with a row of zeros if there are none, so that what is not there can be looked up. Only where the run tells
/// how many there are: what is known before is taken to be some.
fn never_empty(build: &mut Builder, updates: &Tracked) -> Result<Tracked> {
    let count = updates.shape()[0].clone();
    let is_some = build.ranges().le(&Dim::constant(1), &count) == Proof::Yes;
    if is_some || !build.facts.is_late(&count) {
        return Ok(updates.clone());
    }
    let mut shape = updates.shape().to_vec();
    shape[0] = count.maximum(&Dim::constant(1));
    let valid = vec![Bound { expr: var(0), lo: Dim::constant(0), hi: count }];
    let map = AccessMap { valid, ..AccessMap::identity(shape.len()) };
    build.view_or(updates, map, shape, Const::zero(updates.dtype()))
}

/// `found` where there is an update, else `x`.
fn replaced(build: &mut Builder, x: &Tracked, last: &Tracked, found: &Tracked) -> Result<Tracked> {
    build.map(&[last, found, x], |body, p| {
        let zero = body.constant(DType::I64, 0.0);
        let any = body.compare(CompareOp::Ge, p[0], zero);
        body.select(any, p[1], p[2])
    })
}

/// `y[…, indices[…, i, …], …] = updates[…, i, …]`
fn scatter_elements(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = call.axis("axis", 0, x.rank())?;
    let reduction = reduction(call)?;
    let build = &mut *call.build;
    require_indices(&indices)?;
    require_same_type(&x, &updates)?;
    require_within(build, &x, &indices, axis)?;
    if updates.rank() != indices.rank() {
        return Err(mismatch(format!("{} axes, as the indices have", indices.rank()), updates.shape()));
    }
    for (mine, theirs) in indices.shape().iter().zip(updates.shape()) {
        build.require_equal("the extents of indices and updates", mine, theirs)?;
    }
    if is_empty(indices.shape()) {
        return Ok(vec![x]);
    }
    let rank = x.rank();
    // Coordinates of the updates: those of the result, but along the axis the number of the update.
    let mut shape = x.shape().to_vec();
    shape.push(indices.shape()[axis].clone());
    let index: Vec<IndexExpr> = (0..rank).map(|n| if n == axis { var(rank) } else { var(n) }).collect();
    let beyond = |n: &usize| *n != axis && indices.shape()[*n] != x.shape()[*n];
    let valid: Vec<Bound> = (0..rank)
        .filter(beyond)
        .map(|n| Bound { expr: var(n), lo: Dim::constant(0), hi: indices.shape()[n].clone() })
        .collect();
    let map = AccessMap { rank: rank + 1, index, valid };
    // Resolved before they are spread, so that what is outside can have a position that is nowhere.
    let (places, spread) = build.spread_from(&indices);
    let resolved = flat_positions(
        build,
        places.shape().to_vec(),
        std::slice::from_ref(&places),
        &x.shape()[axis..=axis],
        &[Dim::constant(1)],
        Dim::constant(0),
    )?;
    let nowhere = Const::from_i64(DType::I64, i64::MAX);
    let target = build.view_or(&resolved, spread.compose(&map), shape.clone(), nowhere)?;
    let candidates = Candidates { target, place: var(axis) };
    let result = match reduction {
        Some(op) => {
            let spread = build.view_or(&updates, map, shape, Const::zero(updates.dtype()))?;
            candidates.combined(build, &x, &spread, op)?
        }
        None => {
            let last = candidates.last(build)?;
            // Beyond the updates nothing is found, wherever that is looked up.
            let inside: Vec<IndexExpr> = (0..rank)
                .map(|n| {
                    let end = indices.shape()[n].clone() - 1;
                    if n != axis && indices.shape()[n] != x.shape()[n] { var(n).minimum(&end) } else { var(n) }
                })
                .collect();
            let own = strides(updates.shape())?;
            let base: IndexExpr = (0..rank).filter(|&n| n != axis).map(|n| inside[n].clone() * own[n].clone()).sum();
            let extents = &updates.shape()[axis..=axis];
            let at = std::slice::from_ref(&last);
            let rows = flat_positions(build, x.shape().to_vec(), at, extents, &own[axis..=axis], base)?;
            let table = build.reshape(&updates, &[product(updates.shape())?])?;
            let table = never_empty(build, &table)?;
            let found = build.gather(&table, &rows, 0)?;
            replaced(build, &x, &last, &found)?
        }
    };
    Ok(vec![result])
}

/// `y[indices[q…, :]…, s…] = updates[q…, s…]`
fn scatter_nd(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let reduction = reduction(call)?;
    let build = &mut *call.build;
    require_same_type(&x, &updates)?;
    let found = components(build, &indices)?;
    if found.len() > x.rank() {
        return Err(mismatch(format!("at least {} axes", found.len()), x.shape()));
    }
    let (looked_up, slice) = x.shape().split_at(found.len());
    let lead = &indices.shape()[..indices.rank() - 1];
    let wanted: Vec<Dim> = lead.iter().chain(slice).cloned().collect();
    if updates.rank() != wanted.len() {
        return Err(mismatch(format!("{} axes of updates", wanted.len()), updates.shape()));
    }
    for (mine, theirs) in wanted.iter().zip(updates.shape()) {
        build.require_equal("the extents of updates and of what they replace", mine, theirs)?;
    }
    if is_empty(&wanted) {
        return Ok(vec![x]);
    }
    if let Some(result) = assigned::assigned(build, &x, &found, &updates, reduction)? {
        return Ok(vec![result]);
    }
    let own = strides(looked_up)?;
    let flat = flat_positions(build, lead.to_vec(), &found, looked_up, &own, Dim::constant(0))?;
    // Rows of slices: [R, s…] in the data, [M, s…] in the updates.
    let (count, rows) = (product(lead)?, product(looked_up)?);
    let with_slice = |first: &Dim| -> Vec<Dim> { std::iter::once(first).chain(slice).cloned().collect() };
    let flat = build.reshape(&flat, std::slice::from_ref(&count))?;
    let table = build.reshape(&x, &with_slice(&rows))?;
    let updates = build.reshape(&updates, &with_slice(&count))?;
    let result = match reduction {
        None => {
            let target = build.view(&flat, vec![var(1)], vec![rows.clone(), count])?;
            let last = Candidates { target, place: var(0) }.last(build)?;
            let updates = never_empty(build, &updates)?;
            let found = build.gather(&updates, &last, 0)?;
            let last = build.view(&last, vec![var(0)], with_slice(&rows))?;
            replaced(build, &table, &last, &found)?
        }
        Some(op) => {
            let mut shape = with_slice(&rows);
            shape.push(count);
            let rank = shape.len();
            let target = build.view(&flat, vec![var(rank - 1)], shape.clone())?;
            let index = std::iter::once(rank - 1).chain(1..rank - 1).map(var).collect();
            let spread = build.view(&updates, index, shape)?;
            Candidates { target, place: var(0) }.combined(build, &table, &spread, op)?
        }
    };
    Ok(vec![build.reshape(&result, x.shape())?])
}

/// `y[b, …, start[b] + i, …] = update[b, …, i, …]`, maybe around the end of the axis; each element knows its `i`.
fn tensor_scatter(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, update, starts) = (call.input(0)?, call.input(1)?, call.optional(2));
    require_same_type(&x, &update)?;
    let axis = call.axis("axis", -2, x.rank())?;
    let mode = call.string("mode", "linear")?;
    let around = match mode.as_str() {
        "linear" => false,
        "circular" => true,
        _ => return Err(Problem::InvalidAttribute { attribute: "mode", expected: "linear or circular", found: mode }),
    };
    if axis == 0 || update.rank() != x.rank() {
        return Err(mismatch("an axis of positions behind that of batches, in both inputs", update.shape()));
    }
    let build = &mut *call.build;
    for (n, (mine, theirs)) in x.shape().iter().zip(update.shape()).enumerate() {
        if n == axis {
            build.require_at_least("the positions of a cache", mine, theirs)?;
        } else {
            build.require_equal("the extents of cache and update", mine, theirs)?;
        }
    }
    let (shape, extent, count) = (x.shape().to_vec(), x.shape()[axis].clone(), update.shape()[axis].clone());
    build.one_is_usual(&[&shape[0], &count]);
    let starts = match starts {
        Some(starts) => {
            if starts.rank() != 1 {
                return Err(mismatch("one position per batch", starts.shape()));
            }
            build.require_equal("the batches of cache and positions", &shape[0], &starts.shape()[0])?;
            build.cast(&starts, DType::I64)?
        }
        None => build.scalar(DType::I64, 0.0),
    };
    // Over batches and positions: which part of the update is written, −1 for none.
    let per_position = vec![shape[0].clone(), extent.clone()];
    let spread = |build: &mut Builder, shape: &[Dim]| match starts.rank() {
        0 => Ok(starts.clone()),
        _ => build.view(&starts, vec![var(0)], shape.to_vec()),
    };
    let offset_at = |body: &mut Body, axis: usize, start: ScalarId| {
        let offset = behind(body, var(axis), start);
        if !around {
            return offset;
        }
        let extent = index(body, extent.clone());
        body.binary(BinaryOp::Mod, offset, extent)
    };
    let first = spread(build, &per_position)?;
    let written = build.map_over(per_position, &[&first], |body, p| {
        let offset = offset_at(body, 1, p[0]);
        let (inside, none) = (is_below(body, offset, count.clone()), index(body, Dim::constant(-1)));
        body.select(inside, offset, none)
    })?;
    let written = build.view(&written, vec![var(0), var(axis)], shape.clone())?;
    let found = elements_along(build, &update, &written, axis)?;
    let first = spread(build, &shape)?;
    let result = build.map_over(shape, &[&first, &found, &x], |body, p| {
        let offset = offset_at(body, axis, p[0]);
        let inside = is_below(body, offset, count);
        body.select(inside, p[1], p[2])
    })?;
    Ok(vec![result])
}

/// How far a coordinate is behind a position that data tells.
pub(super) fn behind(body: &mut Body, here: IndexExpr, start: ScalarId) -> ScalarId {
    let here = index(body, here);
    body.binary(BinaryOp::Sub, here, start)
}

/// Whether a number is one of the first so many, from 0 on. Said of a coordinate on its own, it tells loops from where to
/// where they go (`Stage::span`).
pub(super) fn is_below(body: &mut Body, offset: ScalarId, count: Dim) -> ScalarId {
    let (zero, count) = (index(body, Dim::constant(0)), index(body, count));
    let (from, to) = (body.compare(CompareOp::Ge, offset, zero), body.compare(CompareOp::Lt, offset, count));
    body.binary(BinaryOp::And, from, to)
}
