//! Unsigned numbers of a few bits, packed one behind the other into bytes, low bits first, as operators of
//! `com.microsoft` have them.

use crate::build::{Result, index};
use crate::call::Call;
use crate::error::Problem;
use infc_ir::entity::ScalarId;
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::scalar::{BinaryOp, Body};
use infc_tensor::DType;

/// How many bits a number has: 1 to 8.
#[derive(Clone, Copy)]
pub(super) struct PackedBits(i64);

impl PackedBits {
    /// What the attribute `bits` says, 4 if nothing.
    pub(super) fn of(call: &Call<'_>) -> Result<Self> {
        let (attribute, expected) = ("bits", "1 to 8");
        match call.int_or(attribute, 4)? {
            bits @ 1..=8 => Ok(Self(bits)),
            found => Err(Problem::InvalidAttribute { attribute, expected, found: found.to_string() }),
        }
    }

    pub(super) const fn width(self) -> i64 {
        self.0
    }

    /// 2^(bits−1), which stands for zero if nothing else is said.
    pub(super) fn middle(self) -> f64 {
        f64::from(1u32 << (self.0 - 1))
    }

    /// The bytes in which the number at `place` of a row of `row` bytes lies, one or two.
    pub(super) fn bytes(self, place: &IndexExpr, row: i64) -> Vec<IndexExpr> {
        let at = place.scale(self.0 / self.common()).floor_div(&Dim::constant(8 / self.common()));
        if 8 % self.0 == 0 {
            return vec![at];
        }
        // A number may begin in one byte and end in the next.
        let next = (at.clone() + 1).minimum(&Dim::constant(row - 1));
        vec![at, next]
    }

    /// The number at `place` of a row, out of its bytes: in 32 bits, which is what lanes have that become floats.
    pub(super) fn unpack(self, body: &mut Body, bytes: &[ScalarId], place: &IndexExpr) -> ScalarId {
        let mut bits = body.cast(DType::I32, bytes[0]);
        if self.0 == 8 {
            return bits;
        }
        if let Some(&next) = bytes.get(1) {
            let (next, eight) = (body.cast(DType::I32, next), body.constant(DType::I32, 8.0));
            let next = body.binary(BinaryOp::Shl, next, eight);
            bits = body.binary(BinaryOp::Or, bits, next);
        }
        let within = place.scale(self.0 / self.common()).modulo(&Dim::constant(8 / self.common()));
        let within = index(body, within.scale(self.common()));
        let within = body.cast(DType::I32, within);
        let shifted = body.binary(BinaryOp::Shr, bits, within);
        let mask = body.constant(DType::I32, f64::from((1u32 << self.0) - 1));
        body.binary(BinaryOp::And, shifted, mask)
    }

    /// The greatest divisor that the bits of a number and those of a byte have in common: fractions in lowest terms show
    /// which numbers share a byte.
    const fn common(self) -> i64 {
        1 << if self.0.trailing_zeros() < 3 { self.0.trailing_zeros() } else { 3 }
    }
}
