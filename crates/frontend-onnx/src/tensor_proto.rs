//! `TensorProto` to [`Tensor`] and back: ONNX's many ways to write the elements of a tensor.

use crate::error::ImportError;
use crate::proto::TensorProto;
use crate::proto::tensor_proto::{DataLocation, DataType};
use bytes::Bytes;
use infc_tensor::{AlignedBytes, DType, Tensor};
use prost::Message;

/// The element type that ONNX's number stands for; `None` for types that no tensor of infc has.
#[must_use]
pub fn dtype_from_onnx(code: i32) -> Option<DType> {
    Some(match DataType::try_from(code).ok()? {
        DataType::Float => DType::F32,
        DataType::Uint8 => DType::U8,
        DataType::Int8 => DType::I8,
        DataType::Uint16 => DType::U16,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::String => DType::String,
        DataType::Bool => DType::Bool,
        DataType::Float16 => DType::F16,
        DataType::Double => DType::F64,
        DataType::Uint32 => DType::U32,
        DataType::Uint64 => DType::U64,
        DataType::Complex64 => DType::Complex64,
        DataType::Complex128 => DType::Complex128,
        DataType::Bfloat16 => DType::BF16,
        DataType::Float8e4m3fn => DType::F8E4M3FN,
        DataType::Float8e4m3fnuz => DType::F8E4M3FNUZ,
        DataType::Float8e5m2 => DType::F8E5M2,
        DataType::Float8e5m2fnuz => DType::F8E5M2FNUZ,
        DataType::Float8e8m0 => DType::F8E8M0,
        DataType::Float4e2m1 => DType::F4E2M1,
        DataType::Uint4 => DType::U4,
        DataType::Int4 => DType::I4,
        DataType::Uint2 => DType::U2,
        DataType::Int2 => DType::I2,
        _ => return None,
    })
}

/// The element type of this name among ONNX's (`FLOAT`, `INT64`).
pub(crate) fn dtype_named(name: &str) -> Option<DType> {
    dtype_from_onnx(DataType::from_str_name(name)? as i32)
}

/// ONNX's number of an element type; 0, `UNDEFINED`, for values, which are no elements of tensors there.
#[must_use]
pub fn dtype_to_onnx(dtype: DType) -> i32 {
    (1..=DataType::Float6e3m2 as i32).find(|&code| dtype_from_onnx(code) == Some(dtype)).unwrap_or(0)
}

/// Reads a file that holds one `TensorProto`, as the `input_0.pb` of ONNX's test data.
///
/// # Errors
/// [`ImportError::Malformed`] and the errors of a tensor's data; external data is refused.
pub fn decode_tensor(bytes: Bytes) -> Result<Tensor, ImportError> {
    read_inline(&TensorProto::decode(bytes).map_err(|source| ImportError::Malformed { source })?)
}

/// As [`read`], of a tensor that has no folder to look for data in.
pub(crate) fn read_inline(proto: &TensorProto) -> Result<Tensor, ImportError> {
    if proto.data_location() == DataLocation::External {
        return Err(ImportError::ExternalDataInvalid {
            tensor: proto.name().to_owned(),
            key: "data_location",
            expected: "data within the file",
            found: "EXTERNAL".to_owned(),
        });
    }
    read(proto)
}

/// The bytes of a `TensorProto` that holds the tensor.
#[must_use]
pub fn encode_tensor(name: &str, tensor: &Tensor) -> Vec<u8> {
    to_proto(name, tensor).encode_to_vec()
}

/// The message for a tensor.
#[must_use]
pub fn to_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let mut proto = TensorProto {
        name: Some(name.to_owned()),
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        data_type: Some(dtype_to_onnx(tensor.dtype())),
        ..TensorProto::default()
    };
    match tensor.strings() {
        Ok(strings) => proto.string_data = strings.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect(),
        Err(_) => proto.raw_data = Some(Bytes::copy_from_slice(tensor.bytes())),
    }
    proto
}

/// Type and shape of a tensor, checked: no negative extent, no overflow.
pub(crate) fn signature(proto: &TensorProto) -> Result<(DType, Vec<usize>), ImportError> {
    let invalid = |reason, expected: &str, found: String| ImportError::InvalidTensor {
        tensor: proto.name().to_owned(),
        reason,
        expected: expected.to_owned(),
        found,
    };
    let dtype = dtype_from_onnx(proto.data_type()).ok_or_else(|| {
        invalid("its element type is not known", "a type of ONNX 1.20", proto.data_type().to_string())
    })?;
    let shape: Vec<usize> = proto
        .dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| invalid("an extent is negative", "at least 0", d.to_string())))
        .collect::<Result<_, _>>()?;
    // Extents of 0 are left out, so that the product of a part of the shape cannot overflow either.
    let len = shape.iter().filter(|&&d| d != 0).try_fold(1usize, |n, &d| n.checked_mul(d));
    let size = len.and_then(|n| n.checked_mul(dtype.size_bits().max(8)));
    if size.is_none_or(|bits| bits > isize::MAX as usize) {
        let shape = proto.dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(ImportError::DimOverflow { value: proto.name().to_owned(), shape });
    }
    Ok((dtype, shape))
}

