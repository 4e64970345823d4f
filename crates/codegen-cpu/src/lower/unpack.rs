//! Numbers of a few bits in bytes, taken out of many bytes at once.

use super::Lower;
use crate::vir::{BinaryOp, Value};

impl Lower<'_> {
    /// `(byte >> shift) & mask` of all bytes of a vector of words.
    pub(super) fn take_bits(&mut self, words: Value, shift: u8, mask: u8) -> Value {
        let ty = self.b.ty(words);
        let shifted = match shift {
            0 => words,
            _ => {
                let by = self.b.constant(ty, u64::from(shift));
                self.b.binary(BinaryOp::ShrU, words, by)
            }
        };
        let mask = self.b.constant(ty, u64::from(u32::from_ne_bytes([mask; 4])));
        self.b.binary(BinaryOp::And, shifted, mask)
    }
}
