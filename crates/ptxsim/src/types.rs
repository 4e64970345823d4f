//! Types of instructions and registers (PTX ISA 5.2).

use std::fmt;

/// How the bits of a type are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Pred,
    Bits,
    Signed,
    Unsigned,
    Float,
    Bf16,
}

/// A fundamental type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ty {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

const NAMES: [(&str, Kind, u32); 18] = [
    ("pred", Kind::Pred, 1),
    ("b8", Kind::Bits, 8),
    ("b16", Kind::Bits, 16),
    ("b32", Kind::Bits, 32),
    ("b64", Kind::Bits, 64),
    ("s8", Kind::Signed, 8),
    ("s16", Kind::Signed, 16),
    ("s32", Kind::Signed, 32),
    ("s64", Kind::Signed, 64),
    ("u8", Kind::Unsigned, 8),
    ("u16", Kind::Unsigned, 16),
    ("u32", Kind::Unsigned, 32),
    ("u64", Kind::Unsigned, 64),
    ("f16", Kind::Float, 16),
    ("f32", Kind::Float, 32),
    ("f64", Kind::Float, 64),
    ("bf16", Kind::Bf16, 16),
    ("f16x2", Kind::Bits, 32),
];

impl Ty {
    pub(crate) const PRED: Ty = Ty { kind: Kind::Pred, bits: 1 };
    pub(crate) const B32: Ty = Ty { kind: Kind::Bits, bits: 32 };
    pub(crate) const U32: Ty = Ty { kind: Kind::Unsigned, bits: 32 };
    pub(crate) const U64: Ty = Ty { kind: Kind::Unsigned, bits: 64 };

    /// The type of a name without its dot.
    pub(crate) fn named(name: &str) -> Option<Ty> {
        NAMES.iter().find(|(n, ..)| *n == name).map(|&(_, kind, bits)| Ty { kind, bits })
    }

    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bits / 8)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Bf16)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Signed | Kind::Unsigned)
    }

    /// The bits that the type has.
    pub(crate) fn mask(self) -> u64 {
        if self.bits >= 64 { u64::MAX } else { (1 << self.bits) - 1 }
    }

    /// Whether a register declared so is an operand of an instruction of type `of`. Stricter than the ISA: a float is
    /// computed with in registers of its own type only, while moves take whatever is as wide.
    pub(crate) fn holds(self, of: Ty) -> bool {
        match of.kind {
            Kind::Pred => self.kind == Kind::Pred,
            Kind::Bits => self.bits == of.bits && self.kind != Kind::Pred,
            Kind::Signed | Kind::Unsigned => self.bits == of.bits && (self.is_integer() || self.kind == Kind::Bits),
            Kind::Float if of.bits >= 32 => self == of,
            Kind::Float | Kind::Bf16 => self.bits == 16 && matches!(self.kind, Kind::Bits | Kind::Float),
        }
    }

    /// As [`Ty::holds`], for loads, stores and conversions: these take registers that are wider than the type.
    pub(crate) fn holds_narrow(self, of: Ty) -> bool {
        let word = self.is_integer() || self.kind == Kind::Bits;
        self.holds(of) || (word && !of.is_float() && of.kind != Kind::Pred && self.bits >= of.bits)
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|&&(_, kind, bits)| (Ty { kind, bits }) == *self);
        f.write_str(name.map_or("?", |(name, ..)| name))
    }
}
