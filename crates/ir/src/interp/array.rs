//! Dense arrays of scalars: how the interpreters hold values.

use super::{InterpError, MAX_ELEMS};
use crate::scalar::{Const, Scalar, has_arithmetic};
use infc_tensor::{AlignedBytes, DType, Tensor};

/// The elements of one value, eight bytes each.
#[derive(Clone, Debug)]
enum Cells {
    Float(Vec<f64>),
    Int(Vec<i64>),
    /// Of a type without arithmetic: only host operations look at the elements.
    Opaque(Tensor),
}

/// A dense, row-major array.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    /// Per axis, how far outside of the extents reads give the fill.
    pub(super) halo: Vec<(i64, i64)>,
    pub(super) fill: Scalar,
    cells: Cells,
}

/// The number of elements of a shape, if it is reasonable.
pub(super) fn checked_len(name: &str, shape: &[i64]) -> Result<usize, InterpError> {
    if shape.iter().any(|&d| d < 0) {
        return Err(InterpError::NegativeExtent { name: name.to_owned(), shape: shape.to_vec() });
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
        .filter(|&n| n <= MAX_ELEMS)
        .ok_or_else(|| InterpError::TooLarge { name: name.to_owned(), shape: shape.to_vec() })
}

impl Array {
    /// All elements zero.
    pub(super) fn zeros(name: &str, dtype: DType, shape: Vec<i64>) -> Result<Self, InterpError> {
        if !has_arithmetic(dtype) {
            return Err(InterpError::UnsupportedType { name: name.to_owned(), dtype });
        }
        let len = checked_len(name, &shape)?;
        let cells = if dtype.is_float() { Cells::Float(vec![0.0; len]) } else { Cells::Int(vec![0; len]) };
        let (name, halo, fill) = (name.to_owned(), vec![(0, 0); shape.len()], Scalar::from_i64(dtype, 0));
        Ok(Self { name, dtype, halo, fill, shape, cells })
    }

    /// The elements of a tensor, which must have the given type and shape.
    pub(super) fn from_tensor(name: &str, dtype: DType, shape: Vec<i64>, tensor: &Tensor) -> Result<Self, InterpError> {
        if tensor.dtype() != dtype {
            return Err(InterpError::WrongType { name: name.to_owned(), expected: dtype, found: tensor.dtype() });
        }
        let same =
            tensor.rank() == shape.len() && tensor.shape().iter().zip(&shape).all(|(&a, &b)| i64::try_from(a) == Ok(b));
        if !same {
            let found = tensor.shape().to_vec();
            return Err(InterpError::WrongShape { name: name.to_owned(), expected: shape, found });
        }
        if !has_arithmetic(dtype) {
            let (name, halo, fill) = (name.to_owned(), vec![(0, 0); shape.len()], Scalar::Int(0));
            return Ok(Self { name, dtype, halo, fill, shape, cells: Cells::Opaque(tensor.clone()) });
        }
        let mut array = Self::zeros(name, dtype, shape)?;
        let bytes = tensor.bytes();
        for i in 0..array.len() {
            array.set(i, Scalar::from_const(Const { dtype, bits: read_bits(bytes, dtype.size_bits(), i) }));
        }
        Ok(array)
    }

    /// The array as a tensor.
    pub(super) fn to_tensor(&self) -> Result<Tensor, InterpError> {
        if let Cells::Opaque(tensor) = &self.cells {
            return Ok(tensor.clone());
        }
        let len_bytes = self.dtype.storage_bytes(self.len()).expect("supported types have a size");
        let mut bytes = AlignedBytes::zeroed(len_bytes);
        for i in 0..self.len() {
            write_bits(&mut bytes, self.dtype.size_bits(), i, self.get(i).to_const(self.dtype).bits);
        }
        let shape = self.shape.iter().map(|&d| d as usize).collect();
        Ok(Tensor::from_bytes(self.dtype, shape, bytes)?)
    }

    /// The number of elements.
    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Float(cells) => cells.len(),
            Cells::Int(cells) => cells.len(),
            Cells::Opaque(tensor) => tensor.len_elems(),
        }
    }

    /// An element by its position.
    pub(super) fn get(&self, at: usize) -> Scalar {
        match &self.cells {
            Cells::Float(cells) => Scalar::Float(cells[at]),
            Cells::Int(cells) => Scalar::Int(cells[at]),
            // Graphs with such operands elsewhere than at host operations are not valid.
            Cells::Opaque(_) => Scalar::Int(0),
        }
    }

    /// Changes an element by its position.
    pub(super) fn set(&mut self, at: usize, value: Scalar) {
        match &mut self.cells {
            Cells::Float(cells) => cells[at] = value.to_f64(),
            Cells::Int(cells) => cells[at] = value.to_i64(),
            Cells::Opaque(_) => {}
        }
    }

    /// The position of a coordinate, or `None` if it is outside.
    pub(super) fn position(&self, index: &[i64]) -> Option<usize> {
        if index.len() != self.shape.len() {
            return None;
        }
        let mut at = 0i64;
        for (&i, &extent) in index.iter().zip(&self.shape) {
            if i < 0 || i >= extent {
                return None;
            }
            at = at * extent + i;
        }
        Some(at as usize)
    }

    /// True if a coordinate outside of the extents lies in the halo, where reads give the fill.
    pub(super) fn in_halo(&self, index: &[i64]) -> bool {
        index.len() == self.shape.len()
            && self.halo.len() == self.shape.len()
            && index.iter().zip(&self.shape).zip(&self.halo).all(|((&i, &extent), &(before, after))| {
                i >= before.saturating_neg() && i < extent.saturating_add(after)
            })
    }
}

/// Element `at` of packed elements of 2 to 64 bits, low bits first.
pub(super) fn read_bits(bytes: &[u8], size_bits: usize, at: usize) -> u64 {
    if size_bits < 8 {
        let bit = at * size_bits;
        return u64::from(bytes[bit / 8] >> (bit % 8)) & ((1 << size_bits) - 1);
    }
    let size = size_bits / 8;
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[at * size..(at + 1) * size]);
    u64::from_le_bytes(word)
}

/// Writes what [`read_bits`] reads.
fn write_bits(bytes: &mut [u8], size_bits: usize, at: usize, bits: u64) {
    if size_bits < 8 {
        let bit = at * size_bits;
        let mask = ((1u8 << size_bits) - 1) << (bit % 8);
        bytes[bit / 8] = bytes[bit / 8] & !mask | (bits as u8) << (bit % 8) & mask;
        return;
    }
    let size = size_bits / 8;
    bytes[at * size..(at + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_elements_survive_the_way_through_an_array() {
        let bytes = AlignedBytes::from_slice(&[0x8f, 0x03]);
        let tensor = Tensor::from_bytes(DType::I4, vec![3], bytes).expect("three nibbles");
        let array = Array::from_tensor("x", DType::I4, vec![3], &tensor).expect("supported");
        assert_eq!([array.get(0), array.get(1), array.get(2)], [Scalar::Int(-1), Scalar::Int(-8), Scalar::Int(3)]);
        assert_eq!(array.to_tensor().expect("fits").bytes(), tensor.bytes());
    }

    #[test]
    fn huge_shapes_are_refused_before_memory_is_taken() {
        let error = Array::zeros("x", DType::F32, vec![1 << 40, 1 << 40]).expect_err("too large");
        assert!(matches!(error, InterpError::TooLarge { .. }));
    }
}