/// Checks that the data is as long as type and shape say, without copying it.
pub(crate) fn check(proto: &TensorProto) -> Result<(), ImportError> {
    let (dtype, shape) = signature(proto)?;
    if proto.segment.is_some() {
        return Err(ImportError::InvalidTensor {
            tensor: proto.name().to_owned(),
            reason: "it is stored in segments",
            expected: "one piece".to_owned(),
            found: "a segment".to_owned(),
        });
    }
    let len: usize = shape.iter().product();
    let (expected, found) = match (&proto.raw_data, dtype) {
        (Some(raw), _) if dtype != DType::String => (dtype.storage_bytes(len).unwrap_or(usize::MAX), raw.len()),
        (_, DType::F32) => (len, proto.float_data.len()),
        (_, DType::Complex64) => (len * 2, proto.float_data.len()),
        (_, DType::F64) => (len, proto.double_data.len()),
        (_, DType::Complex128) => (len * 2, proto.double_data.len()),
        (_, DType::I64) => (len, proto.int64_data.len()),
        (_, DType::U64 | DType::U32) => (len, proto.uint64_data.len()),
        (_, DType::String) => (len, proto.string_data.len()),
        (_, DType::I32 | DType::I16 | DType::U16 | DType::F16 | DType::BF16) => (len, proto.int32_data.len()),
        // One byte per entry; narrower types are packed into it.
        _ => (dtype.storage_bytes(len).unwrap_or(usize::MAX), proto.int32_data.len()),
    };
    if expected == found {
        return Ok(());
    }
    Err(ImportError::InvalidTensor {
        tensor: proto.name().to_owned(),
        reason: if proto.raw_data.is_some() {
            "its data has the wrong length"
        } else {
            "it has the wrong number of elements"
        },
        expected: format!("{expected} for {dtype}{shape:?}"),
        found: found.to_string(),
    })
}

/// The tensor, with its elements copied into aligned memory.
pub(crate) fn read(proto: &TensorProto) -> Result<Tensor, ImportError> {
    check(proto)?;
    let (dtype, shape) = signature(proto)?;
    if dtype == DType::String {
        let strings = proto.string_data.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect();
        return Tensor::from_strings(&shape, strings).map_err(|_| overflow(proto));
    }
    let bytes = match &proto.raw_data {
        Some(raw) => AlignedBytes::from_slice(raw),
        None => typed_data(proto, dtype),
    };
    let bytes = if dtype == DType::Bool { zeros_and_ones(bytes) } else { bytes };
    Tensor::from_bytes(dtype, shape, bytes).map_err(|_| overflow(proto))
}

/// Files may hold any byte for true.
fn zeros_and_ones(mut bytes: AlignedBytes) -> AlignedBytes {
    bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    bytes
}

fn overflow(proto: &TensorProto) -> ImportError {
    ImportError::DimOverflow { value: proto.name().to_owned(), shape: format!("{:?}", proto.dims) }
}

/// The elements from the field that the type uses.
fn typed_data(proto: &TensorProto, dtype: DType) -> AlignedBytes {
    fn pack<T: Copy, const N: usize>(items: &[T], bytes: impl Fn(T) -> [u8; N]) -> AlignedBytes {
        let mut packed = AlignedBytes::zeroed(items.len() * N);
        for (to, &item) in packed.chunks_exact_mut(N).zip(items) {
            to.copy_from_slice(&bytes(item));
        }
        packed
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits are the element")]
    match dtype {
        DType::F32 | DType::Complex64 => pack(&proto.float_data, f32::to_le_bytes),
        DType::F64 | DType::Complex128 => pack(&proto.double_data, f64::to_le_bytes),
        DType::I64 => pack(&proto.int64_data, i64::to_le_bytes),
        DType::U64 => pack(&proto.uint64_data, u64::to_le_bytes),
        DType::U32 => pack(&proto.uint64_data, |x| (x as u32).to_le_bytes()),
        DType::I32 => pack(&proto.int32_data, i32::to_le_bytes),
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => pack(&proto.int32_data, |x| (x as u16).to_le_bytes()),
        DType::Bool => pack(&proto.int32_data, |x| [u8::from(x != 0)]),
        _ => pack(&proto.int32_data, |x| [x as u8]),
    }
}
