//! Look-up of single elements and of slices by several positions: GatherElements, GatherND, ReverseSequence.
//!
//! All are a [`Builder::gather`] from a table of rows, at row numbers that are computed from the positions.

use super::Operator;
use crate::build::{Builder, Result, index, mismatch, product, var};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("GatherElements", 11, gather_elements),
    Operator::new("GatherND", 11, gather_nd),
    Operator::new("ReverseSequence", 10, reverse_sequence),
];

pub(super) fn require_indices(x: &Tracked) -> Result<()> {
    if matches!(x.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(Problem::UnsupportedType { expected: "i64 or i32 indices", found: x.dtype() })
}

/// Elements from one to the next along each axis, in row-major order.
pub(super) fn strides(shape: &[Dim]) -> Result<Vec<Dim>> {
    (0..shape.len()).map(|n| product(&shape[n + 1..])).collect()
}

/// A position within an extent as i64: negative ones count from the end, others outside are clamped.
pub(super) fn position(body: &mut Body, p: ScalarId, extent: &Dim) -> ScalarId {
    let p = body.cast(DType::I64, p);
    let (zero, extent) = (body.constant(DType::I64, 0.0), index(body, extent.clone()));
    let one = body.constant(DType::I64, 1.0);
    let negative = body.compare(CompareOp::Lt, p, zero);
    let wrapped = body.binary(BinaryOp::Add, p, extent);
    let p = body.select(negative, wrapped, p);
    let last = body.binary(BinaryOp::Sub, extent, one);
    let p = body.binary(BinaryOp::Min, p, last);
    body.binary(BinaryOp::Max, p, zero)
}

/// `Σ positionₙ · strideₙ + base` for positions within the given extents, over the coordinates of `shape`.
pub(super) fn flat_positions(
    build: &mut Builder,
    shape: Vec<Dim>,
    positions: &[Tracked],
    extents: &[Dim],
    strides: &[Dim],
    base: IndexExpr,
) -> Result<Tracked> {
    let inputs: Vec<&Tracked> = positions.iter().collect();
    build.map_over(shape, &inputs, |body, params| {
        let mut sum = index(body, base);
        for ((&p, extent), stride) in params.iter().zip(extents).zip(strides) {
            let p = position(body, p, extent);
            let stride = index(body, stride.clone());
            let offset = body.binary(BinaryOp::Mul, p, stride);
            sum = body.binary(BinaryOp::Add, sum, offset);
        }
        sum
    })
}

/// `Σ coordinate · stride` over some axes.
pub(super) fn flat_coordinates(axes: impl IntoIterator<Item = usize>, strides: &[Dim]) -> IndexExpr {
    axes.into_iter().map(|n| var(n) * strides[n].clone()).sum()
}

/// `y[…, i, …] = x[…, indices[…, i, …], …]`
fn gather_elements(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis("axis", 0, x.rank())?;
    Ok(vec![elements_along(call.build, &x, &indices, axis)?])
}

/// The elements of `x` whose coordinate along `axis` is given by `indices`, of equal rank.
pub(super) fn elements_along(build: &mut Builder, x: &Tracked, indices: &Tracked, axis: usize) -> Result<Tracked> {
    require_indices(indices)?;
    require_within(build, x, indices, axis)?;
    let (shape, strides) = (x.shape().to_vec(), strides(x.shape())?);
    let base = flat_coordinates((0..shape.len()).filter(|&n| n != axis), &strides);
    let at = std::slice::from_ref(indices);
    let rows = indices.shape().to_vec();
    let flat = flat_positions(build, rows, at, &shape[axis..=axis], &strides[axis..=axis], base)?;
    let table = build.reshape(x, &[product(&shape)?])?;
    build.gather(&table, &flat, 0)
}

/// Sees to it that indices along an axis do not reach beyond the data along the others.
pub(super) fn require_within(build: &mut Builder, x: &Tracked, indices: &Tracked, axis: usize) -> Result<()> {
    if indices.rank() != x.rank() {
        return Err(mismatch(format!("{} axes, as the data has", x.rank()), indices.shape()));
    }
    for (n, (extent, reach)) in x.shape().iter().zip(indices.shape()).enumerate() {
        if n != axis {
            build.require_at_least("the extents of the data, compared with those of the indices,", extent, reach)?;
        }
    }
    Ok(())
}

/// The components of the tuples in the last axis of `indices`, each over the other axes.
pub(super) fn components(build: &mut Builder, indices: &Tracked) -> Result<Vec<Tracked>> {
    require_indices(indices)?;
    let Some((depth, lead)) = indices.shape().split_last() else {
        return Err(mismatch("at least one axis of index tuples", indices.shape()));
    };
    let depth = depth.as_const().ok_or(Problem::DynamicValue { what: "the length of the index tuples" })?;
    if !(0..=crate::build::MAX_RANK as i64).contains(&depth) {
        return Err(mismatch("index tuples no longer than the data has axes", indices.shape()));
    }
    let axis = lead.len();
    (0..depth)
        .map(|n| {
            let one = build.slice_axis(indices, axis, Dim::constant(n), Dim::constant(1))?;
            build.reshape(&one, lead)
        })
        .collect()
}

/// `y[b…, q…, s…] = x[b…, indices[b…, q…, :]…, s…]`
fn gather_nd(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let build = &mut *call.build;
    let found = components(build, &indices)?;
    let batch = call.int_or("batch_dims", 0)?;
    let build = &mut *call.build;
    let fits = |b: &usize| b + found.len() <= x.rank() && *b < indices.rank();
    let batch = usize::try_from(batch)
        .ok()
        .filter(fits)
        .ok_or_else(|| mismatch(format!("at least {} axes beside {batch} for batches", found.len()), x.shape()))?;
    for n in 0..batch {
        build.require_equal("the batches of data and indices", &x.shape()[n], &indices.shape()[n])?;
    }
    let (looked_up, slice) = x.shape().split_at(batch + found.len());
    let strides = strides(looked_up)?;
    let shape = indices.shape()[..indices.rank() - 1].to_vec();
    let base = flat_coordinates(0..batch, &strides);
    let rows = flat_positions(build, shape, &found, &looked_up[batch..], &strides[batch..], base)?;
    let mut table = vec![product(looked_up)?];
    table.extend_from_slice(slice);
    let table = build.reshape(&x, &table)?;
    Ok(vec![build.gather(&table, &rows, 0)?])
}

/// The first elements of each batch along the axis of time come in reverse, as many as `sequence_lens` says.
fn reverse_sequence(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let (x, lengths) = (call.input(0)?, call.input(1)?);
    require_indices(&lengths)?;
    if x.rank() < 2 {
        return Err(mismatch("at least 2 axes", x.shape()));
    }
    let time = axis(call.int_or("time_axis", 0)?, x.rank())?;
    let batch = axis(call.int_or("batch_axis", 1)?, x.rank())?;
    if time > 1 || batch > 1 || time == batch {
        let found = format!("{time}, with batches along axis {batch}");
        return Err(Problem::InvalidAttribute { attribute: "time_axis", expected: "0 and 1, or 1 and 0", found });
    }
    if lengths.rank() != 1 {
        return Err(mismatch("one length per batch", lengths.shape()));
    }
    let build = &mut *call.build;
    build.require_equal("the batches of data and lengths", &x.shape()[batch], &lengths.shape()[0])?;
    let shape = x.shape()[..2].to_vec();
    let strides = strides(&shape)?;
    let per_batch = build.view(&lengths, vec![var(batch)], shape.clone())?;
    let (extent, stride) = (shape[time].clone(), strides[time].clone());
    let rows = build.map_over(shape.clone(), &[&per_batch], |body, p| {
        let length = body.cast(DType::I64, p[0]);
        let (t, one) = (index(body, var(time)), body.constant(DType::I64, 1.0));
        let inside = body.compare(CompareOp::Lt, t, length);
        let last = body.binary(BinaryOp::Sub, length, one);
        let mirrored = body.binary(BinaryOp::Sub, last, t);
        let t = body.select(inside, mirrored, t);
        let t = position(body, t, &extent);
        let stride = index(body, stride);
        let offset = body.binary(BinaryOp::Mul, t, stride);
        let base = index(body, var(batch) * strides[batch].clone());
        body.binary(BinaryOp::Add, offset, base)
    })?;
    let mut table = vec![product(&shape)?];
    table.extend_from_slice(&x.shape()[2..]);
    let table = build.reshape(&x, &table)?;
    Ok(vec![build.gather(&table, &rows, 0)?])
}
