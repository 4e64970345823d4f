//! Tensors in serialised data: type, extents, bytes or strings.

use crate::{AlignedBytes, DType, Tensor};
use serde::de::{Error as _, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

#[derive(Serialize)]
struct Written<'a> {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Bytes<'a>,
    strings: &'a [String],
}

#[derive(Deserialize)]
struct Read {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Buffer,
    strings: Vec<String>,
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

struct Buffer(AlignedBytes);

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AnyBytes;
        impl Visitor<'_> for AnyBytes {
            type Value = Buffer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Buffer, E> {
                Ok(Buffer(AlignedBytes::from_slice(bytes)))
            }
        }
        from.deserialize_bytes(AnyBytes)
    }
}

impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.values().is_ok() {
            return Err(S::Error::custom("values are no constants"));
        }
        let shape = self.shape().iter().map(|&extent| extent as u64).collect();
        let strings = self.strings().unwrap_or_default();
        Written { dtype: self.dtype(), shape, bytes: Bytes(self.bytes()), strings }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Read { dtype, shape, bytes, strings } = Read::deserialize(from)?;
        let shape: Result<Vec<usize>, _> = shape.into_iter().map(usize::try_from).collect();
        let shape = shape.map_err(D::Error::custom)?;
        let tensor = match dtype {
            DType::String => Tensor::from_strings(&shape, strings),
            DType::Sequence | DType::Optional | DType::Map => return Err(D::Error::custom("values are no constants")),
            _ => Tensor::from_bytes(dtype, shape, bytes.0),
        };
        tensor.map_err(D::Error::custom)
    }
}
