//! What no vector instruction does: work lane by lane through the stack.
//!
//! Operands are written to the frame, every lane goes through general-purpose registers, and the result is read back.
//! Slow next to a vector instruction, but right; schedules that care use types for which instructions exist. `rax`,
//! `rcx` and `rdx` are free for the sequences ([`super::select`] says so to the register allocator).

use super::assemble::Assembler;
use super::inst::Width;
use crate::CodegenError;
use crate::vir::{BinaryOp, Convert, Elem};
use iced_x86::{Code, OpKind, Register};
use regalloc2::PReg;

/// Room in the frame: three vectors.
pub(super) const STACK_BYTES: usize = 3 * SLOT as usize;
const SLOT: i32 = 64;

/// A lane-by-lane operation. Operands in the order given, as registers.
#[derive(Clone, Debug)]
pub(super) enum LaneOp {
    /// Dividend in `rax`, divisor, result: quotient in `rax`, remainder in `rdx`.
    Divide { signed: bool },
    /// a, b, result.
    Binary { op: BinaryOp, elem: Elem, lanes: u16, width: Width },
    /// a, result.
    Convert { kind: Convert, from: Elem, to: Elem, lanes: u16, widths: (Width, Width) },
    /// Address, mask as a vector, result.
    LoadMasked { elem: Elem, lanes: u16, width: Width },
    /// Address, mask as a vector, value.
    StoreMasked { elem: Elem, lanes: u16, width: Width },
    /// Base, mask as bits, index, result; widths of data and index.
    Gather { elem: Elem, index: Elem, lanes: u16, widths: (Width, Width), scale: u8, disp: i32 },
    /// Base, index, result: bytes of a table, by the lowest bytes of 32-bit lanes; width of the index.
    Lookup { lanes: u16, width: Width, disp: i32 },
    /// Base, mask as bits, index, value.
    Scatter { elem: Elem, index: Elem, lanes: u16, widths: (Width, Width), scale: u8, disp: i32 },
}

/// A memory operand of these sequences.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub base: Register,
    pub index: Option<(Register, u8)>,
    pub disp: i32,
}

fn stack(slot: i32, byte: u32) -> Place {
    Place { base: Register::RSP, index: None, disp: slot * SLOT + byte.cast_signed() }
}

/// Writes the instructions of an operation.
pub(super) fn expand(asm: &mut Assembler, op: &LaneOp, regs: &[PReg]) -> Result<(), CodegenError> {
    match *op {
        LaneOp::Divide { signed } => {
            let divisor = Assembler::gpr(regs[1]);
            divide(asm, signed, divisor)
        }
        LaneOp::Binary { op, elem, lanes, width } => {
            asm.store_vector(regs[0], width, stack(0, 0))?;
            asm.store_vector(regs[1], width, stack(1, 0))?;
            for lane in 0..u32::from(lanes) {
                let byte = lane * elem.size_bytes();
                binary_lane(asm, op, elem, byte)?;
            }
            asm.load_vector(regs[2], width, stack(2, 0))
        }
        LaneOp::Convert { kind, from, to, lanes, widths } => {
            asm.store_vector(regs[0], widths.1, stack(0, 0))?;
            for lane in 0..u32::from(lanes) {
                let (source, target) = (stack(0, lane * from.size_bytes()), stack(1, lane * to.size_bytes()));
                convert_lane(asm, kind, from, to, source, target, regs[1])?;
            }
            asm.load_vector(regs[1], widths.0, stack(1, 0))
        }
        LaneOp::LoadMasked { elem, lanes, width } => {
            let base = Assembler::gpr(regs[0]);
            asm.store_vector(regs[1], width, stack(0, 0))?;
            asm.store_zero(width, stack(1, 0), regs[2])?;
            for lane in 0..u32::from(lanes) {
                let byte = lane * elem.size_bytes();
                asm.test_byte(stack(0, byte))?;
                let skip = asm.skip_if_zero();
                asm.load_int(Register::RAX, elem, false, Place { base, index: None, disp: byte.cast_signed() })?;
                asm.store_int(Register::RAX, elem, stack(1, byte))?;
                asm.land(skip);
            }
            asm.load_vector(regs[2], width, stack(1, 0))
        }
        LaneOp::StoreMasked { elem, lanes, width } => {
            let base = Assembler::gpr(regs[0]);
            asm.store_vector(regs[1], width, stack(0, 0))?;
            asm.store_vector(regs[2], width, stack(1, 0))?;
            for lane in 0..u32::from(lanes) {
                let byte = lane * elem.size_bytes();
                asm.test_byte(stack(0, byte))?;
                let skip = asm.skip_if_zero();
                asm.load_int(Register::RAX, elem, false, stack(1, byte))?;
                asm.store_int(Register::RAX, elem, Place { base, index: None, disp: byte.cast_signed() })?;
                asm.land(skip);
            }
            Ok(())
        }
        LaneOp::Gather { elem, index, lanes, widths, scale, disp } => {
            asm.store_vector(regs[2], widths.1, stack(0, 0))?;
            asm.store_zero(widths.0, stack(1, 0), regs[3])?;
            for lane in 0..u32::from(lanes) {
                let (skip, there) = indexed_lane(asm, regs, lane, index, scale, disp)?;
                asm.load_int(Register::RCX, elem, false, there)?;
                asm.store_int(Register::RCX, elem, stack(1, lane * elem.size_bytes()))?;
                asm.land(skip);
            }
            asm.load_vector(regs[3], widths.0, stack(1, 0))
        }
        LaneOp::Lookup { lanes, width, disp } => {
            let (base, result) = (Assembler::gpr(regs[0]), Assembler::xmm(regs[2]));
            asm.store_vector(regs[1], width, stack(0, 0))?;
            asm.registers(Code::VEX_Vpxor_xmm_xmm_xmmm128, &[result, result, result])?;
            for lane in 0..lanes {
                asm.load_int(Register::RAX, Elem::I8, false, stack(0, u32::from(lane) * Elem::I32.size_bytes()))?;
                let place = Place { base, index: Some((Register::RAX, 1)), disp };
                asm.insert_byte(result, place, lane)?;
            }
            Ok(())
        }
        LaneOp::Scatter { elem, index, lanes, widths, scale, disp } => {
            asm.store_vector(regs[2], widths.1, stack(0, 0))?;
            asm.store_vector(regs[3], widths.0, stack(1, 0))?;
            for lane in 0..u32::from(lanes) {
                let (skip, there) = indexed_lane(asm, regs, lane, index, scale, disp)?;
                asm.load_int(Register::RCX, elem, false, stack(1, lane * elem.size_bytes()))?;
                asm.store_int(Register::RCX, elem, there)?;
                asm.land(skip);
            }
            Ok(())
        }
    }
}

