//! Scalar expressions in registers.
//!
//! bool lives in predicates, integers up to 32 bits extended in 32-bit registers, f16 and bf16 in 16-bit registers:
//! their operations are done in f32 and rounded, as the interpreter does.

use crate::PtxError;
use crate::builder::{Class, Reg, Src, Ty};
use crate::emitter::Emitter;
use crate::memory::{Element, memory_type, value_class};
use infc_ir::entity::{EntityId, ScalarId};
use infc_ir::index::Proof;
use infc_ir::math::{self, Arithmetic};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, Load, ScalarOp, Source, UnaryOp};
use infc_tensor::{DType, DTypeClass};

/// What is known already: registers per operation (parameters, vector loads).
pub(crate) type Known<'k> = &'k dyn Fn(ScalarId, &ScalarOp) -> Option<Reg>;

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

fn unsupported(operation: impl std::fmt::Debug, dtype: DType) -> PtxError {
    PtxError::Operation { operation: format!("{operation:?}"), dtype }
}

/// The type that arithmetic on 32- and 64-bit registers has.
fn arithmetic(dtype: DType) -> Result<Ty, PtxError> {
    let signed = dtype.class() == DTypeClass::Signed;
    Ok(match value_class(dtype)? {
        Class::B32 if signed => Ty::S32,
        Class::B32 => Ty::U32,
        Class::B64 if signed => Ty::S64,
        Class::B64 => Ty::U64,
        Class::F32 => Ty::F32,
        Class::F64 => Ty::F64,
        Class::Pred | Class::B16 => return Err(PtxError::Type { dtype }),
    })
}

