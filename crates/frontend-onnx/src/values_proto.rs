//! Sequences, optionals and maps in files of their own, as ONNX's test data has them (`onnx-data.proto`).
//!
//! `SequenceProto` and `OptionalProto` have the same fields under the same numbers, once repeated and once not, so that
//! one message reads both. A `MapProto` has its values in a `SequenceProto`, one tensor for each.

use crate::error::ImportError;
use crate::proto::TensorProto;
use crate::tensor_proto;
use bytes::Bytes;
use infc_tensor::{AlignedBytes, DType, Tensor, TensorError};
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
    maps: Vec<Map>,
    #[prost(message, repeated, tag = "7")]
    optionals: Vec<Values>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
struct Map {
    #[prost(int32, optional, tag = "2")]
    key_type: Option<i32>,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    keys: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    string_keys: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    values: Option<Values>,
}

/// Reads a file that holds a value of this element type: one `TensorProto`, `SequenceProto`, `OptionalProto` or `MapProto`.
///
/// # Errors
/// [`ImportError::Malformed`] and the errors of a tensor's data; external data is refused.
pub fn decode_value(dtype: DType, bytes: Bytes) -> Result<Tensor, ImportError> {
    let malformed = |source| ImportError::Malformed { source };
    // Nesting is limited by the decoder.
    match dtype {
        DType::Sequence | DType::Optional => read(dtype, &Values::decode(bytes).map_err(malformed)?),
        DType::Map => read_map(&Map::decode(bytes).map_err(malformed)?),
        _ => tensor_proto::decode_tensor(bytes),
    }
}

fn invalid(dtype: DType, found: String) -> ImportError {
    ImportError::InvalidTensor {
        tensor: String::new(),
        reason: "it holds what makes no such value",
        expected: dtype.to_string(),
        found,
    }
}

fn read(dtype: DType, values: &Values) -> Result<Tensor, ImportError> {
    let invalid = |found| invalid(dtype, found);
    if !values.sparse.is_empty() {
        return Err(invalid("sparse tensors".to_owned()));
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
    for map in &values.maps {
        elements.push(read_map(map)?);
    }
    Tensor::of_values(dtype, elements).map_err(|error: TensorError| invalid(error.to_string()))
}

/// Keys of integer types stand in one field, text in another; each value is a tensor of one element.
fn read_map(map: &Map) -> Result<Tensor, ImportError> {
    let wrong = |error: TensorError| invalid(DType::Map, error.to_string());
    let keys = match tensor_proto::dtype_from_onnx(map.key_type.unwrap_or_default()) {
        Some(DType::String) => {
            let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone());
            let keys = map.string_keys.iter().map(text).collect::<Result<Vec<String>, _>>();
            let keys = keys.map_err(|_| invalid(DType::Map, "a key that is not UTF-8".to_owned()))?;
            Tensor::from_strings(&[keys.len()], keys).map_err(wrong)?
        }
        Some(dtype) if dtype.is_int() => Tensor::from_elements(&[map.keys.len()], &map.keys).map_err(wrong)?,
        _ => return Err(invalid(DType::Map, format!("keys of type {}", map.key_type.unwrap_or_default()))),
    };
    let values = map.values.iter().flat_map(|values| &values.tensors).map(tensor_proto::read_inline);
    let values: Vec<Tensor> = values.collect::<Result<_, _>>()?;
    let values = joined(&values).ok_or_else(|| invalid(DType::Map, "values that are no single elements".to_owned()))?;
    Tensor::map(&keys, &values).map_err(wrong)
}

/// Tensors of one element each, of one type, as a vector. Of none, floats: nobody says which.
fn joined(parts: &[Tensor]) -> Option<Tensor> {
    let dtype = parts.first().map_or(DType::F32, Tensor::dtype);
    if parts.iter().any(|part| part.dtype() != dtype || part.len_elems() != 1) {
        return None;
    }
    if dtype == DType::String {
        let strings = parts.iter().flat_map(|part| part.strings().unwrap_or_default()).cloned().collect();
        return Tensor::from_strings(&[parts.len()], strings).ok();
    }
    dtype.size_bytes()?;
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).copied().collect();
    Tensor::from_bytes(dtype, vec![parts.len()], AlignedBytes::from_slice(&bytes)).ok()
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
    fn maps() {
        let value = |x: f32| tensor_proto::to_proto("", &Tensor::scalar(x));
        let values = Some(Values { tensors: vec![value(0.5), value(2.0)], ..Values::default() });
        let ints = Map { key_type: Some(7), keys: vec![4, 1], values: values.clone(), ..Map::default() };
        let floats = Tensor::from_elements(&[2], &[0.5f32, 2.0]).unwrap();
        let expected = Tensor::map(&Tensor::from_elements(&[2], &[4i64, 1]).unwrap(), &floats).unwrap();
        assert_eq!(decode_value(DType::Map, Bytes::from(ints.encode_to_vec())).unwrap(), expected);
        let sequence = Values { maps: vec![ints.clone()], ..Values::default() };
        let found = decode_value(DType::Sequence, encoded(&sequence)).unwrap();
        assert_eq!(found, Tensor::sequence(vec![expected]).unwrap());
        let string_keys = vec![b"b".to_vec(), b"a".to_vec()];
        let texts = Map { key_type: Some(8), string_keys, values, ..Map::default() };
        let found = decode_value(DType::Map, Bytes::from(texts.encode_to_vec())).unwrap();
        assert_eq!(found.map_entries().unwrap().0.strings().unwrap(), ["a", "b"]);
        for broken in [Map { keys: vec![4], ..ints.clone() }, Map { key_type: Some(1), ..ints.clone() }] {
            assert!(decode_value(DType::Map, Bytes::from(broken.encode_to_vec())).is_err());
        }
    }

    #[test]
    fn what_is_no_such_value_is_refused() {
        let tensor = tensor_proto::to_proto("x", &Tensor::scalar(1i64));
        let two = Values { tensors: vec![tensor.clone(), tensor], ..Values::default() };
        assert!(decode_value(DType::Optional, encoded(&two)).is_err());
        let sparse = Values { sparse: vec![Unread {}], ..Values::default() };
        assert!(decode_value(DType::Sequence, encoded(&sparse)).is_err());
        let mut deep = Values::default();
        for _ in 0..9 {
            deep = Values { sequences: vec![deep], ..Values::default() };
        }
        assert!(decode_value(DType::Sequence, encoded(&deep)).is_err());
    }
}
