//! Masks of more than one lane.
//!
//! With AVX-512 they live in mask registers, and bits beyond the lanes hold anything; where that matters
//! ([`Selector::exact_mask`]) they are cut off. With AVX2 they live in vector registers, all bits of a lane alike. The
//! width of a lane then depends on the number of lanes alone ([`mask_elem`]), and whoever works on elements of another
//! width converts.

use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{BinaryOp, Cond, Elem, Op, Type, UnaryOp, Value};
use crate::wide::codes::{self, Packed};
use crate::wide::inst::{Encoding, INT, MASK, MachInst, RegMem, VECTOR, View, Width};
use iced_x86::{Code, OpKind};
use regalloc2::VReg;

/// The integers whose lanes AVX2 masks of so many lanes have.
pub(super) const fn mask_elem(lanes: u16) -> Elem {
    match lanes {
        0..=4 => Elem::I64,
        5..=8 => Elem::I32,
        9..=16 => Elem::I16,
        _ => Elem::I8,
    }
}

impl Selector<'_> {
    fn mask_width(lanes: u16) -> Width {
        Width::of_bits(mask_elem(lanes).size_bytes() * 8 * u32::from(lanes))
    }

    /// AVX2: a constant mask; bit i is lane i.
    pub(super) fn make_mask(&mut self, dst: VReg, ty: Type, bits: u64) {
        let elem = mask_elem(ty.lanes);
        self.vector_from_bits(dst, elem, ty.lanes, bits);
    }

    /// AVX-512: the register of a constant mask. It is made once, where the function begins: there are seven such
    /// registers, few masks, and two instructions to make one.
    pub(super) fn mask_constant(&mut self, ty: Type, bits: u64) -> VReg {
        let bits = bits & (u64::MAX >> (64 - u32::from(ty.lanes.clamp(1, 64))));
        if let Some(&reg) = self.mask_constants.get(&bits) {
            return reg;
        }
        let reg = self.fresh(MASK);
        self.mask_constants.insert(bits, reg);
        reg
    }

    /// Makes the constant masks that anybody asked for.
    pub(super) fn make_mask_constants(&mut self) {
        for (bits, reg) in std::mem::take(&mut self.mask_constants) {
            let number = self.fresh(INT);
            self.load_int(number, bits.cast_signed());
            self.push(MachInst::new(Code::VEX_Kmovq_kr_r64).def(reg, View::K).reg(number, View::R64));
        }
        self.flush();
    }

    /// A constant vector whose lanes are all ones where the bit is set.
    fn vector_from_bits(&mut self, dst: VReg, elem: Elem, lanes: u16, bits: u64) {
        let size = elem.size_bytes() as usize;
        let mut entry = Vec::with_capacity(32);
        for lane in 0..lanes {
            let byte = if bits >> lane & 1 == 1 { 0xff } else { 0 };
            entry.extend(std::iter::repeat_n(byte, size));
        }
        let width = Width::of_bits(entry.len() as u32 * 8);
        entry.resize(width.bytes() as usize, 0);
        let address = self.pool_bytes(&entry);
        let code = codes::LOAD_F32.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).mem(&address));
    }

    /// AVX2: a vector that sets exactly the lanes of a type, none beyond.
    pub(super) fn lanes_on(&mut self, ty: Type) -> VReg {
        let reg = self.fresh(VECTOR);
        self.vector_from_bits(reg, int_of_size(ty.elem), ty.lanes, u64::MAX);
        reg
    }

    /// AVX-512: the mask without bits beyond the lanes of a type, for accesses to memory.
    pub(super) fn exact_mask(&mut self, mask: Value, ty: Type) -> VReg {
        let reg = self.reg(mask);
        let hardware_lanes = Self::width_of(ty).bytes() / ty.elem.size_bytes().max(1);
        let clean = matches!(self.ops[mask.0 as usize], Some(Op::FirstLanes(_) | Op::Const(_)));
        if clean || hardware_lanes == u32::from(ty.lanes) {
            return reg;
        }
        let (up, down) = (self.fresh(MASK), self.fresh(MASK));
        let distance = 64 - ty.lanes as u8;
        self.push(MachInst::new(Code::VEX_Kshiftlq_kr_kr_imm8).def(up, View::K).reg(reg, View::K).imm8(distance));
        self.push(MachInst::new(Code::VEX_Kshiftrq_kr_kr_imm8).def(down, View::K).reg(up, View::K).imm8(distance));
        down
    }

    /// AVX2: the mask with lanes as wide as the elements it is to select among; zero beyond the lanes.
    pub(super) fn vector_mask(&mut self, mask: Value, elem: Elem) -> VReg {
        let lanes = self.ty(mask).lanes;
        if let Some(bits) = self.constant(mask) {
            let reg = self.fresh(VECTOR);
            self.vector_from_bits(reg, int_of_size(elem), lanes, bits);
            return reg;
        }
        let reg = self.reg(mask);
        self.convert_mask(reg, lanes, mask_elem(lanes), int_of_size(elem))
    }

    /// AVX2: changes the width of a mask's lanes.
    pub(super) fn convert_mask(&mut self, reg: VReg, lanes: u16, from: Elem, to: Elem) -> VReg {
        match from.size_bytes().cmp(&to.size_bytes()) {
            std::cmp::Ordering::Equal => reg,
            std::cmp::Ordering::Less => {
                let dst = self.fresh(VECTOR);
                let width = Width::of_bits(to.size_bytes() * 8 * u32::from(lanes));
                self.widen_vector(dst, RegMem::Reg(reg), from, to, width, true);
                dst
            }
            std::cmp::Ordering::Greater => {
                let dst = self.fresh(VECTOR);
                self.narrow_vex(dst, reg, from, to, lanes);
                dst
            }
        }
    }

    /// For lane-by-lane work: the mask as a number with one bit per lane, or as a vector with AVX2.
    pub(super) fn lane_mask(&mut self, mask: Option<Value>, ty: Type) -> VReg {
        let dst = self.fresh(INT);
        match mask {
            Some(mask) => self.bits_of(dst, mask),
            None => self.load_int(dst, (u64::MAX >> (64 - u32::from(ty.lanes))).cast_signed()),
        }
        dst
    }

    /// `dst` = the lanes as bits.
    pub(super) fn mask_to_bits(&mut self, dst: VReg, mask: Value) -> Result<(), CodegenError> {
        self.bits_of(dst, mask);
        Ok(())
    }

    fn bits_of(&mut self, dst: VReg, mask: Value) {
        let lanes = self.ty(mask).lanes;
        let reg = self.reg(mask);
        if lanes == 1 {
            self.push(MachInst::new(Code::Mov_r32_rm32).def(dst, View::R32).reg(reg, View::R32));
            return;
        }
        match self.encoding {
            Encoding::Evex => match lanes {
                64 => self.push(MachInst::new(Code::VEX_Kmovq_r64_kr).def(dst, View::R64).reg(reg, View::K)),
                32 => self.push(MachInst::new(Code::VEX_Kmovd_r32_kr).def(dst, View::R32).reg(reg, View::K)),
                16 => self.push(MachInst::new(Code::VEX_Kmovw_r32_kr).def(dst, View::R32).reg(reg, View::K)),
                8 => self.push(MachInst::new(Code::VEX_Kmovb_r32_kr).def(dst, View::R32).reg(reg, View::K)),
                _ => {
                    let all = self.fresh(INT);
                    self.push(MachInst::new(Code::VEX_Kmovb_r32_kr).def(all, View::R32).reg(reg, View::K));
                    let keep = (1 << lanes) - 1;
                    self.push(
                        MachInst::new(Code::And_rm32_imm8)
                            .modify(all, dst, View::R32)
                            .imm(OpKind::Immediate8to32, keep),
                    );
                }
            },
            Encoding::Vex => {
                let width = Self::mask_width(lanes);
                let (code, reg, width) = match mask_elem(lanes) {
                    Elem::I64 if width == Width::X => (Code::VEX_Vmovmskpd_r32_xmm, reg, width),
                    Elem::I64 => (Code::VEX_Vmovmskpd_r32_ymm, reg, width),
                    Elem::I32 => (Code::VEX_Vmovmskps_r32_ymm, reg, width),
                    Elem::I16 => {
                        let bytes = self.convert_mask(reg, lanes, Elem::I16, Elem::I8);
                        (Code::VEX_Vpmovmskb_r32_xmm, bytes, Width::X)
                    }
                    _ => (Code::VEX_Vpmovmskb_r32_ymm, reg, width),
                };
                self.push(MachInst::new(code).def(dst, View::R32).reg(reg, width.view()));
            }
        }
    }

    /// The mask whose first `n` lanes are set.
    pub(super) fn first_lanes(&mut self, dst: VReg, ty: Type, n: Value) -> Result<(), CodegenError> {
        if ty.lanes == 1 {
            return self.int_operation(dst, ty, &Op::FirstLanes(n));
        }
        let n = self.reg(n);
        let count = self.fresh(INT);
        self.clamp(count, n, i64::from(ty.lanes));
        match self.encoding {
            Encoding::Evex => {
                let (ones, bits) = (self.fresh(INT), self.fresh(INT));
                self.load_int(ones, -1);
                self.push(
                    MachInst::new(Code::VEX_Bzhi_r64_rm64_r64)
                        .def(bits, View::R64)
                        .reg(ones, View::R64)
                        .reg(count, View::R64),
                );
                self.push(MachInst::new(Code::VEX_Kmovq_kr_r64).def(dst, View::K).reg(bits, View::R64));
            }
            Encoding::Vex => {
                let elem = mask_elem(ty.lanes);
                let width = Self::mask_width(ty.lanes);
                let splat = self.fresh(VECTOR);
                self.splat_int(splat, count, elem, width);
                let index = self.pool_lane_index(elem, width);
                let code = greater_than(elem).code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, width.view()).reg(splat, width.view()).mem(&index));
            }
        }
        Ok(())
    }

    /// Everything else that gives a mask.
    pub(super) fn mask_operation(&mut self, dst: VReg, ty: Type, op: &Op) -> Result<(), CodegenError> {
        match self.encoding {
            Encoding::Evex => self.mask_operation_evex(dst, ty, op),
            Encoding::Vex => self.mask_operation_vex(dst, ty, op),
        }
    }

    fn mask_operation_evex(&mut self, dst: VReg, ty: Type, op: &Op) -> Result<(), CodegenError> {
        let three = |s: &mut Self, code: Code, dst: VReg, a: VReg, b: VReg| {
            s.push(MachInst::new(code).def(dst, View::K).reg(a, View::K).reg(b, View::K));
        };
        match *op {
            Op::Binary(kind, a, b) => {
                if kind == BinaryOp::And {
                    for (mask, other) in [(a, b), (b, a)] {
                        if let Some((cond, x, y)) = self.own_comparison(other) {
                            let mask = self.reg(mask);
                            self.compare_evex(dst, cond, x, y, Some(mask));
                            return Ok(());
                        }
                    }
                }
                let code = match kind {
                    BinaryOp::And => Code::VEX_Kandq_kr_kr_kr,
                    BinaryOp::Or => Code::VEX_Korq_kr_kr_kr,
                    BinaryOp::Xor => Code::VEX_Kxorq_kr_kr_kr,
                    _ => return Err(unsupported("arithmetic on masks")),
                };
                let (a, b) = (self.reg(a), self.reg(b));
                three(self, code, dst, a, b);
            }
            Op::Unary(UnaryOp::Not, a) => {
                let a = self.reg(a);
                self.push(MachInst::new(Code::VEX_Knotq_kr_kr).def(dst, View::K).reg(a, View::K));
            }
            Op::Select(mask, a, b) => {
                let (mask, a, b) = (self.reg(mask), self.reg(a), self.reg(b));
                let (yes, no) = (self.fresh(MASK), self.fresh(MASK));
                three(self, Code::VEX_Kandq_kr_kr_kr, yes, mask, a);
                three(self, Code::VEX_Kandnq_kr_kr_kr, no, mask, b);
                three(self, Code::VEX_Korq_kr_kr_kr, dst, yes, no);
            }
            Op::Splat(a) => {
                let a = self.reg(a);
                let ones = self.fresh(INT);
                self.push(MachInst::new(Code::Neg_rm64).modify(a, ones, View::R64));
                self.push(MachInst::new(Code::VEX_Kmovq_kr_r64).def(dst, View::K).reg(ones, View::R64));
            }
            Op::HighHalf(a) => {
                let a = self.reg(a);
                let code = Code::VEX_Kshiftrq_kr_kr_imm8;
                self.push(MachInst::new(code).def(dst, View::K).reg(a, View::K).imm8(ty.lanes as u8));
            }
            Op::Join(low, high) => {
                let code = match ty.lanes {
                    16 => Code::VEX_Kunpckbw_kr_kr_kr,
                    32 => Code::VEX_Kunpckwd_kr_kr_kr,
                    64 => Code::VEX_Kunpckdq_kr_kr_kr,
                    _ => return Err(unsupported("halves of a mask of less than eight lanes")),
                };
                let (low, high) = (self.reg(low), self.reg(high));
                three(self, code, dst, high, low);
            }
            _ => return Err(unsupported("an operation on masks")),
        }
        Ok(())
    }

    /// A comparison of vectors whose only use is the present one: its instruction can leave lanes out by itself.
    fn own_comparison(&self, value: Value) -> Option<(Cond, Value, Value)> {
        let n = value.0 as usize;
        let own = self.uses[n] == 1 && !self.needed[n] && self.home[n].block == self.here.block;
        match self.ops[n] {
            Some(Op::Compare(cond, a, b)) if own => Some((cond, a, b)),
            _ => None,
        }
    }

    fn mask_operation_vex(&mut self, dst: VReg, ty: Type, op: &Op) -> Result<(), CodegenError> {
        let width = Self::mask_width(ty.lanes);
        let view = width.view();
        match *op {
            Op::Binary(kind, a, b) => {
                let row = match kind {
                    BinaryOp::And => codes::PAND,
                    BinaryOp::Or => codes::POR,
                    BinaryOp::Xor => codes::PXOR,
                    _ => return Err(unsupported("arithmetic on masks")),
                };
                let (a, b) = (self.reg(a), self.reg(b));
                let code = row.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(a, view).reg(b, view));
            }
            Op::Unary(UnaryOp::Not, a) => {
                let a = self.reg(a);
                self.invert(dst, a, width);
            }
            Op::Select(mask, a, b) => {
                let (mask, a, b) = (self.reg(mask), self.reg(a), self.reg(b));
                let code = codes::BLENDV.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, view).reg(b, view).reg(a, view).reg(mask, view));
            }
            Op::Splat(a) => {
                let a = self.reg(a);
                let ones = self.fresh(INT);
                self.push(MachInst::new(Code::Neg_rm64).modify(a, ones, View::R64));
                self.splat_int(dst, ones, Elem::I32, width);
            }
            Op::LowHalf(a) | Op::HighHalf(a) => {
                let from = mask_elem(self.ty(a).lanes);
                let a = self.reg(a);
                // 4 lanes fill 256 bits and 2 lanes 128, of the same width; otherwise lanes double theirs.
                let half = match op {
                    Op::HighHalf(_) => {
                        let half = self.fresh(VECTOR);
                        let code = codes::EXTRACT128_Y.code(self.encoding);
                        self.push(MachInst::new(code).def(half, View::X).reg(a, View::Y).imm8(1));
                        half
                    }
                    _ => a,
                };
                let to = mask_elem(ty.lanes);
                if from == to {
                    let code = codes::MOVE.code(self.encoding, width);
                    self.push(MachInst::new(code).def(dst, view).reg(half, view));
                } else {
                    self.widen_vector(dst, RegMem::Reg(half), from, to, width, true);
                }
            }
            _ => return Err(unsupported("an operation on masks")),
        }
        Ok(())
    }

    /// `dst = ¬a`
    pub(super) fn invert(&mut self, dst: VReg, a: VReg, width: Width) {
        let ones = self.pool_splat(Elem::I64, u64::MAX, width);
        let code = codes::PXOR.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).reg(a, width.view()).mem(&ones));
    }

    /// One lane of a mask as 0 or 1.
    pub(super) fn extract_mask(&mut self, dst: VReg, mask: Value, lane: u16) {
        let bits = self.fresh(INT);
        self.bits_of(bits, mask);
        let moved = self.fresh(INT);
        self.push(MachInst::new(Code::Shr_rm64_imm8).modify(bits, moved, View::R64).imm8(lane as u8));
        self.push(MachInst::new(Code::And_rm32_imm8).modify(moved, dst, View::R32).imm(OpKind::Immediate8to32, 1));
    }
}

/// The integers of the same size.
pub(super) const fn int_of_size(elem: Elem) -> Elem {
    match elem.size_bytes() {
        1 => Elem::I8,
        2 => Elem::I16,
        8 => Elem::I64,
        _ => Elem::I32,
    }
}

/// Signed `a > b`, giving a vector.
pub(super) const fn greater_than(elem: Elem) -> Packed {
    match elem {
        Elem::I8 => codes::PCMPGT_I8,
        Elem::I16 => codes::PCMPGT_I16,
        Elem::I64 => codes::PCMPGT_I64,
        _ => codes::PCMPGT_I32,
    }
}
