//! The few forms of instructions that lane-by-lane sequences ([`super::lanes`]) are written with.

use super::assemble::{Assembler, GPR8, named, set_immediate};
use super::codes;
use super::inst::{View, Width};
use super::lanes::Place;
use crate::CodegenError;
use crate::vir::Elem;
use iced_x86::{Code, Instruction, OpKind, Register};
use regalloc2::PReg;

impl Assembler {
    /// The 64-bit name of a general-purpose register.
    pub(super) fn gpr(reg: PReg) -> Register {
        named(reg, View::R64)
    }

    /// The 128-bit name of a vector register.
    pub(super) fn xmm(reg: PReg) -> Register {
        named(reg, View::X)
    }

    /// An instruction on registers alone.
    pub(super) fn registers(&mut self, code: Code, registers: &[Register]) -> Result<(), CodegenError> {
        self.simple(code, registers)
    }

    /// An instruction on a register and a number.
    pub(super) fn immediate(
        &mut self,
        code: Code,
        register: Register,
        kind: OpKind,
        value: i64,
    ) -> Result<(), CodegenError> {
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        encoded.set_op_kind(0, OpKind::Register);
        encoded.set_op_register(0, register);
        encoded.set_op_kind(1, kind);
        set_immediate(&mut encoded, kind, value);
        self.encode(&encoded, None)
    }

    /// An instruction that writes memory from a register.
    pub(super) fn write_memory(&mut self, code: Code, place: Place, register: Register) -> Result<(), CodegenError> {
        self.with_memory(code, 0, place, register)
    }

    /// An instruction that reads memory into a register.
    pub(super) fn read_memory(&mut self, code: Code, register: Register, place: Place) -> Result<(), CodegenError> {
        self.with_memory(code, 1, place, register)
    }

    /// Reads a byte into a lane of a register.
    pub(super) fn insert_byte(&mut self, register: Register, place: Place, lane: u16) -> Result<(), CodegenError> {
        let mut encoded = Instruction::default();
        encoded.set_code(codes::PINSR_I8.code(self.encoding));
        for n in 0..2 {
            encoded.set_op_kind(n, OpKind::Register);
            encoded.set_op_register(n, register);
        }
        memory_at(&mut encoded, 2, place);
        encoded.set_op_kind(3, OpKind::Immediate8);
        encoded.set_immediate8(lane as u8);
        self.encode(&encoded, None)
    }

    fn with_memory(&mut self, code: Code, n: u32, place: Place, register: Register) -> Result<(), CodegenError> {
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        encoded.set_op_kind(1 - n, OpKind::Register);
        encoded.set_op_register(1 - n, register);
        memory_at(&mut encoded, n, place);
        self.encode(&encoded, None)
    }

    /// Writes a whole vector register.
    pub(super) fn store_vector(&mut self, reg: PReg, width: Width, place: Place) -> Result<(), CodegenError> {
        let code = codes::STORE_F32.code(self.encoding, width);
        self.write_memory(code, place, named(reg, width.view()))
    }

    /// Reads a whole vector register.
    pub(super) fn load_vector(&mut self, reg: PReg, width: Width, place: Place) -> Result<(), CodegenError> {
        let code = codes::LOAD_F32.code(self.encoding, width);
        self.read_memory(code, named(reg, width.view()), place)
    }

    /// Writes zeros, by way of a vector register that is free.
    pub(super) fn store_zero(&mut self, width: Width, place: Place, temporary: PReg) -> Result<(), CodegenError> {
        let register = named(temporary, View::X);
        self.simple(codes::PXOR.code(self.encoding, Width::X), &[register; 3])?;
        self.store_vector(temporary, width, place)
    }

    /// Reads an integer of the element's size, extended to 64 bits.
    pub(super) fn load_int(
        &mut self,
        register: Register,
        elem: Elem,
        signed: bool,
        place: Place,
    ) -> Result<(), CodegenError> {
        let code = match (elem.size_bytes(), signed) {
            (1, true) => Code::Movsx_r64_rm8,
            (2, true) => Code::Movsx_r64_rm16,
            (4, true) => Code::Movsxd_r64_rm32,
            (1, false) => Code::Movzx_r32_rm8,
            (2, false) => Code::Movzx_r32_rm16,
            (4, false) => Code::Mov_r32_rm32,
            _ => Code::Mov_r64_rm64,
        };
        let narrow = matches!(code, Code::Movzx_r32_rm8 | Code::Movzx_r32_rm16 | Code::Mov_r32_rm32);
        self.read_memory(code, if narrow { renamed(register, Register::EAX) } else { register }, place)
    }

    /// Writes the low bytes of a register, as many as the element has.
    pub(super) fn store_int(&mut self, register: Register, elem: Elem, place: Place) -> Result<(), CodegenError> {
        let (code, register) = match elem.size_bytes() {
            1 => (Code::Mov_rm8_r8, GPR8[number(register) as usize]),
            2 => (Code::Mov_rm16_r16, renamed(register, Register::AX)),
            4 => (Code::Mov_rm32_r32, renamed(register, Register::EAX)),
            _ => (Code::Mov_rm64_r64, register),
        };
        self.write_memory(code, place, register)
    }

    /// Sets the flags by whether a byte is zero.
    pub(super) fn test_byte(&mut self, place: Place) -> Result<(), CodegenError> {
        self.compare_byte(place, 0)
    }

    /// Sets the flags by a byte less a number.
    pub(super) fn compare_byte(&mut self, place: Place, number: u8) -> Result<(), CodegenError> {
        self.byte_and_number(Code::Cmp_rm8_imm8, place, number)
    }

    /// Writes a number to a byte.
    pub(super) fn set_byte(&mut self, place: Place, number: u8) -> Result<(), CodegenError> {
        self.byte_and_number(Code::Mov_rm8_imm8, place, number)
    }

    fn byte_and_number(&mut self, code: Code, place: Place, number: u8) -> Result<(), CodegenError> {
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        memory_at(&mut encoded, 0, place);
        encoded.set_op_kind(1, OpKind::Immediate8);
        encoded.set_immediate8(number);
        self.encode(&encoded, None)
    }

    /// Jumps over what follows, up to [`Self::land`], if the last result was zero, or what was compared is equal.
    pub(super) fn skip_if_zero(&mut self) -> usize {
        self.stats.insts += 1;
        self.bytes(&[0x0f, 0x84, 0, 0, 0, 0]);
        self.position
    }

    /// Where a jump of [`Self::skip_if_zero`] leads.
    pub(super) fn land(&mut self, skip: usize) {
        self.skips.push((skip, self.position));
    }
}

/// The number of a general-purpose register by its 64-bit name.
fn number(register: Register) -> u32 {
    register as u32 - Register::RAX as u32
}

/// The register of the same number whose kind starts with `first`.
fn renamed(register: Register, first: Register) -> Register {
    first + number(register)
}

fn memory_at(encoded: &mut Instruction, n: u32, place: Place) {
    encoded.set_op_kind(n, OpKind::Memory);
    encoded.set_memory_base(place.base);
    if let Some((index, scale)) = place.index {
        encoded.set_memory_index(index);
        encoded.set_memory_index_scale(u32::from(scale));
    }
    encoded.set_memory_displ_size(u32::from(place.disp != 0));
    encoded.set_memory_displacement64(i64::from(place.disp).cast_unsigned());
}
