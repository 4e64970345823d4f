//! PTX as what elementary functions are expanded into ([`infc_ir::math`]).
//!
//! A value is a register or a number that instructions name themselves. The type of a value is the class of its registers:
//! integers of expansions are as wide as floats, masks are predicates.

use crate::builder::{Builder, Class, Reg, Src, Ty};
use infc_ir::math::{Arithmetic, Float};
use infc_ir::scalar::CompareOp;

/// A register, or a number of a class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    src: Src,
    class: Class,
}

impl From<Reg> for Value {
    fn from(reg: Reg) -> Self {
        Self { src: Src::Reg(reg), class: reg.class }
    }
}

/// How instructions on numbers read a class.
fn numbers(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::B16 => Ty::B16,
        Class::B32 => Ty::S32,
        Class::B64 => Ty::S64,
        Class::F32 => Ty::F32,
        Class::F64 => Ty::F64,
    }
}

/// The registers and the type for instructions on single bits.
fn bits(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::B16 => Ty::B16,
        Class::B32 | Class::F32 => Ty::B32,
        Class::B64 | Class::F64 => Ty::B64,
    }
}

fn is_float(class: Class) -> bool {
    matches!(class, Class::F32 | Class::F64)
}

impl Builder {
    /// The register of a value; a number gets one.
    pub(crate) fn reg_of(&mut self, value: Value) -> Reg {
        match value.src {
            Src::Reg(reg) => reg,
            src => self.op("mov", numbers(value.class), &[src]),
        }
    }

    /// An instruction on numbers; floats have another name for it.
    fn number(&mut self, integers: &str, floats: &str, values: &[Value]) -> Value {
        let class = values[0].class;
        let srcs: Vec<Src> = values.iter().map(|v| v.src).collect();
        self.op(if is_float(class) { floats } else { integers }, numbers(class), &srcs).into()
    }

    /// An instruction on single bits, which floats are moved to other registers for.
    fn bitwise(&mut self, opcode: &str, values: &[Value]) -> Value {
        let class = values[0].class;
        let srcs: Vec<Src> = values.iter().map(|&v| self.as_bits(v).src).collect();
        let result = self.op(opcode, bits(class), &srcs);
        if is_float(class) { self.bits(class, result).into() } else { result.into() }
    }

    fn as_bits(&mut self, value: Value) -> Value {
        let class = bits(value.class).class();
        match value.src {
            _ if !is_float(value.class) => value,
            Src::Reg(reg) => self.bits(class, reg).into(),
            Src::F32(x) => Value { src: Src::Int(i64::from(x.to_bits())), class },
            Src::F64(x) => Value { src: Src::Int(x.to_bits().cast_signed()), class },
            Src::Int(_) => unreachable!("a number of a float class is a float"),
        }
    }

    /// `a < b ? a : b`, or `>`.
    fn extreme(&mut self, f: CompareOp, a: Value, b: Value) -> Value {
        let first = Arithmetic::compare(self, f, a, b);
        Arithmetic::select(self, first, a, b)
    }

    fn shifted(&mut self, opcode: &str, ty: Ty, a: Value, by: Value) -> Value {
        let by = match by.src {
            Src::Reg(reg) if reg.class == Class::B64 => self.cvt("", Ty::U32, Ty::U64, reg).into(),
            src => src,
        };
        self.shift(opcode, ty, a.src, by).into()
    }
}

impl Arithmetic for Builder {
    type Value = Value;
    type Type = Class;

    fn ty(&self, a: Value) -> Class {
        a.class
    }

    fn float(ty: Class) -> Float {
        match ty {
            Class::F32 => Float::F32,
            Class::F64 => Float::F64,
            class => panic!("elementary functions take f32 and f64, not {class:?}"),
        }
    }

    fn constant(&mut self, ty: Class, bits: u64) -> Value {
        let src = match ty {
            Class::F32 => Src::F32(f32::from_bits(bits as u32)),
            Class::F64 => Src::F64(f64::from_bits(bits)),
            Class::B32 => Src::Int(i64::from(bits as u32 as i32)),
            Class::B64 => Src::Int(bits.cast_signed()),
            Class::Pred | Class::B16 => Src::Reg(Builder::constant(self, ty, bits)),
        };
        Value { src, class: ty }
    }

    fn fconst(&mut self, ty: Class, value: f64) -> Value {
        let src = if ty == Class::F32 { Src::F32(value as f32) } else { Src::F64(value) };
        Value { src, class: ty }
    }

    fn constant_of(&self, a: Value) -> Option<f64> {
        match (a.src, a.class) {
            (Src::F32(x), _) => Some(f64::from(x)),
            (Src::F64(x), _) => Some(x),
            (Src::Reg(reg), Class::F32) => self.known(reg).map(|bits| f64::from(f32::from_bits(bits as u32))),
            (Src::Reg(reg), Class::F64) => self.known(reg).map(f64::from_bits),
            _ => None,
        }
    }

