//! Borrowed tensors: how inputs and outputs reach a run without a copy.

use crate::arena::{bytes_of, bytes_of_mut};
use crate::error::RuntimeError;
use infc_tensor::{DType, Element, Tensor};

/// Axes that a strided view may have.
pub(crate) const MAX_RANK: usize = 64;

/// A tensor in memory of the caller, to be read. The memory may have any alignment.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    dtype: DType,
    shape: &'a [usize],
    /// `None`: dense and row-major.
    strides: Option<Strides<'a>>,
    bytes: &'a [u8],
}

/// Where the elements of a view lie.
#[derive(Clone, Copy, Debug)]
struct Strides<'a> {
    /// The element at index 0 of every axis.
    offset_elems: usize,
    /// Distance between neighbours along each axis.
    strides_elems: &'a [isize],
}

impl<'a> TensorView<'a> {
    /// A dense, row-major tensor.
    ///
    /// # Errors
    /// [`RuntimeError::WrongBufferSize`] if `bytes` is not exactly as long as type and shape need,
    /// [`RuntimeError::UnsupportedType`] for strings.
    pub fn new(dtype: DType, shape: &'a [usize], bytes: &'a [u8]) -> Result<Self, RuntimeError> {
        check_size(dtype, shape, bytes.len())?;
        Ok(Self { dtype, shape, strides: None, bytes })
    }

    /// A dense, row-major tensor of typed elements.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn from_slice<T: Element>(shape: &'a [usize], elements: &'a [T]) -> Result<Self, RuntimeError> {
        Self::new(T::DTYPE, shape, bytes_of(elements))
    }

    /// A tensor whose element at index `i` is the element `offset + Σ i·strides` of `bytes`. Other than dense ones are
    /// copied into the session's memory by a run.
    ///
    /// # Errors
    /// [`RuntimeError::BadStrides`] if an element lies outside `bytes`, if there are not as many strides as axes, or
    /// if elements are smaller than a byte.
    pub fn strided(
        dtype: DType,
        shape: &'a [usize],
        strides_elems: &'a [isize],
        offset_elems: usize,
        bytes: &'a [u8],
    ) -> Result<Self, RuntimeError> {
        let bad = |problem| RuntimeError::BadStrides {
            dtype,
            shape: shape.to_vec(),
            strides: strides_elems.to_vec(),
            offset: offset_elems,
            problem,
        };
        let size = dtype.size_bytes().ok_or_else(|| bad("only whole-byte elements can have strides"))?;
        if shape.len() != strides_elems.len() {
            return Err(bad("expected one stride per axis"));
        }
        if shape.len() > MAX_RANK {
            return Err(bad("at most 64 axes can have strides"));
        }
        // The dense size must be representable too: a run may copy the elements.
        if dense_size(dtype, shape).is_none() {
            return Err(bad("the elements do not fit in memory"));
        }
        if !shape.contains(&0) {
            let len_elems = bytes.len() / size;
            let (lowest, highest) =
                extent(shape, strides_elems, offset_elems).ok_or_else(|| bad("the offsets overflow"))?;
            if lowest < 0 || highest >= len_elems as i128 {
                return Err(bad("an element lies outside the buffer"));
            }
        }
        let view = Self { dtype, shape, strides: Some(Strides { offset_elems, strides_elems }), bytes };
        Ok(view.dense_part().map_or(view, |bytes| Self { strides: None, bytes, ..view }))
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The bytes if the elements are dense and row-major.
    #[must_use]
    pub fn dense_bytes(&self) -> Option<&'a [u8]> {
        if self.strides.is_none() { Some(self.bytes) } else { None }
    }

    /// What stands for a tensor whose elements have no bytes, where views are listed.
    pub(crate) fn without_bytes(dtype: DType, shape: &'a [usize]) -> Self {
        Self { dtype, shape, strides: None, bytes: &[] }
    }

    /// Whether it has elements, but not their bytes.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.bytes.is_empty() && self.dense_size() > 0
    }

    /// A copy of the elements.
    ///
    /// # Errors
    /// `runtime::bad-tensor` if the tensor does not fit in memory.
    pub fn to_tensor(&self) -> Result<Tensor, RuntimeError> {
        let mut tensor = Tensor::zeros(self.dtype, self.shape)?;
        self.copy_dense(tensor.bytes_mut());
        Ok(tensor)
    }

    /// The bytes of an element by its position in row-major order; `None` if there is no such element, or elements are
    /// smaller than a byte.
    pub(crate) fn element(&self, position: usize) -> Option<&'a [u8]> {
        let size = self.dtype.size_bytes()?;
        if position >= self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))? {
            return None;
        }
        let at = match self.strides {
            None => position,
            Some(strides) => {
                let mut rest = position;
                let mut at = strides.offset_elems.cast_signed();
                for (&extent, &stride) in self.shape.iter().zip(strides.strides_elems).rev() {
                    at = at.checked_add(stride.checked_mul((rest % extent).cast_signed())?)?;
                    rest /= extent;
                }
                usize::try_from(at).ok()?
            }
        };
        let start = at.checked_mul(size)?;
        self.bytes.get(start..start.checked_add(size)?)
    }

    /// The size of the elements when dense.
    pub(crate) fn dense_size(&self) -> usize {
        if !self.dtype.has_bytes() {
            return 0;
        }
        // Representable: checked by every constructor.
        dense_size(self.dtype, self.shape).unwrap_or(usize::MAX)
    }

    /// The part of the bytes that holds the elements, if the strides are just those of a dense tensor.
    fn dense_part(&self) -> Option<&'a [u8]> {
        let strides = self.strides?;
        let size = self.dtype.size_bytes()?;
        let dense_size = self.dense_size();
        if dense_size == 0 {
            return Some(&[]);
        }
        let mut expected = 1;
        for (&extent, &stride) in self.shape.iter().zip(strides.strides_elems).rev() {
            if extent != 1 && stride != expected {
                return None;
            }
            expected *= extent.cast_signed();
        }
        let start = strides.offset_elems * size;
        self.bytes.get(start..start + dense_size)
    }

    /// Writes the elements densely into `to`, which is [`TensorView::dense_size`] long.
    pub(crate) fn copy_dense(&self, to: &mut [u8]) {
        let (Some(strides), Some(size)) = (self.strides, self.dtype.size_bytes()) else {
            to.copy_from_slice(self.bytes);
            return;
        };
        let rank = self.shape.len();
        let mut index = [0usize; MAX_RANK];
        let mut at = strides.offset_elems.cast_signed();
        for element in to.chunks_exact_mut(size) {
            let start = at.cast_unsigned() * size;
            element.copy_from_slice(&self.bytes[start..start + size]);
            // The next index, innermost axis first.
            for axis in (0..rank).rev() {
                index[axis] += 1;
                at = at.wrapping_add(strides.strides_elems[axis]);
                if index[axis] < self.shape[axis] {
                    break;
                }
                at = at.wrapping_sub(strides.strides_elems[axis].wrapping_mul(index[axis].cast_signed()));
                index[axis] = 0;
            }
        }
    }
}

