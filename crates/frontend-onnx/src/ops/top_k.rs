//! TopK and Hardmax: the places of the largest elements along an axis.
//!
//! An element's rank is the number of elements that come before it, ties by position. That is a reduction, which costs
//! the square of the axis but runs in vectors and in any order. Of long lists it is asked of those only that are
//! taken, which are [selected](super::select) before; the host sorts what is too long all the same. The places are scattered
//! by their ranks. A few elements are found one after the other.

use super::Operator;
use super::elementwise::require_float;
use super::gather_elements::elements_along;
use super::quadratic::require_bearable;
use super::reduce::first_extremum;
use super::select;
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, CompareOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("TopK", 1, top_k), Operator::new("Hardmax", 1, hardmax)];

/// Of ranks and positions along an axis: more could not be sorted by comparing in any case.
const RANK_TYPE: DType = DType::I32;

fn top_k(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let k = if call.opset < 10 {
        Dim::constant(call.int_or("k", 0)?)
    } else {
        let given = call.sizes(1, "how many are taken")?;
        given.first().cloned().ok_or_else(|| mismatch("one number", &[Dim::constant(0)]))?
    };
    let axis = call.axis("axis", -1, x.rank())?;
    let largest = call.flag("largest", true)?;
    let len = x.shape()[axis].clone();
    let most = call.build.ranges().interval(&len).max;
    let is_part = len.as_const().zip(k.as_const()).is_none_or(|(len, k)| k <= len / 2);
    let is_part = is_part && call.build.ranges().interval(&len).min.is_none_or(|least| least <= select::MOST);
    let are_few = k.as_const().is_some_and(|k| (1..=select::FEW).contains(&k)) && has_short_keys(x.dtype());
    let selects = !are_few && is_part && most.is_none_or(|most| most >= select::LEAST);
    if !(is_part && are_few) {
        let others = x.shape().iter().enumerate().filter(|(n, _)| *n != axis).map(|(_, extent)| extent);
        let sorted = if selects { &k } else { &len };
        require_bearable(call, "comparing every element with every other", others.chain([sorted, sorted]))?;
    }
    let build = &mut *call.build;
    build.require_at_least("the number of elements taken", &k, &Dim::constant(0))?;
    build.require_at_least("the axis that elements are taken from", &len, &k)?;
    let keys = build.cast(&x, compute_type(x.dtype()))?;
    let keys = select::keys(build, &keys, largest)?;
    let places = match k.as_const().filter(|_| is_part && are_few) {
        Some(k) => select::few(build, &keys, axis, k)?,
        None if selects => {
            let candidates = select::candidates(build, &keys, axis, &k)?;
            let keys = elements_along(build, &keys, &candidates, axis)?;
            let rank = ranks(build, &keys, axis)?;
            let places = places(build, &rank, axis, k)?;
            elements_along(build, &candidates, &places, axis)?
        }
        None => {
            let rank = ranks(build, &keys, axis)?;
            places(build, &rank, axis, k)?
        }
    };
    let values = elements_along(build, &x, &places, axis)?;
    Ok(vec![values, places])
}

/// Whether what elements of a type are compared by has 32 bits.
fn has_short_keys(dtype: DType) -> bool {
    !matches!(dtype, DType::I64 | DType::U64 | DType::F64)
}

/// For every key, how many of its axis come before it: larger ones, and equal ones in front of it.
fn ranks(build: &mut Builder, keys: &Tracked, axis: usize) -> Result<Tracked> {
    let mut shape = keys.shape().to_vec();
    shape.push(keys.shape()[axis].clone());
    let other = keys.rank();
    let index_of = |along: usize| (0..keys.rank()).map(|n| if n == axis { var(along) } else { var(n) }).collect();
    let mine = build.view(keys, index_of(axis), shape.clone())?;
    let theirs = build.view(keys, index_of(other), shape)?;
    let ranks = build.reduce(&[&mine, &theirs], &[other], Reducer::sum(RANK_TYPE), |body, p| {
        let [i, j] = [axis, other].map(|axis| {
            let place = index(body, var(axis));
            body.cast(RANK_TYPE, place)
        });
        let (larger, equal) = (body.compare(CompareOp::Gt, p[1], p[0]), body.compare(CompareOp::Eq, p[1], p[0]));
        let earlier = body.compare(CompareOp::Lt, j, i);
        let earlier = body.binary(BinaryOp::And, equal, earlier);
        let first = body.binary(BinaryOp::Or, larger, earlier);
        vec![body.cast(RANK_TYPE, first)]
    })?;
    Ok(ranks[0].clone())
}

/// Where the elements of ranks 0 to k−1 are: `[…, k, …]`, i64.
fn places(build: &mut Builder, ranks: &Tracked, axis: usize, k: Dim) -> Result<Tracked> {
    let ranks = build.cast(ranks, DType::I64)?;
    super::scatter::sums_by_target(build, &ranks, axis, k, DType::I64, index)
}

/// 1 at the first largest element, else 0; before opset 13 of all axes from `axis` on, since then of one.
fn hardmax(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let (shape, dtype) = (x.shape().to_vec(), x.dtype());
    let (flat, axis) = if call.opset < 13 {
        let axis = call.axis("axis", 1, x.rank())?;
        let rows = [product(&shape[..axis])?, product(&shape[axis..])?];
        (call.build.reshape(&x, &rows)?, 1)
    } else {
        let axis = call.axis("axis", -1, x.rank())?;
        (x, axis)
    };
    let build = &mut *call.build;
    let keys = build.cast(&flat, compute_type(dtype))?;
    let at = first_extremum(build, &keys, axis)?;
    let mut one_row = flat.shape().to_vec();
    one_row[axis] = Dim::constant(1);
    let at = build.reshape(&at, &one_row)?;
    let result = build.map_over(flat.shape().to_vec(), &[&at], |body, p| {
        let here = index(body, var(axis));
        let hot = body.compare(CompareOp::Eq, p[0], here);
        body.cast(dtype, hot)
    })?;
    Ok(vec![build.reshape(&result, &shape)?])
}
