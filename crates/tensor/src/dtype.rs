//! Element types, as in ONNX's `TensorProto.DataType`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The type of one tensor element.
///
/// The discriminants are part of the artifact format and must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(u8)]
#[expect(missing_docs, reason = "the variants are the well-known type names")]
pub enum DType {
    F64 = 0,
    F32 = 1,
    F16 = 2,
    BF16 = 3,
    F8E4M3FN = 4,
    F8E4M3FNUZ = 5,
    F8E5M2 = 6,
    F8E5M2FNUZ = 7,
    F8E8M0 = 8,
    F4E2M1 = 9,
    I64 = 10,
    I32 = 11,
    I16 = 12,
    I8 = 13,
    I4 = 14,
    I2 = 15,
    U64 = 16,
    U32 = 17,
    U16 = 18,
    U8 = 19,
    U4 = 20,
    U2 = 21,
    Bool = 22,
    Complex64 = 23,
    Complex128 = 24,
    String = 25,
    /// A value of its own: any number of values of one type, in order. A tensor of such elements has one axis.
    Sequence = 26,
    /// A value of its own, or none: a tensor of such elements has one axis of no or one element.
    Optional = 27,
    /// A value of its own: keys, and a value for each. A tensor of such elements has one axis of two, the keys and the
    /// values; see [`Tensor::map`](crate::Tensor::map).
    Map = 28,
}

/// What kind of number a [`DType`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DTypeClass {
    /// Binary floating point of any width.
    Float,
    /// Two's-complement integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// One byte, 0 or 1.
    Bool,
    /// A pair of floats.
    Complex,
    /// Text of any length.
    String,
    /// Values: elements of a sequence or an optional, or what a map is made of.
    Value,
}

impl DType {
    /// Every type that elements of an ONNX tensor may have, in the order of the discriminants.
    pub const ALL: [DType; 26] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::F8E8M0,
        DType::F4E2M1,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::I4,
        DType::I2,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::U4,
        DType::U2,
        DType::Bool,
        DType::Complex64,
        DType::Complex128,
        DType::String,
    ];

    /// Size of one element in bits; sub-byte types are packed, low bits first. 0 for those that [have no
    /// bytes](Self::has_bytes).
    #[must_use]
    pub const fn size_bits(self) -> usize {
        use DType::*;
        match self {
            I2 | U2 => 2,
            F4E2M1 | I4 | U4 => 4,
            F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 | I8 | U8 | Bool => 8,
            F16 | BF16 | I16 | U16 => 16,
            F32 | I32 | U32 => 32,
            F64 | I64 | U64 | Complex64 => 64,
            Complex128 => 128,
            String | Sequence | Optional | Map => 0,
        }
    }

    /// Size of one element in bytes, if it is a whole number of them.
    #[must_use]
    pub const fn size_bytes(self) -> Option<usize> {
        let bits = self.size_bits();
        if bits == 0 || !bits.is_multiple_of(8) { None } else { Some(bits / 8) }
    }

    /// True if elements are bits: numbers of any width, and truths. Strings and values of sequences are none, no kernel
    /// sees them.
    #[must_use]
    pub const fn has_bytes(self) -> bool {
        self.size_bits() > 0
    }

    /// Bytes that `len_elems` elements take, or `None` on overflow or where elements have no bytes.
    #[must_use]
    pub const fn storage_bytes(self, len_elems: usize) -> Option<usize> {
        if !self.has_bytes() {
            return None;
        }
        match len_elems.checked_mul(self.size_bits()) {
            Some(bits) => Some(bits.div_ceil(8)),
            None => None,
        }
    }

    /// The kind of number this type holds.
    #[must_use]
    pub const fn class(self) -> DTypeClass {
        use DType::*;
        match self {
            F64 | F32 | F16 | BF16 | F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0 | F4E2M1 => DTypeClass::Float,
            I64 | I32 | I16 | I8 | I4 | I2 => DTypeClass::Signed,
            U64 | U32 | U16 | U8 | U4 | U2 => DTypeClass::Unsigned,
            Bool => DTypeClass::Bool,
            Complex64 | Complex128 => DTypeClass::Complex,
            String => DTypeClass::String,
            Sequence | Optional | Map => DTypeClass::Value,
        }
    }

    /// True for floating-point types of any width.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.class(), DTypeClass::Float)
    }

    /// True for signed and unsigned integers (not for bool).
    #[must_use]
    pub const fn is_int(self) -> bool {
        matches!(self.class(), DTypeClass::Signed | DTypeClass::Unsigned)
    }

    /// The name used in IR text and in messages: `f32`, `i64`, `f8e4m3fn`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        use DType::*;
        match self {
            F64 => "f64",
            F32 => "f32",
            F16 => "f16",
            BF16 => "bf16",
            F8E4M3FN => "f8e4m3fn",
            F8E4M3FNUZ => "f8e4m3fnuz",
            F8E5M2 => "f8e5m2",
            F8E5M2FNUZ => "f8e5m2fnuz",
            F8E8M0 => "f8e8m0",
            F4E2M1 => "f4e2m1",
            I64 => "i64",
            I32 => "i32",
            I16 => "i16",
            I8 => "i8",
            I4 => "i4",
            I2 => "i2",
            U64 => "u64",
            U32 => "u32",
            U16 => "u16",
            U8 => "u8",
            U4 => "u4",
            U2 => "u2",
            Bool => "bool",
            Complex64 => "complex64",
            Complex128 => "complex128",
            String => "string",
            Sequence => "sequence",
            Optional => "optional",
            Map => "map",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an element type")]
pub struct ParseDTypeError(String);

impl FromStr for DType {
    type Err = ParseDTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DType::ALL
            .into_iter()
            .chain([DType::Sequence, DType::Optional, DType::Map])
            .find(|d| d.name() == text)
            .ok_or_else(|| ParseDTypeError(text.to_owned()))
    }
}
