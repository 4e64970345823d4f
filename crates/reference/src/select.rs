//! Movement: outputs whose every element is a copy of some input element.
//!
//! Every operator that only moves data (transpose, slice, pad, gather, where, …) is an index function given to
//! [`gather`] or [`select`]. They work for every element type, packed ones and strings included.

use crate::error::{EvalError, Result};
use crate::limits::checked_len;
use infc_tensor::{AlignedBytes, DType, Tensor};

/// A tensor of `shape` whose element `k` is the element of `source` that the `k`-th index names.
pub(crate) fn gather(source: &Tensor, shape: &[usize], indices: impl Iterator<Item = usize>) -> Result<Tensor> {
    select(&[source], shape, indices.map(|index| (0, index)))
}

/// A tensor of `shape` whose element `k` is element `i` of `sources[s]`, where `(s, i)` is the `k`-th pick.
///
/// There must be as many picks as elements, and they must be in range.
///
/// # Errors
/// [`EvalError::TypeMismatch`] if the sources differ in type, [`EvalError::TooLarge`].
pub(crate) fn select(
    sources: &[&Tensor],
    shape: &[usize],
    picks: impl Iterator<Item = (usize, usize)>,
) -> Result<Tensor> {
    let dtype = common_dtype(sources)?;
    let len = checked_len(dtype, shape)?;
    // Nested loops over an empty tensor may be long even though they pick nothing.
    let picks = picks.take(len);
    if dtype == DType::String {
        let strings = sources.iter().map(|s| s.strings()).collect::<std::result::Result<Vec<_>, _>>()?;
        let picked = picks.map(|(s, i)| strings[s][i].clone()).collect();
        return Ok(Tensor::from_strings(shape, picked)?);
    }
    let bytes: Vec<&[u8]> = sources.iter().map(|s| s.bytes()).collect();
    let out = match dtype.size_bytes() {
        Some(1) => copy_elements::<1>(&bytes, len, picks),
        Some(2) => copy_elements::<2>(&bytes, len, picks),
        Some(4) => copy_elements::<4>(&bytes, len, picks),
        Some(8) => copy_elements::<8>(&bytes, len, picks),
        Some(16) => copy_elements::<16>(&bytes, len, picks),
        _ => {
            let codes: Vec<Vec<u8>> = sources.iter().map(|s| unpack(s)).collect();
            return pack(dtype, shape, picks.map(|(s, i)| codes[s][i]));
        }
    };
    Ok(Tensor::from_bytes(dtype, shape.to_vec(), out)?)
}

fn copy_elements<const SIZE: usize>(
    sources: &[&[u8]],
    len: usize,
    picks: impl Iterator<Item = (usize, usize)>,
) -> AlignedBytes {
    let mut out = AlignedBytes::zeroed(len * SIZE);
    for (slot, (source, index)) in out.chunks_exact_mut(SIZE).zip(picks) {
        slot.copy_from_slice(&sources[source][index * SIZE..(index + 1) * SIZE]);
    }
    out
}

/// The element type that all of `tensors` have.
pub(crate) fn common_dtype(tensors: &[&Tensor]) -> Result<DType> {
    let dtype = tensors.first().ok_or(EvalError::MissingInput { index: 0 })?.dtype();
    match tensors.iter().find(|t| t.dtype() != dtype) {
        Some(other) => Err(EvalError::TypeMismatch { left: dtype, right: other.dtype() }),
        None => Ok(dtype),
    }
}

/// The codes of a tensor of 2- or 4-bit elements, one byte each; of whole bytes, the bytes.
pub(crate) fn unpack(tensor: &Tensor) -> Vec<u8> {
    let bits = tensor.dtype().size_bits();
    if bits == 0 || bits >= 8 {
        return tensor.bytes().to_vec();
    }
    let mask = (1u8 << bits) - 1;
    let bytes = tensor.bytes();
    (0..tensor.len_elems()).map(|i| (bytes[i * bits / 8] >> (i * bits % 8)) & mask).collect()
}

/// The inverse of [`unpack`]: low bits first, unused bits of the last byte zero. Codes beyond the shape are ignored.
pub(crate) fn pack(dtype: DType, shape: &[usize], codes: impl Iterator<Item = u8>) -> Result<Tensor> {
    let mut tensor = Tensor::zeros(dtype, shape)?;
    let bits = dtype.size_bits();
    let len = tensor.len_elems();
    let mask = if bits >= 8 { u8::MAX } else { (1u8 << bits) - 1 };
    let bytes = tensor.bytes_mut();
    for (i, code) in codes.take(len).enumerate() {
        bytes[i * bits / 8] |= (code & mask) << (i * bits % 8);
    }
    Ok(tensor)
}