impl<'a> TryFrom<&'a Tensor> for TensorView<'a> {
    type Error = RuntimeError;

    fn try_from(tensor: &'a Tensor) -> Result<Self, RuntimeError> {
        Self::new(tensor.dtype(), tensor.shape(), tensor.bytes())
    }
}

/// A dense, row-major tensor in memory of the caller, to be written. The memory may have any alignment.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    dtype: DType,
    shape: &'a [usize],
    bytes: &'a mut [u8],
}

impl<'a> TensorViewMut<'a> {
    /// A tensor over the given bytes.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn new(dtype: DType, shape: &'a [usize], bytes: &'a mut [u8]) -> Result<Self, RuntimeError> {
        check_size(dtype, shape, bytes.len())?;
        Ok(Self { dtype, shape, bytes })
    }

    /// A tensor of typed elements.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn from_slice<T: Element>(shape: &'a [usize], elements: &'a mut [T]) -> Result<Self, RuntimeError> {
        Self::new(T::DTYPE, shape, bytes_of_mut(elements))
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// What stands for a tensor that is elsewhere, where views are listed.
    pub(crate) fn without_bytes(dtype: DType, shape: &'a [usize]) -> Self {
        Self { dtype, shape, bytes: &mut [] }
    }

    /// The same tensor for a while.
    pub(crate) fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut { dtype: self.dtype, shape: self.shape, bytes: self.bytes }
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// Bytes of a dense tensor; `None` on overflow and for strings.
pub(crate) fn dense_size(dtype: DType, shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return dtype.storage_bytes(0);
    }
    let len_elems = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent))?;
    dtype.storage_bytes(len_elems).filter(|&bytes| isize::try_from(bytes).is_ok())
}

