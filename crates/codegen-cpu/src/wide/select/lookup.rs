//! Functions of bytes, given as tables.
//!
//! With AVX-512, a table of 256 bytes is 64 double words, of which two permutations find one each among half of them; the
//! byte's highest bit chooses between the two, and its lowest two say which byte of the double word it is. With AVX2, where
//! a permutation sees eight double words, lanes are looked up one by one.

use super::memory::{lane_inst, no_overlap, temporaries};
use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{Elem, Type, Value};
use crate::wide::alloc::RAX;
use crate::wide::codes;
use crate::wide::inst::{Address, Encoding, MASK, MachInst, RegMem, VECTOR, View, Width};
use crate::wide::lanes::LaneOp;
use infc_ir::math::Table;
use regalloc2::{Operand, VReg};

/// Bytes of the vectors that hold parts of a table.
const PART: i32 = 64;

impl Selector<'_> {
    pub(super) fn lookup(&mut self, dst: VReg, ty: Type, base: Value, disp: i32, index: Value) {
        match self.encoding {
            Encoding::Evex => self.lookup_permuted(dst, base, disp, index),
            Encoding::Vex => self.lookup_lanes(dst, ty, base, disp, index),
        }
    }

    /// In whole registers, whatever the number of lanes: what lies above them is dropped in the end.
    fn lookup_permuted(&mut self, dst: VReg, base: Value, disp: i32, index: Value) {
        let (width, view) = (Width::Z, View::Z);
        let byte = self.reg(index);
        let word = self.fresh(VECTOR);
        self.shift_by(codes::PSRLI_I32, word, byte, width, 2);
        let halves = [0, 2].map(|part| {
            let (first, found) = (self.fresh(VECTOR), self.fresh(VECTOR));
            let address = self.address(base, disp + part * PART);
            self.push(MachInst::new(codes::LOAD_F32.code(self.encoding, width)).def(first, view).mem(&address));
            let second = RegMem::Mem(self.address(base, disp + (part + 1) * PART));
            let code = codes::PERM2_F32.code(self.encoding, width);
            self.push(MachInst::new(code).modify(first, found, view).reg(word, view).rm(&second, view));
            found
        });
        let (is_upper, found) = (self.fresh(MASK), self.fresh(VECTOR));
        let splat = |this: &mut Self, n| Address { broadcast: true, ..this.pool_scalar(Elem::I32, n) };
        let highest = RegMem::Mem(splat(self, 0x80));
        let code = codes::PTESTM_I32.code(self.encoding, width);
        self.push(MachInst::new(code).def(is_upper, View::K).reg(byte, view).rm(&highest, view));
        let code = codes::BLENDM_I32.code(self.encoding, width);
        let blend = MachInst::new(code).def(found, view).reg(halves[0], view).reg(halves[1], view);
        self.push(blend.masked_by(is_upper));
        let [bits, place, shifted] = [(); 3].map(|()| self.fresh(VECTOR));
        self.shift_by(codes::PSLLI_I32, bits, byte, width, 3);
        let within = RegMem::Mem(splat(self, 0x18));
        self.packed(codes::PAND, place, width, bits, &within);
        self.packed(codes::PSRLV_I32, shifted, width, found, &RegMem::Reg(place));
        let code = codes::PMOV_I32_I8.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, View::X).reg(shifted, view));
    }

    /// One lane of a table in a whole register, which the lowest four bits of each lane choose, whatever the number of lanes: what
    /// lies above them is dropped.
    pub(super) fn constant_of_table(&mut self, dst: VReg, table: Table, a: Value) -> Result<(), CodegenError> {
        if self.encoding == Encoding::Vex {
            return Err(unsupported("tables of constants"));
        }
        let (width, view) = (Width::Z, View::Z);
        let a = self.reg(a);
        let table = RegMem::Mem(self.pool_lanes(Elem::F32, width, &table.values().map(u64::from)));
        let code = codes::PERM_F32.code(self.encoding, width);
        self.push(MachInst::new(code).def(dst, view).reg(a, view).rm(&table, view));
        Ok(())
    }

    fn lookup_lanes(&mut self, dst: VReg, ty: Type, base: Value, disp: i32, index: Value) {
        let width = Self::width_of(self.ty(index));
        let (base, index) = (self.reg(base), self.reg(index));
        let mut inst = lane_inst(LaneOp::Lookup { lanes: ty.lanes, width, disp });
        inst.operand(Operand::reg_use(base));
        inst.operand(Operand::reg_use(index));
        inst.operand(Operand::reg_def(dst));
        inst.clobbers = temporaries(&[RAX]);
        self.push(no_overlap(inst));
    }
}
