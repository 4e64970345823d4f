//! NumPy's `.npy` format, read and written in memory.
//!
//! Source: `numpy.lib.format`. A file is `\x93NUMPY`, a version (two bytes), the length of the header (two bytes in
//! version 1, four from version 2), the header (a Python dictionary: element type, memory order, shape), the elements.
//! Read are plain numbers of either byte order, bools and Unicode strings, in either memory order; no pickled objects,
//! which would be code. What a header claims is compared with the bytes there are before any memory is asked for.

mod elements;
mod header;

use header::{Header, Kind};
use infc_tensor::{AlignedBytes, DType, Tensor, TensorError};

/// Why bytes are not an array that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NpyError {
    #[error("it does not begin as an .npy file does")]
    NotNpy,
    #[error("it is cut off within the header")]
    HeaderCutOff,
    #[error("its version is {major}.{minor}, expected 1.0 to 3.0")]
    Version { major: u8, minor: u8 },
    #[error("its header makes no sense: {0}")]
    Header(&'static str),
    #[error("its elements are of type `{0}`")]
    ElementType(String),
    #[error("{shape:?} of `{descr}` needs {expected} bytes, found {found}")]
    Length { descr: String, shape: Vec<usize>, expected: String, found: usize },
    #[error("it holds a string that is not Unicode")]
    NotUnicode,
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("elements of type {0} have no form in NumPy")]
    NoForm(DType),
}

/// Reads an array. The result is row-major and in the machine's byte order.
pub(crate) fn read(file: &[u8]) -> Result<Tensor, NpyError> {
    let (header, data) = header::parse(file)?;
    let Header { descr, kind, size_bytes, big_endian, fortran_order, shape } = header;
    let len_elems = if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) };
    let expected = len_elems.and_then(|n| n.checked_mul(size_bytes));
    if expected != Some(data.len()) {
        let expected = expected.map_or_else(|| "more than there are".to_owned(), |n| n.to_string());
        return Err(NpyError::Length { descr, shape, expected, found: data.len() });
    }
    let mut data = AlignedBytes::from_slice(data);
    if big_endian {
        // Of a complex number, each part; of a string, each character.
        let word = kind.word_bytes(size_bytes);
        data.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    }
    if fortran_order && shape.len() > 1 {
        data = elements::to_row_major(&data, &shape, size_bytes);
    }
    match kind {
        Kind::Number(DType::Bool) => {
            data.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            Ok(Tensor::from_bytes(DType::Bool, shape, data)?)
        }
        Kind::Number(dtype) => Ok(Tensor::from_bytes(dtype, shape, data)?),
        Kind::Unicode => Ok(Tensor::from_strings(&shape, elements::decode_strings(&data, size_bytes)?)?),
    }
}

/// Writes an array. Types that NumPy lacks become the nearest that hold all their values: narrow floats `f32`, narrow
/// integers bytes; strings become Unicode.
pub(crate) fn write(tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    let (descr, data) = elements::numpy_form(tensor)?;
    let mut file = header::print(&descr, tensor.shape());
    file.extend_from_slice(&data);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let tensors = [
            Tensor::from_elements(&[2, 3], &[1.5f32, -2.0, 0.0, f32::INFINITY, 5.0, 6.0]).unwrap(),
            Tensor::from_elements(&[3], &[i64::MIN, 0, i64::MAX]).unwrap(),
            Tensor::from_elements(&[2], &[infc_tensor::f16::from_f32(0.5), infc_tensor::f16::ONE]).unwrap(),
            Tensor::scalar(7u8),
            Tensor::from_bools(&[2], &[true, false]).unwrap(),
            Tensor::from_elements::<f64>(&[0, 4], &[]).unwrap(),
            Tensor::from_strings(&[2], vec!["grün".to_owned(), String::new()]).unwrap(),
        ];
        for tensor in tensors {
            let file = write(&tensor).unwrap();
            assert_eq!(read(&file).unwrap(), tensor);
            // NumPy aligns the data.
            assert_eq!((file.len() - tensor.bytes().len()) % 64, if tensor.strings().is_ok() { 32 } else { 0 });
        }
    }

    #[test]
    fn types_that_numpy_lacks_are_widened() {
        let bf16 = Tensor::from_elements(&[2], &[infc_tensor::bf16::from_f32(1.5), infc_tensor::bf16::ONE]).unwrap();
        let read_back = read(&write(&bf16).unwrap()).unwrap();
        assert_eq!(read_back.elements::<f32>().unwrap(), [1.5, 1.0]);
        let nibbles = Tensor::from_bytes(DType::I4, vec![3], AlignedBytes::from_slice(&[0x7f, 0x08])).unwrap();
        let read_back = read(&write(&nibbles).unwrap()).unwrap();
        assert_eq!(read_back.elements::<i8>().unwrap(), [-1, 7, -8]);
    }

    #[test]
    fn other_byte_and_memory_orders() {
        let header = |text: &str| {
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
            file.extend_from_slice(text.as_bytes());
            file
        };
        let mut file = header("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n");
        file.extend([0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
        let tensor = read(&file).unwrap();
        assert_eq!(tensor.elements::<i16>().unwrap(), [1, 2, 3, 4, 5, 6]);

        let huge = header("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976, 64), }");
        assert!(matches!(read(&huge), Err(NpyError::Length { .. })));
        let object = header("{'descr': '|O', 'fortran_order': False, 'shape': (), }");
        assert_eq!(read(&object), Err(NpyError::ElementType("|O".to_owned())));
    }

    #[test]
    fn no_prefix_of_a_file_is_accepted() {
        let file = write(&Tensor::from_elements(&[4], &[1.0f32; 4]).unwrap()).unwrap();
        for len in 0..file.len() {
            assert!(read(&file[..len]).is_err(), "{len}");
        }
    }
}