fn check_size(dtype: DType, shape: &[usize], found: usize) -> Result<(), RuntimeError> {
    if !dtype.has_bytes() {
        return Err(RuntimeError::UnsupportedType { dtype });
    }
    let expected = dense_size(dtype, shape);
    if expected == Some(found) {
        return Ok(());
    }
    let expected = expected.map_or_else(|| "more than there are".to_owned(), |bytes| bytes.to_string());
    Err(RuntimeError::WrongBufferSize { dtype, shape: shape.to_vec(), expected, found })
}

/// The lowest and the highest element touched; every extent is at least 1.
fn extent(shape: &[usize], strides: &[isize], offset: usize) -> Option<(i128, i128)> {
    let start = i128::try_from(offset).ok()?;
    let (mut lowest, mut highest) = (start, start);
    for (&extent, &stride) in shape.iter().zip(strides) {
        let reach = i128::try_from(extent - 1).ok()?.checked_mul(stride as i128)?;
        if reach < 0 {
            lowest = lowest.checked_add(reach)?;
        } else {
            highest = highest.checked_add(reach)?;
        }
    }
    Some((lowest, highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(view: &TensorView<'_>) -> Vec<u8> {
        let mut bytes = vec![0; view.dense_size()];
        view.copy_dense(&mut bytes);
        bytes
    }

    #[test]
    fn strided_views() {
        let data: Vec<u8> = (0..12).collect();
        let transposed = TensorView::strided(DType::U8, &[4, 3], &[1, 4], 0, &data).unwrap();
        assert!(transposed.dense_bytes().is_none());
        assert_eq!(dense(&transposed), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        let reversed = TensorView::strided(DType::U8, &[12], &[-1], 11, &data).unwrap();
        assert_eq!(dense(&reversed), data.iter().rev().copied().collect::<Vec<_>>());
        let broadcast = TensorView::strided(DType::U16, &[2, 2], &[0, 1], 1, &data).unwrap();
        assert_eq!(dense(&broadcast), [2, 3, 4, 5, 2, 3, 4, 5]);
        let inner = TensorView::strided(DType::U8, &[1, 2, 4], &[99, 4, 1], 4, &data).unwrap();
        assert_eq!(inner.dense_bytes(), Some(&data[4..12]));
        let empty = TensorView::strided(DType::U8, &[0, 9], &[99, 99], 99, &data).unwrap();
        assert_eq!(dense(&empty), [0u8; 0]);
    }

    #[test]
    fn bad_strides() {
        let data = [0; 12];
        let code = |shape: &[usize], strides: &[isize], offset| {
            TensorView::strided(DType::U8, shape, strides, offset, &data).unwrap_err().code()
        };
        assert_eq!(code(&[3, 4], &[4], 0), "runtime::bad-strides");
        assert_eq!(code(&[3, 5], &[4, 1], 0), "runtime::bad-strides");
        assert_eq!(code(&[3], &[-1], 1), "runtime::bad-strides");
        assert_eq!(code(&[usize::MAX, 2], &[isize::MAX, 1], 0), "runtime::bad-strides");
        let nibbles = TensorView::strided(DType::U4, &[2], &[1], 0, &data).unwrap_err();
        assert_eq!(nibbles.code(), "runtime::bad-strides");
    }

    #[test]
    fn sizes_are_checked() {
        assert!(TensorView::new(DType::U4, &[3], &[0; 2]).is_ok());
        assert_eq!(TensorView::new(DType::F32, &[3], &[0; 2]).unwrap_err().code(), "runtime::wrong-buffer-size");
        assert_eq!(TensorView::new(DType::U8, &[usize::MAX; 2], &[]).unwrap_err().code(), "runtime::wrong-buffer-size");
        assert_eq!(TensorView::new(DType::String, &[0], &[]).unwrap_err().code(), "runtime::unsupported-type");
        assert!(TensorView::new(DType::U8, &[usize::MAX, 0], &[]).is_ok());
    }
}
