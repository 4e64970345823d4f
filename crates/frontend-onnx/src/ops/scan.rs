//! Running folds: CumSum, CumProd.

use super::Operator;
use crate::build::{Result, compute_type};
use crate::call::{Call, axis};
use crate::error::Problem;
use crate::known::is_computable;
use crate::tracked::Tracked;
use infc_ir::kernel::Reducer;
use infc_ir::op::ScanOp;
use infc_ir::scalar::{BinaryOp, Const};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new("CumSum", 11, |c| running(c, BinaryOp::Add, 0.0)),
    Operator::new("CumProd", 26, |c| running(c, BinaryOp::Mul, 1.0)),
];

fn running(call: &mut Call<'_>, op: BinaryOp, neutral: f64) -> Result<Vec<Tracked>> {
    let x = call.input(0)?;
    let dtype = x.dtype();
    if !is_computable(dtype) {
        return Err(Problem::UnsupportedType { expected: "numbers of at least 8 bits", found: dtype });
    }
    let given = call.optional_ints(1, "the axis")?.and_then(|a| a.first().copied());
    let axis = axis(given.ok_or(Problem::MissingInput { index: 1 })?, x.rank())?;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let wide = compute_type(dtype);
    let x = call.build.cast(&x, wide)?;
    let reducer = Reducer::binary(op, Const::from_f64(wide, neutral));
    let folded = call.build.scan(&x, ScanOp { axis, reverse, exclusive, reducer })?;
    Ok(vec![call.build.cast(&folded, dtype)?])
}
