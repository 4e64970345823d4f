//! Comparisons, of scalar floats and of vectors of any type.

use super::Selector;
use super::mask::{greater_than, int_of_size, mask_elem};
use crate::CodegenError;
use crate::vir::{Cond, Elem, Op, Type, Value};
use crate::wide::codes;
use crate::wide::inst::{Encoding, Flag, INT, MASK, MachInst, RegMem, VECTOR, View, Width};
use iced_x86::{Code, OpKind};
use regalloc2::VReg;

/// The bit of a predicate, of floats or integers, that turns it into its opposite, which holds where something is NaN if the
/// predicate does not.
const INVERTED: u8 = 4;

impl Selector<'_> {
    pub(super) fn compare(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) -> Result<(), CodegenError> {
        let ty = self.ty(a);
        if ty.lanes == 1 {
            self.compare_scalars(dst, cond, a, b);
            return Ok(());
        }
        match self.encoding {
            Encoding::Evex => self.compare_evex(dst, cond, a, b, None),
            Encoding::Vex if ty.elem.is_float() => {
                let width = Self::width_of(ty);
                let row = if ty.elem == Elem::F64 { codes::CMP_F64 } else { codes::CMP_F32 };
                let code = row.code(self.encoding, width);
                let view = width.view();
                let b = self.rm(b);
                let a = self.reg(a);
                let elem = int_of_size(ty.elem);
                let lanes = ty.lanes;
                let raw = if elem == mask_elem(lanes) { dst } else { self.fresh(VECTOR) };
                self.push(MachInst::new(code).def(raw, view).reg(a, view).rm(&b, view).imm8(float_predicate(cond)));
                self.canonical_mask(dst, raw, lanes, elem);
            }
            Encoding::Vex => self.compare_ints_vex(dst, ty, cond, a, b),
        }
        Ok(())
    }

    /// AVX-512: a comparison of vectors, only `within` the lanes of a mask if there is one.
    pub(super) fn compare_evex(&mut self, dst: VReg, cond: Cond, a: Value, b: Value, within: Option<VReg>) {
        let inst = self.comparison(dst, cond, a, b, false);
        self.push(match within {
            None => inst,
            // Comparisons always clear the lanes that are off.
            Some(mask) => inst.masked_by(mask),
        });
    }

    /// AVX-512: where a mask is off that nobody but what is selected here reads, if it compares vectors.
    pub(super) fn off(&mut self, mask: Value) -> Option<VReg> {
        let Some(&Op::Compare(cond, a, b)) = self.only_here(mask) else { return None };
        let off = self.fresh(MASK);
        let inst = self.comparison(off, cond, a, b, true);
        self.push(inst);
        Some(off)
    }

    /// AVX-512: the instruction that compares vectors, or tells where a comparison does not hold.
    fn comparison(&mut self, dst: VReg, cond: Cond, a: Value, b: Value, inverted: bool) -> MachInst {
        let ty = self.ty(a);
        let width = Self::width_of(ty);
        let view = width.view();
        let unsigned = matches!(cond, Cond::LtU | Cond::LeU);
        let row = match ty.elem {
            Elem::F32 => codes::CMP_F32,
            Elem::F64 => codes::CMP_F64,
            elem => {
                let rows = if unsigned {
                    [codes::PCMPU_I8, codes::PCMPU_I16, codes::PCMPU_I32, codes::PCMPU_I64]
                } else {
                    [codes::PCMP_I8, codes::PCMP_I16, codes::PCMP_I32, codes::PCMP_I64]
                };
                rows[elem.size_bytes().trailing_zeros() as usize]
            }
        };
        let predicate = if ty.elem.is_float() { float_predicate(cond) } else { int_predicate(cond) };
        let b = self.rm(b);
        let a = self.reg(a);
        let inst = MachInst::new(row.code(self.encoding, width)).def(dst, View::K).reg(a, view).rm(&b, view);
        inst.imm8(if inverted { predicate ^ INVERTED } else { predicate })
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
            Cond::Eq | Cond::Ordered => (equal, false, false),
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
            Cond::Eq | Cond::Ne | Cond::Ordered => return self.scalar_floats_by_mask(dst, cond, a, b),
        };
        let second = self.rm(second);
        let first = self.reg(first);
        self.push(MachInst::new(ucomi).reg(first, View::X).rm(&second, View::X));
        self.set_flag(dst, flag);
    }

    fn scalar_floats_by_mask(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) {
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

/// Predicates of `vpcmpd` and `vpcmpud`.
const fn int_predicate(cond: Cond) -> u8 {
    match cond {
        Cond::Eq | Cond::Ordered => 0,
        Cond::Lt | Cond::LtU => 1,
        Cond::Le | Cond::LeU => 2,
        Cond::Ne => 4,
        Cond::Ge => 5,
        Cond::Gt => 6,
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
        Cond::Ordered => 7,
    }
}
