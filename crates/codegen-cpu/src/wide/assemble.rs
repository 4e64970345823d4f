//! From allocated instructions to bytes: frame, moves, jumps, constants.
//!
//! Blocks are laid out in their order; one that only jumps on and needs no moves disappears, its predecessors jump to
//! where it leads. Backward jumps take the short form when they can. Headers of innermost loops are aligned to 32
//! bytes, so that a tight loop fills as few fetch windows as possible.

use super::alloc::{Layout, RSP};
use super::codes;
use super::frame::{Frame, VECTOR_ALIGNMENT};
use super::inst::{Address, Arg, Base, BlockId, Encoding, Flag, INT, Kind, MASK, MachFunction, MachInst, View, Width};
use super::lanes::{self, Place};
use super::listing;
use crate::CodegenError;
use crate::object::{CompiledFunction, Stats};
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};
use regalloc2::{Allocation, Edit, InstOrEdit, Output, PReg, RegClass};

/// Where loop headers start.
const LOOP_ALIGNMENT: usize = 32;

/// Writes the code of a function.
///
/// # Errors
/// [`CodegenError::Encoding`] if an instruction does not exist, which is a bug in selection.
pub(super) fn assemble(
    function: &MachFunction,
    allocation: &Output,
    layout: &Layout<'_>,
    encoding: Encoding,
    width: Width,
    mut listing: Option<&mut String>,
) -> Result<CompiledFunction, CodegenError> {
    let mut assembler = Assembler {
        encoder: Encoder::new(64),
        position: 0,
        encoding,
        width,
        labels: vec![None; function.blocks.len()],
        jumps: Vec::new(),
        skips: Vec::new(),
        pool_uses: Vec::new(),
        frame: Frame::of(allocation, function),
        stats: Stats::default(),
        listing: listing.is_some().then(String::new),
        vectors_dirty: function.uses_vectors(),
    };
    let mut blocks = Blocks { function, allocation, layout, leads_to: Vec::new() };
    blocks.leads_to = (0..function.blocks.len()).map(|n| blocks.destination(n)).collect();
    assembler.prologue()?;
    for n in 0..function.blocks.len() {
        if blocks.leads_to[n] == n {
            assembler.block(&blocks, n)?;
        }
    }
    if let (Some(out), Some(text)) = (listing.take(), assembler.listing.take()) {
        *out = text;
    }
    assembler.finish(function)
}

impl MachFunction {
    fn uses_vectors(&self) -> bool {
        self.blocks.iter().flat_map(|block| &block.insts).any(|inst| {
            matches!(inst.kind, Kind::Lanes(_))
                || inst.args.iter().any(|arg| matches!(arg, Arg::Reg(_, View::X | View::Y | View::Z)))
        })
    }
}

/// The blocks with the jumps between them.
struct Blocks<'a> {
    function: &'a MachFunction,
    allocation: &'a Output,
    layout: &'a Layout<'a>,
    /// Per block: itself, or where a block without code leads.
    leads_to: Vec<usize>,
}

impl Blocks<'_> {
    fn destination(&self, mut block: usize) -> usize {
        // The entry holds the parameters, so following jumps ends at the latest after all blocks.
        for _ in 0..self.function.blocks.len() {
            let insts = &self.function.blocks[block].insts;
            let [MachInst { kind: Kind::Jump(next), .. }] = insts.as_slice() else { break };
            let number = regalloc2::Block::new(block);
            let moves = self.allocation.block_insts_and_edits(self.layout, number).any(|item| match item {
                InstOrEdit::Edit(Edit::Move { from, to }) => from != to,
                InstOrEdit::Inst(_) => false,
            });
            if moves || block == 0 {
                break;
            }
            block = next.0 as usize;
        }
        block
    }

    fn next_in_layout(&self, block: usize) -> Option<usize> {
        (block + 1..self.function.blocks.len()).find(|&n| self.leads_to[n] == n)
    }
}

