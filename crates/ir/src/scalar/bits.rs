//! Numbers of a few bits that are taken out of bytes.

use super::{BinaryOp, Body, Load, ScalarOp};
use crate::entity::ScalarId;
use crate::index::IndexExpr;
use infc_tensor::DType;

/// `u8((i32(byte) >> shift) & mask)` of an unsigned byte that is loaded, whatever the conditions.
///
/// Of many bytes it is two operations on words as long as no bits of a byte's neighbour remain
/// ([`BitsOfByte::constant_shift`]).
#[derive(Clone, Copy, Debug)]
pub struct BitsOfByte<'b> {
    /// The byte.
    pub load: &'b Load,
    /// By how many bits it is shifted.
    pub shift: BitShift<'b>,
    /// Which bits remain.
    pub mask: u8,
}

/// By how many bits a byte is shifted.
#[derive(Clone, Copy, Debug)]
pub enum BitShift<'b> {
    /// Always so many.
    Number(u8),
    /// As many as the value of an expression over the coordinates.
    Index(&'b IndexExpr),
}

impl BitsOfByte<'_> {
    /// By how much the byte is shifted, if that is one number, given what index expressions are, and the mask keeps nothing that
    /// is not the byte's.
    pub fn constant_shift(&self, resolve: impl Fn(&IndexExpr) -> IndexExpr) -> Option<u8> {
        let shift = match self.shift {
            BitShift::Number(n) => n,
            BitShift::Index(e) => u8::try_from(resolve(e).as_const()?).ok()?,
        };
        (shift < 8 && self.mask <= u8::MAX >> shift).then_some(shift)
    }
}

impl Body {
    /// An operation as bits of a byte, if that is what it computes.
    #[must_use]
    pub fn bits_of_byte(&self, id: ScalarId) -> Option<BitsOfByte<'_>> {
        let ScalarOp::Cast(DType::U8, masked) = self.ops[id] else { return None };
        let ScalarOp::Binary(BinaryOp::And, value, mask) = self.ops[masked] else { return None };
        let mask = self.small_number(mask)?;
        let (value, shift) = match self.ops[value] {
            ScalarOp::Binary(BinaryOp::Shr, value, by) => (value, self.bit_shift(by)?),
            _ => (value, BitShift::Number(0)),
        };
        let ScalarOp::Cast(DType::I32, byte) = self.ops[value] else { return None };
        match &self.ops[byte] {
            ScalarOp::Load(load) if load.dtype == DType::U8 && load.gather.is_empty() && load.valid.is_empty() => {
                Some(BitsOfByte { load, shift, mask })
            }
            _ => None,
        }
    }

    fn bit_shift(&self, id: ScalarId) -> Option<BitShift<'_>> {
        match &self.ops[id] {
            ScalarOp::Cast(DType::I32 | DType::I64, inner) => self.bit_shift(*inner),
            ScalarOp::Index(e) => Some(BitShift::Index(e)),
            _ => Some(BitShift::Number(self.small_number(id)?)),
        }
    }

    fn small_number(&self, id: ScalarId) -> Option<u8> {
        match self.ops[id] {
            ScalarOp::Const(c) if c.dtype.is_int() => u8::try_from(c.to_f64() as i64).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    #[track_caller]
    fn bits(value: &str) -> Option<(u8, Option<u8>)> {
        let text =
            format!("kernel @k(w: u8[64]) -> (y: u8[64]) {{\n  stage s[i: 64] = {value}\n  output y[i] = s[i]\n}}\n");
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let stage = kernel.stages.iter().next().expect("one stage");
        let bits = stage.body.bits_of_byte(stage.results[0])?;
        Some((bits.mask, bits.constant_shift(IndexExpr::clone)))
    }

    #[test]
    fn shifts_and_masks_are_found() {
        assert_eq!(bits("u8(i32(w[i]) >> 4 & 15)"), Some((15, Some(4))));
        assert_eq!(bits("u8(i32(w[i]) & 3)"), Some((3, Some(0))));
        assert_eq!(bits("u8(i32(w[i]) >> i32(index(4*mod(i, 2))) & 15)"), Some((15, None)), "no number");
        assert_eq!(bits("u8(i32(w[i]) >> 5 & 15)"), Some((15, None)), "a bit would be the neighbour's");
        assert_eq!(bits("u8(i32(w[i]) >> i32(bool(w[i])) & 15)"), None, "what is loaded is no number");
        assert_eq!(bits("u8((i32(w[i]) >> 4 & 15) + 1)"), None);
        assert_eq!(bits("w[i]"), None);
    }
}
