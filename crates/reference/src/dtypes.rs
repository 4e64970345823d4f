//! ONNX's numbers and names of element types (`TensorProto.DataType`).

use infc_tensor::DType;

const ONNX_TYPES: [(i64, &str, DType); 26] = [
    (1, "FLOAT", DType::F32),
    (2, "UINT8", DType::U8),
    (3, "INT8", DType::I8),
    (4, "UINT16", DType::U16),
    (5, "INT16", DType::I16),
    (6, "INT32", DType::I32),
    (7, "INT64", DType::I64),
    (8, "STRING", DType::String),
    (9, "BOOL", DType::Bool),
    (10, "FLOAT16", DType::F16),
    (11, "DOUBLE", DType::F64),
    (12, "UINT32", DType::U32),
    (13, "UINT64", DType::U64),
    (14, "COMPLEX64", DType::Complex64),
    (15, "COMPLEX128", DType::Complex128),
    (16, "BFLOAT16", DType::BF16),
    (17, "FLOAT8E4M3FN", DType::F8E4M3FN),
    (18, "FLOAT8E4M3FNUZ", DType::F8E4M3FNUZ),
    (19, "FLOAT8E5M2", DType::F8E5M2),
    (20, "FLOAT8E5M2FNUZ", DType::F8E5M2FNUZ),
    (21, "UINT4", DType::U4),
    (22, "INT4", DType::I4),
    (23, "FLOAT4E2M1", DType::F4E2M1),
    (24, "FLOAT8E8M0", DType::F8E8M0),
    (25, "UINT2", DType::U2),
    (26, "INT2", DType::I2),
];

/// The element type that ONNX gives this number in `TensorProto.DataType`.
#[must_use]
pub fn from_onnx(code: i64) -> Option<DType> {
    ONNX_TYPES.iter().find(|entry| entry.0 == code).map(|entry| entry.2)
}

/// The number that ONNX gives this element type in `TensorProto.DataType`.
#[must_use]
pub fn to_onnx(dtype: DType) -> Option<i64> {
    ONNX_TYPES.iter().find(|entry| entry.2 == dtype).map(|entry| entry.0)
}

/// The element type of this name in `TensorProto.DataType`, as `Cast` of opset 1 gives it.
pub(crate) fn from_onnx_name(name: &str) -> Option<DType> {
    ONNX_TYPES.iter().find(|entry| entry.1 == name).map(|entry| entry.2)
}
