//! Arithmetic on shapes, axes and flat indices.

use crate::error::{EvalError, Result};

/// Row-major strides, in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for axis in (1..shape.len()).rev() {
        // Overflows only when another extent is zero; then no element is ever addressed.
        strides[axis - 1] = strides[axis].wrapping_mul(shape[axis] as isize);
    }
    strides
}

/// The number of elements of a shape; saturates, so that shapes still to be checked may be given.
pub(crate) fn len(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |len: usize, &dim| len.saturating_mul(dim)) }
}

/// Strides that read `shape` as if it were broadcast to `target`: 0 along stretched axes.
///
/// `shape` must be broadcastable to `target`, see [`broadcast`].
pub(crate) fn broadcast_strides(shape: &[usize], target: &[usize]) -> Vec<isize> {
    let lead = target.len() - shape.len();
    let own = strides(shape);
    (0..target.len()).map(|axis| if axis < lead || shape[axis - lead] == 1 { 0 } else { own[axis - lead] }).collect()
}

/// The shape that all of `shapes` broadcast to, numpy style.
pub(crate) fn broadcast(shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1usize; rank];
    for shape in shapes {
        let lead = rank - shape.len();
        for (axis, &dim) in shape.iter().enumerate() {
            let slot = &mut out[lead + axis];
            if *slot == 1 {
                *slot = dim;
            } else if dim != 1 && dim != *slot {
                return Err(EvalError::ShapeMismatch {
                    left: out,
                    right: shape.to_vec(),
                    reason: "they do not broadcast",
                });
            }
        }
    }
    Ok(out)
}

/// An axis counted from the front, where a negative one counts from the back.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let rank_i64 = rank as i64;
    if axis >= -rank_i64 && axis < rank_i64 {
        Ok(if axis < 0 { (axis + rank_i64) as usize } else { axis as usize })
    } else {
        Err(EvalError::AxisOutOfRange { axis, rank })
    }
}

/// Several axes as [`axis`] reads them, in the given order; a repeated one is an error.
pub(crate) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; rank];
    list.iter()
        .map(|&a| {
            let a = axis(a, rank)?;
            if std::mem::replace(&mut seen[a], true) {
                return Err(EvalError::InvalidAttribute { name: "axes", reason: "an axis is repeated" });
            }
            Ok(a)
        })
        .collect()
}

/// An index along an axis of length `len`, where a negative one counts from the back.
pub(crate) fn index(index: i64, len: usize) -> Result<usize> {
    let wrapped = if index < 0 { index.checked_add(len as i64) } else { Some(index) };
    match wrapped.and_then(|i| usize::try_from(i).ok()) {
        Some(i) if i < len => Ok(i),
        _ => Err(EvalError::IndexOutOfRange { index, len }),
    }
}

/// Extents given as integers, which must not be negative.
pub(crate) fn dims(list: &[i64]) -> Result<Vec<usize>> {
    list.iter().map(|&d| usize::try_from(d).map_err(|_| EvalError::NegativeExtent { extent: d })).collect()
}

/// Writes the coordinates of flat index `flat` of `shape` to `coords`.
pub(crate) fn unravel(mut flat: usize, shape: &[usize], coords: &mut [usize]) {
    for (coord, &dim) in coords.iter_mut().zip(shape).rev() {
        *coord = flat % dim;
        flat /= dim;
    }
}

/// The flat index of `coords` in a tensor with these strides.
pub(crate) fn ravel(coords: &[usize], strides: &[isize]) -> usize {
    coords.iter().zip(strides).map(|(&c, &s)| c * s as usize).sum()
}

/// Moves `coords` to the next point of `shape` in row-major order; false after the last one.
pub(crate) fn advance(coords: &mut [usize], shape: &[usize]) -> bool {
    for axis in (0..shape.len()).rev() {
        coords[axis] += 1;
        if coords[axis] < shape[axis] {
            return true;
        }
        coords[axis] = 0;
    }
    false
}

/// The flat source indices that an affine view of `shape` reads, in row-major order of the view.
#[derive(Clone, Debug)]
pub(crate) struct Strided {
    shape: Vec<usize>,
    strides: Vec<isize>,
    coords: Vec<usize>,
    next: usize,
    left: usize,
}

impl Strided {
    /// A view that reads `offset + Σ coordinate · stride`.
    pub(crate) fn new(shape: &[usize], strides: Vec<isize>, offset: usize) -> Self {
        debug_assert_eq!(shape.len(), strides.len());
        Self { shape: shape.to_vec(), strides, coords: vec![0; shape.len()], next: offset, left: len(shape) }
    }

    /// A view of a tensor of shape `from`, stretched to `to`.
    pub(crate) fn broadcast(from: &[usize], to: &[usize]) -> Self {
        Self::new(to, broadcast_strides(from, to), 0)
    }
}

impl Iterator for Strided {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let current = self.next;
        for axis in (0..self.shape.len()).rev() {
            self.coords[axis] += 1;
            self.next = self.next.wrapping_add_signed(self.strides[axis]);
            if self.coords[axis] < self.shape[axis] {
                break;
            }
            // Rewind this axis and carry into the one before it.
            self.next = self.next.wrapping_add_signed(self.strides[axis].wrapping_mul(-(self.shape[axis] as isize)));
            self.coords[axis] = 0;
        }
        Some(current)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strided {}

/// Extents before, at and after an axis: a tensor seen as `[outer, len, inner]`.
pub(crate) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (len(&shape[..axis]), shape[axis], len(&shape[axis + 1..]))
}
