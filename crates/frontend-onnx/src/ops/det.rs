//! Det: determinants, by elimination with the largest pivot of each column.
//!
//! ONNX operator `Det`, opset 11 and later. Taking a column and its pivot's row away leaves a smaller matrix whose
//! determinant, times the pivot, is that of the larger one up to its sign; so there are as many steps as rows.

use super::Operator;
use super::elementwise::require_float;
use super::gather_elements::elements_along;
use super::reduce::first_extremum;
use crate::build::{Builder, Result, compute_type, index, mismatch, var};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_ir::scalar::{BinaryOp, CompareOp, UnaryOp};
use infc_tensor::DType;

pub(super) const OPERATORS: &[Operator] = &[Operator::new("Det", 11, det)];

/// Larger matrices would become too many nodes.
const MAX_ROWS: i64 = 64;

fn det(call: &mut Call<'_>) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    require_float(&x)?;
    let [.., rows, columns] = x.shape() else { return Err(mismatch("square matrices", x.shape())) };
    let build = &mut *call.build;
    build.require_equal("the rows and columns of a matrix", rows, columns)?;
    let rows =
        rows.as_const().or(columns.as_const()).ok_or(Problem::DynamicValue { what: "the size of the matrix" })?;
    if rows > MAX_ROWS {
        return Err(mismatch(format!("matrices of at most {MAX_ROWS} rows"), x.shape()));
    }
    let batch = x.shape()[..x.rank() - 2].to_vec();
    let wide = compute_type(x.dtype());
    let one = build.scalar(wide, 1.0);
    let mut product = build.broadcast(&one, &batch)?;
    let mut rest = build.cast(&x, wide)?;
    for size in (1..=rows).rev() {
        (product, rest) = eliminated(build, &product, &rest, size)?;
    }
    Ok(vec![build.cast(&product, x.dtype())?])
}

/// The product with one more pivot, and what is left of the matrices, of `size` rows.
fn eliminated(build: &mut Builder, product: &Tracked, x: &Tracked, size: i64) -> Result<(Tracked, Tracked)> {
    let lead = x.rank() - 2;
    let batch = x.shape()[..lead].to_vec();
    let wide = x.dtype();
    let sized = |rows: i64, columns: i64| {
        batch.iter().cloned().chain([Dim::constant(rows), Dim::constant(columns)]).collect::<Vec<_>>()
    };
    let own = |rows: i64, columns: i64| -> Vec<_> {
        (0..lead).map(var).chain([var(lead) + rows, var(lead + 1) + columns]).collect()
    };
    let column = build.view(x, own(0, 0), sized(size, 1))?;
    let magnitude = build.map(&[&column], |body, p| body.unary(UnaryOp::Abs, p[0]))?;
    let at = first_extremum(build, &magnitude, lead)?;
    let at = build.reshape(&at, &sized(1, 1))?;
    let pivot = elements_along(build, &column, &at, lead)?;
    let scalar = (build.reshape(&pivot, &batch)?, build.reshape(&at, &batch)?);
    let product = build.map(&[product, &scalar.0, &scalar.1], |body, p| {
        let one = index(body, Dim::constant(1));
        let odd = body.binary(BinaryOp::And, p[2], one);
        let odd = body.compare(CompareOp::Eq, odd, one);
        let negative = body.unary(UnaryOp::Neg, p[1]);
        let pivot = body.select(odd, negative, p[1]);
        body.binary(BinaryOp::Mul, p[0], pivot)
    })?;
    if size == 1 {
        return Ok((product, x.clone()));
    }
    let across = build.broadcast(&at, &sized(1, size))?;
    let pivot_row = elements_along(build, x, &across, lead)?;
    // The other rows close up.
    let places = build.broadcast(&at, &sized(size - 1, size))?;
    let places = build.map(&[&places], |body, p| {
        let (row, next) = (index(body, var(lead)), index(body, var(lead) + 1));
        let before = body.compare(CompareOp::Lt, row, p[0]);
        let place = body.select(before, row, next);
        body.cast(DType::I64, place)
    })?;
    let others = elements_along(build, x, &places, lead)?;
    let rest = sized(size - 1, size - 1);
    let first = build.view(&others, own(0, 0), sized(size - 1, 1))?;
    let (others, row) =
        (build.view(&others, own(0, 1), rest.clone())?, build.view(&pivot_row, own(0, 1), sized(1, size - 1))?);
    let rest = build.map_over(rest, &[&others, &first, &row, &pivot], |body, p| {
        let zero = body.constant(wide, 0.0);
        // A column of zeros: the determinant is zero already.
        let nothing = body.compare(CompareOp::Eq, p[3], zero);
        let factor = body.binary(BinaryOp::Div, p[1], p[3]);
        let factor = body.select(nothing, zero, factor);
        let part = body.binary(BinaryOp::Mul, factor, p[2]);
        body.binary(BinaryOp::Sub, p[0], part)
    })?;
    Ok((product, rest))
}