pub(super) struct Assembler {
    encoder: Encoder,
    pub(super) position: usize,
    pub(super) encoding: Encoding,
    width: Width,
    labels: Vec<Option<usize>>,
    /// Ends of 32-bit displacements and the blocks they lead to.
    jumps: Vec<(usize, usize)>,
    /// As `jumps`, inside lane-by-lane sequences: ends of displacements and the positions they lead to.
    pub(super) skips: Vec<(usize, usize)>,
    /// Per access: position of the displacement, end of the instruction, offset of the constant.
    pool_uses: Vec<(usize, usize, u32)>,
    frame: Frame,
    pub(super) stats: Stats,
    /// The text of what was written so far, if anybody wants it.
    listing: Option<String>,
    vectors_dirty: bool,
}

impl Assembler {
    fn prologue(&mut self) -> Result<(), CodegenError> {
        for reg in self.frame.saved.clone() {
            self.push_reg(Code::Push_r64, reg)?;
        }
        if self.frame.size == 0 {
            return Ok(());
        }
        if self.frame.aligned {
            // r11 carries nothing at this point.
            self.simple(Code::Mov_r64_rm64, &[gpr64(11), gpr64(RSP)])?;
        }
        self.with_imm(Code::Sub_rm64_imm32, RSP, self.frame.size as i64)?;
        if self.frame.aligned {
            self.with_imm(Code::And_rm64_imm8, RSP, -(VECTOR_ALIGNMENT as i64))?;
            self.stack(Code::Mov_rm64_r64, gpr64(11), self.frame.size as i32 - 8, true)?;
        }
        if let Some(slot) = self.frame.tiles {
            self.set_byte(Place { base: Register::RSP, index: None, disp: slot }, 0)?;
        }
        Ok(())
    }

    fn epilogue(&mut self) -> Result<(), CodegenError> {
        if self.vectors_dirty {
            self.simple(Code::VEX_Vzeroupper, &[])?;
        }
        if self.frame.tiles.is_some() {
            // Whoever saves a thread's state has less to save.
            self.simple(Code::VEX_Tilerelease, &[])?;
        }
        if self.frame.aligned {
            self.stack(Code::Mov_r64_rm64, gpr64(RSP), self.frame.size as i32 - 8, false)?;
        } else if self.frame.size > 0 {
            self.with_imm(Code::Add_rm64_imm32, RSP, self.frame.size as i64)?;
        }
        for reg in self.frame.saved.clone().into_iter().rev() {
            self.push_reg(Code::Pop_r64, reg)?;
        }
        self.simple(Code::Retnq, &[])
    }

