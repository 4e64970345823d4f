//! Values in registers, in memory and in addresses.

use super::Selector;
use crate::vir::{BinaryOp, Convert, Elem, Op, Type, Value, eval};
use crate::wide::codes;
use crate::wide::inst::{Address, Base, Encoding, INT, MASK, MachInst, RegMem, VECTOR, View, Width};
use regalloc2::{RegClass, VReg};

impl Selector<'_> {
    pub(super) fn ty(&self, value: Value) -> Type {
        self.function.ty(value)
    }

    pub(super) fn class(&self, ty: Type) -> RegClass {
        match ty {
            Type { elem: Elem::Mask, lanes } if lanes > 1 => match self.encoding {
                Encoding::Vex => VECTOR,
                Encoding::Evex => MASK,
            },
            Type { elem, lanes: 1 } if !elem.is_float() => INT,
            _ => VECTOR,
        }
    }

    pub(super) fn fresh(&mut self, class: RegClass) -> VReg {
        let reg = VReg::new(self.next_vreg, class);
        self.next_vreg += 1;
        reg
    }

    /// The register of a value that is no constant.
    pub(super) fn vreg(&mut self, value: Value) -> VReg {
        let value = self.root(value);
        if let Some(reg) = self.vregs[value.0 as usize] {
            return reg;
        }
        let reg = self.fresh(self.class(self.ty(value)));
        self.vregs[value.0 as usize] = Some(reg);
        reg
    }

    /// Follows operations that only give another name to (part of) a register.
    pub(super) fn root(&self, mut value: Value) -> Value {
        while let Some(source) = self.alias(value) {
            value = source;
        }
        value
    }

    /// What a value shares its register with.
    pub(super) fn alias(&self, value: Value) -> Option<Value> {
        let ty = self.ty(value);
        match *self.ops[value.0 as usize].as_ref()? {
            Op::LowHalf(a) if self.vex_mask(ty) => (ty.lanes == 2).then_some(a),
            // The low lane of an integer vector has to move to a general-purpose register.
            Op::LowHalf(a) => (self.class(ty) == self.class(self.ty(a))).then_some(a),
            Op::Extract(a, 0) if ty.elem.is_float() => Some(a),
            Op::Convert(Convert::Bitcast, a) => (self.class(ty) == self.class(self.ty(a))).then_some(a),
            Op::Convert(Convert::MaskToInt, a) if ty.lanes == 1 => Some(a),
            Op::Convert(Convert::Truncate, a) if ty.lanes == 1 => Some(a),
            _ => None,
        }
    }

    pub(super) fn vex_mask(&self, ty: Type) -> bool {
        ty.elem == Elem::Mask && ty.lanes > 1 && self.encoding == Encoding::Vex
    }

    /// The bits of one element of a constant (a mask: all lanes).
    pub(super) fn constant(&self, value: Value) -> Option<u64> {
        match self.ops[value.0 as usize] {
            Some(Op::Const(bits)) => Some(bits),
            _ => None,
        }
    }

    /// The signed value of a scalar integer constant that fits 32 bits.
    pub(super) fn small_constant(&self, value: Value) -> Option<i32> {
        let ty = self.ty(value);
        if ty.lanes != 1 || ty.elem.is_float() {
            return None;
        }
        i32::try_from(eval::sign_extend(ty.elem, self.constant(value)?)).ok()
    }

    /// The value in a register: constants are made in front of the group's next instruction.
    pub(super) fn reg(&mut self, value: Value) -> VReg {
        let root = self.root(value);
        if let Some(bits) = self.constant(root) {
            return self.make_constant(self.ty(root), bits);
        }
        self.needed[root.0 as usize] = true;
        self.vreg(root)
    }

    /// The last use in program order is the present one, and the value does not live on around a loop.
    pub(super) fn dies_here(&self, value: Value) -> bool {
        let root = self.root(value).0 as usize;
        !self.needed[root] && self.home[root].block == self.here.block
    }

    pub(super) fn make_constant(&mut self, ty: Type, bits: u64) -> VReg {
        let class = self.class(ty);
        if class == MASK {
            return self.mask_constant(ty, bits);
        }
        let reg = self.fresh(class);
        if class == INT {
            self.load_int(reg, eval::sign_extend(ty.elem, bits));
            return reg;
        }
        if ty.elem == Elem::Mask {
            self.make_mask(reg, ty, bits);
            return reg;
        }
        if bits == 0 {
            self.zero(reg);
            return reg;
        }
        let width = Width::of_bits(ty.size_bytes() * 8);
        if ty.lanes == 1 {
            let code = match ty.elem {
                Elem::F32 => codes::LOAD_SF32,
                _ => codes::LOAD_SF64,
            };
            let address = self.pool_scalar(ty.elem, bits);
            self.push(MachInst::new(code.code(self.encoding)).def(reg, View::X).mem(&address));
            return reg;
        }
        let address = self.pool_scalar(ty.elem, bits);
        let code = self.splat_from_memory(ty.elem).code(self.encoding, width);
        self.push(MachInst::new(code).def(reg, width.view()).mem(&address));
        reg
    }

    /// All bits zero, by the idiom that costs no execution unit.
    pub(super) fn zero(&mut self, reg: VReg) {
        // Reads of the register are undefined on purpose, which the allocator need not know: the result replaces it.
        let code = codes::PXOR.code(self.encoding, Width::X);
        let mut inst = MachInst::new(code).def(reg, View::X);
        let own = inst.args[0];
        inst.args.push(own);
        inst.args.push(own);
        self.push(inst);
    }

    pub(super) fn pool_scalar(&mut self, elem: Elem, bits: u64) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        self.pool_bytes(&bits.to_le_bytes()[..size])
    }

    pub(super) fn pool_splat(&mut self, elem: Elem, bits: u64, width: Width) -> Address<VReg> {
        let size = elem.size_bytes() as usize;
        let entry = bits.to_le_bytes()[..size].repeat(width.bytes() as usize / size);
        self.pool_bytes(&entry)
    }

    pub(super) fn pool_bytes(&mut self, entry: &[u8]) -> Address<VReg> {
        let offset = self.pool.add(entry);
        Address { base: Base::Pool(offset), index: None, scale: 1, disp: 0, broadcast: false }
    }

    /// The operation of a value that nothing reads but what is selected here, in the same block, so that it can be selected with
    /// it.
    pub(super) fn only_here(&self, value: Value) -> Option<&Op> {
        let n = value.0 as usize;
        let is_free = self.uses[n] == 1 && !self.needed[n] && !self.emitted[n];
        self.ops[n].as_ref().filter(|_| is_free && self.home[n].block == self.here.block)
    }

    /// A vector or float operand that may also be memory: constants, and loads with no other use.
    pub(super) fn rm(&mut self, value: Value) -> RegMem {
        self.rm_with(value, true)
    }

    /// As [`Self::rm`]; `broadcast` tells whether the instruction can splat one element of 32 or 64 bits.
    pub(super) fn rm_with(&mut self, value: Value, broadcast: bool) -> RegMem {
        let ty = self.ty(value);
        let broadcast = broadcast && self.encoding == Encoding::Evex && ty.elem.size_bytes() >= 4;
        let width = Width::of_bits(ty.size_bytes() * 8);
        if let Some(bits) = self.constant(value) {
            if ty.lanes == 1 {
                return RegMem::Mem(self.pool_scalar(ty.elem, bits));
            }
            if broadcast {
                return RegMem::Mem(Address { broadcast: true, ..self.pool_scalar(ty.elem, bits) });
            }
            return RegMem::Mem(self.pool_splat(ty.elem, bits, width));
        }
        if self.foldable(value) {
            let whole = ty.lanes == 1 || ty.size_bytes() == width.bytes();
            match self.ops[value.0 as usize] {
                Some(Op::Load { base, disp, .. }) if whole => return RegMem::Mem(self.address(base, disp)),
                Some(Op::LoadSplat { base, disp, period: 1, .. }) if broadcast => {
                    return RegMem::Mem(Address { broadcast: true, ..self.address(base, disp) });
                }
                _ => {}
            }
        }
        RegMem::Reg(self.reg(value))
    }

    /// A load whose only use is the present one, with no write in between.
    pub(super) fn foldable(&self, value: Value) -> bool {
        let n = value.0 as usize;
        let home = self.home[n];
        matches!(self.ops[n], Some(Op::Load { .. } | Op::LoadSplat { period: 1, .. }))
            && self.uses[n] == 1
            && !self.needed[n]
            && home.block == self.here.block
            && home.epoch == self.here.epoch
    }

    /// Whether an operand would become memory, so that operands are best exchanged to fold it.
    pub(super) fn prefers_memory(&self, value: Value) -> bool {
        self.constant(value).is_some() || self.foldable(value)
    }

    /// A value that only the address arithmetic of the present instruction uses: sums and shifts made in this block
    /// become base, index and scale.
    pub(super) fn address(&mut self, base: Value, disp: i32) -> Address<VReg> {
        let here = |s: &Self, value: Value| s.home[value.0 as usize].block == s.here.block;
        if let Some(Op::Binary(BinaryOp::Add, p, q)) = self.ops[base.0 as usize]
            && here(self, base)
            && self.constant(q).is_none()
            && !self.needed[base.0 as usize]
        {
            for (whole, part) in [(p, q), (q, p)] {
                if let Some(Op::Binary(BinaryOp::Shl, index, amount)) = self.ops[part.0 as usize]
                    && here(self, part)
                    && !self.needed[part.0 as usize]
                    && let Some(amount @ 1..=3) = self.constant(amount)
                {
                    let (base, index) = (self.reg(whole), self.reg(index));
                    let index = Some((index, View::R64));
                    return Address { base: Base::Reg(base), index, scale: 1 << amount, disp, broadcast: false };
                }
            }
            let (base, index) = (self.reg(p), self.reg(q));
            return Address {
                base: Base::Reg(base),
                index: Some((index, View::R64)),
                scale: 1,
                disp,
                broadcast: false,
            };
        }
        Address { base: Base::Reg(self.reg(base)), index: None, scale: 1, disp, broadcast: false }
    }
}
