//! Scalar integers and one-lane masks: what lives in general-purpose registers.
//!
//! An integer narrower than 64 bits leaves the high bits of its register undefined (I32 operations write zeros there,
//! nobody relies on it); whoever needs them extends first. A one-lane mask is 0 or 1 in the whole register.

use super::{Selector, unsupported};
use crate::CodegenError;
use crate::vir::{BinaryOp, Cond, Elem, Op, Type, UnaryOp, Value};
use crate::wide::alloc::{RAX, RDX};
use crate::wide::inst::{Address, Base, Flag, INT, MachInst, View};
use crate::wide::lanes::LaneOp;
use iced_x86::{Code, OpKind};
use regalloc2::{Operand, PReg, PRegSet, VReg};

/// The view in which an element is computed with.
const fn view_of(elem: Elem) -> View {
    match elem {
        Elem::I64 => View::R64,
        _ => View::R32,
    }
}

/// One of two codes, for 32 or 64 bits.
const fn sized(view: View, narrow: Code, wide: Code) -> Code {
    match view {
        View::R64 => wide,
        _ => narrow,
    }
}

impl Selector<'_> {
    /// Any constant into a general-purpose register, in the shortest way.
    pub(super) fn load_int(&mut self, dst: VReg, value: i64) {
        // Not `xor` for zero: flags may be live.
        let inst = if u32::try_from(value).is_ok() {
            MachInst::new(Code::Mov_r32_imm32).def(dst, View::R32).imm(OpKind::Immediate32, value)
        } else if i32::try_from(value).is_ok() {
            MachInst::new(Code::Mov_rm64_imm32).def(dst, View::R64).imm(OpKind::Immediate32to64, value)
        } else {
            MachInst::new(Code::Mov_r64_imm64).def(dst, View::R64).imm(OpKind::Immediate64, value)
        };
        self.push(inst);
    }

    /// `next = iv + step`
    pub(super) fn add_step(&mut self, iv: VReg, next: VReg, step: i64) {
        match i32::try_from(step) {
            Ok(step) => self.add_constant(iv, next, View::R64, step),
            Err(_) => {
                let amount = self.fresh(INT);
                self.load_int(amount, step);
                self.push(MachInst::new(Code::Add_r64_rm64).modify(iv, next, View::R64).reg(amount, View::R64));
            }
        }
    }

    fn add_constant(&mut self, a: VReg, dst: VReg, view: View, value: i32) {
        let inst = if i8::try_from(value).is_ok() {
            let (code, kind) = match view {
                View::R64 => (Code::Add_rm64_imm8, OpKind::Immediate8to64),
                _ => (Code::Add_rm32_imm8, OpKind::Immediate8to32),
            };
            MachInst::new(code).modify(a, dst, view).imm(kind, i64::from(value))
        } else {
            let (code, kind) = match view {
                View::R64 => (Code::Add_rm64_imm32, OpKind::Immediate32to64),
                _ => (Code::Add_rm32_imm32, OpKind::Immediate32),
            };
            MachInst::new(code).modify(a, dst, view).imm(kind, i64::from(value))
        };
        self.push(inst);
    }

    /// Sets the flags for `reg` against an I64 value.
    pub(super) fn compare_to(&mut self, reg: VReg, value: Value) {
        let inst = match self.small_constant(value) {
            Some(n) if i8::try_from(n).is_ok() => {
                MachInst::new(Code::Cmp_rm64_imm8).reg(reg, View::R64).imm(OpKind::Immediate8to64, i64::from(n))
            }
            Some(n) => {
                MachInst::new(Code::Cmp_rm64_imm32).reg(reg, View::R64).imm(OpKind::Immediate32to64, i64::from(n))
            }
            None => {
                let other = self.reg(value);
                MachInst::new(Code::Cmp_r64_rm64).reg(reg, View::R64).reg(other, View::R64)
            }
        };
        self.push(inst);
    }

    /// Sets the flags for a one-lane mask; a comparison with no other use is made right here.
    pub(super) fn condition(&mut self, cond: Value) -> Result<Flag, CodegenError> {
        if let Some(Op::Compare(kind, a, b)) = self.ops[cond.0 as usize]
            && !self.needed[cond.0 as usize]
            && !self.ty(a).elem.is_float()
        {
            return Ok(self.int_flags(kind, a, b));
        }
        let reg = self.reg(cond);
        self.push(MachInst::new(Code::Test_rm32_r32).reg(reg, View::R32).reg(reg, View::R32));
        Ok(Flag::NotEqual)
    }

    /// Compares two scalar integers.
    fn int_flags(&mut self, cond: Cond, a: Value, b: Value) -> Flag {
        let elem = self.ty(a).elem;
        let flag = match cond {
            Cond::Eq | Cond::Ordered => Flag::Equal,
            Cond::Ne => Flag::NotEqual,
            Cond::Lt => Flag::Less,
            Cond::Le => Flag::LessOrEqual,
            Cond::Gt => Flag::Greater,
            Cond::Ge => Flag::GreaterOrEqual,
            Cond::LtU => Flag::Below,
            Cond::LeU => Flag::BelowOrEqual,
        };
        if elem == Elem::I64 {
            let a = self.reg(a);
            self.compare_to(a, b);
            return flag;
        }
        let signed = !matches!(cond, Cond::LtU | Cond::LeU);
        let (a, b) = (self.extended(a, signed), self.extended(b, signed));
        self.push(MachInst::new(Code::Cmp_r32_rm32).reg(a, View::R32).reg(b, View::R32));
        flag
    }

    /// A scalar integer of at most 32 bits with its value in all 32.
    pub(super) fn extended(&mut self, value: Value, signed: bool) -> VReg {
        let reg = self.reg(value);
        let (code, view) = match (self.ty(value).elem, signed) {
            (Elem::I8, true) => (Code::Movsx_r32_rm8, View::R8),
            (Elem::I8, false) => (Code::Movzx_r32_rm8, View::R8),
            (Elem::I16, true) => (Code::Movsx_r32_rm16, View::R16),
            (Elem::I16, false) => (Code::Movzx_r32_rm16, View::R16),
            _ => return reg,
        };
        let wide = self.fresh(INT);
        self.push(MachInst::new(code).def(wide, View::R32).reg(reg, view));
        wide
    }

    /// `dst = 0 or 1` by a flag.
    pub(super) fn set_flag(&mut self, dst: VReg, flag: Flag) {
        let code = match flag {
            Flag::Below => Code::Setb_rm8,
            Flag::AboveOrEqual => Code::Setae_rm8,
            Flag::Equal => Code::Sete_rm8,
            Flag::NotEqual => Code::Setne_rm8,
            Flag::BelowOrEqual => Code::Setbe_rm8,
            Flag::Above => Code::Seta_rm8,
            Flag::Less => Code::Setl_rm8,
            Flag::GreaterOrEqual => Code::Setge_rm8,
            Flag::LessOrEqual => Code::Setle_rm8,
            Flag::Greater => Code::Setg_rm8,
        };
        let byte = self.fresh(INT);
        self.push(MachInst::new(code).def(byte, View::R8));
        self.push(MachInst::new(Code::Movzx_r32_rm8).def(dst, View::R32).reg(byte, View::R8));
    }

    /// `dst = flag ? yes : no`
    fn move_if(&mut self, dst: VReg, flag: Flag, yes: VReg, no: VReg, view: View) {
        let (narrow, wide) = match flag {
            Flag::Below => (Code::Cmovb_r32_rm32, Code::Cmovb_r64_rm64),
            Flag::AboveOrEqual => (Code::Cmovae_r32_rm32, Code::Cmovae_r64_rm64),
            Flag::Equal => (Code::Cmove_r32_rm32, Code::Cmove_r64_rm64),
            Flag::NotEqual => (Code::Cmovne_r32_rm32, Code::Cmovne_r64_rm64),
            Flag::BelowOrEqual => (Code::Cmovbe_r32_rm32, Code::Cmovbe_r64_rm64),
            Flag::Above => (Code::Cmova_r32_rm32, Code::Cmova_r64_rm64),
            Flag::Less => (Code::Cmovl_r32_rm32, Code::Cmovl_r64_rm64),
            Flag::GreaterOrEqual => (Code::Cmovge_r32_rm32, Code::Cmovge_r64_rm64),
            Flag::LessOrEqual => (Code::Cmovle_r32_rm32, Code::Cmovle_r64_rm64),
            Flag::Greater => (Code::Cmovg_r32_rm32, Code::Cmovg_r64_rm64),
        };
        self.push(MachInst::new(sized(view, narrow, wide)).modify(no, dst, view).reg(yes, view));
    }

    /// `dst = min(max(n, 0), limit)` for an I64.
    pub(super) fn clamp(&mut self, dst: VReg, n: VReg, limit: i64) {
        let (top, zero, capped) = (self.fresh(INT), self.fresh(INT), self.fresh(INT));
        self.load_int(top, limit);
        self.load_int(zero, 0);
        self.push(MachInst::new(Code::Cmp_r64_rm64).reg(n, View::R64).reg(top, View::R64));
        self.move_if(capped, Flag::Greater, top, n, View::R64);
        self.push(MachInst::new(Code::Test_rm64_r64).reg(capped, View::R64).reg(capped, View::R64));
        self.move_if(dst, Flag::Less, zero, capped, View::R64);
    }

    /// Comparisons of scalars of any type.
    pub(super) fn compare_scalars(&mut self, dst: VReg, cond: Cond, a: Value, b: Value) {
        if self.ty(a).elem.is_float() {
            self.compare_scalar_floats(dst, cond, a, b);
        } else {
            let flag = self.int_flags(cond, a, b);
            self.set_flag(dst, flag);
        }
    }

    /// Scalar integers and one-lane masks.
    pub(super) fn int_operation(&mut self, dst: VReg, ty: Type, op: &Op) -> Result<(), CodegenError> {
        match *op {
            Op::Unary(kind, a) => self.int_unary(dst, ty, kind, a),
            Op::Binary(kind, a, b) => self.int_binary(dst, ty, kind, a, b),
            Op::Select(mask, a, b) => {
                let (yes, no) = (self.reg(a), self.reg(b));
                let flag = self.condition(mask)?;
                self.move_if(dst, flag, yes, no, View::R64);
                Ok(())
            }
            Op::FirstLanes(n) => {
                let n = self.reg(n);
                self.push(MachInst::new(Code::Test_rm64_r64).reg(n, View::R64).reg(n, View::R64));
                self.set_flag(dst, Flag::Greater);
                Ok(())
            }
            Op::Splat(a) | Op::LowHalf(a) if self.ty(a).lanes == 1 => {
                let a = self.reg(a);
                self.push(MachInst::new(Code::Mov_r64_rm64).def(dst, View::R64).reg(a, View::R64));
                Ok(())
            }
            Op::LowHalf(a) => self.extract(dst, ty, a, 0),
            Op::HighHalf(a) => self.extract(dst, ty, a, 1),
            _ => Err(unsupported("a scalar integer operation")),
        }
    }

    fn int_unary(&mut self, dst: VReg, ty: Type, kind: UnaryOp, a: Value) -> Result<(), CodegenError> {
        let view = view_of(ty.elem);
        match kind {
            UnaryOp::Not if ty.elem == Elem::Mask => {
                let a = self.reg(a);
                self.push(MachInst::new(Code::Xor_rm32_imm8).modify(a, dst, view).imm(OpKind::Immediate8to32, 1));
            }
            UnaryOp::Not => {
                let a = self.reg(a);
                self.push(MachInst::new(sized(view, Code::Not_rm32, Code::Not_rm64)).modify(a, dst, view));
            }
            UnaryOp::Neg => {
                let a = self.reg(a);
                self.push(MachInst::new(sized(view, Code::Neg_rm32, Code::Neg_rm64)).modify(a, dst, view));
            }
            UnaryOp::Abs => {
                let a = self.extended(a, true);
                let negated = self.fresh(INT);
                self.push(MachInst::new(sized(view, Code::Neg_rm32, Code::Neg_rm64)).modify(a, negated, view));
                self.push(
                    MachInst::new(sized(view, Code::Test_rm32_r32, Code::Test_rm64_r64)).reg(a, view).reg(a, view),
                );
                self.move_if(dst, Flag::Less, negated, a, view);
            }
            _ => return Err(unsupported("rounding of integers")),
        }
        Ok(())
    }

    fn int_binary(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let view = view_of(ty.elem);
        let plain = |narrow: Code, wide: Code| sized(view, narrow, wide);
        let (code, immediate) = match kind {
            BinaryOp::Add => {
                (plain(Code::Add_r32_rm32, Code::Add_r64_rm64), Some(plain(Code::Add_rm32_imm32, Code::Add_rm64_imm32)))
            }
            BinaryOp::Sub => {
                (plain(Code::Sub_r32_rm32, Code::Sub_r64_rm64), Some(plain(Code::Sub_rm32_imm32, Code::Sub_rm64_imm32)))
            }
            BinaryOp::And => {
                (plain(Code::And_r32_rm32, Code::And_r64_rm64), Some(plain(Code::And_rm32_imm32, Code::And_rm64_imm32)))
            }
            BinaryOp::Or => {
                (plain(Code::Or_r32_rm32, Code::Or_r64_rm64), Some(plain(Code::Or_rm32_imm32, Code::Or_rm64_imm32)))
            }
            BinaryOp::Xor => {
                (plain(Code::Xor_r32_rm32, Code::Xor_r64_rm64), Some(plain(Code::Xor_rm32_imm32, Code::Xor_rm64_imm32)))
            }
            BinaryOp::Mul => (plain(Code::Imul_r32_rm32, Code::Imul_r64_rm64), None),
            BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU => return self.shift(dst, ty, kind, a, b),
            BinaryOp::Scale => return Err(unsupported("an exponent of integers")),
            BinaryOp::Min | BinaryOp::Max | BinaryOp::MinU | BinaryOp::MaxU => {
                return self.int_min_max(dst, ty, kind, a, b);
            }
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::DivU | BinaryOp::RemU => {
                self.divide(dst, kind, a, b);
                return Ok(());
            }
        };
        let imm_kind = if view == View::R64 { OpKind::Immediate32to64 } else { OpKind::Immediate32 };
        if let Some(constant) = self.small_constant(b) {
            if kind == BinaryOp::Mul {
                let a = self.reg(a);
                let code = sized(view, Code::Imul_r32_rm32_imm32, Code::Imul_r64_rm64_imm32);
                self.push(MachInst::new(code).def(dst, view).reg(a, view).imm(imm_kind, i64::from(constant)));
                return Ok(());
            }
            let dies = self.dies_here(a);
            let a = self.reg(a);
            if kind == BinaryOp::Add {
                if dies {
                    self.add_constant(a, dst, view, constant);
                } else {
                    self.load_address(dst, a, None, constant);
                }
                return Ok(());
            }
            if let Some(code) = immediate {
                self.push(MachInst::new(code).modify(a, dst, view).imm(imm_kind, i64::from(constant)));
                return Ok(());
            }
        }
        // The operand that is needed no more gives its register to the result.
        let commutes = kind != BinaryOp::Sub;
        let exchange = commutes && !self.dies_here(a) && self.dies_here(b);
        let neither_dies = !self.dies_here(a) && !self.dies_here(b);
        let (a, b) = if exchange { (b, a) } else { (a, b) };
        let (a, b) = (self.reg(a), self.reg(b));
        if kind == BinaryOp::Add && neither_dies {
            self.load_address(dst, a, Some(b), 0);
            return Ok(());
        }
        self.push(MachInst::new(code).modify(a, dst, view).reg(b, view));
        Ok(())
    }

    /// `dst = a + b + disp` without touching the operands; high bits do not matter for narrow types.
    fn load_address(&mut self, dst: VReg, a: VReg, b: Option<VReg>, disp: i32) {
        let index = b.map(|b| (b, View::R64));
        let address = Address { base: Base::Reg(a), index, scale: 1, disp, broadcast: false };
        self.push(MachInst::new(Code::Lea_r64_m).def(dst, View::R64).mem(&address));
    }

    fn shift(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let view = view_of(ty.elem);
        let a = match kind {
            BinaryOp::Shl => self.reg(a),
            _ => self.extended(a, kind == BinaryOp::ShrS),
        };
        if let Some(amount) = self.constant(b) {
            let code = match kind {
                BinaryOp::Shl => sized(view, Code::Shl_rm32_imm8, Code::Shl_rm64_imm8),
                BinaryOp::ShrS => sized(view, Code::Sar_rm32_imm8, Code::Sar_rm64_imm8),
                _ => sized(view, Code::Shr_rm32_imm8, Code::Shr_rm64_imm8),
            };
            self.push(MachInst::new(code).modify(a, dst, view).imm8(amount as u8));
            return Ok(());
        }
        // BMI2 shifts take the amount in any register and use as many low bits as the width has.
        let b = self.extended(b, false);
        let code = match kind {
            BinaryOp::Shl => sized(view, Code::VEX_Shlx_r32_rm32_r32, Code::VEX_Shlx_r64_rm64_r64),
            BinaryOp::ShrS => sized(view, Code::VEX_Sarx_r32_rm32_r32, Code::VEX_Sarx_r64_rm64_r64),
            _ => sized(view, Code::VEX_Shrx_r32_rm32_r32, Code::VEX_Shrx_r64_rm64_r64),
        };
        self.push(MachInst::new(code).def(dst, view).reg(a, view).reg(b, view));
        Ok(())
    }

    fn int_min_max(&mut self, dst: VReg, ty: Type, kind: BinaryOp, a: Value, b: Value) -> Result<(), CodegenError> {
        let view = view_of(ty.elem);
        let (flag, signed) = match kind {
            BinaryOp::Min => (Flag::Less, true),
            BinaryOp::Max => (Flag::Greater, true),
            BinaryOp::MinU => (Flag::Below, false),
            _ => (Flag::Above, false),
        };
        let (a, b) = (self.extended(a, signed), self.extended(b, signed));
        self.push(MachInst::new(sized(view, Code::Cmp_r32_rm32, Code::Cmp_r64_rm64)).reg(a, view).reg(b, view));
        self.move_if(dst, flag, a, b, view);
        Ok(())
    }

    /// Division and remainder through `rdx:rax`. Types below 64 bits divide as 64-bit numbers, which can not overflow.
    fn divide(&mut self, dst: VReg, kind: BinaryOp, a: Value, b: Value) {
        let signed = matches!(kind, BinaryOp::Div | BinaryOp::Rem);
        let quotient = matches!(kind, BinaryOp::Div | BinaryOp::DivU);
        let (a, b) = (self.widened(a, signed), self.widened(b, signed));
        let mut inst =
            MachInst::of_kind(crate::wide::inst::Kind::Lanes(Box::new(LaneOp::Divide { signed })), Code::INVALID);
        let (wanted, other) = if quotient { (RAX, RDX) } else { (RDX, RAX) };
        // The operands are read throughout: rdx is written before the divisor is used.
        inst.operand(Operand::reg_fixed_use(a, PReg::new(RAX, INT)));
        inst.operand(Operand::reg_use_at_end(b));
        inst.operand(Operand::reg_fixed_def(dst, PReg::new(wanted, INT)));
        inst.clobbers = PRegSet::empty().with(PReg::new(other, INT));
        self.push(inst);
    }

    /// A scalar integer with its value in all 64 bits.
    pub(super) fn widened(&mut self, value: Value, signed: bool) -> VReg {
        let reg = self.reg(value);
        self.widened_register(reg, self.ty(value).elem, signed)
    }

    /// As [`Self::widened`].
    pub(super) fn widened_register(&mut self, reg: VReg, elem: Elem, signed: bool) -> VReg {
        let wide = self.fresh(INT);
        let inst = match (elem, signed) {
            (Elem::I64, _) => return reg,
            (Elem::I8, true) => MachInst::new(Code::Movsx_r64_rm8).def(wide, View::R64).reg(reg, View::R8),
            (Elem::I8, false) => MachInst::new(Code::Movzx_r32_rm8).def(wide, View::R32).reg(reg, View::R8),
            (Elem::I16, true) => MachInst::new(Code::Movsx_r64_rm16).def(wide, View::R64).reg(reg, View::R16),
            (Elem::I16, false) => MachInst::new(Code::Movzx_r32_rm16).def(wide, View::R32).reg(reg, View::R16),
            (_, true) => MachInst::new(Code::Movsxd_r64_rm32).def(wide, View::R64).reg(reg, View::R32),
            (_, false) => MachInst::new(Code::Mov_r32_rm32).def(wide, View::R32).reg(reg, View::R32),
        };
        self.push(inst);
        wide
    }
}
