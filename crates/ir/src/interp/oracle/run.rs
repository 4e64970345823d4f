//! Bodies and folds on enclosed numbers.

use super::enclosed::{Enclosed, Sum, is_rounded};
use crate::interp::InterpError;
use crate::interp::body::{Instr, LoadFn, Program};
use crate::interp::fold::{Combine, Fold};
use crate::scalar::{BinaryOp, Scalar, Source};

/// Where loads read; the error says why nothing can be read.
pub(super) type Read<'a, E> = &'a mut dyn FnMut(Source, &[i64]) -> Result<Enclosed, E>;

/// The roots of a body at a point.
pub(super) fn run<E: From<InterpError>>(
    program: &Program,
    vars: &[i64],
    params: &[Enclosed],
    read: Read<'_, E>,
) -> Result<Vec<Enclosed>, E> {
    let mut values: Vec<Enclosed> = Vec::with_capacity(program.instrs.len());
    for instr in &program.instrs {
        let value = match instr {
            Instr::Skip => Enclosed::exactly(Scalar::Int(0)),
            Instr::Const(value) => Enclosed::exactly(*value),
            Instr::Param(n) => *params.get(*n).ok_or_else(|| InterpError::Malformed {
                place: program.place.clone(),
                what: "a parameter that does not exist",
            })?,
            Instr::Index(f) => Enclosed::exactly(Scalar::Int(program.eval(f, vars)?)),
            Instr::InBounds(bounds) => Enclosed::exactly(Scalar::Int(i64::from(program.hold(bounds, vars)?))),
            Instr::Load(load) => load_of(program, load, vars, &values, read)?,
            Instr::Unary(op, dtype, a) => Enclosed::unary(*op, *dtype, values[*a]),
            Instr::Binary(op, dtype, a, b) => Enclosed::binary(*op, *dtype, values[*a], values[*b]),
            Instr::Compare(op, dtype, a, b) => Enclosed::compare(*op, *dtype, values[*a], values[*b]),
            Instr::Select(c, a, b) => values[*c].select(program.types[*a], values[*a], values[*b]),
            Instr::Cast { from, to, saturating, value } => Enclosed::cast(*from, *to, *saturating, values[*value]),
            Instr::BitCast { from, to, value } => Enclosed::bit_cast(*from, *to, values[*value]),
        };
        values.push(value);
    }
    Ok(program.roots.iter().map(|&root| values[root]).collect())
}

fn load_of<E: From<InterpError>>(
    program: &Program,
    load: &LoadFn,
    vars: &[i64],
    values: &[Enclosed],
    read: Read<'_, E>,
) -> Result<Enclosed, E> {
    if !program.hold(&load.valid, vars)? {
        return Ok(Enclosed::exactly(load.otherwise));
    }
    let mut index = load.index.iter().map(|f| program.eval(f, vars)).collect::<Result<Vec<i64>, _>>()?;
    let mut is_known = true;
    for (axis, value, factor) in &load.gather {
        let Enclosed { value, error } = values[*value];
        is_known &= error == 0.0;
        let step = value.to_i64().checked_mul(program.eval(factor, vars)?);
        index[*axis] = step.and_then(|s| index[*axis].checked_add(s)).ok_or_else(|| program.undefined(factor))?;
    }
    let element = read(load.source, &index)?;
    Ok(if is_known { element } else { Enclosed { error: f64::INFINITY, ..element } })
}

/// What a reducer makes of the elements that `next` gives, until it gives none; sums perhaps by instructions for matrices.
pub(super) fn fold<E: From<InterpError>>(
    fold: &Fold,
    by_matrices: bool,
    next: &mut dyn FnMut() -> Result<Option<Vec<Enclosed>>, E>,
) -> Result<Vec<Enclosed>, E> {
    if let Combine::Binary(BinaryOp::Add, dtype) = fold.combine
        && is_rounded(dtype)
    {
        let mut sum = Sum::from(dtype, fold.init()[0], by_matrices);
        while let Some(element) = next()? {
            sum.add(element[0]);
        }
        return Ok(vec![sum.total()]);
    }
    let mut accumulator: Vec<Enclosed> = fold.init().iter().map(|&init| Enclosed::exactly(init)).collect();
    while let Some(element) = next()? {
        match &fold.combine {
            Combine::Binary(op, dtype) => {
                accumulator[0] = Enclosed::binary(*op, *dtype, accumulator[0], element[0]);
            }
            Combine::Program(program) => {
                let params = [accumulator, element].concat();
                let none = |_, _: &[i64]| -> Result<Enclosed, E> {
                    let what = "a load where there are only parameters";
                    Err(InterpError::Malformed { place: program.place.clone(), what }.into())
                };
                accumulator = run(program, &[], &params, &mut { none })?;
            }
        }
    }
    Ok(accumulator)
}
