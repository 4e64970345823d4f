//! Numbers of a few bits in bytes, taken out of many bytes at once.

use super::Lower;
use crate::vir::{BinaryOp as Lanes, Value};
use infc_ir::entity::ScalarId;
use infc_ir::index::IndexExpr;
use infc_ir::scalar::{BinaryOp, Body, Load, ScalarOp};
use infc_tensor::DType;

/// Elements as they are loaded, or bits of bytes.
pub(super) struct Unpacked<'a> {
    pub(super) load: &'a Load,
    pub(super) bits: Option<Bits<'a>>,
}

/// `(byte >> shift) & mask`
pub(super) struct Bits<'a> {
    shift: Shift<'a>,
    pub(super) mask: u8,
}

enum Shift<'a> {
    Number(u8),
    Index(&'a IndexExpr),
}

impl<'a> Unpacked<'a> {
    pub(super) const fn whole(load: &'a Load) -> Self {
        Self { load, bits: None }
    }

    /// The type of the elements.
    pub(super) const fn dtype(&self) -> DType {
        self.load.dtype
    }
}

impl Bits<'_> {
    /// By how much bytes are shifted, if that is one number that leaves no bits of a byte's neighbour within the mask.
    pub(super) fn shift(&self, resolve: impl Fn(&IndexExpr) -> IndexExpr) -> Option<u8> {
        let shift = match self.shift {
            Shift::Number(n) => n,
            Shift::Index(e) => u8::try_from(resolve(e).as_const()?).ok()?,
        };
        (shift < 8 && self.mask <= u8::MAX >> shift).then_some(shift)
    }
}

/// Bits of unsigned bytes behind a conversion to the type of a sum; a mask that keeps nothing is not looked for.
pub(super) fn unpacked(body: &Body, id: ScalarId, sum: DType) -> Option<Unpacked<'_>> {
    let ScalarOp::Cast(to, inner) = body.ops[id] else { return None };
    let ScalarOp::Cast(DType::U8, masked) = body.ops[inner] else { return None };
    let ScalarOp::Binary(BinaryOp::And, value, mask) = body.ops[masked] else { return None };
    let mask = u8::try_from(integer(body, mask)?).ok().filter(|&mask| mask > 0 && to == sum)?;
    let (value, shift) = match body.ops[value] {
        ScalarOp::Binary(BinaryOp::Shr, value, by) => (value, shift(body, by)?),
        _ => (value, Shift::Number(0)),
    };
    let ScalarOp::Cast(DType::I32, byte) = body.ops[value] else { return None };
    match &body.ops[byte] {
        ScalarOp::Load(load) if load.dtype == DType::U8 && load.gather.is_empty() && load.valid.is_empty() => {
            Some(Unpacked { load, bits: Some(Bits { shift, mask }) })
        }
        _ => None,
    }
}

fn shift(body: &Body, id: ScalarId) -> Option<Shift<'_>> {
    match &body.ops[id] {
        ScalarOp::Cast(_, inner) => shift(body, *inner),
        ScalarOp::Index(e) => Some(Shift::Index(e)),
        _ => Some(Shift::Number(u8::try_from(integer(body, id)?).ok()?)),
    }
}

fn integer(body: &Body, id: ScalarId) -> Option<i64> {
    match body.ops[id] {
        ScalarOp::Const(c) if c.dtype.is_int() => Some(c.to_f64() as i64),
        _ => None,
    }
}

impl Lower<'_> {
    /// `(byte >> shift) & mask` of all bytes of a vector of words.
    pub(super) fn take_bits(&mut self, words: Value, shift: u8, mask: u8) -> Value {
        let ty = self.b.ty(words);
        let shifted = match shift {
            0 => words,
            _ => {
                let by = self.b.constant(ty, u64::from(shift));
                self.b.binary(Lanes::ShrU, words, by)
            }
        };
        let mask = self.b.constant(ty, u64::from(u32::from_ne_bytes([mask; 4])));
        self.b.binary(Lanes::And, shifted, mask)
    }
}
