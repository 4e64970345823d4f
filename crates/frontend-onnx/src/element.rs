//! What is known of the values in a sequence, an optional or a map.
//!
//! The graph only knows that a value is one, and how many elements it has. What comes out of it has a type all the same,
//! and the import carries along what constructions, declarations and the model's inputs say of it.

use crate::build::Result;
use crate::error::Problem;
use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{GraphProto, TypeProto, ValueInfoProto, type_proto};
use crate::tensor_proto::dtype_from_onnx;
use crate::tracked::Tracked;
use infc_tensor::DType;
use std::rc::Rc;

/// The type of a value, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) dtype: DType,
    /// The extents; `None` if not even the rank is known.
    pub(crate) shape: Option<Vec<Option<i64>>>,
    /// The values within, of a sequence, an optional or a map; keys are what the operators on a map say.
    pub(crate) of: Option<Rc<Element>>,
}

impl Element {
    /// The type that a model declares; `None` for sparse and opaque values, and for maps to what is no element.
    pub(crate) fn declared(ty: &TypeProto) -> Option<Self> {
        let of = |dtype: DType, of: &Option<Box<TypeProto>>| {
            let of = Rc::new(Self::declared(of.as_deref()?)?);
            Some(Self { dtype, shape: Some(vec![None]), of: Some(of) })
        };
        match ty.value.as_ref()? {
            type_proto::Value::TensorType(tensor) => {
                let extent = |value: &Option<dimension::Value>| match value {
                    Some(dimension::Value::DimValue(value)) if *value >= 0 => Some(*value),
                    _ => None,
                };
                let shape = tensor.shape.as_ref().map(|shape| shape.dim.iter().map(|d| extent(&d.value)).collect());
                Some(Self { dtype: dtype_from_onnx(tensor.elem_type())?, shape, of: None })
            }
            type_proto::Value::SequenceType(sequence) => of(DType::Sequence, &sequence.elem_type),
            type_proto::Value::OptionalType(optional) => of(DType::Optional, &optional.elem_type),
            type_proto::Value::MapType(map) => {
                let value = Self::declared(map.value_type.as_deref()?)?;
                value.of.is_none().then(|| Self::map_to(value.dtype))
            }
            type_proto::Value::SparseTensorType(_) | type_proto::Value::OpaqueType(_) => None,
        }
    }

    /// The type that a model declares for a value; as [`Element::declared`].
    pub(crate) fn of_declaration(value: &ValueInfoProto) -> Option<Self> {
        Self::declared(value.r#type.as_ref()?)
    }

    /// The type that a graph declares for a name, as that of an output or beside it.
    pub(crate) fn declared_in(graph: &GraphProto, name: &str) -> Option<Self> {
        Self::of_declaration(graph.value_info.iter().chain(&graph.output).find(|value| value.name() == name)?)
    }

    /// A map to elements of this type: its keys and its values.
    pub(crate) fn map_to(dtype: DType) -> Self {
        let values = Self { dtype, shape: Some(vec![None]), of: None };
        Self { dtype: DType::Map, shape: Some(vec![Some(2)]), of: Some(Rc::new(values)) }
    }

    /// The type of a value that becomes an element.
    pub(crate) fn of_value(value: &Tracked) -> Self {
        if let Some(element) = value.element().filter(|_| value.is_unranked()) {
            return (**element).clone();
        }
        let shape = value.shape().iter().map(infc_ir::index::Dim::as_const).collect();
        Self { dtype: value.dtype(), shape: Some(shape), of: value.element().cloned() }
    }

    /// What is true of both.
    ///
    /// # Errors
    /// [`Problem::TypeMismatch`] if nothing is of both types.
    pub(crate) fn join(&self, other: &Self) -> Result<Self> {
        if self.dtype != other.dtype {
            return Err(Problem::TypeMismatch { left: self.dtype, right: other.dtype });
        }
        let shape = match (&self.shape, &other.shape) {
            (Some(a), Some(b)) if a.len() == b.len() => {
                Some(a.iter().zip(b).map(|(a, b)| a.filter(|_| a == b)).collect())
            }
            _ => None,
        };
        let of = join(self.of.as_ref(), other.of.as_ref())?;
        Ok(Self { dtype: self.dtype, shape, of })
    }
}

/// What is true of the elements of two values of one type; what is not known of one may be anything.
pub(crate) fn join(a: Option<&Rc<Element>>, b: Option<&Rc<Element>>) -> Result<Option<Rc<Element>>> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some(Rc::new(a.join(b)?))),
        _ => Ok(None),
    }
}

/// The element type of a value that a model declares: that of a tensor, or of a sequence, an optional or a map. `None` for
/// sparse tensors and what has no type.
#[must_use]
pub fn declared_dtype(value: &ValueInfoProto) -> Option<DType> {
    Some(Element::of_declaration(value)?.dtype)
}
