//! How values of `vir` are held in Cranelift's types.
//!
//! A scalar has the scalar type of its width; 16-bit floats are integers. A vector of any number of lanes lies in the
//! low lanes of a 128-bit vector; what is in the lanes above is not defined. A mask of one lane is an `i8` of 0 or 1. A
//! mask of more lanes is a 128-bit vector of as many integers, each 0 or −1, so that all masks of a lane count have one
//! type whatever they were compared from.

use crate::vir::{Elem, Type};
use cranelift_codegen::ir::{self, types};

/// Bytes of a vector register.
pub(super) const REGISTER_BYTES: u32 = 16;

/// The type of a scalar.
pub(super) fn scalar(elem: Elem) -> ir::Type {
    match elem {
        Elem::I8 | Elem::Mask => types::I8,
        Elem::I16 | Elem::F16 | Elem::BF16 => types::I16,
        Elem::I32 => types::I32,
        Elem::I64 => types::I64,
        Elem::F32 => types::F32,
        Elem::F64 => types::F64,
    }
}

/// The vector type that holds lanes of an element type.
pub(super) fn container(elem: Elem) -> ir::Type {
    match elem {
        Elem::F32 => types::F32X4,
        Elem::F64 => types::F64X2,
        _ => ints(elem.size_bytes()),
    }
}

/// The vector of integers of so many bytes each.
pub(super) fn ints(lane_bytes: u32) -> ir::Type {
    match lane_bytes {
        1 => types::I8X16,
        2 => types::I16X8,
        4 => types::I32X4,
        _ => types::I64X2,
    }
}

/// Bytes per lane of a mask.
pub(super) fn mask_lane_bytes(lanes: u16) -> u32 {
    REGISTER_BYTES / u32::from(lanes)
}

/// The type that a value of `vir` is held in.
pub(super) fn of(ty: Type) -> ir::Type {
    match (ty.elem, ty.lanes) {
        (elem, 1) => scalar(elem),
        (Elem::Mask, lanes) => ints(mask_lane_bytes(lanes)),
        (elem, _) => container(elem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_fill_a_register() {
        for lanes in [2, 4, 8, 16] {
            let ty = of(Type::vector(Elem::Mask, lanes));
            assert_eq!((ty.bytes(), ty.lane_count()), (REGISTER_BYTES, u32::from(lanes)));
        }
    }

    #[test]
    fn short_vectors_lie_in_whole_registers() {
        assert_eq!(of(Type::vector(Elem::F32, 2)), types::F32X4);
        assert_eq!(of(Type::vector(Elem::BF16, 4)), types::I16X8);
        assert_eq!(of(Type::scalar(Elem::F16)), types::I16);
    }
}