    fn add(&mut self, a: Value, b: Value) -> Value {
        self.number("add", "add.rn", &[a, b])
    }

    fn sub(&mut self, a: Value, b: Value) -> Value {
        self.number("sub", "sub.rn", &[a, b])
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.number("mul.lo", "mul.rn", &[a, b])
    }

    fn div(&mut self, a: Value, b: Value) -> Value {
        self.number("div", "div.rn", &[a, b])
    }

    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.number("mad.lo", "fma.rn", &[a, b, c])
    }

    fn min(&mut self, a: Value, b: Value) -> Value {
        self.extreme(CompareOp::Lt, a, b)
    }

    fn max(&mut self, a: Value, b: Value) -> Value {
        self.extreme(CompareOp::Gt, a, b)
    }

    fn neg(&mut self, a: Value) -> Value {
        self.number("neg", "neg", &[a])
    }

    fn abs(&mut self, a: Value) -> Value {
        self.number("abs", "abs", &[a])
    }

    fn sqrt(&mut self, a: Value) -> Value {
        self.number("sqrt", "sqrt.rn", &[a])
    }

    fn trunc(&mut self, a: Value) -> Value {
        let (ty, a) = (numbers(a.class), self.reg_of(a));
        self.cvt(".rzi", ty, ty, a).into()
    }

    fn round_even(&mut self, a: Value) -> Value {
        let (ty, a) = (numbers(a.class), self.reg_of(a));
        self.cvt(".rni", ty, ty, a).into()
    }

    fn and(&mut self, a: Value, b: Value) -> Value {
        self.bitwise("and", &[a, b])
    }

    fn or(&mut self, a: Value, b: Value) -> Value {
        self.bitwise("or", &[a, b])
    }

    fn xor(&mut self, a: Value, b: Value) -> Value {
        self.bitwise("xor", &[a, b])
    }

    fn not(&mut self, a: Value) -> Value {
        self.bitwise("not", &[a])
    }

    fn shl(&mut self, a: Value, by: Value) -> Value {
        self.shifted("shl", bits(a.class), a, by)
    }

    fn shr_s(&mut self, a: Value, by: Value) -> Value {
        self.shifted("shr", numbers(a.class), a, by)
    }

    fn shr_u(&mut self, a: Value, by: Value) -> Value {
        self.shifted("shr", if a.class == Class::B32 { Ty::U32 } else { Ty::U64 }, a, by)
    }

    fn compare(&mut self, f: CompareOp, a: Value, b: Value) -> Value {
        let name = match f {
            CompareOp::Eq => "eq",
            // Not equal holds for NaN.
            CompareOp::Ne if is_float(a.class) => "neu",
            CompareOp::Ne => "ne",
            CompareOp::Lt => "lt",
            CompareOp::Le => "le",
            CompareOp::Gt => "gt",
            CompareOp::Ge => "ge",
        };
        self.setp(name, numbers(a.class), a.src, b.src).into()
    }

    fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        let mask = self.reg_of(mask);
        self.selp(numbers(a.class), a.src, b.src, mask).into()
    }

    fn bits_of(&mut self, a: Value) -> Value {
        self.as_bits(a)
    }

    fn float_of(&mut self, a: Value) -> Value {
        let class = if a.class == Class::B32 { Class::F32 } else { Class::F64 };
        let a = self.reg_of(a);
        self.bits(class, a).into()
    }

    fn double_of(&mut self, a: Value) -> Value {
        let a = self.reg_of(a);
        self.cvt("", Ty::F64, Ty::F32, a).into()
    }

    fn single_of(&mut self, a: Value) -> Value {
        let (ty, a) = (numbers(a.class), self.reg_of(a));
        self.cvt(".rn", Ty::F32, ty, a).into()
    }

    fn fuses(&self) -> bool {
        true
    }

    fn whole_of(&mut self, a: Value) -> Value {
        let a = self.reg_of(a);
        self.cvt(".rzi", Ty::S32, Ty::F64, a).into()
    }

    fn if_any(&mut self, mask: Value, otherwise: [Value; 2], then: impl FnOnce(&mut Self) -> [Value; 2]) -> [Value; 2] {
        let mask = self.reg_of(mask);
        let results = otherwise.map(|value| {
            let reg = self.reg(value.class);
            self.mov_into(reg, value.src);
            reg
        });
        let behind = self.new_label();
        self.branch(behind, Some((mask, false)));
        for (reg, value) in results.into_iter().zip(then(self)) {
            self.mov_into(reg, value.src);
        }
        self.place(behind);
        results.map(Value::from)
    }
}
