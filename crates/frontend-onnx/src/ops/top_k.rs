//! TopK and Hardmax: the places of the largest elements along an axis.
//!
//! An element's rank is the number of elements that come before it, ties by position. That is a reduction, which costs
//! the square of the axis but runs in vectors and in any order. Of long lists of floats it is asked of those only that are
//! taken, which are [selected](super::select) before; the host sorts what is too long all the same. The places are scattered
//! by their ranks.

use super::Operator;
use super::elementwise::require_float;
use super::gather_elements::elements_along;
use super::quadratic::require_bearable;
use super::reduce::first_extremum;
use super::select;
use crate::build::{Builder, Result, compute_type, index, mismatch, product, var};
use crate::call::Call;
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body, CompareOp, UnaryOp};
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
    // Of long lists few are sorted.
    let len = &x.shape()[axis];
    let may_be_long = call.build.ranges().interval(len).max.is_none_or(|most| most >= select::LEAST);
    let few = len.as_const().zip(k.as_const()).is_none_or(|(len, k)| k <= len / 2);
    let selects = may_be_long && few && compute_type(x.dtype()) == DType::F32;
    let others = x.shape().iter().enumerate().filter(|(n, _)| *n != axis).map(|(_, extent)| extent);
    let sorted = if selects { &k } else { len };
    require_bearable(call, "comparing every element with every other", others.chain([sorted, sorted]))?;
    let build = &mut *call.build;
    build.require_at_least("the number of elements taken", &k, &Dim::constant(0))?;
    build.require_at_least("the axis that elements are taken from", &x.shape()[axis], &k)?;
    let keys = build.cast(&x, compute_type(x.dtype()))?;
    let (keys, largest) = match keys.dtype() {
        DType::F32 => (select::keys(build, &keys, largest)?, true),
        _ => (keys, largest),
    };
    let places = if selects {
        let candidates = select::candidates(build, &keys, axis, &k)?;
        let keys = elements_along(build, &keys, &candidates, axis)?;
        let rank = ranks(build, &keys, axis, largest)?;
        let places = places(build, &rank, axis, k)?;
        elements_along(build, &candidates, &places, axis)?
    } else {
        let rank = ranks(build, &keys, axis, largest)?;
        places(build, &rank, axis, k)?
    };
    let values = elements_along(build, &x, &places, axis)?;
    Ok(vec![values, places])
}

/// For every element, how many of its axis come before it.
fn ranks(build: &mut Builder, x: &Tracked, axis: usize, largest: bool) -> Result<Tracked> {
    let mut shape = x.shape().to_vec();
    shape.push(x.shape()[axis].clone());
    let other = x.rank();
    let index_of = |along: usize| (0..x.rank()).map(|n| if n == axis { var(along) } else { var(n) }).collect();
    let mine = build.view(x, index_of(axis), shape.clone())?;
    let theirs = build.view(x, index_of(other), shape)?;
    let ranks = build.reduce(&[&mine, &theirs], &[other], Reducer::sum(RANK_TYPE), |body, p| {
        let before = comes_before(body, p[1], p[0], largest);
        let [i, j] = [axis, other].map(|axis| {
            let place = index(body, var(axis));
            body.cast(RANK_TYPE, place)
        });
        let earlier = body.compare(CompareOp::Lt, j, i);
        // Where neither comes first they are equal, and the position decides.
        let equal = if body.dtype(p[0]).is_int() {
            body.compare(CompareOp::Eq, p[0], p[1])
        } else {
            let behind = comes_before(body, p[0], p[1], largest);
            let ordered = body.binary(BinaryOp::Or, before, behind);
            body.unary(UnaryOp::Not, ordered)
        };
        let earlier = body.binary(BinaryOp::And, equal, earlier);
        let first = body.binary(BinaryOp::Or, before, earlier);
        vec![body.cast(RANK_TYPE, first)]
    })?;
    Ok(ranks[0].clone())
}

/// True if `a` is taken before `b`; NaN is larger than everything.
fn comes_before(body: &mut Body, a: ScalarId, b: ScalarId, largest: bool) -> ScalarId {
    let (more, less) = if largest { (a, b) } else { (b, a) };
    let dtype = body.dtype(a);
    if dtype == DType::Bool {
        let not = body.unary(UnaryOp::Not, less);
        return body.binary(BinaryOp::And, more, not);
    }
    let greater = body.compare(CompareOp::Gt, more, less);
    if !dtype.is_float() {
        return greater;
    }
    let (more, less) = (body.unary(UnaryOp::IsNan, more), body.unary(UnaryOp::IsNan, less));
    let number = body.unary(UnaryOp::Not, less);
    let above_numbers = body.binary(BinaryOp::And, more, number);
    body.binary(BinaryOp::Or, greater, above_numbers)
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
