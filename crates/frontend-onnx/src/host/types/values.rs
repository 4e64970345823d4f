//! Operators on sequences and optionals.

use super::{Typing, axis_of, random};
use crate::build::{Result, mismatch};
use crate::element::Element;
use crate::error::Problem;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_tensor::DType;
use std::rc::Rc;

fn sequence(len: Dim) -> Vec<TensorType> {
    vec![TensorType::new(DType::Sequence, vec![len])]
}

/// What is known of the values in an input.
fn element(t: &Typing<'_, '_>, index: usize) -> Result<Rc<Element>> {
    let value = t.call.input(index)?;
    let expected = "a sequence or an optional";
    if !matches!(value.dtype(), DType::Sequence | DType::Optional) {
        return Err(Problem::UnsupportedType { expected, found: value.dtype() });
    }
    value.element().cloned().ok_or(Problem::DynamicValue { what: "the type of the elements" })
}

/// How many values an input holds.
fn len_of(t: &Typing<'_, '_>, index: usize) -> Result<Dim> {
    let value = t.call.input(index)?;
    value.shape().first().cloned().ok_or_else(|| mismatch("one axis", value.shape()))
}

/// The type of an output that is such a value; extents that are not known are told by the evaluation.
pub(in crate::host) fn value(t: &mut Typing<'_, '_>, output: usize, element: &Element) -> Result<TensorType> {
    let shape = element.shape.as_ref().ok_or(Problem::DynamicValue { what: "the rank of the elements" })?;
    let max = if element.dtype == DType::Optional { Some(1) } else { None };
    let mut dims = Vec::with_capacity(shape.len());
    for (axis, extent) in shape.iter().enumerate() {
        dims.push(extent.map_or_else(|| t.fresh(output, axis, max), Dim::constant));
    }
    t.tell(output, element.of.clone());
    Ok(TensorType::new(element.dtype, dims))
}

/// The same value, of any type.
pub(super) fn same(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    t.tell(0, x.element().cloned());
    Ok(vec![x.ty().clone()])
}

pub(super) fn construct(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let values = t.call.variadic()?;
    let mut joined = Element::of_value(&values[0]);
    for value in &values[1..] {
        joined = joined.join(&Element::of_value(value))?;
    }
    t.tell(0, Some(Rc::new(joined)));
    Ok(sequence(Dim::constant(values.len() as i64)))
}

pub(super) fn empty(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let dtype = random::dtype(t, DType::F32)?;
    t.tell(0, Some(Rc::new(Element { dtype, shape: None, of: None })));
    Ok(sequence(Dim::constant(0)))
}

pub(super) fn insert(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (len, inserted) = (len_of(t, 0)?, Element::of_value(&t.call.input(1)?));
    let joined = match len.as_const() {
        Some(0) => inserted,
        _ => element(t, 0)?.join(&inserted)?,
    };
    t.tell(0, Some(Rc::new(joined)));
    Ok(sequence(len + Dim::constant(1)))
}

pub(super) fn erase(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let len = len_of(t, 0)?;
    let left = match len.as_const() {
        Some(len) => Dim::constant((len - 1).max(0)),
        None => {
            let max = t.max_of(&len).map(|max| max - 1);
            t.fresh(0, 0, max)
        }
    };
    let of = t.call.input(0)?.element().cloned();
    t.tell(0, of);
    Ok(sequence(left))
}

pub(super) fn at(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let element = element(t, 0)?;
    Ok(vec![value(t, 0, &element)?])
}

pub(super) fn length(_t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![TensorType::new(DType::I64, Vec::new())])
}

pub(super) fn split(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let x = t.call.input(0)?;
    let axis = axis_of(t.call.int_or("axis", 0)?, x.rank())?;
    let mut shape: Vec<Option<i64>> = x.shape().iter().map(Dim::as_const).collect();
    let len = match t.call.optional(1) {
        // One part per length.
        Some(split) if split.rank() == 1 => {
            shape[axis] = None;
            split.shape()[0].clone()
        }
        // Parts of one length; the last may be shorter.
        Some(_) => {
            shape[axis] = None;
            let max = t.max_of(&x.shape()[axis]);
            t.fresh(0, 0, max)
        }
        None => {
            if t.call.flag("keepdims", true)? {
                shape[axis] = Some(1);
            } else {
                shape.remove(axis);
            }
            x.shape()[axis].clone()
        }
    };
    t.tell(0, Some(Rc::new(Element { dtype: x.dtype(), shape: Some(shape), of: None })));
    Ok(sequence(len))
}

pub(super) fn concat(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let element = element(t, 0)?;
    let shape = element.shape.as_ref().ok_or(Problem::DynamicValue { what: "the rank of the elements" })?;
    let stacked = t.call.flag("new_axis", false)?;
    let rank = shape.len() + usize::from(stacked);
    let axis = axis_of(t.call.int_or("axis", 0)?, rank)?;
    let mut shape = shape.clone();
    if stacked {
        shape.insert(axis, t.call.input(0)?.shape().first().and_then(Dim::as_const));
    } else {
        shape[axis] = None;
    }
    Ok(vec![value(t, 0, &Element { dtype: element.dtype, shape: Some(shape), of: None })?])
}

pub(super) fn optional(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    let (element, len) = match t.call.optional(0) {
        Some(value) => (Some(Element::of_value(&value)), 1),
        None => {
            let declared = t.call.node.attribute.iter().find(|a| a.name() == "type").and_then(|a| a.tp.as_ref());
            (declared.and_then(Element::declared), 0)
        }
    };
    t.tell(0, element.map(Rc::new));
    Ok(vec![TensorType::new(DType::Optional, vec![Dim::constant(len)])])
}

pub(super) fn has_element(_t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    Ok(vec![TensorType::new(DType::Bool, Vec::new())])
}

pub(super) fn get_element(t: &mut Typing<'_, '_>) -> Result<Vec<TensorType>> {
    if t.call.input(0)?.dtype() != DType::Optional {
        return same(t);
    }
    at(t)
}
