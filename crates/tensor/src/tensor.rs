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
}

#[derive(Clone, Debug, PartialEq)]
enum Data {
    Bytes(Arc<AlignedBytes>),
    Strings(Arc<Vec<String>>),
}

/// A dense, row-major tensor. Cloning shares the data.
///
/// Sub-byte types are packed, low bits first, as in ONNX; bools are one byte each, 0 or 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
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
    /// [`TensorError::WrongType`] for strings, which are not bytes.
    pub fn from_bytes(dtype: DType, shape: Vec<usize>, bytes: AlignedBytes) -> Result<Self, TensorError> {
        if dtype == DType::String {
            return Err(TensorError::WrongType { expected: DType::U8, found: DType::String });
        }
        let len = checked_len(&shape).ok_or_else(|| TensorError::TooLarge { shape: shape.clone() })?;
        let expected = dtype.storage_bytes(len).ok_or_else(|| TensorError::TooLarge { shape: shape.clone() })?;
        if expected != bytes.len() {
            return Err(TensorError::WrongLength { dtype, shape, expected_bytes: expected, found_bytes: bytes.len() });
        }
        Ok(Self { dtype, shape, data: Data::Bytes(Arc::new(bytes)) })
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
        Ok(Self { dtype: DType::String, shape: shape.to_vec(), data: Data::Strings(Arc::new(elements)) })
    }

    /// A rank-0 tensor.
    #[must_use]
    pub fn scalar<T: Element>(value: T) -> Self {
        Self {
            dtype: T::DTYPE,
            shape: Vec::new(),
            data: Data::Bytes(Arc::new(AlignedBytes::from_slice(bytemuck::bytes_of(&value)))),
        }
    }

    /// All elements zero (false, empty string).
    ///
    /// # Errors
    /// [`TensorError::TooLarge`] if the shape overflows.
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

    /// The raw bytes; empty for strings.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(_) => &[],
        }
    }

    /// The raw bytes for writing (copied first if shared); empty for strings.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Bytes(bytes) => {
                let bytes: &mut AlignedBytes = Arc::make_mut(bytes);
                bytes
            }
            Data::Strings(_) => &mut [],
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
            Data::Bytes(_) => Err(TensorError::WrongType { expected: DType::String, found: self.dtype }),
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
        Ok(Self { dtype: self.dtype, shape: shape.to_vec(), data: self.data.clone() })
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
