//! The types of what host operators give, as far as they follow from types of inputs and from attributes.

mod dynamic;
mod ml;
mod moved;
mod random;
mod text;
mod values;

use super::Typing;
use crate::build::{Result, mismatch, product};
use crate::call::Call;
use crate::error::Problem;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::DType;
pub(super) use moved::{strange, types as of_moved};
pub(super) use values::value;

/// Types for all outputs that an operator may have.
pub(super) type Rule = fn(&mut Typing<'_, '_>) -> Result<Vec<TensorType>>;

/// The rule for an operator, if there is one.
pub(super) fn find(op_type: &str, domain: &str) -> Option<Rule> {
    let rule: Rule = match (domain, op_type) {
        ("", "NonZero") => non_zero,
        ("", "Unique") => unique,
        ("", "Compress") => compress,
        ("", "NonMaxSuppression") => non_max_suppression,
        ("", "RandomUniform" | "RandomNormal") => random::given,
        ("", "RandomUniformLike" | "RandomNormalLike" | "Bernoulli") => random::like,
        ("", "Dropout") => random::dropout,
        ("", "Multinomial") => random::multinomial,
        ("", "StringConcat") => text::concat,
        ("", "StringSplit") => text::split,
        ("", "StringNormalizer") => text::normalize,
        ("", "RegexFullMatch") => text::full_match,
        ("", "TfIdfVectorizer") => text::tf_idf,
        ("", "ImageDecoder") => image_decoder,
        ("", "RoiAlign") => roi_align,
        ("", "Identity") => values::same,
        ("", "SequenceConstruct") => values::construct,
        ("", "SequenceEmpty") => values::empty,
        ("", "SequenceAt") => values::at,
        ("", "SequenceInsert") => values::insert,
        ("", "SequenceErase") => values::erase,
        ("", "SequenceLength") => values::length,
        ("", "SplitToSequence") => values::split,
        ("", "ConcatFromSequence") => values::concat,
        ("", "Optional") => values::optional,
        ("", "OptionalHasElement") => values::has_element,
        ("", "OptionalGetElement") => values::get_element,
        ("ai.onnx.ml", _) => return ml::find(op_type),
        _ => return None,
    };
    Some(rule)
}

/// The rule for an operator that has a known rank, if the model does not declare its type.
pub(super) fn find_dynamic(op_type: &str, domain: &str) -> Option<Rule> {
    if domain.is_empty() { dynamic::find(op_type) } else { None }
}

fn axis_of(given: i64, rank: usize) -> Result<usize> {
    let axis = if given < 0 { given + rank as i64 } else { given };
    usize::try_from(axis).ok().filter(|&axis| axis < rank).ok_or_else(|| Problem::InvalidAttribute {
        attribute: "axis",
        expected: "an axis of the input",
        found: given.to_string(),
    })
}

/// Coordinates of all elements that are not zero: `[rank, count]`.
fn non_zero(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    // A scalar has one coordinate.
    let rank = t.call.input(0)?.rank().max(1);
    let max = t.max_elems(0)?;
    Ok(vec![TensorType::new(DType::I64, vec![Dim::constant(rank as i64), t.fresh(0, 1, max)])])
}

/// Distinct elements or slices, where each was first, the inverse, and counts.
fn unique(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let (mut shape, len, axis) = match t.call.int("axis")? {
        Some(axis) => {
            let axis = axis_of(axis, x.rank())?;
            (x.shape().to_vec(), x.shape()[axis].clone(), axis)
        }
        None => (vec![Dim::constant(0)], product(x.shape())?, 0),
    };
    let max = t.max_of(&len);
    let count = t.fresh(0, axis, max);
    shape[axis] = count.clone();
    let list = |len: Dim| TensorType::new(DType::I64, vec![len]);
    Ok(vec![TensorType::new(x.dtype(), shape), list(count.clone()), list(len), list(count)])
}

/// The slices, or elements, for which a condition holds.
fn compress(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let (mut shape, axis) = match t.call.int("axis")? {
        Some(axis) => (x.shape().to_vec(), axis_of(axis, x.rank())?),
        None => (vec![product(x.shape())?], 0),
    };
    let max = t.max_of(&shape[axis]);
    shape[axis] = t.fresh(0, axis, max);
    Ok(vec![TensorType::new(x.dtype(), shape)])
}

/// `[count, 3]`: batch, class and box of each that is kept.
fn non_max_suppression(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    // Every box of every class at most.
    let max = t.max_elems(1)?;
    Ok(vec![TensorType::new(DType::I64, vec![t.fresh(0, 0, max), Dim::constant(3)])])
}

/// `[R, C, bins, bins]`
fn roi_align(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (x, boxes) = (t.call.input(0)?, t.call.input(1)?);
    let ([_, channels, _, _], [count, _]) = (x.shape(), boxes.shape()) else {
        return Err(mismatch("an image: 4 axes", x.shape()));
    };
    let bins = |call: &Call<'_>, name| call.int_or(name, 1).map(|bins| Dim::constant(bins.max(0)));
    let shape = vec![count.clone(), channels.clone(), bins(t.call, "output_height")?, bins(t.call, "output_width")?];
    Ok(vec![TensorType::new(x.dtype(), shape)])
}

/// `[H, W, C]`
fn image_decoder(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let grey = t.attributes.string("pixel_format").ok().flatten() == Some("Grayscale");
    let channels = Dim::constant(if grey { 1 } else { 3 });
    Ok(vec![TensorType::new(DType::U8, vec![t.fresh(0, 0, None), t.fresh(0, 1, None), channels])])
}
