//! Choosing among lanes, filling them, and taking them apart.

use super::Selector;
use super::mask::int_of_size;
use crate::CodegenError;
use crate::vir::{Elem, Op, Type, Value};
use crate::wide::codes;
use crate::wide::inst::{Address, Encoding, INT, MASK, MachInst, VECTOR, View, Width};
use iced_x86::Code;
use regalloc2::VReg;

impl Selector<'_> {
    /// AVX-512: `dst` = a value where a mask is on, else 0. What computes it for nobody else clears the other lanes itself.
    fn zeroed(&mut self, dst: VReg, ty: Type, mask: VReg, x: Value) {
        let view = Self::width_of(ty).view();
        if let Some(&Op::Binary(kind, a, b)) = self.only_here(x)
            && let Some(code) = self.float_binary_code(kind, ty)
        {
            let (a, b) = self.with_memory_last(kind, a, b);
            let b = self.rm(b);
            let a = self.reg(a);
            self.push(MachInst::new(code).def(dst, view).reg(a, view).rm(&b, view).zeroed_by(mask));
            return;
        }
        let x = self.reg(x);
        let row = match ty.elem.size_bytes() {
            1 => codes::LOAD_I8,
            2 => codes::LOAD_I16,
            8 => codes::LOAD_I64,
            _ => codes::LOAD_I32,
        };
        let code = row.code(self.encoding, Self::width_of(ty));
        self.push(MachInst::new(code).def(dst, view).reg(x, view).zeroed_by(mask));
    }

    pub(super) fn vector_select(
        &mut self,
        dst: VReg,
        ty: Type,
        mask: Value,
        a: Value,
        b: Value,
    ) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        let view = width.view();
        if ty.lanes == 1 {
            return self.select_scalar(dst, ty, mask, a, b);
        }
        match self.encoding {
            Encoding::Evex => {
                if self.constant(a) == Some(0)
                    && let Some(off) = self.off(mask)
                {
                    self.zeroed(dst, ty, off, b);
                    return Ok(());
                }
                let mask = self.reg(mask);
                if self.constant(b) == Some(0) {
                    self.zeroed(dst, ty, mask, a);
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

    pub(super) fn splat(&mut self, dst: VReg, ty: Type, a: Value) {
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

    /// The numbers 0, 1, 2, … in all lanes of a register.
    pub(super) fn pool_lane_index(&mut self, elem: Elem, width: Width) -> Address<VReg> {
        let numbers: Vec<u64> = (0..u64::from(width.bytes() / elem.size_bytes())).collect();
        self.pool_lanes(elem, width, &numbers)
    }

    pub(super) fn pool_lanes(&mut self, elem: Elem, width: Width, lanes: &[u64]) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        let mut entry: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes().into_iter().take(size)).collect();
        entry.resize(width.bytes() as usize, 0);
        self.pool_bytes(&entry)
    }

    /// A constant by the bits of each lane.
    pub(super) fn lanes(&mut self, dst: VReg, ty: Type, lanes: &[u64]) {
        let width = Self::width_of(ty);
        let address = self.pool_lanes(ty.elem, width, lanes);
        let code = codes::LOAD_F32.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).mem(&address));
    }

    /// The lanes of two vectors one behind the other.
    pub(super) fn join(&mut self, dst: VReg, ty: Type, low: Value, high: Value) -> Result<(), CodegenError> {
        let (row, half) = match ty.size_bytes() {
            64 => (codes::INSERT256_Z, View::Y),
            32 => (codes::INSERT128_Y, View::X),
            _ => return Err(CodegenError::Unsupported { what: "halves of less than 128 bits" }),
        };
        let view = Self::width_of(ty).view();
        let high = self.rm_with(high, false);
        let low = self.reg(low);
        let code = row.code(self.encoding);
        self.push(MachInst::new(code).def(dst, view).reg(low, view).rm(&high, half).imm8(1));
        Ok(())
    }

    /// Lanes of 32 bits of two vectors, or of one that is given twice, by number.
    pub(super) fn permute(&mut self, dst: VReg, ty: Type, [a, b]: [Value; 2], from: Value) -> Result<(), CodegenError> {
        let Some(Op::Lanes(numbers)) = &self.ops[from.0 as usize] else {
            return Err(CodegenError::Unsupported { what: "a permutation that is no constant" });
        };
        let numbers = numbers.clone();
        let (width, lanes) = (Self::width_of(ty), u64::from(ty.lanes));
        let view = width.view();
        match self.encoding {
            Encoding::Evex if a == b && width != Width::X => {
                let a = self.rm_with(a, false);
                let from = self.reg(from);
                let code = codes::PERM_F32.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(from, view).rm(&a, view));
            }
            Encoding::Evex => {
                let b = self.rm_with(b, false);
                let (a, from) = (self.reg(a), self.reg(from));
                let code = codes::PERM2_F32.code(self.encoding, width);
                self.push(MachInst::new(code).modify(a, dst, view).reg(from, view).rm(&b, view));
            }
            Encoding::Vex => {
                let of_b = |&n: &u64| a != b && n >= lanes;
                if !numbers.iter().any(of_b) {
                    let own: Vec<u64> = numbers.iter().map(|n| n % lanes).collect();
                    self.permute_one(dst, width, a, &own);
                    return Ok(());
                }
                let blend = numbers.iter().rev().fold(0, |bits, n| bits << 1 | u8::from(of_b(n)));
                let (low, high) = (self.fresh(VECTOR), self.fresh(VECTOR));
                // What the other vector gives may be anything here.
                let own = |second: bool| -> Vec<u64> {
                    let kept = |(at, n): (usize, &u64)| if of_b(n) == second { n % lanes } else { at as u64 };
                    numbers.iter().enumerate().map(kept).collect()
                };
                self.permute_one(low, width, a, &own(false));
                self.permute_one(high, width, b, &own(true));
                let code = codes::BLEND_F32.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(low, view).reg(high, view).imm8(blend));
            }
        }
        Ok(())
    }

    /// Lanes of one vector of up to 256 bits by numbers below theirs, with AVX2.
    fn permute_one(&mut self, dst: VReg, width: Width, a: Value, numbers: &[u64]) {
        let view = width.view();
        if numbers.iter().zip(0..).all(|(&n, at)| n == at) {
            let a = self.reg(a);
            self.push(MachInst::new(codes::MOVE.code(self.encoding, width)).def(dst, view).reg(a, view));
            return;
        }
        if width == Width::X {
            let a = self.reg(a);
            let number = numbers.iter().rev().fold(0, |bits, &lane| bits << 2 | lane as u8);
            let code = codes::SHUF_F32.code(self.encoding, width);
            self.push(MachInst::new(code).def(dst, view).reg(a, view).reg(a, view).imm8(number));
            return;
        }
        let a = self.rm_with(a, false);
        let (from, address) = (self.fresh(VECTOR), self.pool_lanes(Elem::I32, width, numbers));
        let load = codes::LOAD_F32.code(self.encoding, width);
        self.push(MachInst::new(load).def(from, view).mem(&address));
        let code = codes::PERM_F32.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, view).reg(from, view).rm(&a, view));
    }

    pub(super) fn high_half(&mut self, dst: VReg, ty: Type, a: Value) {
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

    /// Two lanes of each operand, in each group of four.
    pub(super) fn shuffle(&mut self, dst: VReg, ty: Type, a: Value, b: Value, lanes: [u8; 4]) {
        let width = Self::width_of(ty);
        let (code, view) = (codes::SHUF_F32.code(self.encoding, width), width.view());
        let (a, b) = (self.reg(a), self.reg(b));
        let number = lanes.iter().rev().fold(0, |bits, lane| bits << 2 | lane);
        self.push(MachInst::new(code).def(dst, view).reg(a, view).reg(b, view).imm8(number));
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
}
