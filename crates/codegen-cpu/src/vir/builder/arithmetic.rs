//! `vir` as what elementary functions are expanded into.

use super::Builder;
use crate::vir::{BinaryOp, Cond, Convert, Elem, Type, UnaryOp, Value, eval};
use infc_ir::math::{Arithmetic, Float, Table};
use infc_ir::scalar::CompareOp;

/// The integer type as wide as a float type.
fn bits_elem(float: Float) -> Elem {
    match float {
        Float::F32 => Elem::I32,
        Float::F64 => Elem::I64,
    }
}

/// Methods that the builder has under the same names.
macro_rules! same {
    ($($name:ident($($operand:ident),+)),+) => {
        $(
            fn $name(&mut self, $($operand: Value),+) -> Value {
                Builder::$name(self, $($operand),+)
            }
        )+
    };
}

impl Arithmetic for Builder {
    type Value = Value;
    type Type = Type;

    fn ty(&self, a: Value) -> Type {
        Builder::ty(self, a)
    }

    fn float(ty: Type) -> Float {
        match ty.elem {
            Elem::F32 => Float::F32,
            Elem::F64 => Float::F64,
            elem => panic!("elementary functions take f32 and f64, not {elem:?}"),
        }
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        Builder::constant(self, ty, bits)
    }

    fn fconst(&mut self, ty: Type, value: f64) -> Value {
        Builder::fconst(self, ty, value)
    }

    fn constant_of(&self, a: Value) -> Option<f64> {
        self.const_bits(a).map(|bits| eval::to_f64(self.ty(a).elem, bits))
    }

    same!(add(a, b), sub(a, b), mul(a, b), div(a, b), fma(a, b, c), min(a, b), max(a, b));
    same!(neg(a), abs(a), sqrt(a), trunc(a), round_even(a));
    same!(and(a, b), or(a, b), xor(a, b), not(a), shl(a, by), shr_s(a, by), shr_u(a, by), select(mask, a, b));

    fn has_tables(&self) -> bool {
        self.scales
    }

    fn look_up(&mut self, table: Table, a: Value) -> Value {
        self.unary(UnaryOp::Table(table), a)
    }

    fn scale(&mut self, a: Value, n: Value, more: i32) -> Option<Value> {
        if !self.scales {
            return None;
        }
        let n = match more {
            0 => n,
            _ => {
                let more = Builder::fconst(self, Builder::ty(self, n), f64::from(more));
                Builder::add(self, n, more)
            }
        };
        Some(self.binary(BinaryOp::Scale, a, n))
    }

    fn compare(&mut self, f: CompareOp, a: Value, b: Value) -> Value {
        let cond = match f {
            CompareOp::Eq => Cond::Eq,
            CompareOp::Ne => Cond::Ne,
            CompareOp::Lt => Cond::Lt,
            CompareOp::Le => Cond::Le,
            CompareOp::Gt => Cond::Gt,
            CompareOp::Ge => Cond::Ge,
        };
        Builder::compare(self, cond, a, b)
    }

    fn bits_of(&mut self, a: Value) -> Value {
        let elem = bits_elem(self.float_type(a));
        self.convert(Convert::Bitcast, a, elem)
    }

    fn float_of(&mut self, a: Value) -> Value {
        let elem = if self.ty(a).elem == Elem::I32 { Elem::F32 } else { Elem::F64 };
        self.convert(Convert::Bitcast, a, elem)
    }

    fn fuses(&self) -> bool {
        self.fuses
    }

    fn double_of(&mut self, a: Value) -> Value {
        self.convert(Convert::Float, a, Elem::F64)
    }

    fn single_of(&mut self, a: Value) -> Value {
        let kind = if self.ty(a).elem.is_float() { Convert::Float } else { Convert::IntToFloat };
        self.convert(kind, a, Elem::F32)
    }

    fn whole_of(&mut self, a: Value) -> Value {
        self.convert(Convert::FloatToInt, a, Elem::I32)
    }

    fn if_any(&mut self, mask: Value, otherwise: [Value; 2], then: impl FnOnce(&mut Self) -> [Value; 2]) -> [Value; 2] {
        let lanes = self.mask_bits(mask);
        let none = self.iconst(0);
        let any = Builder::compare(self, Cond::Ne, lanes, none);
        self.if_open_rarely(any);
        let results = then(self);
        self.if_else(&results);
        let results = self.if_close(&otherwise);
        [results[0], results[1]]
    }
}
