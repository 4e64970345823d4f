//! Dense row-major tensors on the host.

use crate::{AlignedBytes, DType, Element};
use std::sync::Arc;

/// What can be wrong with the parts of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TensorError {
    #[error("a tensor of shape {shape:?} has more elements than fit in memory")]
    TooLarge { shape: Vec<usize> },
    #[error("{dtype} tensor of shape {shape:?} needs {expected_bytes} bytes, found {found_bytes}")]
    WrongLength { dtype: DType, shape: Vec<usize>, expected_bytes: usize, found_bytes: usize },
    #[error("expected elements of type {expected}, found {found}")]
    WrongType { expected: DType, found: DType },
    #[error("an optional holds one value at most, found {found}")]
    TooMany { found: usize },
    #[error("a map has keys, integers or text, each but once, and as many values: {reason}")]
    NoMap { reason: &'static str },
    #[error("values within values, deeper than {limit}")]
    TooDeep { limit: usize },
}

/// How deep values may lie within values: ONNX has optionals of sequences, or of maps of them.
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug, PartialEq)]
enum Data {
    Bytes(Arc<AlignedBytes>),
    Strings(Arc<Vec<String>>),
    Values(Arc<Vec<Tensor>>),
}

/// A dense, row-major tensor. Cloning shares the data.
///
/// Sub-byte types are packed, low bits first, as in ONNX; bools are one byte each, 0 or 1. A sequence or an optional is
/// a tensor of one axis whose elements are values, tensors again; so is a map, whose values are its keys and what they
/// stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dtype: DType,
    /// Shared, too: values in long sequences are cloned again and again.
    shape: Arc<[usize]>,
    data: Data,
}

