//! Arithmetic on floats and on vectors of any type.

use super::mask::{greater_than, int_of_size, mask_elem};
use super::memory::{lane_inst, no_overlap, temporaries};
use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{BinaryOp, Cond, Elem, Op, Type, UnaryOp, Value};
use crate::wide::alloc::{RAX, RCX, RDX};
use crate::wide::codes::{self, Packed, Single};
use crate::wide::inst::{Address, Encoding, Flag, INT, MASK, MachInst, RegMem, VECTOR, View, Width};
use crate::wide::lanes::LaneOp;
use iced_x86::{Code, OpKind};
use regalloc2::{Operand, VReg};

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
            Op::Dot4(acc, a, b) => {
                self.dot4(dst, ty, acc, a, b);
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

    fn packed(&mut self, row: Packed, dst: VReg, width: Width, a: VReg, b: &RegMem) {
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
        if ty.elem.is_float()
            && let Some(rows) = float_rows(kind)
        {
            let commutes = matches!(kind, BinaryOp::Add | BinaryOp::Mul);
            let (a, b) = if commutes && self.prefers_memory(a) && !self.prefers_memory(b) { (b, a) } else { (a, b) };
            let code = self.float_code(&rows, ty);
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
        };
        // Scalar floats as bits: memory would be read beyond the element.
        let broadcast = ty.elem.size_bytes() >= 4;
        let b = if ty.lanes == 1 { RegMem::Reg(self.reg(b)) } else { self.rm_with(b, broadcast) };
        let width = Self::width_of(ty);
        let a = self.reg(a);
        self.packed(row, dst, width, a, &b);
        Ok(())
    }

    fn multiply(&mut self, dst: VReg, ty: Type, a: Value, b: Value) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        match ty.elem {
            Elem::I16 | Elem::I32 => {
                let row = if ty.elem == Elem::I16 { codes::PMULL_I16 } else { codes::PMULL_I32 };
                let b = self.rm(b);
                let a = self.reg(a);
                self.packed(row, dst, width, a, &b);
            }
            Elem::I64 if self.encoding == Encoding::Evex => {
                let b = self.rm(b);
                let a = self.reg(a);
                self.packed(codes::PMULL_I64, dst, width, a, &b);
            }
            Elem::I64 => {
                // a·b = lo·lo + ((a_hi·b_lo + a_lo·b_hi) << 32)
                let (a, b) = (self.reg(a), self.reg(b));
                let [a_high, b_high, low, cross1, cross2, cross, high] = [(); 7].map(|()| self.fresh(VECTOR));
                self.shift_by(codes::PSRLI_I64, a_high, a, width, 32);
                self.shift_by(codes::PSRLI_I64, b_high, b, width, 32);
                self.packed(codes::PMULUDQ, low, width, a, &RegMem::Reg(b));
                self.packed(codes::PMULUDQ, cross1, width, a_high, &RegMem::Reg(b));
                self.packed(codes::PMULUDQ, cross2, width, a, &RegMem::Reg(b_high));
                self.packed(codes::PADD_I64, cross, width, cross1, &RegMem::Reg(cross2));
                self.shift_by(codes::PSLLI_I64, high, cross, width, 32);
                self.packed(codes::PADD_I64, dst, width, low, &RegMem::Reg(high));
            }
            _ => {
                // Bytes in pairs: the even ones from the low halves of 16-bit products, the odd ones shifted there.
                let (a, b) = (self.reg(a), self.reg(b));
                let [even, a_odd, b_odd, odd, shifted, kept] = [(); 6].map(|()| self.fresh(VECTOR));
                self.packed(codes::PMULL_I16, even, width, a, &RegMem::Reg(b));
                self.shift_by(codes::PSRLI_I16, a_odd, a, width, 8);
                self.shift_by(codes::PSRLI_I16, b_odd, b, width, 8);
                self.packed(codes::PMULL_I16, odd, width, a_odd, &RegMem::Reg(b_odd));
                self.shift_by(codes::PSLLI_I16, shifted, odd, width, 8);
                let low_bytes = self.pool_splat(Elem::I16, 0x00ff, width);
                self.packed(codes::PAND, kept, width, even, &RegMem::Mem(low_bytes));
                self.packed(codes::POR, dst, width, kept, &RegMem::Reg(shifted));
            }
        }
        Ok(())
    }

    /// `dst = a` shifted by a constant.
    pub(super) fn shift_by(&mut self, row: Packed, dst: VReg, a: VReg, width: Width, amount: u8) {
        let view = width.view();
        self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).reg(a, view).imm8(amount));
    }

    fn vector_min_max(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let rows = match kind {
            BinaryOp::Min => [codes::PMINS_I8, codes::PMINS_I16, codes::PMINS_I32, codes::PMINS_I64],
            BinaryOp::Max => [codes::PMAXS_I8, codes::PMAXS_I16, codes::PMAXS_I32, codes::PMAXS_I64],
            BinaryOp::MinU => [codes::PMINU_I8, codes::PMINU_I16, codes::PMINU_I32, codes::PMINU_I64],
            _ => [codes::PMAXU_I8, codes::PMAXU_I16, codes::PMAXU_I32, codes::PMAXU_I64],
        };
        let row = rows[ty.elem.size_bytes().trailing_zeros() as usize];
        if ty.elem != Elem::I64 || self.encoding == Encoding::Evex {
            let b = self.rm(b);
            let a = self.reg(a);
            self.packed(row, dst, width, a, &b);
            return Ok(());
        }
        // AVX2 has only the signed comparison of 64-bit lanes.
        let (a, b) = (self.reg(a), self.reg(b));
        let greater = self.fresh(VECTOR);
        let unsigned = matches!(kind, BinaryOp::MinU | BinaryOp::MaxU);
        self.greater_i64(greater, a, b, width, unsigned);
        let (yes, no) = if matches!(kind, BinaryOp::Max | BinaryOp::MaxU) { (a, b) } else { (b, a) };
        self.blend_vex(dst, greater, yes, no, width);
        Ok(())
    }

    /// AVX2: `dst = a > b` on 64-bit lanes.
    fn greater_i64(&mut self, dst: VReg, a: VReg, b: VReg, width: Width, unsigned: bool) {
        let (mut a, mut b) = (a, b);
        if unsigned {
            (a, b) = (self.flip_sign(a, Elem::I64, width), self.flip_sign(b, Elem::I64, width));
        }
        self.packed(codes::PCMPGT_I64, dst, width, a, &RegMem::Reg(b));
    }

    /// Exchanges the order of signed and unsigned numbers.
    fn flip_sign(&mut self, a: VReg, elem: Elem, width: Width) -> VReg {
        let flipped = self.fresh(VECTOR);
        let sign = self.pool_splat(elem, 1 << (elem.size_bytes() * 8 - 1), width);
        self.packed(codes::PXOR, flipped, width, a, &RegMem::Mem(sign));
        flipped
    }

    /// AVX2: `dst = mask ? yes : no`
    fn blend_vex(&mut self, dst: VReg, mask: VReg, yes: VReg, no: VReg, width: Width) {
        let view = width.view();
        let code = codes::BLENDV.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, view).reg(no, view).reg(yes, view).reg(mask, view));
    }

    fn vector_shift(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let size = ty.elem.size_bytes().trailing_zeros() as usize;
        let pick = |rows: [[Packed; 3]; 3]| {
            let kind = match kind {
                BinaryOp::Shl => 0,
                BinaryOp::ShrU => 1,
                _ => 2,
            };
            rows[kind][size - 1]
        };
        let by_constant = [
            [codes::PSLLI_I16, codes::PSLLI_I32, codes::PSLLI_I64],
            [codes::PSRLI_I16, codes::PSRLI_I32, codes::PSRLI_I64],
            [codes::PSRAI_I16, codes::PSRAI_I32, codes::PSRAI_I64],
        ];
        let by_lane = [
            [codes::PSLLV_I16, codes::PSLLV_I32, codes::PSLLV_I64],
            [codes::PSRLV_I16, codes::PSRLV_I32, codes::PSRLV_I64],
            [codes::PSRAV_I16, codes::PSRAV_I32, codes::PSRAV_I64],
        ];
        let arithmetic_i64 = ty.elem == Elem::I64 && kind == BinaryOp::ShrS && self.encoding == Encoding::Vex;
        if let Some(amount) = self.constant(b) {
            let amount = amount as u8;
            let a = self.reg(a);
            if ty.elem == Elem::I8 {
                self.shift_bytes(dst, kind, a, width, amount);
            } else if arithmetic_i64 {
                // (a >>> n) with the sign brought back: (x ^ s) − s, s the sign bit's new place.
                let (logical, flipped) = (self.fresh(VECTOR), self.fresh(VECTOR));
                let sign = self.pool_splat(Elem::I64, (1 << 63) >> amount, width);
                self.shift_by(codes::PSRLI_I64, logical, a, width, amount);
                self.packed(codes::PXOR, flipped, width, logical, &RegMem::Mem(sign));
                self.packed(codes::PSUB_I64, dst, width, flipped, &RegMem::Mem(sign));
            } else {
                self.shift_by(pick(by_constant), dst, a, width, amount);
            }
            return Ok(());
        }
        let missing = match self.encoding {
            Encoding::Evex => ty.elem == Elem::I8,
            Encoding::Vex => ty.elem.size_bytes() < 4 || arithmetic_i64,
        };
        if missing {
            return self.lane_by_lane(dst, ty, kind, a, b);
        }
        let b = self.rm(b);
        let a = self.reg(a);
        self.packed(pick(by_lane), dst, width, a, &b);
        Ok(())
    }

    /// Bytes shift as 16-bit lanes, and lose what came over from the neighbour.
    fn shift_bytes(&mut self, dst: VReg, kind: BinaryOp, a: VReg, width: Width, amount: u8) {
        let shifted = self.fresh(VECTOR);
        let (row, keep) = match kind {
            BinaryOp::Shl => (codes::PSLLI_I16, 0xffu8 << amount),
            _ => (codes::PSRLI_I16, 0xffu8 >> amount),
        };
        self.shift_by(row, shifted, a, width, amount);
        let keep = self.pool_splat(Elem::I8, u64::from(keep), width);
        if kind == BinaryOp::ShrS {
            let (logical, flipped) = (self.fresh(VECTOR), self.fresh(VECTOR));
            self.packed(codes::PAND, logical, width, shifted, &RegMem::Mem(keep));
            let sign = self.pool_splat(Elem::I8, 0x80 >> amount, width);
            self.packed(codes::PXOR, flipped, width, logical, &RegMem::Mem(sign));
            self.packed(codes::PSUB_I8, dst, width, flipped, &RegMem::Mem(sign));
        } else {
            self.packed(codes::PAND, dst, width, shifted, &RegMem::Mem(keep));
        }
    }

    /// Integer operations that no vector instruction has.
    fn lane_by_lane(&mut self, dst: VReg, ty: Type, op: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let (a, b) = (self.reg(a), self.reg(b));
        let width = Self::width_of(ty);
        let mut inst = lane_inst(LaneOp::Binary { op, elem: ty.elem, lanes: ty.lanes, width });
        inst.operand(Operand::reg_use(a));
        inst.operand(Operand::reg_use(b));
        inst.operand(Operand::reg_def(dst));
        inst.clobbers = temporaries(&[RAX, RCX, RDX]);
        self.push(no_overlap(inst));
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

    fn vector_select(&mut self, dst: VReg, ty: Type, mask: Value, a: Value, b: Value) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let view = width.view();
        if ty.lanes == 1 {
            return self.select_scalar(dst, ty, mask, a, b);
        }
        match self.encoding {
            Encoding::Evex => {
                let mask = self.reg(mask);
                if self.constant(b) == Some(0) {
                    let a = self.reg(a);
                    let row = match ty.elem.size_bytes() {
                        1 => codes::LOAD_I8,
                        2 => codes::LOAD_I16,
                        8 => codes::LOAD_I64,
                        _ => codes::LOAD_I32,
                    };
                    let code = row.code(self.encoding, width);
                    self.push(MachInst::new(code).def(dst, view).reg(a, view).zeroed_by(mask));
                    return Ok(());
                }
                let row = match ty.elem.size_bytes() {
                    1 => codes::BLENDM_I8,
                    2 => codes::BLENDM_I16,
                    8 => codes::BLENDM_I64,
                    _ => codes::BLENDM_I32,
                };
                let a = self.rm(a);
                let b = self.reg(b);
                let code = row.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(b, view).rm(&a, view).masked_by(mask));
            }
            Encoding::Vex => {
                let mask = self.vector_mask(mask, ty.elem);
                if self.constant(b) == Some(0) {
                    let a = self.rm(a);
                    self.packed(codes::PAND, dst, width, mask, &a);
                    return Ok(());
                }
                let a = self.rm(a);
                let b = self.reg(b);
                let code = codes::BLENDV.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(b, view).rm(&a, view).reg(mask, view));
            }
        }
        Ok(())
    }

    /// A float by a one-lane mask in a general-purpose register.
    fn select_scalar(&mut self, dst: VReg, ty: Type, mask: Value, a: Value, b: Value) -> Result<(), CodegenError> {
        let mask = self.reg(mask);
        let (a, b) = (self.reg(a), self.reg(b));
        match self.encoding {
            Encoding::Evex => {
                let k = self.fresh(MASK);
                self.push(MachInst::new(Code::VEX_Kmovd_kr_r32).def(k, View::K).reg(mask, View::R32));
                let row = if ty.elem == Elem::F64 { codes::BLENDM_I64 } else { codes::BLENDM_I32 };
                let code = row.code(self.encoding, Width::X);
                let inst = MachInst::new(code).def(dst, View::X).reg(b, View::X).reg(a, View::X);
                self.push(inst.masked_by(k));
            }
            Encoding::Vex => {
                let (ones, vector) = (self.fresh(INT), self.fresh(VECTOR));
                self.push(MachInst::new(Code::Neg_rm64).modify(mask, ones, View::R64));
                let code = codes::MOVQ_TO_XMM.code(self.encoding);
                self.push(MachInst::new(code).def(vector, View::X).reg(ones, View::R64));
                self.blend_vex(dst, vector, a, b, Width::X);
            }
        }
        Ok(())
    }

    fn splat(&mut self, dst: VReg, ty: Type, a: Value) {
        let width = Self::width_of(ty);
        let view = width.view();
        let reg = self.reg(a);
        if ty.elem.is_float() {
            let row = if ty.elem == Elem::F64 { codes::SPLAT_I64 } else { codes::SPLAT_F32 };
            self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).reg(reg, View::X));
        } else {
            self.splat_int(dst, reg, int_of_size(ty.elem), width);
        }
    }

    /// A general-purpose register in all lanes.
    pub(super) fn splat_int(&mut self, dst: VReg, reg: VReg, elem: Elem, width: Width) {
        let view = width.view();
        let gpr = if elem == Elem::I64 { View::R64 } else { View::R32 };
        match self.encoding {
            Encoding::Evex => {
                let row = match elem {
                    Elem::I8 => codes::SPLAT_GPR_I8,
                    Elem::I16 => codes::SPLAT_GPR_I16,
                    Elem::I64 => codes::SPLAT_GPR_I64,
                    _ => codes::SPLAT_GPR_I32,
                };
                self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).reg(reg, gpr));
            }
            Encoding::Vex => {
                let low = self.fresh(VECTOR);
                let code = if gpr == View::R64 { codes::MOVQ_TO_XMM } else { codes::MOVD_TO_XMM };
                self.push(MachInst::new(code.code(self.encoding)).def(low, View::X).reg(reg, gpr));
                let row = match elem {
                    Elem::I8 => codes::SPLAT_I8,
                    Elem::I16 => codes::SPLAT_I16,
                    Elem::I64 => codes::SPLAT_I64,
                    _ => codes::SPLAT_I32,
                };
                self.push(MachInst::new(row.code(self.encoding, width)).def(dst, view).reg(low, View::X));
            }
        }
    }

    pub(super) fn pool_lane_index(&mut self, elem: Elem, width: Width) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        let lanes = width.bytes() as usize / size;
        let entry: Vec<u8> = (0..lanes as u64).flat_map(|lane| lane.to_le_bytes()[..size].to_vec()).collect();
        self.pool_bytes(&entry)
    }

    pub(super) fn lane_index(&mut self, dst: VReg, ty: Type) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let address = self.pool_lane_index(ty.elem, width);
        let code = codes::LOAD_F32.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).mem(&address));
        Ok(())
    }

    fn high_half(&mut self, dst: VReg, ty: Type, a: Value) {
        let reg = self.reg(a);
        match ty.size_bytes() {
            32 => {
                let code = codes::EXTRACT256_Z.code(self.encoding);
                self.push(MachInst::new(code).def(dst, View::Y).reg(reg, View::Z).imm8(1));
            }
            16 => {
                let code = codes::EXTRACT128_Y.code(self.encoding);
                self.push(MachInst::new(code).def(dst, View::X).reg(reg, View::Y).imm8(1));
            }
            bytes => self.shift_by(codes::PSRLDQ, dst, reg, Width::X, bytes as u8),
        }
    }

    /// One lane as a scalar.
    pub(super) fn extract(&mut self, dst: VReg, ty: Type, a: Value, lane: u16) -> Result<(), CodegenError> {
        let from = self.ty(a);
        if from.elem == Elem::Mask {
            self.extract_mask(dst, a, lane);
            return Ok(());
        }
        let size = ty.elem.size_bytes();
        let byte = u32::from(lane) * size;
        let reg = self.reg(a);
        let (mut chunk, within) = (reg, byte % 16);
        if byte >= 16 {
            chunk = self.fresh(VECTOR);
            let (code, view) = match Self::width_of(from) {
                Width::Z => (codes::EXTRACT128_Z, View::Z),
                _ => (codes::EXTRACT128_Y, View::Y),
            };
            let code = code.code(self.encoding);
            self.push(MachInst::new(code).def(chunk, View::X).reg(reg, view).imm8((byte / 16) as u8));
        }
        if ty.elem.is_float() {
            self.shift_by(codes::PSRLDQ, dst, chunk, Width::X, within as u8);
            return Ok(());
        }
        let lane = (within / size) as u8;
        let (code, view) = match size {
            1 => (codes::PEXTR_I8, View::R32),
            2 => (codes::PEXTR_I16, View::R32),
            4 => (codes::PEXTR_I32, View::R32),
            _ => (codes::PEXTR_I64, View::R64),
        };
        let code = code.code(self.encoding);
        self.push(MachInst::new(code).def(dst, view).reg(chunk, View::X).imm8(lane));
        Ok(())
    }

    fn dot4(&mut self, dst: VReg, ty: Type, acc: Value, a: Value, b: Value) {
        let width = Self::width_of(ty);
        let view = width.view();
        if self.dot {
            let code = codes::PDPBUSD.code(self.encoding, width);
            let b = self.rm_with(b, false);
            let (acc, a) = (self.reg(acc), self.reg(a));
            self.push(MachInst::new(code).modify(acc, dst, view).reg(a, view).rm(&b, view));
            return;
        }
        // Without VNNI the pairwise sums of vpmaddubsw could saturate: even and odd bytes are multiplied apart as
        // 16-bit numbers, which always fit, and vpmaddwd adds pairs.
        let (acc, a, b) = (self.reg(acc), self.reg(a), self.reg(b));
        let fresh = [(); 8].map(|()| self.fresh(VECTOR));
        let [a_even, a_odd, b_up, b_even, b_odd, even, odd, sum] = fresh;
        let low_bytes = self.pool_splat(Elem::I16, 0x00ff, width);
        self.packed(codes::PAND, a_even, width, a, &RegMem::Mem(low_bytes));
        self.shift_by(codes::PSRLI_I16, a_odd, a, width, 8);
        self.shift_by(codes::PSLLI_I16, b_up, b, width, 8);
        self.shift_by(codes::PSRAI_I16, b_even, b_up, width, 8);
        self.shift_by(codes::PSRAI_I16, b_odd, b, width, 8);
        self.packed(codes::PMADDWD, even, width, a_even, &RegMem::Reg(b_even));
        self.packed(codes::PMADDWD, odd, width, a_odd, &RegMem::Reg(b_odd));
        self.packed(codes::PADD_I32, sum, width, even, &RegMem::Reg(odd));
        self.packed(codes::PADD_I32, dst, width, sum, &RegMem::Reg(acc));
    }

    // Comparisons.

    pub(super) fn compare(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) -> Result<(), CodegenError> {
        let ty = self.ty(a);
        if ty.lanes == 1 {
            self.compare_scalars(dst, cond, a, b);
            return Ok(());
        }
        let width = Self::width_of(ty);
        let view = width.view();
        if ty.elem.is_float() {
            let row = if ty.elem == Elem::F64 { codes::CMP_F64 } else { codes::CMP_F32 };
            let code = row.code(self.encoding, width);
            let b = self.rm(b);
            let a = self.reg(a);
            if self.encoding == Encoding::Evex {
                self.push(MachInst::new(code).def(dst, View::K).reg(a, view).rm(&b, view).imm8(float_predicate(cond)));
            } else {
                let elem = int_of_size(ty.elem);
                let lanes = ty.lanes;
                let raw = if elem == mask_elem(lanes) { dst } else { self.fresh(VECTOR) };
                self.push(MachInst::new(code).def(raw, view).reg(a, view).rm(&b, view).imm8(float_predicate(cond)));
                self.canonical_mask(dst, raw, lanes, elem);
            }
            return Ok(());
        }
        match self.encoding {
            Encoding::Evex => {
                let unsigned = matches!(cond, Cond::LtU | Cond::LeU);
                let rows = if unsigned {
                    [codes::PCMPU_I8, codes::PCMPU_I16, codes::PCMPU_I32, codes::PCMPU_I64]
                } else {
                    [codes::PCMP_I8, codes::PCMP_I16, codes::PCMP_I32, codes::PCMP_I64]
                };
                let predicate = match cond {
                    Cond::Eq => 0,
                    Cond::Lt | Cond::LtU => 1,
                    Cond::Le | Cond::LeU => 2,
                    Cond::Ne => 4,
                    Cond::Ge => 5,
                    Cond::Gt => 6,
                };
                let code = rows[ty.elem.size_bytes().trailing_zeros() as usize].code(self.encoding, width);
                let b = self.rm(b);
                let a = self.reg(a);
                self.push(MachInst::new(code).def(dst, View::K).reg(a, view).rm(&b, view).imm8(predicate));
            }
            Encoding::Vex => self.compare_ints_vex(dst, ty, cond, a, b),
        }
        Ok(())
    }

    /// AVX2 has only equal and signed greater.
    fn compare_ints_vex(&mut self, dst: VReg, ty: Type, cond: Cond, a: Value, b: Value) {
        let width = Self::width_of(ty);
        let (mut a, mut b) = (self.reg(a), self.reg(b));
        if matches!(cond, Cond::LtU | Cond::LeU) {
            (a, b) = (self.flip_sign(a, ty.elem, width), self.flip_sign(b, ty.elem, width));
        }
        let equal = match ty.elem {
            Elem::I8 => codes::PCMPEQ_I8,
            Elem::I16 => codes::PCMPEQ_I16,
            Elem::I64 => codes::PCMPEQ_I64,
            _ => codes::PCMPEQ_I32,
        };
        let (row, exchange, inverted) = match cond {
            Cond::Eq => (equal, false, false),
            Cond::Ne => (equal, false, true),
            Cond::Gt => (greater_than(ty.elem), false, false),
            Cond::Lt | Cond::LtU => (greater_than(ty.elem), true, false),
            Cond::Le | Cond::LeU => (greater_than(ty.elem), false, true),
            Cond::Ge => (greater_than(ty.elem), true, true),
        };
        let (a, b) = if exchange { (b, a) } else { (a, b) };
        let same = ty.elem == mask_elem(ty.lanes);
        let raw = if same && !inverted { dst } else { self.fresh(VECTOR) };
        self.packed(row, raw, width, a, &RegMem::Reg(b));
        let mut result = raw;
        if inverted {
            result = if same { dst } else { self.fresh(VECTOR) };
            self.invert(result, raw, width);
        }
        self.canonical_mask(dst, result, ty.lanes, ty.elem);
    }

    /// AVX2: brings a comparison's result to the lane width that masks of so many lanes have.
    fn canonical_mask(&mut self, dst: VReg, raw: VReg, lanes: u16, from: Elem) {
        let to = mask_elem(lanes);
        match from.size_bytes().cmp(&to.size_bytes()) {
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Less => {
                let width = Width::of_bits(to.size_bytes() * 8 * u32::from(lanes));
                self.widen_vector(dst, RegMem::Reg(raw), from, to, width, true);
            }
            std::cmp::Ordering::Greater => self.narrow_vex(dst, raw, from, to, lanes),
        }
    }

    pub(super) fn compare_scalar_floats(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) {
        let elem = self.ty(a).elem;
        let rows = [codes::UCOMI_SF32, codes::UCOMI_SF64];
        let ucomi = rows[usize::from(elem == Elem::F64)].code(self.encoding);
        let (first, second, flag) = match cond {
            // Above and above-or-equal are false on unordered operands.
            Cond::Gt => (a, b, Flag::Above),
            Cond::Ge => (a, b, Flag::AboveOrEqual),
            Cond::Lt | Cond::LtU => (b, a, Flag::Above),
            Cond::Le | Cond::LeU => (b, a, Flag::AboveOrEqual),
            Cond::Eq | Cond::Ne => return self.equal_scalar_floats(dst, cond, a, b),
        };
        let second = self.rm(second);
        let first = self.reg(first);
        self.push(MachInst::new(ucomi).reg(first, View::X).rm(&second, View::X));
        self.set_flag(dst, flag);
    }

    fn equal_scalar_floats(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) {
        let rows = [codes::CMP_SF32, codes::CMP_SF64];
        let code = rows[usize::from(self.ty(a).elem == Elem::F64)].code(self.encoding);
        let b = self.rm(b);
        let a = self.reg(a);
        let bits = self.fresh(INT);
        match self.encoding {
            Encoding::Evex => {
                let k = self.fresh(MASK);
                self.push(
                    MachInst::new(code).def(k, View::K).reg(a, View::X).rm(&b, View::X).imm8(float_predicate(cond)),
                );
                self.push(MachInst::new(Code::VEX_Kmovd_r32_kr).def(bits, View::R32).reg(k, View::K));
            }
            Encoding::Vex => {
                let lane = self.fresh(VECTOR);
                self.push(
                    MachInst::new(code).def(lane, View::X).reg(a, View::X).rm(&b, View::X).imm8(float_predicate(cond)),
                );
                let code = codes::MOVD_FROM_XMM.code(self.encoding);
                self.push(MachInst::new(code).def(bits, View::R32).reg(lane, View::X));
            }
        }
        self.push(MachInst::new(Code::And_rm32_imm8).modify(bits, dst, View::R32).imm(OpKind::Immediate8to32, 1));
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

/// Ordered, quiet predicates of `vcmpps`, and unordered not-equal.
const fn float_predicate(cond: Cond) -> u8 {
    match cond {
        Cond::Eq => 0,
        Cond::Ne => 4,
        Cond::Lt | Cond::LtU => 17,
        Cond::Le | Cond::LeU => 18,
        Cond::Gt => 30,
        Cond::Ge => 29,
    }
}
