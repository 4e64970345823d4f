//! Integer arithmetic on vectors where it takes more than one instruction, or a choice among several.

use super::Selector;
use super::memory::{lane_inst, no_overlap, temporaries};
use crate::CodegenError;
use crate::vir::{BinaryOp, Elem, Type, Value};
use crate::wide::alloc::{RAX, RCX, RDX};
use crate::wide::codes::{self, Packed};
use crate::wide::inst::{Encoding, MachInst, RegMem, VECTOR, Width};
use crate::wide::lanes::LaneOp;
use regalloc2::{Operand, VReg};

impl Selector<'_> {
    pub(super) fn multiply(&mut self, dst: VReg, ty: Type, a: Value, b: Value) -> Result<(), CodegenError> {
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

    pub(super) fn vector_min_max(
        &mut self,
        dst: VReg,
        ty: Type,
        kind: BinaryOp,
        a: Value,
        b: Value,
    ) -> Result<(), CodegenError> {
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
    pub(super) fn flip_sign(&mut self, a: VReg, elem: Elem, width: Width) -> VReg {
        let flipped = self.fresh(VECTOR);
        let sign = self.pool_splat(elem, 1 << (elem.size_bytes() * 8 - 1), width);
        self.packed(codes::PXOR, flipped, width, a, &RegMem::Mem(sign));
        flipped
    }

    /// AVX2: `dst = mask ? yes : no`
    pub(super) fn blend_vex(&mut self, dst: VReg, mask: VReg, yes: VReg, no: VReg, width: Width) {
        let view = width.view();
        let code = codes::BLENDV.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, view).reg(no, view).reg(yes, view).reg(mask, view));
    }

    pub(super) fn vector_shift(
        &mut self,
        dst: VReg,
        ty: Type,
        kind: BinaryOp,
        a: Value,
        b: Value,
    ) -> Result<(), CodegenError> {
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
    pub(super) fn lane_by_lane(
        &mut self,
        dst: VReg,
        ty: Type,
        op: BinaryOp,
        a: Value,
        b: Value,
    ) -> Result<(), CodegenError> {
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

    /// `acc += a · b` of several numbers in each lane of 32 bits; `broadcast` if the second operand may be one word of
    /// memory for all lanes.
    pub(super) fn dot(&mut self, row: Packed, dst: VReg, ty: Type, acc: Value, [a, b]: [Value; 2], broadcast: bool) {
        let width = Self::width_of(ty);
        let view = width.view();
        let code = row.code(self.encoding, width);
        let b = self.rm_with(b, broadcast);
        let (acc, a) = (self.reg(acc), self.reg(a));
        self.push(MachInst::new(code).modify(acc, dst, view).reg(a, view).rm(&b, view));
    }
}
