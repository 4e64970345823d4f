//! Operators that are expanded where what they need is known, and have a known rank where it is not.
//!
//! All extents that the missing value decides are told by the evaluation.

use super::{Rule, Typing, axis_of};
use crate::build::{Result, mismatch};
use crate::error::Problem;
use infc_ir::graph::TensorType;
use infc_tensor::{Attribute, DType};

/// The rule for an operator, if there is one.
pub(super) fn find(op_type: &str) -> Option<Rule> {
    let rule: Rule = match op_type {
        "CumSum" | "CumProd" | "Trilu" | "Scatter" | "ScatterElements" | "ScatterND" => same,
        "Slice" | "Pad" | "Tile" | "Resize" | "Upsample" | "CenterCropPad" => same_rank,
        // Where the window is not known.
        "Conv" | "ConvTranspose" | "DeformConv" => same_rank,
        "TopK" => top_k,
        "Reshape" => |t| ranked(t, 0, 1),
        "Expand" => expand,
        "ConstantOfShape" => constant_of_shape,
        "Range" => |t| numbered(t, 0, 1),
        "Squeeze" => squeeze,
        "Unsqueeze" => unsqueeze,
        "OneHot" => one_hot,
        "ReduceSum" | "ReduceMean" | "ReduceProd" | "ReduceMax" | "ReduceMin" | "ReduceL1" | "ReduceL2"
        | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare" => reduce,
        _ => return None,
    };
    Some(rule)
}

fn same(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![t.call.input(0)?.ty().clone()])
}

/// Of the type of an input, with so many axes.
fn numbered(t: &mut Typing<'_, '_>, input: usize, rank: usize) -> Result<Vec<TensorType>> {
    let dtype = t.call.input(input)?.dtype();
    Ok(vec![TensorType::new(dtype, (0..rank).map(|axis| t.fresh(0, axis, None)).collect())])
}

fn same_rank(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let rank = t.call.input(0)?.rank();
    numbered(t, 0, rank)
}

/// How many elements a list among the inputs has, which the model must say.
fn len_of(t: &Typing<'_, '_>, input: usize) -> Result<usize> {
    let list = t.call.input(input)?;
    let len = if list.rank() == 0 { Some(1) } else { list.shape()[0].as_const() };
    let len = len.and_then(|len| usize::try_from(len).ok()).filter(|&len| len <= crate::build::MAX_RANK);
    len.ok_or(Problem::DynamicValue { what: "the number of axes" })
}

/// As many axes as another input has elements.
fn ranked(t: &mut Typing<'_, '_>, input: usize, shape: usize) -> Result<Vec<TensorType>> {
    let rank = len_of(t, shape)?;
    numbered(t, input, rank)
}

fn expand(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let rank = len_of(t, 1)?.max(t.call.input(0)?.rank());
    numbered(t, 0, rank)
}

fn constant_of_shape(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let dtype = match t.attributes.get("value") {
        Some(Attribute::Tensor(value)) => value.dtype(),
        _ => DType::F32,
    };
    let rank = len_of(t, 0)?;
    Ok(vec![TensorType::new(dtype, (0..rank).map(|axis| t.fresh(0, axis, None)).collect())])
}

/// The greatest elements along an axis, and where they are.
fn top_k(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let axis = axis_of(t.call.int_or("axis", -1)?, x.rank())?;
    let mut shape = x.shape().to_vec();
    let max = t.max_of(&shape[axis]);
    shape[axis] = match t.call.sizes(1, "how many are taken") {
        Ok(known) if known.len() == 1 => known[0].clone(),
        _ => t.fresh(0, axis, max),
    };
    Ok(vec![TensorType::new(x.dtype(), shape.clone()), TensorType::new(DType::I64, shape)])
}

fn squeeze(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    if t.call.optional(1).is_none() {
        // Extents say which axes are.
        return Err(Problem::DynamicValue { what: "the number of axes" });
    }
    let (x, count) = (t.call.input(0)?, len_of(t, 1)?);
    let rank = x.rank().checked_sub(count).ok_or_else(|| mismatch(format!("{count} axes at least"), x.shape()))?;
    numbered(t, 0, rank)
}

fn unsqueeze(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let rank = t.call.input(0)?.rank() + len_of(t, 1)?;
    numbered(t, 0, rank)
}

fn one_hot(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let indices = t.call.input(0)?;
    let axis = t.call.int_or("axis", -1)?;
    let axis = axis_of(axis, indices.rank() + 1)?;
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, t.fresh(0, axis, None));
    Ok(vec![TensorType::new(t.call.input(2)?.dtype(), shape)])
}

/// Without the axes that are folded, unless they are kept.
fn reduce(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    if t.call.flag("keepdims", true)? {
        let mut shape = x.shape().to_vec();
        for (axis, extent) in shape.iter_mut().enumerate().filter(|(_, extent)| !extent.is_const(1)) {
            let max = t.max_of(extent).map(|max| max.max(1));
            let whole = std::mem::replace(extent, t.fresh(0, axis, max));
            t.call.build.folded.extend(extent.as_symbol().map(|symbol| (symbol, whole)));
        }
        return Ok(vec![TensorType::new(x.dtype(), shape)]);
    }
    let rank = match len_of(t, 1)? {
        // No axes are all of them, or none.
        0 if t.call.flag("noop_with_empty_axes", false)? => x.rank(),
        0 => 0,
        count => x.rank().checked_sub(count).ok_or_else(|| mismatch(format!("{count} axes at least"), x.shape()))?,
    };
    numbered(t, 0, rank)
}
