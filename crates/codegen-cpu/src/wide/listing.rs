//! Instructions as text, for people: dumps of a kernel and bug reports. Nothing parses it.

use iced_x86::{Instruction, OpKind, Register};
use std::fmt::Write as _;

/// One instruction, destination first.
pub(super) fn text(instruction: &Instruction, pool: Option<u32>) -> String {
    let mut line = lower(&instruction.mnemonic());
    for n in 0..instruction.op_count() {
        line.push_str(if n == 0 { " " } else { ", " });
        match instruction.op_kind(n) {
            OpKind::Register => line.push_str(&lower(&instruction.op_register(n))),
            OpKind::Memory => line.push_str(&memory(instruction, pool)),
            _ => {
                let value = instruction.try_immediate(n).unwrap_or(0).cast_signed();
                let _ = write!(line, "{value}");
            }
        }
        if n == 0 && instruction.op_mask() != Register::None {
            let zeroing = if instruction.zeroing_masking() { "{z}" } else { "" };
            let _ = write!(line, " {{{}}}{zeroing}", lower(&instruction.op_mask()));
        }
    }
    line
}

fn memory(instruction: &Instruction, pool: Option<u32>) -> String {
    let splat = if instruction.is_broadcast() { " to all" } else { "" };
    if let Some(offset) = pool {
        return format!("[constant {offset}]{splat}");
    }
    let mut text = lower(&instruction.memory_base());
    if instruction.memory_index() != Register::None {
        let (index, scale) = (lower(&instruction.memory_index()), instruction.memory_index_scale());
        let _ = write!(text, " + {index}*{scale}");
    }
    let disp = instruction.memory_displacement64().cast_signed();
    if disp != 0 {
        let _ = write!(text, " {} {}", if disp < 0 { '-' } else { '+' }, disp.unsigned_abs());
    }
    format!("[{text}]{splat}")
}

fn lower(name: &impl std::fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}
