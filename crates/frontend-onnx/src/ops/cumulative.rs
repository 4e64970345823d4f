//! Running folds: CumSum, CumProd.

use super::Operator;
use super::axes::{around, position};
use crate::build::{Result, compute_type, mismatch};
use crate::call::Call;
use crate::error::Problem;
use crate::tracked::Tracked;
use infc_ir::kernel::Reducer;
use infc_ir::op::ScanOp;
use infc_ir::scalar::{BinaryOp, Const, is_computable};

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
    let given = call.dims(1, "the axis")?;
    let [axis] = &given[..] else { return Err(mismatch("one axis", call.input(1)?.shape())) };
    let shape = x.shape().to_vec();
    let (x, axis) = match axis.as_const() {
        Some(known) => (x, crate::call::axis(known, shape.len())?),
        // Before the axis, along it and behind it are three axes, whichever it is.
        None => {
            let position = position(call.build, axis, shape.len())?;
            let three = around(call.build, &shape, &position)?;
            (call.build.reshape(&x, &three)?, 1)
        }
    };
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let wide = compute_type(dtype);
    let x = call.build.cast(&x, wide)?;
    let reducer = Reducer::binary(op, Const::from_f64(wide, neutral));
    let folded = call.build.scan(&x, ScanOp { axis, reverse, exclusive, reducer })?;
    let folded = call.build.cast(&folded, dtype)?;
    Ok(vec![call.build.reshape(&folded, &shape)?])
}
