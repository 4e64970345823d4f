//! `Einsum`: sums of products named by index letters.
//!
//! Every index point of all letters is visited; the result has the letters after `->`, or, if there is no arrow, those
//! that occur once, in alphabetical order and after the axes of the ellipsis.

use crate::call::{Call, one};
use crate::error::{EvalError, Result};
use crate::limits::{check_work, checked_len};
use crate::numeric::{Scalar, with_scalar};
use crate::select::common_dtype;
use crate::shape;
use infc_tensor::Tensor;

/// What an axis is called: a letter, or its distance from the last axis of the ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

const BAD: EvalError = EvalError::InvalidAttribute { name: "equation", reason: "it cannot be read" };

/// One term with `ellipsis` axes standing for its dots.
fn labels(term: &str, ellipsis: usize) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    let letters = |text: &str| -> Result<Vec<Label>> {
        text.chars().map(|c| if c.is_alphabetic() { Ok(Label::Letter(c)) } else { Err(BAD) }).collect()
    };
    match term.split_once("...") {
        None => labels.extend(letters(term)?),
        Some((before, after)) => {
            labels.extend(letters(before)?);
            labels.extend((0..ellipsis).rev().map(|distance| Label::Ellipsis(std::cmp::Reverse(distance))));
            labels.extend(letters(after)?);
        }
    }
    Ok(labels)
}

pub(crate) fn einsum(call: &Call<'_>) -> Result<Vec<Tensor>> {
    let tensors = call.variadic()?;
    let equation: String = call.string("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != tensors.len() {
        return Err(EvalError::InvalidAttribute { name: "equation", reason: "one term per input is needed" });
    }
    let mut longest_ellipsis = 0;
    let mut operands = Vec::new();
    for (term, tensor) in terms.iter().zip(&tensors) {
        let written = term.replace("...", "").chars().count();
        let ellipsis = tensor.rank().checked_sub(written).ok_or(BAD)?;
        longest_ellipsis = longest_ellipsis.max(ellipsis);
        let labels = labels(term, ellipsis)?;
        if labels.len() != tensor.rank() {
            return Err(EvalError::InvalidAttribute { name: "equation", reason: "a term has too few letters" });
        }
        operands.push(labels);
    }
    let result = match right {
        Some(term) => labels(term, longest_ellipsis)?,
        None => {
            let mut all: Vec<Label> = operands.iter().flatten().copied().collect();
            all.sort_unstable();
            let once = |l: &Label| matches!(l, Label::Ellipsis(_)) || all.iter().filter(|o| *o == l).count() == 1;
            let mut result: Vec<Label> = all.iter().copied().filter(once).collect();
            result.dedup();
            result
        }
    };
    let (order, extents) = index_space(&tensors, &operands, &result)?;
    let dtype = common_dtype(&tensors)?;
    let out = &extents[..result.len()];
    checked_len(dtype, out)?;
    check_work(&extents)?;
    let strides: Vec<Vec<isize>> =
        tensors.iter().zip(&operands).map(|(tensor, labels)| label_strides(tensor, labels, &order)).collect();
    with_scalar!(dtype, T => {
        let values = tensors.iter().map(|t| T::read(t)).collect::<Result<Vec<_>>>()?;
        one(T::write(dtype, out, sums(&values, &strides, &extents, result.len()).into_iter())?)
    })
}

/// All labels, those of the result first, with their extents.
fn index_space(tensors: &[&Tensor], operands: &[Vec<Label>], result: &[Label]) -> Result<(Vec<Label>, Vec<usize>)> {
    let mut order = Vec::new();
    for &label in result.iter().chain(operands.iter().flatten()) {
        if !order.contains(&label) {
            order.push(label);
        }
    }
    let repeated = (1..result.len()).any(|i| result[..i].contains(&result[i]));
    let unknown = result.iter().any(|label| !operands.iter().flatten().any(|l| l == label));
    if repeated || unknown {
        return Err(EvalError::InvalidAttribute { name: "equation", reason: "the result's letters do not fit" });
    }
    let mut extents = vec![1usize; order.len()];
    for (tensor, labels) in tensors.iter().zip(operands) {
        for (label, &dim) in labels.iter().zip(tensor.shape()) {
            let slot = order.iter().position(|l| l == label).map(|at| &mut extents[at]).ok_or(BAD)?;
            if *slot == 1 {
                *slot = dim;
            } else if dim != 1 && dim != *slot {
                return Err(EvalError::ShapeMismatch {
                    left: tensors[0].shape().to_vec(),
                    right: tensor.shape().to_vec(),
                    reason: "axes of one letter differ in length",
                });
            }
        }
    }
    Ok((order, extents))
}

/// How far one step along every label moves in `tensor`; a letter that occurs twice moves along the diagonal.
fn label_strides(tensor: &Tensor, labels: &[Label], order: &[Label]) -> Vec<isize> {
    let own = shape::strides(tensor.shape());
    let stride = |label: &Label| {
        (0..labels.len())
            .filter(|&axis| labels[axis] == *label && tensor.shape()[axis] != 1)
            .map(|axis| own[axis])
            .sum()
    };
    order.iter().map(stride).collect()
}

/// Sums the products over all points whose first `kept` coordinates agree.
fn sums<T: Scalar>(operands: &[Vec<T>], strides: &[Vec<isize>], extents: &[usize], kept: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; shape::len(&extents[..kept])];
    if extents.contains(&0) {
        return out;
    }
    let run = shape::len(&extents[kept..]);
    let mut coords = vec![0; extents.len()];
    for slot in &mut out {
        for _ in 0..run {
            let product = operands
                .iter()
                .zip(strides)
                .fold(T::ONE, |product, (values, strides)| product.times(values[shape::ravel(&coords, strides)]));
            *slot = slot.plus(product);
            shape::advance(&mut coords, extents);
        }
    }
    out
}
