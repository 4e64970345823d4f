//! Machine instructions before and after register allocation, and the blocks they stand in.
//!
//! An instruction is an `iced-x86` code with its explicit operands in order. Registers are numbers into the list of
//! operands that the allocator sees, so the same value serves both sides of allocation.

use super::lanes::LaneOp;
use iced_x86::{Code, OpKind, Register};
use regalloc2::{Operand, PRegSet, RegClass, VReg};
use smallvec::SmallVec;

/// General-purpose registers.
pub(super) const INT: RegClass = RegClass::Int;
/// Vector registers, floats included.
pub(super) const VECTOR: RegClass = RegClass::Float;
/// AVX-512 mask registers.
pub(super) const MASK: RegClass = RegClass::Vector;

/// Which vector instructions the target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// AVX2 and FMA: 16 registers of 256 bits, masks in vector registers.
    Vex,
    /// AVX-512 F, VL, BW, DQ: 32 registers of 512 bits, mask registers.
    Evex,
}

/// Width of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    /// 128 bits.
    X,
    /// 256 bits.
    Y,
    /// 512 bits.
    Z,
}

impl Width {
    /// The narrowest width that holds so many bits.
    pub(super) const fn of_bits(bits: u32) -> Self {
        match bits {
            0..=128 => Width::X,
            129..=256 => Width::Y,
            _ => Width::Z,
        }
    }

    /// In bytes.
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Width::X => 16,
            Width::Y => 32,
            Width::Z => 64,
        }
    }

    /// How registers of this width are named.
    pub(super) const fn view(self) -> View {
        match self {
            Width::X => View::X,
            Width::Y => View::Y,
            Width::Z => View::Z,
        }
    }
}

/// Which part of a register an operand names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    R8,
    R16,
    R32,
    R64,
    X,
    Y,
    Z,
    K,
}

/// A tile register, which nobody allocates.
fn tile_register(tile: u8) -> Register {
    Register::TMM0 + u32::from(tile)
}

/// An explicit operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// The n-th allocated operand.
    Reg(u8, View),
    /// [`MachInst::mem`].
    Mem,
    /// A number, with the form that the code wants.
    Imm(OpKind, i64),
    /// A register that the allocator does not know.
    Fixed(Register),
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base<R> {
    /// A register.
    Reg(R),
    /// An entry of the constant pool, by byte offset.
    Pool(u32),
}

/// `base + index·scale + disp`; `R` is a virtual register, or an operand number inside an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<R> {
    /// Start.
    pub base: Base<R>,
    /// Index register: a general-purpose one, or a vector for gathers.
    pub index: Option<(R, View)>,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Constant bytes.
    pub disp: i32,
    /// One element is read and splat (AVX-512).
    pub broadcast: bool,
}

/// A register or memory, where an instruction takes either.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegMem {
    Reg(VReg),
    Mem(Address<VReg>),
}

/// A condition of the flags register; the discriminant is its number in `jcc`, `setcc` and `cmovcc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Flag {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Less = 12,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
    Greater = 15,
}

impl Flag {
    /// The opposite condition.
    pub(super) const fn inverted(self) -> Self {
        match self {
            Flag::Below => Flag::AboveOrEqual,
            Flag::AboveOrEqual => Flag::Below,
            Flag::Equal => Flag::NotEqual,
            Flag::NotEqual => Flag::Equal,
            Flag::BelowOrEqual => Flag::Above,
            Flag::Above => Flag::BelowOrEqual,
            Flag::Less => Flag::GreaterOrEqual,
            Flag::GreaterOrEqual => Flag::Less,
            Flag::LessOrEqual => Flag::Greater,
            Flag::Greater => Flag::LessOrEqual,
        }
    }
}

/// A block by its number in layout order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockId(pub u32);

/// What an instruction is, beside its operands.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// One machine instruction.
    Plain,
    /// Defines the parameters in the registers of the calling convention.
    Params,
    /// Leaves the function.
    Return,
    /// Goes on at a block.
    Jump(BlockId),
    /// Goes on at the first block if the condition holds, else at the second.
    Branch(Flag, BlockId, BlockId),
    /// Gives tile registers their sizes, an entry of the constant pool by byte offset, unless they have them: what they have is told
    /// by a number.
    ConfigureTiles {
        /// The number, from 1 on.
        number: u8,
        /// Where in the pool.
        pool: u32,
    },
    /// Works lane by lane through the stack; see [`super::lanes`].
    Lanes(Box<LaneOp>),
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct MachInst {
    pub kind: Kind,
    pub code: Code,
    pub args: SmallVec<[Arg; 4]>,
    pub mem: Option<Address<u8>>,
    /// Operand number of the mask register that predicates it.
    pub mask: Option<u8>,
    /// Lanes off become zero rather than stay.
    pub zeroing: bool,
    /// What the register allocator sees.
    pub operands: SmallVec<[Operand; 6]>,
    /// Registers that it destroys beside its results.
    pub clobbers: PRegSet,
}

