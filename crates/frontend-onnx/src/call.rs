//! One node during import: its inputs, attributes and opset, and the builder to add to.

use crate::build::{Builder, Result};
use crate::error::Problem;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, NodeProto};
use crate::tensor_proto;
use crate::tracked::Tracked;
use infc_ir::index::Dim;
use infc_tensor::{DType, Tensor};
use std::cell::Cell;

/// A node with its inputs.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a NodeProto,
    pub(crate) opset: i64,
    pub(crate) inputs: Vec<Option<Tracked>>,
    pub(crate) build: &'a mut Builder,
    /// A bit per input that shapes follow from and whose elements are not known.
    pub(crate) wanted: Cell<u64>,
}

impl Call<'_> {
    /// Input `index`, which the operator cannot do without.
    pub(crate) fn input(&self, index: usize) -> Result<Tracked> {
        self.optional(index).ok_or(Problem::MissingInput { index })
    }

    /// Input `index`; `None` if it is left out.
    pub(crate) fn optional(&self, index: usize) -> Option<Tracked> {
        self.inputs.get(index).cloned().flatten()
    }

    /// All inputs of a variadic operator: at least one, none left out.
    pub(crate) fn variadic(&self) -> Result<Vec<Tracked>> {
        if self.inputs.is_empty() {
            return Err(Problem::MissingInput { index: 0 });
        }
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// The integers of input `index`, which must follow from constants and dims; `None` if it is left out.
    pub(crate) fn optional_dims(&self, index: usize, what: &'static str) -> Result<Option<Vec<Dim>>> {
        self.optional(index).map(|t| t.dims().ok_or_else(|| self.unknown(index, what))).transpose()
    }

    /// The problem of an input that shapes follow from and that is not known: the import may find it out.
    pub(crate) fn unknown(&self, index: usize, what: &'static str) -> Problem {
        self.wanted.set(self.wanted.get() | 1u64.checked_shl(index as u32).unwrap_or(0));
        Problem::DynamicValue { what }
    }

    /// The inputs that [`Call::unknown`] was called for.
    pub(crate) fn wanted(&self) -> Vec<usize> {
        (0..64).filter(|n| self.wanted.get() >> n & 1 == 1).collect()
    }

    /// The integers of input `index` as extents, checked to be some when the model runs; `None` if it is left out.
    pub(crate) fn optional_sizes(&mut self, index: usize, what: &'static str) -> Result<Option<Vec<Dim>>> {
        let Some(dims) = self.optional_dims(index, what)? else { return Ok(None) };
        dims.iter().map(|dim| self.build.size(what, dim)).collect::<Result<_>>().map(Some)
    }

    /// Takes the numbers of input `index` for integers, whatever their type is: in opset 1 some are floats.
    pub(crate) fn take_for_integers(&mut self, index: usize) -> Result<()> {
        if let Some(Some(input)) = self.inputs.get_mut(index)
            && input.dtype().is_float()
        {
            *input = self.build.cast(input, DType::I64)?;
        }
        Ok(())
    }

    /// The integers of input `index` as extents.
    pub(crate) fn sizes(&mut self, index: usize, what: &'static str) -> Result<Vec<Dim>> {
        self.optional_sizes(index, what)?.ok_or(Problem::MissingInput { index })
    }

    /// The integers of input `index`.
    pub(crate) fn dims(&self, index: usize, what: &'static str) -> Result<Vec<Dim>> {
        self.optional_dims(index, what)?.ok_or(Problem::MissingInput { index })
    }

    /// The integers of input `index`, which must not depend on symbols; `None` if it is left out.
    pub(crate) fn optional_ints(&self, index: usize, what: &'static str) -> Result<Option<Vec<i64>>> {
        let Some(dims) = self.optional_dims(index, what)? else { return Ok(None) };
        dims.iter().map(Dim::as_const).collect::<Option<_>>().map(Some).ok_or(Problem::DynamicValue { what })
    }

    /// A list of integers that is an attribute before opset `since` and input `index` from then on.
    pub(crate) fn dims_moved(&self, name: &'static str, index: usize, since: i64) -> Result<Option<Vec<Dim>>> {
        if self.opset >= since {
            return self.optional_dims(index, name);
        }
        Ok(self.ints(name)?.map(|list| list.iter().map(|&v| Dim::constant(v)).collect()))
    }

    /// The number of outputs that the node names.
    pub(crate) fn output_count(&self) -> usize {
        self.node.output.len()
    }

    /// True if output `index` is read or given a name.
    pub(crate) fn wants_output(&self, index: usize) -> bool {
        self.node.output.get(index).is_some_and(|o| !o.is_empty())
    }

    /// Fails if more than the first outputs are asked for.
    pub(crate) fn at_most_outputs(&self, supported: usize) -> Result<()> {
        match (supported..self.output_count()).find(|&index| self.wants_output(index)) {
            Some(index) => Err(Problem::UnsupportedOutput { index, supported }),
            None => Ok(()),
        }
    }

    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|a| a.name() == name)
    }

    fn typed(&self, name: &'static str, ty: AttributeType, expected: &'static str) -> Result<Option<&AttributeProto>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(a) if a.r#type() == ty => Ok(Some(a)),
            Some(a) => {
                let found = format!("of type {}", a.r#type().as_str_name());
                Err(Problem::InvalidAttribute { attribute: name, expected, found })
            }
        }
    }

    pub(crate) fn int(&self, name: &'static str) -> Result<Option<i64>> {
        Ok(self.typed(name, AttributeType::Int, "an integer")?.map(|a| a.i()))
    }

    pub(crate) fn int_or(&self, name: &'static str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A required number of heads of attention.
    pub(crate) fn head_count(&self, attribute: &'static str) -> Result<i64> {
        let found = self.int(attribute)?;
        found.filter(|n| (1..1 << 20).contains(n)).ok_or_else(|| Problem::InvalidAttribute {
            attribute,
            expected: "the number of heads",
            found: found.map_or_else(|| "missing".to_owned(), |n| n.to_string()),
        })
    }

    /// An attribute that counts something.
    pub(crate) fn positive(&self, attribute: &'static str, default: i64) -> Result<i64> {
        match self.int_or(attribute, default)? {
            found @ 1..0x8000_0000 => Ok(found),
            found => {
                let expected = "a positive number";
                Err(Problem::InvalidAttribute { attribute, expected, found: found.to_string() })
            }
        }
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int_or(name, i64::from(default))? != 0)
    }

    pub(crate) fn float(&self, name: &'static str) -> Result<Option<f64>> {
        Ok(self.typed(name, AttributeType::Float, "a float")?.map(|a| f64::from(a.f())))
    }

    pub(crate) fn float_or(&self, name: &'static str, default: f32) -> Result<f64> {
        Ok(self.float(name)?.unwrap_or_else(|| f64::from(default)))
    }

    pub(crate) fn string(&self, name: &'static str, default: &str) -> Result<String> {
        let found = self.typed(name, AttributeType::String, "a string")?;
        Ok(found.map_or_else(|| default.to_owned(), |a| String::from_utf8_lossy(a.s()).into_owned()))
    }

    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<&[i64]>> {
        Ok(self.typed(name, AttributeType::Ints, "a list of integers")?.map(|a| &a.ints[..]))
    }

    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<&[f32]>> {
        Ok(self.typed(name, AttributeType::Floats, "a list of floats")?.map(|a| &a.floats[..]))
    }

    pub(crate) fn strings(&self, name: &'static str) -> Result<Option<Vec<String>>> {
        let found = self.typed(name, AttributeType::Strings, "a list of strings")?;
        Ok(found.map(|a| a.strings.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect()))
    }

    pub(crate) fn tensor(&self, name: &'static str) -> Result<Option<Tensor>> {
        let expected = "a tensor";
        let Some(a) = self.typed(name, AttributeType::Tensor, expected)? else { return Ok(None) };
        let tensor = a.t.as_ref().map(tensor_proto::read).transpose();
        match tensor {
            Ok(Some(tensor)) => Ok(Some(tensor)),
            Ok(None) => Err(Problem::InvalidAttribute { attribute: name, expected, found: "empty".to_owned() }),
            Err(error) => Err(Problem::InvalidAttribute { attribute: name, expected, found: error.to_string() }),
        }
    }

    /// An element type given by ONNX's number for it, or before opset 6 by its name.
    pub(crate) fn dtype(&self, name: &'static str) -> Result<Option<DType>> {
        if self.opset < 6 && self.attribute(name).is_some_and(|a| a.r#type() == AttributeType::String) {
            let found = self.string(name, "")?;
            let dtype = tensor_proto::dtype_named(&found);
            let expected = "the name of an element type";
            return dtype.map(Some).ok_or(Problem::InvalidAttribute { attribute: name, expected, found });
        }
        // 0 stands for none; ONNX Runtime writes it out.
        let Some(code) = self.int(name)?.filter(|&code| code != 0) else { return Ok(None) };
        match i32::try_from(code).ok().and_then(tensor_proto::dtype_from_onnx) {
            Some(dtype) => Ok(Some(dtype)),
            None => Err(Problem::InvalidAttribute {
                attribute: name,
                expected: "the number of an element type",
                found: code.to_string(),
            }),
        }
    }

    /// The attribute `axis` (or another of this kind) as an axis of a value of the given rank.
    pub(crate) fn axis(&self, name: &'static str, default: i64, rank: usize) -> Result<usize> {
        axis(self.int_or(name, default)?, rank)
    }
}

/// An axis of a value of the given rank; negative ones count from the end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let signed = rank as i64;
    if (-signed..signed).contains(&axis) {
        return Ok(axis.rem_euclid(signed.max(1)) as usize);
    }
    Err(Problem::ShapeMismatch {
        expected: format!("an axis of a value with {rank} axes"),
        found: format!("axis {axis}"),
    })
}

/// Several axes, ascending and without repetition.
pub(crate) fn axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut found: Vec<usize> = axes.iter().map(|&a| axis(a, rank)).collect::<Result<_>>()?;
    found.sort_unstable();
    if found.windows(2).any(|w| w[0] == w[1]) {
        return Err(Problem::ShapeMismatch { expected: "each axis once".to_owned(), found: format!("axes {axes:?}") });
    }
    Ok(found)
}
