//! Arithmetic on floats and on vectors of any type.

use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{BinaryOp, Elem, Op, Type, UnaryOp, Value};
use crate::wide::codes::{self, Packed, Single};
use crate::wide::inst::{Address, Encoding, MachInst, RegMem, VECTOR, Width};
use iced_x86::Code;
use regalloc2::VReg;

/// The packed and the scalar form of a float operation, for `f32` and `f64`.
type FloatRows = [(Packed, Single); 2];

fn float_rows(kind: BinaryOp) -> Option<FloatRows> {
    Some(match kind {
        BinaryOp::Add => [(codes::ADD_F32, codes::ADD_SF32), (codes::ADD_F64, codes::ADD_SF64)],
        BinaryOp::Sub => [(codes::SUB_F32, codes::SUB_SF32), (codes::SUB_F64, codes::SUB_SF64)],
        BinaryOp::Mul => [(codes::MUL_F32, codes::MUL_SF32), (codes::MUL_F64, codes::MUL_SF64)],
        BinaryOp::Div => [(codes::DIV_F32, codes::DIV_SF32), (codes::DIV_F64, codes::DIV_SF64)],
        BinaryOp::Min => [(codes::MIN_F32, codes::MIN_SF32), (codes::MIN_F64, codes::MIN_SF64)],
        BinaryOp::Max => [(codes::MAX_F32, codes::MAX_SF32), (codes::MAX_F64, codes::MAX_SF64)],
        BinaryOp::Scale => [(codes::SCALE_F32, codes::SCALE_SF32), (codes::SCALE_F64, codes::SCALE_SF64)],
        _ => return None,
    })
}

