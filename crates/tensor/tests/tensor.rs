//! What tensors promise about shapes, storage and element types.

use infc_tensor::{AlignedBytes, DType, Tensor, TensorError, bf16, f16};

#[test]
fn shapes_that_overflow_are_refused() {
    for dtype in [DType::F32, DType::U2, DType::String] {
        let overflow = Tensor::zeros(dtype, &[usize::MAX, 2]);
        assert!(matches!(overflow, Err(TensorError::TooLarge { .. })), "{dtype}");
    }
    // The elements can be counted, their bits cannot.
    let too_wide = Tensor::from_bytes(DType::F64, vec![usize::MAX / 8], AlignedBytes::zeroed(0));
    assert!(matches!(too_wide, Err(TensorError::TooLarge { .. })));
}

#[test]
fn a_zero_extent_makes_any_shape_empty() {
    let empty = Tensor::zeros(DType::F32, &[usize::MAX, 0, usize::MAX]).unwrap();
    assert_eq!((empty.len_elems(), empty.bytes().len(), empty.rank()), (0, 0, 3));
    assert_eq!(empty.reshaped(&[0, 5]).unwrap().shape(), [0, 5]);
    assert!(empty.reshaped(&[1]).is_err());
}

#[test]
fn bytes_must_fill_the_shape_exactly() {
    let bytes = |len| AlignedBytes::zeroed(len);
    assert!(Tensor::from_bytes(DType::I16, vec![3], bytes(6)).is_ok());
    let short = Tensor::from_bytes(DType::I16, vec![3], bytes(5)).unwrap_err();
    assert_eq!(short.to_string(), "i16 tensor of shape [3] needs 6 bytes, found 5");
    assert!(Tensor::from_bytes(DType::I16, vec![3], bytes(7)).is_err());
    assert!(Tensor::from_elements(&[2, 2], &[1.0f32; 3]).is_err());
    assert!(Tensor::from_bools(&[2], &[true]).is_err());
}

#[test]
fn a_scalar_has_one_element() {
    let scalar = Tensor::scalar(2.5f32);
    assert_eq!((scalar.shape(), scalar.len_elems(), scalar.get_f64(0)), (&[][..], 1, Some(2.5)));
    assert_eq!(scalar.reshaped(&[1, 1]).unwrap().elements::<f32>().unwrap(), [2.5]);
}

#[test]
fn narrow_types_are_packed() {
    for (dtype, len, bytes) in [(DType::U4, 3, 2), (DType::I4, 4, 2), (DType::F4E2M1, 1, 1), (DType::I2, 5, 2)] {
        let tensor = Tensor::zeros(dtype, &[len]).unwrap();
        assert_eq!((tensor.bytes().len(), tensor.len_elems()), (bytes, len), "{dtype}");
        assert_eq!((tensor.get_f64(0), tensor.to_i64_vec(), dtype.size_bytes()), (None, None, None), "{dtype}");
    }
    assert!(Tensor::from_bytes(DType::U4, vec![3], AlignedBytes::zeroed(3)).is_err());
}

#[test]
fn strings_are_not_bytes() {
    let words = Tensor::from_strings(&[2, 1], vec!["a".to_owned(), "bc".to_owned()]).unwrap();
    assert_eq!(words.strings().unwrap(), ["a", "bc"]);
    assert_eq!((words.dtype(), words.bytes().len(), words.get_f64(0)), (DType::String, 0, None));
    assert_eq!(words.reshaped(&[2]).unwrap().strings().unwrap().len(), 2);
    assert!(words.elements::<u8>().is_err());
    assert!(Tensor::from_strings(&[2], vec![String::new()]).is_err());
    assert!(Tensor::from_bytes(DType::String, vec![0], AlignedBytes::zeroed(0)).is_err());
    assert_eq!(Tensor::zeros(DType::String, &[2]).unwrap().strings().unwrap(), ["", ""]);
    assert!(Tensor::scalar(1u8).strings().is_err());
}

#[test]
fn elements_are_typed() {
    let mut tensor = Tensor::from_elements(&[2], &[1i32, -2]).unwrap();
    let wrong = TensorError::WrongType { expected: DType::F32, found: DType::I32 };
    assert_eq!(tensor.elements::<f32>(), Err(wrong));
    assert!(tensor.elements_mut::<u32>().is_err());
    tensor.elements_mut::<i32>().unwrap()[0] = 7;
    assert_eq!(tensor.to_i64_vec().unwrap(), [7, -2]);
}

#[test]
fn writing_to_a_clone_leaves_the_original() {
    let original = Tensor::from_elements(&[2], &[1.0f32, 2.0]).unwrap();
    let mut copy = original.clone();
    assert_eq!(copy, original);
    copy.elements_mut::<f32>().unwrap()[1] = 9.0;
    assert_eq!(original.elements::<f32>().unwrap(), [1.0, 2.0]);
    let mut viewed = original.reshaped(&[1, 2]).unwrap();
    viewed.bytes_mut().fill(0);
    assert_eq!(original.elements::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn every_numeric_type_of_a_byte_or_more_reads_as_f64() {
    let read = |tensor: Tensor| (tensor.get_f64(0), tensor.get_f64(1));
    assert_eq!(read(Tensor::scalar(f16::from_f32(0.5))), (Some(0.5), None));
    assert_eq!(read(Tensor::scalar(bf16::from_f32(-2.0))), (Some(-2.0), None));
    assert_eq!(read(Tensor::scalar(1e300f64)), (Some(1e300), None));
    assert_eq!(read(Tensor::scalar(-5i8)), (Some(-5.0), None));
    assert_eq!(read(Tensor::scalar(u64::MAX)), (Some(18_446_744_073_709_551_616.0), None));
    assert_eq!(read(Tensor::from_bools(&[2], &[true, false]).unwrap()), (Some(1.0), Some(0.0)));
    assert_eq!(Tensor::scalar(u32::MAX).to_i64_vec(), Some(vec![4_294_967_295]));
    assert_eq!(Tensor::scalar(1f32).to_i64_vec(), None);
}

#[test]
fn bytes_start_on_a_cache_line() {
    for len in [0, 1, 63, 64, 65, 1000] {
        let bytes = AlignedBytes::from_slice(&vec![7; len]);
        assert_eq!(bytes.as_ptr().align_offset(64), 0);
        assert_eq!((bytes.len(), bytes.iter().all(|&b| b == 7)), (len, true));
    }
    assert_ne!(AlignedBytes::zeroed(3), AlignedBytes::zeroed(4));
}

#[test]
fn type_names_read_back() {
    for dtype in DType::ALL {
        assert_eq!(dtype.name().parse(), Ok(dtype));
        assert_eq!(dtype as usize, DType::ALL.iter().position(|&d| d == dtype).unwrap());
    }
    assert_eq!("float".parse::<DType>().unwrap_err().to_string(), "`float` is not an element type");
    assert_eq!(DType::U4.storage_bytes(3), Some(2));
    assert_eq!(DType::F64.storage_bytes(usize::MAX), None);
    assert_eq!(DType::String.storage_bytes(1), None);
}