    fn block(&mut self, blocks: &Blocks<'_>, n: usize) -> Result<(), CodegenError> {
        let block = &blocks.function.blocks[n];
        if block.innermost_header {
            self.align(LOOP_ALIGNMENT);
        }
        self.labels[n] = Some(self.position);
        self.note(|| format!("block {n}:\n"));
        for item in blocks.allocation.block_insts_and_edits(blocks.layout, regalloc2::Block::new(n)) {
            match item {
                InstOrEdit::Edit(Edit::Move { from, to }) => self.edit(*from, *to, block.innermost)?,
                InstOrEdit::Inst(number) => {
                    let inst = blocks.layout.inst(number);
                    let allocs = blocks.allocation.inst_allocs(number);
                    match &inst.kind {
                        Kind::Jump(to) => self.jump(blocks, n, None, *to),
                        Kind::Branch(flag, yes, no) => self.branch(blocks, n, *flag, *yes, *no),
                        _ => self.inst(inst, allocs)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn branch(&mut self, blocks: &Blocks<'_>, n: usize, flag: Flag, yes: BlockId, no: BlockId) {
        let next = blocks.next_in_layout(n);
        if next == Some(blocks.leads_to[yes.0 as usize]) {
            self.jump(blocks, n, Some(flag.inverted()), no);
        } else {
            self.jump(blocks, n, Some(flag), yes);
            self.jump(blocks, n, None, no);
        }
    }

    fn jump(&mut self, blocks: &Blocks<'_>, from: usize, flag: Option<Flag>, to: BlockId) {
        let to = blocks.leads_to[to.0 as usize];
        if flag.is_none() && blocks.next_in_layout(from) == Some(to) {
            return;
        }
        self.stats.insts += 1;
        let position = self.position;
        self.note(|| match flag {
            Some(flag) => format!("{position:6x}  jump to block {to} if {flag:?}\n"),
            None => format!("{position:6x}  jump to block {to}\n"),
        });
        if let Some(target) = self.labels[to] {
            let short = target as i64 - (self.position as i64 + 2);
            if let Ok(short) = i8::try_from(short) {
                let opcode = flag.map_or(0xeb, |flag| 0x70 + flag as u8);
                return self.bytes(&[opcode, short.cast_unsigned()]);
            }
        }
        match flag {
            Some(flag) => self.bytes(&[0x0f, 0x80 + flag as u8, 0, 0, 0, 0]),
            None => self.bytes(&[0xe9, 0, 0, 0, 0]),
        }
        self.jumps.push((self.position, to));
    }

    fn inst(&mut self, inst: &MachInst, allocs: &[Allocation]) -> Result<(), CodegenError> {
        match &inst.kind {
            Kind::Params => Ok(()),
            Kind::Return => self.epilogue(),
            Kind::ConfigureTiles { number, pool } => self.configure_tiles(*number, *pool),
            Kind::Lanes(op) => {
                let regs: Vec<PReg> = allocs.iter().filter_map(|alloc| alloc.as_reg()).collect();
                lanes::expand(self, op, &regs)
            }
            Kind::Jump(_) | Kind::Branch(..) | Kind::Plain => {
                let register = |n: u8, view: View| {
                    let reg = allocs[usize::from(n)].as_reg().expect("operands are constrained to registers");
                    named(reg, view)
                };
                let mut encoded = Instruction::default();
                encoded.set_code(inst.code);
                let mut pool = None;
                for (n, arg) in inst.args.iter().enumerate() {
                    let n = n as u32;
                    match *arg {
                        Arg::Reg(operand, view) => {
                            encoded.set_op_kind(n, OpKind::Register);
                            encoded.set_op_register(n, register(operand, view));
                        }
                        Arg::Fixed(register) => {
                            encoded.set_op_kind(n, OpKind::Register);
                            encoded.set_op_register(n, register);
                        }
                        Arg::Imm(kind, value) => {
                            encoded.set_op_kind(n, kind);
                            set_immediate(&mut encoded, kind, value);
                        }
                        Arg::Mem => {
                            let address = inst.mem.as_ref().expect("a memory operand has an address");
                            pool = set_memory(&mut encoded, n, address, register);
                        }
                    }
                }
                if let Some(mask) = inst.mask {
                    encoded.set_op_mask(register(mask, View::K));
                    encoded.set_zeroing_masking(inst.zeroing);
                }
                let vector = inst.args.iter().any(|arg| matches!(arg, Arg::Reg(_, View::X | View::Y | View::Z)));
                self.stats.vector_insts += u32::from(vector);
                self.encode(&encoded, pool)
            }
        }
    }

    /// Gives tile registers their sizes, unless they have them. The flags are lost.
    fn configure_tiles(&mut self, number: u8, pool: u32) -> Result<(), CodegenError> {
        let slot = self.frame.tiles.expect("a frame of a function with tile registers has a place for that");
        let place = Place { base: Register::RSP, index: None, disp: slot };
        self.compare_byte(place, number)?;
        let skip = self.skip_if_zero();
        let mut configure = Instruction::default();
        configure.set_code(Code::VEX_Ldtilecfg_m512);
        let address = Address { base: Base::Pool(pool), index: None, scale: 1, disp: 0, broadcast: false };
        let pool = set_memory(&mut configure, 0, &address, |_, _| Register::None);
        self.encode(&configure, pool)?;
        self.set_byte(place, number)?;
        self.land(skip);
        Ok(())
    }

    /// A move that the allocator wants.
    fn edit(&mut self, from: Allocation, to: Allocation, innermost: bool) -> Result<(), CodegenError> {
        if from == to {
            return Ok(());
        }
        let spill = from.is_stack() || to.is_stack();
        if innermost {
            self.stats.inner_loop_spills += u32::from(spill);
            self.stats.inner_loop_moves += u32::from(!spill);
        }
        self.stats.spills += u32::from(spill);
        let class = from.as_reg().or(to.as_reg()).map_or(INT, |reg| reg.class());
        let (load, store, view) = match class {
            RegClass::Int => (Code::Mov_r64_rm64, Code::Mov_rm64_r64, View::R64),
            MASK => (Code::VEX_Kmovq_kr_km64, Code::VEX_Kmovq_m64_kr, View::K),
            RegClass::Float => {
                let store = codes::STORE_F32.code(self.encoding, self.width);
                (codes::LOAD_F32.code(self.encoding, self.width), store, self.width.view())
            }
        };
        match (from.as_reg(), to.as_reg()) {
            (Some(from), Some(to)) => {
                let code = if class == RegClass::Float { codes::MOVE.code(self.encoding, self.width) } else { load };
                self.simple(code, &[named(to, view), named(from, view)])
            }
            (Some(from), None) => {
                let slot = self.frame.slot(to).expect("what is no register is a slot");
                self.stack(store, named(from, view), slot, true)
            }
            (None, Some(to)) => {
                let slot = self.frame.slot(from).expect("what is no register is a slot");
                self.stack(load, named(to, view), slot, false)
            }
            (None, None) => Err(CodegenError::Allocation { message: "a move from stack to stack".to_owned() }),
        }
    }

    fn finish(mut self, function: &MachFunction) -> Result<CompiledFunction, CodegenError> {
        let mut code = self.encoder.take_buffer();
        for &(end, block) in &self.jumps {
            let target = self.labels[block].ok_or_else(|| CodegenError::Allocation {
                message: format!("block {block} is jumped to but has no code"),
            })?;
            let distance = (target as i64 - end as i64) as i32;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        for &(end, target) in &self.skips {
            let distance = (target - end) as i32;
            code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        if !function.pool.bytes().is_empty() {
            let start = code.len().next_multiple_of(VECTOR_ALIGNMENT);
            // What lies between is never run; int3 says so.
            code.resize(start, 0xcc);
            code.extend_from_slice(function.pool.bytes());
            for &(at, end, offset) in &self.pool_uses {
                let distance = ((start + offset as usize) as i64 - end as i64) as i32;
                code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        Ok(CompiledFunction {
            code,
            emitter: crate::object::Emitter::Wide,
            vector_bits: self.width.bytes() * 8,
            stats: self.stats,
        })
    }

    fn align(&mut self, alignment: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0],
            &[0x0f, 0x1f, 0x44, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        ];
        let mut gap = self.position.next_multiple_of(alignment) - self.position;
        while gap > 0 {
            let length = gap.min(NOPS.len());
            self.bytes(NOPS[length - 1]);
            gap -= length;
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.encoder.write_u8(byte));
        self.position += bytes.len();
    }

    pub(super) fn encode(&mut self, instruction: &Instruction, pool: Option<u32>) -> Result<(), CodegenError> {
        let length = self
            .encoder
            .encode(instruction, self.position as u64)
            .map_err(|source| CodegenError::Encoding { code: format!("{:?}", instruction.code()), source })?;
        let position = self.position;
        self.note(|| format!("{position:6x}  {}\n", listing::text(instruction, pool)));
        if let Some(offset) = pool {
            let at = self.position + self.encoder.get_constant_offsets().displacement_offset();
            self.pool_uses.push((at, self.position + length, offset));
        }
        self.position += length;
        self.stats.insts += 1;
        Ok(())
    }

    /// Adds to the listing.
    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(listing) = &mut self.listing {
            listing.push_str(&line());
        }
    }

    /// An instruction on registers alone.
    pub(super) fn simple(&mut self, code: Code, registers: &[Register]) -> Result<(), CodegenError> {
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        for (n, &register) in registers.iter().enumerate() {
            encoded.set_op_kind(n as u32, OpKind::Register);
            encoded.set_op_register(n as u32, register);
        }
        self.encode(&encoded, None)
    }

    fn push_reg(&mut self, code: Code, reg: usize) -> Result<(), CodegenError> {
        self.simple(code, &[gpr64(reg)])
    }

    /// A 64-bit register and a sign-extended number.
    fn with_imm(&mut self, code: Code, reg: usize, value: i64) -> Result<(), CodegenError> {
        let kind = match code {
            Code::And_rm64_imm8 => OpKind::Immediate8to64,
            _ => OpKind::Immediate32to64,
        };
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        encoded.set_op_kind(0, OpKind::Register);
        encoded.set_op_register(0, gpr64(reg));
        encoded.set_op_kind(1, kind);
        set_immediate(&mut encoded, kind, value);
        self.encode(&encoded, None)
    }

    /// A register and a place in the frame, which comes first for stores.
    fn stack(&mut self, code: Code, register: Register, disp: i32, store: bool) -> Result<(), CodegenError> {
        let (memory, other) = if store { (0, 1) } else { (1, 0) };
        let mut encoded = Instruction::default();
        encoded.set_code(code);
        encoded.set_op_kind(other, OpKind::Register);
        encoded.set_op_register(other, register);
        encoded.set_op_kind(memory, OpKind::Memory);
        encoded.set_memory_base(Register::RSP);
        encoded.set_memory_displ_size(u32::from(disp != 0));
        encoded.set_memory_displacement64(i64::from(disp).cast_unsigned());
        self.encode(&encoded, None)
    }
}

/// Fills in a memory operand; gives the constant it reads, if it is one.
fn set_memory(
    encoded: &mut Instruction,
    n: u32,
    address: &Address<u8>,
    register: impl Fn(u8, View) -> Register,
) -> Option<u32> {
    encoded.set_op_kind(n, OpKind::Memory);
    encoded.set_is_broadcast(address.broadcast);
    match address.base {
        Base::Reg(base) => {
            encoded.set_memory_base(register(base, View::R64));
            if let Some((index, view)) = address.index {
                encoded.set_memory_index(register(index, view));
                encoded.set_memory_index_scale(u32::from(address.scale));
            }
            encoded.set_memory_displ_size(u32::from(address.disp != 0));
            encoded.set_memory_displacement64(i64::from(address.disp).cast_unsigned());
            None
        }
        Base::Pool(offset) => {
            // Patched when the pool's place is known.
            encoded.set_memory_base(Register::RIP);
            encoded.set_memory_displ_size(8);
            encoded.set_memory_displacement64(0);
            Some(offset)
        }
    }
}

pub(super) fn set_immediate(encoded: &mut Instruction, kind: OpKind, value: i64) {
    match kind {
        OpKind::Immediate8 => encoded.set_immediate8(value as u8),
        OpKind::Immediate8to32 => encoded.set_immediate8to32(value as i32),
        OpKind::Immediate8to64 => encoded.set_immediate8to64(value),
        OpKind::Immediate16 => encoded.set_immediate16(value as u16),
        OpKind::Immediate32 => encoded.set_immediate32(value as u32),
        OpKind::Immediate32to64 => encoded.set_immediate32to64(value),
        _ => encoded.set_immediate64(value.cast_unsigned()),
    }
}

fn gpr64(n: usize) -> Register {
    named(PReg::new(n, INT), View::R64)
}

/// The register of the encoder for one of the allocator.
pub(super) fn named(reg: PReg, view: View) -> Register {
    let first = match view {
        View::R8 => return GPR8[reg.hw_enc()],
        View::R16 => Register::AX,
        View::R32 => Register::EAX,
        View::R64 => Register::RAX,
        View::X => Register::XMM0,
        View::Y => Register::YMM0,
        View::Z => Register::ZMM0,
        View::K => Register::K0,
    };
    first + reg.hw_enc() as u32
}

/// Byte registers are not numbered through in the encoder's list, which has the high bytes among them.
pub(super) const GPR8: [Register; 16] = [
    Register::AL,
    Register::CL,
    Register::DL,
    Register::BL,
    Register::SPL,
    Register::BPL,
    Register::SIL,
    Register::DIL,
    Register::R8L,
    Register::R9L,
    Register::R10L,
    Register::R11L,
    Register::R12L,
    Register::R13L,
    Register::R14L,
    Register::R15L,
];
