//! Rust types that are the in-memory form of a [`DType`].

use crate::DType;
use half::{bf16, f16};

/// A plain Rust type whose bytes are the elements of a tensor of type [`Element::DTYPE`].
pub trait Element: bytemuck::Pod + PartialEq + std::fmt::Debug + Send + Sync {
    /// The element type this Rust type stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $rust { const DTYPE: DType = DType::$dtype; })*
    };
}

elements! {
    f64 => F64, f32 => F32, f16 => F16, bf16 => BF16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8,
    u64 => U64, u32 => U32, u16 => U16, u8 => U8,
}
