//! Conversions between element types.
//!
//! `bfloat16` (but for rounding to it by an instruction), and binary16 from and to `f64`, are spelled out in `vir` before
//! selection ([`crate::vir::expand`]).

use super::memory::{lane_inst, no_overlap, temporaries};
use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{Convert, Elem, Op, Type, Value};
use crate::wide::alloc::RAX;
use crate::wide::codes::{self, Packed, Single};
use crate::wide::inst::{Encoding, INT, MachInst, RegMem, VECTOR, View, Width};
use crate::wide::lanes::LaneOp;
use iced_x86::Code;
use regalloc2::{Operand, VReg};

impl Selector<'_> {
    pub(super) fn convert(&mut self, dst: VReg, ty: Type, kind: Convert, a: Value) -> Result<(), CodegenError> {
        let from = self.ty(a);
        if kind == Convert::Bitcast {
            return self.bitcast(dst, ty, a);
        }
        if ty.lanes == 1 {
            return self.convert_scalar(dst, ty.elem, kind, a);
        }
        let width = Self::width_of(ty);
        let view = width.view();
        match (kind, from.elem, ty.elem) {
            (Convert::SignExtend | Convert::ZeroExtend, _, _) => {
                let source = self.exact_rm(a, ty);
                self.widen_vector(dst, source, from.elem, ty.elem, width, kind == Convert::SignExtend);
            }
            (Convert::Truncate, _, _) => self.truncate(dst, from, ty, a)?,
            (Convert::MaskToInt, _, _) => self.mask_to_int(dst, ty, a),
            (Convert::IntToFloat, Elem::I32, Elem::F32) => {
                let a = self.rm(a);
                let code = codes::CVT_I32_F32.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).rm(&a, view));
            }
            (Convert::IntToFloat, Elem::I32, Elem::F64) => self.by_result(codes::CVT_I32_F64, dst, ty, a),
            (Convert::FloatToInt, Elem::F32, Elem::I32) => self.by_result(codes::CVTT_F32_I32, dst, ty, a),
            (Convert::FloatToIntRound, Elem::F32, Elem::I32) => self.by_result(codes::CVT_F32_I32, dst, ty, a),
            (Convert::FloatToInt, Elem::F64, Elem::I32) => self.by_source(codes::CVTT_F64_I32, dst, ty, a),
            (Convert::FloatToIntRound, Elem::F64, Elem::I32) => self.by_source(codes::CVT_F64_I32, dst, ty, a),
            (Convert::Float, Elem::F32, Elem::F64) => self.by_result(codes::CVT_F32_F64, dst, ty, a),
            (Convert::Float, Elem::F64, Elem::F32) => self.by_source(codes::CVT_F64_F32, dst, ty, a),
            // Left by `expand` where subnormal numbers may become zero.
            (Convert::Float, Elem::F32, Elem::BF16) => self.by_source(codes::CVT_F32_BF16, dst, ty, a),
            (Convert::Float, Elem::F16, Elem::F32) => {
                // From memory it takes no lanes across the register, which is half of the instruction's work.
                let source = Self::width_of(from);
                let a = self.exact_rm(a, ty);
                self.push(
                    MachInst::new(codes::CVT_F16_F32.code(self.encoding, width)).def(dst, view).rm(&a, source.view()),
                );
            }
            (Convert::Float, Elem::F32, Elem::F16) => {
                let width = Self::width_of(from);
                let a = self.reg(a);
                let code = codes::CVT_F32_F16.code(self.encoding, width);
                let half = narrower(width).view();
                self.push(MachInst::new(code).def(dst, half).reg(a, width.view()).imm8(0));
            }
            // What is left has 64-bit integers, which only AVX-512 converts.
            (Convert::IntToFloat | Convert::FloatToInt | Convert::FloatToIntRound, _, _) => {
                if self.encoding == Encoding::Vex {
                    self.convert_lanes(dst, ty, kind, a);
                    return Ok(());
                }
                match (kind, from.elem, ty.elem) {
                    (Convert::IntToFloat, Elem::I64, Elem::F64) => self.by_result(codes::CVT_I64_F64, dst, ty, a),
                    (Convert::IntToFloat, Elem::I64, Elem::F32) => self.by_source(codes::CVT_I64_F32, dst, ty, a),
                    (Convert::FloatToInt, Elem::F64, Elem::I64) => self.by_result(codes::CVTT_F64_I64, dst, ty, a),
                    (Convert::FloatToIntRound, Elem::F64, Elem::I64) => self.by_result(codes::CVT_F64_I64, dst, ty, a),
                    (Convert::FloatToInt, Elem::F32, Elem::I64) => self.by_result(codes::CVTT_F32_I64, dst, ty, a),
                    (Convert::FloatToIntRound, Elem::F32, Elem::I64) => self.by_result(codes::CVT_F32_I64, dst, ty, a),
                    _ => return Err(unsupported("a conversion between integers and floats")),
                }
            }
            _ => return Err(unsupported("a conversion")),
        }
        Ok(())
    }

    /// A vector operand of a conversion that may be memory of exactly its own size: instructions that fill a register read no
    /// more.
    fn exact_rm(&mut self, value: Value, result: Type) -> RegMem {
        let fills = result.size_bytes() >= 16 && self.ty(value).size_bytes() >= 4;
        match self.ops[value.0 as usize] {
            Some(Op::Load { base, disp, .. }) if self.foldable(value) && fills => RegMem::Mem(self.address(base, disp)),
            _ => RegMem::Reg(self.reg(value)),
        }
    }

    /// A conversion whose code goes by the width of the result, the wider side.
    fn by_result(&mut self, row: Packed, dst: VReg, ty: Type, a: Value) {
        let width = Self::width_of(ty);
        let source = Self::width_of(self.ty(a));
        let a = RegMem::Reg(self.reg(a));
        self.push(MachInst::new(row.code(self.encoding, width)).def(dst, width.view()).rm(&a, source.view()));
    }

    /// A conversion whose code goes by the width of the source, the wider side.
    fn by_source(&mut self, row: Packed, dst: VReg, ty: Type, a: Value) {
        let width = Self::width_of(self.ty(a));
        let result = Self::width_of(ty);
        let a = self.reg(a);
        self.push(MachInst::new(row.code(self.encoding, width)).def(dst, result.view()).reg(a, width.view()));
    }

    /// `dst` = integers extended to a wider type.
    pub(super) fn widen_vector(&mut self, dst: VReg, source: RegMem, from: Elem, to: Elem, width: Width, signed: bool) {
        let row = match (from.size_bytes(), to.size_bytes(), signed) {
            (1, 2, true) => codes::PMOVSX_I8_I16,
            (1, 4, true) => codes::PMOVSX_I8_I32,
            (1, _, true) => codes::PMOVSX_I8_I64,
            (2, 4, true) => codes::PMOVSX_I16_I32,
            (2, _, true) => codes::PMOVSX_I16_I64,
            (_, _, true) => codes::PMOVSX_I32_I64,
            (1, 2, false) => codes::PMOVZX_I8_I16,
            (1, 4, false) => codes::PMOVZX_I8_I32,
            (1, _, false) => codes::PMOVZX_I8_I64,
            (2, 4, false) => codes::PMOVZX_I16_I32,
            (2, _, false) => codes::PMOVZX_I16_I64,
            (_, _, false) => codes::PMOVZX_I32_I64,
        };
        let ratio = to.size_bytes() / from.size_bytes();
        let source_width = Width::of_bits(width.bytes() * 8 / ratio);
        let code = row.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).rm(&source, source_width.view()));
    }

    fn truncate(&mut self, dst: VReg, from: Type, ty: Type, a: Value) -> Result<(), CodegenError> {
        let reg = self.reg(a);
        if self.encoding == Encoding::Vex {
            self.narrow_vex(dst, reg, from.elem, ty.elem, ty.lanes);
            return Ok(());
        }
        let row = match (from.elem, ty.elem) {
            (Elem::I16, Elem::I8) => codes::PMOV_I16_I8,
            (Elem::I32, Elem::I8) => codes::PMOV_I32_I8,
            (Elem::I64, Elem::I8) => codes::PMOV_I64_I8,
            (Elem::I32, Elem::I16) => codes::PMOV_I32_I16,
            (Elem::I64, Elem::I16) => codes::PMOV_I64_I16,
            (Elem::I64, Elem::I32) => codes::PMOV_I64_I32,
            _ => return Err(unsupported("a truncation")),
        };
        let width = Self::width_of(from);
        let result = Self::width_of(ty);
        self.push(MachInst::new(row.code(self.encoding, width)).def(dst, result.view()).reg(reg, width.view()));
        Ok(())
    }

    /// AVX2: drops the high bytes of every lane. Within 128 bits one shuffle does it; the upper half's bytes go to
    /// their final place in theirs and are merged. Bytes beyond the lanes become zero.
    pub(super) fn narrow_vex(&mut self, dst: VReg, reg: VReg, from: Elem, to: Elem, lanes: u16) {
        let (wide, narrow) = (from.size_bytes() as usize, to.size_bytes() as usize);
        let width = Width::of_bits(u32::from(lanes) * wide as u32 * 8);
        let per_half = usize::from(lanes).min(16 / wide);
        let mut control = vec![0x80u8; width.bytes() as usize];
        for lane in 0..usize::from(lanes) {
            let half = lane / per_half;
            for byte in 0..narrow {
                control[half * 16 + lane * narrow + byte] = (lane % per_half * wide + byte) as u8;
            }
        }
        let control = self.pool_bytes(&control);
        let code = codes::PSHUFB.code(self.encoding, width);
        let shuffled = if width == Width::X { dst } else { self.fresh(VECTOR) };
        self.push(MachInst::new(code).def(shuffled, width.view()).reg(reg, width.view()).mem(&control));
        if width != Width::X {
            let high = self.fresh(VECTOR);
            let code = codes::EXTRACT128_Y.code(self.encoding);
            self.push(MachInst::new(code).def(high, View::X).reg(shuffled, View::Y).imm8(1));
            let code = codes::POR.code(self.encoding, Width::X);
            self.push(MachInst::new(code).def(dst, View::X).reg(shuffled, View::X).reg(high, View::X));
        }
    }

    fn mask_to_int(&mut self, dst: VReg, ty: Type, mask: Value) {
        let width = Self::width_of(ty);
        match self.encoding {
            Encoding::Evex => {
                let one = self.pool_scalar(ty.elem, 1);
                let mask = self.reg(mask);
                let code = self.splat_from_memory(ty.elem).code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, width.view()).mem(&one).zeroed_by(mask));
            }
            Encoding::Vex => {
                let ones = self.pool_splat(ty.elem, 1, width);
                let mask = self.vector_mask(mask, ty.elem);
                let code = codes::PAND.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, width.view()).reg(mask, width.view()).mem(&ones));
            }
        }
    }

    /// AVX2: 64-bit integers from and to floats, one by one.
    fn convert_lanes(&mut self, dst: VReg, ty: Type, kind: Convert, a: Value) {
        let from = self.ty(a);
        let reg = self.reg(a);
        let op = LaneOp::Convert {
            kind,
            from: from.elem,
            to: ty.elem,
            lanes: ty.lanes,
            widths: (Self::width_of(ty), Self::width_of(from)),
        };
        let mut inst = lane_inst(op);
        inst.operand(Operand::reg_use(reg));
        inst.operand(Operand::reg_def(dst));
        inst.clobbers = temporaries(&[RAX]);
        self.push(no_overlap(inst));
    }

    /// The same bits in another class of register.
    fn bitcast(&mut self, dst: VReg, ty: Type, a: Value) -> Result<(), CodegenError> {
        let to_int = self.class(ty) == INT;
        let reg = self.reg(a);
        let (row, view): (Single, View) = match (ty.size_bytes(), to_int) {
            (8, true) => (codes::MOVQ_FROM_XMM, View::R64),
            (8, false) => (codes::MOVQ_TO_XMM, View::R64),
            (1 | 2 | 4, true) => (codes::MOVD_FROM_XMM, View::R32),
            (1 | 2 | 4, false) => (codes::MOVD_TO_XMM, View::R32),
            _ => return Err(unsupported("a bitcast")),
        };
        let code = row.code(self.encoding);
        self.push(if to_int {
            MachInst::new(code).def(dst, view).reg(reg, View::X)
        } else {
            MachInst::new(code).def(dst, View::X).reg(reg, view)
        });
        Ok(())
    }

    fn convert_scalar(&mut self, dst: VReg, to: Elem, kind: Convert, a: Value) -> Result<(), CodegenError> {
        let from = self.ty(a).elem;
        match kind {
            Convert::SignExtend | Convert::ZeroExtend => {
                let wide = self.widened(a, kind == Convert::SignExtend);
                self.push(MachInst::new(Code::Mov_r64_rm64).def(dst, View::R64).reg(wide, View::R64));
            }
            Convert::IntToFloat => {
                let row = match (from, to) {
                    (Elem::I32, Elem::F32) => codes::CVT_GPR32_SF32,
                    (Elem::I32, _) => codes::CVT_GPR32_SF64,
                    (_, Elem::F32) => codes::CVT_GPR64_SF32,
                    _ => codes::CVT_GPR64_SF64,
                };
                let view = if from == Elem::I64 { View::R64 } else { View::R32 };
                let reg = self.reg(a);
                // The upper lanes come from a fresh zero: no wait for whoever used the register last.
                let zero = self.fresh(VECTOR);
                self.zero(zero);
                let code = row.code(self.encoding);
                self.push(MachInst::new(code).def(dst, View::X).reg(zero, View::X).reg(reg, view));
            }
            Convert::FloatToInt | Convert::FloatToIntRound => {
                let truncating = kind == Convert::FloatToInt;
                let row = match (from, to, truncating) {
                    (Elem::F32, Elem::I32, true) => codes::CVTT_SF32_GPR32,
                    (Elem::F32, Elem::I32, false) => codes::CVT_SF32_GPR32,
                    (Elem::F32, _, true) => codes::CVTT_SF32_GPR64,
                    (Elem::F32, _, false) => codes::CVT_SF32_GPR64,
                    (_, Elem::I32, true) => codes::CVTT_SF64_GPR32,
                    (_, Elem::I32, false) => codes::CVT_SF64_GPR32,
                    (_, _, true) => codes::CVTT_SF64_GPR64,
                    (_, _, false) => codes::CVT_SF64_GPR64,
                };
                let view = if to == Elem::I64 { View::R64 } else { View::R32 };
                let a = self.rm(a);
                self.push(MachInst::new(row.code(self.encoding)).def(dst, view).rm(&a, View::X));
            }
            Convert::Float => {
                let reg = self.reg(a);
                match (from, to) {
                    (Elem::F32, Elem::F64) | (Elem::F64, Elem::F32) => {
                        let row = if to == Elem::F64 { codes::CVT_SF32_SF64 } else { codes::CVT_SF64_SF32 };
                        let code = row.code(self.encoding);
                        self.push(MachInst::new(code).def(dst, View::X).reg(reg, View::X).reg(reg, View::X));
                    }
                    (Elem::F16, Elem::F32) => {
                        let bits = self.fresh(VECTOR);
                        let code = codes::MOVD_TO_XMM.code(self.encoding);
                        self.push(MachInst::new(code).def(bits, View::X).reg(reg, View::R32));
                        let code = codes::CVT_F16_F32.code(self.encoding, Width::X);
                        self.push(MachInst::new(code).def(dst, View::X).reg(bits, View::X));
                    }
                    (Elem::F32, Elem::F16) => {
                        let bits = self.fresh(VECTOR);
                        let code = codes::CVT_F32_F16.code(self.encoding, Width::X);
                        self.push(MachInst::new(code).def(bits, View::X).reg(reg, View::X).imm8(0));
                        let code = codes::MOVD_FROM_XMM.code(self.encoding);
                        self.push(MachInst::new(code).def(dst, View::R32).reg(bits, View::X));
                    }
                    _ => return Err(unsupported("a conversion between floats")),
                }
            }
            Convert::Truncate | Convert::MaskToInt | Convert::Bitcast => return Err(unsupported("a conversion")),
        }
        Ok(())
    }
}

/// Half the width, at least 128 bits.
const fn narrower(width: Width) -> Width {
    match width {
        Width::Z => Width::Y,
        _ => Width::X,
    }
}
