//! Loads, stores, gathers and scatters of every type.
//!
//! A vector narrower than 128 bits is moved with exactly its bytes: nothing outside a buffer is ever touched. Its lanes
//! beyond the end hold anything, so masks for it are cut to its lanes first.

use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{Elem, Type, Value};
use crate::wide::codes::{self, Packed};
use crate::wide::inst::{Address, Encoding, INT, Kind, MASK, MachInst, VECTOR, View, Width};
use crate::wide::lanes::LaneOp;
use iced_x86::{Code, OpKind};
use regalloc2::{Operand, PReg, PRegSet, VReg};

use crate::wide::alloc::{RAX, RCX, RDX};

impl Selector<'_> {
    pub(super) fn width_of(ty: Type) -> Width {
        Width::of_bits(ty.size_bytes() * 8)
    }

    pub(super) fn load(&mut self, dst: VReg, ty: Type, base: Value, disp: i32) -> Result<(), CodegenError> {
        let address = self.address(base, disp);
        let encoding = self.encoding;
        let inst = match (ty.elem, ty.lanes) {
            (Elem::I64, 1) => MachInst::new(Code::Mov_r64_rm64).def(dst, View::R64),
            (Elem::I32, 1) => MachInst::new(Code::Mov_r32_rm32).def(dst, View::R32),
            (Elem::I16 | Elem::F16 | Elem::BF16, 1) => MachInst::new(Code::Movzx_r32_rm16).def(dst, View::R32),
            (Elem::I8, 1) => MachInst::new(Code::Movzx_r32_rm8).def(dst, View::R32),
            (Elem::F32, 1) => MachInst::new(codes::LOAD_SF32.code(encoding)).def(dst, View::X),
            (Elem::F64, 1) => MachInst::new(codes::LOAD_SF64.code(encoding)).def(dst, View::X),
            _ => match ty.size_bytes() {
                2 => {
                    let bits = self.fresh(INT);
                    self.push(MachInst::new(Code::Movzx_r32_rm16).def(bits, View::R32).mem(&address));
                    let code = codes::MOVD_TO_XMM.code(encoding);
                    self.push(MachInst::new(code).def(dst, View::X).reg(bits, View::R32));
                    return Ok(());
                }
                4 => MachInst::new(codes::MOVD_TO_XMM.code(encoding)).def(dst, View::X),
                8 => MachInst::new(codes::MOVQ_TO_XMM.code(encoding)).def(dst, View::X),
                _ => {
                    let width = Self::width_of(ty);
                    MachInst::new(codes::LOAD_F32.code(encoding, width)).def(dst, width.view())
                }
            },
        };
        self.push(inst.mem(&address));
        Ok(())
    }

    /// The splat of one element in memory.
    pub(super) const fn splat_from_memory(&self, elem: Elem) -> Packed {
        match elem {
            Elem::I8 => codes::SPLAT_I8,
            Elem::I16 | Elem::F16 | Elem::BF16 => codes::SPLAT_I16,
            Elem::I32 | Elem::F32 | Elem::Mask => codes::SPLAT_MEM_F32,
            Elem::I64 | Elem::F64 => codes::SPLAT_I64,
        }
    }

    pub(super) fn load_splat(
        &mut self,
        dst: VReg,
        ty: Type,
        base: Value,
        disp: i32,
        period: u16,
    ) -> Result<(), CodegenError> {
        let address = self.address(base, disp);
        let width = Self::width_of(ty);
        let packed = match u32::from(period) * ty.elem.size_bytes() {
            _ if period == 1 => self.splat_from_memory(ty.elem),
            2 => codes::SPLAT_I16,
            4 => codes::SPLAT_MEM_F32,
            8 => codes::SPLAT_I64,
            16 => codes::SPLAT_MEM_128,
            32 => codes::SPLAT_MEM_256,
            _ => return Err(unsupported("so many neighbours that all of a vector gets")),
        };
        let code = packed.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, width.view()).mem(&address));
        Ok(())
    }

    pub(super) fn load_masked(
        &mut self,
        dst: VReg,
        ty: Type,
        base: Value,
        disp: i32,
        mask: Value,
    ) -> Result<(), CodegenError> {
        let width = Self::width_of(ty);
        match self.encoding {
            Encoding::Evex => {
                let mask = self.exact_mask(mask, ty);
                let address = self.address(base, disp);
                let code = by_size(ty.elem, LOADS).code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, width.view()).mem(&address).zeroed_by(mask));
            }
            Encoding::Vex if ty.elem.size_bytes() >= 4 => {
                let mask = self.vector_mask(mask, ty.elem);
                let address = self.address(base, disp);
                let code = wide_or_narrow(ty.elem, codes::MASKLOAD_I32, codes::MASKLOAD_I64);
                let code = code.code(self.encoding, width);
                self.push(MachInst::new(code).def(dst, width.view()).reg(mask, width.view()).mem(&address));
            }
            Encoding::Vex => {
                let mask = self.vector_mask(mask, ty.elem);
                let address = self.address(base, disp);
                let base = self.plain_address(&address);
                let mut inst = lane_inst(LaneOp::LoadMasked { elem: ty.elem, lanes: ty.lanes, width });
                inst.operand(Operand::reg_use(base));
                inst.operand(Operand::reg_use(mask));
                inst.operand(Operand::reg_def(dst));
                inst.clobbers = temporaries(&[RAX]);
                self.push(no_overlap(inst));
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        value: Value,
        base: Value,
        disp: i32,
        mask: Option<Value>,
    ) -> Result<(), CodegenError> {
        let ty = self.ty(value);
        match mask {
            None => self.store_whole(value, ty, base, disp),
            Some(mask) => self.store_masked(value, ty, base, disp, mask),
        }
        Ok(())
    }

    /// Asks for a line. Processors without the instruction pass over it.
    pub(super) fn prefetch(&mut self, base: Value, disp: i32, write: bool) {
        let address = self.address(base, disp);
        let code = if write { Code::Prefetchw_m8 } else { Code::Prefetcht0_m8 };
        self.push(MachInst::new(code).mem(&address));
    }

    fn store_whole(&mut self, value: Value, ty: Type, base: Value, disp: i32) {
        if ty.lanes == 1 && !ty.elem.is_float() {
            return self.store_int(value, ty.elem, base, disp);
        }
        let reg = self.reg(value);
        let address = self.address(base, disp);
        let encoding = self.encoding;
        let inst = match (ty.elem, ty.lanes) {
            (Elem::F32, 1) => MachInst::new(codes::STORE_SF32.code(encoding)).mem(&address).reg(reg, View::X),
            (Elem::F64, 1) => MachInst::new(codes::STORE_SF64.code(encoding)).mem(&address).reg(reg, View::X),
            _ => match ty.size_bytes() {
                2 => MachInst::new(codes::PEXTR_I16.code(encoding)).mem(&address).reg(reg, View::X).imm8(0),
                4 => MachInst::new(codes::MOVD_FROM_XMM.code(encoding)).mem(&address).reg(reg, View::X),
                8 => MachInst::new(codes::MOVQ_FROM_XMM.code(encoding)).mem(&address).reg(reg, View::X),
                _ => {
                    let width = Self::width_of(ty);
                    MachInst::new(codes::STORE_F32.code(encoding, width)).mem(&address).reg(reg, width.view())
                }
            },
        };
        self.push(inst);
    }

    fn store_int(&mut self, value: Value, elem: Elem, base: Value, disp: i32) {
        let (code, view) = match elem {
            Elem::I64 => (Code::Mov_rm64_r64, View::R64),
            Elem::I32 => (Code::Mov_rm32_r32, View::R32),
            Elem::I16 | Elem::F16 | Elem::BF16 => (Code::Mov_rm16_r16, View::R16),
            _ => (Code::Mov_rm8_r8, View::R8),
        };
        if let Some(constant) = self.small_constant(value) {
            let (code, kind) = match elem {
                Elem::I64 => (Code::Mov_rm64_imm32, OpKind::Immediate32to64),
                Elem::I32 => (Code::Mov_rm32_imm32, OpKind::Immediate32),
                Elem::I16 | Elem::F16 | Elem::BF16 => (Code::Mov_rm16_imm16, OpKind::Immediate16),
                _ => (Code::Mov_rm8_imm8, OpKind::Immediate8),
            };
            let address = self.address(base, disp);
            self.push(MachInst::new(code).mem(&address).imm(kind, i64::from(constant)));
            return;
        }
        let reg = self.reg(value);
        let address = self.address(base, disp);
        self.push(MachInst::new(code).mem(&address).reg(reg, view));
    }

    fn store_masked(&mut self, value: Value, ty: Type, base: Value, disp: i32, mask: Value) {
        let reg = self.reg(value);
        let width = Self::width_of(ty);
        if self.encoding == Encoding::Vex
            && ty.elem.size_bytes() >= 4
            && let Some(bits) = self.constant(mask)
            && self.store_first(reg, ty, base, disp, bits)
        {
            return;
        }
        match self.encoding {
            Encoding::Evex => {
                let mask = self.exact_mask(mask, ty);
                let address = self.address(base, disp);
                let code = by_size(ty.elem, STORES).code(self.encoding, width);
                self.push(MachInst::new(code).mem(&address).reg(reg, width.view()).masked_by(mask));
            }
            Encoding::Vex if ty.elem.size_bytes() >= 4 => {
                let mask = self.vector_mask(mask, ty.elem);
                let address = self.address(base, disp);
                let code = wide_or_narrow(ty.elem, codes::MASKSTORE_I32, codes::MASKSTORE_I64);
                let code = code.code(self.encoding, width);
                self.push(MachInst::new(code).mem(&address).reg(mask, width.view()).reg(reg, width.view()));
            }
            Encoding::Vex => {
                let mask = self.vector_mask(mask, ty.elem);
                let address = self.address(base, disp);
                let base = self.plain_address(&address);
                let mut inst = lane_inst(LaneOp::StoreMasked { elem: ty.elem, lanes: ty.lanes, width });
                inst.operand(Operand::reg_use(base));
                inst.operand(Operand::reg_use(mask));
                inst.operand(Operand::reg_use(reg));
                inst.clobbers = temporaries(&[RAX]);
                self.push(no_overlap(inst));
            }
        }
    }

    /// An address in one register.
    fn plain_address(&mut self, address: &Address<VReg>) -> VReg {
        let reg = self.fresh(INT);
        self.push(MachInst::new(Code::Lea_r64_m).def(reg, View::R64).mem(address));
        reg
    }

    #[expect(clippy::too_many_arguments, reason = "an address has four parts")]
    pub(super) fn gather(
        &mut self,
        dst: VReg,
        ty: Type,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) -> Result<(), CodegenError> {
        let index_ty = self.ty(index);
        if ty.lanes == 1 {
            return Err(unsupported("a gather of one lane"));
        }
        if let Some(places) = self.known_places(index, scale, disp, mask) {
            self.collect(dst, ty, base, &places);
            return Ok(());
        }
        if ty.elem.size_bytes() < 4 {
            return self.gather_lanes(dst, ty, base, index, scale, disp, mask);
        }
        let row = match (ty.elem.size_bytes(), index_ty.elem) {
            (4, Elem::I32) => codes::GATHER32_I32,
            (8, Elem::I32) => codes::GATHER32_I64,
            (4, _) => codes::GATHER64_I32,
            _ => codes::GATHER64_I64,
        };
        let (data, by) = (Self::width_of(ty), Self::width_of(index_ty));
        let code = row.code(self.encoding, data.max(by));
        let zero = self.fresh(VECTOR);
        self.zero(zero);
        match self.encoding {
            Encoding::Evex => {
                let mask = self.access_mask(mask, ty);
                let address = self.indexed_address(base, index, by, scale, disp);
                let spent = self.fresh(MASK);
                let mut inst = MachInst::new(code).modify(zero, dst, data.view()).mem(&address);
                let mask = inst.operand(Operand::reg_use(mask));
                inst.operand(Operand::reg_reuse_def(spent, usize::from(mask)));
                inst.mask = Some(mask);
                self.push(inst);
            }
            Encoding::Vex => {
                let mask = match mask {
                    Some(mask) => self.vector_mask(mask, ty.elem),
                    None => self.lanes_on(ty),
                };
                let address = self.indexed_address(base, index, by, scale, disp);
                let spent = self.fresh(VECTOR);
                let inst = MachInst::new(code).modify(zero, dst, data.view()).mem(&address);
                self.push(inst.modify(mask, spent, data.view()));
            }
        }
        Ok(())
    }

    fn indexed_address(&mut self, base: Value, index: Value, width: Width, scale: u8, disp: i32) -> Address<VReg> {
        let index = self.reg(index);
        let base = self.reg(base);
        Address {
            base: crate::wide::inst::Base::Reg(base),
            index: Some((index, width.view())),
            scale,
            disp,
            broadcast: false,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an address has four parts")]
    fn gather_lanes(
        &mut self,
        dst: VReg,
        ty: Type,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) -> Result<(), CodegenError> {
        let index_ty = self.ty(index);
        let mask = self.lane_mask(mask, ty);
        let (base, index) = (self.reg(base), self.reg(index));
        let op = LaneOp::Gather {
            elem: ty.elem,
            index: index_ty.elem,
            lanes: ty.lanes,
            widths: (Self::width_of(ty), Self::width_of(index_ty)),
            scale,
            disp,
        };
        let mut inst = lane_inst(op);
        inst.operand(Operand::reg_use(base));
        inst.operand(Operand::reg_use(mask));
        inst.operand(Operand::reg_use(index));
        inst.operand(Operand::reg_def(dst));
        inst.clobbers = temporaries(&[RAX, RCX, RDX]);
        self.push(no_overlap(inst));
        Ok(())
    }

    pub(super) fn scatter(
        &mut self,
        value: Value,
        base: Value,
        index: Value,
        scale: u8,
        disp: i32,
        mask: Option<Value>,
    ) -> Result<(), CodegenError> {
        let (ty, index_ty) = (self.ty(value), self.ty(index));
        if ty.lanes == 1 {
            return Err(unsupported("a scatter of one lane"));
        }
        let (data, by) = (Self::width_of(ty), Self::width_of(index_ty));
        if self.encoding == Encoding::Evex && ty.elem.size_bytes() >= 4 {
            let row = match (ty.elem.size_bytes(), index_ty.elem) {
                (4, Elem::I32) => codes::SCATTER32_I32,
                (8, Elem::I32) => codes::SCATTER32_I64,
                (4, _) => codes::SCATTER64_I32,
                _ => codes::SCATTER64_I64,
            };
            let mask = self.access_mask(mask, ty);
            let address = self.indexed_address(base, index, by, scale, disp);
            let reg = self.reg(value);
            let spent = self.fresh(MASK);
            let mut inst = MachInst::new(row.code(self.encoding, data.max(by))).mem(&address).reg(reg, data.view());
            let mask = inst.operand(Operand::reg_use(mask));
            inst.operand(Operand::reg_reuse_def(spent, usize::from(mask)));
            inst.mask = Some(mask);
            self.push(inst);
            return Ok(());
        }
        let mask = self.lane_mask(mask, ty);
        let (base, index, reg) = (self.reg(base), self.reg(index), self.reg(value));
        let op =
            LaneOp::Scatter { elem: ty.elem, index: index_ty.elem, lanes: ty.lanes, widths: (data, by), scale, disp };
        let mut inst = lane_inst(op);
        inst.operand(Operand::reg_use(base));
        inst.operand(Operand::reg_use(mask));
        inst.operand(Operand::reg_use(index));
        inst.operand(Operand::reg_use(reg));
        inst.clobbers = temporaries(&[RAX, RCX, RDX]);
        self.push(no_overlap(inst));
        Ok(())
    }

    /// A mask register that gathers and scatters may use up: never the only copy of a mask.
    fn access_mask(&mut self, mask: Option<Value>, ty: Type) -> VReg {
        match mask {
            Some(mask) => self.exact_mask(mask, ty),
            None => self.mask_constant(ty.mask(), u64::MAX),
        }
    }
}

/// Registers that a lane-by-lane instruction uses on the side.
pub(super) fn temporaries(numbers: &[usize]) -> PRegSet {
    numbers.iter().fold(PRegSet::empty(), |set, &n| set.with(PReg::new(n, INT)))
}

/// A lane-by-lane instruction.
pub(super) fn lane_inst(op: LaneOp) -> MachInst {
    MachInst::of_kind(Kind::Lanes(Box::new(op)), Code::INVALID)
}

/// Operands of a lane-by-lane instruction stay readable to its end, so that neither its results nor the registers it
/// uses on the side may lie on them.
pub(super) fn no_overlap(mut inst: MachInst) -> MachInst {
    for operand in &mut inst.operands {
        if operand.kind() == regalloc2::OperandKind::Use {
            *operand = Operand::reg_use_at_end(operand.vreg());
        }
    }
    inst
}

/// The row for an element size.
const fn by_size(elem: Elem, rows: [Packed; 4]) -> Packed {
    match elem.size_bytes() {
        1 => rows[0],
        2 => rows[1],
        8 => rows[3],
        _ => rows[2],
    }
}

const LOADS: [Packed; 4] = [codes::LOAD_I8, codes::LOAD_I16, codes::LOAD_I32, codes::LOAD_I64];
const STORES: [Packed; 4] = [codes::STORE_I8, codes::STORE_I16, codes::STORE_I32, codes::STORE_I64];

const fn wide_or_narrow(elem: Elem, narrow: Packed, wide: Packed) -> Packed {
    if elem.size_bytes() == 8 { wide } else { narrow }
}