impl Emitter<'_> {
    /// Computes the roots. Loads happen only under the guard.
    pub(crate) fn expressions(
        &mut self,
        body: &Body,
        roots: &[ScalarId],
        guard: Option<Reg>,
        known: Known<'_>,
    ) -> Result<Vec<Reg>, PtxError> {
        let mut needed = vec![false; body.ops.len()];
        roots.iter().for_each(|r| needed[r.index()] = true);
        for (id, op) in body.ops.iter_enumerated().rev() {
            if needed[id.index()] && known(id, op).is_none() {
                op.for_each_operand(&mut |o| needed[o.index()] = true);
            }
        }
        let mut regs: Vec<Option<Reg>> = vec![None; body.ops.len()];
        for (id, op) in body.ops.iter_enumerated() {
            if needed[id.index()] {
                let reg = match known(id, op) {
                    Some(reg) => reg,
                    None => self.operation(body, op, &regs, guard)?,
                };
                regs[id.index()] = Some(reg);
            }
        }
        Ok(roots.iter().map(|r| regs[r.index()].expect("roots are needed")).collect())
    }

    fn operation(
        &mut self,
        body: &Body,
        op: &ScalarOp,
        regs: &[Option<Reg>],
        guard: Option<Reg>,
    ) -> Result<Reg, PtxError> {
        let reg = |id: &ScalarId| regs[id.index()].expect("operands come first");
        match op {
            ScalarOp::Const(c) => self.scalar_constant(*c),
            ScalarOp::Param(n, _) => Err(PtxError::Undefined { what: format!("parameter {n}") }),
            ScalarOp::Index(e) => {
                let e = self.resolve(e);
                self.index_as(&e, Ty::S64)
            }
            ScalarOp::InBounds(bounds) => match self.all(bounds, None)? {
                Some(p) => Ok(p),
                None => Ok(self.constant(Class::Pred, 1)),
            },
            ScalarOp::Load(load) => {
                let gather: Vec<Reg> = load.gather.iter().map(|(_, v, _)| reg(v)).collect();
                let dtypes: Vec<DType> = load.gather.iter().map(|(_, v, _)| body.dtype(*v)).collect();
                self.load(load, &gather, &dtypes, guard)
            }
            ScalarOp::Unary(f, a) => self.unary(*f, body.dtype(*a), reg(a)),
            ScalarOp::Binary(f, a, b) => self.binary(*f, body.dtype(*a), reg(a), reg(b)),
            ScalarOp::Compare(f, a, b) => self.compare(*f, body.dtype(*a), reg(a), reg(b)),
            ScalarOp::Select(c, a, b) => self.select(body.dtype(*a), reg(c), reg(a), reg(b)),
            ScalarOp::Cast(to, a) => self.cast(body.dtype(*a), *to, false, reg(a)),
            ScalarOp::CastSaturating(to, a) => self.cast(body.dtype(*a), *to, true, reg(a)),
            ScalarOp::BitCast(to, a) => self.bit_cast(*to, reg(a)),
        }
    }

    pub(crate) fn scalar_constant(&mut self, c: Const) -> Result<Reg, PtxError> {
        let class = value_class(c.dtype)?;
        // Narrow integers are held extended.
        let bits = match (c.dtype.class(), c.dtype.size_bits()) {
            (DTypeClass::Signed, 8) => c.bits as i8 as i64 as u64,
            (DTypeClass::Signed, 16) => c.bits as i16 as i64 as u64,
            _ => c.bits,
        };
        Ok(self.constant(class, bits))
    }

    pub(crate) fn load(
        &mut self,
        load: &Load,
        gather: &[Reg],
        gather_types: &[DType],
        guard: Option<Reg>,
    ) -> Result<Reg, PtxError> {
        let (Source::Buffer(buffer), [index]) = (load.source, &load.index[..]) else {
            return Err(PtxError::Undefined { what: "a load from outside of the nest".to_owned() });
        };
        let never = load.valid.iter().any(|b| b.map(|e| self.resolve(e)).proof(&self.ranges) == Proof::No);
        if never {
            // The place need not be one.
            return self.scalar_constant(load.otherwise);
        }
        let guard = self.all(&load.valid, guard)?;
        let element = self.element(buffer, index)?;
        let dst = match element {
            Element::Register(reg) => {
                let copy = self.b.reg(reg.class);
                self.b.mov_into(copy, reg.into());
                copy
            }
            Element::Memory(mut address) => {
                for ((_, _, factor), (&value, &dtype)) in load.gather.iter().zip(gather.iter().zip(gather_types)) {
                    let factor = self.resolve(factor);
                    let factor = self.index_as(&factor, Ty::S64)?;
                    let value = self.cast(dtype, DType::I64, false, value)?;
                    let size = load.dtype.size_bytes().unwrap_or(1) as i64;
                    let distance = self.b.op("mul.lo", Ty::S64, &[value.into(), factor.into()]);
                    address.base =
                        self.b.op("mad.lo", Ty::S64, &[distance.into(), Src::Int(size), address.base.into()]);
                }
                return self.load_element(address, load.dtype, load.otherwise, guard);
            }
        };
        match guard.filter(|_| !load.valid.is_empty()) {
            Some(p) => {
                let otherwise = self.scalar_constant(load.otherwise)?;
                self.select(load.dtype, p, dst, otherwise)
            }
            None => Ok(dst),
        }
    }

    fn load_element(
        &mut self,
        address: crate::builder::Address,
        dtype: DType,
        otherwise: Const,
        guard: Option<Reg>,
    ) -> Result<Reg, PtxError> {
        let ty = memory_type(dtype)?;
        let dst = self.b.reg(ty.class());
        if guard.is_some() {
            let value = self
                .scalar_constant(Const { dtype: if dtype == DType::Bool { DType::U8 } else { dtype }, ..otherwise })?;
            self.b.mov_into(dst, value.into());
        }
        self.b.load(&[dst], ty, address, guard);
        Ok(if dtype == DType::Bool { self.b.setp("ne", Ty::S32, dst.into(), Src::Int(0)) } else { dst })
    }

    /// Reads an element that exists.
    pub(crate) fn read(&mut self, element: Element, dtype: DType, guard: Option<Reg>) -> Result<Reg, PtxError> {
        match element {
            Element::Register(reg) => Ok(reg),
            Element::Memory(address) => self.load_element(address, dtype, Const::zero(dtype), guard),
        }
    }

    /// Writes an element.
    pub(crate) fn write(
        &mut self,
        element: Element,
        dtype: DType,
        value: Reg,
        guard: Option<Reg>,
    ) -> Result<(), PtxError> {
        match (element, guard) {
            (Element::Register(reg), None) => self.b.mov_into(reg, value.into()),
            (Element::Register(reg), Some(p)) => {
                let chosen = self.select(dtype, p, value, reg)?;
                self.b.mov_into(reg, chosen.into());
            }
            (Element::Memory(address), guard) => {
                let value =
                    if dtype == DType::Bool { self.b.selp(Ty::U32, Src::Int(1), Src::Int(0), value) } else { value };
                self.b.store(&[value], memory_type(dtype)?, address, guard);
            }
        }
        Ok(())
    }

    fn widen(&mut self, dtype: DType, a: Reg) -> Reg {
        if dtype == DType::BF16 { self.b.widen_bf16(a) } else { self.b.cvt("", Ty::F32, Ty::F16, a) }
    }

    fn narrow(&mut self, dtype: DType, a: Reg) -> Reg {
        match dtype {
            DType::BF16 if self.target.is_ampere() => self.b.narrow_bf16(a),
            DType::BF16 => self.b.narrow_bf16_by_bits(a),
            _ => self.b.cvt(".rn", Ty::F16, Ty::F32, a),
        }
    }

    fn unary(&mut self, f: UnaryOp, dtype: DType, a: Reg) -> Result<Reg, PtxError> {
        if is_half(dtype) {
            let wide = self.widen(dtype, a);
            let result = self.unary(f, DType::F32, wide)?;
            return Ok(if result.class == Class::Pred { result } else { self.narrow(dtype, result) });
        }
        if dtype == DType::Bool {
            return match f {
                UnaryOp::Not => Ok(self.b.op("not", Ty::Pred, &[a.into()])),
                _ => Err(unsupported(f, dtype)),
            };
        }
        let ty = arithmetic(dtype)?;
        let float = dtype.is_float();
        let rounding = if dtype == DType::F64 || dtype == DType::F32 { ".rn" } else { "" };
        Ok(match f {
            UnaryOp::Neg | UnaryOp::Abs if dtype.class() == DTypeClass::Unsigned => {
                if f == UnaryOp::Abs {
                    return Ok(a);
                }
                let r = self.b.op("sub", ty, &[Src::Int(0), a.into()]);
                self.wrap(dtype, r)
            }
            UnaryOp::Neg => {
                let r = self.b.op("neg", ty, &[a.into()]);
                self.wrap(dtype, r)
            }
            UnaryOp::Abs => {
                let r = self.b.op("abs", ty, &[a.into()]);
                self.wrap(dtype, r)
            }
            UnaryOp::Sign => self.sign(dtype, ty, a)?,
            UnaryOp::Not if !float => {
                let bits = if ty.class() == Class::B32 { Ty::B32 } else { Ty::B64 };
                let r = self.b.op("not", bits, &[a.into()]);
                self.wrap(dtype, r)
            }
            UnaryOp::Sqrt if float => self.b.op(&format!("sqrt{rounding}"), ty, &[a.into()]),
            UnaryOp::Reciprocal if float => self.b.op(&format!("rcp{rounding}"), ty, &[a.into()]),
            UnaryOp::Floor if float => self.b.cvt(".rmi", ty, ty, a),
            UnaryOp::Ceil if float => self.b.cvt(".rpi", ty, ty, a),
            UnaryOp::Trunc if float => self.b.cvt(".rzi", ty, ty, a),
            UnaryOp::Round if float => self.b.cvt(".rni", ty, ty, a),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => a,
            UnaryOp::Tf32 => {
                let word = if self.target.is_ampere() { self.b.narrow_tf32(a) } else { self.b.narrow_tf32_by_bits(a) };
                self.b.bits(Class::F32, word)
            }
            UnaryOp::IsNan if float => self.b.setp("nan", ty, a.into(), a.into()),
            UnaryOp::IsInf if float => {
                let infinity = self.b.fconst(ty.class(), f64::INFINITY);
                let magnitude = Arithmetic::abs(&mut self.b, a.into());
                let is_infinite = Arithmetic::compare(&mut self.b, CompareOp::Eq, magnitude, infinity);
                self.b.reg_of(is_infinite)
            }
            UnaryOp::IsNan | UnaryOp::IsInf => self.constant(Class::Pred, 0),
            UnaryOp::Not => self.compare_with_zero(dtype, a)?,
            _ if float => {
                let value = math::unary(&mut self.b, f, a.into()).ok_or_else(|| unsupported(f, dtype))?;
                self.b.reg_of(value)
            }
            _ => return Err(unsupported(f, dtype)),
        })
    }

    /// −1, 0 or 1; zeros and NaN stay what they are.
    fn sign(&mut self, dtype: DType, ty: Ty, a: Reg) -> Result<Reg, PtxError> {
        let mut number = |value| self.scalar_constant(Const::from_i64(dtype, value));
        let (zero, one) = (number(0)?, number(1)?);
        let above = self.b.setp("gt", ty, a.into(), zero.into());
        let r = self.b.selp(ty, one.into(), a.into(), above);
        if dtype.class() == DTypeClass::Unsigned {
            return Ok(r);
        }
        let minus = self.scalar_constant(Const::from_i64(dtype, -1))?;
        let below = self.b.setp("lt", ty, a.into(), zero.into());
        Ok(self.b.selp(ty, minus.into(), r.into(), below))
    }

    /// Brings a narrow integer back into its range.
    fn wrap(&mut self, dtype: DType, a: Reg) -> Reg {
        let ty = match dtype {
            DType::I8 => Ty::S8,
            DType::U8 => Ty::U8,
            DType::I16 => Ty::S16,
            DType::U16 => Ty::U16,
            _ => return a,
        };
        let word = if dtype.class() == DTypeClass::Signed { Ty::S32 } else { Ty::U32 };
        self.b.cvt("", word, ty, a)
    }

    pub(crate) fn binary(&mut self, f: BinaryOp, dtype: DType, a: Reg, b: Reg) -> Result<Reg, PtxError> {
        if is_half(dtype) {
            let (x, y) = (self.widen(dtype, a), self.widen(dtype, b));
            let result = self.binary(f, DType::F32, x, y)?;
            return Ok(self.narrow(dtype, result));
        }
        let srcs = [Src::Reg(a), Src::Reg(b)];
        if dtype == DType::Bool {
            let opcode = match f {
                BinaryOp::And | BinaryOp::Min | BinaryOp::Mul => "and",
                BinaryOp::Or | BinaryOp::Max | BinaryOp::Add => "or",
                BinaryOp::Xor | BinaryOp::Sub => "xor",
                _ => return Err(unsupported(f, dtype)),
            };
            return Ok(self.b.op(opcode, Ty::Pred, &srcs));
        }
        let ty = arithmetic(dtype)?;
        if dtype.is_float() {
            return Ok(match f {
                BinaryOp::Add => self.b.op("add.rn", ty, &srcs),
                BinaryOp::Sub => self.b.op("sub.rn", ty, &srcs),
                BinaryOp::Mul => self.b.op("mul.rn", ty, &srcs),
                BinaryOp::Div => self.b.op("div.rn", ty, &srcs),
                BinaryOp::Max if dtype == DType::F32 && self.target.is_ampere() => self.b.op("max.NaN", ty, &srcs),
                BinaryOp::Min if dtype == DType::F32 && self.target.is_ampere() => self.b.op("min.NaN", ty, &srcs),
                BinaryOp::Max | BinaryOp::Min => self.propagating(f, a, b),
                BinaryOp::Pow => {
                    let power = math::pow(&mut self.b, a.into(), b.into());
                    self.b.reg_of(power)
                }
                BinaryOp::Rem | BinaryOp::Mod => {
                    let rest = math::remainder(&mut self.b, f, a.into(), b.into());
                    self.b.reg_of(rest)
                }
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => {
                    return Err(unsupported(f, dtype));
                }
            });
        }
        let bits = if ty.class() == Class::B32 { Ty::B32 } else { Ty::B64 };
        let result = match f {
            BinaryOp::Add => self.b.op("add", ty, &srcs),
            BinaryOp::Sub => self.b.op("sub", ty, &srcs),
            BinaryOp::Mul => self.b.op("mul.lo", ty, &srcs),
            BinaryOp::Min => self.b.op("min", ty, &srcs),
            BinaryOp::Max => self.b.op("max", ty, &srcs),
            BinaryOp::And => self.b.op("and", bits, &srcs),
            BinaryOp::Or => self.b.op("or", bits, &srcs),
            BinaryOp::Xor => self.b.op("xor", bits, &srcs),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::Mod => self.integer_division(f, dtype, ty, a, b),
            BinaryOp::Shl | BinaryOp::Shr => self.integer_shift(f, dtype, ty, a, b),
            BinaryOp::Pow => {
                let (bits, is_signed) = (dtype.size_bits() as u32, dtype.class() == DTypeClass::Signed);
                let power = math::integer_power(&mut self.b, bits, is_signed, a.into(), b.into());
                self.b.reg_of(power)
            }
        };
        Ok(self.wrap(dtype, result))
    }

    /// The extremes of what has no instruction that keeps NaN: f64, and f32 before Ampere.
    fn propagating(&mut self, f: BinaryOp, a: Reg, b: Reg) -> Reg {
        let (x, y) = (a.into(), b.into());
        let picked = match f {
            BinaryOp::Max => Arithmetic::max(&mut self.b, x, y),
            _ => Arithmetic::min(&mut self.b, x, y),
        };
        // If either is NaN, what was picked is `b`.
        let nan = Arithmetic::compare(&mut self.b, CompareOp::Ne, x, x);
        let value = Arithmetic::select(&mut self.b, nan, x, picked);
        self.b.reg_of(value)
    }

    fn compare_with_zero(&mut self, dtype: DType, a: Reg) -> Result<Reg, PtxError> {
        let zero = self.scalar_constant(Const::zero(dtype))?;
        self.compare(CompareOp::Eq, dtype, a, zero)
    }

    /// Division by zero gives 0; `Mod` has the sign of the divisor.
    fn integer_division(&mut self, f: BinaryOp, dtype: DType, ty: Ty, a: Reg, b: Reg) -> Reg {
        let by_zero = self.b.setp("eq", ty, b.into(), Src::Int(0));
        let safe = self.b.selp(ty, Src::Int(1), b.into(), by_zero);
        let opcode = if f == BinaryOp::Div { "div" } else { "rem" };
        let mut r = self.b.op(opcode, ty, &[a.into(), safe.into()]);
        if f == BinaryOp::Mod && dtype.class() == DTypeClass::Signed {
            // r and b have different signs exactly if r ≠ 0 and r xor b is negative.
            let bits = if ty.class() == Class::B32 { Ty::B32 } else { Ty::B64 };
            let signs = self.b.op("xor", bits, &[r.into(), b.into()]);
            let differ = self.b.setp("lt", ty, signs.into(), Src::Int(0));
            let some = self.b.setp("ne", ty, r.into(), Src::Int(0));
            let fix = self.b.op("and", Ty::Pred, &[differ.into(), some.into()]);
            let moved = self.b.op("add", ty, &[r.into(), b.into()]);
            r = self.b.selp(ty, moved.into(), r.into(), fix);
        }
        self.b.selp(ty, Src::Int(0), r.into(), by_zero)
    }

    /// Distances outside of the width give 0.
    fn integer_shift(&mut self, f: BinaryOp, dtype: DType, ty: Ty, a: Reg, b: Reg) -> Reg {
        let width = Src::Int(dtype.size_bits() as i64);
        let unsigned = if ty.class() == Class::B32 { Ty::U32 } else { Ty::U64 };
        let inside = self.b.setp("lt", unsigned, b.into(), width);
        let by = if ty.class() == Class::B64 { self.b.cvt("", Ty::U32, Ty::U64, b) } else { b };
        let bits = if ty.class() == Class::B32 { Ty::B32 } else { Ty::B64 };
        let r = match f {
            BinaryOp::Shl => self.b.shift_left(bits, a, by),
            _ => self.b.shift_right(ty, a, by),
        };
        self.b.selp(ty, r.into(), Src::Int(0), inside)
    }

    /// `a·b + c`, rounded once where the type has that.
    pub(crate) fn multiply_add(&mut self, dtype: DType, a: Reg, b: Reg, c: Reg) -> Result<Reg, PtxError> {
        let srcs = [Src::Reg(a), Src::Reg(b), Src::Reg(c)];
        match dtype {
            DType::F32 | DType::F64 => Ok(self.b.op("fma.rn", arithmetic(dtype)?, &srcs)),
            DType::I32 | DType::U32 | DType::I64 | DType::U64 => Ok(self.b.op("mad.lo", arithmetic(dtype)?, &srcs)),
            _ => {
                let product = self.binary(BinaryOp::Mul, dtype, a, b)?;
                self.binary(BinaryOp::Add, dtype, product, c)
            }
        }
    }

    fn compare(&mut self, f: CompareOp, dtype: DType, a: Reg, b: Reg) -> Result<Reg, PtxError> {
        if is_half(dtype) {
            let (x, y) = (self.widen(dtype, a), self.widen(dtype, b));
            return self.compare(f, DType::F32, x, y);
        }
        if dtype == DType::Bool {
            let (x, y) = (self.cast(dtype, DType::I32, false, a)?, self.cast(dtype, DType::I32, false, b)?);
            return self.compare(f, DType::I32, x, y);
        }
        let ty = arithmetic(dtype)?;
        let name = match f {
            CompareOp::Eq => "eq",
            // Not equal holds for NaN.
            CompareOp::Ne if dtype.is_float() => "neu",
            CompareOp::Ne => "ne",
            CompareOp::Lt => "lt",
            CompareOp::Le => "le",
            CompareOp::Gt => "gt",
            CompareOp::Ge => "ge",
        };
        Ok(self.b.setp(name, ty, a.into(), b.into()))
    }

    fn select(&mut self, dtype: DType, p: Reg, a: Reg, b: Reg) -> Result<Reg, PtxError> {
        if dtype == DType::Bool {
            // p·a + ¬p·b
            let q = self.b.op("not", Ty::Pred, &[p.into()]);
            let x = self.b.op("and", Ty::Pred, &[p.into(), a.into()]);
            let y = self.b.op("and", Ty::Pred, &[q.into(), b.into()]);
            return Ok(self.b.op("or", Ty::Pred, &[x.into(), y.into()]));
        }
        let ty = if is_half(dtype) { Ty::B16 } else { arithmetic(dtype)? };
        Ok(self.b.selp(ty, a.into(), b.into(), p))
    }

    pub(crate) fn cast(&mut self, from: DType, to: DType, saturating: bool, a: Reg) -> Result<Reg, PtxError> {
        if from == to {
            return Ok(a);
        }
        if is_half(from) {
            let wide = self.widen(from, a);
            return self.cast(DType::F32, to, saturating, wide);
        }
        if is_half(to) {
            // Through f32, which rounds integers above 2²⁴ and f64 twice: within half an ulp of a half more.
            let wide = self.cast(from, DType::F32, saturating, a)?;
            return Ok(self.narrow(to, wide));
        }
        if from == DType::Bool {
            let one = self.scalar_constant(Const::from_i64(to, 1))?;
            let zero = self.scalar_constant(Const::from_i64(to, 0))?;
            return Ok(self.b.selp(arithmetic(to)?, one.into(), zero.into(), a));
        }
        if to == DType::Bool {
            let zero = self.scalar_constant(Const::zero(from))?;
            return self.compare(CompareOp::Ne, from, a, zero);
        }
        let (source, target) = (arithmetic(from)?, arithmetic(to)?);
        Ok(match (from.is_float(), to.is_float()) {
            (true, true) if to == DType::F64 => self.b.cvt("", target, source, a),
            (true, true) => self.b.cvt(".rn", target, source, a),
            (false, true) => self.b.cvt(".rn", target, source, a),
            (true, false) if saturating => self.quantize(to, target, source, a),
            (true, false) => {
                let whole = self.b.cvt(".rzi", target, source, a);
                self.wrap(to, whole)
            }
            (false, false) => {
                let r = if source.class() == target.class() { a } else { self.b.cvt("", target, source, a) };
                self.wrap(to, r)
            }
        })
    }

    /// The bits that memory would hold, as those of another type.
    fn bit_cast(&mut self, to: DType, a: Reg) -> Result<Reg, PtxError> {
        let class = value_class(to)?;
        let bits = if class == a.class { a } else { self.b.bits(class, a) };
        // Words hold narrow integers extended, which depends on the sign.
        Ok(self.wrap(to, bits))
    }

    /// Rounds half to even and saturates, which the conversion does for words and the limits below do for less.
    fn quantize(&mut self, to: DType, target: Ty, source: Ty, a: Reg) -> Reg {
        let bits = to.size_bits() as u32;
        if bits >= 32 {
            return self.b.cvt(".rni", target, source, a);
        }
        let word = self.b.cvt(".rni", Ty::S32, source, a);
        let (low, high) = match to.class() {
            DTypeClass::Unsigned => (0, (1i64 << bits) - 1),
            _ => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        };
        let above = self.b.op("max", Ty::S32, &[word.into(), Src::Int(low)]);
        self.b.op("min", Ty::S32, &[above.into(), Src::Int(high)])
    }
}
