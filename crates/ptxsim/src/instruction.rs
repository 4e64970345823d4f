//! Instructions as they are executed.

use crate::group::GroupMma;
use crate::matrix::Factor;
use crate::types::Ty;

/// A register, by its number among all of a function's.
pub(crate) type Reg = u32;

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    Reg(Reg),
    /// The bits of a number in the type of the instruction.
    Bits(u64),
}

/// State spaces that instructions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
        }
    }
}

/// `[base+offset]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Src,
    pub(crate) offset: i64,
}

/// What computes one value of values of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compute {
    Mov,
    Add,
    Sub,
    MulLo,
    MulHi,
    MadLo,
    /// The product and the sum are twice as wide as the factors.
    MulWide,
    MadWide,
    Div,
    Rem,
    Min,
    Max,
    /// NaN wins.
    MinNan,
    MaxNan,
    Neg,
    Abs,
    And,
    Or,
    Xor,
    Not,
    Shl,
    Shr,
    Mul,
    Fma,
    Sqrt,
    Reciprocal,
    CopySign,
    Exp2,
    Log2,
    Tanh,
    Selp,
}

/// Comparisons; those with `u` hold for NaN as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Neu,
    Nan,
    Num,
}

/// Rounding of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// None is named: the conversion is exact, or one of integers.
    None,
    /// To the nearest value of the type, ties to even.
    Nearest,
    /// Of an f32, to the nearest with 13 bits less, ties away from zero.
    NearestTf32,
    /// To a whole number: nearest, down, up, towards zero.
    NearestInt,
    DownInt,
    UpInt,
    ZeroInt,
}

/// A coordinate or extent of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
}

/// How `shfl.sync` finds the lane to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    Compute {
        op: Compute,
        ty: Ty,
        dst: Reg,
        srcs: [Src; 3],
    },
    Compare {
        compare: Compare,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
    },
    Convert {
        round: Round,
        to: Ty,
        from: Ty,
        dst: Reg,
        src: Src,
    },
    /// Parts of equal width become one value, the first lowest.
    Pack {
        dst: Reg,
        parts: Vec<Src>,
        part_bits: u32,
    },
    Unpack {
        dsts: Vec<Reg>,
        src: Src,
        part_bits: u32,
    },
    Special {
        dst: Reg,
        what: Special,
    },
    LoadParameter {
        dst: Reg,
        parameter: usize,
    },
    Load {
        space: Space,
        read_only: bool,
        ty: Ty,
        dsts: Vec<Reg>,
        from: Address,
    },
    Store {
        space: Space,
        ty: Ty,
        srcs: Vec<Src>,
        to: Address,
    },
    /// `bytes` are written; those beyond `source_bytes` are zeros.
    CopyAsync {
        to: Address,
        from: Address,
        bytes: u64,
        source_bytes: Option<Src>,
    },
    CommitGroup,
    WaitGroup {
        pending: usize,
    },
    Barrier,
    Shuffle {
        mode: Shuffle,
        dst: Reg,
        valid: Option<Reg>,
        src: Src,
        lane: Src,
        clamp: Src,
        members: Src,
    },
    /// `sum = a·b + c` by a warp: 16×8 elements, of f32 or s32.
    Mma {
        a_type: Factor,
        b_type: Factor,
        sum: [Reg; 4],
        a: [Src; 4],
        b: [Src; 2],
        c: [Src; 4],
    },
    /// 8×8 matrices of halves from shared memory, one per register.
    LoadMatrix {
        dsts: Vec<Reg>,
        from: Address,
        transposed: bool,
    },
    /// A product by four warps, which happens when it is waited for.
    GroupMma(GroupMma),
    /// Registers written before it are there for products behind it.
    GroupFence,
    GroupCommit,
    GroupWait {
        pending: usize,
    },
    /// What the thread has written to shared memory is there for products.
    ProxyFence,
    /// Waits for the launches before this one, which may have begun before they ended.
    GridWait,
    Branch {
        to: usize,
    },
    Return,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) line: u32,
    /// Executed where the predicate has this value.
    pub(crate) guard: Option<(Reg, bool)>,
    pub(crate) operation: Operation,
}
