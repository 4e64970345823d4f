//! Sequences and optionals in files of their own, as ONNX's test data has them (`onnx-data.proto`).
//!
//! `SequenceProto` and `OptionalProto` have the same fields under the same numbers, once repeated and once not, so that
//! one message reads both.

use crate::error::ImportError;
use crate::proto::TensorProto;
use crate::tensor_proto;
use bytes::Bytes;
use infc_tensor::{DType, Tensor, TensorError};
use prost::Message;

/// A message that is not looked into.
#[derive(Clone, PartialEq, ::prost::Message)]
struct Unread {}

#[derive(Clone, PartialEq, ::prost::Message)]
struct Values {
    #[prost(message, repeated, tag = "3")]
    tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "4")]
    sparse: Vec<Unread>,
    #[prost(message, repeated, tag = "5")]
    sequences: Vec<Values>,
    #[prost(message, repeated, tag = "6")]
    maps: Vec<Unread>,
    #[prost(message, repeated, tag = "7")]
    optionals: Vec<Values>,
}

/// Reads a file that holds a value of this element type: one `TensorProto`, `SequenceProto` or `OptionalProto`.
///
/// # Errors
/// [`ImportError::Malformed`] and the errors of a tensor's data; external data is refused.
pub fn decode_value(dtype: DType, bytes: Bytes) -> Result<Tensor, ImportError> {
    if !matches!(dtype, DType::Sequence | DType::Optional) {
        return tensor_proto::decode_tensor(bytes);
    }
    // Nesting is limited by the decoder.
    let values = Values::decode(bytes).map_err(|source| ImportError::Malformed { source })?;
    read(dtype, &values)
}

fn read(dtype: DType, values: &Values) -> Result<Tensor, ImportError> {
    let invalid = |found: String| ImportError::InvalidTensor {
        tensor: String::new(),
        reason: "it holds values that make no sequence or optional",
        expected: dtype.to_string(),
        found,
    };
    if !values.sparse.is_empty() || !values.maps.is_empty() {
        return Err(invalid("sparse tensors or maps".to_owned()));
    }
    let mut elements = Vec::new();
    for tensor in &values.tensors {
        elements.push(tensor_proto::read_inline(tensor)?);
    }
    for sequence in &values.sequences {
        elements.push(read(DType::Sequence, sequence)?);
    }
    for optional in &values.optionals {
        elements.push(read(DType::Optional, optional)?);
    }
    Tensor::of_values(dtype, elements).map_err(|error: TensorError| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(values: &Values) -> Bytes {
        Bytes::from(values.encode_to_vec())
    }

    #[test]
    fn one_message_reads_both() {
        let x = Tensor::from_elements(&[2], &[1.0f32, 2.0]).unwrap();
        let tensors = vec![tensor_proto::to_proto("x", &x)];
        let one = Values { tensors: tensors.clone(), ..Values::default() };
        let sequence = Tensor::sequence(vec![x.clone()]).unwrap();
        assert_eq!(decode_value(DType::Sequence, encoded(&one)).unwrap(), sequence);
        assert_eq!(decode_value(DType::Optional, encoded(&one)).unwrap(), Tensor::optional(Some(x)).unwrap());
        let within = Values { sequences: vec![one], ..Values::default() };
        assert_eq!(decode_value(DType::Optional, encoded(&within)).unwrap(), Tensor::optional(Some(sequence)).unwrap());
        let none = decode_value(DType::Optional, encoded(&Values::default())).unwrap();
        assert_eq!(none, Tensor::optional(None).unwrap());
    }

    #[test]
    fn what_is_no_such_value_is_refused() {
        let tensor = tensor_proto::to_proto("x", &Tensor::scalar(1i64));
        let two = Values { tensors: vec![tensor.clone(), tensor], ..Values::default() };
        assert!(decode_value(DType::Optional, encoded(&two)).is_err());
        let map = Values { maps: vec![Unread {}], ..Values::default() };
        assert!(decode_value(DType::Sequence, encoded(&map)).is_err());
        let mut deep = Values::default();
        for _ in 0..9 {
            deep = Values { sequences: vec![deep], ..Values::default() };
        }
        assert!(decode_value(DType::Sequence, encoded(&deep)).is_err());
    }
}