impl MachInst {
    /// An instruction without operands.
    pub(super) fn new(code: Code) -> Self {
        Self::of_kind(Kind::Plain, code)
    }

    /// Something other than a plain machine instruction.
    pub(super) fn of_kind(kind: Kind, code: Code) -> Self {
        Self {
            kind,
            code,
            args: SmallVec::new(),
            mem: None,
            mask: None,
            zeroing: false,
            operands: SmallVec::new(),
            clobbers: PRegSet::empty(),
        }
    }

    /// Adds an operand for the allocator alone; gives its number.
    pub(super) fn operand(&mut self, operand: Operand) -> u8 {
        self.operands.push(operand);
        (self.operands.len() - 1) as u8
    }

    /// The next explicit operand is a register written.
    pub(super) fn def(mut self, reg: VReg, view: View) -> Self {
        let n = self.operand(Operand::reg_def(reg));
        self.args.push(Arg::Reg(n, view));
        self
    }

    /// The next explicit operand is a register read and written: `source` going in, `result` coming out.
    pub(super) fn modify(mut self, source: VReg, result: VReg, view: View) -> Self {
        let input = self.operand(Operand::reg_use(source));
        let n = self.operand(Operand::reg_reuse_def(result, usize::from(input)));
        self.args.push(Arg::Reg(n, view));
        self
    }

    /// The next explicit operand is a register read.
    pub(super) fn reg(mut self, reg: VReg, view: View) -> Self {
        let n = self.operand(Operand::reg_use(reg));
        self.args.push(Arg::Reg(n, view));
        self
    }

    /// The next explicit operand is memory.
    pub(super) fn mem(mut self, address: &Address<VReg>) -> Self {
        let base = match address.base {
            Base::Reg(reg) => Base::Reg(self.operand(Operand::reg_use(reg))),
            Base::Pool(offset) => Base::Pool(offset),
        };
        let index = address.index.map(|(reg, view)| (self.operand(Operand::reg_use(reg)), view));
        let Address { scale, disp, broadcast, .. } = *address;
        self.mem = Some(Address { base, index, scale, disp, broadcast });
        self.args.push(Arg::Mem);
        self
    }

    /// The next explicit operand is a register or memory, read.
    pub(super) fn rm(self, source: &RegMem, view: View) -> Self {
        match source {
            RegMem::Reg(reg) => self.reg(*reg, view),
            RegMem::Mem(address) => self.mem(address),
        }
    }

    /// The next explicit operand is a tile register.
    pub(super) fn tile(mut self, tile: u8) -> Self {
        self.args.push(Arg::Fixed(tile_register(tile)));
        self
    }

    /// The next explicit operand is an unsigned byte.
    pub(super) fn imm8(mut self, value: u8) -> Self {
        self.args.push(Arg::Imm(OpKind::Immediate8, i64::from(value)));
        self
    }

    /// The next explicit operand is a number of the given form.
    pub(super) fn imm(mut self, kind: OpKind, value: i64) -> Self {
        self.args.push(Arg::Imm(kind, value));
        self
    }

    /// Lanes off in the mask become zero.
    pub(super) fn zeroed_by(mut self, mask: VReg) -> Self {
        self.mask = Some(self.operand(Operand::reg_use(mask)));
        self.zeroing = true;
        self
    }

    /// Lanes off in the mask are left alone.
    pub(super) fn masked_by(mut self, mask: VReg) -> Self {
        self.mask = Some(self.operand(Operand::reg_use(mask)));
        self
    }
}

/// A block: straight-line code with one branch at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct MachBlock {
    /// Values handed over by the branches that lead here.
    pub params: Vec<VReg>,
    /// The last one leaves the block.
    pub insts: Vec<MachInst>,
    /// Per successor: the values handed to it.
    pub args: Vec<Vec<VReg>>,
    /// The top of a loop that contains no other.
    pub innermost_header: bool,
    /// Part of a loop that contains no other.
    pub innermost: bool,
}

/// A function ready for register allocation.
#[derive(Clone, Debug)]
pub(super) struct MachFunction {
    /// In layout order; the first is the entry.
    pub blocks: Vec<MachBlock>,
    /// Number of virtual registers.
    pub vregs: usize,
    /// Constants, to stand behind the code.
    pub pool: super::pool::Pool,
}
