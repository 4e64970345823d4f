//! Elements in NumPy's form: memory orders, strings, and types that NumPy lacks.

use super::NpyError;
use crate::convert::cast;
use infc_tensor::{AlignedBytes, DType, Tensor};
use std::borrow::Cow;

/// Column-major elements of `size_bytes` each in row-major order.
pub(super) fn to_row_major(data: &[u8], shape: &[usize], size_bytes: usize) -> AlignedBytes {
    let mut result = AlignedBytes::zeroed(data.len());
    if size_bytes == 0 {
        return result;
    }
    let mut index = vec![0usize; shape.len()];
    // Distances between neighbours along each axis, in elements: the first axis is the innermost.
    let strides: Vec<usize> = shape
        .iter()
        .scan(1usize, |stride, &extent| {
            let this = *stride;
            *stride = stride.saturating_mul(extent);
            Some(this)
        })
        .collect();
    for element in result.chunks_exact_mut(size_bytes) {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        element.copy_from_slice(&data[at * size_bytes..(at + 1) * size_bytes]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    result
}

/// Strings of UTF-32, padded with zeros.
pub(super) fn decode_strings(data: &[u8], size_bytes: usize) -> Result<Vec<String>, NpyError> {
    if size_bytes == 0 {
        // NumPy writes arrays of empty strings as `U1`, so there is nothing to count here.
        return Ok(Vec::new());
    }
    let decode = |chunk: &[u8]| {
        let (characters, _) = chunk.as_chunks::<4>();
        let characters: Option<String> = characters.iter().map(|c| char::from_u32(u32::from_le_bytes(*c))).collect();
        characters.map(|text| text.trim_end_matches('\0').to_owned()).ok_or(NpyError::NotUnicode)
    };
    data.chunks_exact(size_bytes).map(decode).collect()
}

/// The element type as NumPy names it, and the elements in that type.
pub(super) fn numpy_form(tensor: &Tensor) -> Result<(String, Cow<'_, [u8]>), NpyError> {
    let descr = match tensor.dtype() {
        DType::F64 => "<f8",
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::I16 => "<i2",
        DType::I8 => "|i1",
        DType::U64 => "<u8",
        DType::U32 => "<u4",
        DType::U16 => "<u2",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
        DType::Complex64 => "<c8",
        DType::Complex128 => "<c16",
        DType::String => return Ok(encode_strings(tensor.strings()?)),
        DType::I4 | DType::I2 => return widened(tensor, DType::I8),
        DType::U4 | DType::U2 => return widened(tensor, DType::U8),
        _ => return widened(tensor, DType::F32),
    };
    Ok((descr.to_owned(), Cow::Borrowed(tensor.bytes())))
}

fn widened(tensor: &Tensor, dtype: DType) -> Result<(String, Cow<'_, [u8]>), NpyError> {
    let wide = cast(tensor, dtype).ok_or(NpyError::NoForm(tensor.dtype()))?;
    let (descr, data) = numpy_form(&wide)?;
    Ok((descr, Cow::Owned(data.into_owned())))
}

fn encode_strings(strings: &[String]) -> (String, Cow<'_, [u8]>) {
    let characters = strings.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let mut data = Vec::with_capacity(strings.len() * characters * 4);
    for text in strings {
        let padding = characters - text.chars().count();
        let padded = text.chars().map(u32::from).chain(std::iter::repeat_n(0, padding));
        data.extend(padded.flat_map(u32::to_le_bytes));
    }
    (format!("<U{characters}"), Cow::Owned(data))
}