/// Number of elements of a shape, or `None` if that overflows.
fn checked_len(shape: &[usize]) -> Option<usize> {
    // A zero anywhere makes the product zero, even if the rest would overflow.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

impl Tensor {
    /// A tensor over the given bytes, which must be exactly what shape and type need.
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if the shape overflows, [`TensorError::WrongLength`] if the bytes do not fit,
    /// [`TensorError::WrongType`] for strings and values, which are not bytes.
    pub fn from_bytes(dtype: DType, shape: Vec<usize>, bytes: AlignedBytes) -> Result<Self, TensorError> {
        if !dtype.has_bytes() {
            return Err(TensorError::WrongType { expected: DType::U8, found: dtype });
        }
        let len = checked_len(&shape).ok_or_else(|| TensorError::TooLarge { shape: shape.clone() })?;
        let expected = dtype.storage_bytes(len).ok_or_else(|| TensorError::TooLarge { shape: shape.clone() })?;
        if expected != bytes.len() {
            return Err(TensorError::WrongLength { dtype, shape, expected_bytes: expected, found_bytes: bytes.len() });
        }
        Ok(Self { dtype, shape: shape.into(), data: Data::Bytes(Arc::new(bytes)) })
    }

    /// A tensor holding a copy of `elements`.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`].
    pub fn from_elements<T: Element>(shape: &[usize], elements: &[T]) -> Result<Self, TensorError> {
        Self::from_bytes(T::DTYPE, shape.to_vec(), AlignedBytes::from_slice(bytemuck::cast_slice(elements)))
    }

    /// A bool tensor.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`].
    pub fn from_bools(shape: &[usize], elements: &[bool]) -> Result<Self, TensorError> {
        let bytes: Vec<u8> = elements.iter().map(|&b| u8::from(b)).collect();
        Self::from_bytes(DType::Bool, shape.to_vec(), AlignedBytes::from_slice(&bytes))
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`]; lengths are counted in elements.
    pub fn from_strings(shape: &[usize], elements: Vec<String>) -> Result<Self, TensorError> {
        let len = checked_len(shape).ok_or_else(|| TensorError::TooLarge { shape: shape.to_vec() })?;
        if len != elements.len() {
            return Err(TensorError::WrongLength {
                dtype: DType::String,
                shape: shape.to_vec(),
                expected_bytes: len,
                found_bytes: elements.len(),
            });
        }
        Ok(Self { dtype: DType::String, shape: shape.into(), data: Data::Strings(Arc::new(elements)) })
    }

    /// A sequence of values.
    ///
    /// # Errors
    /// [`TensorError::TooDeep`].
    pub fn sequence(values: Vec<Tensor>) -> Result<Self, TensorError> {
        Self::of_values(DType::Sequence, values)
    }

    /// An optional that holds a value, or none.
    ///
    /// # Errors
    /// [`TensorError::TooDeep`].
    pub fn optional(value: Option<Tensor>) -> Result<Self, TensorError> {
        Self::of_values(DType::Optional, value.into_iter().collect())
    }

    /// A sequence, an optional, or a map of keys and values.
    ///
    /// # Errors
    /// [`TensorError::WrongType`] for other types, [`TensorError::TooMany`], [`TensorError::TooDeep`],
    /// [`TensorError::NoMap`].
    pub fn of_values(dtype: DType, values: Vec<Tensor>) -> Result<Self, TensorError> {
        match dtype {
            DType::Sequence => {}
            DType::Optional if values.len() <= 1 => {}
            DType::Optional => return Err(TensorError::TooMany { found: values.len() }),
            DType::Map => {
                let [keys, values] = &values[..] else {
                    return Err(TensorError::NoMap { reason: "it is made of two vectors" });
                };
                return Self::map(keys, values);
            }
            _ => return Err(TensorError::WrongType { expected: DType::Sequence, found: dtype }),
        }
        Self::holding(dtype, values)
    }

    /// A value that holds others, whatever they are.
    pub(crate) fn holding(dtype: DType, values: Vec<Tensor>) -> Result<Self, TensorError> {
        if values.iter().map(Self::depth).max().unwrap_or(0) >= MAX_DEPTH {
            return Err(TensorError::TooDeep { limit: MAX_DEPTH });
        }
        Ok(Self { dtype, shape: [values.len()].into(), data: Data::Values(Arc::new(values)) })
    }

    /// How deep values lie within this one: 0 for tensors of numbers or text.
    fn depth(&self) -> usize {
        match &self.data {
            Data::Bytes(_) | Data::Strings(_) => 0,
            Data::Values(values) => 1 + values.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// A rank-0 tensor.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self {
            dtype: T::DTYPE,
            shape: [].into(),
            data: Data::Bytes(Arc::new(AlignedBytes::from_slice(bytemuck::bytes_of(&value)))),
        }
    }

    /// All elements zero (false, empty string).
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if the shape overflows, or elements are values.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
        let len = checked_len(shape).ok_or_else(too_large)?;
        if dtype == DType::String {
            return Self::from_strings(shape, vec![String::new(); len]);
        }
        let bytes = dtype.storage_bytes(len).ok_or_else(too_large)?;
        Self::from_bytes(dtype, shape.to_vec(), AlignedBytes::zeroed(bytes))
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    #[must_use]
    pub fn len_elems(&self) -> usize {
        checked_len(&self.shape).expect("checked at construction")
    }

    /// The raw bytes; empty for strings and values.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(_) | Data::Values(_) => &[],
        }
    }

    /// The raw bytes for writing (copied first if shared); empty for strings and values.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Bytes(bytes) => {
                let bytes: &mut AlignedBytes = Arc::make_mut(bytes);
                bytes
            }
            Data::Strings(_) | Data::Values(_) => &mut [],
        }
    }

    /// The elements.
    ///
    /// # Errors
    /// [`TensorError::WrongType`] if `T` is not the element type.
    pub fn elements<T: Element>(&self) -> Result<&[T], TensorError> {
        if self.dtype != T::DTYPE {
            return Err(TensorError::WrongType { expected: T::DTYPE, found: self.dtype });
        }
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The elements for writing (copied first if shared).
    ///
    /// # Errors
    /// [`TensorError::WrongType`] if `T` is not the element type.
    pub fn elements_mut<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        if self.dtype != T::DTYPE {
            return Err(TensorError::WrongType { expected: T::DTYPE, found: self.dtype });
        }
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    /// The strings.
    ///
    /// # Errors
    /// [`TensorError::WrongType`] if the elements are not strings.
    pub fn strings(&self) -> Result<&[String], TensorError> {
        match &self.data {
            Data::Strings(strings) => Ok(strings),
            Data::Bytes(_) | Data::Values(_) => {
                Err(TensorError::WrongType { expected: DType::String, found: self.dtype })
            }
        }
    }

    /// The values of a sequence or an optional; the keys and the values of a map.
    ///
    /// # Errors
    /// [`TensorError::WrongType`] if it is none of them.
    pub fn values(&self) -> Result<&[Tensor], TensorError> {
        match &self.data {
            Data::Values(values) => Ok(values),
            Data::Bytes(_) | Data::Strings(_) => {
                Err(TensorError::WrongType { expected: DType::Sequence, found: self.dtype })
            }
        }
    }

    /// The same elements under another shape of as many elements.
    ///
    /// # Errors
    /// [`TensorError::WrongLength`] if the number of elements differs.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, TensorError> {
        let len = checked_len(shape).ok_or_else(|| TensorError::TooLarge { shape: shape.to_vec() })?;
        if len != self.len_elems() {
            return Err(TensorError::WrongLength {
                dtype: self.dtype,
                shape: shape.to_vec(),
                expected_bytes: len,
                found_bytes: self.len_elems(),
            });
        }
        Ok(Self { dtype: self.dtype, shape: shape.into(), data: self.data.clone() })
    }

    /// Element `index` of the flattened tensor as f64 (integers above 2⁵³ are rounded); `None` for strings, complex
    /// numbers and types narrower than a byte, or out of range.
    #[must_use]
    pub fn get_f64(&self, index: usize) -> Option<f64> {
        if index >= self.len_elems() {
            return None;
        }
        let size = self.dtype.size_bytes()?;
        let raw = &self.bytes()[index * size..(index + 1) * size];
        macro_rules! read {
            ($t:ty) => {
                bytemuck::pod_read_unaligned::<$t>(raw)
            };
        }
        Some(match self.dtype {
            DType::F64 => read!(f64),
            DType::F32 => f64::from(read!(f32)),
            DType::F16 => read!(half::f16).to_f64(),
            DType::BF16 => read!(half::bf16).to_f64(),
            #[expect(clippy::cast_precision_loss, reason = "documented rounding")]
            DType::I64 => read!(i64) as f64,
            DType::I32 => f64::from(read!(i32)),
            DType::I16 => f64::from(read!(i16)),
            DType::I8 => f64::from(read!(i8)),
            #[expect(clippy::cast_precision_loss, reason = "documented rounding")]
            DType::U64 => read!(u64) as f64,
            DType::U32 => f64::from(read!(u32)),
            DType::U16 => f64::from(read!(u16)),
            DType::U8 | DType::Bool => f64::from(read!(u8)),
            _ => return None,
        })
    }

    /// All elements of an integer or bool tensor as i64; `None` for other types.
    #[must_use]
    pub fn to_i64_vec(&self) -> Option<Vec<i64>> {
        macro_rules! widen {
            ($t:ty) => {
                bytemuck::cast_slice::<u8, $t>(self.bytes()).iter().map(|&x| i64::from(x)).collect()
            };
        }
        Some(match self.dtype {
            DType::I64 => bytemuck::cast_slice::<u8, i64>(self.bytes()).to_vec(),
            DType::I32 => widen!(i32),
            DType::I16 => widen!(i16),
            DType::I8 => widen!(i8),
            DType::U32 => widen!(u32),
            DType::U16 => widen!(u16),
            DType::U8 | DType::Bool => widen!(u8),
            _ => return None,
        })
    }
}
