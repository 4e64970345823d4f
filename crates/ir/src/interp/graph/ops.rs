//! All operations but contraction.

use super::super::array::Array;
use super::super::body::{NoLoads, Program, Registers, bind, bind_bounds};
use super::super::fold::{Fold, Scratch};
use super::super::index_fn::BoundFn;
use super::super::points::for_each_point;
use super::super::{InterpError, check_points};
use super::Context;
use crate::index::Dim;
use crate::op::{MapOp, ReduceOp, ScanOp, ViewOp};
use crate::scalar::Scalar;
use infc_tensor::DType;
use std::rc::Rc;

/// Every point of the output from the same point of the inputs.
pub(super) fn map(cx: &Context<'_>, map: &MapOp, operands: &[Rc<Array>]) -> Result<Vec<Rc<Array>>, InterpError> {
    let shape = cx.output_shape(0)?;
    if operands.iter().any(|o| o.shape != shape) {
        return Err(cx.malformed("an input of another shape than the output"));
    }
    let body = Program::new(cx.place, &map.body, &map.results, cx.symbols)?;
    let mut outputs = arrays(cx, body.dtypes(), &shape)?;
    let axes: Vec<usize> = (0..shape.len()).collect();
    let mut vars = vec![0; shape.len()];
    let (mut registers, mut params, mut results) = (Registers::default(), Vec::new(), Vec::new());
    let mut at = 0;
    for_each_point(&axes, &shape, &mut vars, &mut |vars| {
        params.clear();
        params.extend(operands.iter().map(|o| o.get(at)));
        body.run(vars, &params, &NoLoads(cx.place), &mut registers, &mut results)?;
        for (output, &value) in outputs.iter_mut().zip(&results) {
            output.set(at, value);
        }
        at += 1;
        Ok(())
    })?;
    Ok(outputs.into_iter().map(Rc::new).collect())
}

fn arrays(cx: &Context<'_>, dtypes: &[DType], shape: &[i64]) -> Result<Vec<Array>, InterpError> {
    dtypes.iter().map(|&dtype| Array::zeros(cx.place, dtype, shape.to_vec())).collect()
}

/// Every output element is one input element, or the value outside.
pub(super) fn view(cx: &Context<'_>, view: &ViewOp, input: &Array) -> Result<Array, InterpError> {
    let shape = super::eval_shape(cx.place, &view.shape, cx.symbols)?;
    let mut output = Array::zeros(cx.place, input.dtype, shape)?;
    let index = view.map.index.iter().map(|e| bind(cx.place, e, cx.symbols)).collect::<Result<Vec<_>, _>>()?;
    let valid = bind_bounds(cx.place, &view.map.valid, cx.symbols)?;
    let otherwise = Scalar::from_const(view.otherwise);
    let axes: Vec<usize> = (0..output.shape.len()).collect();
    let mut vars = vec![0; axes.len()];
    let mut from = Vec::with_capacity(index.len());
    let mut at = 0;
    let shape = output.shape.clone();
    for_each_point(&axes, &shape, &mut vars, &mut |vars| {
        let undefined = || cx.malformed("an index that overflows or divides by zero");
        let value = if BoundFn::all(&valid, vars).ok_or_else(undefined)? {
            from.clear();
            for f in &index {
                from.push(f.eval(vars).ok_or_else(undefined)?);
            }
            let position = input.position(&from).ok_or_else(|| InterpError::ReadOutOfBounds {
                reader: cx.place.to_owned(),
                name: input.name.clone(),
                index: from.clone(),
                shape: input.shape.clone(),
            })?;
            input.get(position)
        } else {
            otherwise
        };
        output.set(at, value);
        at += 1;
        Ok(())
    })?;
    Ok(output)
}

/// Folds axes, in the order of the coordinates.
pub(super) fn reduce(
    cx: &Context<'_>,
    reduce: &ReduceOp,
    operands: &[Rc<Array>],
) -> Result<Vec<Rc<Array>>, InterpError> {
    let first = operands.first().ok_or_else(|| cx.malformed("a missing operand"))?;
    if operands.iter().any(|o| o.shape != first.shape) || reduce.axes.iter().any(|&a| a >= first.shape.len()) {
        return Err(cx.malformed("inputs of different shapes, or an axis that does not exist"));
    }
    let extents = first.shape.clone();
    let kept: Vec<usize> = (0..extents.len()).filter(|a| !reduce.axes.contains(a)).collect();
    let shape: Vec<i64> = kept.iter().map(|&a| extents[a]).collect();
    let body = Program::new(cx.place, &reduce.body, &reduce.elements, cx.symbols)?;
    let fold = Fold::new(cx.place, &reduce.reducer, body.dtypes().len(), cx.symbols)?;
    let mut outputs = arrays(cx, fold.dtypes(), &shape)?;
    let mut vars = vec![0; extents.len()];
    let mut registers = Registers::default();
    let (mut params, mut element, mut accumulator) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = Scratch::default();
    let mut to = 0;
    for_each_point(&kept, &extents, &mut vars, &mut |vars| {
        accumulator.clear();
        accumulator.extend_from_slice(fold.init());
        for_each_point(&reduce.axes, &extents, vars, &mut |vars| {
            let from = first.position(vars).expect("within the extents");
            params.clear();
            params.extend(operands.iter().map(|o| o.get(from)));
            body.run(vars, &params, &NoLoads(cx.place), &mut registers, &mut element)?;
            fold.fold(cx.place, &mut scratch, &mut accumulator, &element)
        })?;
        for (output, &value) in outputs.iter_mut().zip(&accumulator) {
            output.set(to, value);
        }
        to += 1;
        Ok(())
    })?;
    Ok(outputs.into_iter().map(Rc::new).collect())
}

