//! Instruction codes by operation, encoding and vector width.
//!
//! One [`Packed`] is one operation in up to five forms: VEX with 128 and 256 bits (AVX2), EVEX with 128, 256 and 512
//! bits (AVX-512). Forms that do not exist are [`Code::INVALID`]; selection never asks for them. The names follow the
//! instructions, without their `V`, with the lane type spelled as in `vir`.

macro_rules! packed {
    ($($name:ident = $($code:ident),+;)+) => {
        $(pub(in crate::wide) const $name: Packed = Packed([$(Code::$code),+]);)+
    };
}

macro_rules! single {
    ($($name:ident = $($code:ident),+;)+) => {
        $(pub(in crate::wide) const $name: Single = Single([$(Code::$code),+]);)+
    };
}

mod arithmetic;
mod lanes;
mod low;

pub(super) use arithmetic::*;
pub(super) use lanes::*;
pub(super) use low::*;

use super::inst::{Encoding, Width};
use iced_x86::Code;

/// An operation on whole vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed([Code; 5]);

/// An operation on the low lane, or one that has a single width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single([Code; 2]);

impl Packed {
    /// The form for an encoding and a width.
    pub(super) const fn code(self, encoding: Encoding, width: Width) -> Code {
        match (encoding, width) {
            (Encoding::Vex, Width::X) => self.0[0],
            (Encoding::Vex, Width::Y) => self.0[1],
            (Encoding::Vex, Width::Z) => Code::INVALID,
            (Encoding::Evex, Width::X) => self.0[2],
            (Encoding::Evex, Width::Y) => self.0[3],
            (Encoding::Evex, Width::Z) => self.0[4],
        }
    }
}

impl Single {
    /// The form for an encoding.
    pub(super) const fn code(self, encoding: Encoding) -> Code {
        match encoding {
            Encoding::Vex => self.0[0],
            Encoding::Evex => self.0[1],
        }
    }
}