impl Selector<'_> {
    /// The code of a float operation for a type.
    fn float_code(&self, rows: &FloatRows, ty: Type) -> Code {
        let (packed, single) = rows[usize::from(ty.elem == Elem::F64)];
        match ty.lanes {
            1 => single.code(self.encoding),
            _ => packed.code(self.encoding, Self::width_of(ty)),
        }
    }

    /// The code of an operation on two floats, or vectors of them, if it is one instruction.
    pub(super) fn float_binary_code(&self, kind: BinaryOp, ty: Type) -> Option<Code> {
        let rows = float_rows(kind).filter(|_| ty.elem.is_float())?;
        Some(self.float_code(&rows, ty))
    }

    /// The operands of an operation on floats, exchanged if that may be and the first one had better be in memory.
    pub(super) fn with_memory_last(&self, kind: BinaryOp, a: Value, b: Value) -> (Value, Value) {
        let commutes = matches!(kind, BinaryOp::Add | BinaryOp::Mul);
        if commutes && self.prefers_memory(a) && !self.prefers_memory(b) { (b, a) } else { (a, b) }
    }

    /// Everything that gives a float or a vector.
    pub(super) fn vector_operation(&mut self, dst: VReg, ty: Type, op: &Op) -> Result<(), CodegenError> {
        match *op {
            Op::Unary(kind, a) => self.vector_unary(dst, ty, kind, a),
            Op::Binary(kind, a, b) => self.vector_binary(dst, ty, kind, a, b),
            Op::Fma(a, b, c) => {
                self.fused(dst, ty, a, b, c);
                Ok(())
            }
            Op::Select(mask, a, b) => self.vector_select(dst, ty, mask, a, b),
            Op::Splat(a) => {
                self.splat(dst, ty, a);
                Ok(())
            }
            Op::HighHalf(a) => {
                self.high_half(dst, ty, a);
                Ok(())
            }
            Op::Join(low, high) => self.join(dst, ty, low, high),
            Op::Permute(a, b, from) => self.permute(dst, ty, [a, b], from),
            Op::Shuffle(a, b, lanes) => {
                self.shuffle(dst, ty, a, b, lanes);
                Ok(())
            }
            Op::Dot4(acc, a, b) => {
                self.dot(codes::PDPBUSD, dst, ty, acc, [a, b], false);
                Ok(())
            }
            Op::Dot2Bf16(acc, a, b) => {
                // Products are the same both ways; only the second operand may be memory, there also one word for all.
                let exchange = self.prefers_memory(a) && !self.prefers_memory(b);
                self.dot(codes::DPBF16PS, dst, ty, acc, if exchange { [b, a] } else { [a, b] }, true);
                Ok(())
            }
            Op::Dot2(a, b) => {
                let b = self.rm(b);
                let a = self.reg(a);
                self.packed(codes::PMADDWD, dst, Self::width_of(ty), a, &b);
                Ok(())
            }
            _ => Err(unsupported("a vector operation")),
        }
    }

    /// `dst = a ∘ b` with the second operand from a register or memory.
    fn three(&mut self, code: Code, dst: VReg, ty: Type, a: Value, b: &RegMem) {
        let view = Self::width_of(ty).view();
        let a = self.reg(a);
        self.push(MachInst::new(code).def(dst, view).reg(a, view).rm(b, view));
    }

    pub(super) fn packed(&mut self, row: Packed, dst: VReg, width: Width, a: VReg, b: &RegMem) {
        let view = width.view();
        self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).reg(a, view).rm(b, view));
    }

    fn vector_unary(&mut self, dst: VReg, ty: Type, kind: UnaryOp, a: Value) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let view = width.view();
        if ty.elem.is_float() {
            let sign = 1u64 << (ty.elem.size_bytes() * 8 - 1);
            match kind {
                UnaryOp::Neg => self.bitwise_constant(codes::PXOR, codes::PXOR_Q, dst, ty, a, sign),
                UnaryOp::Abs => self.bitwise_constant(codes::PAND, codes::PAND_Q, dst, ty, a, sign - 1),
                UnaryOp::Not => return Err(unsupported("the complement of a float")),
                UnaryOp::Sqrt => {
                    let rows = [(codes::SQRT_F32, codes::SQRT_SF32), (codes::SQRT_F64, codes::SQRT_SF64)];
                    let code = self.float_code(&rows, ty);
                    self.one_float(code, dst, ty, a, None);
                }
                UnaryOp::RoundEven => self.round(dst, ty, a, 0),
                UnaryOp::Floor => self.round(dst, ty, a, 1),
                UnaryOp::Ceil => self.round(dst, ty, a, 2),
                UnaryOp::Trunc => self.round(dst, ty, a, 3),
                UnaryOp::Table(table) => self.constant_of_table(dst, table, a)?,
            }
            return Ok(());
        }
        match kind {
            UnaryOp::Not => {
                let a = self.reg(a);
                self.invert(dst, a, width);
            }
            UnaryOp::Neg => {
                let zero = self.fresh(VECTOR);
                let a = self.rm(a);
                self.zero(zero);
                self.packed(sub_row(ty.elem), dst, width, zero, &a);
            }
            UnaryOp::Abs => {
                let row = match ty.elem {
                    Elem::I8 => codes::PABS_I8,
                    Elem::I16 => codes::PABS_I16,
                    Elem::I32 => codes::PABS_I32,
                    _ => codes::PABS_I64,
                };
                if ty.elem == Elem::I64 && self.encoding == Encoding::Vex {
                    // |a| = (a ^ s) − s with s = a < 0 ? −1 : 0
                    let a = self.reg(a);
                    let (zero, sign, flipped) = (self.fresh(VECTOR), self.fresh(VECTOR), self.fresh(VECTOR));
                    self.zero(zero);
                    self.packed(codes::PCMPGT_I64, sign, width, zero, &RegMem::Reg(a));
                    self.packed(codes::PXOR, flipped, width, a, &RegMem::Reg(sign));
                    self.packed(codes::PSUB_I64, dst, width, flipped, &RegMem::Reg(sign));
                } else {
                    let a = self.rm(a);
                    self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).rm(&a, view));
                }
            }
            _ => return Err(unsupported("rounding of integers")),
        }
        Ok(())
    }

    /// `a ∘ constant` on bits, the constant splat as 32- or 64-bit numbers.
    fn bitwise_constant(&mut self, narrow: Packed, wide: Packed, dst: VReg, ty: Type, a: Value, bits: u64) {
        let width = Self::width_of(ty);
        let row = if ty.elem == Elem::F64 { wide } else { narrow };
        let a = self.reg(a);
        let constant = match self.encoding {
            Encoding::Evex => Address { broadcast: true, ..self.pool_scalar(ty.elem, bits) },
            Encoding::Vex => self.pool_splat(ty.elem, bits, width),
        };
        self.packed(row, dst, width, a, &RegMem::Mem(constant));
    }

    fn round(&mut self, dst: VReg, ty: Type, a: Value, mode: u8) {
        let rows = [(codes::ROUND_F32, codes::ROUND_SF32), (codes::ROUND_F64, codes::ROUND_SF64)];
        let code = self.float_code(&rows, ty);
        // Bit 3 suppresses the inexact exception, which nobody looks at.
        self.one_float(code, dst, ty, a, Some(mode | 8));
    }

    /// A float operation on one operand; scalar forms take the upper lanes from a register of their own, for which
    /// the operand itself does.
    fn one_float(&mut self, code: Code, dst: VReg, ty: Type, a: Value, imm: Option<u8>) {
        let view = Self::width_of(ty).view();
        let mut inst = MachInst::new(code);
        if ty.lanes == 1 {
            let a = self.reg(a);
            inst = inst.def(dst, view).reg(a, view).reg(a, view);
        } else {
            let a = self.rm(a);
            inst = inst.def(dst, view).rm(&a, view);
        }
        self.push(match imm {
            Some(imm) => inst.imm8(imm),
            None => inst,
        });
    }

    fn vector_binary(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        if let Some(code) = self.float_binary_code(kind, ty) {
            let (a, b) = self.with_memory_last(kind, a, b);
            let b = self.rm(b);
            self.three(code, dst, ty, a, &b);
            return Ok(());
        }
        let (a, b) =
            if commutative(kind) && self.prefers_memory(a) && !self.prefers_memory(b) { (b, a) } else { (a, b) };
        let wide = ty.elem.size_bytes() == 8;
        let row = match kind {
            BinaryOp::And => {
                if wide {
                    codes::PAND_Q
                } else {
                    codes::PAND
                }
            }
            BinaryOp::Or => {
                if wide {
                    codes::POR_Q
                } else {
                    codes::POR
                }
            }
            BinaryOp::Xor => {
                if wide {
                    codes::PXOR_Q
                } else {
                    codes::PXOR
                }
            }
            BinaryOp::Add => match ty.elem {
                Elem::I8 => codes::PADD_I8,
                Elem::I16 => codes::PADD_I16,
                Elem::I32 => codes::PADD_I32,
                _ => codes::PADD_I64,
            },
            BinaryOp::Sub => sub_row(ty.elem),
            BinaryOp::Mul => return self.multiply(dst, ty, a, b),
            BinaryOp::Min | BinaryOp::Max | BinaryOp::MinU | BinaryOp::MaxU => {
                return self.vector_min_max(dst, ty, kind, a, b);
            }
            BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU => return self.vector_shift(dst, ty, kind, a, b),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivU | BinaryOp::RemU => {
                return self.lane_by_lane(dst, ty, kind, a, b);
            }
            BinaryOp::Scale => return Err(unsupported("an exponent of integers")),
        };
        // Scalar floats as bits: memory would be read beyond the element.
        let broadcast = ty.elem.size_bytes() >= 4;
        let b = if ty.lanes == 1 { RegMem::Reg(self.reg(b)) } else { self.rm_with(b, broadcast) };
        let width = Self::width_of(ty);
        let a = self.reg(a);
        self.packed(row, dst, width, a, &b);
        Ok(())
    }

    /// `a·b + c`: the operand that is needed no more, or else the addend, gives its register to the result; a
    /// constant or a load becomes the memory operand.
    fn fused(&mut self, dst: VReg, ty: Type, a: Value, b: Value, c: Value) {
        let rows231: FloatRows =
            [(codes::FMADD231_F32, codes::FMADD231_SF32), (codes::FMADD231_F64, codes::FMADD231_SF64)];
        let rows213: FloatRows =
            [(codes::FMADD213_F32, codes::FMADD213_SF32), (codes::FMADD213_F64, codes::FMADD213_SF64)];
        let rows132: FloatRows =
            [(codes::FMADD132_F32, codes::FMADD132_SF32), (codes::FMADD132_F64, codes::FMADD132_SF64)];
        // −a·b + c
        let negated = |s: &Self, value: Value| match s.ops[value.0 as usize] {
            Some(Op::Unary(UnaryOp::Neg, inner)) if !s.needed[value.0 as usize] => Some(inner),
            _ => None,
        };
        let (mut a, mut b) = (a, b);
        let mut rows = (rows231, rows213, rows132);
        if let Some(inner) = negated(self, a).or(negated(self, b)) {
            if negated(self, a).is_some() {
                a = inner;
            } else {
                b = inner;
            }
            rows = (
                [(codes::FNMADD231_F32, codes::FNMADD231_SF32), (codes::FNMADD231_F64, codes::FNMADD231_SF64)],
                [(codes::FNMADD213_F32, codes::FNMADD213_SF32), (codes::FNMADD213_F64, codes::FNMADD213_SF64)],
                [(codes::FNMADD132_F32, codes::FNMADD132_SF32), (codes::FNMADD132_F64, codes::FNMADD132_SF64)],
            );
        }
        let (rows231, rows213, rows132) = rows;
        if self.prefers_memory(a) && !self.prefers_memory(b) {
            std::mem::swap(&mut a, &mut b);
        }
        let view = Self::width_of(ty).view();
        let dies = |s: &Self, value: Value| s.constant(value).is_none() && s.dies_here(value);
        if self.constant(c).is_none() && (dies(self, c) || !(dies(self, a) || dies(self, b))) && !self.foldable(c) {
            // c = a·b + c
            let code = self.float_code(&rows231, ty);
            let b = self.rm(b);
            let (a, c) = (self.reg(a), self.reg(c));
            self.push(MachInst::new(code).modify(c, dst, view).reg(a, view).rm(&b, view));
        } else if self.prefers_memory(b) && !self.prefers_memory(c) {
            // a = a·memory + c
            let code = self.float_code(&rows132, ty);
            let b = self.rm(b);
            let (a, c) = (self.reg(a), self.reg(c));
            self.push(MachInst::new(code).modify(a, dst, view).reg(c, view).rm(&b, view));
        } else {
            // a = b·a + c
            if !dies(self, a) && dies(self, b) {
                std::mem::swap(&mut a, &mut b);
            }
            let code = self.float_code(&rows213, ty);
            let c = self.rm(c);
            let (a, b) = (self.reg(a), self.reg(b));
            self.push(MachInst::new(code).modify(a, dst, view).reg(b, view).rm(&c, view));
        }
    }
}

const fn commutative(kind: BinaryOp) -> bool {
    use BinaryOp::{Add, And, Max, MaxU, Min, MinU, Mul, Or, Xor};
    matches!(kind, Add | Mul | And | Or | Xor | Min | Max | MinU | MaxU)
}

const fn sub_row(elem: Elem) -> Packed {
    match elem {
        Elem::I8 => codes::PSUB_I8,
        Elem::I16 => codes::PSUB_I16,
        Elem::I64 => codes::PSUB_I64,
        _ => codes::PSUB_I32,
    }
}