/// Slices at positions that count from the end if negative, clamped.
pub(super) fn gather(cx: &Context<'_>, axis: usize, data: &Array, indices: &Array) -> Result<Array, InterpError> {
    let Some(&extent) = data.shape.get(axis) else {
        return Err(cx.malformed("an axis that does not exist"));
    };
    let mut shape = data.shape[..axis].to_vec();
    shape.extend_from_slice(&indices.shape);
    shape.extend_from_slice(&data.shape[axis + 1..]);
    let mut output = Array::zeros(cx.place, data.dtype, shape)?;
    if output.len() > 0 && extent == 0 {
        return Err(cx.malformed("a gather from an axis of extent 0"));
    }
    if output.len() == 0 {
        return Ok(output);
    }
    let inner = product(&data.shape[axis + 1..]);
    let mut to = 0;
    for outer in 0..product(&data.shape[..axis]) {
        for n in 0..indices.len() {
            let wanted = indices.get(n).to_i64();
            let wrapped = if wanted < 0 { wanted.saturating_add(extent) } else { wanted };
            let row = wrapped.clamp(0, extent - 1) as usize;
            for i in 0..inner {
                output.set(to, data.get((outer * extent as usize + row) * inner + i));
                to += 1;
            }
        }
    }
    Ok(output)
}

/// The number of elements of a shape whose array exists.
fn product(shape: &[i64]) -> usize {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d as usize))
}

/// One input after the other.
pub(super) fn concat(cx: &Context<'_>, axis: usize, operands: &[Rc<Array>]) -> Result<Array, InterpError> {
    let first = operands.first().ok_or_else(|| cx.malformed("a missing operand"))?;
    let fits = |o: &Rc<Array>| {
        let same = |(n, (a, b)): (usize, (&i64, &i64))| n == axis || a == b;
        o.dtype == first.dtype
            && o.shape.len() == first.shape.len()
            && o.shape.iter().zip(&first.shape).enumerate().all(same)
    };
    if axis >= first.shape.len() || !operands.iter().all(fits) {
        return Err(cx.malformed("inputs that do not fit together"));
    }
    let mut shape = first.shape.clone();
    shape[axis] = operands.iter().map(|o| o.shape[axis]).sum();
    let mut output = Array::zeros(cx.place, first.dtype, shape)?;
    if output.len() == 0 {
        return Ok(output);
    }
    let mut to = 0;
    for outer in 0..product(&first.shape[..axis]) {
        for operand in operands {
            let inner = product(&operand.shape[axis..]);
            for i in 0..inner {
                output.set(to, operand.get(outer * inner + i));
                to += 1;
            }
        }
    }
    Ok(output)
}

/// A running fold.
pub(super) fn scan(cx: &Context<'_>, scan: &ScanOp, input: &Array) -> Result<Array, InterpError> {
    let Some(&extent) = input.shape.get(scan.axis) else {
        return Err(cx.malformed("an axis that does not exist"));
    };
    check_points(cx.place, &input.shape)?;
    let fold = Fold::new(cx.place, &scan.reducer, 1, cx.symbols)?;
    let mut output = Array::zeros(cx.place, fold.dtypes()[0], input.shape.clone())?;
    if output.len() == 0 {
        return Ok(output);
    }
    let inner = product(&input.shape[scan.axis + 1..]);
    let (mut scratch, mut accumulator) = (Scratch::default(), Vec::new());
    for outer in 0..product(&input.shape[..scan.axis]) {
        for i in 0..inner {
            accumulator.clear();
            accumulator.extend_from_slice(fold.init());
            for step in 0..extent {
                let row = if scan.reverse { extent - 1 - step } else { step } as usize;
                let at = (outer * extent as usize + row) * inner + i;
                if scan.exclusive {
                    output.set(at, accumulator[0]);
                }
                fold.fold(cx.place, &mut scratch, &mut accumulator, &[input.get(at)])?;
                if !scan.exclusive {
                    output.set(at, accumulator[0]);
                }
            }
        }
    }
    Ok(output)
}

/// The value of a dim.
pub(super) fn dim_value(cx: &Context<'_>, dim: &Dim) -> Result<Array, InterpError> {
    let value = super::eval_shape(cx.place, std::slice::from_ref(dim), cx.symbols)?[0];
    let mut output = Array::zeros(cx.place, DType::I64, Vec::new())?;
    output.set(0, Scalar::Int(value));
    Ok(output)
}