/// Tests a lane's mask bit and puts its index into `rdx`; gives the jump over the lane and where its element lies.
fn indexed_lane(
    asm: &mut Assembler,
    regs: &[PReg],
    lane: u32,
    index: Elem,
    scale: u8,
    disp: i32,
) -> Result<(usize, Place), CodegenError> {
    let (base, mask) = (Assembler::gpr(regs[0]), Assembler::gpr(regs[1]));
    asm.registers(Code::Mov_r64_rm64, &[Register::RAX, mask])?;
    asm.immediate(Code::Shr_rm64_imm8, Register::RAX, OpKind::Immediate8, i64::from(lane))?;
    asm.immediate(Code::Test_rm8_imm8, Register::AL, OpKind::Immediate8, 1)?;
    let skip = asm.skip_if_zero();
    asm.load_int(Register::RDX, index, true, stack(0, lane * index.size_bytes()))?;
    Ok((skip, Place { base, index: Some((Register::RDX, scale)), disp }))
}

fn divide(asm: &mut Assembler, signed: bool, divisor: Register) -> Result<(), CodegenError> {
    if signed {
        asm.registers(Code::Cqo, &[])?;
        asm.registers(Code::Idiv_rm64, &[divisor])
    } else {
        asm.registers(Code::Xor_r32_rm32, &[Register::EDX, Register::EDX])?;
        asm.registers(Code::Div_rm64, &[divisor])
    }
}

/// One lane at `byte` of the first two slots into the third.
fn binary_lane(asm: &mut Assembler, op: BinaryOp, elem: Elem, byte: u32) -> Result<(), CodegenError> {
    let signed = matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::ShrS);
    asm.load_int(Register::RAX, elem, signed, stack(0, byte))?;
    asm.load_int(Register::RCX, elem, signed, stack(1, byte))?;
    let result = match op {
        BinaryOp::Div | BinaryOp::DivU => {
            divide(asm, signed, Register::RCX)?;
            Register::RAX
        }
        BinaryOp::Rem | BinaryOp::RemU => {
            divide(asm, signed, Register::RCX)?;
            Register::RDX
        }
        BinaryOp::Shl | BinaryOp::ShrS | BinaryOp::ShrU => {
            let code = match op {
                BinaryOp::Shl => Code::VEX_Shlx_r64_rm64_r64,
                BinaryOp::ShrS => Code::VEX_Sarx_r64_rm64_r64,
                _ => Code::VEX_Shrx_r64_rm64_r64,
            };
            asm.registers(code, &[Register::RAX, Register::RAX, Register::RCX])?;
            Register::RAX
        }
        _ => return Err(CodegenError::Unsupported { what: "a lane-by-lane operation" }),
    };
    asm.store_int(result, elem, stack(2, byte))
}

/// One 64-bit integer from or to a float; the result register is free until the result is read back.
fn convert_lane(
    asm: &mut Assembler,
    kind: Convert,
    from: Elem,
    to: Elem,
    source: Place,
    target: Place,
    temporary: PReg,
) -> Result<(), CodegenError> {
    let xmm = Assembler::xmm(temporary);
    match (kind, from, to) {
        (Convert::IntToFloat, _, Elem::F32 | Elem::F64) => {
            let (convert, store) = match to {
                Elem::F32 => (Code::VEX_Vcvtsi2ss_xmm_xmm_rm64, Code::VEX_Vmovss_m32_xmm),
                _ => (Code::VEX_Vcvtsi2sd_xmm_xmm_rm64, Code::VEX_Vmovsd_m64_xmm),
            };
            asm.load_int(Register::RAX, from, true, source)?;
            asm.registers(Code::VEX_Vpxor_xmm_xmm_xmmm128, &[xmm, xmm, xmm])?;
            asm.registers(convert, &[xmm, xmm, Register::RAX])?;
            asm.write_memory(store, target, xmm)
        }
        (Convert::FloatToInt | Convert::FloatToIntRound, Elem::F32 | Elem::F64, _) => {
            let code = match (from, kind) {
                (Elem::F32, Convert::FloatToInt) => Code::VEX_Vcvttss2si_r64_xmmm32,
                (Elem::F32, _) => Code::VEX_Vcvtss2si_r64_xmmm32,
                (_, Convert::FloatToInt) => Code::VEX_Vcvttsd2si_r64_xmmm64,
                _ => Code::VEX_Vcvtsd2si_r64_xmmm64,
            };
            asm.read_memory(code, Register::RAX, source)?;
            asm.store_int(Register::RAX, to, target)
        }
        _ => Err(CodegenError::Unsupported { what: "a lane-by-lane conversion" }),
    }
}
